//! Who is first, and whether that changes between two states.

use crate::bootstrap::{RESAMPLES, mean_of_means, resampled_mean};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// One pair of systems in two states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flip {
    /// Index of the first system.
    pub first: usize,
    /// Index of the second system.
    pub second: usize,
    /// Whether the observed order differs between the states.
    pub observed: bool,
    /// Share of bootstrap resamples (over groups and values) in which the order differs.
    pub probability: f64,
}

/// Indices of systems from the largest mean to the smallest; systems without values come last.
pub fn rank_order(systems: &[Vec<Vec<f64>>]) -> Vec<usize> {
    let means: Vec<f64> = systems.iter().map(|groups| mean_of_means(groups).unwrap_or(f64::NEG_INFINITY)).collect();
    let mut order: Vec<usize> = (0..systems.len()).collect();
    order.sort_by(|&a, &b| means[b].total_cmp(&means[a]));
    order
}

/// For every pair of systems with values in both states: whether the order flips, and how sure that is. `before[i]` and
/// `after[i]` are the groups (images) of system `i`, each with its repetitions.
pub fn rank_flips(before: &[Vec<Vec<f64>>], after: &[Vec<Vec<f64>>], rng: &mut impl Rng) -> Vec<Flip> {
    let count = before.len().min(after.len());
    let mut flips = Vec::new();
    for first in 0..count {
        for second in first + 1..count {
            let cells = [&before[first], &before[second], &after[first], &after[second]];
            let means: Option<Vec<f64>> = cells.iter().map(|groups| mean_of_means(groups)).collect();
            let Some(means) = means else { continue };
            let flipped = (0..RESAMPLES).filter(|_| {
                let drawn: Vec<f64> = cells.iter().filter_map(|groups| resampled_mean(groups, rng)).collect();
                differs(&drawn)
            });
            let probability = flipped.count() as f64 / RESAMPLES as f64;
            flips.push(Flip { first, second, observed: differs(&means), probability });
        }
    }
    flips
}

fn differs(means: &[f64]) -> bool {
    (means[0] - means[1]) * (means[2] - means[3]) < 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::generator;

    fn system(centre: f64) -> Vec<Vec<f64>> {
        (0..3)
            .map(|image| (0..4).map(|run| centre + 0.2 * f64::from((image * 5 + run * 3) % 7 - 3)).collect())
            .collect()
    }

    #[test]
    fn a_clear_flip_is_sure_and_a_clear_order_stays() {
        let fresh = [system(100.0), system(90.0), system(50.0)];
        let aged = [system(60.0), system(80.0), system(40.0)];
        let flips = rank_flips(&fresh, &aged, &mut generator());
        assert_eq!(flips.len(), 3);
        assert!(flips[0].observed && flips[0].probability > 0.99);
        assert!(!flips[1].observed && flips[1].probability < 0.01);
        assert_eq!(rank_order(&aged), [1, 0, 2]);
    }

    #[test]
    fn equal_systems_flip_half_of_the_time() {
        let fresh = [system(100.0), system(100.0)];
        let aged = [system(60.0), system(60.0)];
        let flips = rank_flips(&fresh, &aged, &mut generator());
        assert!((0.3..0.7).contains(&flips[0].probability), "{}", flips[0].probability);
    }

    #[test]
    fn a_system_without_values_is_left_out() {
        let fresh = [system(100.0), vec![]];
        assert!(rank_flips(&fresh, &fresh, &mut generator()).is_empty());
        assert_eq!(rank_order(&fresh), [0, 1]);
    }
}
