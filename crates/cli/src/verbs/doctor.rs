//! `senesce doctor`: reports the capabilities of this machine and how to add missing ones.

use crate::Exit;
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure};
use senesce_runs::doctor::{State, examine};
use senesce_volume::guardian::{Outcome, SweptLeftover, sweep_and_list};
use serde_json::json;
use std::io::{self, Write};

/// Say what works on this machine and how to get what does not
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
            print_found(&found, self.json).map_err(output_failed)?;
            let failed = found.iter().any(|one| matches!(one.outcome, Outcome::Failed(_)));
            return Ok(if failed { ExitCode::RunFailed } else { ExitCode::Done }.into());
        }
        examine_machine(self.json).map_err(output_failed)?;
        Ok(ExitCode::Done.into())
    }
}

fn examine_machine(as_json: bool) -> io::Result<()> {
    let checks = examine();
    let mut out = crate::output::stdout();
    if as_json {
        let list: Vec<_> = checks
            .iter()
            .map(|check| json!({"what": check.what, "needed_for": check.needed_for, "ok": check.state == State::Works, "found": check.found, "remedy": check.remedy}))
            .collect();
        return writeln!(out, "{}", serde_json::Value::Array(list));
    }
    for check in &checks {
        let mark = if check.state == State::Works { "ok     " } else { "missing" };
        writeln!(out, "{mark}  {:<22} {:<34} {}", check.what, check.found, check.needed_for)?;
        if check.state == State::Missing {
            writeln!(out, "         {:<22} -> {}", "", check.remedy)?;
        }
    }
    Ok(())
}

fn print_found(found: &[SweptLeftover], as_json: bool) -> io::Result<()> {
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
                "written under another boot: not touched; another kernel may share the directory".into()
            }
            Outcome::Unclaimed => "no owner: not touched; remove it by hand if it is not in use".into(),
            Outcome::Failed(why) => format!("FAILED: {why}"),
        };
        writeln!(out, "{}: {outcome}", one.what)?;
    }
    Ok(())
}
