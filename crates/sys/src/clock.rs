//! Clocks (clock_gettime(2)) by name, so that thread and process times are not confused.

use std::time::Duration;

/// Returns the user and system time of the calling thread (`CLOCK_THREAD_CPUTIME_ID`).
pub fn thread_cpu_time() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the user and system time of all threads of this process, including terminated ones
/// (`CLOCK_PROCESS_CPUTIME_ID`).
pub fn process_cpu_time() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the monotonic time from an arbitrary start, which stands still while suspended (`CLOCK_MONOTONIC`).
/// Async-signal-safe.
pub fn monotonic() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns [`monotonic`], and the same including suspended time (`CLOCK_BOOTTIME`), read together.
pub fn monotonic_and_boot() -> (Duration, Duration) {
    // Maximum time between the two reads. If the thread were preempted between them, its wait would count as suspension.
    const AT_ONCE: Duration = Duration::from_micros(100);
    let mut before = monotonic();
    for _ in 0..10 {
        let boot = read(libc::CLOCK_BOOTTIME);
        let after = monotonic();
        if after - before < AT_ONCE {
            return (before, boot);
        }
        before = after;
    }
    (before, read(libc::CLOCK_BOOTTIME))
}

/// Returns the time since boot, including suspension (`CLOCK_BOOTTIME`).
pub fn since_boot() -> Duration {
    read(libc::CLOCK_BOOTTIME)
}

/// Sleeps until [`monotonic`] has this value. `false`: a signal came first.
pub fn sleep_until(monotonic: Duration) -> bool {
    let until = libc::timespec {
        tv_sec: libc::time_t::try_from(monotonic.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: monotonic.subsec_nanos().into(),
    };
    // SAFETY: `until` is a valid time, and nothing is written for an absolute one.
    let status = unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, std::ptr::null_mut())
    };
    status != libc::EINTR
}

/// Reads a clock. Does not use rustix, which aborts on kernels whose vDSO has no `getcpu`, such as user-mode Linux 7.3.
fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` may be written. These clocks exist on every supported kernel, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_sleep_ends_at_its_time_or_at_once() {
        let due = monotonic() + Duration::from_millis(2);
        assert!(sleep_until(due) && monotonic() >= due);
        assert!(sleep_until(Duration::ZERO));
    }

    #[test]
    fn thread_time_does_not_exceed_process_time() {
        let mut spent = 0u64;
        while thread_cpu_time() < Duration::from_millis(5) {
            spent = spent.wrapping_mul(31).wrapping_add(std::hint::black_box(7));
        }
        assert!(process_cpu_time() >= Duration::from_millis(5));
        let (now, with_sleep) = monotonic_and_boot();
        assert!(now > Duration::ZERO && with_sleep >= now);
    }
}
