//! Correlation coefficients with intervals, and RMSE.

use crate::describe::mean;
use crate::rank::ranks;
use crate::student::quantile;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Normal quantile of a two-sided 95 % interval.
const Z95: f64 = 1.959_963_984_540_054;

/// A correlation coefficient with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Correlation {
    /// Coefficient, -1..=1.
    pub value: f64,
    /// Lower end of the 95 % interval; -1 for fewer than four pairs.
    pub low: f64,
    /// Upper end; 1 for fewer than four pairs.
    pub high: f64,
    /// Two-sided p of no correlation, by Student's t with n - 2 degrees of freedom, at least 2/n!: of the n! orders of one side,
    /// this one and its reverse are always at least as extreme.
    pub p: f64,
    /// Number of pairs.
    pub count: usize,
}

impl Correlation {
    /// Returns the interval of [`pearson`] at level 1 - `alpha`; -1 to 1 for fewer than four pairs.
    pub fn pearson_interval(&self, alpha: f64) -> (f64, f64) {
        fisher(self.value, self.count, quantile(alpha / 2.0, f64::INFINITY), 1.0, 1.0)
    }
}

/// Computes Pearson's coefficient, with an interval by Fisher's z (Fisher 1921, standard error 1/sqrt(n-3)). `None` for
/// fewer than three pairs, different lengths or a constant side.
pub fn pearson(x: &[f64], y: &[f64]) -> Option<Correlation> {
    with_interval(coefficient(x, y)?, x.len(), 1.0, 1.0)
}

/// Computes Spearman's coefficient, with mean ranks for ties. The interval is by Fisher's z with the standard error
/// sqrt((1 + r^2/2)/(n-3)) of Bonett and Wright (2000). `None` as for [`pearson`].
pub fn spearman(x: &[f64], y: &[f64]) -> Option<Correlation> {
    let value = coefficient(&ranks(x), &ranks(y))?;
    with_interval(value, x.len(), 1.0 + value * value / 2.0, resolved_by_ranks(x.len()))
}

/// Computes Pearson's coefficient of the residuals after regression on the controls. The interval is by Fisher's z with
/// one pair less per control (Fisher 1924). `None` as for [`pearson`], or if a control explains all of a side.
pub fn partial(x: &[f64], y: &[f64], controls: &[&[f64]]) -> Option<Correlation> {
    let value = partial_coefficient(x, y, controls)?;
    let found = with_interval(value, x.len().checked_sub(controls.len()).filter(|pairs| *pairs > 2)?, 1.0, 1.0)?;
    Some(Correlation { count: x.len(), ..found })
}

/// Removes the controls one by one.
fn partial_coefficient(x: &[f64], y: &[f64], controls: &[&[f64]]) -> Option<f64> {
    let Some((z, controls)) = controls.split_first() else { return coefficient(x, y) };
    let xy = partial_coefficient(x, y, controls)?;
    let xz = partial_coefficient(x, z, controls)?;
    let yz = partial_coefficient(y, z, controls)?;
    let value = (xy - xz * yz) / ((1.0 - xz * xz) * (1.0 - yz * yz)).sqrt();
    value.is_finite().then(|| value.clamp(-1.0, 1.0))
}

fn coefficient(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.len() != y.len() || x.len() < 3 {
        return None;
    }
    let (mean_x, mean_y) = (mean(x)?, mean(y)?);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (dx, dy) = (x - mean_x, y - mean_y);
        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    let value = xy / (xx * yy).sqrt();
    value.is_finite().then(|| value.clamp(-1.0, 1.0))
}

/// Returns the largest rank correlation that is distinguished from perfect order, which few points reach by chance. It
/// is half of the smallest step (12 / (n (n^2 - 1)) of Spearman's) below 1. The transform would give perfect order an
/// interval of zero width.
fn resolved_by_ranks(count: usize) -> f64 {
    let n = count as f64;
    1.0 - 6.0 / (n * (n * n - 1.0))
}

fn fisher(value: f64, count: usize, quantile: f64, variance: f64, resolved: f64) -> (f64, f64) {
    if count < 4 {
        return (-1.0, 1.0);
    }
    let reach = quantile * (variance / (count - 3) as f64).sqrt();
    let z = value.clamp(-resolved, resolved).atanh();
    ((z - reach).tanh().min(value), (z + reach).tanh().max(value))
}

