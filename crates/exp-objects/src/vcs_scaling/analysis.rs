//! Tables and figures of vcs-scaling.

use super::cell::{CellKind, MeasuredCell, Skipped};
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Analysis, Axis, Better, Bytes, Failure, Figure, FigureKind, Mark, Rows, Series};
use serde_json::json;
use std::collections::BTreeMap;

pub(super) fn analyse(measured: &[MeasuredCell], skipped: &[Skipped], published: &str) -> Result<Analysis, Failure> {
    let published = published::parse(published).map_err(|error| Failure::usage(error.to_string()))?;
    let mut caveats = vec![
        "git's background repacking is turned off (gc.auto=0). The measured time includes only the syncs of the system itself; the sync afterwards writes the rest of the page cache.".to_string(),
        "Published times come from a hard disk in 2016, and the harness rounded most up to 0.1 s per command.".to_string(),
    ];
    caveats.extend(skipped.iter().map(Skipped::text));
    let problems = measured
        .iter()
        .filter_map(|cell| Some(format!("{} with {}: {}", cell.system, cell.kind.text(), cell.problem.as_ref()?)));
    caveats.extend(problems);
    let lost = measured.iter().filter(|cell| !cell.is_valid()).count();
    if lost > 0 {
        caveats.push(format!(
            "{lost} of {} cells do not hold the committed data: their times and sizes are omitted from figures \
             and claims.",
            measured.len()
        ));
    }
    let valid: Vec<&MeasuredCell> = measured.iter().filter(|cell| cell.is_valid()).collect();
    let quantities = quantities(measured);
    Ok(Analysis {
        title: "Version-control and backup systems with many files and a large one".into(),
        summary: format!("{} cells were measured, {} systems skipped.", measured.len(), skipped.len()),
        figures: figures(&valid, &published),
        tables: vec![quantities.table("cells", "Time of each step")],
        findings: Vec::new(),
        caveats,
        result: json!({"cells": quantities.json(), "skipped": skipped}),
    })
}

fn quantities(measured: &[MeasuredCell]) -> Rows<&MeasuredCell> {
    let seconds = |name: &'static str| move |cell: &MeasuredCell| cell.step(name).map(|step| step.seconds);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let first = |cell: &MeasuredCell| cell.step("commit1").cloned();
    Rows::of(measured)
        .column("system", |cell| &cell.system)
        .key("system")
        .column("data", |cell| cell.kind.text())
        .field("files", |cell| if let CellKind::ManyFiles(count) = cell.kind { Some(count) } else { None })
        .field("file_size", |cell| if let CellKind::FileSize(size) = cell.kind { Some(size) } else { None })
        .field("repeat", |cell| cell.repeat)
        .field("steps", |cell| &cell.steps)
        .field("sizes", |cell| cell.sizes.iter().cloned().collect::<BTreeMap<_, _>>())
        .field("verified", |cell| cell.verified)
        .field("problem", |cell| &cell.problem)
        .column("init (s)", seconds("init"))
        .column("commit 1 (s)", seconds("commit1"))
        .column("sync after it (s)", |cell| first(cell).map(|step| step.sync_seconds))
        .column("status 1 (s)", seconds("status1"))
        .column("status 2 (s)", seconds("status2"))
        .column("commit 2 (s)", seconds("commit2"))
        .column("gc (s)", seconds("gc"))
        .column("CPU of commit 1 (s)", |cell| first(cell).map(|step| step.user_seconds + step.system_seconds))
        .column("peak memory (MiB)", |cell| mib(cell.steps.iter().map(|step| step.peak_bytes).max().unwrap_or(0)))
        .column("size after commit 2 (MiB)", |cell| cell.size("commit2").map(mib))
        .column("size / data", |cell| Some(cell.size("commit2")? as f64 / cell.kind.bytes() as f64))
        .column("holds the data", |cell| match cell.verified {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not reached",
        })
}

fn many(kind: CellKind) -> Option<f64> {
    if let CellKind::ManyFiles(count) = kind { Some(count as f64) } else { None }
}

fn large(kind: CellKind) -> Option<f64> {
    if let CellKind::FileSize(size) = kind { Some(size as f64) } else { None }
}

