//! Intervals of weighted sums of means: a mean, a difference, a ratio (of logarithms), a bend.

use crate::sample::Sample;
pub use senesce_stats::arm::LEAST_VALUES;
use senesce_stats::ratio::RESOLUTION;
use senesce_stats::student::quantile;
use senesce_stats::{mean, standard_deviation};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// Independent values of the smallest sample with a random error; 0 without one.
    pub units: usize,
}

/// The reason why an interval is missing, with the estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MissingInterval {
    pub cause: Cause,
    pub value: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    TooFew(usize),
    /// A ratio of values that are not positive.
    NotPositive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// Of logarithms: the interval of the product of powers.
    Ratio,
}

/// Computes the interval of the sum of weighted means at level 1 - `alpha`. Standard errors are added in quadrature,
/// with degrees of freedom after Welch (1947) and Satterthwaite (1946). If one of several samples is tiny, the degrees
/// of freedom are those of the smallest sample (Mickey and Brown 1966, as for ratios). Terms without random error add
/// none; otherwise the half-width is at least [`RESOLUTION`] of the terms.
///
/// Terms with a random error may all be measured in the same rounds. Then the sum is formed within each round, and the
/// interval is that of its mean over the rounds (Student 1908). Background load on a whole round is then not an error of the sum.
pub(crate) fn contrast(terms: &[(f64, &Sample)], scale: Scale, alpha: f64) -> Result<Interval, MissingInterval> {
    interval(terms, scale, alpha).map_err(|cause| MissingInterval { cause, value: estimate(terms, scale) })
}

/// Returns the weighted sum of the means without an interval.
fn estimate(terms: &[(f64, &Sample)], scale: Scale) -> Option<f64> {
    let sum: f64 = match scale {
        Scale::Linear => terms.iter().map(|(weight, sample)| weight * sample.mean()).sum(),
        Scale::Ratio => terms.iter().map(|(weight, sample)| weight * sample.mean().ln()).sum::<f64>().exp(),
    };
    sum.is_finite().then_some(sum)
}

fn interval(terms: &[(f64, &Sample)], scale: Scale, alpha: f64) -> Result<Interval, Cause> {
    match summed_by_round(terms, scale)? {
        Some(sum) => {
            contrast_of_samples(&[(1.0, &sum.sample)], Scale::Linear, alpha).map(|found| sum.stated(found, scale))
        }
        None => contrast_of_samples(terms, scale, alpha),
    }
}

struct RoundSum {
    sample: Sample,
    /// Half-width for equal rounds: [`RESOLUTION`] of the largest term.
    resolution: f64,
}

impl RoundSum {
    fn stated(&self, found: Interval, scale: Scale) -> Interval {
        let reach = (found.high - found.value).max(self.resolution);
        let back = |value: f64| if scale == Scale::Ratio { value.exp() } else { value };
        Interval {
            value: back(found.value),
            low: back(found.value - reach),
            high: back(found.value + reach),
            units: found.units,
        }
    }
}

/// Sums the terms within rounds; `None` if fewer than two terms have rounds, or a term with a random error has none.
fn summed_by_round(terms: &[(f64, &Sample)], scale: Scale) -> Result<Option<RoundSum>, Cause> {
    let noisy: Vec<&(f64, &Sample)> = terms.iter().filter(|(_, sample)| !sample.exact).collect();
    if noisy.len() < 2 || noisy.iter().any(|(_, sample)| sample.rounds.is_empty()) {
        return Ok(None);
    }
    let scaled = |value: f64| match scale {
        Scale::Linear => Ok(value),
        Scale::Ratio if value <= 0.0 => Err(Cause::NotPositive),
        Scale::Ratio => Ok(value.ln()),
    };
    let shared = |round: &&u32| noisy.iter().all(|(_, sample)| sample.rounds.contains(round));
    let rounds: Vec<u32> = noisy[0].1.rounds.iter().filter(shared).copied().collect();
    let mut units = Vec::with_capacity(rounds.len());
    for round in &rounds {
        let mut sum = 0.0;
        for (weight, sample) in terms {
            let place = sample.rounds.iter().position(|one| one == round).filter(|_| !sample.exact);
            sum += weight * scaled(place.map_or_else(|| sample.mean(), |place| sample.units[place]))?;
        }
        units.push(sum);
    }
    let size = |(weight, sample): &&(f64, &Sample)| match scale {
        Scale::Linear => (weight * sample.mean()).abs(),
        Scale::Ratio => weight.abs(),
    };
    let resolution = noisy.iter().map(size).fold(0.0, f64::max) * RESOLUTION;
    Ok(Some(RoundSum {
        sample: Sample { values: units.len(), units, exact: false, rounds, images: Vec::new() },
        resolution,
    }))
}

