//! Clocks (clock_gettime(2)), each by its name: processor time of a thread is not that of its process.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Processor time of the calling thread, user and system (`CLOCK_THREAD_CPUTIME_ID`).
pub fn thread_cpu_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Processor time of all threads of this process, ended ones included, user and system (`CLOCK_PROCESS_CPUTIME_ID`).
pub fn process_cpu_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// Time since some moment before, never set back; it stands still while the machine sleeps (`CLOCK_MONOTONIC`). May be called in
/// a signal handler.
pub fn monotonic() -> Duration {
    read(ClockId::Monotonic)
}

/// [`monotonic`], and the same with the time that the machine slept (`CLOCK_BOOTTIME`), read at one moment.
pub fn monotonic_and_boot() -> (Duration, Duration) {
    // A thread that loses its processor between the two would take its wait for sleep.
    const AT_ONCE: Duration = Duration::from_micros(100);
    let mut before = monotonic();
    for _ in 0..10 {
        let boot = read(ClockId::Boottime);
        let after = monotonic();
        if after - before < AT_ONCE {
            return (before, boot);
        }
        before = after;
    }
    (before, read(ClockId::Boottime))
}

/// Time since the machine was started, sleep included (`CLOCK_BOOTTIME`).
pub fn since_boot() -> Duration {
    read(ClockId::Boottime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_spends_what_its_process_spends_or_less() {
        let mut spent = 0u64;
        while thread_cpu_time() < Duration::from_millis(5) {
            spent = spent.wrapping_mul(31).wrapping_add(std::hint::black_box(7));
        }
        assert!(process_cpu_time() >= Duration::from_millis(5));
        let (now, with_sleep) = monotonic_and_boot();
        assert!(now > Duration::ZERO && with_sleep >= now);
    }
}
