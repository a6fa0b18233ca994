//! Plays a plan on a file system.
//!
//! Every directory belongs to one thread, so that the operations on a file keep their order and the namespace does not
//! depend on the number of threads. Operations are handed out in rounds of half a window; a round begins when the one
//! before the last has ended, so that no thread is more than a window ahead of another. Where the plan's clock asks for a
//! commit a round ends early: when all threads are done with it, and all other shards with what lies below, the file system
//! is synchronised, and then the next round begins. So commits lie at the same operations for any number of threads. Changes of
//! files go with the operation that they follow, to the thread of their directory.

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

pub use content::Content;
pub use directory::{DirectoryHand, DirectoryTarget, check};
pub use pace::{Alone, Pace};
pub use plan_target::{Hand, NullTarget, PlanTarget};
pub use witness::CommitWitness;

pub(crate) use content::CHUNK;
pub(crate) use descriptors::Descriptors;
pub(crate) use directory::explain;
pub(crate) use name::Name;

use crate::error::AgingError;
use crate::parts::{Interleaved, Placed};
use crate::planner::{ChangeCounts, OperationKind, Planner};
use senesce_core::interrupt::Interrupt;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use task::{Act, Counts, Task, Work};

/// How files get their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Blocks are allocated but not written; extents stay "unwritten" and read as zeros without touching the device.
    #[default]
    Fallocate,
    /// Content derived from seed and file is written, and can be verified.
    Write,
    /// Only the size is set; nothing is allocated.
    Sparse,
}

/// One of several machines that play the same plan, each its share of the directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which one, from 0.
    pub index: u32,
    /// Of how many.
    pub count: u32,
}

impl Shard {
    pub fn owns(self, directory: u32) -> bool {
        directory % self.count == self.index
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ExecuteOptions {
    /// Every so manyth created file is synchronised to the device; 0: none.
    pub fsync_every: u64,
    pub threads: usize,
    /// Play only this share of the directories.
    pub shard: Option<Shard>,
    /// Operations by which threads may drift apart.
    pub window: u64,
    /// Operations of the plan per second, at most; `None`: as fast as the machine.
    pub pace: Option<f64>,
}

impl Default for ExecuteOptions {
    fn default() -> Self {
        Self { fsync_every: 0, threads: 1, shard: None, window: 4096, pace: None }
    }
}

/// What ended an execution that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The plan is played to its end.
    Finished,
    /// The observer said so.
    Observer,
    /// A signal.
    Interrupted,
}

#[derive(Debug)]
pub struct ExecuteOutcome {
    /// What ended it, or the first operation that failed.
    pub result: Result<Stop, AgingError>,
    /// Operations of the plan that are all done, counted from its beginning. After a failure some later ones may be
    /// done too, and files that grow may not be whole; a resume reconciles them.
    pub completed: u64,
    pub seconds: f64,
    /// How often a full file system made the executor wait for deletes of other threads and commit.
    pub stalls: u64,
    /// Operations of this shard among those that were handed out.
    pub executed: u64,
    pub commits: u64,
    /// Files that were synchronised to the device when they were made.
    pub synced: u64,
    /// Changes of files that were done, counted after each.
    pub changes: ChangeCounts,
}

/// Plays what is left of `planner` on `backend`. `observer` is called after each round (half a window of operations)
/// with the planner, which is up to a window ahead, and the number of operations completed; it may stop the run.
/// After a stop without failure the completed operations are exactly those of `planner`.
pub fn execute<B: PlanTarget>(
    planner: &mut Planner,
    backend: &B,
    options: &ExecuteOptions,
    interrupt: &Interrupt,
    observer: &mut dyn FnMut(&Planner, u64) -> ControlFlow<()>,
) -> ExecuteOutcome {
    let mut parts = Interleaved::whole(planner);
    execute_parts(&mut parts, std::slice::from_ref(backend), options, &Alone, interrupt, &mut |parts, completed| {
        parts.own().try_for_each(|(_, planner)| observer(planner, completed))
    })
}

/// Plays the parts of a plan, each on its own back end, in step with those that play the others: a round begins when
/// `pace` allows. Operations are counted as positions of [`Interleaved`].
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
    let (from, counts) = ((begun, completed), Counts::default());
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
    from: (Instant, u64),
    counts: Counts,
}

/// Rounds between two looks at whether the target is still there.
const ROUNDS_PER_CHECK: u64 = 256;
/// How often others are asked how far they are.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(1);
/// Longest time without a look at the interrupt.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

impl<B: PlanTarget> Run<'_, '_, B> {
    fn play(&mut self) -> Result<Stop, AgingError> {
        self.backends.iter().try_for_each(PlanTarget::prepare)?;
        if self.options.threads <= 1 { self.play_alone() } else { pool::play(self) }
    }

