//! Trend of values in order of measurement (Mann 1945, Kendall 1975), with Sen's slope (Sen 1968). Rank-based, so that a single
//! outlier neither causes nor hides a trend.

use crate::describe::median;
use crate::rank::tie_term;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// Maximum number of values for slopes of all pairs; beyond, pairs half a series apart are used (Theil 1950, the incomplete
/// method).
const ALL_SLOPES_UP_TO: usize = 1000;

/// Maximum number of values without ties for the exact distribution.
const EXACT_UP_TO: usize = 40;

/// Monotonic drift of a series, by the Mann-Kendall test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Kendall's tau of value with order, -1..=1.
    pub tau: f64,
    /// Two-sided p of no trend.
    pub p: f64,
    /// Change from the first to the last value along Sen's slope, as a fraction of the median.
    pub change: f64,
}

impl Trend {
    /// Returns the text of a drift that is significant at `error` and larger than `margin` (a fraction), otherwise
    /// `None`.
    pub fn text(&self, error: f64, margin: f64) -> Option<String> {
        let is_drift = self.p < error && self.change.abs() > margin;
        is_drift.then(|| format!("drifts by {:+.1} % from first to last", self.change * 100.0))
    }
}

/// Computes the trend of values in order; `None` for fewer than five, one that is not finite, or a median of zero.
/// Takes quadratic time.
pub fn trend(values: &[f64]) -> Option<Trend> {
    let centre = median(values).filter(|centre| *centre != 0.0)?;
    if values.len() < 5 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut score = 0.0;
    for (late, value) in values.iter().enumerate() {
        score += values[..late].iter().map(|before| f64::from(value > before) - f64::from(value < before)).sum::<f64>();
    }
    let (count, ties) = (values.len(), tie_term(values));
    let p = if ties == 0.0 && count <= EXACT_UP_TO { exact_p(score, count) } else { normal_p(score, values) };
    let change = median(&slopes(values))? * (count - 1) as f64 / centre.abs();
    Some(Trend { tau: 2.0 * score / (count * (count - 1)) as f64, p, change })
}

/// Slopes between pairs of values, per step.
fn slopes(values: &[f64]) -> Vec<f64> {
    let apart = if values.len() <= ALL_SLOPES_UP_TO { 1..values.len() } else { values.len() / 2..values.len() / 2 + 1 };
    let of = |apart: usize| values.iter().zip(&values[apart..]).map(move |(early, late)| (late - early) / apart as f64);
    apart.flat_map(of).collect()
}

/// Counts the permutations of `count` values by their inversions.
fn exact_p(score: f64, count: usize) -> f64 {
    let pairs = count * (count - 1) / 2;
    let mut shares = vec![0.0; pairs + 1];
    shares[0] = 1.0;
    for length in 2..=count {
        // The last of `length` values causes 0 to length - 1 inversions with equal probability.
        let before = shares.clone();
        for (inversions, share) in shares.iter_mut().enumerate() {
            let from = inversions.saturating_sub(length - 1);
            *share = before[from..=inversions].iter().sum::<f64>() / length as f64;
        }
    }
    let fewer = ((pairs as f64 - score.abs()) / 2.0).round() as usize;
    (2.0 * shares[..=fewer].iter().sum::<f64>()).min(1.0)
}

/// Approximates p by the normal distribution, with corrections for ties and continuity.
fn normal_p(score: f64, values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let weigh = |tied: f64| tied * (tied - 1.0) * (2.0 * tied + 5.0);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|group| weigh(group.len() as f64)).sum();
    let variance = (weigh(count) - ties) / 18.0;
    if variance <= 0.0 {
        return 1.0;
    }
    (2.0 * Normal::standard().sf((score.abs() - 1.0).max(0.0) / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;
    use proptest::prelude::*;

    #[test]
    fn kendall_matches_scipy() {
        // scipy 1.17: kendalltau(range(8), values, method="exact")
        let found = trend(&[3.1, 2.9, 3.4, 3.6, 3.5, 3.9, 3.8, 4.2]).unwrap();
        close(found.tau, KENDALL[0], 1e-12);
        close(found.p, KENDALL[1], 1e-12);
        // The slope is that of stats.theilslopes.
        close(found.change, KENDALL[2], 1e-12);
        assert!(found.text(0.01, 0.02).unwrap().starts_with("drifts by +31.3 %"));
        assert_eq!(found.text(0.01, 0.9), None);
    }

    const KENDALL: [f64; 3] = [0.7857142857142856, 0.005505952380952381, 0.3126760563380282];

    #[test]
    fn ties_and_outliers_do_not_cause_a_trend() {
        assert_eq!(trend(&[5.0; 9]).unwrap().p, 1.0);
        let outlier = trend(&[10.0, 10.1, 9.9, 10.05, 9.95, 10.02, 50.0]).unwrap();
        assert!(outlier.p > 0.3 && outlier.change < 0.1, "{outlier:?}");
        assert_eq!(trend(&[1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(trend(&[1.0, 2.0, f64::NAN, 4.0, 5.0]), None);
        assert_eq!(trend(&[0.0; 6]), None);
    }

    #[test]
    fn long_series_keep_their_slope() {
        let series: Vec<f64> = (0..3000).map(|k| 100.0 + 0.01 * f64::from(k) + f64::from(k * k % 97) / 30.0).collect();
        let found = trend(&series).unwrap();
        close(found.change, 30.0 / 116.6, 0.01);
        assert!(found.p < 1e-6);
    }

    proptest! {
        #[test]
        fn exact_and_approximate_p_agree(values in prop::collection::hash_set(0u32..100_000, 25..40)) {
            let values: Vec<f64> = values.into_iter().map(|value| f64::from(value) + 1.0).collect();
            let found = trend(&values).unwrap();
            let score = (found.tau * (values.len() * (values.len() - 1) / 2) as f64).round();
            prop_assert!((found.p - normal_p(score, &values)).abs() < 0.01);
        }
    }
}
