//! Which commands a count is of.

use super::{Phase, Wish, Worker};

impl Worker {
    #[inline]
    pub(super) fn counted_enough(&self) -> bool {
        self.actor.spec.count.is_some_and(|count| self.issued >= count)
    }

    /// As many as may count are done or in flight. What ends within the ramp does not count, and others take its place.
    #[cold]
    pub(super) fn at_count(&mut self, now_ns: u64) -> Wish {
        if now_ns < self.count_from_ns && self.busy() {
            return Wish::WaitForCompletion;
        }
        self.phase = Phase::Ended;
        self.at_end(now_ns)
    }

    /// What ends within the ramp is not one of the commands to be counted.
    #[cold]
    pub(super) fn give_back(&mut self, counted: bool, completed_ns: u64) {
        if completed_ns < self.count_from_ns {
            self.issued -= u64::from(counted);
        }
    }
}
