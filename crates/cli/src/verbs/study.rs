//! `senesce study`: a matrix of file systems, states and workloads.

use crate::Exit;
use crate::display::print_analysis;
use crate::session::{Session, runs_directory};
use crate::table::Verb;
use crate::verbs::report::output_failed;
use crate::verbs::reproduce::print_plan;
use clap::Args;
use senesce_core::failure::errno_words;
use senesce_core::{ExitCode, Failure};
use senesce_experiments::conduct::Conduct;
use senesce_experiments::study::{self, StudySpec};
use std::path::PathBuf;

/// Measure a matrix of file systems, states and workloads
#[derive(Args)]
pub struct Study {
    /// The study (see `senesce doc study`)
    #[arg(value_name = "STUDY.toml")]
    study: PathBuf,
    /// Run directory
    #[arg(long, value_name = "RUNDIR", help = "Run directory [default: senesce-runs/study-HASH]")]
    out: Option<PathBuf>,
    /// Print what would be done and stop
    #[arg(long)]
    dry_run: bool,
    /// Run anew although it was run before
    #[arg(long)]
    again: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Study {
    const NAME: &'static str = "study";
    const ABOUT: &'static str = "Measure file systems fresh and aged, interleaved, and say what age does";

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        let text = std::fs::read_to_string(&self.study).map_err(|error| {
            Failure::usage(format!("read {}: {}; check the path", self.study.display(), errno_words(&error)))
        })?;
        let spec = StudySpec::parse(&self.study.to_string_lossy(), &text)?;
        let plan = study::plan(&spec)?;
        if self.dry_run {
            return print_plan(&plan, self.json);
        }
        let request = Conduct {
            out: self.out,
            runs: runs_directory(),
            again: self.again,
            progress: session.progress(),
            interrupt: &session.interrupt()?,
        };
        let outcome = study::conduct(&spec, &plan, &request)?;
        session.clear();
        if outcome.was_finished {
            eprintln!("already done; this is the result of {} (run anew with --again)", outcome.path.display());
        }
        print_analysis(&outcome.analysis, self.json).map_err(output_failed)?;
        eprintln!("record: {path}   report: senesce report {path}", path = outcome.path.display());
        match study::runs_failed(&outcome.analysis) {
            0 => Ok(ExitCode::Done.into()),
            failed => {
                eprintln!("error: {failed} runs failed; the table of failed runs says why");
                Ok(ExitCode::RunFailed.into())
            }
        }
    }
}
