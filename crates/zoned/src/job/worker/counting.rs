//! Selects the commands that count.

use super::{Phase, Worker, WorkerRequest};

impl Worker {
    #[inline]
    pub(super) fn counted_enough(&self) -> bool {
        self.actor.spec.count.is_some_and(|count| self.issued >= count)
    }

    /// Stops when enough commands are done or in flight. Commands that end within the ramp do not count and are
    /// replaced.
    #[cold]
    pub(super) fn at_count(&mut self, now_ns: u64) -> WorkerRequest {
        if now_ns < self.count_from_ns && self.busy() {
            return WorkerRequest::WaitForCompletion;
        }
        self.phase = Phase::Ended;
        self.at_end(now_ns)
    }

    /// Decrements the number of issued commands for one that ended within the ramp: it does not count.
    #[cold]
    pub(super) fn give_back(&mut self, counted: bool, completed_ns: u64) {
        if completed_ns < self.count_from_ns {
            self.issued -= u64::from(counted);
        }
    }
}
