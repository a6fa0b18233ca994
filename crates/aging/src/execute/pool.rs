//! Several threads: each gets its lane of every round and says when it is done.

use super::backend::BackEnd;
use super::{Pace, Run, Stop, Task, apply, hands};
use crate::error::AgingError;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rounds handed out and not yet done.
const ROUNDS_IN_FLIGHT: usize = 2;

/// One lane of one round.
struct Batch {
    tasks: Vec<Task>,
    /// The operation after the round.
    end: u64,
}

/// What a thread says about a batch.
struct Report {
    /// The emptied lane, to be filled again.
    lane: Vec<Task>,
    /// The operation that failed.
    failure: Option<(u64, AgingError)>,
    stalls: u64,
}

/// What threads know of each other.
struct Shared {
    /// For each thread: every one of its operations before this one is done.
    reached: Vec<AtomicU64>,
    failed: AtomicBool,
}

impl Shared {
    fn earlier_done(&self, sequence: u64) -> bool {
        let all = self.reached.iter().all(|reached| reached.load(Ordering::Acquire) >= sequence);
        all || self.failed.load(Ordering::Relaxed)
    }
}

struct Worker {
    batches: Sender<Batch>,
    reports: Receiver<Report>,
}

pub(super) fn play<B: BackEnd>(run: &mut Run<'_, '_, B>) -> Result<Stop, AgingError> {
    let threads = run.options.threads;
    let start = run.parts.position();
    let shared =
        Shared { reached: (0..threads).map(|_| AtomicU64::new(start)).collect(), failed: AtomicBool::new(false) };
    let hands: Vec<Vec<B::Hand>> = (0..threads).map(|_| hands(run.backends, threads)).collect::<Result<_, _>>()?;
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
        conduct(run, &workers)
    })
}

/// Hands out rounds until the plan ends or something stops it, then waits for those in flight.
fn conduct<B: BackEnd>(run: &mut Run<'_, '_, B>, workers: &[Worker]) -> Result<Stop, AgingError> {
    let mut flight = Flight { ends: Vec::new(), spare: Vec::new(), failure: None };
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
            break;
        }
        if let Some(reason) = run.pace.begin(run.next_end()) {
            stop = Ok(reason);
            break;
        }
        let mut lanes: Vec<Vec<Task>> = workers.iter().map(|_| flight.spare.pop().unwrap_or_default()).collect();
        run.next_round(&mut lanes);
        run.executed += lanes.iter().map(|lane| lane.len() as u64).sum::<u64>();
        let end = run.parts.position();
        for (worker, tasks) in workers.iter().zip(lanes) {
            // A worker ends only after its sender is gone.
            let _ = worker.batches.send(Batch { tasks, end });
        }
        flight.ends.push(end);
        if (run.observer)(run.parts, run.completed).is_break() {
            stop = Ok(Stop::Observer);
            break;
        }
    }
    while !flight.ends.is_empty() {
        flight.land(run, workers);
    }
    flight.failure.map_or(stop, |(_, error)| Err(error))
}

/// The rounds in flight.
struct Flight {
    /// The operation after each round, oldest first.
    ends: Vec<u64>,
    spare: Vec<Vec<Task>>,
    /// The earliest operation that failed.
    failure: Option<(u64, AgingError)>,
}

impl Flight {
    /// Waits for the oldest round.
    fn land<B: BackEnd>(&mut self, run: &mut Run<'_, '_, B>, workers: &[Worker]) {
        let end = self.ends.remove(0);
        for worker in workers {
            let Ok(report) = worker.reports.recv() else { continue };
            run.stalls += report.stalls;
            self.spare.push(report.lane);
            if let Some((sequence, error)) = report.failure
                && self.failure.as_ref().is_none_or(|(known, _)| sequence < *known)
            {
                self.failure = Some((sequence, error));
            }
        }
        if self.failure.is_none() {
            run.completed = end;
            run.pace.reached(end);
        }
    }
}

fn work<B: BackEnd>(
    backends: &[B],
    mut hands: Vec<B::Hand>,
    index: usize,
    (shared, pace): (&Shared, &dyn Pace),
    batches: &Receiver<Batch>,
    reports: &Sender<Report>,
) {
    for batch in batches {
        let Batch { mut tasks, end } = batch;
        let mut report = Report { lane: Vec::new(), failure: None, stalls: 0 };
        for task in &tasks {
            if shared.failed.load(Ordering::Relaxed) {
                break;
            }
            shared.reached[index].store(task.sequence, Ordering::Release);
            let earlier_done = || shared.earlier_done(task.sequence) && pace.earlier_done(task.sequence);
            match apply(backends, &mut hands, task, earlier_done) {
                Ok(stalled) => report.stalls += u64::from(stalled),
                Err(error) => {
                    shared.failed.store(true, Ordering::Relaxed);
                    report.failure = Some((task.sequence, error));
                    break;
                }
            }
        }
        if report.failure.is_none() {
            shared.reached[index].store(end, Ordering::Release);
        }
        tasks.clear();
        report.lane = tasks;
        if reports.send(report).is_err() {
            return;
        }
    }
}
