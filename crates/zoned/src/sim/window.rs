//! The window of accepted commands. Commands are accepted in order; those whose data wait for the buffer fill the
//! window, and a read behind a full window waits until enough of them have entered the buffer.

use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Window {
    limit: u64,
    /// Bytes that wait for the buffer.
    waiting: u64,
    /// Bytes that have waited and are in the buffer.
    admitted: u64,
    /// (slot of a read, bytes that must have been admitted before it)
    held: VecDeque<(u32, u64)>,
}

impl Window {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, waiting: 0, admitted: 0, held: VecDeque::new() }
    }

    /// Records that data begin to wait for the buffer.
    pub(crate) fn wait(&mut self, bytes: u32) {
        self.waiting += u64::from(bytes);
    }

    /// Records that waiting data enter the buffer.
    pub(crate) fn admit(&mut self, bytes: u32) {
        self.waiting -= u64::from(bytes);
        self.admitted += u64::from(bytes);
    }

    /// Returns whether a read that arrives now must wait; if so, it is queued.
    #[inline]
    pub(crate) fn holds(&mut self, slot: u32) -> bool {
        let full = self.waiting > self.limit;
        if full {
            self.held.push_back((slot, self.admitted + self.waiting - self.limit));
        }
        full
    }

    /// Takes the next read that may continue.
    #[inline]
    pub(crate) fn release(&mut self) -> Option<u32> {
        let (slot, after) = *self.held.front()?;
        if after > self.admitted {
            return None;
        }
        self.held.pop_front();
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_waits_for_data_ahead_beyond_the_window() {
        let mut window = Window::new(100);
        window.wait(100);
        assert!(!window.holds(1), "the window is just filled");
        window.wait(60);
        assert!(window.holds(2));
        window.wait(60);
        window.admit(50);
        assert_eq!(window.release(), None);
        window.admit(50);
        assert_eq!((window.release(), window.release()), (Some(2), None));
    }
}
