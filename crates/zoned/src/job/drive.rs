//! The loop between workers and a device: serves workers with completions at once, others when their timers expire.

use super::worker::{Worker, WorkerRequest};
use crate::command::Completion;
use crate::device::{Clock, ZonedDevice};
use crate::error::ZonedError;
use senesce_core::interrupt::Interrupt;

/// Completions between two checks of the interrupt flag.
const INTERRUPT_EVERY: u32 = 1024;
/// In real time, the maximum wait between two checks.
const LOOK_EVERY_NS: u64 = 100_000_000;

/// Runs `workers` until all are done or one of the flags is set. Returns whether one was set.
pub(crate) fn drive<D: ZonedDevice + ?Sized>(
    device: &mut D,
    workers: &mut [Worker],
    owner_of_tag: &[u16],
    interrupts: &[&Interrupt],
) -> Result<bool, ZonedError> {
    let mut loop_state =
        Loop { timers: vec![u64::MAX; workers.len()], next_timer: u64::MAX, running: workers.len(), stopped: false };
    let now = device.now_ns();
    for index in 0..workers.len() {
        loop_state.issue(device, workers, index, now)?;
    }
    let (mut until_check, mut interrupted) = (INTERRUPT_EVERY, false);
    let patience = if device.clock() == Clock::Real { LOOK_EVERY_NS } else { u64::MAX };
    let mut latest = now;
    while loop_state.running > 0 {
        match device.next(loop_state.next_timer.min(latest.saturating_add(patience)))? {
            Some(completion) => {
                latest = completion.completed_ns;
                let index = usize::from(owner_of_tag[completion.tag as usize]);
                loop_state.completed(device, workers, index, &completion)?;
            }
            None => {
                latest = device.now_ns();
                loop_state.wake(device, workers)?;
                until_check = 1;
            }
        }
        until_check -= 1;
        if until_check == 0 {
            until_check = INTERRUPT_EVERY;
            if !interrupted && interrupts.iter().any(|interrupt| interrupt.requested()) {
                interrupted = true;
                workers.iter_mut().for_each(Worker::end);
                loop_state.wake_all(device, workers)?;
            }
        }
    }
    Ok(interrupted)
}

/// Sets a zone's state without commands. A lost zone is dropped by its worker.
#[cold]
fn preset<D: ZonedDevice + ?Sized>(
    device: &mut D,
    worker: &mut Worker,
    zone: u32,
    blocks: Option<u64>,
) -> Result<(), ZonedError> {
    match device.preset(zone, blocks) {
        Ok(done) => worker.preset_done(done),
        Err(error) => {
            if !matches!(error, ZonedError::Zone { .. }) || !refresh_zone(device, worker, zone)? {
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Updates a worker's view of a zone. Returns whether the zone is lost.
fn refresh_zone<D: ZonedDevice + ?Sized>(device: &mut D, worker: &mut Worker, zone: u32) -> Result<bool, ZonedError> {
    Ok(device.report(zone, 1)?.first().is_some_and(|info| worker.found(info)))
}

struct Loop {
    /// When each worker wants to be called again; `u64::MAX` while it waits for a completion or is done.
    timers: Vec<u64>,
    next_timer: u64,
    running: usize,
    /// A worker lost a zone while preparing a round: all workers end at the next wake-up.
    stopped: bool,
}

const DONE: u64 = u64::MAX - 1;

impl Loop {
    #[inline]
    fn completed<D: ZonedDevice + ?Sized>(
        &mut self,
        device: &mut D,
        workers: &mut [Worker],
        index: usize,
        completion: &Completion,
    ) -> Result<(), ZonedError> {
        workers[index].complete(completion);
        if completion.result.is_err() {
            self.refused(device, workers, index)?;
        }
        self.issue(device, workers, index, completion.completed_ns)
    }

    /// Handles a refused command. A lost zone may end all workers.
    #[cold]
    fn refused<D: ZonedDevice + ?Sized>(
        &mut self,
        device: &mut D,
        workers: &mut [Worker],
        index: usize,
    ) -> Result<(), ZonedError> {
        if let Some(zone) = workers[index].doubtful_zone() {
            refresh_zone(device, &mut workers[index], zone)?;
        }
        if workers[index].stopped { self.stop(device, workers) } else { Ok(()) }
    }

    fn stop<D: ZonedDevice + ?Sized>(&mut self, device: &mut D, workers: &mut [Worker]) -> Result<(), ZonedError> {
        workers.iter_mut().for_each(Worker::end);
        self.wake_all(device, workers)
    }

    #[inline]
    fn issue<D: ZonedDevice + ?Sized>(
        &mut self,
        device: &mut D,
        workers: &mut [Worker],
        index: usize,
        now: u64,
    ) -> Result<(), ZonedError> {
        let worker = &mut workers[index];
        let timer = loop {
            match worker.wish(now) {
                WorkerRequest::Submit(command) => device.submit(command)?,
                WorkerRequest::Preset(zone, blocks) => {
                    preset(device, worker, zone, blocks)?;
                    if worker.stopped {
                        self.stopped = true;
                        break now;
                    }
                }
                WorkerRequest::WaitUntil(time) => break time,
                WorkerRequest::WaitForCompletion => break u64::MAX,
                WorkerRequest::Finished => break DONE,
            }
        };
        let before = std::mem::replace(&mut self.timers[index], timer);
        if timer == DONE && before != DONE {
            self.running -= 1;
        }
        if timer < self.next_timer {
            self.next_timer = timer;
        } else if before == self.next_timer && before < DONE {
            self.next_timer = self.timers.iter().copied().filter(|time| *time < DONE).min().unwrap_or(u64::MAX);
        }
        Ok(())
    }

    fn wake<D: ZonedDevice + ?Sized>(&mut self, device: &mut D, workers: &mut [Worker]) -> Result<(), ZonedError> {
        if self.stopped {
            return self.stop(device, workers);
        }
        let now = device.now_ns();
        for index in 0..workers.len() {
            if self.timers[index] <= now {
                self.issue(device, workers, index, now)?;
            }
        }
        Ok(())
    }

    fn wake_all<D: ZonedDevice + ?Sized>(&mut self, device: &mut D, workers: &mut [Worker]) -> Result<(), ZonedError> {
        let now = device.now_ns();
        for index in 0..workers.len() {
            if self.timers[index] != DONE {
                self.issue(device, workers, index, now)?;
            }
        }
        Ok(())
    }
}
