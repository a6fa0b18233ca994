//! A heartbeat during a timed phase detects time in which the process, one of its threads or the machine stood still.
//!
//! A thread sleeps for one tick at a time. A late beat is explained if the thread ran or waited for a processor (`schedstat`), as
//! under load. If the thread was also switched out more often than it slept, the rest is a stop: SIGSTOP, a frozen control group,
//! a tracer. Otherwise the host ran another guest for a moment, which stolen time covers; only a long rest is a paused guest.

mod beat;

use crate::circumstances::ticks_now;
use crate::failure::{Classify, ExitCode};
use crate::machine::time_is_virtual;
use beat::{Beat, Rest, Rhythm};
use senesce_sys::clock;
use senesce_sys::processes::Scan;
use senesce_sys::usage;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A phase that lost a larger share of its length is invalid.
pub(crate) const LOST_SHARE: f64 = 0.01;

/// Time between two beats.
const TICK: Duration = Duration::from_millis(10);

/// Shorter losses are ignored: the resolution of the heartbeat is one tick.
const LEAST_LOSS: Duration = Duration::from_millis(20);

/// Time that the last operation of a phase may take.
const LEAST_LEAP: Duration = Duration::from_secs(1);

/// Reason for lost time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The whole process was stopped.
    Stopped,
    /// A thread or a child process was stopped.
    ThreadStopped,
    /// The machine was suspended.
    Suspended,
    /// The host ran other guests.
    Stolen,
    /// The virtual clock advanced by more or less than the pace of the work.
    Leaped,
    /// The heartbeat could not start.
    Unwatched,
}

/// A phase that is invalid because it lost more than [`LOST_SHARE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostTime {
    /// First cause that exceeded the limit.
    pub cause: Cause,
    /// Lost microseconds.
    pub lost_us: u64,
    /// Length of the phase in microseconds.
    pub length_us: u64,
}

impl std::error::Error for LostTime {}

impl std::fmt::Display for LostTime {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |us: u64| us as f64 / 1e6;
        let (lost, length) = (seconds(self.lost_us), seconds(self.length_us));
        match self.cause {
            Cause::Leaped => {
                write!(out, "the virtual clock advanced by {length:.3} s, {lost:.3} s more or less than the pace")
            }
            Cause::Unwatched => write!(out, "the heartbeat thread could not start, so stops cannot be detected"),
            cause => write!(out, "{} for {lost:.3} s of {length:.3} s", cause.words()),
        }
    }
}

impl Cause {
    /// Causes outside of senesce, which may not recur.
    const EXTERNAL: [Self; 4] = [Self::Stopped, Self::ThreadStopped, Self::Suspended, Self::Stolen];

    fn words(self) -> &'static str {
        match self {
            Self::Stopped => "the process was stopped, frozen or paused with its machine",
            Self::ThreadStopped => "a thread or child process was stopped, frozen or traced",
            Self::Suspended => "the machine was suspended",
            Self::Stolen => "the host gave the processors to other guests (steal)",
            Self::Leaped => "the virtual clock advanced by more or less than the pace",
            Self::Unwatched => "the heartbeat thread could not start",
        }
    }
}

impl LostTime {
    /// Returns whether the recorded reason of a failed step is time lost to other programs or guests.
    pub fn is_reason(reason: &str) -> bool {
        Cause::EXTERNAL.into_iter().any(|cause| reason.contains(cause.words()))
    }
}

impl Classify for LostTime {
    fn exit_code(&self) -> ExitCode {
        ExitCode::RunFailed
    }
}

/// Watches a phase from [`Heartbeat::begin`] to [`Heartbeat::end`].
#[derive(Debug)]
pub struct Heartbeat {
    beats: Arc<Beats>,
    /// None in virtual time, which does not pass while this process stands still.
    thread: Option<JoinHandle<()>>,
    begun: Duration,
    usage: Option<ProcessorUsage>,
}

#[derive(Debug, Default)]
struct Beats {
    ended: Mutex<bool>,
    end: Condvar,
    gaps: Mutex<Vec<Gap>>,
}

/// Lost time between two times of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Gap {
    cause: Cause,
    from: Duration,
    to: Duration,
    lost: Duration,
}

impl Heartbeat {
    /// Starts the heartbeat of a phase whose parts may be examined.
    pub fn begin() -> Self {
        Self::with(Rhythm::Constant)
    }

