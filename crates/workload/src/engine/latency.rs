//! Latency histograms with 128 cells per power of two (resolution 0.8 %), filled by all threads.

use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};

const CELL_BITS: u32 = 7;
/// Maximum recorded latency in ns (18 minutes); longer ones count as this.
const GREATEST: u64 = (1 << 40) - 1;
pub(crate) const CELLS: usize = (((40 - CELL_BITS - 1) << CELL_BITS) + (2 << CELL_BITS)) as usize;

#[inline]
fn cell(nanoseconds: u64) -> usize {
    let value = nanoseconds.min(GREATEST);
    let shift = (u64::BITS - (value | 1).leading_zeros()).saturating_sub(CELL_BITS + 1);
    ((shift as usize) << CELL_BITS) + (value >> shift) as usize
}

/// Returns the middle of a cell, in ns.
fn middle(cell: usize) -> u64 {
    let shift = (cell >> CELL_BITS).saturating_sub(1) as u32;
    let mantissa = cell as u64 - (u64::from(shift) << CELL_BITS);
    (mantissa << shift) + ((1u64 << shift) >> 1)
}

/// One histogram per flowop, with a copy per processor, so that cells stay in that processor's cache.
pub(crate) struct Latencies {
    /// All cells of the first copy, then of the next.
    cells: Box<[AtomicU64]>,
    copies: usize,
    flowops: usize,
}

impl Latencies {
    pub(crate) fn new(flowops: usize) -> Self {
        let copies = std::thread::available_parallelism().map_or(1, usize::from).next_power_of_two();
        Self { cells: zeroed(copies * flowops * CELLS), copies, flowops }
    }

    #[inline]
    pub(crate) fn record(&self, flowop: usize, nanoseconds: u64) {
        self.add(self.place(flowop, nanoseconds));
    }

    #[inline]
    fn add(&self, place: usize) {
        self.cells[place].fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn place(&self, flowop: usize, nanoseconds: u64) -> usize {
        // SAFETY: no arguments, no memory access. The thread may migrate afterwards; the copies are added up. Miri does not
        // support the call.
        let processor = if cfg!(miri) { 0 } else { unsafe { libc::sched_getcpu() } };
        ((processor as usize & (self.copies - 1)) * self.flowops + flowop) * CELLS + cell(nanoseconds)
    }

    #[inline]
    fn fetch(&self, place: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint that never faults.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_ET0>(self.cells.as_ptr().wrapping_add(place).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = place;
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut counts = vec![0u64; self.flowops * CELLS];
        for copy in self.cells.chunks(counts.len().max(1)) {
            for (count, cell) in counts.iter_mut().zip(copy) {
                *count += cell.load(Ordering::Relaxed);
            }
        }
        Snapshot { counts }
    }
}

/// Per-thread recorder. A short latency is added when the next one comes, after its cell was prefetched, because an atomic
/// addition waits for memory. At most one latency per thread is pending.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pending: std::cell::Cell<Option<usize>>,
}

/// Latencies from this on are added at once, because waiting for memory is negligible for them.
const LONG_NANOSECONDS: u64 = 100_000;

impl Recorder {
    /// Adds one latency of a flowop, possibly delayed.
    #[inline]
    pub(crate) fn record(&self, latencies: &Latencies, flowop: usize, nanoseconds: u64) {
        let place = latencies.place(flowop, nanoseconds);
        if nanoseconds < LONG_NANOSECONDS {
            latencies.fetch(place);
            self.pending.set(Some(place));
        } else {
            latencies.add(place);
        }
    }

    #[inline]
    pub(crate) fn settle(&self, latencies: &Latencies) {
        if let Some(place) = self.pending.take() {
            latencies.add(place);
        }
    }
}

/// Allocates zeroed counters without touching their memory, because most cells are never used.
fn zeroed(length: usize) -> Box<[AtomicU64]> {
    let plain: Box<[u64]> = vec![0u64; length].into_boxed_slice();
    // SAFETY: AtomicU64 has the same size, alignment and bit validity as u64, and the box is transferred as a whole.
    unsafe { Box::from_raw(Box::into_raw(plain) as *mut [AtomicU64]) }
}

#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    counts: Vec<u64>,
}

