//! States of entries in memory, placed so that threads do not take cache lines from each other.

use std::sync::atomic::AtomicU32;

/// A value that every thread changes, in cache lines of its own, so that what lies beside it stays in all caches (two
/// lines: processors fetch them in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The state of each entry. Rotation gives neighbours to different threads at the same time; they lie in different cache
/// lines, so that the threads do not take these from each other.
#[derive(Debug)]
pub struct States {
    cells: Vec<AtomicU32>,
    entries: usize,
    /// The lines are two to this power.
    shift: u32,
}

impl States {
    const IN_A_LINE: usize = 64 / size_of::<AtomicU32>();

    /// That of so many entries, all 0.
    pub fn new(entries: usize) -> Self {
        let lines = entries.div_ceil(Self::IN_A_LINE).next_power_of_two();
        let cells = (0..lines * Self::IN_A_LINE).map(|_| AtomicU32::new(0)).collect();
        Self { cells, entries, shift: lines.trailing_zeros() }
    }

    #[inline]
    pub fn of(&self, index: u32) -> &AtomicU32 {
        let (line, place) = (index as usize & ((1 << self.shift) - 1), index as usize >> self.shift);
        &self.cells[line * Self::IN_A_LINE + place]
    }

    pub fn len(&self) -> usize {
        self.entries
    }
}
