//! One side of a comparison: values by image, reduced to the input of an interval. Values without a ratio are refused by type.

use crate::ratio::Interval;
use crate::student;
use serde::{Deserialize, Serialize};

/// Minimum number of values of an arm. Intervals from fewer are very wide, and their coverage depends strongly on the shape of
/// the noise.
pub const LEAST_VALUES: usize = 5;

/// Reason why a ratio does not exist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Untestable {
    /// Not enough values in an arm.
    #[error("too few: {have} of at least {need}; measure with more repetitions")]
    TooFew {
        /// Available values.
        have: usize,
        /// Minimum number of values.
        /// Minimum.
        need: usize,
    },
    /// A value of zero or below has no ratio and no logarithm.
    #[error("a ratio needs values above zero, but one is {value}")]
    NotPositive {
        /// The first such value.
        value: f64,
    },
    /// NaN or infinity.
    #[error("a value is not a finite number")]
    NotFinite,
    /// A reason known to the caller.
    #[error("{0}")]
    Other(String),
}

/// Type of mean that represents the values of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mean {
    /// For rates, times and their ratios (Fleming and Wallace 1986): independent of the direction of the comparison.
    #[default]
    Geometric,
    /// For additive quantities, such as bytes or total time.
    Arithmetic,
}

/// Source of the random variation, and thus the unit that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Repetitions on one image (or in one run): the result holds for this image only.
    Repetition,
    /// Images, each represented by the mean of its repetitions: the result holds for all images created alike.
    Image,
    /// Runs, each represented by the mean of its values.
    Run,
    /// Rounds in which both sides were measured in sequence.
    Round,
}

impl Unit {
    /// Returns the plural for messages.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Repetition => "repetitions",
            Self::Image => "images",
            Self::Run => "runs",
            Self::Round => "rounds",
        }
    }
}

/// The mean of one side with its spread, on the scale of natural logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Logarithm of the mean.
    pub log_mean: f64,
    /// Variance of one unit around it.
    pub variance: f64,
    /// Units, at least 2.
    pub units: usize,
    /// Images if there are several, otherwise repetitions.
    pub unit: Unit,
}

impl Arm {
    /// Creates the arm of `groups`, one per image, each with its repetitions; ignores empty groups.
    ///
    /// # Errors
    /// [`Untestable`] for fewer than [`LEAST_VALUES`] values in total, or a value that is not finite and above zero.
    pub fn of<G: AsRef<[f64]>>(groups: &[G], mean: Mean) -> Result<Self, Untestable> {
        let groups = || groups.iter().map(AsRef::as_ref).filter(|group| !group.is_empty());
        groups().flatten().try_for_each(|value| positive(*value))?;
        let have = groups().map(<[f64]>::len).sum();
        if have < LEAST_VALUES {
            return Err(Untestable::TooFew { have, need: LEAST_VALUES });
        }
        let scaled = |value: &f64| if mean == Mean::Geometric { value.ln() } else { *value };
        let mut images = groups();
        let (units, unit): (Vec<f64>, Unit) = match (images.next(), images.next()) {
            (Some(single), None) => (single.iter().map(scaled).collect(), Unit::Repetition),
            _ => (
                groups().map(|group| group.iter().map(scaled).sum::<f64>() / group.len() as f64).collect(),
                Unit::Image,
            ),
        };
        Self::of_units(&units, unit, mean)
    }

    /// Creates the arm of repetitions on one image.
    ///
    /// # Errors
    /// As [`Arm::of`].
    pub fn single(values: &[f64], mean: Mean) -> Result<Self, Untestable> {
        Self::of(&[values], mean)
    }

    fn of_units(units: &[f64], unit: Unit, mean: Mean) -> Result<Self, Untestable> {
        let centre = crate::mean(units).ok_or(Untestable::NotFinite)?;
        let deviation = crate::standard_deviation(units).ok_or(Untestable::NotFinite)?;
        let (log_mean, variance) = match mean {
            Mean::Geometric => (centre, deviation * deviation),
            // The delta method: the variance of a logarithm is the squared coefficient of variation.
            Mean::Arithmetic => (centre.ln(), (deviation / centre).powi(2)),
        };
        if !(log_mean + variance).is_finite() {
            return Err(Untestable::NotFinite);
        }
        Ok(Self { log_mean, variance, units: units.len(), unit })
    }

    /// Returns the mean with an interval that is wrong with probability `error` (Student's t on logarithms). Its
    /// half-width is at least [`crate::ratio::RESOLUTION`].
    pub fn interval(&self, error: f64) -> Interval {
        let reach =
            student::quantile(error / 2.0, self.units as f64 - 1.0) * (self.variance / self.units as f64).sqrt();
        Interval::around(self.log_mean, reach.max(crate::ratio::RESOLUTION), error)
    }
}

/// Refuses values without a logarithm.
pub(crate) fn positive(value: f64) -> Result<(), Untestable> {
    match value {
        value if !value.is_finite() => Err(Untestable::NotFinite),
        value if value <= 0.0 => Err(Untestable::NotPositive { value }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;

    const FIVE: [f64; 5] = [98.0, 103.0, 101.0, 97.0, 100.0];

    #[test]
    fn invalid_values_are_refused_by_type() {
        let refused = |values: &[f64]| Arm::single(values, Mean::Geometric).unwrap_err();
        assert_eq!(refused(&FIVE[..3]), Untestable::TooFew { have: 3, need: 5 });
        assert_eq!(refused(&[]), Untestable::TooFew { have: 0, need: 5 });
        assert_eq!(refused(&[1.0, 2.0, 0.0]), Untestable::NotPositive { value: 0.0 });
        assert_eq!(refused(&[1.0, f64::NAN]), Untestable::NotFinite);
        assert_eq!(refused(&[1.0, f64::INFINITY]), Untestable::NotFinite);
        assert_eq!(Arm::single(&[f64::MAX; 5], Mean::Arithmetic), Err(Untestable::NotFinite));
        assert_eq!(refused(&[1.0]).to_string(), "too few: 1 of at least 5; measure with more repetitions");
    }

    #[test]
    fn several_images_are_the_units() {
        let arm = Arm::of(&[vec![9.0, 11.0], vec![], vec![12.0, 12.0], vec![8.0]], Mean::Arithmetic).unwrap();
        assert_eq!((arm.units, arm.unit), (3, Unit::Image));
        close(arm.log_mean, 10f64.ln(), 1e-12);
        close(arm.variance, 0.04, 1e-12);
        assert_eq!(Arm::single(&FIVE, Mean::Geometric).unwrap().unit, Unit::Repetition);
    }

    #[test]
    fn interval_of_a_mean_matches_student() {
        // scipy 1.17: exp(stats.t.interval(0.95, 4, mean(log(x)), sem(log(x))))
        let interval = Arm::single(&FIVE, Mean::Geometric).unwrap().interval(0.05);
        close(interval.low, MEAN_INTERVAL[0], 1e-9);
        close(interval.high, MEAN_INTERVAL[1], 1e-9);
        let flat = Arm::single(&[7.0; 5], Mean::Geometric).unwrap().interval(0.05);
        assert!(flat.low < 7.0 && flat.high > 7.0);
    }

    const MEAN_INTERVAL: [f64; 2] = [96.86040562223668, 102.78181439609394];
}
