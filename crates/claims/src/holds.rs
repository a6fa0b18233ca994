//! For which conditions a rule must hold.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The free conditions for which a rule must hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum ConditionScope {
    /// All measured ones.
    #[default]
    Every,
    /// At least one.
    Any,
    /// A share of the systems.
    Share {
        /// The condition that names the systems.
        over: String,
        /// Minimum share, 0..=1.
        #[serde(default)]
        at_least: f64,
        /// Maximum share, 0..=1.
        #[serde(default = "all")]
        at_most: f64,
    },
}

impl ConditionScope {
    /// Returns whether a number of systems matches the share. If no number matches exactly, accepts the nearest numbers on
    /// both sides: half of three is one or two.
    pub fn admits(&self, count: usize, total: usize) -> bool {
        let Self::Share { at_least, at_most, .. } = self else { return true };
        let all = total as f64;
        let (low, high) = (at_least * all - 1e-9, at_most * all + 1e-9);
        let (first, last) =
            if low.ceil() <= high.floor() { (low.ceil(), high.floor()) } else { (low.floor(), high.ceil()) };
        (first..=last).contains(&(count as f64))
    }

    /// Returns whether too many agreeing systems contradict a claim. Then no single condition does.
    pub(crate) fn has_maximum(&self) -> bool {
        matches!(self, Self::Share { at_most, .. } if *at_most < 1.0)
    }
}

impl fmt::Display for ConditionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every => f.write_str("everywhere"),
            Self::Any => f.write_str("somewhere"),
            Self::Share { over, at_least, at_most } => {
                write!(f, "for {:.0} to {:.0} % of all {over}", at_least * 100.0, at_most * 100.0)
            }
        }
    }
}

fn all() -> f64 {
    1.0
}
