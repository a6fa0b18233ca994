//! `senesce study`: a matrix of file systems, states and workloads.

mod gate;
mod purpose;

use crate::Exit;
use crate::display::{Rerun, print_plan, show_whole};
use crate::output::Output;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::Args;
use senesce_core::failure::errno_message;
use senesce_core::{ExitCode, Failure, Seed, Span};
use senesce_gate::GateSpec;
use senesce_runner::{Conduct, Run, conduct};
use senesce_study::{Study as StudyRun, StudySpec};
use std::path::PathBuf;

/// Measure a matrix of file systems, states and workloads
#[derive(Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["study", "example", "purpose"]))]
pub(crate) struct Study {
    /// Study or gate to run (format: senesce help study, gate)
    #[arg(value_name = "STUDY.toml")]
    study: Option<PathBuf>,
    /// Print a ready-to-run file: study (default) or gate
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_missing_value = "study", value_parser = ["study", "gate"],
          hide_possible_values = true, help_heading = "Output")]
    example: Option<String>,
    #[command(flatten)]
    gate: gate::GateOptions,
    #[command(flatten)]
    advice: purpose::Advice,
    /// Confirm data loss: path or serial number
    #[arg(long, value_name = "IDENTITY", help_heading = "Measurement")]
    erase: Option<String>,
    /// Measure each cell until its comparisons are decided
    #[arg(long, requires = "max_time", help_heading = "Measurement")]
    until_decided: bool,
    /// Maximum time of all runs, such as 30m [--for: 1h]
    #[arg(long, value_name = "TIME")]
    max_time: Option<Span>,
    /// Run again in a new directory; --out must be one
    #[arg(long, help_heading = "Measurement")]
    again: bool,
    /// Print the plan only
    #[arg(long, help_heading = "Output")]
    dry_run: bool,
    /// Run directory [default: senesce-runs/study-HASH]
    #[arg(long, short, value_name = "RUNDIR")]
    out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    output: Output,
}

impl Verb for Study {
    const NAME: &'static str = "study";
    const ABOUT: &'static str = "Measure file systems fresh and aged, interleaved";
    const EXAMPLES: &'static [&'static str] = &[
        "senesce study --example >study.toml",
        "senesce study study.toml --dry-run",
        "sudo senesce study --for mail --max-time 30m",
    ];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        if self.max_time.is_some() && !self.until_decided && self.advice.purpose.is_none() {
            return Err(Failure::usage("nothing to stop after --max-time\nhint: give --until-decided or --for"));
        }
        if self.advice.purpose.is_some() {
            return self.advise(session);
        }
        let Some(path) = self.study.clone() else {
            let is_gate = self.example.is_some_and(|kind| kind == "gate");
            println!("{}", if is_gate { senesce_gate::EXAMPLE } else { senesce_study::EXAMPLE }.trim_end());
            return Ok(ExitCode::Done.into());
        };
        let text = senesce_core::input::text(&path)
            .map_err(|error| Failure::usage(format!("cannot read {}: {}", path.display(), errno_message(&error))))?;
        if GateSpec::is_gate(&text) {
            return self.run_gate(&path, &text, session);
        }
        self.gate.check_unused()?;
        let spec = StudySpec::parse_with(&path.to_string_lossy(), &text, |spec| {
            spec.until_decided |= self.until_decided;
            spec.max_time = self.max_time.or(spec.max_time);
        })?;
        let seed = Seed(spec.seed);
        if self.dry_run {
            let plan = StudyRun::plan(&spec, seed)?;
            senesce_study::trial::options(&spec)?;
            return print_plan(&plan, self.json);
        }
        let interrupt = session.interrupt()?;
        let how = Conduct { out: self.out, again: self.again, erase: self.erase, ..session.conduct(&interrupt) };
        let outcome = conduct::<StudyRun>(&spec, seed, &how)?;
        show_whole(&outcome, Rerun::of(how.out.as_deref()), self.json, session)
    }
}
