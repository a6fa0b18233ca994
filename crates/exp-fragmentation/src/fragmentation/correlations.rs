//! Correlates layout scores with the cost of reads.

use super::point::{Clock, Point};
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
    /// Spearman's coefficient.
    pub spearman: Option<Correlation>,
}

pub(crate) fn pairs(points: &[Point], fs: Option<&str>, clock: Clock, read_ahead_kib: Option<u64>) -> Vec<(f64, f64)> {
    let chosen = points.iter().filter(|point| point.aged && fs.is_none_or(|fs| fs == point.fs));
    chosen
        .filter_map(|point| {
            let reading = point.reading(read_ahead_kib)?;
            Some((point.score(reading)?, point.cost(reading, clock)?))
        })
        .collect()
}

pub(crate) fn all(points: &[Point], systems: &[String], settings: &[Option<u64>]) -> Vec<ScoreCost> {
    let mut found = Vec::new();
    for clock in Clock::ALL {
        for &read_ahead_kib in settings {
            for fs in std::iter::once(None).chain(systems.iter().map(Some)) {
                let (score, cost): (Vec<f64>, Vec<f64>) =
                    pairs(points, fs.map(String::as_str), clock, read_ahead_kib).into_iter().unzip();
                if score.is_empty() {
                    continue;
                }
                found.push(ScoreCost {
                    fs: fs.cloned().unwrap_or_else(|| "all".into()),
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
