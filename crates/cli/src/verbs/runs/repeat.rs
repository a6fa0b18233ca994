//! `senesce runs repeat RUN`: runs the plan of a record again; a guest uses it for its part of a plan.

use crate::Exit;
use crate::arguments;
use crate::display::{Rerun, show_whole};
use crate::registry::REGISTRY;
use crate::session::Session;
use clap::Args;
use clap_complete::ArgValueCompleter;
use senesce_core::{Failure, Plan, Record};
use senesce_guest::carry::read_steps;
use senesce_runner::Conduct;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Repeat {
    /// Run directory, or a plan.toml
    #[arg(value_name = "RUN", value_parser = arguments::run(), add = ArgValueCompleter::new(arguments::complete_run))]
    run: PathBuf,
    /// Run only the steps in this JSON file
    #[arg(long, value_name = "FILE", hide = true)]
    steps: Option<PathBuf>,
    /// Run directory [default: senesce-runs/KIND-HASH]
    #[arg(long, short, value_name = "RUNDIR")]
    out: Option<PathBuf>,
    /// Confirm data loss: path or serial number
    #[arg(long, value_name = "IDENTITY")]
    erase: Option<String>,
    /// Run again in a new directory; --out must be one
    #[arg(long)]
    again: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Repeat {
    pub(crate) fn run(self, session: &Session) -> Result<Exit, Failure> {
        // A damaged record is refused.
        let plan = if self.run.is_dir() { Record::open(&self.run)?.plan } else { Plan::read(&self.run)? };
        let interrupt = session.interrupt()?;
        let how = Conduct {
            out: self.out,
            again: self.again,
            erase: self.erase,
            scale: plan.scale,
            only: self.steps.as_deref().map(read_steps).transpose()?,
            ..session.conduct(&interrupt)
        };
        let outcome = REGISTRY.kind(&plan)?.carry(&plan, &how)?;
        show_whole(&outcome, Rerun::of(how.out.as_deref()), self.json, session)
    }
}
