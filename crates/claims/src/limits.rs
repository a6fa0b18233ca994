//! Finds contradicting conditions in the text of an archived finding, which may lack their number.

use crate::claim::{Claim, ClaimSet};
use crate::contrast::Interval;
use crate::holds::ConditionScope;
use crate::rule::Rule;
use crate::truth::Truth;
use senesce_core::MeasuredList;

/// Bounds of a rule, for values of which only the text is known. The text has three digits, so a value that is outside by less
/// is not found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    within: Option<(f64, f64)>,
    /// Factor between neighbours of an order.
    above: Option<f64>,
    /// Whether one contradicting condition is enough.
    every: bool,
}

impl Limits {
    pub fn of(claim: &Claim, set: &ClaimSet) -> Self {
        if claim.holds.has_maximum() {
            return Self::default();
        }
        Self {
            within: claim.rule.bounds().and_then(|bounds| bounds.resolve(&claim.published.numbers(&set.rows))),
            above: if let Rule::Order { by, .. } = &claim.rule { Some(*by) } else { None },
            every: claim.holds == ConditionScope::Every,
        }
    }

    /// Returns the measured values of a contradicted claim with the contradicting ones first, and the number of those.
    pub fn contradicting_first(&self, measured: &str) -> (String, usize) {
        let MeasuredList { values, omitted } = MeasuredList::parse(measured);
        let (first, others): (Vec<&str>, Vec<&str>) = values.into_iter().partition(|value| self.is_contradicted(value));
        // A single value decides the claim. Of shortened lists, the first value contradicts it.
        let implied = self.every && first.is_empty() && (omitted > 0 || others.len() == 1);
        let count = if implied { 1 } else { first.len() };
        (MeasuredList { values: [first, others].concat(), omitted }.to_string(), count)
    }

    fn is_contradicted(&self, value: &str) -> bool {
        let Some(found) = interval(value) else { return false };
        let is_outside = self.within.is_some_and(|bounds| Truth::within(&found, bounds) == Truth::No);
        is_outside || self.above.is_some_and(|by| Truth::above(&found, by) == Truth::No)
    }
}

/// Reads `fs=xfs: 2 times (1 to 4, n 5)` or an exact value; `None` for an estimate without an interval.
fn interval(text: &str) -> Option<Interval> {
    let text = text.rsplit_once(": ").map_or(text, |(_, value)| value);
    let (value, ends) = text.split_once(" (").map_or((text, None), |(value, ends)| (value, Some(ends)));
    let value = value.split(' ').next()?.parse().ok()?;
    let Some(ends) = ends else { return Some(Interval { value, low: value, high: value, units: 0 }) };
    let (ends, units) = ends.split_once(", n ")?;
    let (low, high) = ends.split_once(" to ")?;
    let units = units.split_once(')')?.0.parse().ok()?;
    Some(Interval { value, low: low.parse().ok()?, high: high.parse().ok()?, units })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(rule: &str) -> Limits {
        let text = format!(
            "[[claim]]\nid = \"a\"\nsentence = \"It is so.\"\nsource = {{ work = \"conway2017\", place = \"Figure 1\" }}\n\
             published = {{ values = [2.0] }}\n{rule}\n"
        );
        let set = ClaimSet::parse(&text, "").unwrap();
        Limits::of(&set.claims[0], &set)
    }

    #[test]
    fn texts_of_intervals_are_read_back() {
        let found = Interval { value: -0.394, low: -0.441, high: -0.344, units: 5 };
        let text = format!("drive=sum:1:2: {}", crate::text::interval(&found, "times"));
        assert_eq!(interval(&text), Some(found));
        assert_eq!(interval("a=b: 14.3 %").unwrap().low, 14.3);
        assert_eq!(interval("fs=ext4: 2 times (one value)"), None);
        assert_eq!(interval("constant"), None);
    }

    #[test]
    fn values_outside_of_the_bounds_come_first() {
        let limits = limits("rule = { value = { of = \"r\", within = { factor = 2.0 } } }");
        let measured = "fs=a: 2 (1.5 to 3, n 5); fs=b: 9 (3 to 12, n 5); fs=c: 7 (6 to 8, n 5); fs=d: 5 (one value)";
        let (text, count) = limits.contradicting_first(measured);
        assert_eq!((text.starts_with("fs=c: 7 (6 to 8, n 5); fs=a"), count), (true, 1), "{text}");
        assert_eq!(limits.contradicting_first("9 (3 to 12, n 5)").1, 1, "the only value");
        assert_eq!(limits.contradicting_first("fs=b: 1; fs=c: 2; and 7 more").1, 1, "the first of a shortened list");
        assert_eq!(limits.contradicting_first("fs=b: 1; fs=c: 2"), ("fs=b: 1; fs=c: 2".into(), 0));
    }

    #[test]
    fn equal_neighbours_contradict_an_order() {
        let limits = limits("rule = { order = { of = [\"r\", \"s\"] } }");
        assert_eq!(
            limits.contradicting_first("fs=a: 2 times; fs=b: 1 times"),
            ("fs=b: 1 times; fs=a: 2 times".into(), 1)
        );
    }
}
