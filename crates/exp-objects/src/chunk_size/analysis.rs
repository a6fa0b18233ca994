//! Tables and figures of chunk-size.

use super::{Cell, Deduplicated};
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Analysis, Axis, Better, Failure, Figure, FigureKind, Mark, Rows, Series, Table};
use senesce_objstore::ChunkerSpec;
use senesce_objstore::chunker::{law, study};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn analyse(cells: &[Cell], history: &[Deduplicated], published: &str) -> Result<Analysis, Failure> {
    let published = published::parse(published).map_err(|error| Failure::usage(error.to_string()))?;
    let known = Known::new(&published);
    let mut tables = vec![cell_table(cells, &known)];
    let mut figures = surface_figures(cells, &known);
    if let Some(figure) = distribution_figure(cells) {
        figures.push(figure);
    }
    if !history.is_empty() {
        tables.push(history_table(history));
        figures.push(history_figure(history));
    }
    Ok(Analysis {
        title: "Chunk sizes and deduplication".into(),
        summary: format!("{} chunkers on the study's random bytes; {} on versioned data.", cells.len(), history.len()),
        figures,
        tables,
        findings: Vec::new(),
        caveats: vec!["Throughput is bytes per second of CPU time on one core.".into()],
        result: result(cells, history, &known),
    })
}

struct Known(BTreeMap<String, (f64, f64)>);

impl Known {
    fn new(published: &[PublishedValue]) -> Self {
        let mut known: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for value in published {
            let entry = known.entry(value.condition.clone()).or_insert((f64::NAN, f64::NAN));
            match value.metric.as_str() {
                "mean_chunk_size" => entry.0 = value.value,
                _ => entry.1 = value.value,
            }
        }
        Self(known)
    }

    fn of(&self, cell: &Cell) -> Option<(f64, f64)> {
        let study = cell.chunks == study::CHUNKS as u64;
        self.0.get(&cell.chunker.to_string()).copied().filter(|_| study)
    }
}

pub(super) fn law_mean(cell: &Cell) -> Option<f64> {
    let ChunkerSpec::RollingSum { window, divisor, reset } = cell.chunker else { return None };
    let mean = law::expected_mean(window as u64, divisor.into(), reset, cell.chunks.max(1));
    mean.is_finite().then_some(mean)
}

fn cell_json(cell: &Cell, known: &Known) -> Value {
    let published = known.of(cell);
    let (window, divisor, reset) = match cell.chunker {
        ChunkerSpec::RollingSum { window, divisor, reset } => (json!(window), json!(divisor), json!(reset)),
        _ => (Value::Null, Value::Null, Value::Null),
    };
    json!({
        "algorithm": cell.chunker.algorithm(),
        "chunker": cell.chunker,
        "window": window,
        "divisor": divisor,
        "reset": reset,
        "mean": cell.mean,
        "sd": cell.sd,
        "chunks": cell.chunks,
        "bytes_read": cell.bytes,
        "gave_up": cell.gave_up,
        "law_mean": law_mean(cell),
        "published_mean": published.map(|(mean, _)| mean),
        "published_sd": published.map(|(_, sd)| sd),
        "bytes_per_second": cell.bytes_per_second,
    })
}

fn result(cells: &[Cell], history: &[Deduplicated], known: &Known) -> Value {
    if let ([cell], []) = (cells, history) {
        return cell_json(cell, known);
    }
    let history: Vec<Value> = history
        .iter()
        .map(|one| {
            json!({
                "chunker": one.chunker, "data": one.data, "versions": one.versions,
                "bytes": one.totals.bytes, "unique_bytes": one.totals.unique_bytes,
                "chunks": one.totals.chunks, "unique_chunks": one.totals.unique_chunks,
                "deduplication": one.totals.ratio(), "bytes_per_second": speed(one),
            })
        })
        .collect();
    json!({"cells": cells.iter().map(|cell| cell_json(cell, known)).collect::<Vec<_>>(), "deduplication": history})
}

fn speed(one: &Deduplicated) -> f64 {
    one.totals.bytes as f64 / one.totals.cutting_seconds.max(1e-9)
}

fn cell_table(cells: &[Cell], known: &Known) -> Table {
    let mut table = Table::new(
        "cells",
        "Chunk sizes on random bytes",
        &[
            "chunker",
            "mean (bytes)",
            "sd (bytes)",
            "law (bytes)",
            "published mean (bytes)",
            "published sd (bytes)",
            "chunks",
            "throughput (GB/s)",
        ],
    );
    for cell in cells {
        let published = known.of(cell);
        let round = |value: Option<f64>| value.map(|value| (value * 10.0).round() / 10.0);
        table.row((
            &cell.chunker,
            round(cell.mean),
            round(cell.sd),
            round(law_mean(cell)),
            published.map(|(mean, _)| mean),
            published.map(|(_, sd)| sd),
            &cell.chunks,
            cell.bytes_per_second.map(|rate| rate / 1e9),
        ));
    }
    table
}

const DRAWN: [usize; 6] = [256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18];