    /// One thread plans and works: no queue, no switch of context.
    fn play_alone(&mut self) -> Result<Stop, AgingError> {
        let mut hands = hands(self.backends, 1)?;
        let stop = self.play_rounds(&mut hands)?;
        self.finish(&mut hands)?;
        Ok(stop)
    }

    /// Plays until something stops it. What is under way then is not ended.
    fn play_rounds(&mut self, hands: &mut [B::Hand]) -> Result<Stop, AgingError> {
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
                // All before it is done.
                self.completed = task.sequence;
                let earlier_done = || pace.earlier_done(task.sequence);
                apply(self.backends, hands, &task, earlier_done, &mut self.counts.stalls)?;
                self.counts.work.count(&task);
            }
            let position = self.parts.position();
            // A pace makes short rounds, through several of which files may grow.
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

    /// Ends what is under way; where there is no room for it, once more after a commit.
    fn finish(&mut self, hands: &mut [B::Hand]) -> Result<(), AgingError> {
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

    /// Everything below `position` is done.
    fn complete(&mut self, position: u64) {
        self.completed = position;
        self.pace.reached(position);
    }

    /// Why no further round should begin, if so.
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

    /// Half a window, or what the pace allows in the time after which an interrupt should be seen.
    fn round(&self) -> u64 {
        let most = self.options.pace.map_or(u64::MAX, |pace| (pace * LONGEST_PAUSE.as_secs_f64()) as u64);
        self.longest_round().min(most).max(1)
    }

    fn longest_round(&self) -> u64 {
        (self.options.window / 2).max(1)
    }

    /// Waits until the pace allows the next round.
    fn keep_pace(&self) {
        let Some(pace) = self.options.pace else { return };
        let (begun, from) = self.from;
        let due = Duration::from_secs_f64((self.parts.position() - from) as f64 / pace);
        while let Some(early) = due.checked_sub(begun.elapsed()).filter(|early| !early.is_zero()) {
            if self.interrupt.requested() {
                return;
            }
            std::thread::sleep(early.min(LONGEST_PAUSE));
        }
    }

    /// Has the file system commit what is done. In this process nothing else is under way; other shards have done what lies
    /// before, and may be a window ahead.
    fn commit(&mut self) -> Result<(), AgingError> {
        while !self.pace.earlier_done(self.completed) {
            std::thread::sleep(BETWEEN_QUESTIONS);
        }
        // All parts lie on one file system.
        self.backends.first().map_or(Ok(()), PlanTarget::commit)?;
        self.counts.commits += 1;
        Ok(())
    }

    /// The operation after the next round. Rounds end at the same operations in all shards: a commit, of which only the first
    /// part of a divided plan knows, ends none.
    fn next_end(&self) -> u64 {
        let (round, from) = (self.round(), self.from.1);
        let begun = (self.parts.position() - from) / round;
        (from + (begun + 1) * round).min(self.parts.len())
    }

    /// Plans operations into one lane per thread, to the end of the round or up to the next commit; whether a commit follows.
    fn next_round(&mut self, lanes: &mut [Vec<Task>]) -> bool {
        let (threads, every, end) = (lanes.len() as u32, self.options.fsync_every, self.next_end());
        while let Some(Placed { position, own, operation, commit }) = self.parts.next_below(end) {
            let shard = self.options.shard.unwrap_or(Shard { index: 0, count: 1 });
            let lane = |directory: u32| ((directory / shard.count).wrapping_add(own as u32) % threads) as usize;
            let directory = operation.file.directory;
            if shard.owns(directory) {
                let created = operation.kind == OperationKind::Create;
                let sync = every > 0 && created && self.parts.creates(own).is_multiple_of(every);
                let act = Act::Operation(operation);
                lanes[lane(directory)].push(Task { sequence: position, step: 0, own, act, sync });
                self.counts.executed += 1;
            }
            for (step, change) in (1..).zip(self.parts.changes(own)) {
                let directory = change.file.directory;
                if shard.owns(directory) {
                    let act = Act::Change(*change);
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

/// The hands of one of `threads` threads, one for each part.
fn hands<B: PlanTarget>(backends: &[B], threads: usize) -> Result<Vec<B::Hand>, AgingError> {
    backends.iter().map(|backend| backend.hand(threads * backends.len())).collect()
}

/// Does one task. When the file system is full, waits (by `earlier_done`) until every earlier operation is done, has it commit so
/// that freed space is available, which counts as one of the `stalls`, and tries once more.
fn apply<B: PlanTarget>(
    backends: &[B],
    hands: &mut [B::Hand],
    task: &Task,
    earlier_done: impl Fn() -> bool,
    stalls: &mut u64,
) -> Result<(), AgingError> {
    let (backend, hand) = (&backends[task.own], &mut hands[task.own]);
    let mut act = || match &task.act {
        Act::Operation(operation) => hand.apply(operation, task.sync),
        Act::Change(change) => hand.change(change),
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
