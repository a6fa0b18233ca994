//! The contract of an experiment and of every verb that leaves a record.

use crate::analysis::Analysis;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::measurement::Measurement;
use crate::parameter::{Parameter, Settings};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::record::{Record, RunDirectory};

/// Anything that leaves a run directory: it can be analysed and reported from the record alone.
pub trait RunKind: Sync {
    /// The word in `plan.toml`: an experiment's id or a verb.
    fn kind(&self) -> &'static str;

    /// Tables, figures and findings from the record, without root and without the device. Must also work on a partial
    /// record, as far as it goes.
    fn analyse(&self, record: &Record) -> Result<Analysis, Failure>;

    /// The single values of the record, for `compare` and `export`: its measurement events, unless a kind knows better.
    fn measurements(&self, record: &Record) -> Vec<Measurement> {
        record.events_of(crate::measurement::EVENT).collect()
    }
}

/// A published experiment: one file, one registry line, one doc page, one CSV of published values.
pub trait Experiment: RunKind {
    /// One line for `senesce experiments`.
    fn title(&self) -> &'static str;

    /// Its parameters with a default per level. Flags and help are made from them.
    fn parameters(&self) -> &'static [Parameter];

    /// The doc page, compiled in (`include_str!("../../../docs/experiments/ID.md")`).
    fn doc(&self) -> &'static str;

    /// The published values, compiled in (`include_str!("../../../data/published/ID.csv")`).
    fn published(&self) -> &'static str;

    /// Validates every parameter and says what a run would do. Writes nothing.
    fn plan(&self, settings: &Settings) -> Result<Plan, Failure>;

    /// Runs the plan and records events. The only step that touches devices. A run that finds events of an earlier,
    /// interrupted run continues after them.
    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure>;
}

/// What a run is given.
pub struct RunContext<'a> {
    /// Where it records.
    pub directory: &'a mut RunDirectory,
    /// Whom it tells how far it is.
    pub progress: &'a dyn Progress,
    /// Whether it should stop.
    pub interrupt: &'a Interrupt,
}

impl RunContext<'_> {
    /// An error when the user asked to stop; call it between steps.
    pub fn check_interrupt(&self) -> Result<(), Failure> {
        if self.interrupt.requested() {
            return Err(Failure::new(
                crate::failure::ExitCode::Interrupted,
                "interrupted; the record so far is kept, the same command continues it",
            ));
        }
        Ok(())
    }
}
