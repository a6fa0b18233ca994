//! The contract of everything that leaves a run directory, and the runner that conducts it.
//!
//! Data flow one way: a typed specification becomes steps, steps become typed events, events become an analysis. The specification
//! is the identity of the run: everything in it shapes the result, and nothing else does.

mod analyse;
mod arguments;
mod conduct;
mod context;
mod contradiction;
mod identity;
mod imported;
mod kind;
mod needs;
mod reasons;
mod recorded;
mod registry;
mod special;
mod step_progress;
#[cfg(test)]
mod tests;

pub use analyse::{analyse, spec_of};
pub use conduct::{Conduct, Outcome, State, conduct, default_path, new_plan};
pub use context::{Context, interrupted};
pub use contradiction::Contradiction;
pub use identity::{Identity, KnownRuns};
pub use imported::{Imported, ImportedRun, import, import_with};
pub(crate) use kind::ParameterDescription;
pub use kind::{Reproducible, RunKind, experiment, verb};
pub use needs::Needs;
pub use reasons::group_by_reason;
pub use recorded::{AnyEvent, Common, Recorded, RecordedEvent};
pub use registry::Registry;
pub use special::Special;

use senesce_claims::Facts;
use senesce_core::{Analysis, Bytes, ExitCode, Failure, Level, Measurement, Plan, Seed};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Anything that leaves a run directory. A value of the type is the session of one execution: what its steps share.
pub trait Run: Sized + 'static {
    /// The word in `plan.toml`: an experiment's id or a verb.
    const KIND: &'static str;

    /// Everything that shapes the result, except the seed. Its serialisation is the identity of the run.
    type Spec: Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync;

    /// The events: a closed enum, `#[serde(rename_all = "kebab-case")]`, whose variants are the kinds of events. [`NoEvent`]
    /// where measurements say everything.
    type Event: Serialize + DeserializeOwned + Clone;

    /// One unit of work that is done whole or not at all; it can be carried to another machine.
    type Step: Serialize + DeserializeOwned + Clone + PartialEq + Debug;

    /// Whether the run continues after a failed step. The same command then repeats only the failed steps.
    const GOES_ON: bool = false;

    /// The parts that few kinds of runs need.
    const SPECIAL: Special<Self> = Special::NONE;

    /// The published values of an experiment, compiled in (`include_str!("../data/published/ID.csv")`).
    const PUBLISHED: &'static str = "";

    /// The claims about an experiment, compiled in (`include_str!("../data/published/ID.claims.toml")`). They are
    /// decided on the measured values.
    const CLAIMS: &'static str = "";

    /// Returns facts for the claims that neither the values nor the runner know.
    fn facts(_spec: &Self::Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        facts
    }

    /// Returns the requirements on the machine. They are checked once, before anything is made.
    fn needs(_spec: &Self::Spec) -> Needs {
        Needs::default()
    }

    /// Checks the whole specification and lists the steps. Pure: writes nothing and opens a device
    /// only for the check. `--dry-run` prints it.
    fn steps(spec: &Self::Spec, seed: Seed) -> Result<Vec<Planned<Self::Step>>, Failure>;

    /// Makes the plan that `--dry-run` prints and the run directory keeps: the steps, unless they are too many to be
    /// read.
    fn plan(spec: &Self::Spec, seed: Seed) -> Result<Plan, Failure> {
        let mut plan = new_plan::<Self>(spec, seed)?;
        for planned in Self::steps(spec, seed)? {
            plan.step(planned.action, planned.target);
            plan.add_cost(planned.bytes_to_write.0, planned.seconds);
        }
        Ok(plan)
    }

    /// Returns the remaining steps; none if the run is finished. Called at the beginning and each time all steps of the
    /// last answer are done. Pure.
    fn next(spec: &Self::Spec, recorded: &Recorded<Self>) -> Result<Vec<Planned<Self::Step>>, Failure> {
        Ok(Self::steps(spec, recorded.seed)?.into_iter().filter(|planned| !recorded.is_done(&planned.step)).collect())
    }

    /// Begins an execution: claims and opens what all steps share. A refusal leaves no run directory behind.
    fn begin(spec: &Self::Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure>;

    /// Does one step. Its records count only if it succeeds, except those through [`Context::record_now`].
    fn step(&mut self, spec: &Self::Spec, step: &Self::Step, context: &mut Context<'_, Self>) -> Result<(), Failure>;

    /// Ends an execution after its last step, or after an interrupt or a failure: closes what all steps shared.
    fn end(self, _spec: &Self::Spec, _context: &mut Context<'_, Self>) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the exit code of a run that is done: 0, negative verdict, or no valid result.
    fn exit_code(_spec: &Self::Spec, _recorded: &Recorded<Self>) -> ExitCode {
        ExitCode::Done
    }

    /// Tables, figures and the result, from the record alone; also of a partial one, as far as it goes.
    fn analyse(spec: &Self::Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure>;

    /// Checks that the numbers of a record agree with each other, so that an altered record is not analysed.
    fn check(_spec: &Self::Spec, _recorded: &Recorded<Self>, _is_partial: bool) -> Result<(), Contradiction> {
        Ok(())
    }

    /// Finds a contradiction between a record and its other files. An error is one of reading them.
    fn check_files(_spec: &Self::Spec, _recorded: &Recorded<Self>) -> Result<Option<Contradiction>, Failure> {
        Ok(None)
    }

    /// Returns the single values of the record, for claims, `compare` and `export`.
    fn measurements(_spec: &Self::Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        recorded.measurements().cloned().collect()
    }
}

/// A published experiment: one file, one registry line, one page, one table of published values.
pub trait Experiment: Run<Spec: clap::Args> {
    /// One line for `senesce reproduce --list`.
    const TITLE: &'static str;
    /// The page, compiled in (`include_str!("../docs/experiments/ID.md")`).
    const PAGE: &'static str;

    /// Returns the specification at a level: smoke takes at most 10 s, quick minutes, paper is as published.
    fn defaults(level: Level) -> Self::Spec;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
pub enum NoEvent {}

/// One step and its description in words and numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned<S> {
    pub step: S,
    /// The action ("make ext4", "cold read").
    pub action: String,
    /// Path, device, or "-".
    pub target: String,
    /// Maximum bytes it writes; [`senesce_core::plan::BY_TIME_ALONE`]: unbounded.
    pub bytes_to_write: Bytes,
    /// Estimated seconds.
    pub seconds: f64,
}

impl<S> Planned<S> {
    /// Makes a step that writes nothing and takes negligible time.
    pub fn new(step: S, action: impl Into<String>, target: impl Into<String>) -> Self {
        Self { step, action: action.into(), target: target.into(), bytes_to_write: Bytes(0), seconds: 0.0 }
    }

    /// Sets the maximum number of bytes that the step writes, and its estimated duration.
    pub fn costing(mut self, bytes_to_write: Bytes, seconds: f64) -> Self {
        (self.bytes_to_write, self.seconds) = (bytes_to_write, seconds);
        self
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-an-experiment.md")]
struct Guide;
