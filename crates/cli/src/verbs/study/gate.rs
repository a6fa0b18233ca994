//! `senesce study GATE.toml`: a gate, its build, and its outputs.

use super::Study;
use crate::Exit;
use crate::display::{Rerun, print_plan, show_record, show_whole};
use crate::output::print;
use crate::session::Session;
use clap::Args;
use senesce_core::output::Format;
use senesce_core::record::Record;
use senesce_core::{ExitCode, Failure, Seed};
use senesce_gate::{Gate, GateSpec};
use senesce_report::{junit, ktap};
use senesce_runner::{Conduct, Run, conduct};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options for gates.
#[derive(Args)]
pub(super) struct GateOptions {
    /// Shell command that builds the kernel first
    #[arg(long, value_name = "COMMAND", help_heading = "Gate")]
    build: Option<String>,
    /// Write the verdicts as JUnit XML
    #[arg(long, value_name = "FILE", help_heading = "Gate")]
    junit: Option<PathBuf>,
    /// Write the verdicts as KTAP
    #[arg(long, value_name = "FILE", help_heading = "Gate")]
    ktap: Option<PathBuf>,
    /// Print a table for the cover letter of a patch
    #[arg(long, conflicts_with = "json", help_heading = "Gate")]
    patch: bool,
}

impl GateOptions {
    /// Refuses options for gates that were given with a study.
    pub(super) fn check_unused(&self) -> Result<(), Failure> {
        let given = [
            ("--build", self.build.is_some()),
            ("--junit", self.junit.is_some()),
            ("--ktap", self.ktap.is_some()),
            ("--patch", self.patch),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(Failure::usage(format!("{name} needs a gate (senesce study --example gate)"))),
            None => Ok(()),
        }
    }
}

impl Study {
    /// Runs the gate. With `--build`, every end without a verdict has exit code 125, so that `git bisect run` skips the
    /// commit.
    pub(super) fn run_gate(self, path: &Path, text: &str, session: &Session) -> Result<Exit, Failure> {
        let builds = self.gate.build.is_some();
        let skipped = |failure: Failure| match failure.exit_code() {
            ExitCode::Interrupted => failure,
            _ if builds => Failure::new(ExitCode::CannotTell, failure.to_string()),
            _ => failure,
        };
        self.gate(path, text, session).map_err(skipped)
    }

    fn gate(self, path: &Path, text: &str, session: &Session) -> Result<Exit, Failure> {
        let ktap = (self.gate.ktap.as_deref(), Format::Text, &b"KTAP version 1"[..]);
        self.output.check_all(&[(self.gate.junit.as_deref(), Format::Xml, b""), ktap])?;
        if let Some(command) = self.gate.build.as_ref().filter(|_| !self.dry_run) {
            session.progress().say(&format!("building: {command}"));
            build(command)?;
        }
        let spec = GateSpec::parse(&path.to_string_lossy(), text)?;
        let seed = Seed(spec.seed);
        if self.dry_run {
            return print_plan(&Gate::plan(&spec, seed)?, self.json);
        }
        let interrupt = session.interrupt()?;
        let how = Conduct { out: self.out, again: self.again, erase: None, ..session.conduct(&interrupt) };
        let outcome = conduct::<Gate>(&spec, seed, &how)?;
        let record = Record::open(&outcome.path)?;
        if let Some(file) = &self.gate.junit {
            let text = junit::render("senesce gate", &senesce_gate::cases(&record)?);
            self.output.write(file, Format::Xml, text.as_bytes())?;
        }
        if let Some(file) = &self.gate.ktap {
            self.output.write(file, Format::Text, ktap::render(&senesce_gate::cases(&record)?).as_bytes())?;
        }
        if self.gate.patch {
            print(format_args!("{}", senesce_gate::patch_text(&record)?.trim_end()));
            show_record(&outcome);
        } else {
            show_whole(&outcome, Rerun::of(how.out.as_deref()), self.json, session)?;
        }
        Ok(match outcome.exit_code() {
            ExitCode::RunFailed => ExitCode::CannotTell,
            code => code,
        }
        .into())
    }
}

fn build(command: &str) -> Result<(), Failure> {
    let ended = Command::new("sh").args(["-c", command]).status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(ExitCode::RunFailed, format!("the build failed ({status}): {command}"))),
        Err(error) => Err(Failure::new(ExitCode::Missing, format!("cannot start sh: {error}"))),
    }
}
