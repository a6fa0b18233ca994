//! The rules that decide claims. The set is closed, and every rule can have either result.

use crate::selection::Selection;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Condition for a supported claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Rule {
    /// A value lies within bounds.
    Value {
        /// Selected value.
        of: Selection,
        /// Bounds of the value.
        within: Bounds,
    },
    /// One value over another ("times") lies within bounds.
    Ratio {
        /// Numerator.
        of: Selection,
        /// Denominator.
        to: Selection,
        /// Bounds of the quotient.
        within: Bounds,
    },
    /// The change of one value against another, in percent, is within bounds.
    Change {
        /// Value after the change.
        of: Selection,
        /// Value before the change.
        to: Selection,
        /// Bounds of the change in percent.
        within: Bounds,
    },
    /// One quotient over another is within bounds: whether one change is larger than another.
    Interaction {
        /// Value after the change, here.
        of: Selection,
        /// Value before the change, here.
        to: Selection,
        /// Value after the change, there.
        than_of: Selection,
        /// Value before the change, there.
        than_to: Selection,
        /// Bounds of the quotient of both quotients.
        within: Bounds,
    },
    /// Each value is larger than the next.
    Order {
        /// Selections from the largest to the smallest value.
        of: Vec<Selection>,
        /// Minimum factor between neighbours.
        #[serde(default = "one")]
        by: f64,
    },
    /// The trend of a value along a numeric condition.
    Trend {
        /// Selected values.
        of: Selection,
        /// Numeric condition.
        along: String,
        shape: TrendShape,
        /// For rises and falls: minimum factor from end to end. For level: maximum factor between any two points.
        #[serde(default = "one")]
        by: f64,
    },
    /// The larger part of a change happens between two points of a numeric condition.
    Step {
        /// Selected values.
        of: Selection,
        /// Numeric condition.
        along: String,
        /// Point before the step.
        from: f64,
        /// Point after the step.
        to: f64,
        /// Minimum factor of the change (above 1: up, below 1: down).
        by: f64,
        /// Minimum share of the whole change from end to end, in logarithms.
        share: f64,
    },
    /// Pearson's correlation of two metrics over all conditions that both have. If the bounds come from the published value, it
    /// must lie in the interval.
    Correlation {
        /// First metric.
        of: Selection,
        /// Second metric.
        with: Selection,
        /// One correlation for each value of these conditions instead of a single one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        each: Vec<String>,
        /// Bounds of the coefficient.
        within: Bounds,
    },
    /// A value follows a straight line along a numeric condition.
    Linear {
        /// Selected values.
        of: Selection,
        /// Numeric condition.
        along: String,
        /// Whether the line rises or falls.
        shape: TrendShape,
        /// Minimum share of the variance that the line explains.
        explains: f64,
    },
    /// Whether the order of systems differs between two states.
    Rank {
        /// The first state.
        from: Selection,
        /// The second.
        to: Selection,
        /// The condition that names the systems.
        systems: String,
        /// Whether the order must differ; otherwise it must be the same.
        changes: bool,
    },
    /// Every row of the published table is matched within an error.
    Table {
        /// Rows of the table: metric (or `*`), conditions, and `group=NAME`, `fitted=yes|no` of the note.
        rows: Selection,
        /// Conditions of the rows that our runs do not have (such as the host of each row).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ignore: Vec<String>,
        /// Maximum mean of the absolute relative errors.
        mean_error: f64,
        /// Maximum absolute relative error.
        worst_error: f64,
    },
    /// senesce has no measurement that could decide it.
    NotTestable { why: String },
}

fn one() -> f64 {
    1.0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrendShape {
    /// Larger at the end, without a decrease between neighbours.
    Rises,
    /// Smaller at the end, without an increase between neighbours.
    Falls,
    /// No two points differ by more than a factor.
    Level,
    /// The second half is steeper upwards (or less steep downwards) than the first: convex.
    BendsUp,
    /// The second half is less steep upwards (or steeper downwards) than the first: concave.
    BendsDown,
}

/// Inclusive bounds of a number: either end, or a tolerance around the published values.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Bounds {
    /// Lower end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// From the minimum published value divided by this to the maximum multiplied by this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// From the minimum published value minus this to the maximum plus this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plus_minus: Option<f64>,
}

