//! The drive's command processor: one server for all zones with processor sharing. A single command sees its bare
//! service time; concurrent commands share the same total rate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Fixed-point bits of attained service.
const SCALE: u32 = 10;

/// Times are nanoseconds.
#[derive(Debug)]
pub(crate) struct Controller {
    /// (service at which the command leaves, slot)
    present: BinaryHeap<Reverse<(u64, u32)>>,
    /// Service that every current command has received since the server started, scaled.
    attained: u64,
    updated: u64,
    next: u64,
}

impl Controller {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { present: BinaryHeap::with_capacity(capacity), attained: 0, updated: 0, next: u64::MAX }
    }

    /// Returns when the next command leaves; `u64::MAX` when idle.
    #[inline]
    pub(crate) fn next_time(&self) -> u64 {
        self.next
    }

    /// Adds a command with `service` ns of work.
    #[inline]
    pub(crate) fn arrive(&mut self, now: u64, slot: u32, service: u64) {
        self.advance(now);
        self.present.push(Reverse((self.attained + (service << SCALE), slot)));
        self.schedule();
    }

    /// Takes the command that leaves at [`Self::next_time`].
    #[inline]
    pub(crate) fn depart(&mut self) -> Option<u32> {
        self.advance(self.next);
        let Reverse((_, slot)) = self.present.pop()?;
        self.schedule();
        Some(slot)
    }

    #[inline]
    fn advance(&mut self, now: u64) {
        let crowd = self.present.len() as u64;
        self.attained += ((now - self.updated) << SCALE).checked_div(crowd).unwrap_or(0);
        self.updated = now;
    }

    #[inline]
    fn schedule(&mut self) {
        self.next = match self.present.peek() {
            None => u64::MAX,
            Some(Reverse((leaves_at, _))) => {
                let left = leaves_at.saturating_sub(self.attained) * self.present.len() as u64;
                self.updated + left.div_ceil(1 << SCALE)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_commands_share_the_server() {
        let mut server = Controller::with_capacity(4);
        server.arrive(100, 1, 1000);
        assert_eq!(server.next_time(), 1100);
        // The second arrives half-way: both then run at half speed.
        server.arrive(600, 2, 1000);
        assert_eq!(server.next_time(), 1600);
        assert_eq!(server.depart(), Some(1));
        assert_eq!(server.next_time(), 2100);
        assert_eq!(server.depart(), Some(2));
        assert_eq!(server.next_time(), u64::MAX);
    }

    #[test]
    fn many_commands_get_the_rate_of_one_server() {
        let mut server = Controller::with_capacity(64);
        for slot in 0..50 {
            server.arrive(0, slot, 5380);
        }
        let mut last = 0;
        for _ in 0..50 {
            last = server.next_time();
            server.depart();
        }
        assert!((50 * 5380..=50 * 5380 + 100).contains(&last), "{last}");
    }
}
