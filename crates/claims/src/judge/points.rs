//! Single values and correlations.

use super::{Context, case, level};
use crate::contrast::{Interval, Scale, contrast};
use crate::rule::Bounds;
use crate::sample::joined;
use crate::selection::{Condition, Selection};
use crate::truth::{Case, Truth};
use senesce_stats::{Correlation, pearson};
use std::collections::BTreeMap;

pub(crate) fn value(of: &Selection, within: &Bounds, context: &Context<'_>) -> Vec<Case> {
    let Some(bounds) = within.resolve(context.published) else { return Vec::new() };
    let cells = context.evidence.cells(of);
    let alpha = level(cells.len());
    let unit = context.evidence.unit(of);
    cells
        .into_iter()
        .map(|cell| {
            let found = contrast(&[(1.0, &cell.sample)], Scale::Linear, alpha);
            case(cell.key, found, unit, |interval| Truth::within(interval, bounds))
        })
        .collect()
}

/// One case over all points, or one per value of `each`.
pub(crate) fn correlation(
    of: &Selection,
    with: &Selection,
    each: &[String],
    within: &Bounds,
    context: &Context<'_>,
) -> Vec<Case> {
    let Some(bounds) = within.resolve(context.published) else { return Vec::new() };
    let mut groups: BTreeMap<Condition, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for (one, other) in context.evidence.pairs(of, with) {
        let all = joined(&one.key, &other.key);
        let key = all.into_iter().filter(|(name, _)| each.contains(name)).collect();
        let (x, y) = groups.entry(key).or_default();
        x.push(one.sample.mean());
        y.push(other.sample.mean());
    }
    let published = within.of_published().then_some(context.published);
    groups.into_iter().map(|(key, (x, y))| coefficient(key, &x, &y, bounds, published)).collect()
}

fn coefficient(key: Condition, x: &[f64], y: &[f64], bounds: (f64, f64), published: Option<&[f64]>) -> Case {
    let Some(found) = pearson(x, y).filter(|found| found.count > LEAST_PAIRS - 1) else {
        let reason = format!("a correlation takes at least {LEAST_PAIRS} pairs that vary");
        let measured = match pearson(x, y) {
            Some(found) => format!("{} ({} pairs)", crate::text::number(found.value), x.len()),
            None => String::new(),
        };
        return Case { key, truth: Truth::Open(reason.into()), measured };
    };
    let interval = of_correlation(&found);
    let outside = |number: &f64| *number < interval.low || *number > interval.high;
    let truth = match published {
        Some(numbers) if numbers.iter().all(outside) => Truth::No,
        _ => Truth::within(&interval, bounds),
    };
    Case { key, truth, measured: crate::text::interval(&interval, "") }
}

/// Fisher's interval needs at least this number of pairs.
pub(crate) const LEAST_PAIRS: usize = 4;

pub(crate) fn of_correlation(found: &Correlation) -> Interval {
    Interval { value: found.value, low: found.low, high: found.high, units: found.count }
}
