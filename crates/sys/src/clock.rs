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
        assert!(monotonic() > Duration::ZERO);
    }
}
