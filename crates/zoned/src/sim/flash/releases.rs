//! Release of program data from the buffer. Releases have no other effect, so they are not events: they are evaluated
//! when buffer space is needed.

use super::{Flash, FlashModel, ns};
use std::collections::VecDeque;

/// The same part of all programs' data.
#[derive(Debug)]
struct Part {
    /// Delay from the start of the program.
    after: u64,
    /// Release times of started programs, in order.
    due: VecDeque<u64>,
}

#[derive(Debug)]
pub(crate) struct Releases {
    parts: Vec<Part>,
    next: u64,
}

impl Releases {
    pub(crate) fn new(model: &FlashModel) -> Self {
        let parts = u64::from(model.unit_kib / model.release_kib);
        let second = parts.div_ceil(2);
        let after = |part: u64| match part {
            _ if part < second => part * ns(model.release_us),
            _ => (part - second) * ns(model.release_us) + ns(model.second_half_us),
        };
        let part = |part| Part { after: after(part), due: VecDeque::with_capacity(100) };
        Self { parts: (1..parts).map(part).collect(), next: u64::MAX }
    }

    #[inline]
    pub(crate) fn begin(&mut self, now: u64) {
        for part in &mut self.parts {
            let due = now + part.after;
            part.due.push_back(due);
            self.next = self.next.min(due);
        }
    }

    /// Returns when the next part is released; `u64::MAX` without parts.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    #[inline]
    pub(crate) fn pop(&mut self) {
        let next = self.next;
        if let Some(part) = self.parts.iter_mut().find(|part| part.due.front() == Some(&next)) {
            part.due.pop_front();
        }
        self.find_next();
    }

    /// Delays all parts.
    pub(crate) fn postpone(&mut self, by: u64) {
        self.parts.iter_mut().flat_map(|part| &mut part.due).for_each(|due| *due += by);
        self.find_next();
    }

    #[inline]
    fn find_next(&mut self) {
        self.next = self.parts.iter().filter_map(|part| part.due.front().copied()).min().unwrap_or(u64::MAX);
    }
}

impl Flash {
    /// Returns when data are released next; `u64::MAX` without any.
    #[inline]
    pub(crate) fn next_release(&self) -> u64 {
        self.releases.next()
    }

    #[inline]
    pub(crate) fn release(&mut self) {
        self.releases.pop();
        self.buffered = self.buffered.saturating_sub(self.release);
    }

    /// Releases all data that are due before `time`.
    #[inline]
    pub(crate) fn release_before(&mut self, time: u64) {
        while self.releases.next() < time {
            self.release();
        }
    }
}
