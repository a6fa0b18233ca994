//! Figures and tables of free space.

use super::{Natural, large_from, large_share};
use senesce_core::Rows;
use senesce_core::analysis::*;
use senesce_layout::FreeSpace;
use senesce_study::images::ImageFacts;
use senesce_study::spec::StudySpec;

fn of_state(images: &[ImageFacts], fs: usize, state: usize) -> impl Iterator<Item = &FreeSpace> {
    images.iter().filter(move |one| one.id.fs == fs && one.id.state == state).filter_map(|one| one.free_space.as_ref())
}

pub(super) fn figure(spec: &StudySpec, images: &[ImageFacts], natural: &[Natural], fs: usize) -> Option<Figure> {
    let curve = |free: &FreeSpace| -> Vec<(f64, f64)> {
        let total = free.free_blocks.max(1) as f64;
        let mut seen = 0;
        let mut points = vec![(free.buckets.first().map_or(4096.0, |one| one.from_bytes as f64), 0.0)];
        for bucket in &free.buckets {
            // The line is flat across sizes without extents: it rises only within its bucket.
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
        caption: "The further left a line rises, the more fragmented the free space is. Data are from the first aging."
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
    let large = senesce_core::Bytes(large_from(spec));
    let share = format!("in extents from {large} (%)");
    let found = images.iter().filter_map(|one| Some((Ok(one), one.free_space.as_ref()?)));
    let natural = natural.iter().filter_map(|one| Some((Err(one), one.free_space.as_ref()?)));
    Rows::of(found.chain(natural))
        .column("file system", |(one, _)| {
            one.map_or_else(|one| &one.file_system, |one| &spec.file_system[one.id.fs].name)
        })
        .column("state", |(one, _)| match one {
            Ok(one) => spec.state[one.id.state].name.clone(),
            Err(one) => format!("as found: {}", one.target),
        })
        .column("aging", |(one, _)| one.ok().map(|one| one.id.image))
        .column("overwrites", |(one, _)| one.ok().map(|one| one.overwrites))
        .column("free extents", |(_, free)| free.extents)
        .column("mean free extent (bytes)", |(_, free)| free.avg_bytes)
        .column("largest (bytes)", |(_, free)| free.max_bytes)
        .column(share, |(_, free)| large_share(spec, free) * 100.0)
        .table("free-space", "Free space")
}
