//! Change points of a series: persistent changes of its level.
//!
//! The split with the largest standardised Mann-Whitney statistic is chosen (Pettitt 1979; Hawkins and Deng 2010). Its p is that
//! of a maximum over all splits (the improved Bonferroni bound of Worsley 1982 as used by Lausen, Sauerbrei and Schumacher 1994).
//! Both sides are searched in the same way (binary segmentation, Vostrikova 1981), and every change point is tested again between
//! its neighbours. Because of ranks the rate of false alarms is the same for every distribution of independent noise;
//! autocorrelation increases it.

use crate::describe::median;
use crate::rank::{ranks, tie_term};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};
use std::f64::consts::PI;

/// Maximum probability that a change is found in a series without one.
pub const FALSE_ALARM: f64 = 0.01;

/// Minimum number of values before and after a split.
const LEAST_SEGMENT: usize = 3;

/// Position in a series at which its level changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Index of the first value of the new level.
    pub index: usize,
    /// Probability of such a change in a segment without one.
    pub p: f64,
    /// Median of the segment before.
    pub before: f64,
    /// Median of the segment after.
    pub after: f64,
}

/// Finds the change points of a series in ascending order, each significant at `error` ([`FALSE_ALARM`]). Returns
/// `None` for a value that is not finite.
pub fn change_points(values: &[f64], error: f64) -> Option<Vec<ChangePoint>> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut places = Vec::new();
    let mut open = Vec::from([(0, values.len())]);
    while let Some((start, end)) = open.pop() {
        if let Some((place, _)) = split(&values[start..end]).filter(|(_, p)| *p < error) {
            let place = start + place;
            places.push(place);
            open.extend([(start, place), (place, end)]);
        }
    }
    places.sort_unstable();
    levels(values, &confirmed(values, &places, error))
}

/// Tests every change point again between its neighbours and drops those that are not significant.
fn confirmed(values: &[f64], places: &[usize], error: f64) -> Vec<(usize, f64)> {
    let mut found: Vec<(usize, f64)> = Vec::new();
    for next in 1..=places.len() {
        let start = found.last().map_or(0, |(place, _)| *place);
        let end = places.get(next).copied().unwrap_or(values.len());
        if let Some((place, p)) = split(&values[start..end]).filter(|(_, p)| *p < error) {
            found.push((start + place, p));
        }
    }
    found
}

/// Returns the change points with the levels before and after.
fn levels(values: &[f64], places: &[(usize, f64)]) -> Option<Vec<ChangePoint>> {
    let at = |place: usize| places.get(place).map_or(values.len(), |(index, _)| *index);
    let level = |from: usize, to: usize| median(&values[from..to]);
    let point = |(place, &(index, p)): (usize, &(usize, f64))| {
        let start = if place == 0 { 0 } else { at(place - 1) };
        Some(ChangePoint { index, p, before: level(start, index)?, after: level(index, at(place + 1))? })
    };
    places.iter().enumerate().map(point).collect()
}

/// Finds the best split and the p of its maximum statistic; `None` for short or constant series.
fn split(values: &[f64]) -> Option<(usize, f64)> {
    let count = values.len();
    if count < 2 * LEAST_SEGMENT {
        return None;
    }
    let n = count as f64;
    let scale = (n + 1.0 - tie_term(values) / (n * (n - 1.0))) / 12.0;
    if scale <= 0.0 {
        return None;
    }
    let (mut sum, mut best) = (0.0, (0, 0.0));
    for (index, rank) in ranks(values).into_iter().enumerate().take(count - LEAST_SEGMENT) {
        sum += rank;
        let left = index as f64 + 1.0;
        let distance = (sum - left * (n + 1.0) / 2.0).abs() / (left * (n - left) * scale).sqrt();
        if index + 1 >= LEAST_SEGMENT && distance > best.1 {
            best = (index + 1, distance);
        }
    }
    Some((best.0, p_of_maximum(best.1, count)))
}

/// Returns an upper bound of the probability that the largest of the standardised statistics exceeds `b`.
fn p_of_maximum(b: f64, count: usize) -> f64 {
    let n = count as f64;
    let step = |left: usize| {
        let (left, next) = (left as f64, left as f64 + 1.0);
        let t = (1.0 - left * (n - next) / ((n - left) * next)).sqrt();
        (t - (b * b / 4.0 - 1.0) * t.powi(3) / 6.0) * (-b * b / 2.0).exp() / PI
    };
    let places = LEAST_SEGMENT..count - LEAST_SEGMENT;
    let each = 2.0 * Normal::standard().sf(b);
    let bound = each + places.clone().map(step).map(|term| term.clamp(0.0, each)).sum::<f64>();
    bound.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;

    /// Generates a level with scatter that has no short period.
    fn level(centre: f64, count: usize) -> Vec<f64> {
        (0..count).map(|k| centre * (1.0 + 0.02 * ((k * k * 7 + k * 3) as f64 * 0.618).sin())).collect()
    }

    #[test]
    fn bound_matches_lausen_sauerbrei_and_schumacher() {
        // Page 489, as checked by the R package maxstat: 20 values, splits from 5 to 15, b = 2.5, p = 0.073.
        let n = 20.0;
        let whole: f64 = 2.0 * Normal::standard().sf(2.5) + {
            let step = |left: f64| {
                let t = (1.0 - left * (n - left - 1.0) / ((n - left) * (left + 1.0))).sqrt();
                (t - (2.5f64 * 2.5 / 4.0 - 1.0) * t.powi(3) / 6.0) * (-2.5f64 * 2.5 / 2.0).exp() / PI
            };
            (5..15).map(f64::from).map(step).sum::<f64>()
        };
        close(whole, 0.073, 5e-4);
        assert!(p_of_maximum(2.5, 20) > whole);
    }

    #[test]
    fn steps_are_found_at_their_position() {
        let series = [level(100.0, 30), level(90.0, 25), level(100.0, 20)].concat();
        let found = change_points(&series, FALSE_ALARM).unwrap();
        assert_eq!(found.iter().map(|point| point.index).collect::<Vec<_>>(), [30, 55]);
        assert!((found[0].after / found[0].before - 0.9).abs() < 0.02 && found[1].p < 0.01);
    }

    #[test]
    fn constant_and_short_series_have_no_change() {
        assert_eq!(change_points(&[], FALSE_ALARM), Some(vec![]));
        assert_eq!(change_points(&[5.0; 50], FALSE_ALARM), Some(vec![]));
        assert_eq!(change_points(&level(100.0, 50), FALSE_ALARM), Some(vec![]));
        assert_eq!(change_points(&[1.0, f64::NAN], FALSE_ALARM), None);
        let mut outlier = level(100.0, 40);
        outlier[20] = 900.0;
        assert_eq!(change_points(&outlier, FALSE_ALARM), Some(vec![]));
    }

    #[test]
    fn step_needs_several_values_after_it() {
        let series = |behind| [level(100.0, 30), level(80.0, behind)].concat();
        assert_eq!(change_points(&series(3), FALSE_ALARM).unwrap().len(), 0);
        assert_eq!(change_points(&series(6), FALSE_ALARM).unwrap()[0].index, 30);
    }
}
