//! Power and sample size of a comparison. Standard errors from the existing values are treated as known.

use crate::ratio::Ratio;
use crate::student;
use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::gamma::ln_gamma;

/// Probability of finding a detectable difference (the convention of Cohen 1988).
pub(crate) const POWER: f64 = 0.8;

/// Limit of the search for a number of repetitions.
const MOST_UNITS: u64 = 1_000_000;

impl Ratio {
    /// Returns the smallest true ratio, above 1 (or its inverse), that a run of this size and spread can distinguish
    /// from 1. The run also estimates it beyond `margin` (a fraction). Both hold with probability [`POWER`] if the
    /// interval is wrong with probability `error`.
    pub fn detectable(&self, error: f64, margin: f64) -> f64 {
        self.detectable_with(self.units.map(|units| units as f64), error, margin, POWER).min(700.0).exp()
    }

    /// Units per side for which the interval decides about `margin` (a fraction) with probability [`POWER`]: equal sides are
    /// found equivalent, and sides that differ by twice the margin are found to differ. `None`: more than a million, because the
    /// floor or the resolution is too coarse.
    pub fn repetitions_needed(&self, error: f64, margin: f64) -> Option<u64> {
        let reach = margin.max(0.0).ln_1p();
        minimum_units(|units| {
            let standard_error = self.error_with([units; 2]);
            let needed = standard_error * reach_of(error, self.dof_with([units; 2]), (1.0 + POWER) / 2.0);
            needed.max(self.resolution) < reach
        })
    }

    /// Returns the ratio of [`Ratio::detectable`] that is found with probability `power`.
    pub fn detectable_at(&self, error: f64, margin: f64, power: f64) -> f64 {
        self.detectable_with(self.units.map(|units| units as f64), error, margin, power).min(700.0).exp()
    }

    /// Units per side for which a true ratio of `1 + difference` (below 0: its inverse too) is found with probability `power`;
    /// `None`: more than a million.
    pub fn repetitions_to_find(&self, difference: f64, error: f64, margin: f64, power: f64) -> Option<u64> {
        let distance = difference.ln_1p().abs();
        minimum_units(|units| self.detectable_with([units; 2], error, margin, power) <= distance)
    }

    fn detectable_with(&self, units: [f64; 2], error: f64, margin: f64, power: f64) -> f64 {
        let standard_error = self.error_with(units);
        let told_from_one = standard_error * reach_of(error, self.dof_with(units), power);
        let bound = margin.max(0.0).ln_1p().max(self.resolution);
        told_from_one.max(bound + standard_error * Normal::standard().inverse_cdf(power))
    }
}

/// Returns the distance of the truth from a value, in standard errors, at which the interval excludes the value with
/// probability `power`. It is a normal approximation of the noncentral t (Johnson and Welch 1940), from mean and
/// variance of the estimated error.
fn reach_of(error: f64, dof: f64, power: f64) -> f64 {
    let critical = student::quantile(error / 2.0, dof);
    let mean =
        if dof > 1e4 { 1.0 } else { (2.0 / dof).sqrt() * (ln_gamma((dof + 1.0) / 2.0) - ln_gamma(dof / 2.0)).exp() };
    let variance = (1.0 - mean * mean).max(0.0);
    critical * mean + Normal::standard().inverse_cdf(power) * (1.0 + critical * critical * variance).sqrt()
}

/// Returns the smallest number from 2 on that satisfies `enough`, which must be monotonic.
fn minimum_units(enough: impl Fn(f64) -> bool) -> Option<u64> {
    let (mut below, mut above) = (1, 2);
    while !enough(above as f64) {
        (below, above) = (above, above * 2);
        if above > MOST_UNITS {
            return None;
        }
    }
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if enough(middle as f64) { above = middle } else { below = middle }
    }
    Some(above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::Floor;
    use crate::tests::close;

    #[test]
    fn noncentral_t_matches_scipy() {
        // scipy 1.17: the noncentrality c for which stats.nct.sf(t.isf(error / 2, dof), dof, c) is 0.8
        for (error, dof, theirs) in NONCENTRAL {
            close(reach_of(error, dof, 0.8) / theirs, 1.0, 0.01);
        }
    }

    const NONCENTRAL: [(f64, f64, f64); 5] = [
        (0.05, 8.0, 3.2009222385156213),
        (0.05, 4.0, 3.761060261004305),
        (0.001388888888888889, 18.0, 4.7130581955064965),
        (0.016666666666666666, 5.5, 4.428223580591334),
        (0.001388888888888889, 4.0, 9.816268010606663),
    ];

    #[test]
    fn repetitions_and_detectable_difference_agree() {
        let plan = Ratio::assumed(0.05, 5);
        let needed = plan.repetitions_to_find(0.1, 0.05, 0.02, POWER).unwrap();
        assert_eq!(needed, 6);
        assert!(Ratio::assumed(0.05, 6).detectable(0.05, 0.02) <= 1.1);
        assert!(Ratio::assumed(0.05, 5).detectable(0.05, 0.02) > 1.1);
        // A true difference at the margin is estimated beyond it half of the time for any sample size.
        assert_eq!(plan.repetitions_to_find(0.02, 0.05, 0.02, POWER), None);
    }

    #[test]
    fn margin_below_floor_or_resolution_is_unreachable() {
        let plan = Ratio::assumed(0.05, 5);
        assert!(plan.repetitions_needed(0.05, 0.02).is_some_and(|units| (100..200).contains(&units)));
        assert_eq!(plan.with_floor(Floor { variance: 0.01, dof: 3.0 }).repetitions_needed(0.05, 0.02), None);
        assert_eq!(plan.with_resolution(0.05).repetitions_needed(0.05, 0.02), None);
        assert_eq!(plan.repetitions_needed(0.05, 0.0), None);
        assert_eq!(Ratio::assumed(0.0, 5).repetitions_needed(0.05, 0.02), Some(2));
    }
}
