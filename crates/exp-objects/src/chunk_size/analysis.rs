//! Tables and figures of chunk-size.

use super::{Cell, Deduplicated};
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Analysis, Axis, Better, Failure, Figure, FigureKind, Mark, Rows, Series};
use senesce_objstore::ChunkerSpec;
use senesce_objstore::chunker::{law, study};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn analyse(cells: &[Cell], history: &[Deduplicated], published: &str) -> Result<Analysis, Failure> {
    let published = published::parse(published).map_err(|error| Failure::usage(error.to_string()))?;
    let known = PublishedBounds::new(&published);
    let (all, saved) = (quantities(cells, &known), deduplication(history));
    let result = match (cells, history) {
        ([_], []) => all.json().get_mut(0).map(serde_json::Value::take).unwrap_or_default(),
        _ => json!({"cells": all.json(), "deduplication": saved.json()}),
    };
    let mut tables = vec![all.table("cells", "Chunk sizes on random bytes")];
    let mut figures = surface_figures(cells, &known);
    if let Some(figure) = distribution_figure(cells) {
        figures.push(figure);
    }
    if !history.is_empty() {
        tables.push(saved.table("deduplication", "Deduplication over versions"));
        figures.push(history_figure(history));
    }
    Ok(Analysis {
        title: "Chunk sizes and deduplication".into(),
        summary: format!("{} chunkers on the study's random bytes; {} on versioned data.", cells.len(), history.len()),
        figures,
        tables,
        findings: Vec::new(),
        caveats: vec!["Throughput is bytes per second of CPU time on one core.".into()],
        result,
    })
}

#[derive(Default)]
pub(super) struct PublishedBounds(BTreeMap<String, (f64, f64)>);

impl PublishedBounds {
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

fn law_mean(cell: &Cell) -> Option<f64> {
    let ChunkerSpec::RollingSum { window, divisor, reset } = cell.chunker else { return None };
    let mean = law::expected_mean(window as u64, divisor.into(), reset, cell.chunks.max(1));
    mean.is_finite().then_some(mean)
}

/// Returns the values of all trials.
pub(super) fn quantities<'a>(cells: impl IntoIterator<Item = &'a Cell>, known: &PublishedBounds) -> Rows<&'a Cell> {
    let rolling = |cell: &Cell| match cell.chunker {
        ChunkerSpec::RollingSum { window, divisor, reset } => Some((window as u64, u64::from(divisor), reset)),
        _ => None,
    };
    let (window, divisor) = (move |cell: &Cell| Some(rolling(cell)?.0), move |cell: &Cell| Some(rolling(cell)?.1));
    let reset = move |cell: &Cell| Some(rolling(cell)?.2);
    let round = |value: Option<f64>| value.map(|value| (value * 10.0).round() / 10.0);
    let neither = Better::Neither;
    Rows::of(cells)
        .condition("window", |cell| window(cell).unwrap_or(0))
        .condition("reset", |cell| if reset(cell) == Some(true) { "yes" } else { "no" })
        .condition("divisor", |cell| divisor(cell).unwrap_or(0))
        // Without the chunker as a condition, which would make each divisor a series of its own.
        .measured("mean chunk by divisor", "bytes", neither, |cell| cell.mean)
        .measured("chunks that differ", "chunks", neither, |cell| cell.differ)
        .condition("chunker", |cell| cell.chunker)
        .condition("smaller", |cell| if divisor(cell) < window(cell) { "divisor" } else { "window" })
        .field("algorithm", |cell| cell.chunker.algorithm())
        .column("chunker", |cell| cell.chunker)
        .key("chunker")
        .field("window", window)
        .measured("divisor", "bytes", neither, divisor)
        .key("divisor")
        .measured("window plus divisor", "bytes", neither, |cell| Some(window(cell)? + divisor(cell)?))
        .field("reset", reset)
        .measured("mean_chunk_size", "bytes", neither, |cell| cell.mean)
        .key("mean")
        .measured("sd_chunk_size", "bytes", neither, |cell| cell.sd)
        .key("sd")
        .column("mean (bytes)", |cell| round(cell.mean))
        .column("sd (bytes)", |cell| round(cell.sd))
        .column("law (bytes)", |cell| round(law_mean(cell)))
        .column("published mean (bytes)", |cell| known.of(cell).map(|(mean, _)| mean))
        .key("published_mean")
        .column("published sd (bytes)", |cell| known.of(cell).map(|(_, sd)| sd))
        .key("published_sd")
        .column("chunks", |cell| cell.chunks)
        .key("chunks")
        .field("bytes_read", |cell| cell.bytes)
        .field("gave_up", |cell| cell.gave_up)
        .measured("mean by the law", "bytes", neither, law_mean)
        .key("law_mean")
        .field("bytes_per_second", |cell| cell.bytes_per_second)
        .column("throughput (GB/s)", |cell| cell.bytes_per_second.map(|rate| rate / 1e9))
}

fn deduplication(history: &[Deduplicated]) -> Rows<&Deduplicated> {
    Rows::of(history)
        .column("chunker", |one| one.chunker)
        .key("chunker")
        .column("data", |one| &one.data)
        .key("data")
        .field("versions", |one| one.versions)
        .column("bytes", |one| one.totals.bytes)
        .key("bytes")
        .column("kept bytes", |one| one.totals.unique_bytes)
        .key("unique_bytes")
        .field("chunks", |one| one.totals.chunks)
        .column("deduplication", |one| one.totals.ratio())
        .key("deduplication")
        .column("kept chunks", |one| one.totals.unique_chunks)
        .key("unique_chunks")
        .column("mean kept chunk (bytes)", |one| {
            one.totals.unique_bytes as f64 / one.totals.unique_chunks.max(1) as f64
        })
        .field("bytes_per_second", speed)
        .column("throughput (GB/s)", |one| speed(one) / 1e9)
}

fn speed(one: &Deduplicated) -> f64 {
    one.totals.bytes as f64 / one.totals.cutting_seconds.max(1e-9)
}

const DRAWN: [usize; 6] = [256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18];

fn surface_figures(cells: &[Cell], known: &PublishedBounds) -> Vec<Figure> {
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

/// Returns the number of chunks of the trials in a figure; trials that gave up have fewer.
fn device(cells: &[&Cell]) -> String {
    let most = cells.iter().map(|cell| cell.chunks).max().unwrap_or(0);
    format!("{most} chunks of xorshift bytes")
}

fn caption(with_reset: bool) -> String {
    let flat = "One line per window w. A line is flat if larger divisors have only one multiple within reach of the \
                sum. Every smaller power of two also divides it.";
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
        let known = PublishedBounds(BTreeMap::new());
        let of = |chunks| surface_figures(&[cell("rolling-sum:256:512", chunks)], &known).remove(0).device;
        assert_eq!(
            (of(100), of(1000)),
            ("100 chunks of xorshift bytes".into(), "1000 chunks of xorshift bytes".into())
        );
    }
}
