//! Tests the clock: the positions of commits, and that nothing is in progress during a commit.

use crate::common::*;
use senesce_aging::execute::{PlanExecutor, PlanTarget, SingleRankPace};
use senesce_aging::parts::{part_capacity, part_seed};
use senesce_aging::{
    AgingError, AgingPlan, Change, Clock, CommitShare, ExecuteOptions, Interleaved, Limit, Operation, OperationKind,
    PlanSpec, Planner, Profile, Shard, Stop, Truncate, execute, execute_parts,
};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Seed};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn clock(share: &str, sync_every: u64) -> Clock {
    Clock { commit_share: share.parse().unwrap(), sync_every }
}

fn spec(clock: Clock) -> PlanSpec {
    let spec = PlanSpec::new(Profile::builtin("agrawal").unwrap(), Bytes::mib(24), Seed(9));
    PlanSpec { truncate: Truncate::Drop, limit: Limit::Operations(1500), clock, ..spec }
}

fn plan(clock: Clock) -> Arc<AgingPlan> {
    Arc::new(AgingPlan::new(&spec(clock)).unwrap())
}

fn schedule(plan: &Arc<AgingPlan>) -> Vec<u64> {
    let mut planner = plan.operations();
    let mut commits = Vec::new();
    while planner.next().is_some() {
        if planner.commit_follows() {
            commits.push(planner.operations_done());
        }
    }
    assert_eq!(planner.commits(), commits.len() as u64);
    commits
}

/// Counts started and completed operations, and their state at each commit.
#[derive(Default)]
struct Witness {
    begun: AtomicU64,
    done: AtomicU64,
    commits: Mutex<Vec<(u64, u64)>>,
    /// Completed operations whenever growing files had to be completed.
    ended: Mutex<Vec<u64>>,
    fails_at: Option<usize>,
}

impl Witness {
    /// Completed operations at each commit; no other had started.
    fn commits(self) -> Vec<u64> {
        let seen = self.commits.into_inner().unwrap();
        assert!(seen.iter().all(|(begun, done)| begun == done), "{seen:?}");
        seen.into_iter().map(|(_, done)| done).collect()
    }
}

struct WitnessExecutor<'a>(&'a Witness);

impl<'a> PlanTarget for &'a Witness {
    type PlanExecutor = WitnessExecutor<'a>;

    fn prepare(&self) -> Result<(), AgingError> {
        Ok(())
    }

    fn hand(&self, _threads: usize) -> Result<WitnessExecutor<'a>, AgingError> {
        Ok(WitnessExecutor(self))
    }

    fn check(&self) -> Result<(), AgingError> {
        Ok(())
    }

    fn commit(&self) -> Result<(), AgingError> {
        let mut commits = self.commits.lock().unwrap();
        commits.push((self.begun.load(Ordering::SeqCst), self.done.load(Ordering::SeqCst)));
        match self.fails_at == Some(commits.len()) {
            true => Err(AgingError::io("synchronise", "a file system", std::io::Error::from_raw_os_error(libc::EIO))),
            false => Ok(()),
        }
    }
}

impl PlanExecutor for WitnessExecutor<'_> {
    fn change(&mut self, _change: &Change) -> Result<(), AgingError> {
        Ok(())
    }

    fn apply(&mut self, operation: &Operation, _sync: bool) -> Result<(), AgingError> {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        if operation.kind == OperationKind::Create {
            std::thread::yield_now();
        }
        self.0.done.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), AgingError> {
        self.0.ended.lock().unwrap().push(self.0.done.load(Ordering::SeqCst));
        Ok(())
    }
}

