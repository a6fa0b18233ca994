//! Compares results with published values: errors and order by group, with the bound of each group.

use super::measure::DeviceValues;
use senesce_core::{Failure, Rows, Table, published};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;

/// Bounds of the mean absolute relative error of each group. No point may exceed [`WORST`] times its bound.
pub const BOUNDS: &[(&str, f64)] = &[
    ("depth1-mean", 0.05),
    ("controller-iops", 0.08),
    ("plateau", 0.02),
    ("read-iops", 0.06),
    ("read-p95", 0.10),
    ("reset-mean", 0.08),
    ("finish-mean", 0.01),
    ("open-close", 0.10),
    ("reads-under-writes-mean", 0.08),
    ("reads-under-writes-p95", 0.25),
    ("conventional-read-iops", 0.06),
    ("conventional-read-p95", 0.10),
    ("conventional-reads-under-writes-mean", 0.08),
    ("conventional-reads-under-writes-p95", 0.25),
];

/// Limit of a single point, as a multiple of its group's bound.
pub const WORST: f64 = 2.5;

/// Published points that differ by more than this share must keep their order.
const ORDERED_BEYOND: f64 = 0.05;

/// A published value and the measured one.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    pub metric: String,
    pub condition: String,
    pub published: f64,
    /// Measured value.
    pub ours: f64,
    /// Relative error.
    pub error: f64,
    /// Group with an error bound; empty: none.
    pub group: String,
    /// Whether the model was fitted to this value.
    pub fitted: bool,
    /// Whether the value is from another drive: shown as context, not compared.
    pub context: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct Group {
    /// Name.
    pub group: String,
    pub points: usize,
    /// Mean absolute relative error.
    pub mean_error: f64,
    /// Mean absolute relative error of the points that the model was not fitted to.
    pub mean_error_held_out: Option<f64>,
    /// Maximum absolute relative error.
    pub worst_error: f64,
    /// Condition of the maximum error.
    pub worst_at: String,
    pub bound: f64,
    /// Pairs of points that differ by more than 5 % as published.
    pub pairs: usize,
    /// Pairs of them in the wrong order in the measurement.
    pub misordered: usize,
    /// Largest published difference of a misordered pair.
    pub misordered_by: f64,
    /// Whether the mean and the worst point are within their bounds.
    pub kept: bool,
}

pub fn compare(measured: &DeviceValues, text: &str) -> Result<Vec<Comparison>, Failure> {
    let values = published::parse(text).map_err(|error| Failure::usage(error.to_string()))?;
    let found = values.into_iter().filter_map(|value| {
        let ours = measured.get(&value.condition, &value.metric)?;
        let context = !measured.is_of_published_drive(&value.condition);
        let group = value.note.strip_prefix("group:").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        Some(Comparison {
            context,
            error: (ours - value.value) / value.value,
            group: if context { String::new() } else { group.into() },
            fitted: value.note.ends_with("fitted"),
            metric: value.metric,
            condition: value.condition,
            published: value.value,
            ours,
        })
    });
    Ok(found.collect())
}

/// Groups the comparisons, in the order of [`BOUNDS`].
pub fn groups(comparison: &[Comparison]) -> Vec<Group> {
    let mut members: BTreeMap<&str, Vec<&Comparison>> = BTreeMap::new();
    for point in comparison.iter().filter(|point| !point.group.is_empty()) {
        members.entry(&point.group).or_default().push(point);
    }
    BOUNDS.iter().filter_map(|(name, bound)| Some(group(name, *bound, members.get(name)?))).collect()
}

fn mean_error<'a>(points: impl Iterator<Item = &'a &'a Comparison>) -> Option<f64> {
    let errors: Vec<f64> = points.map(|point| point.error.abs()).collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

fn group(name: &str, bound: f64, points: &[&Comparison]) -> Group {
    let worst = points.iter().max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()));
    let (worst_error, worst_at) = worst.map_or((0.0, ""), |point| (point.error.abs(), point.condition.as_str()));
    let mean = mean_error(points.iter()).unwrap_or(0.0);
    let (pairs, misordered, misordered_by) = order(points);
    Group {
        group: name.into(),
        points: points.len(),
        mean_error: mean,
        mean_error_held_out: mean_error(points.iter().filter(|point| !point.fitted)),
        worst_error,
        worst_at: worst_at.into(),
        bound,
        pairs,
        misordered,
        misordered_by,
        kept: mean <= bound && worst_error <= WORST * bound,
    }
}

/// Pairs that differ by more than 5 % as published, the misordered ones, and the largest published difference of those.
fn order(points: &[&Comparison]) -> (usize, usize, f64) {
    let (mut pairs, mut wrong, mut by) = (0, 0, 0.0f64);
    for (index, a) in points.iter().enumerate() {
        for b in &points[..index] {
            let (low, high) = if a.published < b.published { (a, b) } else { (b, a) };
            let difference = (high.published - low.published) / low.published;
            if difference <= ORDERED_BEYOND {
                continue;
            }
            pairs += 1;
            if low.ours >= high.ours {
                wrong += 1;
                by = by.max(difference);
            }
        }
    }
    (pairs, wrong, by)
}

pub fn group_table(groups: &[Group]) -> Table {
    Rows::of(groups)
        .column("group", |group| &group.group)
        .column("points", |group| &group.points)
        .column("mean error (%)", |group| group.mean_error * 100.0)
        .column("held out (%)", |group| group.mean_error_held_out.map_or(json!(null), |error| json!(error * 100.0)))
        .column("bound (%)", |group| group.bound * 100.0)
        .column("worst (%)", |group| group.worst_error * 100.0)
        .column("worst point", |group| &group.worst_at)
        .column("pairs beyond 5 %", |group| &group.pairs)
        .column("misordered", |group| group.misordered)
        .table("groups", "Error against the published drive, by group")
}

pub fn table(comparison: &[Comparison], measured: &DeviceValues) -> Table {
    let context = comparison.iter().any(|point| point.context);
    let last = if context { "difference (%)" } else { "error (%)" };
    let title = match context {
        true => format!("Published values of another drive, as context for {}", measured.device),
        false => format!("Published values and values of this run ({})", measured.device),
    };
    Rows::of(comparison)
        .column("metric", |point| &point.metric)
        .column("condition", |point| &point.condition)
        .column("published", |point| &point.published)
        .column("ours", |point| &point.ours)
        .column(last, |point| point.error * 100.0)
        .table("values", &title)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(published: f64, ours: f64) -> Comparison {
        Comparison {
            metric: "iops".into(),
            condition: format!("{published}"),
            published,
            ours,
            error: (ours - published) / published,
            group: "plateau".into(),
            fitted: false,
            context: false,
        }
    }

    #[test]
    fn one_bad_point_fails_its_group_and_small_differences_need_no_order() {
        let good = groups(&[point(100.0, 101.0), point(103.0, 102.0), point(120.0, 119.0)]);
        assert!(good[0].kept);
        assert_eq!((good[0].pairs, good[0].misordered), (2, 0));
        let bad = groups(&[point(100.0, 107.0), point(100.0, 100.0), point(106.0, 105.0), point(100.0, 100.0)]);
        assert!(!bad[0].kept, "the mean is within 2 %, one point beyond 5 %");
        assert_eq!(bad[0].misordered, 1);
    }
}
