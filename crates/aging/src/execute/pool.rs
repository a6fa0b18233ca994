//! Runs several threads: each receives its lane of every round and reports when it is done. The file
//! system may become full because some threads ran ahead. Then all stop, and a single one executes the rest of the rounds in
//! the order of the plan.

use super::plan_target::PlanTarget;
use super::{Pace, Run, Stop, Task, TaskAction, Work, apply, hands};
use crate::error::AgingError;
use crate::planner::{File, OperationKind};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rounds issued and not yet done.
const ROUNDS_IN_FLIGHT: usize = 2;

struct Batch {
    tasks: Vec<Task>,
    end: u64,
}

struct Report {
    lane: Vec<Task>,
    done: usize,
    failure: Option<(u64, AgingError)>,
    stalls: u64,
    work: Work,
}

struct Shared {
    /// For each thread: its operations below this one are done.
    reached: Vec<AtomicU64>,
    failed: AtomicBool,
}

impl Shared {
    /// Returns whether there is nothing to wait for: every earlier operation is done, here and in the other shards, or
    /// one has failed. Other shards may be informed only of completed operations.
    fn earlier_done(&self, sequence: u64, pace: &dyn Pace) -> bool {
        let all = || self.reached.iter().all(|reached| reached.load(Ordering::Acquire) >= sequence);
        self.failed.load(Ordering::Relaxed) || all() && pace.earlier_done(sequence)
    }

    /// Lets the threads, which all wait for a round, continue at `position`.
    fn resume(&self, position: u64) {
        self.reached.iter().for_each(|reached| reached.store(position, Ordering::Release));
        self.failed.store(false, Ordering::Relaxed);
    }
}

struct Worker {
    batches: Sender<Batch>,
    reports: Receiver<Report>,
}

pub(super) fn play<B: PlanTarget>(run: &mut Run<'_, '_, B>) -> Result<Stop, AgingError> {
    let threads = run.options.threads;
    let start = run.parts.position();
    let shared =
        Shared { reached: (0..threads).map(|_| AtomicU64::new(start)).collect(), failed: AtomicBool::new(false) };
    let more_hands = || hands(run.backends, threads + 1);
    let hands: Vec<Vec<B::PlanExecutor>> = (0..threads).map(|_| more_hands()).collect::<Result<_, _>>()?;
    let mut own_hands = more_hands()?;
    let (backends, pace) = (run.backends, run.pace);
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for (index, hands) in hands.into_iter().enumerate() {
            let (batches, incoming) = bounded(ROUNDS_IN_FLIGHT);
            let (outgoing, reports) = bounded(ROUNDS_IN_FLIGHT);
            let shared = &shared;
            scope.spawn(move || work(backends, hands, index, (shared, pace), &incoming, &outgoing));
            workers.push(Worker { batches, reports });
        }
        conduct(run, &mut own_hands, &workers, &shared)
    })
}

fn conduct<B: PlanTarget>(
    run: &mut Run<'_, '_, B>,
    hands: &mut [B::PlanExecutor],
    workers: &[Worker],
    shared: &Shared,
) -> Result<Stop, AgingError> {
    let mut flight = Flight::default();
    let mut stop = Ok(Stop::Finished);
    for round in 0.. {
        match run.stop_before(round) {
            Ok(None) => {}
            Ok(Some(reason)) => {
                stop = Ok(reason);
                break;
            }
            Err(error) => {
                stop = Err(error);
                break;
            }
        }
        if flight.ends.len() == ROUNDS_IN_FLIGHT {
            flight.land(run, workers);
        }
        if flight.failure.is_some() {
            flight.land_all(run, hands, workers, shared);
        }
        if flight.failure.is_some() {
            break;
        }
        if let Some(reason) = run.pace.begin(run.next_end()) {
            stop = Ok(reason);
            break;
        }
        let mut lanes: Vec<Vec<Task>> = workers.iter().map(|_| flight.spare.pop().unwrap_or_default()).collect();
        let commit = run.next_round(&mut lanes);
        let end = run.parts.position();
        for (worker, tasks) in workers.iter().zip(lanes) {
            // A worker ends only after its sender is dropped.
            let _ = worker.batches.send(Batch { tasks, end });
        }
        flight.ends.push(end);
        if commit {
            flight.land_all(run, hands, workers, shared);
            if flight.failure.is_some() {
                break;
            }
            if let Err(error) = run.commit() {
                stop = Err(error);
                break;
            }
        }
        if (run.observer)(run.parts, run.completed).is_break() {
            stop = Ok(Stop::Observer);
            break;
        }
    }
    flight.land_all(run, hands, workers, shared);
    flight.failure.map_or(stop, |(_, error)| Err(error))
}

#[derive(Default)]
struct Flight {
    ends: Vec<u64>,
    spare: Vec<Vec<Task>>,
    left: Vec<Task>,
    ahead: Vec<Task>,
    failure: Option<(u64, AgingError)>,
}

