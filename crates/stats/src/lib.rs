//! Statistics for measurements: pure functions over slices, with identical results on every machine.
//!
//! Functions return `None` if a statistic does not exist (an empty sample, a single value, a zero reference), and comparisons
//! return [`Untestable`] with the reason. The caller passes the random generator.
//!
//! Values by image become an [`Arm`], and two arms a [`Ratio`] (or rounds, [`Ratio::paired`]). Ratios that are decided together
//! become [`Decision`]s ([`decide_all`]), and a [`gate()`] uses the same intervals. [`Sequential`] does this while values arrive,
//! [`pairwise()`] for several treatments.

#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod arm;
pub mod change_points;
mod correlation;
pub mod decimals;
mod describe;
pub mod equivalence;
pub mod floor;
pub mod gate;
mod letters;
pub mod median;
pub mod pairwise;
mod power;
mod rank;
pub mod ratio;
pub mod recorded;
pub mod sequential;
pub mod series;
pub mod steady;
pub mod student;
pub mod trend;
pub mod verdict;

pub use arm::{Arm, Mean, Unit, Untestable};
pub use change_points::{ChangePoint, change_points};
pub use correlation::{Correlation, partial, pearson, spearman};
pub use describe::{coefficient_of_variation, mean, mean_of_means, median, standard_deviation};
pub use floor::Floor;
pub use gate::{Gate, gate, gate_all};
pub use median::{MedianEstimate, median_interval, middle};
pub use pairwise::{Class, OrderChange, Pair, Pairwise, flip, grouped, pairs_of, pairwise};
pub use ratio::{Interval, Ratio};
pub use recorded::decide_recorded;
pub use sequential::{Goal, Sequential, Step};
pub use series::{drift, outliers};
pub use trend::{Trend, trend};
pub use verdict::{Decision, Direction, Rule, Verdict, decide, decide_all};

#[cfg(test)]
mod tests {
    /// Fails unless two numbers agree within `tolerance`.
    #[track_caller]
    pub(crate) fn close(ours: f64, theirs: f64, tolerance: f64) {
        assert!((ours - theirs).abs() <= tolerance, "{ours} is not {theirs} within {tolerance}");
    }
}