impl Bounds {
    /// Returns both ends, given the published values; `None` if they are missing or contradictory.
    pub fn resolve(&self, published: &[f64]) -> Option<(f64, f64)> {
        let least = published.iter().copied().reduce(f64::min);
        let greatest = published.iter().copied().reduce(f64::max);
        let (low, high) = match (self.factor, self.plus_minus, self.at_least, self.at_most) {
            (Some(factor), None, None, None) if factor >= 1.0 && least? > 0.0 => (least? / factor, greatest? * factor),
            (None, Some(reach), None, None) if reach >= 0.0 => (least? - reach, greatest? + reach),
            (None, None, low, high) if low.is_some() || high.is_some() => {
                (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY))
            }
            _ => return None,
        };
        (low <= high).then_some((low, high))
    }

    /// Returns whether the bounds are a tolerance around published values.
    pub fn of_published(&self) -> bool {
        self.factor.is_some() || self.plus_minus.is_some()
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.factor, self.plus_minus, self.at_least, self.at_most) {
            (Some(factor), ..) => write!(f, "within a factor of {factor} of the published value"),
            (_, Some(reach), ..) => write!(f, "within {reach} of the published value"),
            (_, _, Some(low), Some(high)) => write!(f, "between {low} and {high}"),
            (_, _, Some(low), None) => write!(f, "at least {low}"),
            (_, _, None, Some(high)) => write!(f, "at most {high}"),
            _ => f.write_str("anywhere"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { of, within } => write!(f, "[{of}] is {within}"),
            Self::Ratio { of, to, within } => write!(f, "[{of}] over [{to}] is {within}"),
            Self::Change { of, to, within } => write!(f, "the change of [{of}] against [{to}] in % is {within}"),
            Self::Interaction { of, to, than_of, than_to, within } => {
                write!(f, "([{of}] over [{to}]) over ([{than_of}] over [{than_to}]) is {within}")
            }
            Self::Order { of, by } => {
                let words: Vec<String> = of.iter().map(|one| format!("[{one}]")).collect();
                f.write_str(&words.join(" > "))?;
                if *by > 1.0 { write!(f, ", each by a factor of at least {by}") } else { Ok(()) }
            }
            Self::Trend { of, along, shape, by } => match shape {
                TrendShape::Rises | TrendShape::Falls => {
                    let verb = if *shape == TrendShape::Rises { "rises" } else { "falls" };
                    write!(f, "[{of}] {verb} along {along}, by a factor of at least {by}")
                }
                TrendShape::Level => write!(f, "[{of}] stays within a factor of {by} along {along}"),
                TrendShape::BendsUp => write!(f, "[{of}] bends upwards along {along}"),
                TrendShape::BendsDown => write!(f, "[{of}] bends downwards along {along}"),
            },
            Self::Step { of, along, from, to, by, share } => write!(
                f,
                "[{of}] changes by a factor of at least {by} from {along}={from} to {to}, which is at least {:.0} \
                 % of its whole change",
                share * 100.0
            ),
            Self::Correlation { of, with, each, within } => {
                write!(f, "the correlation of [{of}] with [{with}] is {within}")?;
                if within.of_published() {
                    f.write_str(", which lies in its interval")?;
                }
                if each.is_empty() { Ok(()) } else { write!(f, ", for each {}", each.join(" and ")) }
            }
            Self::Linear { of, along, shape, explains } => write!(
                f,
                "a line that {} along {along} explains at least {:.0} % of the variance of [{of}]",
                if *shape == TrendShape::Falls { "falls" } else { "rises" },
                explains * 100.0
            ),
            Self::Rank { from, to, systems, changes } => {
                let verb = if *changes { "differs" } else { "is the same" };
                write!(f, "the order of {systems} {verb} between [{from}] and [{to}]")
            }
            Self::Table { rows, mean_error, worst_error, .. } => write!(
                f,
                "the published rows [{rows}] are met within {:.1} % on average and {:.1} % at worst",
                mean_error * 100.0,
                worst_error * 100.0
            ),
            Self::NotTestable { why } => write!(f, "not testable: {why}"),
        }
    }
}

