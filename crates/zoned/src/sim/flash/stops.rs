//! Effect of resets on programs.

use super::*;

impl Flash {
    /// Returns how much programs slow a reset, 0 to 1. It depends on whether any of a few dies is programming, and how
    /// long programs have run since the last reset.
    pub(crate) fn crowding(&self, now: u64, settle: u64) -> f64 {
        let since = now.saturating_sub(self.stopped_until) as f64 / settle.max(1) as f64;
        (1.0 - (1.0 - self.programming_share()).powi(3)) * since.min(1.0)
    }

    /// Stops programs for `duration` ns; their data stay in the buffer. Earlier stops add up.
    pub(crate) fn stop_programs(&mut self, now: u64, duration: u64, events: &mut EventQueue) {
        self.release_before(now);
        self.releases.postpone(duration);
        self.stopped_until = self.stopped_until.max(now) + duration;
        events.push(self.stopped_until, EventKind::Resume, 0, 0);
        for die in self.with_programs() {
            if self.dies[die as usize].busy == Busy::Programming {
                self.interrupt(now, die, events);
            }
        }
    }

    /// Programs may continue, unless another reset stopped them again.
    pub(crate) fn resume(&mut self, now: u64, events: &mut EventQueue) {
        if now < self.stopped_until {
            return;
        }
        for die in self.with_programs() {
            if self.dies[die as usize].busy == Busy::Idle {
                self.dispatch(now, die, events);
            }
        }
        self.feed(now, events);
    }
}
