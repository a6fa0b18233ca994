//! From numbers to words. A difference counts only if it is significant and larger than the noise of the machine.

use crate::bootstrap::{Estimate, hierarchical_ratio, mean_of_means};
use crate::mann_whitney::{least_p, mann_whitney};
use crate::verdict::Direction;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Level of significance.
pub const ALPHA: f64 = 0.05;

/// The words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Better than the reference.
    Faster,
    /// Worse than the reference.
    Slower,
    /// Not significant, or below the noise floor.
    NoDifference,
    /// Cannot be judged; the reason in words.
    Invalid(String),
}

impl Outcome {
    /// The words of a report.
    pub fn words(&self) -> String {
        match self {
            Self::Faster => "faster".into(),
            Self::Slower => "slower".into(),
            Self::NoDifference => "no difference".into(),
            Self::Invalid(reason) => format!("invalid: {reason}"),
        }
    }
}

/// A comparison with everything that led to its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Ratio to the reference with interval; `None` where it does not exist.
    pub ratio: Option<Estimate>,
    /// Two-sided p of Mann and Whitney over the means of groups where there are enough, else over all values.
    pub p: Option<f64>,
    /// The noise floor used, as a fraction.
    pub noise_floor: f64,
    /// The verdict.
    pub outcome: Outcome,
}

/// Judges `sample` against `reference`, both as groups (images) of repetitions. `noise_floor` is a fraction.
///
/// Values inside one image are not independent. Where both sides have enough images to reach significance, the test runs
/// over the images' means; else over all values, and the interval (which always respects both levels) must exclude 1 too.
pub fn judge(
    sample: &[Vec<f64>],
    reference: &[Vec<f64>],
    direction: Direction,
    noise_floor: f64,
    rng: &mut impl Rng,
) -> Judgement {
    let ratio = hierarchical_ratio(sample, reference, rng);
    let invalid = |reason: &str| Judgement { ratio, p: None, noise_floor, outcome: Outcome::Invalid(reason.into()) };
    let all = |groups: &[Vec<f64>]| groups.concat();
    let (ours, theirs) = (all(sample), all(reference));
    if ours.iter().chain(&theirs).any(|value| !value.is_finite()) {
        return invalid("a value is not a number");
    }
    if ours.len() < 2 || theirs.len() < 2 {
        return invalid("a single value has no spread; repeat the measurement");
    }
    let Some(estimate) = ratio else { return invalid("the reference is zero") };
    if least_p(ours.len(), theirs.len()) >= ALPHA {
        return invalid("too few repetitions to tell a difference from chance; four on each side are the least");
    }
    let (ours, theirs) = tested_values(sample, reference);
    let p = mann_whitney(&ours, &theirs).map(|test| test.p);
    let significant = p.is_some_and(|p| p < ALPHA) && !estimate.contains(1.0);
    let outcome = if !significant || (estimate.value - 1.0).abs() <= noise_floor {
        Outcome::NoDifference
    } else if (estimate.value > 1.0) == (direction == Direction::HigherIsBetter) {
        Outcome::Faster
    } else {
        Outcome::Slower
    };
    Judgement { ratio, p, noise_floor, outcome }
}

fn tested_values(sample: &[Vec<f64>], reference: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let means = |groups: &[Vec<f64>]| -> Vec<f64> { groups.iter().filter_map(|group| crate::mean(group)).collect() };
    let (ours, theirs) = (means(sample), means(reference));
    if least_p(ours.len(), theirs.len()) < ALPHA { (ours, theirs) } else { (sample.concat(), reference.concat()) }
}

/// The noise floor from A/A pairs, each measured twice under identical conditions: the largest relative difference of
/// their means, as a fraction. `None` without a usable pair.
pub fn noise_floor(pairs: &[(Vec<f64>, Vec<f64>)]) -> Option<f64> {
    pairs
        .iter()
        .filter_map(|(first, second)| {
            let (one, other) = (crate::mean(first)?, crate::mean(second)?);
            let difference = (one - other).abs() / ((one + other) / 2.0).abs();
            difference.is_finite().then_some(difference)
        })
        .reduce(f64::max)
}

/// Relative change of one mean against another in words ("-18.2 %"); `n/a` without a reference.
pub fn change_words(sample: &[Vec<f64>], reference: &[Vec<f64>]) -> String {
    match (mean_of_means(sample), mean_of_means(reference)) {
        (Some(ours), Some(theirs)) if theirs != 0.0 => format!("{:+.1} %", (ours / theirs - 1.0) * 100.0),
        _ => "n/a".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{close, generator};

    fn runs(values: &[f64]) -> Vec<Vec<f64>> {
        vec![values.to_vec()]
    }

    fn outcome(sample: &[f64], reference: &[f64], direction: Direction, floor: f64) -> Outcome {
        judge(&runs(sample), &runs(reference), direction, floor, &mut generator()).outcome
    }

    const BASE: [f64; 5] = [100.0, 101.0, 99.0, 100.5, 99.5];
    const LESS: [f64; 5] = [90.0, 91.0, 89.0, 90.5, 89.5];

    #[test]
    fn words_follow_direction_significance_and_noise() {
        assert_eq!(outcome(&LESS, &BASE, Direction::HigherIsBetter, 0.02), Outcome::Slower);
        assert_eq!(outcome(&LESS, &BASE, Direction::LowerIsBetter, 0.02), Outcome::Faster);
        assert_eq!(outcome(&LESS, &BASE, Direction::HigherIsBetter, 0.15), Outcome::NoDifference);
        assert_eq!(outcome(&BASE, &BASE, Direction::HigherIsBetter, 0.0), Outcome::NoDifference);
    }

    #[test]
    fn too_little_is_invalid() {
        let invalid = |sample: &[f64], reference: &[f64]| {
            matches!(outcome(sample, reference, Direction::HigherIsBetter, 0.0), Outcome::Invalid(_))
        };
        assert!(invalid(&[1.0], &BASE));
        assert!(invalid(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]));
        assert!(invalid(&[f64::NAN, 1.0, 1.0, 1.0], &BASE));
        assert!(invalid(&BASE, &[0.0, 0.0, 0.0, 0.0]));
    }

    #[test]
    fn spread_between_images_keeps_a_difference_unproven() {
        let image = |centre: f64| vec![centre, centre + 0.1, centre - 0.1];
        let fresh = vec![image(100.0), image(120.0)];
        let aged = vec![image(99.0), image(101.0)];
        let judgement = judge(&aged, &fresh, Direction::HigherIsBetter, 0.02, &mut generator());
        assert_eq!(judgement.outcome, Outcome::NoDifference);
    }

    #[test]
    fn the_noise_floor_is_the_largest_difference_of_like_with_like() {
        let pairs = [(vec![100.0, 102.0], vec![101.0, 101.0]), (vec![99.0], vec![101.0])];
        close(noise_floor(&pairs).unwrap(), 0.02, 1e-12);
        assert_eq!(noise_floor(&[]), None);
        assert_eq!(change_words(&runs(&LESS), &runs(&BASE)), "-10.0 %");
    }
}
