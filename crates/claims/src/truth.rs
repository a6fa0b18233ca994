//! Compares an interval with a bound: yes, no or open.

use crate::contrast::{Cause, Interval, LEAST_VALUES, MissingInterval};
use crate::holds::ConditionScope;
use crate::selection::Condition;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Truth {
    Yes,
    No,
    Open(OpenReason),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenReason {
    /// The same words for all claims with the same obstacle.
    pub reason: String,
    /// The part that differs from claim to claim, such as the bound that an interval crosses.
    pub detail: String,
}

impl<T: Into<String>> From<T> for OpenReason {
    fn from(reason: T) -> Self {
        Self { reason: reason.into(), detail: String::new() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    pub key: Condition,
    pub truth: Truth,
    pub measured: String,
}

impl Truth {
    pub(crate) fn all(truths: impl IntoIterator<Item = Self>) -> Self {
        let mut open = None;
        for truth in truths {
            match truth {
                Self::No => return Self::No,
                Self::Open(why) => open = open.or(Some(why)),
                Self::Yes => {}
            }
        }
        open.map_or(Self::Yes, Self::Open)
    }

    pub(crate) fn any(truths: impl IntoIterator<Item = Self>) -> Self {
        Self::all(truths.into_iter().map(Self::not)).not()
    }

    pub(crate) fn is_decided(&self) -> bool {
        !matches!(self, Self::Open(_))
    }

    pub(crate) fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            open @ Self::Open(_) => open,
        }
    }

    pub(crate) fn within(found: &Interval, (low, high): (f64, f64)) -> Self {
        if found.low >= low && found.high <= high {
            Self::Yes
        } else if found.high < low || found.low > high {
            Self::No
        } else {
            let end = if (found.value - low).abs() < (found.value - high).abs() { low } else { high };
            Self::Open(straddles(found, end))
        }
    }

    pub(crate) fn above(found: &Interval, threshold: f64) -> Self {
        if found.low > threshold {
            Self::Yes
        } else if found.high <= threshold {
            Self::No
        } else {
            Self::Open(straddles(found, threshold))
        }
    }

    pub(crate) fn lacking(lack: MissingInterval) -> Self {
        Self::Open(match lack.cause {
            Cause::TooFew(_) => format!("the noise is unknown: at least {LEAST_VALUES} repetitions are needed").into(),
            Cause::NotPositive => "a ratio needs values above zero; measure for a longer time".into(),
        })
    }
}

/// Explains why an interval that contains a bound does not decide, and how many repetitions would. Widths shrink with
/// the square root of that number.
fn straddles(found: &Interval, bound: f64) -> OpenReason {
    let near = number_of_repetitions(found, bound);
    let takes = near.map_or("too close for any number of repetitions".into(), |count| {
        format!("it would take about {count} independent values")
    });
    OpenReason {
        reason: "the interval crosses a bound of the rule".into(),
        detail: format!("the interval crosses {}; {takes}", crate::text::number(bound)),
    }
}

fn number_of_repetitions(found: &Interval, bound: f64) -> Option<u64> {
    let reach = if bound > found.value { found.high - found.value } else { found.value - found.low };
    let needed = found.units as f64 * (reach / (bound - found.value)).powi(2);
    (needed.is_finite() && needed < 1e4).then(|| (needed.ceil() as u64).max(found.units as u64 + 1))
}

/// Combines the cases of a claim; `None` if there are too few.
pub(crate) fn combine(cases: &[Case], holds: &ConditionScope) -> Option<Truth> {
    let truths = || cases.iter().map(|case| case.truth.clone());
    if cases.is_empty() {
        return None;
    }
    Some(match holds {
        ConditionScope::Every => Truth::all(truths()),
        ConditionScope::Any => Truth::any(truths()),
        ConditionScope::Share { over, .. } => return share(cases, over, holds),
    })
}

/// Systems of which a share can be stated.
const LEAST_SYSTEMS: usize = 3;

fn share(cases: &[Case], over: &str, holds: &ConditionScope) -> Option<Truth> {
    let mut systems: std::collections::BTreeMap<&str, Vec<Truth>> = std::collections::BTreeMap::new();
    for case in cases {
        systems.entry(case.key.get(over)?).or_default().push(case.truth.clone());
    }
    if systems.len() < LEAST_SYSTEMS {
        return Some(Truth::Open(format!("a share takes at least {LEAST_SYSTEMS} systems").into()));
    }
    let all: Vec<Truth> = systems.into_values().map(Truth::all).collect();
    let count = |wanted: fn(&Truth) -> bool| all.iter().filter(|truth| wanted(truth)).count();
    let least = count(|truth| *truth == Truth::Yes);
    let most = all.len() - count(|truth| *truth == Truth::No);
    let mut possible = (least..=most).map(|count| holds.admits(count, all.len()));
    Some(match (possible.clone().all(|one| one), possible.any(|one| one)) {
        (true, _) => Truth::Yes,
        (_, false) => Truth::No,
        _ => Truth::any(all.into_iter().filter(|truth| matches!(truth, Truth::Open(_)))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(value: f64, low: f64, high: f64) -> Interval {
        Interval { value, low, high, units: 4 }
    }

    fn open() -> Truth {
        Truth::Open("few".into())
    }

    #[test]
    fn intervals_decide_only_when_entirely_on_one_side() {
        assert_eq!(Truth::within(&found(2.0, 1.9, 2.1), (1.0, 3.0)), Truth::Yes);
        assert_eq!(
            Truth::within(&found(1.51, 1.4, 1.6), (15.0, 60.0)),
            Truth::No,
            "1.51 times does not confirm 30 times"
        );
        assert!(matches!(Truth::within(&found(2.0, 0.5, 2.1), (1.0, 3.0)), Truth::Open(_)));
        assert_eq!(Truth::above(&found(1.0, 1.0, 1.0), 1.0), Truth::No, "equal is not larger");
        // Half the distance takes four times the number of values.
        assert_eq!(number_of_repetitions(&found(2.0, 0.0, 4.0), 1.0), Some(16));
    }

    #[test]
    fn share_is_undecided_if_an_undecided_system_decides_it() {
        let case =
            |fs: &str, truth| Case { key: Condition::from([("fs".into(), fs.into())]), truth, measured: String::new() };
        let half = |truths: [Truth; 4]| {
            let cases: Vec<Case> = ["a", "b", "c", "d"].iter().zip(truths).map(|(fs, truth)| case(fs, truth)).collect();
            share(&cases, "fs", &half_of_them())
        };
        assert_eq!(half([Truth::Yes, Truth::Yes, Truth::No, Truth::No]), Some(Truth::Yes));
        assert_eq!(half([Truth::Yes, Truth::No, Truth::No, Truth::No]), Some(Truth::No));
        assert_eq!(half([Truth::Yes, open(), Truth::No, Truth::No]), Some(open()));
        assert_eq!(half([open(), Truth::No, Truth::No, Truth::No]), Some(Truth::No));
        let two = [case("a", Truth::Yes), case("b", Truth::No)];
        assert!(matches!(share(&two, "fs", &half_of_them()), Some(Truth::Open(_))), "two systems are not a share");
    }

    fn half_of_them() -> ConditionScope {
        ConditionScope::Share { over: "fs".into(), at_least: 0.4, at_most: 0.6 }
    }

    #[test]
    fn share_of_an_odd_number_of_systems_is_the_nearest_possible_one() {
        let counts =
            |total: usize| (0..=total).filter(|count| half_of_them().admits(*count, total)).collect::<Vec<_>>();
        assert_eq!([3, 4, 5, 6].map(counts), [vec![1, 2], vec![2], vec![2, 3], vec![3]]);
    }

    #[test]
    fn one_no_decides_all_and_one_yes_decides_any() {
        assert_eq!(Truth::all([Truth::Yes, open(), Truth::No]), Truth::No);
        assert_eq!(Truth::all([Truth::Yes, open()]), open());
        assert_eq!(Truth::any([Truth::No, open(), Truth::Yes]), Truth::Yes);
        assert_eq!(Truth::any([Truth::No, Truth::No]), Truth::No);
    }
}
