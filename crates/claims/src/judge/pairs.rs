//! Ratios, changes, orders and ranks: comparisons of cells.

use super::{Context, case, level};
use crate::contrast::{Interval, MissingInterval, Scale, contrast};
use crate::rule::Bounds;
use crate::sample::{Cell, Sample, agree, joined};
use crate::selection::{Condition, Selection};
use crate::truth::{Case, Truth};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Times,
    Percent,
}

pub(crate) fn quotient(of: &Sample, to: &Sample, alpha: f64) -> Result<Interval, MissingInterval> {
    contrast(&[(1.0, of), (-1.0, to)], Scale::Ratio, alpha)
}

pub(crate) fn ratio(of: &Selection, to: &Selection, within: &Bounds, unit: Unit, context: &Context<'_>) -> Vec<Case> {
    let Some(bounds) = within.resolve(context.published) else { return Vec::new() };
    let pairs = context.evidence.pairs(of, to);
    let alpha = level(pairs.len());
    let percent = |ratio: f64| match unit {
        Unit::Times => ratio,
        Unit::Percent => (ratio - 1.0) * 100.0,
    };
    let stated = |found: Interval| Interval {
        value: percent(found.value),
        low: percent(found.low),
        high: percent(found.high),
        ..found
    };
    let estimated = |lack: MissingInterval| MissingInterval { value: lack.value.map(percent), ..lack };
    let word = if unit == Unit::Times { "times" } else { "%" };
    pairs
        .iter()
        .map(|(one, other)| {
            let found = quotient(&one.sample, &other.sample, alpha).map(stated).map_err(estimated);
            case(joined(&one.key, &other.key), found, word, |interval| Truth::within(interval, bounds))
        })
        .collect()
}

/// Returns one case per pair of pairs that agree in every condition that both leave free.
pub(crate) fn interaction(
    (of, to): (&Selection, &Selection),
    (than_of, than_to): (&Selection, &Selection),
    within: &Bounds,
    context: &Context<'_>,
) -> Vec<Case> {
    let Some(bounds) = within.resolve(context.published) else { return Vec::new() };
    let there = context.evidence.pairs(than_of, than_to);
    let mut found: Vec<(Condition, [Cell; 4])> = Vec::new();
    for (after, before) in context.evidence.pairs(of, to) {
        let here = joined(&after.key, &before.key);
        for (than_after, than_before) in &there {
            let key = joined(&than_after.key, &than_before.key);
            let itself = of.metric == than_of.metric && after.condition == than_after.condition;
            if agree(&here, &key) && !itself {
                found.push((joined(&here, &key), [&after, &before, than_after, than_before].map(Cell::clone)));
            }
        }
    }
    let alpha = level(found.len());
    let judged = |(key, [after, before, than_after, than_before]): (Condition, [Cell; 4])| {
        let terms =
            [(1.0, &after.sample), (-1.0, &before.sample), (-1.0, &than_after.sample), (1.0, &than_before.sample)];
        case(key, contrast(&terms, Scale::Ratio, alpha), "times", |interval| Truth::within(interval, bounds))
    };
    found.into_iter().map(judged).collect()
}

/// Returns one case per neighbouring pair; empty if one of the selections was not measured.
pub(crate) fn order(of: &[Selection], by: f64, context: &Context<'_>) -> Vec<Case> {
    let pairs: Vec<Vec<(Cell, Cell)>> = of.windows(2).map(|two| context.evidence.pairs(&two[0], &two[1])).collect();
    if pairs.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let alpha = level(pairs.iter().map(Vec::len).sum());
    pairs
        .iter()
        .flatten()
        .map(|(one, other)| {
            let found = quotient(&one.sample, &other.sample, alpha);
            case(joined(&one.key, &other.key), found, "times", |interval| Truth::above(interval, by))
        })
        .collect()
}

type Quartet = [Cell; 4];

/// Returns one case over all pairs of systems; empty if fewer than two systems were measured in both states.
pub(crate) fn rank(from: &Selection, to: &Selection, systems: &str, changes: bool, context: &Context<'_>) -> Vec<Case> {
    let both = context.evidence.pairs(from, to);
    let mut quartets: Vec<Quartet> = Vec::new();
    for (index, (before, after)) in both.iter().enumerate() {
        for (other_before, other_after) in &both[..index] {
            if rivals(before, other_before, systems) && rivals(after, other_after, systems) {
                quartets.push([before.clone(), other_before.clone(), after.clone(), other_after.clone()]);
            }
        }
    }
    if quartets.is_empty() {
        return Vec::new();
    }
    let alpha = level(quartets.len());
    let flips: Vec<(Truth, String)> = quartets.iter().map(|four| flipped(four, systems, alpha)).collect();
    let truth = Truth::any(flips.iter().map(|(truth, _)| truth.clone()));
    let stated = if truth == Truth::Yes { Truth::Yes } else { Truth::No };
    let words: Vec<&str> = match flips.iter().filter(|(truth, _)| *truth == stated).map(|(_, words)| words.as_str()) {
        found if truth == Truth::Yes => found.collect(),
        _ => flips.iter().map(|(_, words)| words.as_str()).collect(),
    };
    let truth = if changes { truth } else { truth.not() };
    vec![Case { key: Default::default(), truth, measured: words.join("; ") }]
}

fn rivals(one: &Cell, other: &Cell, systems: &str) -> bool {
    let without = |cell: &Cell| {
        let mut key = cell.key.clone();
        key.remove(systems);
        key
    };
    let (a, b) = (one.key.get(systems), other.key.get(systems));
    a.is_some() && b.is_some() && a != b && agree(&without(one), &without(other))
}

fn flipped([one, other, one_after, other_after]: &Quartet, systems: &str, alpha: f64) -> (Truth, String) {
    let before = quotient(&one.sample, &other.sample, alpha);
    let after = quotient(&one_after.sample, &other_after.sample, alpha);
    let names = format!("{} over {}", one.key[systems], other.key[systems]);
    let (before, after) = match (before, after) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(lack), _) | (_, Err(lack)) => {
            let ratio = |one: &Cell, other: &Cell| one.sample.mean() / other.sample.mean();
            let number = crate::text::number;
            let after = crate::text::estimate(ratio(one_after, other_after), &lack, "after");
            return (Truth::lacking(lack), format!("{names}: {} before, {after}", number(ratio(one, other))));
        }
    };
    let stated = |interval: &Interval| crate::text::interval(interval, "");
    let message = format!("{names}: {} before, {} after", stated(&before), stated(&after));
    let truth = match (Truth::above(&before, 1.0), Truth::above(&after, 1.0)) {
        (Truth::Open(why), _) | (_, Truth::Open(why)) => Truth::Open(why),
        (first, second) if first == second => Truth::No,
        _ => Truth::Yes,
    };
    (truth, message)
}
