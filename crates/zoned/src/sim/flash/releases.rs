//! When parts of programs' data leave the buffer. Nothing else happens then, so that they are no events of their own: they are
//! looked at when somebody wants room.

use super::Flash;
use std::collections::VecDeque;

/// One half of all programs' data.
#[derive(Debug)]
struct Half {
    /// When its parts leave after the start of their program, in order.
    after: Vec<u64>,
    /// When parts leave, in order.
    due: VecDeque<u64>,
}

impl Half {
    #[inline]
    fn next(&self) -> u64 {
        self.due.front().copied().unwrap_or(u64::MAX)
    }

    #[inline]
    fn begin(&mut self, now: u64) {
        for time in self.after.iter().map(|after| now + after) {
            if self.due.back().is_none_or(|last| *last <= time) {
                self.due.push_back(time);
            } else {
                let index = self.due.partition_point(|other| *other <= time);
                self.due.insert(index, time);
            }
        }
    }
}

/// The parts that are to leave. The two halves are apart because the second one's parts are due long after the first one's of
/// programs that start later: so each half is nearly in order as programs start.
#[derive(Debug)]
pub struct Releases {
    halves: [Half; 2],
    next: u64,
}

impl Releases {
    /// Of programs whose data leave in `parts`, the first at once and the others in the course of `load`, those of the second half
    /// by `second_half` later.
    pub fn new(parts: u64, load: u64, second_half: u64) -> Self {
        let due = || VecDeque::with_capacity(200);
        let middle = parts.div_ceil(2);
        let crossed = |part: u64| (u128::from(part) * u128::from(load) / u128::from(parts)) as u64;
        let first = (1..middle).map(crossed).collect();
        let second = (middle..parts).map(|part| crossed(part) + second_half).collect();
        Self { halves: [Half { after: first, due: due() }, Half { after: second, due: due() }], next: u64::MAX }
    }

    /// A program starts.
    #[inline]
    pub fn begin(&mut self, now: u64) {
        self.halves.iter_mut().for_each(|half| half.begin(now));
        self.next = self.halves[0].next().min(self.halves[1].next());
    }

    /// When the next part leaves; `u64::MAX` when there is none.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes the next part.
    #[inline]
    pub fn pop(&mut self) {
        let [first, second] = &mut self.halves;
        let half = if first.next() <= second.next() { first } else { second };
        half.due.pop_front();
        self.next = self.halves[0].next().min(self.halves[1].next());
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
