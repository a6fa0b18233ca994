//! Seek time by distance.

use serde::{Deserialize, Serialize};

/// A seek curve. Distances are fractions of the full stroke (0..=1); a seek within the track takes no time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "curve", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SeekCurve {
    /// The form of Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994: the arm accelerates
    /// over short distances (base + factor * sqrt(cylinders)) and coasts over long ones (base + slope * cylinders).
    TwoPhase {
        /// Cylinders of the full stroke.
        cylinders: f64,
        short_base_ms: f64,
        /// Milliseconds per square root of a cylinder.
        short_root_ms: f64,
        /// Longest distance of the short phase, cylinders.
        cutoff_cylinders: f64,
        long_base_ms: f64,
        /// Milliseconds per cylinder.
        long_slope_ms: f64,
    },
    /// Measured or published points (fraction of the full stroke, milliseconds), ascending; between them the time is linear
    /// in the square root of the distance.
    Points {
        /// At least two points.
        points: Vec<(f64, f64)>,
    },
}

impl SeekCurve {
    /// Milliseconds for a distance above zero.
    pub fn ms(&self, fraction: f64) -> f64 {
        match self {
            Self::TwoPhase {
                cylinders,
                short_base_ms,
                short_root_ms,
                cutoff_cylinders,
                long_base_ms,
                long_slope_ms,
            } => {
                let distance = (fraction * cylinders).max(1.0);
                if distance <= *cutoff_cylinders {
                    short_base_ms + short_root_ms * distance.sqrt()
                } else {
                    long_base_ms + long_slope_ms * distance
                }
            }
            Self::Points { points } => between(points, fraction),
        }
    }

    /// Returns a lower bound in milliseconds for this and any longer distance.
    pub(crate) fn minimum_ms(&self, fraction: f64) -> f64 {
        let here = self.ms(fraction);
        match self {
            // The published phases do not meet exactly: the second may begin below the end of the first.
            Self::TwoPhase { cylinders, cutoff_cylinders, long_base_ms, long_slope_ms, .. } => {
                here.min(long_base_ms + long_slope_ms * cutoff_cylinders.max(fraction * cylinders))
            }
            Self::Points { points } => {
                let farther = points.iter().filter(|point| point.0 >= fraction);
                farther.fold(here, |least, point| least.min(point.1))
            }
        }
    }

    /// Returns the error in the curve, if any.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let finite = |value: f64| value.is_finite() && value >= 0.0;
        match self {
            Self::TwoPhase {
                cylinders,
                short_base_ms,
                short_root_ms,
                cutoff_cylinders,
                long_base_ms,
                long_slope_ms,
            } => {
                let values = [short_base_ms, short_root_ms, cutoff_cylinders, long_base_ms, long_slope_ms];
                (!values.into_iter().all(|value| finite(*value)) || !finite(*cylinders) || *cylinders < 1.0)
                    .then_some("the seek curve needs numbers of 0 or above, and at least one cylinder")
            }
            Self::Points { points } => {
                let ascending = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
                let sound = points.iter().all(|point| finite(point.0) && finite(point.1) && point.0 <= 1.0);
                (points.len() < 2 || !ascending || !sound)
                    .then_some("the seek curve needs at least two points with ascending distances within 0..=1")
            }
        }
    }
}

fn between(points: &[(f64, f64)], fraction: f64) -> f64 {
    let above = points.partition_point(|point| point.0 < fraction);
    match (above.checked_sub(1).and_then(|below| points.get(below)), points.get(above)) {
        (Some(low), Some(high)) => {
            let share = (fraction.sqrt() - low.0.sqrt()) / (high.0.sqrt() - low.0.sqrt());
            low.1 + share * (high.1 - low.1)
        }
        (Some(end), None) | (None, Some(end)) => end.1,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_joined_by_the_root_of_the_distance() {
        let curve = SeekCurve::Points { points: vec![(0.0, 1.0), (0.25, 2.0), (1.0, 10.0)] };
        assert_eq!(curve.problem(), None);
        assert_eq!(curve.ms(0.25), 2.0);
        assert_eq!(curve.ms(0.0625), 1.5);
        assert_eq!(curve.ms(1.0), 10.0);
        assert!(SeekCurve::Points { points: vec![(0.5, 1.0), (0.5, 2.0)] }.problem().is_some());
    }

    #[test]
    fn bound_holds_for_longer_seeks_on_a_falling_curve() {
        let falls = SeekCurve::Points { points: vec![(0.0, 1.0), (0.25, 3.0), (1.0, 2.0)] };
        let drops = SeekCurve::TwoPhase {
            cylinders: 1000.0,
            short_base_ms: 1.0,
            short_root_ms: 1.0,
            cutoff_cylinders: 100.0,
            long_base_ms: 5.0,
            long_slope_ms: 0.01,
        };
        for curve in [falls, drops] {
            let fractions: Vec<f64> = (1..=1000).map(|part| f64::from(part) / 1000.0).collect();
            for (number, fraction) in fractions.iter().enumerate() {
                let farther = fractions[number..].iter().map(|fraction| curve.ms(*fraction));
                assert!(farther.fold(f64::INFINITY, f64::min) >= curve.minimum_ms(*fraction), "{curve:?} {fraction}");
            }
        }
    }

    #[test]
    fn the_published_curve_of_the_hp_97560_joins_its_phases() {
        let crate::Parameters::Hdd(hdd) = crate::DeviceModel::builtin("hp-97560").unwrap().parameters else {
            panic!("a disk drive")
        };
        let at = |cylinders: f64| hdd.seek.ms(cylinders / 1962.0);
        assert!((at(1.0) - 3.64).abs() < 1e-9);
        assert!((at(383.0) - 11.068).abs() < 1e-3);
        assert!((at(1961.0) - 23.688).abs() < 1e-3);
        assert!((at(384.0) - at(383.0)).abs() < 0.05);
    }
}
