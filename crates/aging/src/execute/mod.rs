//! Executes a plan on a file system.
//!
//! Every directory belongs to one thread. So the operations on a file keep their order, and the namespace is independent of the
//! number of threads.
//!
//! Operations are issued in rounds of half a window. A round starts when the round before the previous one has ended, so no
//! thread is more than a window ahead of another. A round ends early at a commit of the plan's clock. When all threads and
//! shards have done everything before it, the file system is synced, and then the next round starts. So commits lie at the same
//! operations for any number of threads. Changes of files follow their operation, in the thread of their directory.

mod commit;
mod content;
mod descriptors;
mod directory;
mod filler;
mod name;
mod pace;
mod plan_target;
mod pool;
mod task;
mod witness;
mod work_unit;

pub use commit::sets_commit_time;
pub(crate) use content::Content;
pub use directory::{DirectoryTarget, check};
pub use pace::{Pace, SingleRankPace};
pub use plan_target::{NullTarget, PlanExecutor, PlanTarget};
pub use witness::CommitWitness;
pub use work_unit::WorkUnit;

pub(crate) use content::CHUNK;
pub(crate) use descriptors::Descriptors;
pub(crate) use directory::explain;
pub(crate) use name::{Name, Parsed};

use crate::error::AgingError;
use crate::parts::{Interleaved, PlacedOperation};
use crate::plan::ChangeCounts;
use crate::planner::{OperationKind, Planner};
use senesce_core::interrupt::Interrupt;
use senesce_core::machine::time_is_virtual;
use senesce_core::virtual_time::{
    DROP_CACHES, OPERATIONS_PER_TICK, await_middle_of_tick, await_work_after_mount, empty_caches,
};
use senesce_sys::clock::{monotonic, sleep_until};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use task::{Counts, Task, TaskAction, Work};

/// How files get their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Blocks are allocated but not written; extents stay "unwritten" and read as zeros without device I/O.
    Fallocate,
    /// Content derived from seed and file is written, and can be verified.
    #[default]
    Write,
    /// Only the size is set; nothing is allocated.
    Sparse,
}

/// One of several machines that execute the same plan, each with a share of the directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Index, from 0.
    pub index: u32,
    pub count: u32,
}

