//! Pearson's chi-square test of a histogram against expected counts.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Cochran (1954): bins are pooled until each expects at least this many.
pub const LEAST_EXPECTED: f64 = 5.0;

/// Result of the test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChiSquare {
    /// Test statistic.
    pub statistic: f64,
    /// Degrees of freedom: bins - 1.
    pub dof: usize,
    /// Probability of a statistic at least this large if the expectation is true.
    pub p: f64,
    /// Bins after pooling.
    pub bins: usize,
}

/// The test without pooling; `None` for fewer than two bins, different lengths or an expectation that is not positive.
pub fn chi_square(observed: &[f64], expected: &[f64]) -> Option<ChiSquare> {
    if observed.len() != expected.len()
        || observed.len() < 2
        || expected.iter().any(|count| *count <= 0.0 || count.is_nan())
    {
        return None;
    }
    let statistic: f64 = observed.iter().zip(expected).map(|(o, e)| (o - e).powi(2) / e).sum();
    let dof = observed.len() - 1;
    let p = ChiSquared::new(dof as f64).ok()?.sf(statistic);
    Some(ChiSquare { statistic, dof, p, bins: observed.len() })
}

/// The test after pooling adjacent bins to an expectation of at least [`LEAST_EXPECTED`]. If all pool into one bin, p is 1 with 0
/// degrees of freedom. `None` for different lengths or zero total expectation.
pub fn chi_square_pooled(observed: &[f64], expected: &[f64]) -> Option<ChiSquare> {
    if observed.len() != expected.len() || expected.iter().all(|count| *count <= 0.0 || count.is_nan()) {
        return None;
    }
    let (observed, expected) = pool(observed, expected);
    if expected.len() == 1 {
        return Some(ChiSquare { statistic: 0.0, dof: 0, p: 1.0, bins: 1 });
    }
    chi_square(&observed, &expected)
}

/// Pools from the left; a remainder that is too small joins the last bin.
fn pool(observed: &[f64], expected: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (mut counts, mut hopes): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let (mut count, mut hope) = (0.0, 0.0);
    for (o, e) in observed.iter().zip(expected) {
        count += o;
        hope += e;
        if hope >= LEAST_EXPECTED {
            counts.push(std::mem::take(&mut count));
            hopes.push(std::mem::take(&mut hope));
        }
    }
    match (counts.last_mut(), hopes.last_mut()) {
        (Some(last), Some(expected)) => {
            *last += count;
            *expected += hope;
        }
        _ => return (vec![count], vec![hope]),
    }
    (counts, hopes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;
    use proptest::prelude::*;

    #[test]
    fn results_match_scipy() {
        // scipy.stats.chisquare([16, 18, 16, 14, 12, 12]) = (2.0, 0.84914503608460956)
        let result = chi_square(&[16.0, 18.0, 16.0, 14.0, 12.0, 12.0], &[88.0 / 6.0; 6]).unwrap();
        close(result.statistic, 2.0, 1e-12);
        close(result.p, 0.849_145_036_084_609_6, 1e-9);
        // f_exp=[16, 16, 16, 16, 16, 8]: (3.5, 0.62338762774958223)
        let result = chi_square(&[16.0, 18.0, 16.0, 14.0, 12.0, 12.0], &[16.0, 16.0, 16.0, 16.0, 16.0, 8.0]).unwrap();
        close(result.statistic, 3.5, 1e-12);
        close(result.p, 0.623_387_627_749_582_2, 1e-9);
    }

    #[test]
    fn small_bins_are_pooled() {
        let result = chi_square_pooled(&[3.0, 4.0, 10.0, 1.0], &[2.0, 4.0, 10.0, 2.0]).unwrap();
        assert_eq!((result.bins, result.dof), (2, 1));
        close(result.statistic, 1.0 / 6.0 + 1.0 / 12.0, 1e-12);
        assert_eq!(chi_square_pooled(&[1.0, 1.0], &[1.0, 1.0]).unwrap().p, 1.0);
        assert_eq!(chi_square_pooled(&[], &[]), None);
    }

    proptest! {
        #[test]
        fn pooling_preserves_totals(bins in prop::collection::vec((0u32..40, 0u32..40), 1..20)) {
            let observed: Vec<f64> = bins.iter().map(|bin| f64::from(bin.0)).collect();
            let expected: Vec<f64> = bins.iter().map(|bin| f64::from(bin.1)).collect();
            let (o, e) = pool(&observed, &expected);
            prop_assert_eq!(o.iter().sum::<f64>(), observed.iter().sum::<f64>());
            prop_assert!(e.len() == 1 || e.iter().all(|hope| *hope >= LEAST_EXPECTED));
        }
    }
}
