//! Figures and tables of an aging: distributions, fullness, speed, free space.

mod answer;
mod summary;

pub(crate) use answer::{answer_table, answer_words, modelled_answer_table};
pub(crate) use summary::{plan_table, summary_table};

use super::events::{ExaminedLayout, ExecutionEnd, ExtentSample, Sample};
use super::final_layout::READ_ORDER;
use senesce_aging::measure::{Histogram, Measures};
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series};
use senesce_core::{Bytes, Rows, Table};
use senesce_layout::{FreeSpace, LayoutSummary};

pub fn distributions(measures: &Measures, device: &str) -> Vec<Figure> {
    let ages = Axis::categories("relative age, right edge of the bin", labels(&measures.ages, plain));
    let sizes = Axis::categories("file size", labels(&measures.sizes, |value| Bytes(value as u64).to_string()));
    let depths = Axis::categories("directory depth", labels(&measures.depths, plain));
    vec![
        distribution("ages", "Age of the live files", ages, &measures.ages, device),
        distribution("sizes", "Size of the live files", sizes, &measures.sizes, device),
        distribution("depths", "Depth of the live files", depths, &measures.depths, device),
    ]
}

fn labels(histogram: &Histogram, words: impl Fn(f64) -> String) -> Vec<String> {
    histogram.labels.iter().map(|label| words(*label)).collect()
}

fn plain(value: f64) -> String {
    format!("{value}")
}

fn distribution(id: &str, title: &str, x: Axis, histogram: &Histogram, device: &str) -> Figure {
    let total = histogram.files.iter().sum::<u64>().max(1) as f64;
    let points =
        |values: Vec<f64>| values.into_iter().enumerate().map(|(index, value)| (index as f64, value)).collect();
    let target = histogram.target.iter().map(|share| share * 100.0).collect();
    let reached = histogram.files.iter().map(|files| *files as f64 * 100.0 / total).collect();
    Figure {
        id: id.into(),
        title: title.into(),
        caption: "Share of all live files in each bin: the profile's target and the result.".into(),
        device: device.into(),
        better: Better::Neither,
        kind: FigureKind::Bars {
            x,
            y: Axis::linear("share of files (%)").from_zero(),
            series: vec![
                Series { name: "target".into(), mark: Mark::Predicted, points: points(target), ..Series::default() },
                Series { name: "reached".into(), mark: Mark::Measured, points: points(reached), ..Series::default() },
            ],
        },
    }
}

fn operations_axis() -> Axis {
    Axis::linear("operations (thousands)").from_zero()
}

fn thousands(sample: &Sample) -> f64 {
    sample.operations as f64 / 1e3
}

/// Fullness reached, and the target.
pub fn fullness(samples: &[Sample], target: f64, device: &str) -> Figure {
    let fullness: Vec<(f64, f64)> = samples.iter().map(|sample| (thousands(sample), sample.fullness * 100.0)).collect();
    let ends = fullness
        .first()
        .zip(fullness.last())
        .map_or(Vec::new(), |(first, last)| vec![(first.0, target * 100.0), (last.0, target * 100.0)]);
    Figure {
        id: "fullness".into(),
        title: "Fullness".into(),
        caption:
            "Allocated bytes of live files over the raw size: rising in the fill, constant while files are replaced."
                .into(),
        device: device.into(),
        better: Better::Neither,
        kind: FigureKind::Lines {
            x: operations_axis(),
            y: Axis::linear("fullness (%)").from_zero(),
            series: vec![
                Series { name: "reached".into(), mark: Mark::Measured, points: fullness, ..Series::default() },
                Series { name: "target".into(), mark: Mark::Predicted, points: ends, ..Series::default() },
            ],
        },
    }
}

pub fn time_per_operation(samples: &[Sample], device: &str) -> Figure {
    let times: Vec<(f64, f64)> = samples
        .windows(2)
        .filter(|pair| pair[1].seconds > pair[0].seconds && pair[1].operations > pair[0].operations)
        .map(|pair| {
            let done = (pair[1].operations - pair[0].operations) as f64;
            (thousands(&pair[1]), (pair[1].seconds - pair[0].seconds) / done * 1e6)
        })
        .collect();
    Figure {
        id: "time-per-operation".into(),
        title: "Time per operation".into(),
        caption: "Mean time of a create or delete since the previous point. A rise over the course of the aging is caused by \
                  the aged file system itself."
            .into(),
        device: device.into(),
        better: Better::Lower,
        kind: FigureKind::Lines {
            x: operations_axis(),
            y: Axis::linear("microseconds per operation").from_zero(),
            series: vec![Series {
                name: "operations".into(),
                mark: Mark::Measured,
                points: times,
                ..Series::default()
            }],
        },
    }
}

pub(crate) fn extents(samples: &[ExtentSample], device: &str) -> Figure {
    let at = |sample: &ExtentSample| (sample.overwrites, sample.extents as f64 / sample.files.max(1) as f64);
    Figure {
        id: "extents".into(),
        title: "Extents over the course of the aging".into(),
        caption: "Mean number of extents of a live file. Data still awaiting allocation are not counted.".into(),
        device: device.into(),
        better: Better::Lower,
        kind: FigureKind::Lines {
            x: Axis::linear("overwrites (bytes created / size)").from_zero(),
            y: Axis::linear("extents per file"),
            series: vec![Series {
                name: "extents".into(),
                mark: Mark::Measured,
                points: samples.iter().map(at).collect(),
                ..Series::default()
            }],
        },
    }
}

