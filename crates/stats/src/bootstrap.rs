//! Bootstrap intervals (Efron and Tibshirani 1993, percentile method), also over two levels (Davison and Hinkley 1997,
//! section 3.8: groups are drawn first, then values inside each).

use crate::describe::{mean, quantile_of_sorted};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Resamples drawn for an interval.
pub const RESAMPLES: usize = 2000;

/// A value with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The statistic of the sample itself.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Estimate {
    /// Whether the interval contains a value.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The statistic with its percentile interval; `None` if the sample is empty or no resample has the statistic. One value
/// gives an interval without width: the caller says that it is one.
pub fn bootstrap(sample: &[f64], statistic: impl Fn(&[f64]) -> Option<f64>, rng: &mut impl Rng) -> Option<Estimate> {
    let value = statistic(sample)?;
    let mut drawn = Vec::with_capacity(sample.len());
    percentile(value, || {
        resample(sample, &mut drawn, rng);
        statistic(&drawn)
    })
}

/// Mean of `sample` over mean of `reference`, with interval; `None` for an empty side or a reference of zero.
pub fn ratio_of_means(sample: &[f64], reference: &[f64], rng: &mut impl Rng) -> Option<Estimate> {
    hierarchical_ratio(&[sample.to_vec()], &[reference.to_vec()], rng)
}

/// Mean of the groups' means (images, each with its repetitions), with an interval over both levels.
pub fn hierarchical_mean(groups: &[Vec<f64>], rng: &mut impl Rng) -> Option<Estimate> {
    let value = mean_of_means(groups)?;
    percentile(value, || resampled_mean(groups, rng))
}

/// Ratio of [`hierarchical_mean`]s, with an interval over both levels of both sides.
pub fn hierarchical_ratio(sample: &[Vec<f64>], reference: &[Vec<f64>], rng: &mut impl Rng) -> Option<Estimate> {
    let value = quotient(mean_of_means(sample)?, mean_of_means(reference)?)?;
    percentile(value, || quotient(resampled_mean(sample, rng)?, resampled_mean(reference, rng)?))
}

/// Mean over groups of the mean inside each; groups without values do not count.
pub fn mean_of_means(groups: &[Vec<f64>]) -> Option<f64> {
    mean(&groups.iter().filter_map(|group| mean(group)).collect::<Vec<_>>())
}

/// One resampled [`mean_of_means`]: groups are drawn with replacement, then values inside each.
pub fn resampled_mean(groups: &[Vec<f64>], rng: &mut impl Rng) -> Option<f64> {
    let usable: Vec<&Vec<f64>> = groups.iter().filter(|group| !group.is_empty()).collect();
    if usable.is_empty() {
        return None;
    }
    let mut drawn = Vec::new();
    let total: f64 = (0..usable.len())
        .map(|_| {
            resample(usable[below(usable.len(), rng)], &mut drawn, rng);
            drawn.iter().sum::<f64>() / drawn.len() as f64
        })
        .sum();
    Some(total / usable.len() as f64)
}

fn quotient(over: f64, under: f64) -> Option<f64> {
    let ratio = over / under;
    ratio.is_finite().then_some(ratio)
}

fn percentile(value: f64, mut draw: impl FnMut() -> Option<f64>) -> Option<Estimate> {
    let mut drawn: Vec<f64> = (0..RESAMPLES).filter_map(|_| draw()).filter(|value| !value.is_nan()).collect();
    drawn.sort_by(f64::total_cmp);
    Some(Estimate { value, low: quantile_of_sorted(&drawn, 0.025)?, high: quantile_of_sorted(&drawn, 0.975)? })
}

fn resample(sample: &[f64], drawn: &mut Vec<f64>, rng: &mut impl Rng) {
    drawn.clear();
    drawn.extend((0..sample.len()).map(|_| sample[below(sample.len(), rng)]));
}

/// A uniform number below `bound` (Lemire 2019; the bias for these small bounds is below 2^-50).
pub(crate) fn below(bound: usize, rng: &mut impl Rng) -> usize {
    ((u128::from(rng.next_u64()) * bound as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::median;
    use crate::tests::{close, generator};

    /// Law school data of Efron and Tibshirani (1993), table 3.1: mean LSAT scores of 15 schools.
    const LSAT: [f64; 15] =
        [576.0, 635.0, 558.0, 578.0, 666.0, 580.0, 555.0, 661.0, 651.0, 605.0, 653.0, 575.0, 545.0, 572.0, 594.0];

    #[test]
    fn the_interval_of_a_mean_has_the_normal_width() {
        let estimate = bootstrap(&LSAT, mean, &mut generator()).unwrap();
        close(estimate.value, 600.266_666_666_666_7, 1e-9);
        // The exact standard error of the bootstrap mean is sd * sqrt((n-1)/n) / sqrt(n) = 10.427.
        close(estimate.low, 600.27 - 1.96 * 10.427, 2.0);
        close(estimate.high, 600.27 + 1.96 * 10.427, 2.0);
    }

    #[test]
    fn the_same_generator_gives_the_same_interval() {
        let draw = || bootstrap(&LSAT, median, &mut generator()).unwrap();
        assert_eq!(draw(), draw());
        assert!(draw().contains(580.0));
    }

    #[test]
    fn groups_widen_the_interval_when_they_differ() {
        let groups = vec![vec![9.9, 10.0, 10.1], vec![11.9, 12.0, 12.1], vec![13.9, 14.0, 14.1]];
        let flat = vec![groups.concat()];
        let two_levels = hierarchical_mean(&groups, &mut generator()).unwrap();
        let one_level = hierarchical_mean(&flat, &mut generator()).unwrap();
        close(two_levels.value, 12.0, 1e-12);
        assert!(two_levels.high - two_levels.low > 1.3 * (one_level.high - one_level.low));
    }

    #[test]
    fn ratios_need_a_reference() {
        assert_eq!(ratio_of_means(&[1.0], &[0.0], &mut generator()), None);
        assert_eq!(ratio_of_means(&[], &[1.0], &mut generator()), None);
        let ratio = ratio_of_means(&[8.0, 8.2, 7.8], &[10.0, 10.1, 9.9], &mut generator()).unwrap();
        close(ratio.value, 0.8, 1e-12);
        assert!(ratio.low > 0.77 && ratio.high < 0.83);
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        let mut rng = generator();
        let normal = |rng: &mut rand_pcg::Pcg64| (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>();
        let covered = (0..300)
            .filter(|_| {
                let sample: Vec<f64> = (0..25).map(|_| normal(&mut rng)).collect();
                bootstrap(&sample, mean, &mut rng).unwrap().contains(6.0)
            })
            .count();
        // 95 % nominal; the percentile method at n = 25 reaches about 93 %.
        assert!((262..=298).contains(&covered), "{covered} of 300");
    }
}