impl Snapshot {
    pub(crate) fn since(&self, earlier: &Snapshot) -> Snapshot {
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now - then).collect();
        Snapshot { counts }
    }

    pub(crate) fn flowop(&self, flowop: usize) -> Distribution<'_> {
        Distribution { parts: vec![&self.counts[flowop * CELLS..(flowop + 1) * CELLS]] }
    }

    pub(crate) fn merged(&self, flowops: impl IntoIterator<Item = usize>) -> Distribution<'_> {
        let parts = flowops.into_iter().map(|flowop| &self.counts[flowop * CELLS..(flowop + 1) * CELLS]).collect();
        Distribution { parts }
    }
}

pub(crate) struct Distribution<'a> {
    parts: Vec<&'a [u64]>,
}

impl Distribution<'_> {
    fn cells(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..CELLS).map(|cell| (middle(cell), self.parts.iter().map(|part| part[cell]).sum::<u64>()))
    }

    pub(crate) fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.iter().sum::<u64>()).sum()
    }

    /// Returns `quantiles` (ascending, 0 to 1) in microseconds; 0 if empty.
    pub(crate) fn quantiles_us<const N: usize>(&self, quantiles: [f64; N]) -> [f64; N] {
        let total = self.count();
        let mut found = [0.0; N];
        let (mut seen, mut next) = (0u64, 0);
        for (value, count) in self.cells().filter(|(_, count)| *count > 0) {
            seen += count;
            while next < N && seen as f64 >= (quantiles[next] * total as f64).max(1.0) {
                found[next] = value as f64 / 1000.0;
                next += 1;
            }
        }
        found
    }

    pub(crate) fn to_histogram(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap_or_else(|_| unreachable!("3 significant digits are allowed"));
        for (value, count) in self.cells().filter(|(_, count)| *count > 0) {
            // It resizes automatically; saturating recording would clip values first.
            histogram.record_n(value, count).unwrap_or_else(|_| unreachable!("the histogram grows by itself"));
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cells_have_a_resolution_of_one_percent(value in 0u64..GREATEST) {
            let found = middle(cell(value));
            prop_assert!(found.abs_diff(value) as f64 <= 0.008 * value as f64, "{value} became {found}");
            prop_assert!(cell(value) < CELLS);
        }
    }

    #[test]
    fn cells_ascend_without_gaps() {
        assert_eq!(cell(u64::MAX), CELLS - 1);
        assert!((1..CELLS).all(|index| middle(index - 1) < middle(index) && cell(middle(index)) == index));
    }

    #[test]
    fn recorder_loses_no_latencies() {
        let (latencies, recorder) = (Latencies::new(1), Recorder::default());
        for nanoseconds in [10, 20, 200_000, 30] {
            recorder.settle(&latencies);
            recorder.record(&latencies, 0, nanoseconds);
        }
        assert_eq!(latencies.snapshot().flowop(0).count(), 3, "the last is short");
        recorder.settle(&latencies);
        assert_eq!(latencies.snapshot().flowop(0).count(), 4);
    }

    #[test]
    fn quantiles_of_a_known_sample() {
        let latencies = Latencies::new(2);
        for value in 1..=1000u64 {
            latencies.record(1, value * 1000);
        }
        let snapshot = latencies.snapshot();
        let [median, high, last] = snapshot.flowop(1).quantiles_us([0.5, 0.99, 0.9999]);
        assert!((median - 500.0).abs() < 5.0 && (high - 990.0).abs() < 9.0 && (last - 1000.0).abs() < 9.0);
        assert_eq!(snapshot.flowop(0).count(), 0);
        let histogram = snapshot.merged([0, 1]).to_histogram();
        assert_eq!(histogram.len(), 1000);
        assert!((histogram.value_at_quantile(0.99) as f64 / 1000.0 - 990.0).abs() < 9.0, "the histogram grew");
    }
}
