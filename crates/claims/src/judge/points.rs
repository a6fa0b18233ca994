//! Single values and correlations.

use super::{Context, case, level};
use crate::contrast::{Interval, MissingInterval, Scale, contrast};
use crate::rule::Bounds;
use crate::sample::{Sample, joined};
use crate::selection::{Condition, Selection};
use crate::truth::{Case, Truth};
use senesce_stats::{Correlation, pearson};
use std::collections::{BTreeMap, BTreeSet};

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

/// Pairs of values under equal conditions.
type Points = Vec<(Sample, Sample)>;

/// Returns one case over all points, or one per value of `each`.
pub(crate) fn correlation(
    of: &Selection,
    with: &Selection,
    each: &[String],
    within: &Bounds,
    context: &Context<'_>,
) -> Vec<Case> {
    let Some(bounds) = within.resolve(context.published) else { return Vec::new() };
    let mut groups: BTreeMap<Condition, Points> = BTreeMap::new();
    for (one, other) in context.evidence.pairs(of, with) {
        let all = joined(&one.key, &other.key);
        let key = all.into_iter().filter(|(name, _)| each.contains(name)).collect();
        groups.entry(key).or_default().push((one.sample, other.sample));
    }
    let alpha = level(groups.len());
    let published = within.of_published().then_some(context.published);
    let judged = |(key, points): (Condition, Points)| match over_images(&points) {
        Some(sample) => of_images(key, &sample, bounds, alpha),
        None => of_points(key, &points, bounds, published, alpha),
    };
    groups.into_iter().map(judged).collect()
}

/// Computes Fisher's z of the coefficient of each image; `None` if a point has a single image. The points are the same
/// in all images (file systems, rounds), so the images are the independent values, not the points.
fn over_images(points: &Points) -> Option<Sample> {
    let samples = || points.iter().flat_map(|(x, y)| [x, y]);
    if points.len() < LEAST_PAIRS || samples().any(|sample| sample.images.len() < 2) {
        return None;
    }
    let images = samples().map(|sample| sample.images.iter().copied().collect::<BTreeSet<u32>>());
    let shared = images.reduce(|all, some| &all & &some)?;
    let z = |image: &u32| {
        let values = |of: fn(&(Sample, Sample)) -> &Sample| {
            points.iter().map(|point| of(point).of_image(*image)).collect::<Option<Vec<f64>>>()
        };
        let found = pearson(&values(|(x, _)| x)?, &values(|(_, y)| y)?)?;
        Some((*image, found.value.clamp(-LARGEST, LARGEST).atanh()))
    };
    let (images, units): (Vec<u32>, Vec<f64>) = shared.iter().filter_map(z).unzip();
    let values = samples().map(|sample| sample.values).min()?.min(units.len() * most_repetitions(points));
    Some(Sample { units, values, exact: false, rounds: Vec::new(), images })
}

/// Keeps the transform of a perfect line finite.
const LARGEST: f64 = 1.0 - 1e-9;

fn most_repetitions(points: &Points) -> usize {
    let of = |(x, _): &(Sample, Sample)| x.values / x.images.len().max(1);
    points.iter().map(of).max().unwrap_or(1)
}

fn of_images(key: Condition, sample: &Sample, bounds: (f64, f64), alpha: f64) -> Case {
    let back = |z: Interval| Interval { value: z.value.tanh(), low: z.low.tanh(), high: z.high.tanh(), ..z };
    let found = contrast(&[(1.0, sample)], Scale::Linear, alpha).map(back);
    let found = found.map_err(|lack| MissingInterval { value: lack.value.map(f64::tanh), ..lack });
    case(key, found, "", |interval| Truth::within(interval, bounds))
}

fn of_points(key: Condition, points: &Points, bounds: (f64, f64), published: Option<&[f64]>, alpha: f64) -> Case {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().map(|(x, y)| (x.mean(), y.mean())).unzip();
    let Some(found) = pearson(&x, &y).filter(|found| found.count > LEAST_PAIRS - 1) else {
        let reason = format!("a correlation takes at least {LEAST_PAIRS} pairs that vary");
        let measured = match pearson(&x, &y) {
            Some(found) => format!("{} ({} pairs)", crate::text::number(found.value), x.len()),
            None => String::new(),
        };
        return Case { key, truth: Truth::Open(reason.into()), measured };
    };
    let interval = of_correlation(&found, alpha);
    let outside = |number: &f64| *number < interval.low || *number > interval.high;
    let truth = match published {
        Some(numbers) if numbers.iter().all(outside) => Truth::No,
        _ => Truth::within(&interval, bounds),
    };
    Case { key, truth, measured: crate::text::interval(&interval, "") }
}

/// Fisher's interval needs at least this number of pairs.
pub(crate) const LEAST_PAIRS: usize = 4;

pub(crate) fn of_correlation(found: &Correlation, alpha: f64) -> Interval {
    let (low, high) = found.pearson_interval(alpha);
    Interval { value: found.value, low, high, units: found.count }
}
