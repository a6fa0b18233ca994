//! The table of verbs: help, man page, completions and dispatch come from it.

use crate::Exit;
use crate::session::Session;
use crate::verbs;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use senesce_core::Failure;

/// One verb: its options and what it does with them. Parsing never acts.
pub trait Verb: Args + FromArgMatches {
    /// The word on the command line.
    const NAME: &'static str;
    /// One line for the list of verbs.
    const ABOUT: &'static str;
    /// Does it.
    fn run(self, session: &Session) -> Result<Exit, Failure>;
}

/// A verb in the table.
pub struct Entry {
    /// The word on the command line.
    pub name: &'static str,
    /// Makes its clap command.
    pub command: fn() -> Command,
    /// Parses the matches and runs it.
    pub run: fn(&ArgMatches, &Session) -> Result<Exit, Failure>,
}

impl Entry {
    const fn of<V: Verb>() -> Self {
        Self { name: V::NAME, command: build::<V>, run: run::<V> }
    }
}

/// The options are made once the verb is asked for: those of all verbs cost more than most commands take.
fn build<V: Verb>() -> Command {
    Command::new(V::NAME).about(V::ABOUT).defer(|command| V::augment_args(command).about(V::ABOUT))
}

fn run<V: Verb>(matches: &ArgMatches, session: &Session) -> Result<Exit, Failure> {
    let options = V::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
    options.run(session)
}

/// All verbs, in the order of the help.
pub const VERBS: &[Entry] = &[
    Entry::of::<verbs::demo::Demo>(),
    Entry::of::<verbs::age::Age>(),
    Entry::of::<verbs::verify::Verify>(),
    Entry::of::<verbs::experiments::Experiments>(),
    Entry { name: "reproduce", command: verbs::reproduce::command, run: verbs::reproduce::run },
    Entry::of::<verbs::objects::Objects>(),
    Entry::of::<verbs::advise::Advise>(),
    Entry::of::<verbs::carry::Carry>(),
    Entry::of::<verbs::runs::Runs>(),
    Entry::of::<verbs::history::History>(),
    Entry::of::<verbs::lab::Lab>(),
    Entry::of::<verbs::bench::Bench>(),
    Entry::of::<verbs::layout::Layout>(),
    Entry::of::<verbs::prognosis::Prognosis>(),
    Entry::of::<verbs::twin::Twin>(),
    Entry::of::<verbs::trace::Trace>(),
    Entry::of::<verbs::image::Image>(),
    Entry::of::<verbs::snapshot::Snapshot>(),
    Entry::of::<verbs::rollback::Rollback>(),
    Entry::of::<verbs::run_and_rollback::RunAndRollback>(),
    Entry::of::<verbs::device::Device>(),
    Entry::of::<verbs::tier::Tier>(),
    Entry::of::<verbs::profile::ProfileVerb>(),
    Entry::of::<verbs::zns::Zns>(),
    Entry::of::<verbs::zones::Zones>(),
    Entry::of::<verbs::study::Study>(),
    Entry::of::<verbs::report::Report>(),
    Entry::of::<verbs::compare::Compare>(),
    Entry::of::<verbs::export::Export>(),
    Entry::of::<verbs::import::Import>(),
    Entry::of::<verbs::bundle::Bundle>(),
    Entry::of::<verbs::doc::Doc>(),
    Entry::of::<verbs::doctor::Doctor>(),
    Entry::of::<verbs::man::Man>(),
    Entry::of::<verbs::completions::Completions>(),
];