impl Rule {
    /// Returns the selections of measurements that decide the rule; empty for tables, which select rows.
    pub fn selections(&self) -> Vec<&Selection> {
        match self {
            Self::Value { of, .. } | Self::Trend { of, .. } | Self::Step { of, .. } | Self::Linear { of, .. } => {
                vec![of]
            }
            Self::Ratio { of, to, .. } | Self::Change { of, to, .. } => vec![of, to],
            Self::Correlation { of, with, .. } => vec![of, with],
            Self::Interaction { of, to, than_of, than_to, .. } => vec![of, to, than_of, than_to],
            Self::Rank { from, to, .. } => vec![from, to],
            Self::Order { of, .. } => of.iter().collect(),
            Self::Table { .. } | Self::NotTestable { .. } => Vec::new(),
        }
    }

    pub(crate) fn bounds(&self) -> Option<&Bounds> {
        match self {
            Self::Value { within, .. }
            | Self::Ratio { within, .. }
            | Self::Change { within, .. }
            | Self::Interaction { within, .. }
            | Self::Correlation { within, .. } => Some(within),
            _ => None,
        }
    }

    /// Returns the same rule with other bounds, if it has any.
    pub fn with_bounds(&self, bounds: Bounds) -> Self {
        let mut rule = self.clone();
        match &mut rule {
            Self::Value { within, .. }
            | Self::Ratio { within, .. }
            | Self::Change { within, .. }
            | Self::Interaction { within, .. }
            | Self::Correlation { within, .. } => *within = bounds,
            _ => {}
        }
        rule
    }

    pub(crate) fn problem(&self, published: &[f64]) -> Option<String> {
        if let Some(bounds) = self.bounds()
            && bounds.resolve(published).is_none()
        {
            return Some("bounds need at-least, at-most, or one of factor and plus-minus with published values".into());
        }
        match self {
            Self::Order { of, .. } if of.len() < 2 => Some("an order needs two selections".into()),
            Self::Order { by, .. } | Self::Trend { by, .. } if *by < 1.0 => Some(
                "'by' must be a factor of at \
                least 1"
                    .into(),
            ),
            Self::Trend { by, shape: TrendShape::Level, .. } if *by <= 1.0 => Some("level needs 'by' above 1".into()),
            Self::Step { by, .. } if *by <= 0.0 || *by == 1.0 => Some("a step needs a factor other than 1".into()),
            Self::Step { share, .. } if !(0.0..=1.0).contains(share) => Some("'share' must be between 0 and 1".into()),
            Self::Linear { explains, .. } if !(0.0..1.0).contains(explains) => {
                Some("'explains' must be between 0 and 1".into())
            }
            Self::Linear { shape, .. } if !matches!(shape, TrendShape::Rises | TrendShape::Falls) => {
                Some("a line rises or falls".into())
            }
            Self::Table { mean_error, worst_error, .. } if !(*mean_error > 0.0 && worst_error >= mean_error) => {
                Some("the mean error must be above 0, and the worst error at least as large".into())
            }
            _ => self
                .selections()
                .iter()
                .any(|selection| selection.metric == "*")
                .then(|| "'*' as a metric is only for rows of tables".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_ends_or_a_tolerance() {
        let bounds = |text: &str| toml::from_str::<Bounds>(text).unwrap();
        assert_eq!(bounds("at-least = 2.0").resolve(&[]), Some((2.0, f64::INFINITY)));
        assert_eq!(bounds("factor = 2.0").resolve(&[10.0, 30.0]), Some((5.0, 60.0)));
        assert_eq!(bounds("plus-minus = 5.0").resolve(&[-22.0, -10.0]), Some((-27.0, -5.0)));
        assert_eq!(bounds("factor = 2.0").resolve(&[]), None);
        assert_eq!(bounds("factor = 2.0").resolve(&[-1.0]), None);
        assert_eq!(bounds("").resolve(&[1.0]), None);
        assert_eq!(bounds("at-least = 2.0\nat-most = 1.0").resolve(&[]), None);
        assert_eq!(bounds("at-least = 2.0\nfactor = 2.0").resolve(&[1.0]), None);
    }
}
