//! The values of one beat, and the time that was lost between two of them.

use super::{Cause, Gap, TICK};
use senesce_sys::clock;
use senesce_sys::processes;
use senesce_sys::usage::ThreadTimes;
use std::time::Duration;

/// Timers, interrupts and idle states of a guest's processor delay a beat by a few milliseconds without a stop (8 ms on a busy
/// host).
const TOLERANCE: Duration = Duration::from_millis(8);

/// The same without the additional switch of a stop: a busy host takes the processors of a guest away
/// for about 200 ms, and under heavy load for several times as long.
const TOLERANCE_WITHOUT_SWITCH: Duration = Duration::from_secs(1);

/// The same while the thread examines other tasks: a thread that waits for a processor may hold kernel locks.
const WORK_TOLERANCE: Duration = Duration::from_millis(200);

/// The same if the kernel does not count waiting time (no `CONFIG_SCHED_INFO`).
const TOLERANCE_WITHOUT_WAITS: Duration = Duration::from_secs(1);

/// CLOCK_BOOTTIME and CLOCK_MONOTONIC are not read at the same instant.
const BETWEEN_CLOCKS: Duration = Duration::from_millis(1);

/// The tick of a phase that counts only as a whole is its elapsed time divided by this number, between [`TICK`] and [`LONGEST_TICK`].
/// A longer tick suffices later: half of it, the error of a stop's length, is half of the tolerated loss. Threads are examined as often as in
/// other phases.
const BEATS_OF_A_WHOLE_PHASE: u32 = 100;

const LONGEST_TICK: Duration = Duration::from_millis(50);

/// Activity of the thread between two beats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Examines other tasks.
    Working,
    /// Sleeps for this long, which takes one switch.
    Sleeping(Duration),
}

/// How the time between two beats changes in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rhythm {
    Constant,
    SlowerWithTime,
}

impl Rhythm {
    pub(super) fn tick(self, elapsed: Duration) -> Duration {
        match self {
            Self::Constant => TICK,
            Self::SlowerWithTime => (elapsed / BEATS_OF_A_WHOLE_PHASE).clamp(TICK, LONGEST_TICK),
        }
    }
}

/// Values read when the thread wakes. CLOCK_MONOTONIC is read before and after the others: if the thread waits for a
/// processor in between, that time is in no gap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beat {
    pub(super) read_from: Duration,
    pub(super) read_until: Duration,
    /// CLOCK_BOOTTIME at the end, which includes suspended time.
    pub(super) boot: Duration,
    pub(super) times: ThreadTimes,
}

impl Beat {
    pub(super) fn now(times: impl FnOnce() -> ThreadTimes) -> Self {
        let read_from = clock::monotonic();
        let times = times();
        let (read_until, boot) = clock::monotonic_and_boot();
        Self { read_from, read_until, boot, times }
    }

    /// Returns the time lost until `later`.
    pub(super) fn gaps_until(&self, later: &Self, rest: Rest) -> [Option<Gap>; 2] {
        let slept = if let Rest::Sleeping(tick) = rest { tick } else { Duration::ZERO };
        let gap = |cause, lost| Gap { cause, from: self.read_until, to: later.read_until, lost };
        let waited = later.times.waited.zip(self.times.waited).map(|(later, earlier)| later.saturating_sub(earlier));
        let ran = later.times.ran.saturating_sub(self.times.ran);
        let switches = later.times.switches.saturating_sub(self.times.switches);
        let tolerance = match (waited, rest) {
            (None, _) => TOLERANCE_WITHOUT_WAITS,
            (_, Rest::Working) if switches > 0 => WORK_TOLERANCE,
            (_, Rest::Sleeping(_)) if switches > 1 => TOLERANCE,
            _ => TOLERANCE_WITHOUT_SWITCH,
        };
        let elapsed = later.read_from.saturating_sub(self.read_until);
        let late = elapsed.saturating_sub(slept + ran + waited.unwrap_or_default());
        // A stop begins at a random time of the sleep, on average in its middle.
        let stopped = (late > tolerance).then(|| gap(Cause::Stopped, late + slept / 2));
        let awake = later.read_until.saturating_sub(self.read_until);
        let suspended = later.boot.saturating_sub(self.boot).saturating_sub(awake);
        [stopped, (suspended > BETWEEN_CLOCKS).then(|| gap(Cause::Suspended, suspended))]
    }

    /// Returns the gap if one of several tasks, examined in turn, was stopped: this task represents all of them.
    pub(super) fn stopped_task(&self, now: &Self, tasks: usize) -> Gap {
        let lost = TICK * processes::BEATS_PER_SCAN * u32::try_from(tasks).unwrap_or(u32::MAX);
        let to = now.read_until;
        let from = to.saturating_sub(lost.max(to.saturating_sub(self.read_until)));
        Gap { cause: Cause::ThreadStopped, from, to, lost }
    }
}
