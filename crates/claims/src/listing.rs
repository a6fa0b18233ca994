//! Lists the measured values of a claim: the conditions that decide it come first.

use crate::holds::ConditionScope;
use crate::truth::{Case, Truth};
use senesce_core::MeasuredList;

/// Up to this number, all cases are listed.
const MOST: usize = 8;
/// Of more, this number.
const LISTED: usize = 3;

pub(crate) struct Listing {
    pub text: String,
    /// Number of the first values that contradict the rule. 0 if an agreeing one comes first, or if a share may be too large.
    pub contradicting: usize,
}

impl Listing {
    pub(crate) fn of(cases: &[Case], holds: &ConditionScope) -> Self {
        let mut first: Vec<&Case> = cases.iter().filter(|case| !case.measured.is_empty()).collect();
        let rank = |case: &&Case| match case.truth {
            Truth::No => 0,
            Truth::Open(_) => 1,
            Truth::Yes => 2,
        };
        match holds {
            ConditionScope::Any => first.sort_by_key(|case| std::cmp::Reverse(rank(case))),
            _ => first.sort_by_key(rank),
        }
        let listed = if first.len() > MOST { LISTED } else { MOST };
        let omitted = first.len().saturating_sub(listed);
        first.truncate(listed);
        let against = first.iter().take_while(|case| case.truth == Truth::No && !holds.has_maximum());
        // A case may consist of several values, such as those of a rank.
        let contradicting = against.map(|case| MeasuredList::parse(&case.measured).values.len()).sum();
        let values: Vec<String> = first.into_iter().map(stated).collect();
        let list = MeasuredList { values: values.iter().map(String::as_str).collect(), omitted };
        Self { text: list.to_string(), contradicting }
    }
}

fn stated(case: &Case) -> String {
    match crate::text::condition(&case.key) {
        key if key.is_empty() => case.measured.clone(),
        key => format!("{key}: {}", case.measured),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(number: usize, truth: Truth) -> Case {
        Case { key: Default::default(), truth, measured: number.to_string() }
    }

    fn listed(cases: &[Case], holds: &ConditionScope) -> (String, usize) {
        let Listing { text, contradicting } = Listing::of(cases, holds);
        (text, contradicting)
    }

    #[test]
    fn contradicting_cases_are_listed_first_and_counted() {
        let truth = |number: usize| if number % 8 == 1 { Truth::No } else { Truth::Yes };
        let cases: Vec<Case> = (0..10).map(|number| case(number, truth(number))).collect();
        assert_eq!(listed(&cases, &ConditionScope::Every), ("1; 9; 0; and 7 more".into(), 2));
        assert_eq!(listed(&cases[..3], &ConditionScope::Every), ("1; 0; 2".into(), 1));
        assert_eq!(listed(&cases[2..5], &ConditionScope::Every), ("2; 3; 4".into(), 0));
    }

    #[test]
    fn agreeing_case_comes_first_if_one_is_enough() {
        let cases = [case(0, Truth::No), case(1, Truth::Yes)];
        assert_eq!(listed(&cases, &ConditionScope::Any), ("1; 0".into(), 0));
        assert_eq!(listed(&cases[..1], &ConditionScope::Any), ("0".into(), 1));
        let half = ConditionScope::Share { over: "fs".into(), at_least: 0.4, at_most: 0.6 };
        assert_eq!(listed(&cases, &half), ("0; 1".into(), 0), "it may be the agreeing ones that are too many");
    }
}
