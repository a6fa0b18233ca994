//! Equivalence by two one-sided tests (Schuirmann 1987). The absence of a detected difference does not prove equivalence.

use crate::arm::{LEAST_VALUES, Untestable};
use crate::describe::{mean, quantile, standard_deviation};
use crate::student;
use serde::{Deserialize, Serialize};

/// Result of the two tests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Equivalence {
    /// The larger p of both: equivalent if it is below the level.
    pub p: f64,
    /// Estimated ratio or difference.
    pub estimate: f64,
    /// Equivalence margin: a factor above 1 for ratios, a distance for differences.
    pub margin: f64,
}

impl Equivalence {
    /// Returns whether equivalence is proven; the proof is wrong with probability at most `error`.
    pub fn is_proven(&self, error: f64) -> bool {
        self.p < error
    }
}

/// Margin for the difference of two means: the maximum of its parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Margin {
    /// A fraction of the reference's mean.
    pub share: f64,
    /// A distance in the unit of the values.
    pub least: f64,
    /// Standard deviations of the reference.
    pub deviations: f64,
}

/// Tests whether the means of `sample` and `reference` differ by less than a margin, with Welch's test. A margin in deviations is
/// an estimate whose error counts: treated as known, two deviations of eight values would accept 8 % instead of 5 % at the
/// margin.
///
/// # Errors
/// [`Untestable`] for fewer than [`LEAST_VALUES`] values per side, or a value that is not finite.
pub fn within_margin(sample: &[f64], reference: &[f64], margin: Margin) -> Result<Equivalence, Untestable> {
    let (ours, theirs) = (moments(sample)?, moments(reference)?);
    let (fixed, estimated) =
        ((margin.share * theirs.mean.abs()).max(margin.least), margin.deviations * theirs.deviation);
    let of_mean = |side: Moments| side.deviation * side.deviation / side.count;
    let variances = [of_mean(ours), of_mean(theirs)];
    let dof = student::satterthwaite(variances, [ours.count - 1.0, theirs.count - 1.0]);
    // A standard deviation has a relative standard error of 1 / sqrt(2 (n - 1)).
    let of_margin = if estimated > fixed { estimated * estimated / (2.0 * (theirs.count - 1.0)) } else { 0.0 };
    let variance = variances[0] + variances[1] + of_margin;
    let dof = student::satterthwaite([variances[0] + variances[1], of_margin], [dof, theirs.count - 1.0]);
    let (estimate, margin) = (ours.mean - theirs.mean, fixed.max(estimated));
    let distance = margin - estimate.abs();
    let p =
        if variance > 0.0 { student::upper_tail(distance / variance.sqrt(), dof) } else { f64::from(distance <= 0.0) };
    Ok(Equivalence { p, estimate, margin })
}

#[derive(Clone, Copy)]
struct Moments {
    mean: f64,
    deviation: f64,
    count: f64,
}

fn moments(values: &[f64]) -> Result<Moments, Untestable> {
    if values.len() < LEAST_VALUES {
        return Err(Untestable::TooFew { have: values.len(), need: LEAST_VALUES });
    }
    match (mean(values), standard_deviation(values)) {
        (Some(mean), Some(deviation)) if (mean + deviation).is_finite() => {
            Ok(Moments { mean, deviation, count: values.len() as f64 })
        }
        _ => Err(Untestable::NotFinite),
    }
}

/// Distance of histograms from a reference, and scatter of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HistogramDistance {
    /// Median distance of the sample's histograms from the reference's.
    pub distance: f64,
    /// 95th percentile of the distances within the reference.
    pub limit: f64,
}

impl HistogramDistance {
    /// Returns whether the sample is within the reference's own scatter.
    pub fn is_within(&self) -> bool {
        self.distance <= self.limit
    }
}

/// Distances of histograms with equal bins, as [`cumulative_distance`]; `None` for fewer than two histograms of the reference,
/// none of the sample, different bins, or an empty histogram.
pub fn histogram_distance(sample: &[Vec<f64>], reference: &[Vec<f64>]) -> Option<HistogramDistance> {
    let own = reference.iter().enumerate().flat_map(|(k, one)| reference[..k].iter().map(move |other| (one, other)));
    let own: Option<Vec<f64>> = own.map(|(one, other)| cumulative_distance(one, other)).collect();
    let cross = sample.iter().flat_map(|one| reference.iter().map(move |other| (one, other)));
    let cross: Option<Vec<f64>> = cross.map(|(one, other)| cumulative_distance(one, other)).collect();
    Some(HistogramDistance { distance: quantile(&cross?, 0.5)?, limit: quantile(&own?, 0.95)? })
}

