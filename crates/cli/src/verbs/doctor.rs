//! `senesce doctor`: reports the capabilities of this machine and how to add missing ones.

mod conclusion;

use crate::Exit;
use crate::display::terminal_width;
use crate::experiment_text::TEXT_WIDTH;
use crate::messages::wrapped;
use crate::output::output_failed;
use crate::session::Session;
use crate::text_table::{self, wrap};
use crate::verb_table::Verb;
use clap::Args;
use conclusion::{Conclusion, KERNEL, VIRTUAL_TIME};
use senesce_core::machine::{KERNEL_ADVICE, VIRTUAL_TIME_ADVICE};
use senesce_core::{ExitCode, Failure};
use senesce_guest::kernel::{self, Kernel};
use senesce_guest::qemu::QEMU;
use senesce_guest::uml;
use senesce_runs::doctor::{Check, ROOT, State, examine};
use senesce_volume::guardian::{Outcome, SweptLeftover, sweep_and_list};
use serde_json::json;
use std::io::{self, Write};

/// Show which features work on this machine and how to add missing ones
#[derive(Args)]
pub(crate) struct Doctor {
    /// Remove mounts, loop devices and files of killed runs
    #[arg(long, help_heading = "Clean-up")]
    sweep: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Doctor {
    const NAME: &'static str = "doctor";
    const ABOUT: &'static str = "Check what works on this machine; clean up after killed runs";
    const EXAMPLES: &'static [&'static str] = &["senesce doctor", "senesce doctor --sweep"];

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        if self.sweep {
            let found = sweep_and_list()?;
            print_leftovers(&found, self.json).map_err(output_failed)?;
            let failed = found.iter().any(|one| matches!(one.outcome, Outcome::Failed(_)));
            return Ok(if failed { ExitCode::RunFailed } else { ExitCode::Done }.into());
        }
        examine_machine(self.json).map_err(output_failed)?;
        Ok(ExitCode::Done.into())
    }
}

