//! Random writes of all sizes, each followed by fsync.

use crate::tier::sizes::{self, Claim};
use senesce_core::{Analysis, Experiment, Failure, Parameter, Plan, Record, RunContext, RunKind, Settings};
use senesce_workload::micro::WriteMode;

/// The experiment.
pub struct RandomWrite;

impl RunKind for RandomWrite {
    fn kind(&self) -> &'static str {
        "random-write"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let claim = Claim {
            claim: "random writes take longer with anti-caching only where a block must be fetched",
            part_is_dear: true,
        };
        sizes::analyse("Latency of random writes", &claim, record)
    }
}

impl Experiment for RandomWrite {
    fn title(&self) -> &'static str {
        "How long does a random write take when the data are in both tiers?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        sizes::PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/random-write.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/random-write.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        sizes::plan(self.kind(), WriteMode::RandomWrite, settings)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        sizes::run(WriteMode::RandomWrite, settings, context)
    }
}