    fn with(rhythm: Rhythm) -> Self {
        let beats = Arc::new(Beats::default());
        let shared = beats.clone();
        let (begins, first) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("heartbeat".into()).stack_size(128 << 10);
        let watch = move || shared.watch(&begins, rhythm);
        let thread = if time_is_virtual() { None } else { thread.spawn(watch).ok() };
        // While this thread waits for a processor, the other one may not exist yet: that is not a stop of the phase.
        let begun = thread.as_ref().and_then(|_| first.recv().ok()).unwrap_or_else(clock::monotonic);
        Self { beats, thread, begun, usage: ProcessorUsage::now() }
    }

    /// Discards stolen time so far, at the end of the warm-up.
    pub fn forget_stolen(&mut self) {
        self.usage = ProcessorUsage::now();
    }

    /// Ends the phase.
    pub fn end(mut self) -> MonitoredPhase {
        let length_end = clock::monotonic();
        let (before, after) = (self.usage, ProcessorUsage::now());
        let watched = self.stop() || time_is_virtual();
        let gaps = std::mem::take(&mut *lock(&self.beats.gaps));
        let stolen = before.zip(after).filter(|_| !ignores_stolen_time());
        let stolen = stolen.map(|(before, after)| StealTime::between(before, after));
        MonitoredPhase { begun: self.begun, ended: length_end, gaps, stolen, watched }
    }

