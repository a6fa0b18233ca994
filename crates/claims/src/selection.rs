//! Selects measurements by a metric and a pattern for each relevant condition.
//!
//! Syntax: `METRIC where KEY=PATTERN, KEY=PATTERN`, for example `throughput where state=aged, fs=ext4|xfs`. A word with a comma
//! or a bar is in single quotes.

use senesce_core::Measurement;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

pub type Condition = BTreeMap<String, String>;

/// A metric and patterns of conditions. Conditions without a pattern are free: a rule holds separately for each of their
/// combinations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Selection {
    /// Name of the metric; `*`: any (only for rows of published tables).
    pub metric: String,
    /// Patterns by condition.
    pub when: BTreeMap<String, Pattern>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// Exactly this word; numbers are compared as numbers.
    Is(String),
    /// One of these words (`a|b`); remains free.
    OneOf(Vec<String>),
    /// Any value, but the condition must exist (`*`); remains free.
    Any,
    /// The minimum measured number (`least`).
    Minimum,
    /// The maximum measured number (`greatest`).
    Maximum,
    /// Numbers from this one (`>=4`); remains free.
    AtLeast(f64),
    /// Numbers up to this one (`<=4`); remains free.
    AtMost(f64),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("selection '{text}': {problem}; expected METRIC where KEY=PATTERN, KEY=PATTERN")]
pub struct SelectionError {
    text: String,
    problem: String,
}

impl FromStr for Selection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, SelectionError> {
        let error = |problem: &str| SelectionError { text: text.into(), problem: problem.into() };
        let (metric, conditions) = text.split_once(" where ").unwrap_or((text, ""));
        if metric.trim().is_empty() {
            return Err(error("the metric is missing"));
        }
        let mut when = BTreeMap::new();
        for pair in parted(conditions).into_iter().map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, pattern) = pair.split_once('=').ok_or_else(|| error("a condition needs KEY=PATTERN"))?;
            // `bs>=4096` is split at the comparison sign.
            let (key, pattern) = match key.strip_suffix(['>', '<']) {
                Some(short) => (short, format!("{}={pattern}", &key[short.len()..])),
                None => (key, pattern.to_string()),
            };
            let pattern = Pattern::read(pattern.trim()).ok_or_else(|| error("a comparison needs a number"))?;
            if when.insert(key.trim().to_string(), pattern).is_some() {
                return Err(error("duplicate condition"));
            }
        }
        Ok(Self { metric: metric.trim().into(), when })
    }
}

senesce_core::text_form!(Selection);

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.metric)?;
        for (index, (key, pattern)) in self.when.iter().enumerate() {
            f.write_str(if index == 0 { " where " } else { ", " })?;
            match pattern {
                Pattern::Is(word) => write!(f, "{key}={}", written(word))?,
                Pattern::OneOf(words) => write!(f, "{key}={}", words.join("|"))?,
                Pattern::Any => write!(f, "{key}=*")?,
                Pattern::Minimum => write!(f, "{key}=minimum")?,
                Pattern::Maximum => write!(f, "{key}=maximum")?,
                Pattern::AtLeast(number) => write!(f, "{key}>={number}")?,
                Pattern::AtMost(number) => write!(f, "{key}<={number}")?,
            }
        }
        Ok(())
    }
}

impl Pattern {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "*" => Self::Any,
            "minimum" => Self::Minimum,
            "maximum" => Self::Maximum,
            _ if text.len() > 1 && text.starts_with('\'') && text.ends_with('\'') => {
                Self::Is(text[1..text.len() - 1].into())
            }
            _ if text.starts_with(">=") => Self::AtLeast(text[2..].trim().parse().ok()?),
            _ if text.starts_with("<=") => Self::AtMost(text[2..].trim().parse().ok()?),
            _ if text.contains('|') => Self::OneOf(text.split('|').map(|word| word.trim().to_string()).collect()),
            _ => Self::Is(text.into()),
        })
    }

    /// Returns whether a single value remains, so that the condition no longer distinguishes cells.
    fn pins(&self) -> bool {
        matches!(self, Self::Is(_) | Self::Minimum | Self::Maximum)
    }

    fn admits(&self, value: &str) -> bool {
        match self {
            Self::Is(word) => same(word, value),
            Self::OneOf(words) => words.iter().any(|word| same(word, value)),
            Self::Any => true,
            Self::Minimum | Self::Maximum => value.parse::<f64>().is_ok_and(f64::is_finite),
            Self::AtLeast(least) => value.parse::<f64>().is_ok_and(|number| number >= *least),
            Self::AtMost(most) => value.parse::<f64>().is_ok_and(|number| number <= *most),
        }
    }
}