fn contrast_of_samples(terms: &[(f64, &Sample)], scale: Scale, alpha: f64) -> Result<Interval, Cause> {
    let (mut value, mut variance, mut freedom, mut smallest) = (0.0, 0.0, 0.0, usize::MAX);
    let mut largest = 0;
    let mut resolution = 0.0f64;
    for (weight, sample) in terms {
        let units: Vec<f64> = match scale {
            Scale::Linear => sample.units.clone(),
            Scale::Ratio if sample.units.iter().any(|value| *value <= 0.0) => return Err(Cause::NotPositive),
            Scale::Ratio => sample.units.iter().map(|value| value.ln()).collect(),
        };
        let count = units.len();
        let centre = mean(&units).ok_or(Cause::TooFew(0))?;
        value += weight * centre;
        if sample.exact {
            continue;
        }
        if sample.values < LEAST_VALUES {
            return Err(Cause::TooFew(sample.values));
        }
        let deviation = standard_deviation(&units).ok_or(Cause::TooFew(count))?;
        let part = (weight * deviation).powi(2) / count as f64;
        variance += part;
        freedom += part.powi(2) / (count - 1) as f64;
        (smallest, largest) = (smallest.min(count), largest.max(count));
        let size = if scale == Scale::Ratio { *weight } else { weight * centre };
        resolution = resolution.max(size.abs() * RESOLUTION);
    }
    let freedom = match smallest < LEAST_VALUES && smallest != largest {
        true => (smallest - 1) as f64,
        false => variance.powi(2) / freedom,
    };
    let spread = if variance > 0.0 { quantile(alpha / 2.0, freedom) * variance.sqrt() } else { 0.0 };
    let reach = spread.max(resolution);
    let back = |value: f64| if scale == Scale::Ratio { value.exp() } else { value };
    let units = if smallest == usize::MAX { 0 } else { smallest };
    Ok(Interval { value: back(value), low: back(value - reach), high: back(value + reach), units })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(units: &[f64]) -> Sample {
        Sample { units: units.to_vec(), values: units.len(), exact: false, rounds: Vec::new(), images: Vec::new() }
    }

    fn lack(terms: &[(f64, &Sample)], scale: Scale) -> MissingInterval {
        contrast(terms, scale, 0.05).unwrap_err()
    }

    #[test]
    fn difference_matches_welchs_interval() {
        // Both from scipy's ttest_ind(..., equal_var=False) and its confidence_interval().
        let (a, b) = (noisy(&[4.0, 5.0, 6.0, 5.5, 4.5]), noisy(&[1.0, 2.0, 3.5, 2.5, 3.0, 1.5]));
        let found = contrast(&[(1.0, &a), (-1.0, &b)], Scale::Linear, 0.05).unwrap();
        assert!((found.value - 2.75).abs() < 1e-12);
        assert!((found.low - LOW).abs() < 1e-6, "{}", found.low);
        assert_eq!(found.units, 5);
    }

    const LOW: f64 = 1.572523678;

    #[test]
    fn tiny_sample_next_to_a_larger_one_keeps_its_degrees_of_freedom() {
        let images = |units: &[f64]| Sample { values: 3 * units.len(), ..noisy(units) };
        let (a, b) = (images(&[4.0, 5.0]), images(&[1.0, 2.0, 3.5, 2.5, 2.0, 2.6, 1.9, 2.1]));
        let found = contrast(&[(1.0, &a), (-1.0, &b)], Scale::Linear, 0.05).unwrap();
        let error = (0.5f64 / 2.0 + variance(&b.units) / 8.0).sqrt();
        // Student's quantile with one degree of freedom at 97.5 %.
        assert!((found.high - found.value - 12.706_204_736 * error).abs() < 1e-6, "{found:?}");
    }

    fn variance(values: &[f64]) -> f64 {
        standard_deviation(values).unwrap().powi(2)
    }

    #[test]
    fn ratio_is_multiplicative_and_needs_positive_values() {
        let (a, b) = (noisy(&[20.0, 22.0, 18.0, 21.0, 19.0]), noisy(&[10.0, 11.0, 9.0, 10.5, 9.5]));
        let ratio = contrast(&[(1.0, &a), (-1.0, &b)], Scale::Ratio, 0.05).unwrap();
        assert!((ratio.value - 2.0).abs() < 1e-9);
        assert!((ratio.low * ratio.high - 4.0).abs() < 1e-9, "symmetric as a factor");
        assert_eq!(lack(&[(1.0, &noisy(&[0.0, 1.0, 2.0]))], Scale::Ratio).cause, Cause::NotPositive);
    }

    #[test]
    fn load_on_a_whole_round_is_not_an_error_of_a_ratio_within_rounds() {
        let quiet = [10.0, 10.1, 9.9, 10.0, 10.2];
        let load = [1.0, 3.0, 0.5, 2.0, 1.5];
        let of = |factor: f64, rounds: bool| {
            let units = quiet.iter().zip(load).map(|(one, load)| one * load * factor).collect::<Vec<_>>();
            Sample { rounds: if rounds { (0..5).collect() } else { Vec::new() }, ..noisy(&units) }
        };
        let ratio = |rounds| {
            let (a, b) = (of(1.2, rounds), of(1.0, rounds));
            contrast(&[(1.0, &a), (-1.0, &b)], Scale::Ratio, 0.05).unwrap()
        };
        let (within, apart) = (ratio(true), ratio(false));
        assert!((within.value - 1.2).abs() < 1e-9 && (apart.value - 1.2).abs() < 1e-9);
        assert!(within.low > 1.19 && apart.low < 1.0, "{within:?} {apart:?}");
        assert_eq!(within.units, 5);
        // Rounds of only one sample are not pairs.
        let (mut a, b) = (of(1.2, true), of(1.0, true));
        a.rounds = vec![0, 1, 2, 8, 9];
        assert_eq!(lack(&[(1.0, &a), (-1.0, &b)], Scale::Ratio).cause, Cause::TooFew(3));
    }

    #[test]
    fn interval_depends_on_number_and_exactness_of_values() {
        assert_eq!(
            lack(&[(1.0, &noisy(&[1.0, 2.0]))], Scale::Linear),
            MissingInterval { cause: Cause::TooFew(2), value: Some(1.5) }
        );
        let equal = contrast(&[(1.0, &noisy(&[2.0; 5]))], Scale::Linear, 0.05).unwrap();
        assert_eq!((equal.low, equal.high), (1.998, 2.002));
        let exact = Sample { exact: true, ..noisy(&[7.0]) };
        let found = contrast(&[(1.0, &exact)], Scale::Linear, 0.05).unwrap();
        assert_eq!((found.low, found.high, found.units), (7.0, 7.0, 0));
    }
}
