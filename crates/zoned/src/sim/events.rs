//! The event queue: a binary heap of packed keys, so that an event costs no allocation and one comparison.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
    /// The host submits a command (slot).
    Submit = 0,
    /// A write's data have crossed the link (slot).
    Transferred = 1,
    /// A command is complete (slot).
    Complete = 2,
    /// A die has sensed a page (die).
    Sensed = 3,
    /// A die has sent a page over its channel (die).
    Sent = 4,
    /// A die reaches the end of a program segment (die, stamp).
    Programmed = 5,
    /// Programs may continue after a reset.
    Resume = 6,
    /// An injected failure of a zone (zone, new state).
    Fail = 7,
    /// A program's data have crossed the channel (die).
    Loaded = 8,
}

const KINDS: [EventKind; 9] = [
    EventKind::Submit,
    EventKind::Transferred,
    EventKind::Complete,
    EventKind::Sensed,
    EventKind::Sent,
    EventKind::Programmed,
    EventKind::Resume,
    EventKind::Fail,
    EventKind::Loaded,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub time: u64,
    pub kind: EventKind,
    pub index: u32,
    /// Distinguishes current from cancelled events.
    pub stamp: u32,
}

/// Packed keys, smallest first.
type Heap = BinaryHeap<Reverse<u128>>;

/// Events in order of time, then of kind and index, so that runs are reproducible.
#[derive(Debug)]
pub(crate) struct EventQueue {
    others: Heap,
    /// Ends of programs are due after milliseconds. A separate heap keeps them out of the path of events due after
    /// microseconds.
    programs: Heap,
    /// The first of `programs`; the maximum if empty.
    program: u128,
}

#[inline]
fn packed(time: u64, kind: EventKind, index: u32, stamp: u32) -> u128 {
    let payload = (kind as u64) << 56 | u64::from(index) << 24 | u64::from(stamp & 0xff_ffff);
    u128::from(time) << 64 | u128::from(payload)
}

#[inline]
fn first(heap: &Heap) -> u128 {
    heap.peek().map_or(u128::MAX, |Reverse(key)| *key)
}

impl EventQueue {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            others: BinaryHeap::with_capacity(capacity),
            programs: BinaryHeap::with_capacity(100),
            program: u128::MAX,
        }
    }

    /// Adds an event; `stamp` must be below 2^24.
    #[inline]
    pub(crate) fn push(&mut self, time: u64, kind: EventKind, index: u32, stamp: u32) {
        self.others.push(Reverse(packed(time, kind, index, stamp)));
    }

    #[inline]
    pub(crate) fn push_program(&mut self, time: u64, die: u32, stamp: u32) {
        let key = packed(time, EventKind::Programmed, die, stamp);
        self.program = self.program.min(key);
        self.programs.push(Reverse(key));
    }

    /// Returns when the next event is due; `u64::MAX` without events.
    #[inline]
    pub(crate) fn next_time(&self) -> u64 {
        let other = self.others.peek().map_or(u64::MAX, |Reverse(key)| (key >> 64) as u64);
        other.min((self.program >> 64) as u64)
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let key = if self.program < first(&self.others) { self.pop_program() } else { self.others.pop() };
        let Reverse(key) = key?;
        let payload = key as u64;
        Some(Event {
            time: (key >> 64) as u64,
            kind: KINDS[(payload >> 56) as usize % KINDS.len()],
            index: (payload >> 24) as u32,
            stamp: payload as u32 & 0xff_ffff,
        })
    }

    #[inline(never)]
    fn pop_program(&mut self) -> Option<Reverse<u128>> {
        let key = self.programs.pop();
        self.program = first(&self.programs);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_unchanged() {
        let mut queue = EventQueue::with_capacity(4);
        queue.push(30, EventKind::Complete, u32::MAX, 5);
        queue.push_program(10, 31, 0xff_ffff);
        queue.push(10, EventKind::Submit, 7, 0);
        assert_eq!(queue.next_time(), 10);
        let order: Vec<Event> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order[0].kind, EventKind::Submit);
        assert_eq!(order[1], Event { time: 10, kind: EventKind::Programmed, index: 31, stamp: 0xff_ffff });
        assert_eq!(order[2], Event { time: 30, kind: EventKind::Complete, index: u32::MAX, stamp: 5 });
        assert_eq!(queue.next_time(), u64::MAX);
    }
}
