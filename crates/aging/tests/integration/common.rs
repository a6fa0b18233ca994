//! Plays plans to their end or into temporary directories.

use senesce_aging::execute::{ExecuteOutcome, PlanTarget};
use senesce_aging::{AgingPlan, Data, DirectoryTarget, ExecuteOptions, Planner, Stop, VerifyReport, execute, verify};
use senesce_core::interrupt::Interrupt;
use senesce_volume::ClaimedDirectory;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The planner after `operations` of the plan.
pub fn reached(plan: &Arc<AgingPlan>, operations: u64) -> Planner {
    let mut planner = plan.operations();
    planner.skip_to(operations);
    planner
}

pub fn ended(plan: &Arc<AgingPlan>) -> Planner {
    reached(plan, u64::MAX)
}

/// Executes until at least `until` operations are completed.
pub fn execute_until<B: PlanTarget>(
    planner: &mut Planner,
    backend: &B,
    options: &ExecuteOptions,
    until: u64,
) -> ExecuteOutcome {
    let mut observer = |_: &Planner, completed: u64| {
        if completed >= until { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    execute(planner, backend, options, &Interrupt::new(), &mut observer)
}

/// Executes the whole plan.
#[track_caller]
pub fn finished<B: PlanTarget>(planner: &mut Planner, backend: &B, options: &ExecuteOptions) -> ExecuteOutcome {
    let outcome = execute_until(planner, backend, options, u64::MAX);
    assert_eq!(outcome.result.as_ref().unwrap(), &Stop::Finished);
    outcome
}

pub fn play(planner: &mut Planner, room: &ClaimedDirectory, data: Data, threads: usize, until: u64) -> u64 {
    let backend = DirectoryTarget::new(planner.plan().clone(), room, data);
    let options = ExecuteOptions { threads, window: 64, fsync_every: 500, ..ExecuteOptions::default() };
    let outcome = execute_until(planner, &backend, &options, until);
    outcome.result.unwrap();
    outcome.completed
}

pub fn claimed() -> (tempfile::TempDir, ClaimedDirectory) {
    let room = tempfile::tempdir().unwrap();
    let target = ClaimedDirectory::claim(room.path(), None).unwrap();
    (room, target)
}

/// The directory and the planner after one thread has executed the whole plan.
pub fn played(plan: &Arc<AgingPlan>, data: Data) -> (tempfile::TempDir, Planner) {
    let ((room, target), mut planner) = (claimed(), plan.operations());
    play(&mut planner, &target, data, 1, u64::MAX);
    (room, planner)
}

pub fn found(planner: &Planner, room: &tempfile::TempDir, data: Data) -> VerifyReport {
    verify(planner, room.path(), data, None).unwrap()
}

#[track_caller]
pub fn is_good(planner: &Planner, room: &tempfile::TempDir, data: Data) -> VerifyReport {
    let report = found(planner, room, data);
    assert!(report.is_good(), "{report:?}");
    report
}