impl Flight {
    fn land<B: PlanTarget>(&mut self, run: &mut Run<'_, '_, B>, workers: &[Worker]) {
        let end = self.ends.remove(0);
        let reports: Vec<Report> = workers.iter().filter_map(|worker| worker.reports.recv().ok()).collect();
        let settled = self.left.is_empty() && reports.iter().all(|report| report.done == report.lane.len());
        if settled {
            run.complete(end);
        }
        for mut report in reports {
            run.counts.stalls += report.stalls;
            run.counts.work.add(&report.work);
            if !settled {
                self.left.extend(report.lane.drain(report.done..));
                self.ahead.append(&mut report.lane);
            }
            report.lane.clear();
            self.spare.push(report.lane);
            if let Some((sequence, error)) = report.failure
                && self.failure.as_ref().is_none_or(|(known, _)| sequence < *known)
            {
                self.failure = Some((sequence, error));
            }
        }
    }

    /// Waits for all rounds. If the file system was full, executes the rest of them.
    fn land_all<B: PlanTarget>(
        &mut self,
        run: &mut Run<'_, '_, B>,
        hands: &mut [B::PlanExecutor],
        workers: &[Worker],
        shared: &Shared,
    ) {
        while !self.ends.is_empty() {
            self.land(run, workers);
        }
        let (left, ahead) = (std::mem::take(&mut self.left), std::mem::take(&mut self.ahead));
        if !left.is_empty() && self.failure.as_ref().is_some_and(|(_, error)| error.is_full()) {
            self.failure = catch_up(run, hands, left, &ahead).err();
        }
        if self.failure.is_none() {
            shared.resume(run.completed);
        }
    }
}

/// Executes the rest in the order of the plan, so that it needs no more space than the plan: files created ahead are removed
/// first and created again in order. A failure includes its operation.
fn catch_up<B: PlanTarget>(
    run: &mut Run<'_, '_, B>,
    hands: &mut [B::PlanExecutor],
    mut left: Vec<Task>,
    ahead: &[Task],
) -> Result<(), (u64, AgingError)> {
    let file = |task: &Task| (task.own, task.act.file().birth);
    let gone: HashSet<_> = ahead.iter().filter(|task| task.act.is(OperationKind::Delete)).map(file).collect();
    let first = left.iter().map(Task::place).min().unwrap_or_default();
    let ahead = || ahead.iter().filter(|task| task.place() > first && !gone.contains(&file(task)));
    let early: Vec<Task> = ahead().filter(|task| task.act.is(OperationKind::Create)).copied().collect();
    let mut early_files: HashMap<_, File> = early.iter().map(|task| (file(task), *task.act.file())).collect();
    // Removed files lose their changes. Other files that grew are truncated; with several changes, they are removed and created
    // again as they were before. All these changes are repeated in order.
    let is_change = |task: &&Task| matches!(task.act, TaskAction::Change(_));
    let (lost, others): (Vec<Task>, Vec<Task>) =
        ahead().filter(is_change).partition(|task| early_files.contains_key(&file(task)));
    let mut changed: HashMap<_, Vec<Task>> = HashMap::new();
    others.into_iter().for_each(|task| changed.entry(file(&task)).or_default().push(task));
    let grown: Vec<Vec<Task>> =
        changed.into_values().filter(|tasks| tasks.iter().any(|task| task.grew_by() > 0)).collect();
    let several = || grown.iter().filter(|tasks| tasks.len() > 1);
    let restored: Vec<Task> = several().filter_map(|tasks| Some(tasks.first()?.restored())).collect();
    for task in &lost {
        early_files.insert(file(task), *task.act.file());
    }
    let removed = several().filter_map(|tasks| tasks.last()).map(|task| task.removal(*task.act.file()));
    let cut = grown.iter().filter(|tasks| tasks.len() == 1).flatten().map(Task::cut_again);
    let early_removed = early.iter().map(|task| task.removal(early_files[&file(task)]));
    let taken_back: Vec<Task> = early_removed.chain(removed).chain(cut).collect();
    left.extend(early.iter().chain(&lost).chain(grown.iter().flatten()));
    left.sort_unstable_by_key(Task::place);
    // Removals need no space. For the others, all earlier operations are done.
    for task in taken_back.iter().chain(&restored).chain(&left) {
        let earlier_done = || run.pace.earlier_done(task.sequence);
        apply(run.backends, hands, task, earlier_done, &mut run.counts.stalls)
            .map_err(|error| (task.sequence, error))?;
    }
    lost.iter().chain(grown.iter().flatten()).for_each(|task| run.counts.work.discount(task));
    left.iter().for_each(|task| run.counts.work.count(task));
    run.complete(run.parts.position());
    Ok(())
}

fn work<B: PlanTarget>(
    backends: &[B],
    mut hands: Vec<B::PlanExecutor>,
    index: usize,
    (shared, pace): (&Shared, &dyn Pace),
    batches: &Receiver<Batch>,
    reports: &Sender<Report>,
) {
    for batch in batches {
        let mut report = Report { lane: batch.tasks, done: 0, failure: None, stalls: 0, work: Work::default() };
        for task in &report.lane {
            if shared.failed.load(Ordering::Relaxed) {
                break;
            }
            shared.reached[index].store(task.sequence, Ordering::Release);
            let earlier_done = || shared.earlier_done(task.sequence, pace);
            match apply(backends, &mut hands, task, earlier_done, &mut report.stalls) {
                Ok(()) => report.work.count(task),
                Err(error) => {
                    shared.failed.store(true, Ordering::Relaxed);
                    report.failure = Some((task.sequence, error));
                    break;
                }
            }
            report.done += 1;
        }
        if report.done == report.lane.len() {
            shared.reached[index].store(batch.end, Ordering::Release);
        }
        if reports.send(report).is_err() {
            return;
        }
    }
}
