//! The result of every rank in a repetition, and its consistency with the whole.

use hdrhistogram::Histogram;
use senesce_workload::{FinishedBench, Repetition};
use serde::{Deserialize, Serialize};

/// The result of one rank in one repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankRepetition {
    /// Its number.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its clock minus that of rank 0, in seconds.
    pub clock_offset_seconds: f64,
    /// Uncertainty of the offset.
    pub clock_error_seconds: f64,
    /// Start in seconds after the agreed moment, by the clock of rank 0.
    pub begin_seconds: f64,
    /// End, likewise.
    pub end_seconds: f64,
    /// Its measurements.
    pub result: Repetition,
}

/// All ranks of one repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankRepetitions {
    /// Number of the repetition, from 1.
    pub repetition: u64,
    /// A row for each rank.
    pub ranks: Vec<RankRepetition>,
}

/// A rank below this share of the median rate of all ranks is a straggler.
const STRAGGLER: f64 = 0.9;
impl RankRepetitions {
    pub(crate) fn stragglers(&self) -> Vec<String> {
        let mut rates: Vec<f64> = self.ranks.iter().map(|row| row.result.ops_per_second).collect();
        rates.sort_by(f64::total_cmp);
        let median = rates.get(rates.len() / 2).copied().unwrap_or(0.0);
        let slow = self.ranks.iter().filter(|row| row.result.ops_per_second < STRAGGLER * median);
        slow.map(|row| {
            let share = row.result.ops_per_second / median * 100.0;
            format!(
                "repetition {}: rank {} on {} reached {share:.0} % of the median rate",
                self.repetition, row.rank, row.host
            )
        })
        .collect()
    }

    pub(super) fn contradiction(&self, whole: &FinishedBench) -> Option<String> {
        let counted = |name: &str| {
            let of_rank = |row: &RankRepetition| {
                row.result.flowops.iter().find(|(known, _)| known == name).map(|(_, one)| one.count)
            };
            self.ranks.iter().filter_map(of_rank).sum::<u64>()
        };
        let differs = |(name, histogram): &&(String, Histogram<u64>)| counted(name) != histogram.len();
        whole.histograms.iter().find(differs).map(|(name, histogram)| {
            format!(
                "the ranks counted flowop {name} {} times, but together they have {} latencies",
                counted(name),
                histogram.len()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_workload::FlowopResult;

    fn rank(rank: u32, reads: u64) -> RankRepetition {
        let flowop: FlowopResult = serde_json::from_value(serde_json::json!({
            "kind": "Read", "count": reads, "bytes": 0, "ops_per_second": 1.0, "mb_per_second": 0.0, "mean_us": 1.0,
            "min_us": 1.0, "p50_us": 1.0, "p90_us": 1.0, "p99_us": 1.0, "p999_us": 1.0, "p9999_us": 1.0, "max_us": 1.0,
        }))
        .unwrap();
        let result = Repetition { ops: reads, flowops: vec![("read".into(), flowop)], ..Repetition::default() };
        RankRepetition {
            rank,
            host: "node".into(),
            clock_offset_seconds: 0.0,
            clock_error_seconds: 0.0,
            begin_seconds: 0.0,
            end_seconds: 1.0,
            result,
        }
    }

    #[test]
    fn disagreement_between_ranks_and_whole_is_reported() {
        let rows = RankRepetitions { repetition: 1, ranks: vec![rank(0, 3), rank(1, 4)] };
        let whole = |latencies: u64| {
            let mut histogram = Histogram::new(3).unwrap();
            histogram.record_n(1000, latencies).unwrap();
            FinishedBench { repetition: Repetition::default(), histograms: vec![("read".into(), histogram)] }
        };
        assert_eq!(rows.contradiction(&whole(7)), None);
        let said = rows.contradiction(&whole(6)).unwrap();
        assert!(said.contains("read 7 times") && said.contains("6 latencies"), "{said}");
    }
}