fn examine_machine(as_json: bool) -> io::Result<()> {
    let mut checks = examine(&[&uml::BUILD_PROGRAMS[..], &uml::SOURCE_PROGRAMS].concat());
    checks.extend(kernel_checks());
    let packaged = uml::packaged_programs();
    checks.iter_mut().for_each(|check| explain(check, &packaged));
    let conclusion = Conclusion::of(&checks, &packaged);
    let mut out = crate::output::stdout();
    if as_json {
        let list: Vec<_> = checks
            .iter()
            .map(|check| json!({"what": check.what, "needed_for": check.needed_for, "ok": check.state == State::Works, "found": check.found, "remedy": check.remedy}))
            .collect();
        return writeln!(out, "{}", json!({"checks": list, "conclusion": conclusion}));
    }
    let limit = terminal_width().unwrap_or(TEXT_WIDTH);
    write_checks(&mut out, &grouped(checks), limit)?;
    wrap(&conclusion.line(), limit).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Checks for kernels of guests: any, and those with virtual time.
fn kernel_checks() -> [Check; 2] {
    let known = kernel::cached_kernels().map_err(|error| error.to_string());
    let check = |what: &str, needed_for: &str, serves: fn(&Kernel) -> bool, remedy: &str| {
        let (state, found) = match &known {
            Err(error) => (State::Missing, error.clone()),
            Ok(all) => {
                let names: Vec<&str> =
                    all.iter().filter(|kernel| serves(kernel)).map(|kernel| kernel.version.as_str()).collect();
                (if names.is_empty() { State::Missing } else { State::Works }, names.join(", "))
            }
        };
        Check { what: what.into(), needed_for: needed_for.into(), state, found, remedy: remedy.into() }
    };
    [
        check(KERNEL, "images without root", Kernel::is_user_mode, KERNEL_ADVICE),
        check(VIRTUAL_TIME, "gates, age --time-scale", Kernel::has_virtual_time, VIRTUAL_TIME_ADVICE),
    ]
}

/// Adds what needs a check: a guest of QEMU, or only the kernel of this machine because guests have `packaged` programs.
fn explain(check: &mut Check, packaged: &[String]) {
    if check.what == QEMU {
        check.needed_for = "QEMU guest (optional)".into();
        check.remedy += "; the user-mode kernel does not need it";
    } else if packaged.contains(&check.what) {
        check.remedy += " for this machine's kernel; a guest of senesce-kernel has its own";
    }
}

/// Moves the checks that only root can pass into the row of root.
fn grouped(checks: Vec<Check>) -> Vec<Check> {
    let (of_root, mut rows): (Vec<Check>, Vec<Check>) = checks.into_iter().partition(Check::lacks_root);
    if let Some(root) = rows.iter_mut().find(|check| check.what == ROOT) {
        of_root.iter().for_each(|check| root.needed_for += &format!(", {}", check.what));
    }
    rows
}

/// Writes one row for each check, and below a missing one its remedy.
fn write_checks(out: &mut impl Write, checks: &[Check], limit: usize) -> io::Result<()> {
    let row = |check: &Check| {
        let mark = if check.state == State::Works { "ok" } else { "missing" };
        vec![mark.into(), check.what.clone(), check.found.clone(), check.needed_for.clone()]
    };
    let rows: Vec<Vec<String>> = checks.iter().map(row).collect();
    let text = [false; 4];
    let even = || vec![(limit / 4).saturating_sub(text_table::GAP).max(1); 4];
    let widths = text_table::fit(&[const { String::new() }; 4], &rows, &text, limit).unwrap_or_else(even);
    let indent = widths[0] + 2 * text_table::GAP;
    for (check, row) in checks.iter().zip(&rows) {
        text_table::write_row(out, row, &text, &widths)?;
        if check.state == State::Missing {
            for line in wrap(&format!("-> {}", check.remedy), limit.saturating_sub(indent).max(1)) {
                writeln!(out, "{:indent$}{line}", "")?;
            }
        }
    }
    Ok(())
}

fn print_leftovers(found: &[SweptLeftover], as_json: bool) -> io::Result<()> {
    let mut out = crate::output::stdout();
    if as_json {
        return writeln!(out, "{}", json!(found));
    }
    if found.is_empty() {
        return writeln!(out, "no leftovers of killed processes");
    }
    for one in found {
        let outcome = match &one.outcome {
            Outcome::Undone => "undone".to_string(),
            Outcome::Gone => "was gone already".into(),
            Outcome::InUse => format!("in use by process {}", one.process),
            Outcome::OtherNamespace => format!("of process {} in another container: not touched", one.process),
            Outcome::OtherKernel => {
                "written during another boot: not touched; another kernel may share the directory".into()
            }
            Outcome::Unclaimed => "no owner: not touched; remove it by hand if it is not in use".into(),
            Outcome::Failed(why) => format!("FAILED: {why}"),
        };
        writeln!(out, "{}", wrapped(&format!("{}: {outcome}", one.what), terminal_width(), 2))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::environment::USE_SUDO;

    #[test]
    fn explained_rows_name_the_need_and_the_remedy() {
        let explained = |what: &str| {
            let (needed_for, remedy) = ("make xfs".to_string(), "apt-get install PACKAGE".to_string());
            let mut check =
                Check { what: what.into(), needed_for, state: State::Missing, found: String::new(), remedy };
            explain(&mut check, &["mkfs.xfs".into()]);
            (check.needed_for, check.remedy)
        };
        let (unchanged, install) = explained("git");
        let (_, packaged) = explained("mkfs.xfs");
        assert!(packaged.starts_with(&install) && packaged != install);
        assert_ne!(explained(QEMU).0, unchanged);
        assert_eq!(explained("self-test: cold read").1, install);
    }

    #[test]
    fn checks_that_lack_root_share_its_row() {
        let check = |what: &str, remedy: &str| {
            let (needed_for, remedy) = ("a feature".to_string(), remedy.to_string());
            Check { what: what.into(), needed_for, state: State::Missing, found: String::new(), remedy }
        };
        let checks = [
            check(ROOT, "sudo senesce doctor"),
            check("tracefs", USE_SUDO),
            check("git", "install"),
            check("x", USE_SUDO),
        ];
        let rows = grouped(checks.to_vec());
        let names: Vec<(&str, &str)> = rows.iter().map(|row| (row.what.as_str(), row.needed_for.as_str())).collect();
        assert_eq!(names, [(ROOT, "a feature, tracefs, x"), ("git", "a feature")]);
    }

    #[test]
    fn checks_fit_the_terminal_and_keep_all_words() {
        let check = |what: &str, found: &str, needed_for: &str, state| Check {
            what: what.into(),
            needed_for: needed_for.into(),
            state,
            found: found.into(),
            remedy: "modprobe loop, or run it in the guest: senesce vm run, which needs no modules of this kernel"
                .into(),
        };
        let checks = [
            check(
                "self-test: cold read",
                "8 MiB read cold: 8.1 MiB in 66 requests; read again: 0 B",
                "cold",
                State::Works,
            ),
            check("fusermount3", "/usr/bin/fusermount3", "the tiered file system as an ordinary user", State::Missing),
        ];
        let written = |limit| {
            let mut out = Vec::new();
            write_checks(&mut out, &checks, limit).unwrap();
            String::from_utf8(out).unwrap()
        };
        let narrow = written(TEXT_WIDTH);
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(narrow.lines().any(|line| line.starts_with("  missing")) && narrow.contains("/usr/bin/fusermount3"));
        let words = |text: &str| {
            let mut words: Vec<String> = text.split_whitespace().map(str::to_string).collect();
            words.sort();
            words
        };
        assert_eq!(words(&narrow), words(&written(usize::MAX)));
        assert_eq!(written(usize::MAX).lines().count(), 3);
    }
}
