//! When a series of rates is steady.

/// Number of intervals that must agree for a steady state.
pub const STEADY_INTERVALS: usize = 5;

/// Returns whether the last [`STEADY_INTERVALS`] rates are steady. Their range is at most 20 % of their mean, and the
/// change along the fitted line at most 10 % of it. See SNIA Solid State Storage Performance Test Specification,
/// "steady state".
pub fn is_steady(rates: &[f64]) -> bool {
    let Some(window) = rates.len().checked_sub(STEADY_INTERVALS).map(|start| &rates[start..]) else { return false };
    let count = window.len() as f64;
    let mean = window.iter().sum::<f64>() / count;
    let (least, greatest) = window.iter().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
    let middle = (count - 1.0) / 2.0;
    let slope = window.iter().enumerate().map(|(x, y)| (x as f64 - middle) * (y - mean)).sum::<f64>()
        / (0..window.len()).map(|x| (x as f64 - middle).powi(2)).sum::<f64>();
    mean > 0.0 && greatest - least <= 0.2 * mean && (slope * (count - 1.0)).abs() <= 0.1 * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_state_has_a_narrow_range_and_no_slope() {
        assert!(is_steady(&[5.0, 100.0, 101.0, 99.0, 100.0, 100.0]));
        assert!(!is_steady(&[100.0; 4]), "too few");
        assert!(!is_steady(&[100.0, 100.0, 130.0, 100.0, 100.0]), "a peak");
        assert!(!is_steady(&[92.0, 96.0, 100.0, 104.0, 108.0]), "a slope");
        assert!(!is_steady(&[0.0; 5]), "nothing happens");
    }
}