fn parted(text: &str) -> Vec<&str> {
    let mut quoted = false;
    let outside = |sign: char| {
        quoted ^= sign == '\'';
        sign == ',' && !quoted
    };
    text.split(outside).collect()
}

fn written(word: &str) -> String {
    if word.contains([',', '|']) { format!("'{word}'") } else { word.into() }
}

fn same(word: &str, value: &str) -> bool {
    word == value || matches!((word.parse::<f64>(), value.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}

impl Selection {
    /// Returns whether metric and conditions match, ignoring extremes.
    pub fn admits(&self, metric: &str, condition: &Condition) -> bool {
        (self.metric == "*" || self.metric == metric)
            && self.when.iter().all(|(key, pattern)| condition.get(key).is_some_and(|value| pattern.admits(value)))
    }

    pub fn of<'a>(&self, measurements: &'a [Measurement]) -> Vec<&'a Measurement> {
        let mut found: Vec<&Measurement> =
            measurements.iter().filter(|one| self.admits(&one.metric, &one.condition)).collect();
        for (key, pattern) in &self.when {
            let numbers = found.iter().filter_map(|one| one.condition[key].parse::<f64>().ok());
            let extreme = match pattern {
                Pattern::Minimum => numbers.reduce(f64::min),
                Pattern::Maximum => numbers.reduce(f64::max),
                _ => continue,
            };
            found.retain(|one| one.condition[key].parse::<f64>().ok() == extreme);
        }
        found
    }

    /// Returns the conditions that still distinguish cells.
    pub(crate) fn free(&self, condition: &Condition) -> Condition {
        let pinned = |key: &String| self.when.get(key).is_some_and(Pattern::pins);
        condition.iter().filter(|(key, _)| !pinned(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Returns one selection per condition, with the same metric.
    pub(crate) fn single_conditions(&self) -> Vec<Self> {
        let one = |(key, pattern): (&String, &Pattern)| Self {
            metric: self.metric.clone(),
            when: BTreeMap::from([(key.clone(), pattern.clone())]),
        };
        self.when.iter().map(one).collect()
    }

    pub(crate) fn missing<'a>(&self, conditions: impl Iterator<Item = &'a Condition> + Clone) -> BTreeSet<String> {
        let mut absent = BTreeSet::new();
        for (key, pattern) in &self.when {
            let Pattern::OneOf(words) = pattern else { continue };
            let there = |word: &str| conditions.clone().any(|one| one.get(key).is_some_and(|value| same(word, value)));
            absent.extend(words.iter().filter(|word| !there(word)).cloned());
        }
        absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Better;

    fn measured(round: &str, fs: &str) -> Measurement {
        Measurement::new("cost", "s/GiB", Better::Lower, 1.0).unwrap().under("round", round).under("fs", fs)
    }

    #[test]
    fn selection_round_trips_through_text() {
        for text in [
            "cost where state='aged, by bins'",
            "cost",
            "cost where fs=ext4|xfs, round=maximum",
            "iops where bs>=4096, path=*, qd<=8",
        ] {
            assert_eq!(text.parse::<Selection>().unwrap().to_string(), text);
        }
        assert!("cost where fs".parse::<Selection>().is_err());
        assert!("cost where fs=a, fs=b".parse::<Selection>().is_err());
        assert!(" where fs=a".parse::<Selection>().is_err());
        assert!("cost where qd>=many".parse::<Selection>().is_err());
    }

    #[test]
    fn extremes_are_taken_from_values_that_match_all_other_conditions() {
        let all = [measured("0", "ext4"), measured("9", "ext4"), measured("10", "ext4"), measured("100", "xfs")];
        let last: Selection = "cost where fs=ext4, round=maximum".parse().unwrap();
        let found = last.of(&all);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].condition["round"], "10", "as numbers, not as words");
        assert!(last.free(&found[0].condition).is_empty());
    }

    #[test]
    fn alternatives_remain_separate_and_absent_ones_are_listed() {
        let both: Selection = "cost where fs=ext4|zfs, round=10.0".parse().unwrap();
        let all = [measured("10", "ext4"), measured("10", "xfs")];
        let found = both.of(&all);
        assert_eq!(found.len(), 1);
        assert_eq!(both.free(&found[0].condition).get("fs").unwrap(), "ext4");
        assert_eq!(both.missing(found.iter().map(|one| &one.condition)), BTreeSet::from(["zfs".to_string()]));
    }
}
