//! The rules that decide claims. A closed set; every one can come out either way.

use crate::selection::Selection;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What must be so for a claim to be seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Rule {
    /// A value lies within bounds.
    Value {
        /// Which value.
        of: Selection,
        /// Where it must lie.
        within: Bounds,
    },
    /// One value over another ("times") lies within bounds.
    Ratio {
        /// Above the line.
        of: Selection,
        /// Below it.
        to: Selection,
        /// Where the quotient must lie.
        within: Bounds,
    },
    /// The change of one value against another, in percent, lies within bounds.
    Change {
        /// After.
        of: Selection,
        /// Before.
        to: Selection,
        /// Where the change must lie, in percent.
        within: Bounds,
    },
    /// One quotient over another lies within bounds: whether a change is greater here than there.
    Interaction {
        /// After, here.
        of: Selection,
        /// Before, here.
        to: Selection,
        /// After, there.
        than_of: Selection,
        /// Before, there.
        than_to: Selection,
        /// Where the quotient of the quotients must lie.
        within: Bounds,
    },
    /// Each value is greater than the next.
    Order {
        /// From the greatest to the smallest.
        of: Vec<Selection>,
        /// How many times greater at least.
        #[serde(default = "one")]
        by: f64,
    },
    /// How a value goes along a numeric condition.
    Trend {
        /// Which values.
        of: Selection,
        /// Along which condition.
        along: String,
        /// How it goes.
        shape: Shape,
        /// Rises and falls: from end to end by this factor at least. Level: at most this factor between any two points.
        #[serde(default = "one")]
        by: f64,
    },
    /// The greater part of a change happens between two places of a numeric condition.
    Step {
        /// Which values.
        of: Selection,
        /// Along which condition.
        along: String,
        /// Before the step.
        from: f64,
        /// Behind it.
        to: f64,
        /// It changes by this factor at least (above 1: up, below 1: down).
        by: f64,
        /// Its share of the whole change from end to end, as logarithms, at least.
        share: f64,
    },
    /// Pearson's correlation of two metrics over all conditions that both have. The published value, where the bounds
    /// come from it, must lie in the interval.
    Correlation {
        /// One metric.
        of: Selection,
        /// The other.
        with: Selection,
        /// A correlation for each value of these conditions instead of one over all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        each: Vec<String>,
        /// Where the coefficient must lie.
        within: Bounds,
    },
    /// A value follows a straight line along a numeric condition.
    Linear {
        /// Which values.
        of: Selection,
        /// Along which condition.
        along: String,
        /// Whether the line rises or falls.
        shape: Shape,
        /// Share of the variance that the line explains, at least.
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
        /// Whether it must differ (else: be the same).
        changes: bool,
    },
    /// Every row of the published table is met within an error.
    Table {
        /// Rows of the table: metric (or `*`), conditions, and of the note `group=NAME`, `fitted=yes|no`.
        rows: Selection,
        /// Conditions of the rows that runs of ours do not have (the host of each row).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<String>,
        /// Mean of the absolute relative errors, at most.
        mean_error: f64,
        /// The greatest of them, at most.
        worst_error: f64,
    },
    /// No measurement that this program makes could decide it.
    NotTestable {
        /// Why.
        why: String,
    },
}

fn one() -> f64 {
    1.0
}

/// How values go along a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Greater at the end, and nowhere falling on the way.
    Rises,
    /// Smaller at the end, and nowhere rising on the way.
    Falls,
    /// No two points differ by more than a factor.
    Level,
    /// The second half is steeper upwards (or less steep downwards) than the first: convex.
    BendsUp,
    /// The second half is less steep upwards (or steeper downwards) than the first: concave.
    BendsDown,
}

/// Where a number must lie, ends included. Either end, or a tolerance around the published values.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Bounds {
    /// Lower end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// From the least published value divided by this to the greatest multiplied by this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// From the least published value less this to the greatest and this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plus_minus: Option<f64>,
}

impl Bounds {
    /// Both ends, given the published values; `None` where they say nothing or contradict themselves.
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

    /// Whether the bounds are a tolerance around published values.
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

/// For which of the free conditions a rule must hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Holds {
    /// For each that was measured.
    #[default]
    Every,
    /// For one at least.
    Any,
    /// For a share of the systems.
    Share {
        /// The condition that names the systems.
        over: String,
        /// Least share, 0..=1.
        #[serde(default)]
        at_least: f64,
        /// Greatest share, 0..=1.
        #[serde(default = "one")]
        at_most: f64,
    },
}

impl fmt::Display for Holds {
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
                if *by > 1.0 { write!(f, ", each by a factor of {by} at least") } else { Ok(()) }
            }
            Self::Trend { of, along, shape, by } => match shape {
                Shape::Rises | Shape::Falls => {
                    let verb = if *shape == Shape::Rises { "rises" } else { "falls" };
                    write!(f, "[{of}] {verb} along {along}, by a factor of {by} at least")
                }
                Shape::Level => write!(f, "[{of}] stays within a factor of {by} along {along}"),
                Shape::BendsUp => write!(f, "[{of}] bends upwards along {along}"),
                Shape::BendsDown => write!(f, "[{of}] bends downwards along {along}"),
            },
            Self::Step { of, along, from, to, by, share } => write!(
                f,
                "[{of}] changes by a factor of {by} at least from {along}={from} to {to}, which is {:.0} % of its whole change at least",
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
                "a line that {} along {along} explains {:.0} % of the variance of [{of}] at least",
                if *shape == Shape::Falls { "falls" } else { "rises" },
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
    /// The selections of measurements that decide it; none for tables, which name rows.
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

    pub fn bounds(&self) -> Option<&Bounds> {
        match self {
            Self::Value { within, .. }
            | Self::Ratio { within, .. }
            | Self::Change { within, .. }
            | Self::Interaction { within, .. }
            | Self::Correlation { within, .. } => Some(within),
            _ => None,
        }
    }

    pub fn problem(&self, published: &[f64]) -> Option<String> {
        if let Some(bounds) = self.bounds()
            && bounds.resolve(published).is_none()
        {
            return Some("bounds need at-least, at-most, or one of factor and plus-minus with published values".into());
        }
        match self {
            Self::Order { of, .. } if of.len() < 2 => Some("an order needs two selections".into()),
            Self::Order { by, .. } | Self::Trend { by, .. } if *by < 1.0 => Some("'by' is a factor from 1 on".into()),
            Self::Trend { by, shape: Shape::Level, .. } if *by <= 1.0 => Some("level needs 'by' above 1".into()),
            Self::Step { by, .. } if *by <= 0.0 || *by == 1.0 => Some("a step needs a factor other than 1".into()),
            Self::Step { share, .. } if !(0.0..=1.0).contains(share) => Some("'share' lies between 0 and 1".into()),
            Self::Linear { explains, .. } if !(0.0..1.0).contains(explains) => {
                Some("'explains' lies between 0 and 1".into())
            }
            Self::Linear { shape, .. } if !matches!(shape, Shape::Rises | Shape::Falls) => {
                Some("a line rises or falls".into())
            }
            Self::Table { mean_error, worst_error, .. } if !(*mean_error > 0.0 && worst_error >= mean_error) => {
                Some("errors are positive and the worst is not below the mean".into())
            }
            _ => self
                .selections()
                .iter()
                .any(|selection| selection.metric == "*")
                .then(|| "'*' as a metric is for rows of tables".into()),
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
