//! Cheap timestamps: the time stamp counter if the kernel trusts it, otherwise `clock_gettime`.

use senesce_sys::clock::monotonic;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    counter: bool,
    /// Nanoseconds per tick times 2^32.
    scale: u64,
}

impl Clock {
    /// Chooses the cheapest clock. Calibrates the counter against the monotonic clock for 20 ms.
    pub(crate) fn new() -> Self {
        let plain = Self { counter: false, scale: 1 << 32 };
        if !counter_is_trusted() {
            return plain;
        }
        let counter = Self { counter: true, scale: 0 };
        let (ticks, start) = (counter.now(), plain.now());
        while plain.now() - start < 20_000_000 {
            std::hint::spin_loop();
        }
        let (ticks, nanoseconds) = (counter.now().wrapping_sub(ticks), plain.now() - start);
        if ticks == 0 {
            return plain;
        }
        Self { counter: true, scale: ((u128::from(nanoseconds) << 32) / u128::from(ticks)) as u64 }
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.counter {
            // SAFETY: every x86-64 processor has the instruction.
            return unsafe { core::arch::x86_64::_rdtsc() };
        }
        let time = monotonic();
        time.as_secs() * 1_000_000_000 + u64::from(time.subsec_nanos())
    }

    #[inline]
    pub(crate) fn nanoseconds(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }

    pub(crate) fn ticks(&self, nanoseconds: u64) -> u64 {
        ((u128::from(nanoseconds) << 32) / u128::from(self.scale.max(1))) as u64
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns whether the kernel uses the counter as its clock source. Its rate is then constant and equal on all
/// processors.
fn counter_is_trusted() -> bool {
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|name| name.trim() == "tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_convert_both_ways() {
        let clock = Clock::new();
        let back = clock.nanoseconds(clock.ticks(1_000_000_000));
        assert!(back.abs_diff(1_000_000_000) < 1000, "{back}");
        let (start, begun) = (clock.now(), std::time::Instant::now());
        while begun.elapsed() < std::time::Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        assert!(clock.nanoseconds(clock.now() - start) >= 4_900_000);
    }
}
