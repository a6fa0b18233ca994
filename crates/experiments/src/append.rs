//! Appends of all sizes, each followed by fsync.

use crate::tier::sizes::{self, Claim};
use senesce_core::{Analysis, Experiment, Failure, Parameter, Plan, Record, RunContext, RunKind, Settings};
use senesce_workload::micro::WriteMode;

/// The experiment.
pub struct Append;

impl RunKind for Append {
    fn kind(&self) -> &'static str {
        "append"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let claim = Claim {
            claim: "appends take as long with anti-caching as without: they go to memory",
            part_is_dear: false,
        };
        sizes::analyse("Latency of appends", &claim, record)
    }
}

impl Experiment for Append {
    fn title(&self) -> &'static str {
        "How long does an append of each size take with anti-caching?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        sizes::PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/append.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/append.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        sizes::plan(self.kind(), WriteMode::Append, settings)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        sizes::run(WriteMode::Append, settings, context)
    }
}