#[test]
fn share_of_the_free_space_is_freed_between_two_commits() {
    for (share, sync_every) in [("5%", 0), ("50%", 0), ("2%", 0), ("none", 100), ("27%", 64), ("none", 1)] {
        let clock = clock(share, sync_every);
        let plan = plan(clock);
        let capacity = plan.spec().capacity;
        let between = clock.bytes_between(capacity, plan.summary().fullness).map_or(u64::MAX, |bytes| bytes.0);
        let blocks = |operation: &Operation| operation.file.size.next_multiple_of(4096);
        let largest = plan.operations().map(|operation| blocks(&operation)).max().unwrap();
        let (mut planner, mut freed, mut since) = (plan.operations(), 0, 0);
        while let Some(operation) = planner.next() {
            since += 1;
            freed += if operation.kind == OperationKind::Delete { blocks(&operation) } else { 0 };
            assert!(freed < between.saturating_add(largest), "{share}: {freed} freed without a commit");
            assert!(sync_every == 0 || since <= sync_every);
            if planner.commit_follows() {
                (freed, since) = (0, 0);
            }
        }
        let commits = planner.commits();
        assert!(commits > 0, "{share}, {sync_every}");
        if sync_every == 0 {
            let turned = plan.summary().bytes_created.0;
            assert!(commits <= turned / between, "{share}: {commits} commits");
        }
    }
    assert!(schedule(&plan(Clock::NONE)).is_empty());
    let every = schedule(&plan(clock("none", 400)));
    assert_eq!(every[..2], [400, 800]);
}

#[test]
fn commits_are_at_the_same_operations_for_any_threads_with_nothing_in_progress() {
    let plan = plan(clock("5%", 0));
    let expected = schedule(&plan);
    assert!(expected.len() > 50);
    for (threads, window) in [(1, 4096), (1, 2), (2, 64), (3, 256)] {
        let witness = Witness::default();
        let options = ExecuteOptions { threads, window, ..ExecuteOptions::default() };
        assert_eq!(finished(&mut plan.operations(), &&witness, &options).commits, expected.len() as u64);
        assert_eq!(witness.commits(), expected, "{threads} threads, window {window}");
    }
}

#[test]
fn resumed_run_commits_at_the_same_operations() {
    let plan = plan(clock("5%", 700));
    let expected = schedule(&plan);
    for stop in [1, 333, 1400] {
        let (first, second) = (Witness::default(), Witness::default());
        let options = ExecuteOptions { window: 50, ..ExecuteOptions::default() };
        let outcome = execute_until(&mut plan.operations(), &&first, &options, stop);
        let mut resumed = reached(&plan, outcome.completed);
        second.begun.store(outcome.completed, Ordering::SeqCst);
        second.done.store(outcome.completed, Ordering::SeqCst);
        finished(&mut resumed, &&second, &options);
        assert_eq!([first.commits(), second.commits()].concat(), expected, "stopped at {stop}");
        assert_eq!(resumed.commits(), expected.len() as u64);
    }
}

#[test]
fn every_shard_commits_at_the_commits_of_the_plan() {
    let plan = plan(clock("5%", 0));
    for index in 0..3 {
        let shard = Some(Shard { index, count: 3 });
        let options = ExecuteOptions { shard, threads: 2, ..ExecuteOptions::default() };
        let outcome = finished(&mut plan.operations(), &&Witness::default(), &options);
        assert_eq!(outcome.commits, schedule(&plan).len() as u64);
    }
}

#[test]
fn commits_of_a_divided_plan_are_those_of_its_first_part() {
    let (parts, clock) = (3, clock("5%", 0));
    let planner = |part| {
        let whole = spec(clock);
        let spec = PlanSpec {
            capacity: part_capacity(Bytes::mib(72), parts),
            seed: part_seed(whole.seed, part, parts),
            limit: Limit::Operations(700),
            ..whole
        };
        Arc::new(AgingPlan::new(&spec).unwrap()).operations()
    };
    let first = schedule(planner(0).plan());
    for ranks in [1, 2, 3] {
        let mut commits = 0;
        for rank in 0..ranks {
            let mut own: Vec<(u32, Planner)> =
                (0..parts).filter(|part| part % ranks == rank).map(|part| (part, planner(part))).collect();
            let witnesses: Vec<Witness> = own.iter().map(|_| Witness::default()).collect();
            let backends: Vec<&Witness> = witnesses.iter().collect();
            let len = own[0].1.plan().len() * u64::from(parts);
            let planners = own.iter_mut().map(|(part, planner)| (*part, planner)).collect();
            let mut all = Interleaved::new(parts, planners, 0, len);
            let options = ExecuteOptions { threads: 2, ..ExecuteOptions::default() };
            let go_on = &mut |_: &Interleaved<'_>, _| ControlFlow::Continue(());
            let outcome = execute_parts(&mut all, &backends, &options, &SingleRankPace, &Interrupt::new(), go_on);
            outcome.result.unwrap();
            commits += outcome.commits;
        }
        assert_eq!(commits, first.len() as u64, "{ranks} ranks");
    }
}