fn figures(measured: &[&MeasuredCell], published: &[PublishedValue]) -> Vec<Figure> {
    let seconds = |name: &'static str| move |cell: &MeasuredCell| cell.step(name).map(|step| step.seconds);
    let ratio = |cell: &MeasuredCell| Some(cell.size("commit2")? as f64 / cell.kind.bytes() as f64);
    let files = || Axis::linear("files of 1 KiB").log10();
    let size = || Axis::linear("file size").log2().in_bytes();
    let time = || Axis::linear("time (s)").log10();
    let figure = |id: &str, title: &str, x: Axis, y: Axis, series: Vec<Series>| Figure {
        id: id.into(),
        title: title.into(),
        caption:
            "Mean over repetitions. Published values come from a hard disk in 2016, with commands rounded up to 0.1 s."
                .into(),
        device: "fresh file system for every cell".into(),
        better: Better::Lower,
        kind: FigureKind::Lines { x, y, series },
    };
    let with = |metric: &str, x: fn(CellKind) -> Option<f64>, mut series: Vec<Series>| {
        series.extend(published_series(measured, published, metric, x, |seconds, _| seconds));
        series
    };
    let mut ratios = lines(measured, many, ratio);
    ratios.extend(published_series(measured, published, "size2", many, |bytes, kind| bytes / kind.bytes() as f64));
    let steps = |step: &'static str, x: fn(CellKind) -> Option<f64>| with(step, x, lines(measured, x, seconds(step)));
    vec![
        figure("commit-many", "First commit of many files", files(), time(), steps("commit1", many)),
        figure("status-many", "Status after the edit", files(), time(), steps("status2", many)),
        figure("recommit-many", "Second commit of many files", files(), time(), steps("commit2", many)),
        figure(
            "size-many",
            "Bytes on disk after two commits, over the data",
            files(),
            Axis::linear("bytes on disk / bytes of the files").log10(),
            ratios,
        ),
        figure("commit-large", "First commit of a large file", size(), time(), steps("commit1", large)),
        figure("recommit-large", "Second commit of a large file", size(), time(), steps("commit2", large)),
        figure(
            "memory-large",
            "Peak memory",
            size(),
            Axis::linear("largest resident set").log2().in_bytes(),
            lines(measured, large, |cell| cell.steps.iter().map(|step| step.peak_bytes as f64).reduce(f64::max)),
        ),
    ]
    .into_iter()
    .filter(|figure| matches!(&figure.kind, FigureKind::Lines { series, .. } if series.iter().any(|one| one.mark == Mark::Measured)))
    .collect()
}

fn lines(
    measured: &[&MeasuredCell],
    x: impl Fn(CellKind) -> Option<f64>,
    y: impl Fn(&MeasuredCell) -> Option<f64>,
) -> Vec<Series> {
    let mut values: BTreeMap<&str, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for cell in measured {
        if let (Some(x), Some(y)) = (x(cell.kind), y(cell)) {
            values.entry(&cell.system).or_default().entry(x as u64).or_default().push(y);
        }
    }
    let mean = |(x, sample): (u64, Vec<f64>)| Some((x as f64, senesce_stats::mean(&sample)?));
    values
        .into_iter()
        .map(|(name, points)| Series {
            name: name.into(),
            points: points.into_iter().filter_map(mean).collect(),
            ..Series::default()
        })
        .collect()
}

/// Returns a line per system that both the study and this run measured, up to the largest measured x. Zeros are steps
/// that the study did not have.
fn published_series(
    measured: &[&MeasuredCell],
    published: &[PublishedValue],
    metric: &str,
    x: fn(CellKind) -> Option<f64>,
    y: fn(f64, CellKind) -> f64,
) -> Vec<Series> {
    let most = measured.iter().filter_map(|cell| x(cell.kind)).fold(0.0, f64::max);
    let mut lines: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for value in published.iter().filter(|value| value.metric == metric && value.value > 0.0) {
        let Some((system, condition)) = value.condition.split_once("; ") else { continue };
        let Some((system, counterpart)) = known_system(system) else { continue };
        let Some(kind) = published_kind(condition) else { continue };
        let Some(x) = x(kind).filter(|x| *x <= most) else { continue };
        if measured.iter().any(|cell| cell.system == counterpart) {
            lines.entry(system).or_default().push((x, y(value.value, kind)));
        }
    }
    let series = lines.into_iter();
    series.map(|(system, points)| Series::new(format!("{system}, published"), Mark::Published, points)).collect()
}

/// Returns the legend of a published system, and our counterpart; `None` for variants of the study's prototype.
fn known_system(name: &str) -> Option<(&str, &str)> {
    match name {
        "git" | "hg" | "bup" | "copy" => Some((name, name)),
        "dmv" | "prototype2x1mem" => Some(("DMV prototype 2x1", "own-2x1")),
        _ => None,
    }
}

fn published_kind(condition: &str) -> Option<CellKind> {
    if let Some(count) = condition.strip_suffix(" files") {
        return count.parse().ok().map(CellKind::ManyFiles);
    }
    let size = condition.strip_prefix("a file of ")?.parse::<Bytes>().ok()?;
    Some(CellKind::FileSize(size.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vcs_scaling::measurements::tests::cell;

    #[test]
    fn store_that_lost_data_is_in_no_figure() {
        let of = |verified| {
            let one = MeasuredCell { verified, ..cell("git", CellKind::ManyFiles(100), 0) };
            analyse(&[one], &[], "metric,condition,value,unit,source,note\n").unwrap()
        };
        assert!(!of(Some(true)).figures.is_empty() && !of(None).figures.is_empty());
        let lost = of(Some(false));
        assert!(lost.figures.is_empty());
        assert!(lost.caveats.iter().any(|message| message.contains("1 of 1 cells do not hold")), "{:?}", lost.caveats);
    }
}
