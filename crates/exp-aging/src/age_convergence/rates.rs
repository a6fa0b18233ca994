//! Measures how fast a plan is executed: on each file system, with one and two threads, with allocated and with written blocks.

use super::{AgeConvergence, Step, named, plan_of};
use rand::seq::SliceRandom;
use senesce_aging::{AgingPlan, Churn, Data, DirectoryTarget, ExecuteOptions, Stop, execute};
use senesce_core::{Bytes, Failure, Seed};
use senesce_runner::{Context, Planned};
use senesce_volume::{FileSystem, OpenOptions, TargetSpec, open};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A profile that was executed on a file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ExecutedProfile {
    pub(super) profile: String,
    pub(super) operations: u64,
    pub(super) seconds: f64,
}

/// Parameters of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Pace {
    /// On a fresh file system in memory.
    pub fs: FileSystem,
    pub threads: usize,
    /// How files get their content.
    pub data: Data,
    /// Repetition, from 0.
    pub repeat: u32,
    /// A second measurement of the same parameters, which shows the noise of the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// The profile whose rate is measured: the one with the fewest operations.
const RATED: &str = "meyer";
/// A small volume, so that it can be written several times.
const SIZE: Bytes = Bytes(400_000_000);
const FULLNESS: f64 = 0.8;

/// Returns all combinations, each `repeats` times and in random order, so that background load affects none of them
/// systematically.
pub(crate) fn steps(repeats: u32, seed: Seed) -> Vec<Planned<Step>> {
    let fallocate = Data::Fallocate;
    let ways = [(1, fallocate, false), (1, fallocate, true), (2, fallocate, false), (2, Data::Write, false)];
    let mut order = seed.stream("age-convergence/rates");
    let round = |repeat| {
        let of = |fs| ways.map(|(threads, data, again)| Pace { fs, threads, data, repeat, again });
        let mut round: Vec<Pace> =
            [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs].into_iter().flat_map(of).collect();
        round.shuffle(&mut order);
        round
    };
    let step = |pace: Pace| {
        let (words, fs) = (format!("age by {} threads, {:?}", pace.threads, pace.data), pace.fs.name());
        Planned::new(Step::Rate(pace), words, fs).costing(Bytes(0), 2.0)
    };
    (0..repeats).flat_map(round).map(step).collect()
}

impl Pace {
    pub(crate) fn of_play(threads: usize) -> Self {
        Self { fs: FileSystem::Ext4, threads, data: Data::Fallocate, repeat: 0, again: false }
    }

    pub(crate) fn play(&self, context: &Context<'_, AgeConvergence>) -> Result<ExecutedProfile, Failure> {
        let plan = Arc::new(plan_of(named(RATED)?, SIZE, FULLNESS, context.seed, Churn::Profile)?);
        self.play_plan(&plan, RATED, context)
    }

    /// Executes a plan to its end.
    ///
    /// # Errors
    /// The image cannot be made or closed, an operation fails, or the user interrupts the run.
    pub(crate) fn play_plan(
        &self,
        plan: &Arc<AgingPlan>,
        name: &str,
        context: &Context<'_, AgeConvergence>,
    ) -> Result<ExecutedProfile, Failure> {
        // Metadata and the journal need space in addition to the declared size.
        let size = Bytes(plan.spec().capacity.0.div_ceil(1 << 20) * (1152 << 10));
        let target = open(&TargetSpec::Memory { size }, &OpenOptions::fresh(self.fs))?;
        let back_end = DirectoryTarget::new(plan.clone(), target.directory(), self.data);
        context.progress.phase(&format!("age by {name}"), plan.len(), "operations");
        let options = ExecuteOptions { threads: self.threads, ..ExecuteOptions::default() };
        let outcome = execute(&mut plan.operations(), &back_end, &options, context.interrupt, &mut |planner, done| {
            context.progress.position(done, &format!("{:.1} overwrites", planner.overwrites()));
            ControlFlow::Continue(())
        });
        if outcome.result? != Stop::Finished {
            context.check_interrupt()?;
        }
        target.close()?;
        Ok(ExecutedProfile { profile: name.into(), operations: outcome.completed, seconds: outcome.seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_all_combinations_in_random_order() {
        let found = steps(3, Seed(7));
        let without_repeat = |one: &Planned<Step>| match &one.step {
            Step::Rate(pace) => serde_json::to_string(&Pace { repeat: 0, ..pace.clone() }).unwrap(),
            other => panic!("{other:?}"),
        };
        let names: Vec<String> = found.iter().map(without_repeat).collect();
        let rounds: Vec<Vec<String>> = names.chunks(12).map(<[String]>::to_vec).collect();
        assert_eq!(rounds.len(), 3);
        let sorted = |round: &Vec<String>| {
            let mut round = round.clone();
            round.sort();
            round.dedup();
            round
        };
        assert_eq!(sorted(&rounds[0]).len(), 12);
        assert!(rounds.iter().all(|round| sorted(round) == sorted(&rounds[0])));
        assert!(rounds[0] != rounds[1] || rounds[1] != rounds[2]);
        assert_eq!(found, steps(3, Seed(7)));
    }
}
