//! Process timer (setitimer(2), `ITIMER_REAL`), which sends SIGALRM.

use std::time::Duration;

/// Sends SIGALRM once after `time`. Async-signal-safe.
pub fn send_after(time: Duration) {
    let zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let value = libc::timeval {
        tv_sec: time.as_secs() as libc::time_t,
        tv_usec: libc::suseconds_t::from(time.subsec_micros() as i32),
    };
    let timer = libc::itimerval { it_interval: zero, it_value: value };
    // SAFETY: the structure outlives the call; the old value is not asked for.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}
