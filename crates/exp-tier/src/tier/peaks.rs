//! Finds two peaks in the latencies of one size: calls on a block in memory, and calls that fetched one.
//!
//! The file system's counter, read between the calls, shows which call fetched. The latencies are the cross-check: the number
//! of calls beyond the middle between the peaks must match the counter.

use super::interleave::Reading;
use super::settle::settle;
use senesce_core::{Bytes, Failure};
use senesce_stats::median;
use senesce_tierfs::TierFs;
use senesce_workload::micro::Watch;
use std::path::Path;

pub(crate) const COLD_AT_START: &str = "cold at the start";
pub(crate) const FETCHED: &str = "calls that fetched";
/// Share of calls beyond the middle between the peaks, by their latency.
pub(crate) const SLOW: &str = "calls beyond the middle of the peaks";
pub(crate) const PEAK: &str = "peak latency";
pub(crate) const BLOCKS: &str = "blocks fetched";

const LEAST_CALLS: usize = 5;
/// Allowed difference between counter and latencies, in percent of the calls.
const ALLOWANCE: f64 = 10.0;

/// Observes calls that write to a tier file system with eviction.
pub(crate) struct Peaks<'a> {
    fs: &'a TierFs,
    settle_to: Option<Bytes>,
    cold_at_start: Option<Result<f64, Failure>>,
    fetched_before: u64,
    fetched_last: u64,
    met: Vec<f64>,
    fetched: Vec<f64>,
}

impl<'a> Peaks<'a> {
    /// Starts counting fetches. With a threshold, the written file must settle before the calls begin.
    pub(crate) fn new(fs: &'a TierFs, settle_to: Option<Bytes>) -> Self {
        let fetched = fs.stats().fetched;
        Self {
            fs,
            settle_to,
            cold_at_start: None,
            fetched_before: fetched,
            fetched_last: fetched,
            met: Vec::new(),
            fetched: Vec::new(),
        }
    }

    pub(crate) fn readings(self) -> Result<Vec<Reading>, Failure> {
        let blocks = (self.fs.stats().fetched - self.fetched_before) as f64;
        let mut readings = vec![Reading::new(BLOCKS, "", blocks)];
        if let Some(cold) = self.cold_at_start {
            readings.push(Reading::new(COLD_AT_START, "%", cold?));
        }
        readings.extend(stated(&self.met, &self.fetched));
        Ok(readings)
    }
}

impl Watch for Peaks<'_> {
    fn prepared(&mut self, file: &Path) {
        if let Some(threshold) = self.settle_to {
            let share = |map: Vec<bool>| 100.0 * map.iter().filter(|cold| **cold).count() as f64 / map.len() as f64;
            self.cold_at_start = Some(settle(self.fs, file, threshold).map(share));
        }
        self.fetched_before = self.fs.stats().fetched;
        self.fetched_last = self.fetched_before;
    }

    fn called(&mut self, nanoseconds: u64) {
        let fetched = self.fs.stats().fetched;
        let calls = if fetched > self.fetched_last { &mut self.fetched } else { &mut self.met };
        calls.push(nanoseconds as f64 / 1e3);
        self.fetched_last = fetched;
    }
}

/// Returns shares and peaks from latencies in microseconds. A peak that the latencies do not confirm is omitted.
fn stated(met: &[f64], fetched: &[f64]) -> Vec<Reading> {
    let calls = (met.len() + fetched.len()) as f64;
    let share = |count: usize| 100.0 * count as f64 / calls;
    let mut readings = vec![Reading::new(FETCHED, "%", share(fetched.len()))];
    let peak = |latencies: &[f64]| median(latencies).filter(|_| latencies.len() >= LEAST_CALLS);
    let (hot, cold) = (peak(met), peak(fetched));
    let confirmed = match (hot, cold) {
        (Some(hot), Some(cold)) => {
            let middle = (hot * cold).sqrt();
            let slow = share(met.iter().chain(fetched).filter(|latency| **latency > middle).count());
            readings.push(Reading::new(SLOW, "%", slow));
            cold > hot && (slow - share(fetched.len())).abs() <= ALLOWANCE
        }
        // A single peak needs no separation.
        _ => true,
    };
    if confirmed {
        readings.extend(hot.map(|value| Reading::new(PEAK, "us", value).under("peak", "in memory")));
        readings.extend(cold.map(|value| Reading::new(PEAK, "us", value).under("peak", "fetched")));
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(readings: &[Reading], metric: &str, word: Option<&str>) -> Option<f64> {
        let is_it = |one: &&Reading| one.metric == metric && one.under.map(|(_, word)| word) == word;
        readings.iter().find(is_it).map(|one| one.value)
    }

    #[test]
    fn peaks_that_counter_and_latencies_show_are_distinguished() {
        let met: Vec<f64> = (0..20).map(|call| 12.0 + f64::from(call) * 0.1).collect();
        let fetched: Vec<f64> = (0..60).map(|call| 110.0 + f64::from(call) * 0.1).collect();
        let readings = stated(&met, &fetched);
        assert_eq!(value(&readings, FETCHED, None), Some(75.0));
        assert_eq!(value(&readings, SLOW, None), Some(75.0));
        let (hot, cold) = (value(&readings, PEAK, Some("in memory")), value(&readings, PEAK, Some("fetched")));
        assert!((hot.unwrap() - 12.95).abs() < 1e-9 && (cold.unwrap() - 112.95).abs() < 1e-9);
    }

    #[test]
    fn fetches_without_longer_latencies_have_no_peak() {
        let readings = stated(&[13.0; 20], &[12.5; 60]);
        assert_eq!(value(&readings, FETCHED, None), Some(75.0));
        assert_eq!((value(&readings, PEAK, Some("in memory")), value(&readings, PEAK, Some("fetched"))), (None, None));
    }

    #[test]
    fn calls_that_all_fetched_have_one_peak() {
        let readings = stated(&[12.0; 2], &[100.0; 60]);
        assert_eq!(value(&readings, PEAK, Some("fetched")), Some(100.0));
        assert_eq!(value(&readings, PEAK, Some("in memory")), None);
    }
}