#[test]
fn failed_commit_ends_the_run_after_completed_operations() {
    let plan = plan(clock("5%", 0));
    let third = schedule(&plan)[2];
    for threads in [1, 2] {
        let witness = Witness { fails_at: Some(3), ..Witness::default() };
        let options = ExecuteOptions { threads, ..ExecuteOptions::default() };
        let outcome = execute_until(&mut plan.operations(), &&witness, &options, u64::MAX);
        assert!(matches!(outcome.result.unwrap_err(), AgingError::Io(_)));
        assert_eq!((outcome.completed, outcome.commits), (third, 2));
    }
}

#[test]
fn pace_shortens_rounds_to_notice_signals() {
    let plan = plan(Clock::NONE);
    let witness = Witness::default();
    let options = ExecuteOptions { pace: Some(10_000.0), ..ExecuteOptions::default() };
    let mut last = 0;
    let mut rounds = |_: &Planner, done: u64| {
        assert_eq!(done, (last + 1000).min(plan.len()));
        last = done;
        ControlFlow::Continue(())
    };
    let outcome = execute(&mut plan.operations(), &&witness, &options, &Interrupt::new(), &mut rounds);
    assert_eq!(outcome.result.unwrap(), Stop::Finished);
}

#[test]
fn operations_of_a_burst_arrive_together_and_keep_the_pace() {
    let options = ExecuteOptions { pace: Some(2.0), burst: 10, ..ExecuteOptions::default() };
    let arrivals: Vec<f64> = [0, 9, 10, 19, 1000].iter().map(|before| options.arrival(*before).as_secs_f64()).collect();
    assert_eq!(arrivals, [0.0, 0.0, 5.0, 5.0, 500.0]);
    assert_eq!(ExecuteOptions { burst: 1, ..options }.arrival(3).as_secs_f64(), 1.5);
    assert!(ExecuteOptions { pace: None, ..options }.arrival(1000).is_zero());
}

#[test]
fn operation_that_is_never_due_waits_for_an_interrupt() {
    let (plan, witness, interrupt) = (plan(Clock::NONE), Witness::default(), Interrupt::new());
    let options = ExecuteOptions { pace: Some(1e-300), ..ExecuteOptions::default() };
    let mut request = |_: &Planner, _: u64| {
        interrupt.request();
        ControlFlow::Continue(())
    };
    let outcome = execute(&mut plan.operations(), &&witness, &options, &interrupt, &mut request);
    assert_eq!((outcome.result.unwrap(), outcome.completed), (Stop::Interrupted, 1));
}

#[test]
fn files_grow_through_short_rounds_up_to_a_commit_or_the_end() {
    let plan = plan(clock("none", 700));
    let witness = Witness::default();
    let options = ExecuteOptions { pace: Some(10_000.0), ..ExecuteOptions::default() };
    finished(&mut plan.operations(), &&witness, &options);
    let ended = witness.ended.into_inner().unwrap();
    assert_eq!(ended, [schedule(&plan), vec![plan.len()]].concat());
    // Without commits: at most half a window of operations, and when the run is stopped.
    let (plan, witness) = (self::plan(Clock::NONE), Witness::default());
    let options = ExecuteOptions { pace: Some(4000.0), window: 2000, ..options };
    execute_until(&mut plan.operations(), &&witness, &options, 1000).result.unwrap();
    assert_eq!(witness.ended.into_inner().unwrap(), [800, 1200]);
}

#[test]
fn clock_finer_than_an_operation_is_refused_except_the_default() {
    let error = AgingPlan::new(&spec(clock("0.001%", 0))).unwrap_err().to_string();
    assert!(error.contains("--commit-share 0.001%") && error.contains("at least"), "{error}");
    let least = error.split("at least ").nth(1).unwrap().split(',').next().unwrap();
    AgingPlan::new(&spec(clock(least, 0))).unwrap();
    let full = PlanSpec { fullness: Some(0.985), ..spec(Clock::default()) };
    assert!(AgingPlan::new(&full).is_ok());
    let finer = PlanSpec { clock: clock("4%", 0), ..full };
    assert!(AgingPlan::new(&finer).is_err());
    assert_eq!(Clock::default().commit_share, CommitShare::DEFAULT);
}
