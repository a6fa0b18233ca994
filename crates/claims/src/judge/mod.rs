//! Applies rules to evidence: one case per combination of free conditions.

mod pairs;
mod points;
mod series;
mod table;

use crate::contrast::{Interval, MissingInterval};
use crate::row::Row;
use crate::rule::Rule;
use crate::sample::Evidence;
use crate::selection::Condition;
use crate::truth::{Case, Truth};

/// Level of the intervals of a claim as a whole. It is divided by the number of cases (Bonferroni), so that a claim over many
/// file systems has the same error rate as one over a single one. Each side has half of it: at the bound of a rule, where most
/// decisions are wrong, one record in a hundred is decided wrongly.
const ALPHA: f64 = 0.02;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub evidence: Evidence<'a>,
    pub published: &'a [f64],
    pub rows: &'a [Row],
}

/// Evaluates the cases of a rule; empty if nothing that it needs was measured.
pub(crate) fn cases(rule: &Rule, context: &Context<'_>) -> Vec<Case> {
    match rule {
        Rule::Value { of, within } => points::value(of, within, context),
        Rule::Correlation { of, with, each, within } => points::correlation(of, with, each, within, context),
        Rule::Ratio { of, to, within } => pairs::ratio(of, to, within, pairs::Unit::Times, context),
        Rule::Change { of, to, within } => pairs::ratio(of, to, within, pairs::Unit::Percent, context),
        Rule::Interaction { of, to, than_of, than_to, within } => {
            pairs::interaction((of, to), (than_of, than_to), within, context)
        }
        Rule::Order { of, by } => pairs::order(of, *by, context),
        Rule::Rank { from, to, systems, changes } => pairs::rank(from, to, systems, *changes, context),
        Rule::Trend { of, along, shape, by } => series::trend(of, along, *shape, *by, context),
        Rule::Step { of, along, from, to, by, share } => series::step(of, along, (*from, *to), (*by, *share), context),
        Rule::Linear { of, along, shape, explains } => series::linear(of, along, *shape, *explains, context),
        Rule::Table { rows, ignore, mean_error, worst_error } => {
            table::table(rows, ignore, (*mean_error, *worst_error), context)
        }
        Rule::NotTestable { .. } => Vec::new(),
    }
}

fn case(
    key: Condition,
    found: Result<Interval, MissingInterval>,
    unit: &str,
    decide: impl Fn(&Interval) -> Truth,
) -> Case {
    match found {
        Ok(interval) => Case { key, truth: decide(&interval), measured: crate::text::interval(&interval, unit) },
        Err(lack) => {
            let measured = lack.value.map_or(String::new(), |value| crate::text::estimate(value, &lack, unit));
            Case { key, truth: Truth::lacking(lack), measured }
        }
    }
}

fn level(count: usize) -> f64 {
    ALPHA / count.max(1) as f64
}
