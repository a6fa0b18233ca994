use super::points::{LEAST_PAIRS, of_correlation};
use super::{Context, level};
use crate::contrast::{Interval, MissingInterval, Scale, contrast};
use crate::judge::pairs::quotient;
use crate::rule::TrendShape;
use crate::sample::Sample;
use crate::selection::{Condition, Selection};
use crate::truth::{Case, Truth};
use senesce_stats::pearson;
use std::collections::BTreeMap;

type Series = Vec<(f64, Sample)>;

fn series(of: &Selection, along: &str, context: &Context<'_>) -> Vec<(Condition, Series)> {
    let mut found: BTreeMap<Condition, Series> = BTreeMap::new();
    for cell in context.evidence.cells(of) {
        let Some(place) = cell.condition.get(along).and_then(|text| text.parse::<f64>().ok()) else { continue };
        let mut key = cell.key;
        key.remove(along);
        found.entry(key).or_default().push((place, cell.sample));
    }
    for series in found.values_mut() {
        series.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    found.into_iter().collect()
}

fn open(key: Condition, lack: MissingInterval, from: &(f64, Sample), to: &(f64, Sample)) -> Case {
    let factor = to.1.mean() / from.1.mean();
    let measured = match factor.is_finite() {
        true => {
            let number = crate::text::number;
            format!("{} from {} to {}", crate::text::estimate(factor, &lack, "times"), number(from.0), number(to.0))
        }
        false => String::new(),
    };
    Case { key, truth: Truth::lacking(lack), measured }
}

fn stated(interval: &Interval, from: f64, to: f64) -> String {
    let (from, to) = (crate::text::number(from), crate::text::number(to));
    format!("{} from {from} to {to}", crate::text::interval(interval, "times"))
}

/// Returns one case per series of at least two points (three for bends).
pub(crate) fn trend(of: &Selection, along: &str, shape: TrendShape, by: f64, context: &Context<'_>) -> Vec<Case> {
    let least = if matches!(shape, TrendShape::BendsUp | TrendShape::BendsDown) { 3 } else { 2 };
    let all: Vec<(Condition, Series)> =
        series(of, along, context).into_iter().filter(|(_, series)| series.len() >= least).collect();
    let count = all.len();
    all.into_iter()
        .map(|(key, series)| {
            let judged = match shape {
                TrendShape::Rises => monotone(&series, by, 1.0, count),
                TrendShape::Falls => monotone(&series, by, -1.0, count),
                TrendShape::Level => is_level(&series, by, count),
                TrendShape::BendsUp => bend(&series, 1.0, count),
                TrendShape::BendsDown => bend(&series, -1.0, count),
            };
            match judged {
                Ok((truth, measured)) => Case { key, truth, measured },
                Err(lack) => open(key, lack, &series[0], &series[series.len() - 1]),
            }
        })
        .collect()
}

/// Changes from end to end by the factor, without significant opposite changes between neighbours.
fn monotone(series: &Series, by: f64, sign: f64, count: usize) -> Result<(Truth, String), MissingInterval> {
    let alpha = level(count * series.len());
    let between = |from: &Sample, to: &Sample| contrast(&[(sign, to), (-sign, from)], Scale::Ratio, alpha);
    let (first, last) = (&series[0], &series[series.len() - 1]);
    let whole = between(&first.1, &last.1)?;
    let mut truth = Truth::above(&whole, by);
    for two in series.windows(2) {
        if between(&two[0].1, &two[1].1)?.high < 1.0 {
            truth = Truth::No;
        }
    }
    Ok((truth, stated(&quotient(&last.1, &first.1, alpha)?, first.0, last.0)))
}

fn is_level(series: &Series, by: f64, count: usize) -> Result<(Truth, String), MissingInterval> {
    let pairs = series.len() * (series.len() - 1) / 2;
    let alpha = level(count * pairs);
    let mut truths = Vec::with_capacity(pairs);
    let mut widest: Option<(Interval, f64, f64)> = None;
    for (index, (to, sample)) in series.iter().enumerate() {
        for (from, other) in &series[..index] {
            let found = quotient(sample, other, alpha)?;
            truths.push(Truth::within(&found, (1.0 / by, by)));
            if widest.is_none_or(|(known, ..)| known.value.ln().abs() < found.value.ln().abs()) {
                widest = Some((found, *from, *to));
            }
        }
    }
    let text = widest.map_or(String::new(), |(found, from, to)| stated(&found, from, to));
    Ok((Truth::all(truths), text))
}

/// Subtracts the slope of the first half from that of the second; they share the middle point.
fn bend(series: &Series, sign: f64, count: usize) -> Result<(Truth, String), MissingInterval> {
    let (first, last) = (&series[0], &series[series.len() - 1]);
    let middle = &series[series.len() / 2];
    let (before, after) = (1.0 / (middle.0 - first.0), 1.0 / (last.0 - middle.0));
    let terms = [(before, &first.1), (-before - after, &middle.1), (after, &last.1)];
    let signed: Vec<(f64, &Sample)> = terms.iter().map(|(weight, sample)| (sign * weight, *sample)).collect();
    let difference = contrast(&signed, Scale::Linear, level(count))?;
    let slope = |from: &(f64, Sample), to: &(f64, Sample)| (to.1.mean() - from.1.mean()) / (to.0 - from.0);
    let number = crate::text::number;
    let message = format!(
        "slope {} up to {}, {} after it",
        number(slope(first, middle)),
        number(middle.0),
        number(slope(middle, last))
    );
    Ok((Truth::above(&difference, 0.0), message))
}

/// Returns one case per series with both points and at least one other.
pub(crate) fn step(
    of: &Selection,
    along: &str,
    (from, to): (f64, f64),
    (by, share): (f64, f64),
    context: &Context<'_>,
) -> Vec<Case> {
    let all = series(of, along, context);
    let alpha = level(2 * all.len());
    all.into_iter()
        .filter_map(|(key, series)| {
            let at = |place: f64| series.iter().find(|(found, _)| *found == place);
            let (before, after) = (at(from)?, at(to)?);
            let judged = stepped(&series, (&before.1, &after.1), by, share, alpha);
            Some(match judged {
                Ok((truth, found)) => Case { key, truth, measured: stated(&found, from, to) },
                Err(lack) => open(key, lack, before, after),
            })
        })
        .collect()
}

fn stepped(
    series: &Series,
    (before, after): (&Sample, &Sample),
    by: f64,
    share: f64,
    alpha: f64,
) -> Result<(Truth, Interval), MissingInterval> {
    let sign = if by > 1.0 { 1.0 } else { -1.0 };
    let factor = by.powf(sign);
    let jump = contrast(&[(sign, after), (-sign, before)], Scale::Ratio, alpha)?;
    // The step minus its share of the whole change; if the ends are the points of the step, both are equal.
    let (first, last) = (&series[0].1, &series[series.len() - 1].1);
    let mut terms: Vec<(f64, &Sample)> = Vec::new();
    for (weight, sample) in [(sign, after), (-sign, before), (-sign * share, last), (sign * share, first)] {
        match terms.iter_mut().find(|(_, known)| std::ptr::eq(*known, sample)) {
            Some((known, _)) => *known += weight,
            None => terms.push((weight, sample)),
        }
    }
    let rest = contrast(&terms, Scale::Ratio, alpha)?;
    let truth = Truth::all([Truth::within(&jump, (factor, f64::INFINITY)), Truth::within(&rest, (1.0, f64::INFINITY))]);
    Ok((truth, quotient(after, before, alpha)?))
}

/// Returns one case per series of at least four points. Equal values neither rise nor fall.
pub(crate) fn linear(
    of: &Selection,
    along: &str,
    shape: TrendShape,
    explains: f64,
    context: &Context<'_>,
) -> Vec<Case> {
    let all: Vec<(Condition, Series)> =
        series(of, along, context).into_iter().filter(|(_, series)| series.len() > 1).collect();
    let alpha = level(all.len());
    let line = |(key, series): (Condition, Series)| {
        let (x, y): (Vec<f64>, Vec<f64>) = series.iter().map(|(place, sample)| (*place, sample.mean())).unzip();
        if x.len() < LEAST_PAIRS {
            let measured = pearson(&x, &y).map_or(String::new(), |found| {
                format!("correlation {} ({} points)", crate::text::number(found.value), x.len())
            });
            let truth = Truth::Open(format!("a line takes at least {LEAST_PAIRS} points").into());
            return Case { key, truth, measured };
        }
        let Some(found) = pearson(&x, &y) else {
            return Case { key, truth: Truth::No, measured: "constant".into() };
        };
        let found = of_correlation(&found, alpha);
        let mirrored = Interval { value: -found.value, low: -found.high, high: -found.low, ..found };
        let along_it = if shape == TrendShape::Falls { mirrored } else { found };
        let truth = Truth::within(&along_it, (explains.sqrt(), 1.0));
        Case { key, truth, measured: format!("correlation {}", crate::text::interval(&found, "")) }
    };
    all.into_iter().map(line).collect()
}