pub fn free_space(space: &FreeSpace, device: &str) -> Figure {
    let names = space.buckets.iter().map(|bucket| Bytes(bucket.from_bytes).to_string()).collect();
    let points = space.buckets.iter().enumerate().map(|(index, bucket)| (index as f64, bucket.percent)).collect();
    let words = space.buckets.iter().map(|bucket| format!("{} extents", bucket.extents)).collect();
    Figure {
        id: "free-space".into(),
        title: "Free space by size of free extent".into(),
        caption: "A fresh file system has nearly all free space in a few large extents; aging splits it into small \
             ones."
            .into(),
        device: device.into(),
        better: Better::Neither,
        kind: FigureKind::Bars {
            x: Axis::categories("free extents from this size to twice it", names),
            y: Axis::linear("share of free space (%)").from_zero(),
            series: vec![Series {
                name: "free space".into(),
                mark: Mark::Measured,
                points,
                labels: words,
                ..Series::default()
            }],
        },
    }
}

pub fn ranks_table(executed: &ExecutionEnd) -> Option<Table> {
    let rows = Rows::of(&executed.ranks)
        .column("rank", |row| &row.rank)
        .column("host", |row| &row.host)
        .column("operations", |row| &row.operations);
    let rows = match executed.is_timed() {
        true => rows.column("seconds", |row| &row.seconds).column("waiting (s)", |row| row.waited_seconds),
        false => rows,
    };
    let table = rows
        .column("CPU (s)", |row| row.cpu_seconds.0 + row.cpu_seconds.1)
        .column("peak memory (MiB)", |row| row.peak_rss_bytes >> 20)
        .table("ranks", "Ranks");
    (!executed.ranks.is_empty()).then_some(table)
}

/// Returns the modelled cost of a full read, with the references that separate its causes.
pub fn cost_table(examined: &ExaminedLayout) -> Option<Table> {
    let table = Rows::of(&examined.read_times)
        .column("drive", |read| &read.drive)
        .column("in order (s)", |read| read.times.in_order)
        .column("unaged (s)", |read| read.times.created)
        .column("aged (s)", |read| read.times.aged)
        .column("order", |read| read.times.order_factor())
        .column("placement", |read| read.times.placement_factor())
        .column("pieces", |read| read.times.pieces_factor())
        .table("cost", "Causes of the modelled read time, as factors: order, placement and pieces");
    (!examined.read_times.is_empty()).then_some(table)
}

/// Answers what age costs, for the first drive.
pub fn cost_words(examined: &ExaminedLayout) -> Option<String> {
    let read = examined.read_times.first()?;
    let times = read.times;
    Some(format!(
        "Reading all files in {} order takes about {:.1} times as long as unaged ({:.1} s instead of {:.1} s, modelled for the disk {}): {:.1} \
         times because replaced files lie elsewhere (placement), {:.1} times because files are in pieces.{}",
        READ_ORDER.name(),
        times.age_factor(),
        times.aged,
        times.created,
        read.drive,
        times.placement_factor(),
        times.pieces_factor(),
        new_file_words(examined).unwrap_or_default()
    ))
}

/// Describes the pieces of free space that new files get.
fn new_file_words(examined: &ExaminedLayout) -> Option<String> {
    let free = examined.layout.as_ref()?.free_space.as_ref().filter(|free| free.extents > 0)?;
    let kib = |bytes: f64| (bytes / 1024.0).round();
    Some(format!(
        " New files get pieces of at most {} KiB, the largest free extent; the mean is {} KiB.",
        kib(free.max_bytes as f64),
        kib(free.avg_bytes)
    ))
}

pub fn layout_table(layout: &LayoutSummary) -> Table {
    let mut table = Table::new("layout", "Layout", &["measure", "value"]);
    table.row(("files", layout.files));
    table.row(("extents", layout.extents));
    table.row(("fragmented files", layout.fragmented_files));
    table.row(("static layout score (1 is contiguous)", layout.static_layout_score));
    table.row(("tree layout score (1 is contiguous)", layout.tree_layout_score));
    if let Some(space) = &layout.free_space {
        table.row(("free extents", space.extents));
        table.row(("mean free extent (KiB)", space.avg_bytes / 1024.0));
        table.row(("largest free extent (KiB)", space.max_bytes as f64 / 1024.0));
    }
    table
}

pub fn layout_figures(examined: Option<&ExaminedLayout>, device: &str) -> Vec<Figure> {
    let map = examined.and_then(|examined| examined.map.clone()).map(|map| Figure { device: device.into(), ..map });
    let space = examined.and_then(|examined| examined.layout.as_ref()).and_then(|layout| layout.free_space.as_ref());
    map.into_iter().chain(space.map(|space| free_space(space, device))).collect()
}
