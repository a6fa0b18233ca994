//! Compares rows of a published table with measurements.

use super::{Context, level};
use crate::contrast::{Interval, MissingInterval, Scale, contrast};
use crate::row::Row;
use crate::sample::Sample;
use crate::selection::{Condition, Pattern, Selection};
use crate::truth::{Case, Truth};
use std::collections::BTreeMap;

struct Point<'a> {
    metric: &'a str,
    unit: &'a str,
    /// Conditions that our runs have too.
    condition: Condition,
    value: f64,
}

pub(crate) fn table(
    pattern: &Selection,
    ignore: &[String],
    (mean_error, worst_error): (f64, f64),
    context: &Context<'_>,
) -> Vec<Case> {
    let points =
        points(context.rows.iter().filter(|row| pattern.admits(&row.published.metric, &row.conditions())), ignore);
    let measured: Vec<(&Point<'_>, Sample)> =
        points.iter().filter_map(|point| Some((point, measured(point, context)?))).collect();
    if measured.is_empty() {
        return Vec::new();
    }
    let alpha = level(measured.len());
    let errors: Result<Vec<Interval>, MissingInterval> =
        measured.iter().map(|(point, sample)| error(point, sample, alpha)).collect();
    let key = Condition::new();
    let errors = match errors {
        Ok(errors) => errors,
        Err(lack) => {
            let measured = estimated(&measured, &lack, points.len());
            return vec![Case { key, truth: Truth::lacking(lack), measured }];
        }
    };
    let (mean, worst) = (over(&errors, mean), over(&errors, |ends| ends.iter().copied().fold(0.0, f64::max)));
    let truth = Truth::all([Truth::within(&mean, (0.0, mean_error)), Truth::within(&worst, (0.0, worst_error))]);
    let truth = match truth {
        Truth::Yes if errors.len() < points.len() => {
            Truth::Open("only some of the published values were measured".into())
        }
        other => other,
    };
    let at = errors.iter().zip(&measured).max_by(|a, b| a.0.value.total_cmp(&b.0.value));
    let place = at.map_or(String::new(), |(_, (point, _))| {
        format!(" ({} {})", point.metric, crate::text::condition(&point.condition))
    });
    let measured = format!(
        "{:.1} % on average, {:.1} % at worst{place}; {} of {} points measured",
        mean.value * 100.0,
        worst.value * 100.0,
        errors.len(),
        points.len()
    );
    vec![Case { key, truth, measured }]
}

/// Formats the errors of the means, without intervals.
fn estimated(measured: &[(&Point<'_>, Sample)], lack: &MissingInterval, points: usize) -> String {
    let errors: Vec<f64> =
        measured.iter().map(|(point, sample)| ((sample.mean() - point.value) / point.value).abs() * 100.0).collect();
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let worst = crate::text::estimate(worst, lack, "% at worst");
    format!("{:.1} % on average, {worst}; {} of {points} points measured", mean(&errors), errors.len())
}

/// Groups rows into points, with the mean of repeated rows. Rows with value zero are omitted, because their relative
/// error is undefined.
fn points<'a>(rows: impl Iterator<Item = &'a Row>, ignore: &[String]) -> Vec<Point<'a>> {
    let mut found: BTreeMap<(&str, &str, Condition), Vec<f64>> = BTreeMap::new();
    for row in rows {
        let condition = row.condition.clone().into_iter().filter(|(key, _)| !ignore.contains(key)).collect();
        let key = (row.published.metric.as_str(), row.published.unit.as_str(), condition);
        found.entry(key).or_default().push(row.published.value);
    }
    let point = |((metric, unit, condition), values): ((&'a str, &'a str, Condition), Vec<f64>)| Point {
        metric,
        unit,
        condition,
        value: mean(&values),
    };
    found.into_iter().map(point).filter(|point| point.value != 0.0).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn measured(point: &Point<'_>, context: &Context<'_>) -> Option<Sample> {
    let when = point.condition.iter().map(|(key, word)| (key.clone(), Pattern::Is(word.clone()))).collect();
    let selection = Selection { metric: point.metric.into(), when };
    let mut cells = context.evidence.cells(&selection);
    // A value with another unit is another quantity. If a row matches two conditions, it is ambiguous.
    let is_it = cells.len() == 1 && context.evidence.unit(&selection) == point.unit;
    cells.pop().filter(|_| is_it).map(|cell| cell.sample)
}

/// Returns the absolute relative error, with its minimum and maximum over the interval.
fn error(point: &Point<'_>, sample: &Sample, alpha: f64) -> Result<Interval, MissingInterval> {
    let found = contrast(&[(1.0, sample)], Scale::Linear, alpha)?;
    let relative = |value: f64| (value - point.value) / point.value;
    let (a, b) = (relative(found.low), relative(found.high));
    let low = if a.signum() == b.signum() { a.abs().min(b.abs()) } else { 0.0 };
    Ok(Interval { value: relative(found.value).abs(), low, high: a.abs().max(b.abs()), units: found.units })
}

fn over(errors: &[Interval], statistic: impl Fn(&[f64]) -> f64) -> Interval {
    let at = |end: fn(&Interval) -> f64| statistic(&errors.iter().map(end).collect::<Vec<_>>());
    Interval {
        value: at(|error| error.value),
        low: at(|error| error.low),
        high: at(|error| error.high),
        units: errors.iter().map(|error| error.units).min().unwrap_or(0),
    }
}
