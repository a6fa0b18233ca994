//! Figures, table and findings on free space.

use super::{LARGE, Natural, large_share};
use senesce_core::analysis::*;
use senesce_core::published::PublishedValue;
use senesce_layout::FreeSpace;
use senesce_study::images::ImageFacts;
use senesce_study::spec::StudySpec;
use serde_json::{Value, json};

fn of_state(images: &[ImageFacts], fs: usize, state: usize) -> impl Iterator<Item = &FreeSpace> {
    images.iter().filter(move |one| one.id.fs == fs && one.id.state == state).filter_map(|one| one.free_space.as_ref())
}

/// Share of free space below each extent size, one line per state, from the first aging.
pub(super) fn figure(spec: &StudySpec, images: &[ImageFacts], natural: &[Natural], fs: usize) -> Option<Figure> {
    let curve = |free: &FreeSpace| -> Vec<(f64, f64)> {
        let total = free.free_blocks.max(1) as f64;
        let mut seen = 0;
        let mut points = vec![(free.buckets.first().map_or(4096.0, |one| one.from_bytes as f64), 0.0)];
        for bucket in &free.buckets {
            // Sizes without any extent are flat: the line rises within its bucket only.
            if points.last().is_some_and(|last| last.0 < bucket.from_bytes as f64) {
                points.push((bucket.from_bytes as f64, seen as f64 / total * 100.0));
            }
            seen += bucket.blocks;
            points.push((bucket.to_bytes as f64, seen as f64 / total * 100.0));
        }
        points
    };
    let states = spec.state.iter().enumerate();
    let mut series: Vec<Series> = states
        .filter_map(|(state, one)| {
            Some(Series::new(&one.name, Mark::Measured, curve(of_state(images, fs, state).next()?)))
        })
        .collect();
    series.extend(natural.iter().filter_map(|one| {
        Some(Series::new(
            format!("{} ({})", one.target, one.file_system),
            Mark::Measured,
            curve(one.free_space.as_ref()?),
        ))
    }));
    let name = &spec.file_system[fs].name;
    (!series.is_empty()).then(|| Figure {
        id: format!("free-space-{name}"),
        title: format!("{name}: share of free space in extents up to a size"),
        caption: "The further to the left a line rises, the more the free space is in pieces. From the first aging."
            .into(),
        device: format!("{name} on images of {}", spec.size),
        better: Better::Lower,
        kind: FigureKind::Lines {
            x: Axis::linear("Size of free extent").log2().in_bytes(),
            y: Axis { max: Some(100.0), ..Axis::linear("Free space in extents up to this size (%)").from_zero() },
            series,
        },
    })
}

fn range(values: &[f64]) -> Option<(f64, f64, f64)> {
    let mean = senesce_stats::mean(values)?;
    let (low, high) =
        values.iter().fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(*value), high.max(*value)));
    Some((mean, low, high))
}

/// Number of free extents by state, with the range over the agings.
pub(super) fn counts(spec: &StudySpec, images: &[ImageFacts]) -> Option<Figure> {
    let series: Vec<Series> = spec
        .state
        .iter()
        .enumerate()
        .map(|(state, one)| {
            let mut series = Series::new(&one.name, Mark::Measured, Vec::new());
            for fs in 0..spec.file_system.len() {
                let values: Vec<f64> = of_state(images, fs, state).map(|free| free.extents as f64).collect();
                if let Some((mean, low, high)) = range(&values) {
                    series.points.push((fs as f64, mean));
                    series.intervals.push((low, high));
                }
            }
            series
        })
        .collect();
    let names = spec.file_system.iter().map(|one| one.name.clone()).collect();
    series.iter().any(|one| !one.points.is_empty()).then(|| Figure {
        id: "free-extents".into(),
        title: "Number of free extents".into(),
        caption: "Mean over the agings; the whiskers are their range, not an interval.".into(),
        device: format!("images of {}", spec.size),
        better: Better::Lower,
        kind: FigureKind::Bars {
            x: Axis::categories("File system", names),
            y: Axis::linear("Free extents").log10(),
            series,
        },
    })
}

pub(super) fn table(spec: &StudySpec, images: &[ImageFacts], natural: &[Natural]) -> Table {
    let large = senesce_core::Bytes((spec.size.0 as f64 * LARGE) as u64);
    let share = format!("in extents from {large} (%)");
    let columns = [
        "file system",
        "state",
        "aging",
        "overwrites",
        "free extents",
        "mean free extent (bytes)",
        "largest (bytes)",
        &share,
    ];
    let mut table = Table::new("free-space", "Free space", &columns);
    let cells = |free: &FreeSpace| {
        vec![json!(free.extents), json!(free.avg_bytes), json!(free.max_bytes), json!(large_share(spec, free) * 100.0)]
    };
    for one in images {
        let Some(free) = &one.free_space else { continue };
        let mut row = vec![
            json!(spec.file_system[one.id.fs].name),
            json!(spec.state[one.id.state].name),
            json!(one.id.image),
            json!(one.overwrites),
        ];
        row.extend(cells(free));
        table.row(row);
    }
    for one in natural {
        let Some(free) = &one.free_space else { continue };
        let mut row =
            vec![json!(one.file_system), json!(format!("as found: {}", one.target)), Value::Null, Value::Null];
        row.extend(cells(free));
        table.row(row);
    }
    table
}

fn value(published: &[PublishedValue], condition: &str) -> Option<f64> {
    published.iter().find(|one| one.condition == condition).map(|one| one.value)
}

pub(super) fn findings(spec: &StudySpec, images: &[ImageFacts], published: &[PublishedValue]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (fs, one) in spec.file_system.iter().enumerate() {
        let shares =
            |state| -> Vec<f64> { of_state(images, fs, state).map(|free| large_share(spec, free) * 100.0).collect() };
        let extents = |state| -> Vec<f64> { of_state(images, fs, state).map(|free| free.extents as f64).collect() };
        let (Some(once), Some(aged)) = (range(&shares(1)), range(&shares(2))) else { continue };
        let theirs = value(published, "ext4 write-once 80 GB").unwrap_or(f64::NAN);
        findings.push(Finding {
            claim: format!("{}: writing files once leaves most free space in large extents, aging does not.", one.name),
            published: format!("{theirs} % of free space in extents of 1.5 GB on average (ext4, 80 GB, written once)"),
            measured: format!(
                "{:.0} % in large extents written once, {:.0} % aged ({:.0} to {:.0})",
                once.0, aged.0, aged.1, aged.2
            ),
            verdict: if once.0 > 2.0 * aged.2 { Verdict::Seen } else { Verdict::NotSeen },
            note: format!("large: the same share of the volume as published, {:.2} %", LARGE * 100.0),
            ..Finding::default()
        });
        let (Some(profile), Some(bins)) = (range(&extents(2)), range(&extents(3))) else { continue };
        let apart = profile.1 > bins.2;
        findings.push(Finding {
            claim: format!("{}: churn by profile breaks free space into more pieces than churn by size bins.", one.name),
            published: "ext4, 2 GiB, 5 overwrites of Agrawal: 3587 against 686 free extents (own measurement of the earlier tool's churn)".into(),
            measured: format!(
                "{:.0} ({:.0} to {:.0}) against {:.0} ({:.0} to {:.0}) free extents",
                profile.0, profile.1, profile.2, bins.0, bins.1, bins.2
            ),
            verdict: if apart { Verdict::Seen } else { Verdict::NotSeen },
            note: if apart || spec.images > 1 { String::new() } else { "one aging only: ranges are not known".into() },
            ..Finding::default()
        });
    }
    findings
}