/// Returns the largest difference of the cumulative shares of two histograms, 0..=1 (Kolmogorov and Smirnov); `None`
/// for different bins or an empty histogram.
pub(crate) fn cumulative_distance(one: &[f64], other: &[f64]) -> Option<f64> {
    let (total, total_other): (f64, f64) = (one.iter().sum(), other.iter().sum());
    if one.len() != other.len() || !(total > 0.0 && total_other > 0.0) || !(total + total_other).is_finite() {
        return None;
    }
    let (mut apart, mut farthest) = (0.0f64, 0.0f64);
    for (a, b) in one.iter().zip(other) {
        apart += a / total - b / total_other;
        farthest = farthest.max(apart.abs());
    }
    Some(farthest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;

    const OURS: [f64; 8] = [10.1, 9.8, 10.3, 10.0, 9.9, 10.2, 10.1, 9.7];
    const THEIRS: [f64; 8] = [10.0, 10.2, 9.9, 10.1, 10.4, 9.8, 10.0, 10.1];

    #[test]
    fn both_tests_match_scipy() {
        // scipy 1.17: the larger p of ttest_ind(ours, theirs -+ 0.5, equal_var=False, alternative=...)
        let found = within_margin(&OURS, &THEIRS, Margin { least: 0.5, ..Margin::default() }).unwrap();
        close(found.p, TOST, 1e-9);
        assert!(found.is_proven(0.05) && !found.is_proven(1e-6));
    }

    const TOST: f64 = 0.00019685339267145273;

    #[test]
    fn largest_margin_counts_and_an_estimated_one_is_penalised() {
        let margin = |margin| within_margin(&OURS, &THEIRS, margin).unwrap();
        close(margin(Margin { share: 0.1, least: 0.5, deviations: 0.0 }).margin, 1.00625, 1e-9);
        let deviation = standard_deviation(&THEIRS).unwrap();
        let estimated = margin(Margin { deviations: 2.0, ..Margin::default() });
        let fixed = margin(Margin { least: 2.0 * deviation, ..Margin::default() });
        close(estimated.margin, fixed.margin, 1e-12);
        assert!(estimated.p > fixed.p);
    }

    #[test]
    fn equivalence_needs_enough_values() {
        let margin = Margin { share: 0.1, ..Margin::default() };
        assert_eq!(within_margin(&OURS[..3], &THEIRS, margin), Err(Untestable::TooFew { have: 3, need: 5 }));
        assert_eq!(within_margin(&[f64::NAN; 6], &THEIRS, margin), Err(Untestable::NotFinite));
        assert_eq!(within_margin(&[3.0; 6], &[3.0; 6], margin).unwrap().p, 0.0);
        assert_eq!(within_margin(&[3.0; 6], &[2.0; 6], margin).unwrap().p, 1.0);
        assert_eq!(within_margin(&[0.0; 6], &[0.0; 6], margin).unwrap().p, 1.0);
    }

    #[test]
    fn histograms_are_compared_with_the_reference_scatter() {
        let reference = [vec![10.0, 5.0, 1.0], vec![9.0, 6.0, 1.0], vec![11.0, 4.0, 1.0]];
        let near = histogram_distance(&[vec![20.0, 10.0, 2.0]], &reference).unwrap();
        assert!(near.is_within());
        let far = histogram_distance(&[vec![2.0, 4.0, 10.0]], &reference).unwrap();
        assert!(!far.is_within() && far.distance <= 1.0);
        close(cumulative_distance(&[1.0, 0.0], &[0.0, 7.0]).unwrap(), 1.0, 1e-15);
        assert_eq!(cumulative_distance(&[0.0], &[1.0]), None);
        assert_eq!(histogram_distance(&[vec![1.0]], &[vec![1.0]]), None);
        assert_eq!(histogram_distance(&[vec![1.0]], &[vec![1.0], vec![1.0, 2.0]]), None);
    }
}
