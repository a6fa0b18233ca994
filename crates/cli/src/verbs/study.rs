//! `senesce study`: a matrix of file systems, states and workloads.

use crate::Exit;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::carry::show;
use crate::verbs::reproduce::print_plan;
use clap::Args;
use senesce_core::failure::errno_message;
use senesce_core::{ExitCode, Failure, Seed, Span};
use senesce_runs::run::{Conduct, Run, conduct};
use senesce_study::{Study as StudyRun, StudySpec};
use std::path::PathBuf;

/// Measure a matrix of file systems, states and workloads
#[derive(Args)]
pub struct Study {
    /// The study (see `senesce doc study`)
    #[arg(value_name = "STUDY.toml", required_unless_present = "example")]
    study: Option<PathBuf>,
    /// Print a study that runs as it is, and stop
    #[arg(long, conflicts_with = "study")]
    example: bool,
    /// Allow the loss of what this device holds (its path or serial number), for a study with a device
    #[arg(long, value_name = "IDENTITY")]
    erase: Option<String>,
    /// Run directory
    #[arg(long, short, value_name = "RUNDIR", help = "Run directory [default: senesce-runs/study-HASH]")]
    out: Option<PathBuf>,
    /// Print what would be done and stop
    #[arg(long)]
    dry_run: bool,
    /// Measure each cell until its answers are decided; every look at the values is paid for
    #[arg(long, requires = "max_time")]
    until_decided: bool,
    /// Time of all runs after which that ends undecided, such as 1h
    #[arg(long, value_name = "TIME", requires = "until_decided")]
    max_time: Option<Span>,
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
        let Some(path) = &self.study else {
            println!("{}", senesce_study::EXAMPLE.trim_end());
            return Ok(ExitCode::Done.into());
        };
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("read {}: {}; check the path", path.display(), errno_message(&error)))
        })?;
        let spec = StudySpec::parse_with(&path.to_string_lossy(), &text, |spec| {
            spec.until_decided |= self.until_decided;
            spec.max_time = self.max_time.or(spec.max_time);
        })?;
        let seed = Seed(spec.seed);
        if self.dry_run {
            let plan = StudyRun::plan(&spec, seed)?;
            senesce_study::trial::options(&spec)?;
            for message in senesce_study::trial::disturbances() {
                session.progress().say(&format!("beware: {message}"));
            }
            return print_plan(&plan, self.json);
        }
        let interrupt = session.interrupt()?;
        let how = Conduct { out: self.out, again: self.again, erase: self.erase, ..session.conduct(&interrupt) };
        show(&conduct::<StudyRun>(&spec, seed, &how)?, self.json, session)
    }
}
