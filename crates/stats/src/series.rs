//! Values in order of measurement: steady state, drift, outliers. They are flagged, never dropped.

use crate::correlation::{Correlation, spearman};
use crate::describe::{mean, median};

/// Returns the slope per step of the least-squares line.
pub(crate) fn slope(values: &[f64]) -> f64 {
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

/// Returns the rank correlation of values with their order, if the values drift. A drift is significant at 1 %, and its
/// fitted line changes by more than `noise` (a fraction) of the mean over the series. `None`: no drift, or fewer than
/// five values.
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

    #[test]
    fn drift_needs_significance_and_size() {
        let rising: Vec<f64> = (0..12).map(|k| 100.0 + f64::from(k)).collect();
        assert!(drift(&rising, 0.02).is_some());
        assert!(drift(&rising, 0.2).is_none());
        assert!(drift(&[100.0, 112.0, 99.0, 111.0, 100.0, 112.0], 0.02).is_none());
    }

    #[test]
    fn outlier_is_flagged() {
        assert_eq!(outliers(&[10.0, 10.2, 9.9, 10.1, 14.0, 10.0]), [4]);
        assert_eq!(outliers(&[10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 30.0]), [6]);
        assert!(outliers(&[1.0, 100.0]).is_empty());
        assert!(outliers(&[5.0; 9]).is_empty());
    }
}
