//! Medians with distribution-free intervals.

use crate::arm::{LEAST_VALUES, Untestable};
use crate::ratio::{Interval, RESOLUTION};
use statrs::distribution::{Binomial, DiscreteCDF};

/// Computes the median with an interval between order statistics, interpolated to the requested probability
/// (Hettmansperger and Sheather 1986). Few values cannot reach a small `error`: the widest interval is from minimum to
/// maximum, with its actual confidence (0.9375 for five values).
///
/// # Errors
/// [`Untestable`] for fewer than [`LEAST_VALUES`] values, or a value that is not finite.
pub fn median_interval(values: &[f64], error: f64) -> Result<Interval, Untestable> {
    if values.iter().any(|value| !value.is_finite()) {
        return Err(Untestable::NotFinite);
    }
    let count = values.len();
    let few = Untestable::TooFew { have: count, need: LEAST_VALUES };
    if count < LEAST_VALUES {
        return Err(few);
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let value = crate::describe::quantile_of_sorted(&sorted, 0.5).ok_or(few)?;
    let (depth, share, confidence) = depth_of(count, 1.0 - error);
    let between = |outer: usize, inner: usize| (1.0 - share) * sorted[outer] + share * sorted[inner];
    let least = RESOLUTION * value.abs();
    let low = between(depth - 1, depth).min(value - least);
    let high = between(count - depth, count - depth - 1).max(value + least);
    Ok(Interval { value, low, high, confidence })
}

/// A median, with a 95 % interval if there are enough values.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct MedianEstimate {
    /// Median; of an even number of values, the mean of the middle two.
    /// Median.
    pub value: f64,
    /// `None` for fewer than [`LEAST_VALUES`] values.
    pub interval: Option<Interval>,
}

impl MedianEstimate {
    /// Returns both ends for a figure; NaN without an interval.
    pub fn ends(&self) -> (f64, f64) {
        self.interval.map_or((f64::NAN, f64::NAN), |interval| (interval.low, interval.high))
    }
}

/// Computes the median, with an interval if there are enough values; `None` without values.
pub fn middle(values: &[f64]) -> Option<MedianEstimate> {
    Some(MedianEstimate { value: crate::describe::median(values)?, interval: median_interval(values, 0.05).ok() })
}

/// Returns the depth (from 1) of the outer order statistics, interpolation weight towards the next inner ones, and
/// confidence.
fn depth_of(count: usize, wanted: f64) -> (usize, f64, f64) {
    let Ok(heads) = Binomial::new(0.5, count as u64) else { return (1, 0.0, 0.0) };
    let confidence = |depth: usize| 1.0 - 2.0 * heads.cdf(depth as u64 - 1);
    let deepest = (1..=count / 2).rev().find(|depth| confidence(*depth) >= wanted);
    let Some(depth) = deepest else { return (1, 0.0, confidence(1)) };
    if depth == count / 2 {
        return (depth, 0.0, confidence(depth));
    }
    let (outer, inner) = (confidence(depth), confidence(depth + 1));
    let part = (outer - wanted) / (outer - inner);
    let (n, k) = (count as f64, depth as f64);
    (depth, (n - k) * part / (k + (n - 2.0 * k) * part), wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;

    #[test]
    fn few_values_report_their_confidence() {
        let interval = median_interval(&[3.0, 1.0, 5.0, 2.0, 4.0], 0.05).unwrap();
        assert_eq!((interval.value, interval.low, interval.high), (3.0, 1.0, 5.0));
        close(interval.confidence, 0.9375, 1e-12);
        assert_eq!(median_interval(&[1.0; 4], 0.05), Err(Untestable::TooFew { have: 4, need: 5 }));
        assert_eq!(median_interval(&[f64::NAN; 9], 0.05), Err(Untestable::NotFinite));
    }

    #[test]
    fn few_values_have_a_median_and_no_interval() {
        let few = middle(&[2.0, 1.0, 3.0]).unwrap();
        assert!(few.value == 2.0 && few.interval.is_none() && few.ends().0.is_nan());
        assert_eq!(middle(&[3.0, 1.0, 5.0, 2.0, 4.0]).unwrap().ends(), (1.0, 5.0));
        assert_eq!(middle(&[]), None);
    }

    #[test]
    fn interval_ends_lie_between_order_statistics() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let interval = median_interval(&values, 0.05).unwrap();
        // 95.86 % lie between the 6th and 15th, 88.47 % between the 7th and 14th.
        assert!((6.0..7.0).contains(&interval.low) && (14.0..15.0).contains(&interval.high));
        close(interval.low + interval.high, 21.0, 1e-12);
        close(interval.confidence, 0.95, 1e-12);
    }

    #[test]
    fn equal_values_have_a_nonzero_width() {
        let interval = median_interval(&[7.0; 12], 0.05).unwrap();
        assert!(interval.low < 7.0 && interval.high > 7.0);
    }
}
