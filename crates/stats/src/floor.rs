//! The noise floor: differences between runs of the same configuration. Repetitions within a run do not show it (another day,
//! boot, or memory layout; Kalibera and Jones 2013), so it is estimated from runs.

use crate::arm::{Untestable, positive};
use crate::student;
use serde::{Deserialize, Serialize};

/// Degrees of freedom of a known variance.
const AS_IF_KNOWN: f64 = 1e9;

/// Variance of the log ratio of two equal runs. It includes the variation within runs. A comparison that adds it to its own
/// variance counts that part twice, which is conservative.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Variance of the natural logarithm of the ratio.
    pub variance: f64,
    /// Degrees of freedom of the variance; very large if it is assumed instead of estimated.
    pub dof: f64,
}

impl Floor {
    /// Estimates the floor from means of runs under identical conditions.
    ///
    /// # Errors
    /// [`Untestable`] for fewer than two runs, or a mean that is not finite and above zero.
    pub fn of_runs(means: &[f64]) -> Result<Self, Untestable> {
        means.iter().try_for_each(|mean| positive(*mean))?;
        let logs: Vec<f64> = means.iter().map(|mean| mean.ln()).collect();
        let deviation = crate::standard_deviation(&logs);
        let deviation = deviation.ok_or(Untestable::TooFew { have: means.len(), need: 2 })?;
        Ok(Self { variance: 2.0 * deviation * deviation, dof: means.len() as f64 - 1.0 })
    }

    /// Assumes that two equal runs differ by more than `share` (a fraction) in 5 % of cases. Without a floor, runs that differ by
    /// 1 % between and within runs make four of ten comparisons of equal sides "better" or "worse".
    pub fn assumed(share: f64) -> Self {
        let deviation = share.abs().ln_1p() / student::quantile(0.025, AS_IF_KNOWN);
        Self { variance: deviation * deviation, dof: AS_IF_KNOWN }
    }

    /// Returns the maximum of this and an assumed floor, because few runs may agree by chance.
    pub fn at_least(self, share: f64) -> Self {
        let assumed = Self::assumed(share);
        if assumed.variance > self.variance { assumed } else { self }
    }

    /// Returns the change (a fraction) that two equal runs exceed with probability `error`.
    #[cfg(test)]
    pub(crate) fn reach(&self, error: f64) -> f64 {
        (student::quantile(error / 2.0, self.dof) * self.variance.sqrt()).min(700.0).exp_m1()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;

    #[test]
    fn variance_is_of_the_ratio_of_two_runs() {
        let runs = Floor::of_runs(&[100.0, 102.0]).unwrap();
        close(runs.variance, (100f64 / 102.0).ln().powi(2), 1e-15);
        assert_eq!(runs.dof, 1.0);
    }

    #[test]
    fn insufficient_input_is_refused() {
        assert_eq!(Floor::of_runs(&[1.0]), Err(Untestable::TooFew { have: 1, need: 2 }));
        assert_eq!(Floor::of_runs(&[1.0, -1.0]), Err(Untestable::NotPositive { value: -1.0 }));
        assert_eq!(Floor::of_runs(&[1.0, f64::NAN]), Err(Untestable::NotFinite));
    }

    #[test]
    fn assumed_floor_has_the_assumed_reach() {
        close(Floor::assumed(0.02).reach(0.05), 0.02, 1e-12);
        let lucky = Floor::of_runs(&[100.0, 100.001]).unwrap();
        assert_eq!(lucky.at_least(0.02), Floor::assumed(0.02));
        assert_eq!(Floor::assumed(0.02).at_least(0.01), Floor::assumed(0.02));
    }

    #[test]
    fn few_runs_have_a_large_reach() {
        let of = |dof| Floor { variance: 0.01f64.powi(2), dof }.reach(0.05);
        close(of(1.0), (12.706_204_736_432_095f64 * 0.01).exp() - 1.0, 1e-9);
        assert!(of(20.0) < 0.022);
    }
}
