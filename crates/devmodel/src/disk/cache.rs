//! Segments of a drive's cache: places that were read, with what was read on behind them and what was kept before.

use super::parameters::Cache;

/// Bytes from `start` to `end` that are in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    start: u64,
    end: u64,
    used: u64,
}

/// All segments.
#[derive(Debug, Clone)]
pub(crate) struct Segments {
    segments: Vec<Segment>,
    cache: Cache,
    clock: u64,
}

impl Segments {
    pub fn new(cache: Cache) -> Self {
        Self { segments: Vec::with_capacity(cache.segments as usize), cache, clock: 0 }
    }

    /// The segment that holds all bytes of a range.
    pub fn holding(&self, start: u64, end: u64) -> Option<usize> {
        self.segments.iter().position(|segment| segment.start <= start && end <= segment.end)
    }

    /// A segment was of use.
    pub fn touch(&mut self, number: usize) {
        self.clock += 1;
        self.segments[number].used = self.clock;
    }

    /// The first byte that a segment holds.
    pub fn start(&self, number: usize) -> u64 {
        self.segments[number].start
    }

    /// A segment has been read on to `end`; it keeps as much before that as it has room for.
    pub fn extend(&mut self, number: usize, end: u64) {
        let segment = &mut self.segments[number];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.cache.segment_bytes));
    }

    /// A new segment, instead of the one not used for the longest time.
    pub fn open(&mut self, start: u64, end: u64) -> usize {
        self.clock += 1;
        let start = start.max(end.saturating_sub(self.cache.segment_bytes));
        let segment = Segment { start, end, used: self.clock };
        if self.segments.len() < self.cache.segments as usize {
            self.segments.push(segment);
            return self.segments.len() - 1;
        }
        let oldest = self.segments.iter().enumerate().min_by_key(|(_, segment)| segment.used);
        let number = oldest.map_or(0, |(number, _)| number);
        self.segments[number] = segment;
        number
    }

    /// Bytes have been overwritten: no segment holds them any more.
    pub fn forget(&mut self, start: u64, end: u64) {
        for segment in &mut self.segments {
            if segment.start < end && start < segment.end {
                // What lies before is kept; a hole cannot be.
                segment.end = segment.end.min(start.max(segment.start));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_keeps_its_history_and_the_oldest_leaves() {
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
