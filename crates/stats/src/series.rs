//! Values in order of measurement: steady state, drift, outliers. They are flagged, never dropped.

use crate::correlation::{Correlation, spearman};
use crate::describe::{mean, median};

/// Index of the last round of the first steady window, after the rule of the SNIA Solid State Storage Performance Test
/// Specification 2.0.2 (section 2.1.24): over `window` rounds the values stay within 20 % of their mean, and the fitted line
/// changes by at most 10 % of it. `None` if no window is steady.
pub fn steady_state(rounds: &[f64], window: usize) -> Option<usize> {
    if window < 2 {
        return None;
    }
    rounds.windows(window).position(is_steady).map(|first| first + window - 1)
}

fn is_steady(rounds: &[f64]) -> bool {
    let Some(centre) = mean(rounds).filter(|centre| centre.is_finite() && *centre != 0.0) else { return false };
    let (low, high) = rounds.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    let excursion = slope(rounds).abs() * (rounds.len() - 1) as f64;
    high - low <= 0.2 * centre.abs() && excursion <= 0.1 * centre.abs()
}

/// Slope per step of the least-squares line.
pub fn slope(values: &[f64]) -> f64 {
    let centre_x = (values.len() as f64 - 1.0) / 2.0;
    let centre_y = mean(values).unwrap_or(0.0);
    let (mut xy, mut xx) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let dx = index as f64 - centre_x;
        xy += dx * (value - centre_y);
        xx += dx * dx;
    }
    if xx == 0.0 { 0.0 } else { xy / xx }
}

/// Rank correlation of values with their order, if it is significant at 1 % and the fitted line changes by more than `noise` (a
/// fraction) of the mean over the series. `None`: no drift, or fewer than five values.
pub fn drift(values: &[f64], noise: f64) -> Option<Correlation> {
    if values.len() < 5 {
        return None;
    }
    let order: Vec<f64> = (0..values.len()).map(|index| index as f64).collect();
    let correlation = spearman(&order, values)?;
    let change = slope(values).abs() * (values.len() - 1) as f64 / mean(values)?.abs();
    (correlation.p < 0.01 && change > noise).then_some(correlation)
}

/// Indices of values whose modified z-score exceeds 3.5 (Iglewicz and Hoaglin 1993, from the median absolute deviation, or the
/// mean absolute deviation if that is zero). Empty for fewer than five values.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let Some(centre) = median(values).filter(|_| values.len() >= 5) else { return Vec::new() };
    let distances: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    let scale = match median(&distances) {
        Some(deviation) if deviation > 0.0 => deviation / 0.6745,
        _ => mean(&distances).unwrap_or(0.0) * 1.253_314,
    };
    if scale == 0.0 {
        return Vec::new();
    }
    (0..values.len()).filter(|&index| distances[index] / scale > 3.5).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;

    #[test]
    fn steady_state_is_the_first_flat_window() {
        let rounds = [1000.0, 700.0, 520.0, 430.0, 405.0, 400.0, 398.0, 402.0, 399.0, 401.0];
        assert_eq!(steady_state(&rounds, 5), Some(7));
        assert_eq!(steady_state(&rounds[..6], 5), None);
        assert_eq!(steady_state(&[0.0; 8], 5), None);
    }

    #[test]
    fn a_slow_slide_is_not_steady() {
        let rounds: Vec<f64> = (0..5).map(|k| 100.0 + 4.0 * f64::from(k)).collect();
        assert_eq!(steady_state(&rounds, 5), None);
        close(slope(&rounds), 4.0, 1e-12);
    }

    #[test]
    fn drift_needs_significance_and_size() {
        let rising: Vec<f64> = (0..12).map(|k| 100.0 + f64::from(k)).collect();
        assert!(drift(&rising, 0.02).is_some());
        assert!(drift(&rising, 0.2).is_none());
        assert!(drift(&[100.0, 112.0, 99.0, 111.0, 100.0, 112.0], 0.02).is_none());
    }

    #[test]
    fn a_far_value_is_flagged() {
        assert_eq!(outliers(&[10.0, 10.2, 9.9, 10.1, 14.0, 10.0]), [4]);
        assert_eq!(outliers(&[10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 30.0]), [6]);
        assert!(outliers(&[1.0, 100.0]).is_empty());
        assert!(outliers(&[5.0; 9]).is_empty());
    }
}
