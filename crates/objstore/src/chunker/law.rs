//! Expected chunk sizes of the rolling sum on random bytes.
//!
//! The sum of `w` uniform bytes is close to Normal(127.5 w, 5461.25 w). A cut needs a multiple of the divisor, so the mean
//! distance of cuts is the inverse of the probability of a multiple. If the divisor is large compared with the deviation, only
//! the multiple nearest to 127.5 w is reachable, which explains the plateaus of the measured surface.

use std::f64::consts::TAU;

/// Returns the mean chunk size in bytes without the first, longer chunk; infinite if no multiple is reachable.
pub(crate) fn mean_without_reset(window: u64, divisor: u64) -> f64 {
    let (centre, variance) = (127.5 * window as f64, 5461.25 * window as f64);
    let reach = 10.0 * variance.sqrt();
    let first = ((centre - reach) / divisor as f64).ceil().max(0.0) as u64;
    let last = ((centre + reach) / divisor as f64).floor() as u64;
    let density = |sum: f64| (-(sum - centre).powi(2) / (2.0 * variance)).exp() / (TAU * variance).sqrt();
    let probability: f64 = (first..=last).map(|multiple| density((multiple * divisor) as f64)).sum();
    if probability > 0.0 { 1.0 / probability } else { f64::INFINITY }
}

/// Returns the expected mean size, in bytes, of a trial of `chunks` chunks. The first chunk cannot end before the
/// window is full, and with the reset no chunk can.
pub fn expected_mean(window: u64, divisor: u64, reset: bool, chunks: u64) -> f64 {
    let waits = if reset { window as f64 } else { window as f64 / chunks as f64 };
    mean_without_reset(window, divisor) + waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_matches_published_values() {
        let published = include_str!("../../data/dmv/rolling_hash.csv");
        let mut errors: Vec<f64> = published
            .lines()
            .filter(|line| line.starts_with("no,"))
            .map(|line| {
                let fields: Vec<f64> = line.split(',').skip(1).map(|field| field.parse().unwrap()).collect();
                (fields[2] / expected_mean(fields[0] as u64, fields[1] as u64, false, 100) - 1.0).abs()
            })
            .collect();
        errors.sort_by(f64::total_cmp);
        assert_eq!(errors.len(), 80);
        assert!(errors[40] < 0.06, "median {}", errors[40]);
        assert!(errors[79] < 0.27, "largest {}", errors[79]);
    }

    #[test]
    fn an_unreachable_multiple_means_no_cut() {
        assert!(mean_without_reset(128, 1 << 17) > 1e15);
    }
}
