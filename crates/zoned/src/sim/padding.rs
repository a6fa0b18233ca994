//! Padding by finishes that compete with programs of writers. Every finish and every zone with queued data gets an
//! equal share of the flash; finishes use the remainder.

use super::flash::Program;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Padding {
    /// (slot of the finish, programs left), in turn
    active: VecDeque<(u32, u64)>,
    /// Programs that the finishes may issue before the writers' next one.
    credit: f64,
    /// Finishes whose last program has started.
    pub done: Vec<u32>,
}

impl Padding {
    pub(crate) fn begin(&mut self, slot: u32, programs: u64) {
        self.active.push_back((slot, programs.max(1)));
    }

    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Returns whether the next program is padding, which is then taken; otherwise it is the first of the `queue`.
    #[inline]
    pub(crate) fn waits(&mut self, queue: &VecDeque<(Program, u32)>) -> bool {
        if self.active.is_empty() {
            return false;
        }
        match queue.front() {
            None => self.credit = 0.0,
            Some(_) if self.credit >= 1.0 => self.credit -= 1.0,
            Some((first, _)) => {
                if *first == Program::Host {
                    self.credit += self.active.len() as f64 / zones_in(queue) as f64;
                }
                return false;
            }
        }
        self.take();
        true
    }

    fn take(&mut self) {
        let Some((slot, left)) = self.active.pop_front() else { return };
        match left {
            0 | 1 => self.done.push(slot),
            _ => self.active.push_back((slot, left - 1)),
        }
    }
}

/// Zones with queued data; at least 1.
fn zones_in(queue: &VecDeque<(Program, u32)>) -> usize {
    let first_of_its_zone = |index: &usize| queue.iter().take(*index).all(|(_, zone)| *zone != queue[*index].1);
    (0..queue.len()).filter(first_of_its_zone).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of padding programs of one finish among 400 programs next to `zones` backlogged writers.
    fn share(zones: u32) -> usize {
        let mut padding = Padding::default();
        padding.begin(7, 1_000_000);
        let mut queue: VecDeque<(Program, u32)> = (0..20).map(|unit| (Program::Host, unit % zones)).collect();
        let mut taken = 0;
        for unit in 0..400 {
            if padding.waits(&queue) {
                taken += 1;
            } else {
                queue.pop_front();
                queue.push_back((Program::Host, unit % zones));
            }
        }
        taken
    }

    #[test]
    fn finish_gets_one_share_and_the_remainder() {
        assert_eq!((share(1), share(3)), (200, 100));
        let mut padding = Padding::default();
        padding.begin(7, 2);
        assert!(padding.waits(&VecDeque::new()) && padding.done.is_empty());
        assert!(padding.waits(&VecDeque::new()) && padding.done == [7]);
        assert!(!padding.waits(&VecDeque::new()));
    }
}
