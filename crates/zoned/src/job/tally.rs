//! Counters of running actors: latencies per operation, bytes per second, errors.

use crate::command::{Operation, ZoneFault};
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, BTreeSet};

/// Upper bound of the histogram: 1000 s.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Latencies in nanoseconds: histogram and exact mean.
#[derive(Debug, Clone)]
pub struct Latency {
    /// Three digits, from 1 ns to 1000 s.
    pub histogram: Histogram<u64>,
    sum: u128,
    max: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    pub(crate) fn new() -> Self {
        // The bounds are constant and valid, so this cannot fail.
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3).unwrap_or_else(|_| unreachable!());
        Self { histogram, sum: 0, max: 0 }
    }

    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns.max(1));
        self.sum += u128::from(ns);
        self.max = self.max.max(ns);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        // Both have the same bounds, so this cannot fail.
        let _ = self.histogram.add(&other.histogram);
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the mean in microseconds; 0 if empty.
    pub fn mean_us(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum as f64 / self.count() as f64 / 1000.0 }
    }

    /// Returns a quantile (0 to 1) in microseconds: the upper end of its bucket, at most the maximum.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile).min(self.max) as f64 / 1000.0
    }

    pub fn max_us(&self) -> f64 {
        self.max as f64 / 1000.0
    }
}

#[derive(Debug, Clone, Default)]
pub struct Tally {
    latency: [Option<Box<Latency>>; Operation::ALL.len()],
    pub from_intended: Option<Latency>,
    pub commands: u64,
    /// The same, with partly measured commands counted by their share.
    pub shares: f64,
    /// Commands in flight when the time ended: neither they nor their latencies count.
    pub late: u64,
    pub bytes: u64,
    /// Bytes per second since the worker's counting began.
    pub per_second: Vec<u64>,
    pub errors: BTreeMap<String, u64>,
    faults: BTreeSet<ZoneFault>,
    pub lost: Vec<(u32, ZoneFault)>,
    /// Measured time, nanoseconds.
    pub counted_ns: u64,
}

impl Tally {
    pub fn latency(&self, operation: Operation) -> Option<&Latency> {
        self.latency[operation as usize].as_deref()
    }

    #[inline]
    pub(crate) fn record(&mut self, operation: Operation, ns: u64) {
        self.latency[operation as usize].get_or_insert_default().record(ns);
    }

    pub(crate) fn refuse(&mut self, fault: ZoneFault) {
        *self.errors.entry(fault.name()).or_default() += 1;
        self.faults.insert(fault);
    }

    pub fn error_words(&self) -> String {
        let count = |fault: &ZoneFault| self.errors.get(&fault.name()).copied().unwrap_or(0);
        let kinds = self.faults.iter().map(|fault| format!("{} x {fault}", count(fault)));
        kinds.collect::<Vec<_>>().join(", ")
    }

    /// Adds a worker's counts. Their times overlap, so the longest is kept.
    pub(crate) fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.latency.iter_mut().zip(&other.latency) {
            if let Some(theirs) = theirs {
                ours.get_or_insert_default().add(theirs);
            }
        }
        if let Some(latency) = &other.from_intended {
            self.from_intended.get_or_insert_with(Latency::new).add(latency);
        }
        self.commands += other.commands;
        self.shares += other.shares;
        self.late += other.late;
        self.bytes += other.bytes;
        if self.per_second.len() < other.per_second.len() {
            self.per_second.resize(other.per_second.len(), 0);
        }
        for (ours, theirs) in self.per_second.iter_mut().zip(&other.per_second) {
            *ours += theirs;
        }
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        self.faults.extend(&other.faults);
        self.lost.extend(&other.lost);
        self.counted_ns = self.counted_ns.max(other.counted_ns);
    }

    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}
