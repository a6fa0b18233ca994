//! JUnit XML, read by continuous integration systems.

use crate::svg::escape;
use std::fmt::Write;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    Passed,
    Failed(String),
    Skipped(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub class: String,
    pub name: String,
    pub status: Status,
    pub details: String,
}

pub fn render(suite: &str, cases: &[Case]) -> String {
    let failures = cases.iter().filter(|case| matches!(case.status, Status::Failed(_))).count();
    let skipped = cases.iter().filter(|case| matches!(case.status, Status::Skipped(_))).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n",
        escape(suite),
        cases.len()
    );
    for case in cases {
        let _ = write!(text, "<testcase classname=\"{}\" name=\"{}\">", escape(&case.class), escape(&case.name));
        match &case.status {
            Status::Passed => {}
            Status::Failed(why) => {
                let _ = write!(text, "<failure message=\"{}\">{}</failure>", escape(why), escape(&case.details));
            }
            Status::Skipped(why) => {
                let _ = write!(text, "<skipped message=\"{}\"/>", escape(why));
            }
        }
        let _ = writeln!(text, "<system-out>{}</system-out></testcase>", escape(&case.details));
    }
    text + "</testsuite>\n</testsuites>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_messages_match_the_cases() {
        let case = |name: &str, status| Case {
            class: "throughput".into(),
            name: name.into(),
            status,
            details: "1 & 2".into(),
        };
        let text = render(
            "a < b",
            &[
                case("fs=ext4", Status::Passed),
                case("fs=xfs", Status::Failed("12 % slower".into())),
                case("fs=btrfs", Status::Skipped("one sample".into())),
            ],
        );
        assert!(text.contains("name=\"a &lt; b\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""));
        assert!(text.contains("<failure message=\"12 % slower\">1 &amp; 2</failure>"));
        assert!(text.contains("<skipped message=\"one sample\"/>"));
    }
}
