//! The clock of a user-mode kernel in virtual time.
//!
//! It stands still while a program runs, except for 256 ns at each query (arch/um/kernel/time.c). A build that queries it more often
//! reaches the next tick at another operation, so the kernel's timers act on another state.

use crate::machine::time_is_virtual;
use std::time::{Duration, SystemTime};

/// CONFIG_HZ of user-mode kernels is 100.
const TICK: Duration = Duration::from_millis(10);

/// Maximum operations between two waits. They take less than half a tick with up to 70 queries of the clock each.
pub const OPERATIONS_PER_TICK: u64 = 256;

/// Waits, in virtual time, for the middle of a tick. Later work then meets the kernel's timers at the same points in
/// every build.
pub fn await_middle_of_tick() {
    if !time_is_virtual() {
        return;
    }
    // Guests in virtual time start at a whole second.
    std::thread::sleep(until_middle(SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()));
}

/// After a mount, ext4 waits for a random time of up to 5 s (EXT4_DEF_LI_MAX_START_DELAY), then reads its bitmaps. The random number
/// depends on how many programs drew before.
const MOUNT_WORK: Duration = Duration::from_secs(6);

/// Waits, in virtual time, until the file systems have done their work after the mount.
pub fn await_work_after_mount() {
    if time_is_virtual() {
        std::thread::sleep(MOUNT_WORK);
    }
}

/// File of the kernel that drops clean pages.
pub const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Writes back everything and drops clean pages, in virtual time. The kernel otherwise does so when memory is scarce,
/// which depends on the pages of all programs. An image of the host has its pages in the cache twice.
///
/// # Errors
/// The file cannot be written.
pub fn empty_caches() -> std::io::Result<()> {
    if !time_is_virtual() {
        return Ok(());
    }
    rustix::fs::sync();
    std::fs::write(DROP_CACHES, "1")
}

fn until_middle(now: Duration) -> Duration {
    let into_tick = Duration::from_nanos((now.as_nanos() % TICK.as_nanos()) as u64);
    match (TICK / 2).checked_sub(into_tick) {
        Some(left) if !left.is_zero() => left,
        _ => TICK + TICK / 2 - into_tick,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_ends_in_the_middle_of_a_tick() {
        for (now, wait) in
            [(0, 5_000_000), (1, 4_999_999), (4_999_999, 1), (5_000_000, 10_000_000), (19_999_999, 5_000_001)]
        {
            let found = until_middle(Duration::from_nanos(now));
            assert_eq!(found, Duration::from_nanos(wait), "{now}");
        }
    }
}