fn with_interval(value: f64, count: usize, variance: f64, resolved: f64) -> Option<Correlation> {
    let (low, high) = fisher(value, count, Z95, variance, resolved);
    let dof = (count - 2) as f64;
    let t = value.abs() * (dof / (1.0 - value * value)).sqrt();
    let p = if t.is_finite() { 2.0 * StudentsT::new(0.0, 1.0, dof).ok()?.sf(t) } else { 0.0 };
    let orders: f64 = (1..=count).map(|n| n as f64).product();
    Some(Correlation { value, low, high, p: p.max(2.0 / orders).min(1.0), count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;

    /// Law school data of Efron and Tibshirani (1993), table 3.1; r = 0.776.
    const LSAT: [f64; 15] =
        [576.0, 635.0, 558.0, 578.0, 666.0, 580.0, 555.0, 661.0, 651.0, 605.0, 653.0, 575.0, 545.0, 572.0, 594.0];
    const GPA: [f64; 15] = [3.39, 3.30, 2.81, 3.03, 3.44, 3.07, 3.00, 3.43, 3.36, 3.13, 3.12, 2.74, 2.76, 2.88, 2.96];

    #[test]
    fn four_ordered_ranks_are_not_significant() {
        let line = [1.0, 2.0, 3.0, 4.0];
        let found = spearman(&line, &line).unwrap();
        assert!(found.value > 0.999_999 && found.low < 0.0 && found.high >= found.value, "{found:?}");
        let long: Vec<f64> = (0..30).map(f64::from).collect();
        let falling: Vec<f64> = long.iter().map(|x| -x).collect();
        let found = spearman(&long, &falling).unwrap();
        assert!(found.low <= -0.999_999 && (-1.0..-0.99).contains(&found.high), "{found:?}");
    }

    #[test]
    fn pearson_matches_the_textbook_and_scipy() {
        let result = pearson(&LSAT, &GPA).unwrap();
        close(result.value, 0.7763744912894072, 1e-12);
        // scipy 1.10: pearsonr(...).pvalue and .confidence_interval(0.95)
        close(result.p, PEARSON[0], 1e-9);
        close(result.low, PEARSON[1], 1e-9);
        close(result.high, PEARSON[2], 1e-9);
    }

    const PEARSON: [f64; 3] = [0.0006651020111028152, 0.43851082496279575, 0.9219647559645165];

    #[test]
    fn spearman_matches_scipy() {
        // scipy.stats.spearmanr([1,2,3,4,5], [5,6,7,8,7]): 0.82078268166812329, p 0.088587005313543812
        let result = spearman(&[1.0, 2.0, 3.0, 4.0, 5.0], &[5.0, 6.0, 7.0, 8.0, 7.0]).unwrap();
        close(result.value, 0.820_782_681_668_123_3, 1e-12);
        close(result.p, 0.088_587_005_313_543_8, 1e-9);
        assert!(result.low < result.value && result.value < result.high);
    }

    #[test]
    fn constant_values_have_no_correlation() {
        assert_eq!(pearson(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(pearson(&[1.0, 2.0], &[1.0, 2.0]), None);
        close(pearson(&[1.0, 2.0, 3.0, 4.0], &[2.0, 4.0, 6.0, 8.0]).unwrap().value, 1.0, 1e-15);
    }

    #[test]
    fn p_of_few_pairs_is_bounded_by_permutations() {
        close(spearman(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 7.0, 9.0]).unwrap().p, 2.0 / 24.0, 1e-15);
        close(pearson(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]).unwrap().p, 2.0 / 6.0, 1e-15);
    }

    #[test]
    fn partial_correlation_matches_residuals() {
        // numpy 1.24: corrcoef of the residuals of lstsq on a constant and both controls
        let place: Vec<f64> = (0..15u8).map(f64::from).collect();
        let odd: Vec<f64> = LSAT.iter().map(|score| (score % 7.0).sqrt()).collect();
        let result = partial(&LSAT, &GPA, &[&place, &odd]).unwrap();
        close(result.value, 0.799436504359546, 1e-12);
        close(result.low, 0.444041695310640, 1e-9);
        assert_eq!(result.count, 15);
        assert_eq!(partial(&LSAT, &GPA, &[&LSAT]), None);
    }
}
