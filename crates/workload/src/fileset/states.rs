//! States of entries, placed to avoid false sharing.

use std::sync::atomic::AtomicU32;

/// A frequently written value in its own cache lines, so that adjacent data stay in all caches (two lines, because processors
/// prefetch pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(T);

impl<T> std::ops::Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The state of each entry. Rotation gives adjacent entries to different threads at the same time, so adjacent entries are in
/// different cache lines.
#[derive(Debug)]
pub(crate) struct States {
    cells: Vec<AtomicU32>,
    entries: usize,
    /// Logarithm of the number of lines to base 2.
    shift: u32,
}

impl States {
    const IN_A_LINE: usize = 64 / size_of::<AtomicU32>();

    /// Creates a table in which all states are 0.
    pub(crate) fn new(entries: usize) -> Self {
        let lines = entries.div_ceil(Self::IN_A_LINE).next_power_of_two();
        let cells = (0..lines * Self::IN_A_LINE).map(|_| AtomicU32::new(0)).collect();
        Self { cells, entries, shift: lines.trailing_zeros() }
    }

    #[inline]
    pub(crate) fn of(&self, index: u32) -> &AtomicU32 {
        let (line, place) = (index as usize & ((1 << self.shift) - 1), index as usize >> self.shift);
        &self.cells[line * Self::IN_A_LINE + place]
    }

    pub(crate) fn len(&self) -> usize {
        self.entries
    }
}
