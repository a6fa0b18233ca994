//! Cache segments: data read at one position, its read-ahead, and the data kept before it.

use super::parameters::Cache;
use std::ops::Range;

#[derive(Debug, Clone)]
pub(crate) struct Segments {
    /// Bounds of the segments, in separate vectors for vectorised comparison.
    starts: Vec<u64>,
    ends: Vec<u64>,
    used: Vec<u64>,
    cache: Cache,
    clock: u64,
    /// Number of segment extensions, and the latest ones: number `n` is at `n % RECENT`.
    changes: u64,
    recent: [usize; RECENT],
}

/// Remembered extensions, enough for a few requests.
const RECENT: usize = 8;

impl Segments {
    pub(crate) fn new(cache: Cache) -> Self {
        Self {
            starts: Vec::new(),
            ends: Vec::new(),
            used: Vec::new(),
            cache,
            clock: 0,
            changes: 0,
            recent: [0; RECENT],
        }
    }

    pub(crate) fn holding(&self, start: u64, end: u64) -> Option<usize> {
        let mut ranges = self.starts.iter().zip(&self.ends);
        // Most ranges are in no segment, so all are compared without branches first.
        let is_any = ranges.clone().fold(false, |any, (from, to)| any | ((*from <= start) & (end <= *to)));
        if is_any { ranges.position(|(from, to)| *from <= start && end <= *to) } else { None }
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Contents of the segments extended after the first `changes` extensions; `None` if no longer known.
    pub(crate) fn changed_since(&self, changes: u64) -> Option<impl Iterator<Item = Range<u64>>> {
        let numbers = (changes..self.changes).map(|change| self.recent[change as usize % RECENT]);
        (self.changes - changes <= RECENT as u64).then(|| numbers.map(|number| self.starts[number]..self.ends[number]))
    }

    fn changed(&mut self, number: usize) {
        self.recent[self.changes as usize % RECENT] = number;
        self.changes += 1;
    }

    pub(crate) fn touch(&mut self, number: usize) {
        self.clock += 1;
        self.used[number] = self.clock;
    }

    pub(crate) fn start(&self, number: usize) -> u64 {
        self.starts[number]
    }

    /// Extends a segment to `end`; keeps as much data before as fits.
    pub(crate) fn extend(&mut self, number: usize, end: u64) {
        let (from, to) = (&mut self.starts[number], &mut self.ends[number]);
        if *to >= end {
            return;
        }
        *to = end;
        *from = (*from).max(to.saturating_sub(self.cache.segment_bytes));
        self.changed(number);
    }

    pub(crate) fn open(&mut self, start: u64, end: u64) -> usize {
        self.clock += 1;
        let start = start.max(end.saturating_sub(self.cache.segment_bytes));
        if self.starts.len() < self.cache.segments as usize {
            self.starts.push(start);
            self.ends.push(end);
            self.used.push(self.clock);
            self.changed(self.starts.len() - 1);
            return self.starts.len() - 1;
        }
        let oldest = self.used.iter().enumerate().min_by_key(|(_, used)| **used);
        let number = oldest.map_or(0, |(number, _)| number);
        (self.starts[number], self.ends[number], self.used[number]) = (start, end, self.clock);
        self.changed(number);
        number
    }

    /// Invalidates overwritten bytes.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        for (from, to) in self.starts.iter().zip(&mut self.ends) {
            if *from < end && start < *to {
                // Keeps the part before; a segment cannot have a hole.
                *to = (*to).min(start.max(*from));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn newly_held_ranges_are_in_recent_changes(
            steps in prop::collection::vec((0u64..4, 0u64..3000, 1u64..400), 1..60),
            (start, length) in (0u64..3000, 1u64..100),
        ) {
            let mut segments = Segments::new(Cache { segments: 4, segment_bytes: 1000, read_ahead_bytes: 500 });
            let mut unheld_at = 0;
            for (what, at, bytes) in steps {
                match what {
                    0 => segments.forget(at, at + bytes),
                    1 if !segments.starts.is_empty() => {
                        let number = at as usize % segments.starts.len();
                        segments.extend(number, segments.ends[number] + bytes);
                    }
                    _ => drop(segments.open(at, at + bytes)),
                }
                // Compared only from time to time, like a waiting request.
                if at % 3 != 0 {
                    let is_held = segments.holding(start, start + length).is_some();
                    if let (true, Some(mut changed)) = (is_held, segments.changed_since(unheld_at)) {
                        prop_assert!(changed.any(|range| range.contains(&start)));
                    }
                    if !is_held {
                        unheld_at = segments.changes();
                    }
                }
            }
        }
    }

    #[test]
    fn segment_keeps_its_history_and_the_oldest_is_evicted() {
        let cache = Cache { segments: 2, segment_bytes: 1000, read_ahead_bytes: 500 };
        let mut segments = Segments::new(cache);
        let first = segments.open(0, 400);
        segments.extend(first, 1200);
        assert_eq!(segments.holding(200, 1200), Some(first));
        assert_eq!(segments.holding(100, 300), None);
        let second = segments.open(5000, 5100);
        segments.touch(first);
        assert_eq!(segments.open(9000, 9100), second);
        assert_eq!(segments.holding(5000, 5100), None);
        segments.forget(600, 700);
        assert_eq!(segments.holding(200, 600), Some(first));
        assert_eq!(segments.holding(200, 601), None);
    }
}
