//! `senesce carry`: runs a plan that was made elsewhere, as the lab guest does; and what every run ends with.

use crate::Exit;
use crate::display::print_analysis;
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::report::output_failed;
use clap::Args;
use senesce_core::{Failure, Plan};
use senesce_runs::run::{Conduct, Outcome, State, interrupted_words, read_steps};
use std::path::PathBuf;

/// Run a plan: the plan.toml of a run directory
#[derive(Args)]
pub struct Carry {
    /// The plan
    plan: PathBuf,
    /// Do only the steps in this JSON file
    #[arg(long, value_name = "FILE", hide = true)]
    steps: Option<PathBuf>,
    /// Run directory
    #[arg(long, short, value_name = "RUNDIR", help = "Run directory [default: senesce-runs/KIND-HASH]")]
    out: Option<PathBuf>,
    /// Repeat the path or serial number of what may be lost
    #[arg(long, value_name = "IDENTITY")]
    erase: Option<String>,
    /// Run anew although it was run before
    #[arg(long)]
    again: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Carry {
    const NAME: &'static str = "carry";
    const ABOUT: &'static str = "Run the plan of another run directory again, here";

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        let plan = Plan::read(&self.plan)?;
        let interrupt = session.interrupt()?;
        let how = Conduct {
            out: self.out,
            again: self.again,
            erase: self.erase,
            scale: plan.scale,
            only: self.steps.as_deref().map(read_steps).transpose()?,
            ..session.conduct(&interrupt)
        };
        show(&REGISTRY.kind(&plan)?.carry(&plan, &how)?, self.json, session)
    }
}

/// Prints what came of a run, where its record is, and what to do if it is not complete.
pub fn show(outcome: &Outcome, json: bool, session: &Session) -> Result<Exit, Failure> {
    session.clear();
    let path = outcome.path.display();
    if outcome.state == State::WasDone {
        eprintln!("already done; this is the result of {path} (run anew with --again)");
    }
    print_analysis(&outcome.analysis, json).map_err(output_failed)?;
    Ok(show_record(outcome))
}

/// Says where the record is, and what to do if it is not complete.
pub fn show_record(outcome: &Outcome) -> Exit {
    let path = outcome.path.display();
    match outcome.state {
        State::Interrupted => eprintln!("senesce: {}", interrupted_words(&path, outcome.begins_anew)),
        State::Failed(count) => {
            eprintln!("senesce: {count} steps failed; the record {path} says why, the same command does them again");
        }
        State::Done | State::WasDone => eprintln!("record: {path}   report: senesce report {path}"),
    }
    outcome.exit_code().into()
}
