//! Statistics for measurements: pure functions over slices, the same numbers on every machine.
//!
//! Functions return `None` where a statistic does not exist (an empty sample, a single value, a zero reference), so that
//! no caller mistakes a guess for a result. Randomness comes from the generator that the caller passes.

pub mod bootstrap;
pub mod chi_square;
pub mod correlation;
pub mod describe;
pub mod mann_whitney;
pub mod multiple;
pub mod order;
pub mod rank;
pub mod series;
pub mod verdict;

pub use bootstrap::{Estimate, bootstrap, hierarchical_mean, hierarchical_ratio, ratio_of_means};
pub use chi_square::{ChiSquare, chi_square, chi_square_pooled};
pub use correlation::{Correlation, partial, pearson, rmse, spearman};
pub use describe::{Summary, coefficient_of_variation, mean, median, quantile, standard_deviation, summary};
pub use mann_whitney::{MannWhitney, mann_whitney};
pub use multiple::holm;
pub use order::{Flip, rank_flips, rank_order};
pub use series::{drift, outliers, steady_state};
pub use verdict::{Direction, Judgement, Outcome, judge, noise_floor};

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::SeedableRng;

    /// Fails unless two numbers agree within `tolerance`.
    #[track_caller]
    pub fn close(ours: f64, theirs: f64, tolerance: f64) {
        assert!((ours - theirs).abs() <= tolerance, "{ours} is not {theirs} within {tolerance}");
    }

    /// A fixed generator.
    pub fn generator() -> Pcg64 {
        Pcg64::from_seed([7; 32])
    }
}
