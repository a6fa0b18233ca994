//! KTAP version 1, read by kernel test harnesses (Documentation/dev-tools/ktap.rst).

use crate::junit::{Case, Status};
use std::fmt::Write;

/// Renders one plan of tests; diagnostic lines precede their result.
pub fn render(cases: &[Case]) -> String {
    let mut text = format!("KTAP version 1\n1..{}\n", cases.len());
    for (number, case) in (1..).zip(cases) {
        let name = description(&format!("{} [{}]", case.class, case.name));
        let details = case.details.lines().map(str::trim).filter(|line| !line.is_empty());
        for line in details {
            let _ = writeln!(text, "# {line}");
        }
        let _ = match &case.status {
            Status::Passed => writeln!(text, "ok {number} {name}"),
            Status::Failed(why) => writeln!(text, "not ok {number} {name} # {}", description(why)),
            Status::Skipped(why) => writeln!(text, "ok {number} {name} # SKIP {}", description(why)),
        };
    }
    text
}

/// Returns one line without a hash, which would start a directive.
fn description(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('#', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_counts_results_and_names_hold_no_directive() {
        let case =
            |name: &str, status| Case { class: "read time".into(), name: name.into(), status, details: "1\n2".into() };
        let cases = [
            case("fs=ext4", Status::Passed),
            case("a # SKIP\nok 9", Status::Failed("12 %\nslower".into())),
            case("all", Status::Skipped("undecided".into())),
        ];
        let expected = "KTAP version 1\n1..3\n\
                        # 1\n# 2\nok 1 read time [fs=ext4]\n\
                        # 1\n# 2\nnot ok 2 read time [a  SKIP ok 9] # 12 % slower\n\
                        # 1\n# 2\nok 3 read time [all] # SKIP undecided\n";
        assert_eq!(render(&cases), expected);
        assert_eq!(render(&[]), "KTAP version 1\n1..0\n");
    }
}
