//! Pearson's chi-square test.

use serde::{Deserialize, Serialize};
use statrs::function::gamma::gamma_ur;

/// Pearson's chi-square test of counts against shares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChiSquare {
    /// Test statistic.
    pub statistic: f64,
    /// Degrees of freedom after pooling.
    pub dof: u64,
    /// Probability of a statistic at least as great when the counts follow the shares; 1 without degrees of freedom.
    pub p: f64,
}

impl ChiSquare {
    /// Pools neighbouring bins until each expects at least 5 (Cochran 1954); the rest at the end joins the last pool.
    pub(crate) fn new(counts: &[u64], shares: &[f64]) -> Self {
        let total: u64 = counts.iter().sum();
        let mut pools: Vec<(f64, f64)> = Vec::new();
        let mut open = (0.0, 0.0);
        for (count, share) in counts.iter().zip(shares) {
            open = (open.0 + *count as f64, open.1 + share * total as f64);
            if open.1 >= 5.0 {
                pools.push(open);
                open = (0.0, 0.0);
            }
        }
        match pools.last_mut() {
            Some(last) => *last = (last.0 + open.0, last.1 + open.1),
            None => pools.push(open),
        }
        let term =
            |(count, expected): &(f64, f64)| if *expected > 0.0 { (count - expected).powi(2) / expected } else { 0.0 };
        Self::of(pools.iter().map(term).sum(), pools.len() as u64 - 1)
    }

    /// Combines independent tests: their statistics and degrees of freedom add up.
    pub(crate) fn combined(tests: &[Self]) -> Self {
        Self::of(tests.iter().map(|test| test.statistic).sum(), tests.iter().map(|test| test.dof).sum())
    }

    fn of(statistic: f64, dof: u64) -> Self {
        // statrs knows the gamma function for positive finite arguments only.
        let p = match statistic {
            _ if dof == 0 || statistic <= 0.0 => 1.0,
            _ if statistic.is_finite() => gamma_ur(dof as f64 / 2.0, statistic / 2.0),
            _ => 0.0,
        };
        Self { statistic, dof, p }
    }
}
