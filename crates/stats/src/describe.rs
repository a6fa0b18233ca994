//! Location and spread of one sample.

/// Returns the mean over groups (images) of the mean of each group; ignores empty groups.
pub fn mean_of_means(groups: &[Vec<f64>]) -> Option<f64> {
    mean(&groups.iter().filter_map(|group| mean(group)).collect::<Vec<_>>())
}

/// Returns the arithmetic mean; `None` for an empty sample.
pub fn mean(sample: &[f64]) -> Option<f64> {
    if sample.is_empty() {
        return None;
    }
    // Two passes: the correction term cancels the rounding of the first.
    let first = sample.iter().sum::<f64>() / sample.len() as f64;
    let correction = sample.iter().map(|value| value - first).sum::<f64>() / sample.len() as f64;
    Some(if correction.is_finite() { first + correction } else { first })
}

/// Computes the quantile `share` in 0..=1 by linear interpolation between order statistics; `None` for an empty sample.
/// It is type 7 of Hyndman and Fan (1996), the default of NumPy and R.
pub(crate) fn quantile(sample: &[f64], share: f64) -> Option<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, share)
}

/// Computes the [`quantile`] of ascending values.
pub(crate) fn quantile_of_sorted(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (place - below as f64) * (sorted[above] - sorted[below]))
}

/// Returns the median; `None` for an empty sample.
pub fn median(sample: &[f64]) -> Option<f64> {
    quantile(sample, 0.5)
}

/// Returns the sample standard deviation (divisor n - 1); `None` for fewer than two values.
pub fn standard_deviation(sample: &[f64]) -> Option<f64> {
    if sample.len() < 2 {
        return None;
    }
    let centre = mean(sample)?;
    let squares: f64 = sample.iter().map(|value| (value - centre).powi(2)).sum();
    Some((squares / (sample.len() - 1) as f64).sqrt())
}

/// Returns the standard deviation over |mean|, as a fraction; `None` for fewer than two values or a mean of zero.
pub fn coefficient_of_variation(sample: &[f64]) -> Option<f64> {
    let centre = mean(sample)?.abs();
    if centre == 0.0 { None } else { Some(standard_deviation(sample)? / centre) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;

    #[test]
    fn results_match_certified_values_of_nist() {
        // NIST Statistical Reference Datasets, univariate: NumAcc1 and NumAcc2.
        let numacc1 = [10_000_001.0, 10_000_003.0, 10_000_002.0];
        close(mean(&numacc1).unwrap(), 10_000_002.0, 0.0);
        close(standard_deviation(&numacc1).unwrap(), 1.0, 1e-15);
        let mut numacc2 = vec![1.2];
        (0..500).for_each(|_| numacc2.extend([1.1, 1.3]));
        close(mean(&numacc2).unwrap(), 1.2, 1e-15);
        close(standard_deviation(&numacc2).unwrap(), 0.1, 1e-14);
    }

    #[test]
    fn quantiles_interpolate() {
        let sample = [7.0, 15.0, 36.0, 39.0, 40.0, 41.0];
        close(quantile(&sample, 0.25).unwrap(), 20.25, 1e-12);
        close(median(&sample).unwrap(), 37.5, 1e-12);
        close(quantile(&sample, 0.75).unwrap(), 39.75, 1e-12);
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn groups_have_equal_weight_and_empty_ones_are_ignored() {
        assert_eq!(mean_of_means(&[vec![1.0], vec![], vec![4.0, 6.0]]), Some(3.0));
        assert_eq!(mean_of_means(&[vec![]]), None);
    }

    #[test]
    fn spread_needs_two_values_and_a_mean() {
        assert_eq!(standard_deviation(&[3.0]), None);
        assert_eq!(coefficient_of_variation(&[-1.0, 1.0]), None);
        close(coefficient_of_variation(&[9.0, 10.0, 11.0]).unwrap(), 0.1, 1e-15);
    }
}
