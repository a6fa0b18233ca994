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

    /// Returns the result of one interval, `length` seconds long and ending at `seconds`.
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
