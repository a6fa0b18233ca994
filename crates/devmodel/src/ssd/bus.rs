//! A bus with reservations: a transfer takes the first free time after its data are ready.
//!
//! Data are transferred in the order in which they are ready, not in which they were requested. Time is divided into short slots
//! with the remaining nanoseconds of each, after the channel model of NVMeVirt (FAST '23; channel_model.c): the rate is exact, a
//! single transfer may be early by up to a slot.

use std::collections::VecDeque;

/// The same as NVMeVirt's UNIT_TIME_INTERVAL.
const SLOT_NS: u64 = 4000;

#[derive(Debug, Clone)]
pub(crate) struct Bus {
    ns_per_byte: f64,
    /// Number of the first slot kept; earlier ones are past.
    first: u64,
    /// Nanoseconds left in each slot from there on; later slots are free.
    left: VecDeque<u16>,
}

impl Bus {
    /// Returns an idle bus; the rate is in MiB/s.
    pub(crate) fn new(mib_per_s: f64) -> Self {
        Self { ns_per_byte: 1e9 / (mib_per_s * f64::from(1u32 << 20)), first: 0, left: VecDeque::new() }
    }

    /// Forgets the time before `now_ns`; no data will be ready earlier.
    pub(crate) fn forget_before(&mut self, now_ns: u64) {
        let first = now_ns / SLOT_NS;
        if first > self.first {
            let past = usize::try_from(first - self.first).unwrap_or(usize::MAX).min(self.left.len());
            self.left.drain(..past);
            self.first = first;
        }
    }

    /// Transfers `bytes` that are ready at `ready_ns`; returns the end of the transfer.
    pub(crate) fn transfer(&mut self, ready_ns: u64, bytes: u64) -> u64 {
        let whole = (bytes as f64 * self.ns_per_byte).ceil() as u64;
        let mut need = whole;
        let mut slot = (ready_ns / SLOT_NS).max(self.first);
        // The first slot is usable only after the data are ready.
        let mut usable = SLOT_NS - ready_ns.saturating_sub(slot * SLOT_NS).min(SLOT_NS);
        loop {
            let at = (slot - self.first) as usize;
            if at >= self.left.len() {
                self.left.resize(at + 1, SLOT_NS as u16);
            }
            let take = need.min(usable).min(u64::from(self.left[at]));
            self.left[at] -= take as u16;
            need -= take;
            if need == 0 {
                let used = SLOT_NS - u64::from(self.left[at]);
                return (ready_ns + whole).max(slot * SLOT_NS + used);
            }
            slot += 1;
            usable = SLOT_NS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_bus_transfers_at_once_and_busy_one_after_reservations() {
        let mut bus = Bus::new(1000.0);
        let mib = 1 << 20;
        assert_eq!(bus.transfer(10_000, mib / 100), 20_000);
        let second = bus.transfer(10_000, mib / 100);
        // Within a slot of 30 us.
        assert!(second.abs_diff(30_000) <= SLOT_NS, "{second}");
    }

    #[test]
    fn bus_transfers_data_in_the_order_they_are_ready() {
        let mut bus = Bus::new(1000.0);
        bus.transfer(100_000, (1 << 20) / 100);
        assert_eq!(bus.transfer(0, (1 << 20) / 100), 10_000);
    }

    #[test]
    fn bus_does_not_exceed_its_rate() {
        let mut bus = Bus::new(800.0);
        let last = (0..1000u64).map(|index| bus.transfer(index % 7 * 1300, 16 << 10)).max().unwrap_or(0);
        let least = 1000.0 * 16384.0 / (800.0 * 1048576.0) * 1e9;
        assert!(last as f64 >= least && (last as f64) < least * 1.02 + 10_000.0, "{last} against {least}");
    }
}
