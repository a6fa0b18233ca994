//! When parts of programs' data leave the buffer. Nothing else happens then, so that they are no events of their own: they are
//! looked at when somebody wants room.

use super::{Flash, FlashModel, ns};
use std::collections::VecDeque;

/// The same part of all programs' data.
#[derive(Debug)]
struct Part {
    /// When it leaves after the start of its program.
    after: u64,
    /// When those of programs that have started leave; in order, as the programs start in order.
    due: VecDeque<u64>,
}

#[derive(Debug)]
pub struct Releases {
    parts: Vec<Part>,
    next: u64,
}

impl Releases {
    /// None yet. The first part of a program's data leaves as it starts.
    pub fn new(model: &FlashModel) -> Self {
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
    pub fn begin(&mut self, now: u64) {
        for part in &mut self.parts {
            let due = now + part.after;
            part.due.push_back(due);
            self.next = self.next.min(due);
        }
    }

    /// When the next part leaves; `u64::MAX` when there is none.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes the next part.
    #[inline]
    pub fn pop(&mut self) {
        let next = self.next;
        if let Some(part) = self.parts.iter_mut().find(|part| part.due.front() == Some(&next)) {
            part.due.pop_front();
        }
        self.find_next();
    }

    /// All parts leave so much later.
    pub fn postpone(&mut self, by: u64) {
        self.parts.iter_mut().flat_map(|part| &mut part.due).for_each(|due| *due += by);
        self.find_next();
    }

    #[inline]
    fn find_next(&mut self) {
        self.next = self.parts.iter().filter_map(|part| part.due.front().copied()).min().unwrap_or(u64::MAX);
    }
}

impl Flash {
    /// When data leave the buffer next; `u64::MAX`: none are about to.
    #[inline]
    pub fn next_release(&self) -> u64 {
        self.releases.next()
    }

    /// The next data leave the buffer.
    #[inline]
    pub fn release(&mut self) {
        self.releases.pop();
        self.buffered = self.buffered.saturating_sub(self.release);
    }

    /// All data leave that do so before `time`.
    #[inline]
    pub fn release_before(&mut self, time: u64) {
        while self.releases.next() < time {
            self.release();
        }
    }
}
