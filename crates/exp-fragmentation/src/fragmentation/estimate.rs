//! Means over images, with intervals.

use senesce_stats::student::quantile;
use senesce_stats::{mean, standard_deviation};

/// Mean over images with its 95 % interval; the interval of a single image has no width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
    pub images: usize,
}

impl Estimate {
    /// Returns the mean with its 95 % interval; `None` for no values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let (mean, images) = (mean(values)?, values.len());
        let error = standard_deviation(values).unwrap_or(0.0) / (images as f64).sqrt();
        let reach = if images > 1 { quantile(0.025, images as f64 - 1.0) * error } else { 0.0 };
        Some(Self { mean, low: mean - reach, high: mean + reach, images })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_matches_students_t() {
        // scipy.stats.t.interval(0.95, 4, loc=3, scale=scipy.stats.sem([1, 2, 3, 4, 5]))
        let found = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((found.mean, found.images), (3.0, 5));
        assert!((found.low - 1.036_756_838_522_4).abs() < 1e-9 && (found.high - 4.963_243_161_477_6).abs() < 1e-9);
        let one = Estimate::of(&[2.0]).unwrap();
        assert_eq!((one.low, one.high), (2.0, 2.0));
        assert_eq!(Estimate::of(&[]), None);
    }
}