    /// Returns whether there was a thread to end.
    fn stop(&mut self) -> bool {
        *lock(&self.beats.ended) = true;
        self.beats.end.notify_all();
        self.thread.take().is_some_and(|thread| thread.join().is_ok())
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns whether a test set the variable, because a host may steal time from any test. Release builds ignore it.
fn ignores_stolen_time() -> bool {
    cfg!(debug_assertions) && std::env::var_os("SENESCE_TEST_IGNORES_STEAL").is_some()
}

/// Runs `work` under a heartbeat; `Some` if its times are invalid.
pub fn watched<T>(work: impl FnOnce() -> T) -> (T, Option<LostTime>) {
    let heartbeat = Heartbeat::with(Rhythm::SlowerWithTime);
    let done = work();
    (done, heartbeat.end().lost())
}

/// Compares the `elapsed` virtual time of a phase with the time that its pace `allots`.
pub fn leap(elapsed: Duration, allots: Duration) -> Option<LostTime> {
    let lost = elapsed.abs_diff(allots);
    let lost_us = lost.as_micros() as u64;
    let found = LostTime { cause: Cause::Leaped, lost_us, length_us: elapsed.as_micros() as u64 };
    (lost > LEAST_LEAP.max(allots.mul_f64(LOST_SHARE))).then_some(found)
}

/// A completed phase.
#[derive(Debug, Clone, PartialEq)]
pub struct MonitoredPhase {
    begun: Duration,
    ended: Duration,
    gaps: Vec<Gap>,
    stolen: Option<StealTime>,
    watched: bool,
}

#[derive(Debug, Clone, Copy)]
struct ProcessorUsage {
    /// Clock ticks of all processors: all, stolen, idle.
    ticks: [f64; 3],
    /// Seconds of this process and its terminated children.
    own_seconds: f64,
}

impl ProcessorUsage {
    fn now() -> Option<Self> {
        let own = clock::process_cpu_time() + usage::ended_children().processor_time();
        Some(Self { ticks: ticks_now()?, own_seconds: own.as_secs_f64() })
    }
}

/// Processor usage in a phase, in seconds over all processors.
#[derive(Debug, Clone, Copy, PartialEq)]
struct StealTime {
    /// Minimum time in which the host ran another guest although a processor had work.
    seconds: f64,
    /// Busy time.
    busy_seconds: f64,
    /// Busy time for this process or its children.
    own_seconds: f64,
}

impl MonitoredPhase {
    /// Fails if the phase lost too much.
    ///
    /// # Errors
    /// [`LostTime`].
    pub fn check(&self) -> Result<(), LostTime> {
        self.lost().map_or(Ok(()), Err)
    }

    /// Returns the phase's loss, if it is too large.
    pub fn lost(&self) -> Option<LostTime> {
        self.lost_between(self.begun, self.ended)
    }

    /// Returns the time lost in the warm-up, or in the measured part after it; each has its own limit. Steal time counts
    /// in the measured part only.
    pub fn lost_in_warm_up_or_between(&self, warm_until: Duration, from: Duration, to: Duration) -> Option<LostTime> {
        let warm_up = Self { stolen: None, ..self.clone() };
        self.lost_between(from, to).or_else(|| warm_up.lost_between(self.begun, warm_until))
    }

    /// Returns the loss of a part of the phase, between two times of CLOCK_MONOTONIC, if it is too large.
    pub fn lost_between(&self, from: Duration, to: Duration) -> Option<LostTime> {
        let length = to.saturating_sub(from);
        let lost = |cause, lost: Duration| LostTime {
            cause,
            lost_us: lost.as_micros() as u64,
            length_us: length.as_micros() as u64,
        };
        if !self.watched {
            return Some(lost(Cause::Unwatched, Duration::ZERO));
        }
        let limit = LEAST_LOSS.max(length.mul_f64(LOST_SHARE));
        let in_gaps = [Cause::Suspended, Cause::Stopped, Cause::ThreadStopped].map(|cause| {
            let gaps = self.gaps.iter().filter(|gap| gap.cause == cause);
            (cause, gaps.map(|gap| gap.lost_between(from, to)).sum::<Duration>())
        });
        let stolen = (Cause::Stolen, self.stolen.map_or(Duration::ZERO, |stolen| stolen.own_share(length)));
        in_gaps.into_iter().chain([stolen]).find(|(_, time)| *time > limit).map(|(cause, time)| lost(cause, time))
    }
}

impl Gap {
    fn lost_between(&self, from: Duration, to: Duration) -> Duration {
        let overlap = self.to.min(to).saturating_sub(self.from.max(from));
        match self.cause {
            // CLOCK_MONOTONIC stands still while suspended.
            Cause::Suspended if !overlap.is_zero() => self.lost,
            _ => self.lost.min(overlap),
        }
    }
}

impl StealTime {
    fn between(before: ProcessorUsage, after: ProcessorUsage) -> Self {
        let [all, stolen, idle] = std::array::from_fn(|part| (after.ticks[part] - before.ticks[part]).max(0.0));
        let in_a_second = rustix::param::clock_ticks_per_second().max(1) as f64;
        Self {
            // Both counts are rounded down, so their difference is up to a tick too large.
            seconds: (stolen - 1.0).max(0.0) / in_a_second,
            busy_seconds: (all - idle - stolen).max(0.0) / in_a_second,
            own_seconds: (after.own_seconds - before.own_seconds).max(0.0),
        }
    }

    /// Loss per processor that worked for this process. Other programs carry their own share of the stolen time.
    fn own_share(self, length: Duration) -> Duration {
        let share = (self.own_seconds / self.busy_seconds.max(self.own_seconds).max(f64::MIN_POSITIVE)).min(1.0);
        let processors = (self.own_seconds / length.as_secs_f64().max(f64::MIN_POSITIVE)).max(1.0);
        Duration::try_from_secs_f64(self.seconds * share / processors).unwrap_or_default()
    }
}

impl Beats {
    fn watch(&self, begins: &SyncSender<Duration>, rhythm: Rhythm) {
        let times = usage::ThreadTimesFile::of_this_thread();
        let now = || Beat::now(|| times.as_ref().and_then(usage::ThreadTimesFile::read).unwrap_or_default());
        let first = now();
        let (mut woken, mut scan) = (first, Scan::default());
        // The receiver waits for it.
        let _ = begins.send(first.read_until);
        loop {
            let asleep = now();
            self.note(woken.gaps_until(&asleep, Rest::Working));
            let tick = rhythm.tick(asleep.read_until.saturating_sub(first.read_until));
            let ended = self.sleep(tick);
            let last = std::mem::replace(&mut woken, now());
            self.note(asleep.gaps_until(&woken, Rest::Sleeping(tick)));
            if ended {
                return;
            }
            for _ in 0..tick.div_duration_f64(TICK).ceil() as u32 {
                if let Some(tasks) = scan.next_stopped() {
                    self.note([Some(last.stopped_task(&woken, tasks)), None]);
                }
            }
        }
    }

    fn note(&self, gaps: [Option<Gap>; 2]) {
        if gaps.iter().any(Option::is_some) {
            lock(&self.gaps).extend(gaps.into_iter().flatten());
        }
    }

    /// Sleeps for a tick, or until the end of the phase; returns whether it has ended.
    fn sleep(&self, tick: Duration) -> bool {
        let ended = lock(&self.ended);
        if *ended {
            return true;
        }
        *self.end.wait_timeout(ended, tick).unwrap_or_else(PoisonError::into_inner).0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