fn surface_figures(cells: &[Cell], known: &Known) -> Vec<Figure> {
    let windows: BTreeSet<usize> = cells
        .iter()
        .filter_map(|cell| match cell.chunker {
            ChunkerSpec::RollingSum { window, .. } => Some(window),
            _ => None,
        })
        .collect();
    let drawn: Vec<usize> = if windows.len() <= 6 {
        windows.into_iter().collect()
    } else {
        DRAWN.into_iter().filter(|w| windows.contains(w)).collect()
    };
    let mut figures = Vec::new();
    for (with_reset, id, text) in [(false, "mean-without-reset", "without"), (true, "mean-with-reset", "with")] {
        let mut series = Vec::new();
        for window in &drawn {
            let of: Vec<(f64, &Cell)> = cells
                .iter()
                .filter_map(|cell| match cell.chunker {
                    ChunkerSpec::RollingSum { window: w, divisor, reset } if w == *window && reset == with_reset => {
                        Some((f64::from(divisor), cell))
                    }
                    _ => None,
                })
                .collect();
            let points = |value: &dyn Fn(&Cell) -> Option<f64>| -> Vec<(f64, f64)> {
                of.iter().filter_map(|(divisor, cell)| Some((*divisor, value(cell)?))).collect()
            };
            let kinds = [
                ("", Mark::Measured, points(&|cell| cell.mean)),
                (", published", Mark::Published, points(&|cell| known.of(cell).map(|(mean, _)| mean))),
                (", law", Mark::Predicted, points(&law_mean)),
            ];
            for (suffix, mark, points) in kinds.into_iter().filter(|(_, _, points)| !points.is_empty()) {
                series.push(Series { name: format!("w = {window}{suffix}"), mark, points, ..Series::default() });
            }
        }
        if series.is_empty() {
            continue;
        }
        let drawn_cells: Vec<&Cell> = cells
            .iter()
            .filter(|cell| matches!(cell.chunker, ChunkerSpec::RollingSum { reset, .. } if reset == with_reset))
            .collect();
        figures.push(Figure {
            id: id.into(),
            title: format!("Mean chunk size of the rolling sum, {text} window reset"),
            caption: caption(with_reset),
            device: device(&drawn_cells),
            better: Better::Neither,
            kind: FigureKind::Lines {
                x: Axis::linear("divisor").log2(),
                y: Axis::linear("mean chunk size").log2().in_bytes(),
                series,
            },
        });
    }
    figures
}

/// The number of chunks of the trials in a figure; trials that gave up have fewer.
fn device(cells: &[&Cell]) -> String {
    let most = cells.iter().map(|cell| cell.chunks).max().unwrap_or(0);
    format!("{most} chunks of xorshift bytes")
}

fn caption(with_reset: bool) -> String {
    let flat = "One line per window w. A line is flat if larger divisors have only one multiple within reach of \
        the sum: the one that every smaller power of two also divides.";
    let after_reset = "The law is too low for large divisors: after a reset the sum starts anywhere, not next to \
        the multiple that it has just left.";
    if with_reset { format!("{flat} {after_reset}") } else { flat.into() }
}

fn distribution_figure(cells: &[Cell]) -> Option<Figure> {
    let series: Vec<Series> = cells
        .iter()
        .filter(|cell| matches!(cell.chunker, ChunkerSpec::FastCdc { .. }))
        .map(|cell| Series {
            name: cell.chunker.to_string(),
            points: cell
                .distribution
                .iter()
                .map(|(bound, count)| (*bound as f64, 100.0 * *count as f64 / cell.chunks.max(1) as f64))
                .collect(),
            ..Series::default()
        })
        .collect();
    (!series.is_empty()).then(|| Figure {
        id: "distribution".into(),
        title: "Chunk sizes of FastCDC".into(),
        caption: "Share of chunks per quarter octave. The limits are a quarter and four times the requested mean."
            .into(),
        device: "xorshift bytes".into(),
        better: Better::Neither,
        kind: FigureKind::Lines {
            x: Axis::linear("chunk size").log2().in_bytes(),
            y: Axis::linear("share of chunks (%)").from_zero(),
            series,
        },
    })
}

fn history_table(history: &[Deduplicated]) -> Table {
    Rows::of(history)
        .column("chunker", |one| &one.chunker)
        .column("data", |one| &one.data)
        .column("bytes", |one| &one.totals.bytes)
        .column("kept bytes", |one| one.totals.unique_bytes)
        .column("deduplication", |one| one.totals.ratio())
        .column("kept chunks", |one| one.totals.unique_chunks)
        .column("mean kept chunk (bytes)", |one| {
            one.totals.unique_bytes as f64 / one.totals.unique_chunks.max(1) as f64
        })
        .column("throughput (GB/s)", |one| speed(one) / 1e9)
        .table("deduplication", "Deduplication over versions")
}

fn history_figure(history: &[Deduplicated]) -> Figure {
    let mut by_algorithm: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for one in history {
        let mean = one.totals.bytes as f64 / one.totals.chunks.max(1) as f64;
        by_algorithm.entry(one.chunker.algorithm()).or_default().push((mean, one.totals.ratio()));
    }
    let series = by_algorithm.into_iter().map(|(name, mut points)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series { name: name.into(), points, ..Series::default() }
    });
    Figure {
        id: "deduplication".into(),
        title: "Deduplication of versioned data".into(),
        caption: "Bytes of all versions over bytes kept, by the measured mean chunk size.".into(),
        device: history.first().map_or_else(String::new, |one| one.data.clone()),
        better: Better::Higher,
        kind: FigureKind::Lines {
            x: Axis::linear("mean chunk size").log2().in_bytes(),
            y: Axis::linear("bytes of all versions / bytes kept").from_zero(),
            series: series.collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk_size::tests::cell;

    #[test]
    fn figure_states_the_chunks_of_its_trials() {
        let known = Known(BTreeMap::new());
        let of = |chunks| surface_figures(&[cell("rolling-sum:256:512", chunks)], &known).remove(0).device;
        assert_eq!(
            (of(100), of(1000)),
            ("100 chunks of xorshift bytes".into(), "1000 chunks of xorshift bytes".into())
        );
    }
}
