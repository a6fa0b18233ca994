//! The Mann-Whitney U test (Mann and Whitney 1947), two-sided.

use crate::rank::{ranks, tie_term};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// Up to this product of sample sizes the distribution of U is counted exactly, also with ties.
const EXACT_UP_TO: usize = 400;

/// Result of the test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MannWhitney {
    /// U of the first sample: pairs in which its value is greater, ties counting half.
    pub u: f64,
    /// Two-sided p.
    pub p: f64,
    /// Whether p was counted exactly; else the normal approximation with corrections for ties and continuity.
    pub exact: bool,
    /// Share of pairs in which the first sample's value is greater, ties counting half.
    pub superiority: f64,
}

/// Compares two samples; `None` if one is empty or holds a value that is not a number.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<MannWhitney> {
    if first.is_empty() || second.is_empty() || first.iter().chain(second).any(|value| value.is_nan()) {
        return None;
    }
    let (n1, n2) = (first.len() as f64, second.len() as f64);
    let both: Vec<f64> = first.iter().chain(second).copied().collect();
    let all_ranks = ranks(&both);
    let rank_sum: f64 = all_ranks[..first.len()].iter().sum();
    let u = rank_sum - n1 * (n1 + 1.0) / 2.0;
    let exact = first.len() * second.len() <= EXACT_UP_TO;
    let p = if exact { exact_p(&all_ranks, first.len()) } else { normal_p(u, n1, n2, tie_term(&both)) };
    Some(MannWhitney { u, p, exact, superiority: u / (n1 * n2) })
}

/// The least p that samples of these sizes can reach: both orders of perfect separation, 2 / C(n1 + n2, n1).
pub fn least_p(n1: usize, n2: usize) -> f64 {
    let ways = (1..=n1).fold(1.0, |ways, k| ways * (n2 + k) as f64 / k as f64);
    (2.0 / ways).min(1.0)
}

/// Counts the subsets of `size` ranks by their sum, as the permutation distribution given the ties. Ranks are doubled, so
/// that shared ranks are whole.
fn exact_p(all_ranks: &[f64], size: usize) -> f64 {
    let doubled: Vec<usize> = all_ranks.iter().map(|rank| (2.0 * rank).round() as usize).collect();
    let most: usize = doubled.iter().sum();
    let mut ways = vec![vec![0.0f64; most + 1]; size + 1];
    ways[0][0] = 1.0;
    for (seen, &rank) in doubled.iter().enumerate() {
        for taken in (1..=size.min(seen + 1)).rev() {
            for sum in (rank..=most).rev() {
                ways[taken][sum] += ways[taken - 1][sum - rank];
            }
        }
    }
    let observed: usize = doubled[..size].iter().sum();
    let total: f64 = ways[size].iter().sum();
    let at_most: f64 = ways[size][..=observed].iter().sum();
    let at_least: f64 = ways[size][observed..].iter().sum();
    (2.0 * at_most.min(at_least) / total).min(1.0)
}

fn normal_p(u: f64, n1: f64, n2: f64, ties: f64) -> f64 {
    let n = n1 + n2;
    let variance = n1 * n2 / 12.0 * ((n + 1.0) - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - n1 * n2 / 2.0).abs() - 0.5).max(0.0);
    (2.0 * Normal::standard().sf(distance / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::close;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_scipy_is_met() {
        // scipy.stats.mannwhitneyu: ages of diabetes onset, U1 = 17, p = 0.1111 exact.
        let result = mann_whitney(&[19.0, 22.0, 16.0, 29.0, 24.0], &[20.0, 11.0, 17.0, 12.0]).unwrap();
        assert_eq!((result.u, result.exact), (17.0, true));
        close(result.p, 0.111_111_111_111_111_1, 1e-12);
    }

    #[test]
    fn many_values_use_the_normal_distribution_with_ties() {
        let first: Vec<f64> = (0..30).map(|k| f64::from((k * 7) % 13)).collect();
        let second: Vec<f64> = (0..25).map(|k| f64::from((k * 5) % 11 + 2)).collect();
        let result = mann_whitney(&first, &second).unwrap();
        assert!(!result.exact);
        close(result.u, MANY_U, 1e-9);
        close(result.p, MANY_P, 1e-9);
    }

    // scipy 1.10: mannwhitneyu(first, second, method='asymptotic').
    const MANY_U: f64 = 302.5;
    const MANY_P: f64 = 0.22214747580147365;

    #[test]
    fn ties_are_counted_exactly_too() {
        // Enumeration of all 252 and 126 assignments (scipy 1.10, permutation_test over the rank sum).
        let result = mann_whitney(&[1.0, 2.0, 2.0, 3.0, 5.0], &[2.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
        close(result.p, TIED_P[0], 1e-12);
        let result = mann_whitney(&[1.0, 1.0, 1.0, 2.0], &[1.0, 2.0, 2.0, 2.0, 3.0]).unwrap();
        close(result.p, TIED_P[1], 1e-12);
    }

    const TIED_P: [f64; 2] = [0.1111111111111111, 0.2698412698412698];

    #[test]
    fn perfect_separation_reaches_the_least_p() {
        for (n1, n2, p) in [(3, 3, 0.1), (4, 4, 2.0 / 70.0), (5, 3, 2.0 / 56.0)] {
            let low: Vec<f64> = (0..n1).map(f64::from).collect();
            let high: Vec<f64> = (0..n2).map(|k| f64::from(k) + 100.0).collect();
            close(mann_whitney(&low, &high).unwrap().p, p, 1e-12);
            close(least_p(n1 as usize, n2 as usize), p, 1e-12);
        }
    }

    #[test]
    fn equal_values_do_not_differ() {
        assert_eq!(mann_whitney(&[5.0; 6], &[5.0; 7]).unwrap().p, 1.0);
        assert_eq!(mann_whitney(&[5.0; 30], &[5.0; 30]).unwrap().p, 1.0);
        assert_eq!(mann_whitney(&[], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn sides_mirror_each_other(a in prop::collection::vec(0i8..9, 1..9), b in prop::collection::vec(0i8..9, 1..9)) {
            let (a, b): (Vec<f64>, Vec<f64>) = (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
            let (one, other) = (mann_whitney(&a, &b).unwrap(), mann_whitney(&b, &a).unwrap());
            prop_assert!((one.p - other.p).abs() < 1e-9 && one.p > 0.0 && one.p <= 1.0);
            prop_assert!((one.u + other.u - (a.len() * b.len()) as f64).abs() < 1e-9);
        }

        #[test]
        fn the_exact_p_is_near_the_normal_one(a in prop::collection::vec(0f64..1.0, 16..20), b in prop::collection::vec(0f64..1.0, 16..20)) {
            let exact = mann_whitney(&a, &b).unwrap();
            let (n1, n2) = (a.len() as f64, b.len() as f64);
            prop_assert!((exact.p - normal_p(exact.u, n1, n2, 0.0)).abs() < 0.02);
        }
    }
}
