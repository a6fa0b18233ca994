//! Computes results from counters and histograms.

use super::file_calls::FileCalls;
use super::latency::Snapshot;
use super::shared::{Shared, ThreadRecord};
use crate::model::{Direction, FlowopKind};
use crate::result::{FlowopResult, Interval, IntervalFlowop, Repetition};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Clone)]
pub(crate) struct Sample {
    /// Count, bytes and latency sum in ns, by flowop.
    pub counters: Vec<[u64; 3]>,
    pub latencies: Snapshot,
}

impl Sample {
    pub(crate) fn take<B: FileCalls>(shared: &Shared<B>, records: &[Arc<ThreadRecord>]) -> Self {
        let mut counters = vec![[0u64; 3]; shared.programs.flowops.len()];
        for record in records {
            for flowop in shared.programs.list[record.program].flowops() {
                for (sum, part) in counters[flowop.global].iter_mut().zip(&record.counters[flowop.local]) {
                    *sum += part.load(Ordering::Relaxed);
                }
            }
        }
        Self { counters, latencies: shared.latencies.snapshot() }
    }

    pub(crate) fn since(&self, earlier: &Sample) -> Sample {
        let counters = self.counters.iter().zip(&earlier.counters);
        Sample {
            counters: counters.map(|(now, then)| std::array::from_fn(|index| now[index] - then[index])).collect(),
            latencies: self.latencies.since(&earlier.latencies),
        }
    }

    fn counted<'a>(&'a self, names: &'a [(String, FlowopKind)]) -> impl Iterator<Item = (usize, Direction)> + 'a {
        let entries = names.iter().enumerate();
        entries.filter(|(_, (_, kind))| kind.entry().counted).map(|(index, (_, kind))| (index, kind.entry().direction))
    }

    fn sum(&self, names: &[(String, FlowopKind)], part: usize) -> u64 {
        self.counted(names).map(|(index, _)| self.counters[index][part]).sum()
    }

    pub(crate) fn repetition(&self, names: &[(String, FlowopKind)], seconds: f64) -> Repetition {
        let (ops, bytes, time) = (self.sum(names, 0), self.sum(names, 1), self.sum(names, 2));
        let directed = |wanted| {
            let matching = self.counted(names).filter(|(_, direction)| *direction == wanted);
            matching.map(|(index, _)| self.counters[index][0]).sum()
        };
        Repetition {
            ops,
            ops_per_second: Repetition::rate(ops, seconds),
            mb_per_second: Repetition::megabytes(bytes, seconds),
            reads: directed(Direction::Read),
            writes: directed(Direction::Write),
            seconds,
            mean_us: mean_us(ops, time),
            p99_us: (ops > 0).then(|| {
                let [p99_us] = self.latencies.merged(self.counted(names).map(|(index, _)| index)).quantiles_us([0.99]);
                p99_us
            }),
            flowops: names
                .iter()
                .enumerate()
                .map(|(i, (name, kind))| (name.clone(), self.flowop(i, *kind, seconds)))
                .collect(),
            ..Repetition::default()
        }
    }

    fn flowop(&self, index: usize, kind: FlowopKind, seconds: f64) -> FlowopResult {
        let [count, bytes, time] = self.counters[index];
        let quantiles = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];
        let [min_us, p50_us, p90_us, p99_us, p999_us, p9999_us, max_us] =
            self.latencies.flowop(index).quantiles_us(quantiles);
        FlowopResult {
            kind,
            count,
            bytes,
            ops_per_second: Repetition::rate(count, seconds),
            mb_per_second: Repetition::megabytes(bytes, seconds),
            mean_us: mean_us(count, time),
            min_us,
            p50_us,
            p90_us,
            p99_us,
            p999_us,
            p9999_us,
            max_us,
        }
    }

    /// Result of one interval, `length` seconds long and ending at `seconds`.
    pub(crate) fn interval(&self, names: &[(String, FlowopKind)], seconds: f64, length: f64) -> Interval {
        let (ops, bytes) = (self.sum(names, 0), self.sum(names, 1));
        let counted: Vec<usize> = self.counted(names).map(|(index, _)| index).collect();
        let [p50_us, p99_us, p999_us, p9999_us] =
            self.latencies.merged(counted).quantiles_us([0.5, 0.99, 0.999, 0.9999]);
        let flowop = |(index, (name, _)): (usize, &(String, FlowopKind))| {
            let [p50_us, p99_us, p9999_us] = self.latencies.flowop(index).quantiles_us([0.5, 0.99, 0.9999]);
            (name.clone(), IntervalFlowop { count: self.counters[index][0], p50_us, p99_us, p9999_us })
        };
        Interval {
            seconds,
            ops,
            ops_per_second: Repetition::rate(ops, length),
            mb_per_second: Repetition::megabytes(bytes, length),
            p50_us,
            p99_us,
            p999_us,
            p9999_us,
            flowops: names.iter().enumerate().map(flowop).collect(),
        }
    }
}

fn mean_us(count: u64, nanoseconds: u64) -> f64 {
    if count == 0 { 0.0 } else { nanoseconds as f64 / count as f64 / 1000.0 }
}

/// Number of intervals that must agree for a steady state.
pub(crate) const STEADY_INTERVALS: usize = 5;

/// Whether the last [`STEADY_INTERVALS`] rates are steady: their range is at most 20 % of their mean, and the change along the
/// fitted line at most 10 % of it (SNIA Solid State Storage Performance Test Specification, "steady state").
pub(crate) fn is_steady(rates: &[f64]) -> bool {
    let Some(window) = rates.len().checked_sub(STEADY_INTERVALS).map(|start| &rates[start..]) else { return false };
    let count = window.len() as f64;
    let mean = window.iter().sum::<f64>() / count;
    let (least, greatest) = window.iter().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
    let middle = (count - 1.0) / 2.0;
    let slope = window.iter().enumerate().map(|(x, y)| (x as f64 - middle) * (y - mean)).sum::<f64>()
        / (0..window.len()).map(|x| (x as f64 - middle).powi(2)).sum::<f64>();
    mean > 0.0 && greatest - least <= 0.2 * mean && (slope * (count - 1.0)).abs() <= 0.1 * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_state_has_a_narrow_range_and_no_slope() {
        assert!(is_steady(&[5.0, 100.0, 101.0, 99.0, 100.0, 100.0]));
        assert!(!is_steady(&[100.0; 4]), "too few");
        assert!(!is_steady(&[100.0, 100.0, 130.0, 100.0, 100.0]), "a peak");
        assert!(!is_steady(&[92.0, 96.0, 100.0, 104.0, 108.0]), "a slope");
        assert!(!is_steady(&[0.0; 5]), "nothing happens");
    }
}
