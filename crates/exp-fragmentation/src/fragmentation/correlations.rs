//! Correlates layout scores with the cost of reads.

use super::analysis::RoundData;
use super::point::Clock;
use senesce_stats::{Correlation, pearson, spearman};
use serde::Serialize;

/// Correlation of score and cost over points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreCost {
    /// File system, or `all`.
    pub fs: String,
    /// Source of the times: `hdd` and `ssd` are modelled.
    pub device: &'static str,
    /// Read-ahead in KiB of these reads; `null` if unchanged.
    pub read_ahead_kib: Option<u64>,
    /// Pearson's coefficient with its 95 % interval; `null` for fewer than three points or no spread.
    pub pearson: Option<Correlation>,
    pub spearman: Option<Correlation>,
}

/// Returns the score and cost of each round, as means over the images.
pub(crate) fn pairs(data: &RoundData, fs: &str, clock: Clock, read_ahead_kib: Option<u64>) -> Vec<(f64, f64)> {
    let scores = data.over_rounds(fs, true, |point| point.mean(read_ahead_kib, |reading| point.score(reading)));
    let costs = data.over_rounds(fs, true, |point| point.mean(read_ahead_kib, |reading| point.cost(reading, clock)));
    scores.iter().filter_map(|(round, score)| Some((score.mean, costs.get(round)?.mean))).collect()
}

pub(crate) fn all(data: &RoundData) -> Vec<ScoreCost> {
    let mut found = Vec::new();
    for clock in Clock::ALL {
        for &read_ahead_kib in &data.settings {
            let of = |fs: &String| pairs(data, fs, clock, read_ahead_kib);
            let every = data.systems.iter().flat_map(of).collect();
            let each = data.systems.iter().map(|fs| (fs.clone(), of(fs)));
            for (fs, pairs) in std::iter::once(("all".to_string(), every)).chain(each) {
                let (score, cost): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
                if score.is_empty() {
                    continue;
                }
                found.push(ScoreCost {
                    fs,
                    device: clock.key(),
                    read_ahead_kib,
                    pearson: pearson(&score, &cost),
                    spearman: spearman(&score, &cost),
                });
            }
        }
    }
    found
}

pub(crate) fn overall(found: &[ScoreCost], clock: Clock, read_ahead_kib: Option<u64>) -> Option<Correlation> {
    let one = |one: &&ScoreCost| one.fs == "all" && one.device == clock.key() && one.read_ahead_kib == read_ahead_kib;
    found.iter().find(one)?.pearson
}

/// Formats `-0.93 (-0.96 to -0.88, 33 points)`.
pub(crate) fn text_of(correlation: &Correlation) -> String {
    format!(
        "{:.2} ({:.2} to {:.2}, {} points)",
        correlation.value, correlation.low, correlation.high, correlation.count
    )
}
