//! Type-erased kinds of runs for the registry and the command line.

use crate::analyse::{analyse, spec_of};
use crate::arguments::{arguments, described, read_arguments};
use crate::conduct::{Conduct, Outcome, conduct};
use crate::recorded::Recorded;
use crate::{Experiment, Run};
use clap::{ArgMatches, Command};
use senesce_core::environment::is_root;
use senesce_core::record::RecordError;
use senesce_core::{Analysis, Failure, Level, Measurement, Plan, Record, Seed};
use std::collections::BTreeSet;
use std::marker::PhantomData;

/// Any kind of run: reads its records, and runs plans from elsewhere.
pub trait RunKind: Sync {
    /// Returns the word in `plan.toml`.
    fn kind(&self) -> &'static str;

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure>;

    fn measurements(&self, record: &Record) -> Result<Vec<Measurement>, Failure>;

    /// Returns the entries of its result whose numbers are not measurements.
    fn not_measured(&self) -> &'static [&'static str];

    /// Runs a plan that was made elsewhere.
    fn carry(&self, plan: &Plan, how: &Conduct<'_>) -> Result<Outcome, Failure>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterDescription {
    /// Its name in kebab case: `--name VALUE`.
    pub name: String,
    /// One line of help with unit and meaning.
    pub help: String,
    /// Defaults at smoke, quick and paper level.
    pub defaults: [String; 3],
}

pub trait Reproducible: RunKind {
    fn title(&self) -> &'static str;
    fn page(&self) -> &'static str;
    fn published(&self) -> &'static str;
    fn claims(&self) -> &'static str;
    fn parameters(&self) -> Vec<ParameterDescription>;
    /// Adds the parameters to a command, each with its defaults in the help.
    fn arguments(&self, command: Command) -> Command;

    /// Makes the plan at a level with the user's values.
    fn plan(&self, level: Level, chosen: &ArgMatches) -> Result<Plan, Failure>;

    /// Runs it at a level with the user's values.
    fn reproduce(&self, level: Level, chosen: &ArgMatches, how: &Conduct<'_>) -> Result<Outcome, Failure>;
}

pub const fn verb<R: Run>() -> &'static dyn RunKind {
    &TypedKind::<R>(PhantomData)
}

pub const fn experiment<R: Experiment>() -> &'static dyn Reproducible {
    &TypedKind::<R>(PhantomData)
}

struct TypedKind<R>(PhantomData<fn() -> R>);

/// Refuses an empty record: the run ended before its first event, or the record was emptied.
fn not_empty(record: &Record) -> Result<(), Failure> {
    if !record.events.is_empty() {
        return Ok(());
    }
    let problem = "it contains no events: the run ended before it recorded anything, or the file was emptied".into();
    Err(RecordError::Damaged { path: record.path.join("events.jsonl"), line: 1, problem }.into())
}

/// Returns the requirements that the run lacks on this machine, and the steps that it would leave out.
pub(crate) fn left_out<R: Run>(spec: &R::Spec, seed: Seed) -> Result<BTreeSet<String>, Failure> {
    let mut notes: BTreeSet<String> = (R::SPECIAL.left_out)(spec).into_iter().collect();
    notes.extend(R::needs(spec).check().err().map(|missing| format!("it cannot run here: {missing}")));
    for planned in R::steps(spec, seed)? {
        let lacking = (R::SPECIAL.step_needs)(spec, &planned.step).filter(|(needs, _)| !needs.are_met());
        notes.extend(lacking.map(|(_, without)| without.to_string()));
    }
    Ok(notes)
}

impl<R: Run> RunKind for TypedKind<R> {
    fn kind(&self) -> &'static str {
        R::KIND
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        not_empty(record)?;
        analyse::<R>(record)
    }

    fn measurements(&self, record: &Record) -> Result<Vec<Measurement>, Failure> {
        not_empty(record)?;
        Ok(R::measurements(&spec_of::<R>(record)?, &Recorded::of(record)?))
    }

    fn not_measured(&self) -> &'static [&'static str] {
        R::SPECIAL.not_measured
    }

    fn carry(&self, plan: &Plan, how: &Conduct<'_>) -> Result<Outcome, Failure> {
        let spec = plan.read_spec().map_err(|error| Failure::usage(format!("the plan: {}", error.message())))?;
        conduct::<R>(&spec, plan.seed, how)
    }
}

impl<R: Experiment> Reproducible for TypedKind<R> {
    fn title(&self) -> &'static str {
        R::TITLE
    }

    fn page(&self) -> &'static str {
        R::PAGE
    }

    fn published(&self) -> &'static str {
        R::PUBLISHED
    }

    fn claims(&self) -> &'static str {
        R::CLAIMS
    }

    fn parameters(&self) -> Vec<ParameterDescription> {
        described::<R>()
    }

    fn arguments(&self, command: Command) -> Command {
        arguments::<R>(command)
    }

    fn plan(&self, level: Level, chosen: &ArgMatches) -> Result<Plan, Failure> {
        let (spec, seed) = read_arguments::<R>(level, chosen)?;
        let mut plan = R::plan(&spec, seed)?;
        if !is_root() {
            left_out::<R>(&spec, seed)?.into_iter().for_each(|words| plan.note(words));
        }
        Ok(plan)
    }

    fn reproduce(&self, level: Level, chosen: &ArgMatches, how: &Conduct<'_>) -> Result<Outcome, Failure> {
        let (spec, seed) = read_arguments::<R>(level, chosen)?;
        conduct::<R>(&spec, seed, how)
    }
}