impl Shard {
    pub(crate) fn owns(self, directory: u32) -> bool {
        directory % self.count == self.index
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ExecuteOptions {
    /// Sync every n-th created file to the device; 0: none.
    pub fsync_every: u64,
    pub threads: usize,
    pub shard: Option<Shard>,
    /// Maximum number of operations by which one thread may be ahead of another.
    pub window: u64,
    /// Maximum operations of the plan per second; `None`: unlimited.
    pub pace: Option<f64>,
    /// Operations that arrive at once, at least 1. The pauses between bursts keep the pace.
    pub burst: u64,
}

impl ExecuteOptions {
    /// Returns the arrival time, after the start, of the operation that has `before` operations before it.
    pub fn arrival(&self, before: u64) -> Duration {
        let burst = self.burst.max(1);
        let seconds = self.pace.map_or(0.0, |pace| (before / burst * burst) as f64 / pace);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

impl Default for ExecuteOptions {
    fn default() -> Self {
        Self { fsync_every: 0, threads: 1, shard: None, window: 4096, pace: None, burst: 1 }
    }
}

/// End of an execution without failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The plan is complete.
    Finished,
    Observer,
    Interrupted,
}

#[derive(Debug)]
pub struct ExecuteOutcome {
    /// The end, or the first operation that failed.
    pub result: Result<Stop, AgingError>,
    /// Completed operations from the start of the plan. After a failure, some later ones may be done too, and growing files may
    /// be incomplete; a resume reconciles them.
    pub completed: u64,
    pub seconds: f64,
    /// Number of waits for deletes of other threads and a commit because the file system was full.
    pub stalls: u64,
    /// Issued operations of this shard.
    pub executed: u64,
    pub commits: u64,
    pub synced: u64,
    pub changes: ChangeCounts,
}

/// Executes the rest of `planner` on `backend`. `observer` is called after each round (half a window of operations) with the
/// planner, which is up to a window ahead, and the number of completed operations; it may stop the run. After a stop without
/// failure, exactly the operations of `planner` are complete.
pub fn execute<B: PlanTarget>(
    planner: &mut Planner,
    backend: &B,
    options: &ExecuteOptions,
    interrupt: &Interrupt,
    observer: &mut dyn FnMut(&Planner, u64) -> ControlFlow<()>,
) -> ExecuteOutcome {
    let mut parts = Interleaved::whole(planner);
    execute_parts(
        &mut parts,
        std::slice::from_ref(backend),
        options,
        &SingleRankPace,
        interrupt,
        &mut |parts, completed| parts.own().try_for_each(|(_, planner)| observer(planner, completed)),
    )
}

/// Executes parts of a plan, each on its own target, in step with other processes: a round starts when `pace` allows it.
/// Operations are counted as positions of [`Interleaved`].
pub fn execute_parts<B: PlanTarget>(
    parts: &mut Interleaved<'_>,
    backends: &[B],
    options: &ExecuteOptions,
    pace: &dyn Pace,
    interrupt: &Interrupt,
    observer: &mut dyn FnMut(&Interleaved<'_>, u64) -> ControlFlow<()>,
) -> ExecuteOutcome {
    let begun = Instant::now();
    let completed = parts.position();
    let (from, counts) = ((monotonic(), completed), Counts::default());
    let mut run = Run { completed, parts, backends, options, pace, interrupt, observer, from, counts };
    let result = run.play().and_then(|stop| run.counts.agree().map(|()| stop));
    let (completed, Counts { stalls, executed, commits, work, .. }) = (run.completed, run.counts);
    let (seconds, Work { synced, changes }) = (begun.elapsed().as_secs_f64(), work);
    ExecuteOutcome { result, completed, seconds, stalls, executed, commits, synced, changes }
}

struct Run<'a, 'b, B: PlanTarget> {
    parts: &'a mut Interleaved<'b>,
    backends: &'a [B],
    options: &'a ExecuteOptions,
    pace: &'a dyn Pace,
    interrupt: &'a Interrupt,
    observer: &'a mut dyn FnMut(&Interleaved<'_>, u64) -> ControlFlow<()>,
    completed: u64,
    /// Start on the monotonic clock, and the first operation.
    from: (Duration, u64),
    counts: Counts,
}

const ROUNDS_PER_CHECK: u64 = 256;
/// Interval between queries of the progress of other shards.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(1);
/// Maximum time between checks for an interrupt.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

impl<B: PlanTarget> Run<'_, '_, B> {
    fn play(&mut self) -> Result<Stop, AgingError> {
        self.backends.iter().try_for_each(PlanTarget::prepare)?;
        if self.options.pace.is_none() {
            await_work_after_mount();
        }
        if self.options.threads <= 1 { self.play_alone() } else { pool::play(self) }
    }

    /// Plans and executes in a single thread, without queues or context switches.
    fn play_alone(&mut self) -> Result<Stop, AgingError> {
        let mut hands = hands(self.backends, 1)?;
        let stop = self.play_rounds(&mut hands)?;
        self.finish(&mut hands)?;
        Ok(stop)
    }

    /// Executes until something stops it. Growing files may be incomplete then.
    fn play_rounds(&mut self, hands: &mut [B::PlanExecutor]) -> Result<Stop, AgingError> {
        let mut lanes = vec![Vec::new()];
        let mut finished = self.parts.position();
        for round in 0.. {
            if let Some(stop) = self.stop_before(round)? {
                return Ok(stop);
            }
            if let Some(stop) = self.pace.begin(self.next_end()) {
                return Ok(stop);
            }
            let commit = self.next_round(&mut lanes);
            let pace = self.pace;
            for task in lanes[0].drain(..) {
                // Every earlier operation is done.
                self.completed = task.sequence;
                let earlier_done = || pace.earlier_done(task.sequence);
                apply(self.backends, hands, &task, earlier_done, &mut self.counts.stalls)?;
                self.counts.work.count(&task);
            }
            let position = self.parts.position();
            // A pace makes short rounds, and files may grow through several of them.
            if commit || position + self.round() > finished + self.longest_round() {
                self.finish(hands)?;
                finished = position;
            }
            self.complete(position);
            if commit {
                self.commit()?;
            }
            if (self.observer)(self.parts, self.completed).is_break() {
                return Ok(Stop::Observer);
            }
        }
        Ok(Stop::Finished)
    }

    /// Completes growing files, and retries after a commit if space is missing.
    fn finish(&mut self, hands: &mut [B::PlanExecutor]) -> Result<(), AgingError> {
        for (backend, hand) in self.backends.iter().zip(hands) {
            match hand.finish() {
                Err(error) if error.is_full() => {
                    backend.commit()?;
                    self.counts.stalls += 1;
                    hand.finish()?;
                }
                result => result?,
            }
        }
        Ok(())
    }

    /// Records that every operation below `position` is done.
    fn complete(&mut self, position: u64) {
        self.completed = position;
        self.pace.reached(position);
    }

    fn stop_before(&mut self, round: u64) -> Result<Option<Stop>, AgingError> {
        if self.parts.position() >= self.parts.len() {
            return Ok(Some(Stop::Finished));
        }
        self.keep_pace();
        if self.interrupt.requested() {
            return Ok(Some(Stop::Interrupted));
        }
        if round % ROUNDS_PER_CHECK == ROUNDS_PER_CHECK - 1 {
            self.backends.iter().try_for_each(PlanTarget::check)?;
        }
        Ok(None)
    }

    /// Returns the operations of a round: half a window, or fewer if the pace or virtual time requires it. The pace
    /// limits the time between checks for an interrupt; virtual time limits a round to a tick.
    fn round(&self) -> u64 {
        let most = match self.options.pace {
            Some(pace) => (pace * LONGEST_PAUSE.as_secs_f64()) as u64,
            None if time_is_virtual() => OPERATIONS_PER_TICK,
            None => u64::MAX,
        };
        self.longest_round().min(most).max(1)
    }

    fn longest_round(&self) -> u64 {
        (self.options.window / 2).max(1)
    }

    fn keep_pace(&self) {
        if self.options.pace.is_none() {
            return await_middle_of_tick();
        }
        let (begun, from) = self.from;
        let due = begun.saturating_add(self.options.arrival(self.parts.position() - from));
        if time_is_virtual() {
            // The pause takes no time. In a guest, each query of the clock is a slow system call.
            while !self.interrupt.requested() && !sleep_until(due) {}
            return;
        }
        while let Some(early) = due.checked_sub(monotonic()).filter(|early| !early.is_zero()) {
            if self.interrupt.requested() {
                return;
            }
            std::thread::sleep(early.min(LONGEST_PAUSE));
        }
    }

    /// Commits the file system. Nothing is in progress in this process; other shards have done everything before, and may be a
    /// window ahead.
    fn commit(&mut self) -> Result<(), AgingError> {
        while !self.pace.earlier_done(self.completed) {
            std::thread::sleep(BETWEEN_QUESTIONS);
        }
        // All parts are on one file system.
        self.backends.first().map_or(Ok(()), PlanTarget::commit)?;
        if self.options.pace.is_none() {
            empty_caches().map_err(|error| AgingError::io("drop the caches through", DROP_CACHES, error))?;
        }
        self.counts.commits += 1;
        Ok(())
    }

    /// Returns the first operation after the next round. Rounds end at the same operations in all shards. A commit,
    /// which only the first part of a divided plan knows, therefore does not end one.
    fn next_end(&self) -> u64 {
        let (round, from) = (self.round(), self.from.1);
        let begun = (self.parts.position() - from) / round;
        (from + (begun + 1) * round).min(self.parts.len())
    }

    /// Plans operations into one lane per thread, to the end of the round or the next commit; returns whether a commit follows.
    fn next_round(&mut self, lanes: &mut [Vec<Task>]) -> bool {
        let (threads, every, end) = (lanes.len() as u32, self.options.fsync_every, self.next_end());
        while let Some(PlacedOperation { position, own, operation, commit }) = self.parts.next_below(end) {
            let shard = self.options.shard.unwrap_or(Shard { index: 0, count: 1 });
            let lane = |directory: u32| ((directory / shard.count).wrapping_add(own as u32) % threads) as usize;
            let directory = operation.file.directory;
            if shard.owns(directory) {
                let created = operation.kind == OperationKind::Create;
                let sync = every > 0 && created && self.parts.creates(own).is_multiple_of(every);
                let act = TaskAction::Operation(operation);
                lanes[lane(directory)].push(Task { sequence: position, step: 0, own, act, sync });
                self.counts.executed += 1;
            }
            for (step, change) in (1..).zip(self.parts.changes(own)) {
                let directory = change.file.directory;
                if shard.owns(directory) {
                    let act = TaskAction::Change(*change);
                    lanes[lane(directory)].push(Task { sequence: position, step, own, act, sync: false });
                    self.counts.planned.count(change);
                }
            }
            if commit {
                return true;
            }
        }
        false
    }
}

fn hands<B: PlanTarget>(backends: &[B], threads: usize) -> Result<Vec<B::PlanExecutor>, AgingError> {
    backends.iter().map(|backend| backend.hand(threads * backends.len())).collect()
}

/// Executes one task. If the file system is full, waits (by `earlier_done`) for every earlier operation, commits so that freed
/// space is available, counts one of the `stalls`, and retries once.
fn apply<B: PlanTarget>(
    backends: &[B],
    hands: &mut [B::PlanExecutor],
    task: &Task,
    earlier_done: impl Fn() -> bool,
    stalls: &mut u64,
) -> Result<(), AgingError> {
    let (backend, hand) = (&backends[task.own], &mut hands[task.own]);
    let mut act = || match &task.act {
        TaskAction::Operation(operation) => hand.apply(operation, task.sync),
        TaskAction::Change(change) => hand.change(change),
    };
    match act() {
        Err(error) if error.is_full() => {
            while !earlier_done() {
                std::thread::sleep(BETWEEN_QUESTIONS);
            }
            backend.commit()?;
            *stalls += 1;
            act()
        }
        result => result,
    }
}
