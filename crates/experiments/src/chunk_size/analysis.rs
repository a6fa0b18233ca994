//! Tables, figures and findings of chunk-size.

use super::{Cell, Deduplicated};
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Analysis, Axis, Better, Failure, Figure, FigureKind, Finding, Mark, Series, Table, Verdict};
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
    let mut findings = Vec::new();
    findings.extend(reproduction_finding(cells, &known));
    findings.extend(window_finding(cells));
    findings.extend(divisor_finding(cells));
    findings.extend(law_finding(cells));
    findings.extend(history_finding(history));
    Ok(Analysis {
        title: "Chunk sizes, and what chunks save".into(),
        summary: format!("{} chunkers on the study's random bytes; {} on versioned data.", cells.len(), history.len()),
        figures,
        tables,
        findings,
        caveats: vec!["Throughput is bytes per second of CPU time on one core.".into()],
        result: result(cells, history, &known),
    })
}

/// Published mean and deviation by chunker.
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

/// Whether a value prints as published, a tie in the last digit counting as equal.
fn prints_as(value: f64, printed: f64) -> bool {
    (value - printed).abs() <= 0.05 + 1e-9
}

fn law_mean(cell: &Cell) -> Option<f64> {
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
        table.row(vec![
            json!(cell.chunker),
            json!(round(cell.mean)),
            json!(round(cell.sd)),
            json!(round(law_mean(cell))),
            json!(published.map(|(mean, _)| mean)),
            json!(published.map(|(_, sd)| sd)),
            json!(cell.chunks),
            json!(cell.bytes_per_second.map(|rate| rate / 1e9)),
        ]);
    }
    table
}

/// Windows that are drawn; all are in the table.
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
    for (with_reset, id, words) in [(false, "mean-without-reset", "without"), (true, "mean-with-reset", "with")] {
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
        figures.push(Figure {
            id: id.into(),
            title: format!("Mean chunk size of the rolling sum, {words} window reset"),
            caption: "One line per window w. Where a line turns flat, larger divisors have only one multiple within reach of the sum: the one that every smaller power of two divides too.".into(),
            device: "100 chunks of xorshift bytes".into(),
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
        caption: "Share of chunks per quarter octave. The limits are a quarter and four times the wanted mean.".into(),
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
    let mut table = Table::new(
        "deduplication",
        "Deduplication over versions",
        &[
            "chunker",
            "data",
            "bytes",
            "kept bytes",
            "deduplication",
            "kept chunks",
            "mean kept chunk (bytes)",
            "throughput (GB/s)",
        ],
    );
    for one in history {
        table.row(vec![
            json!(one.chunker),
            json!(one.data),
            json!(one.totals.bytes),
            json!(one.totals.unique_bytes),
            json!(one.totals.ratio()),
            json!(one.totals.unique_chunks),
            json!(one.totals.unique_bytes as f64 / one.totals.unique_chunks.max(1) as f64),
            json!(speed(one) / 1e9),
        ]);
    }
    table
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
        title: "What chunks save on versioned data".into(),
        caption: "Bytes of all versions over bytes kept, by the mean chunk size that really came out.".into(),
        device: history.first().map_or_else(String::new, |one| one.data.clone()),
        better: Better::Higher,
        kind: FigureKind::Lines {
            x: Axis::linear("mean chunk size").log2().in_bytes(),
            y: Axis::linear("bytes of all versions / bytes kept").from_zero(),
            series: series.collect(),
        },
    }
}

fn reproduction_finding(cells: &[Cell], known: &Known) -> Option<Finding> {
    let compared: Vec<(&Cell, (f64, f64))> = cells.iter().filter_map(|cell| Some((cell, known.of(cell)?))).collect();
    let equal = compared
        .iter()
        .filter(|(cell, (mean, sd))| {
            cell.mean.is_some_and(|ours| prints_as(ours, *mean)) && cell.sd.is_some_and(|ours| prints_as(ours, *sd))
        })
        .count();
    (!compared.is_empty()).then(|| Finding {
        claim: "mean and deviation of the rolling sum are as published, to the printed digit".into(),
        published: "160 cells, windows 2^8 to 2^17, divisors 2^8 to 2^15, with and without window reset".into(),
        measured: format!("{equal} of {} cells agree", compared.len()),
        verdict: if equal == compared.len() { Verdict::Seen } else { Verdict::NotSeen },
        note: "one published value, 300.8, is a rounding tie (300.85)".into(),
    })
}

/// Median and largest relative error in percent.
fn errors(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let errors: Vec<f64> = values.map(|error| 100.0 * error.abs()).collect();
    Some((senesce_stats::median(&errors)?, errors.iter().copied().fold(0.0, f64::max)))
}

fn window_finding(cells: &[Cell]) -> Option<Finding> {
    let of = |wanted: bool| {
        errors(cells.iter().filter_map(move |cell| match cell.chunker {
            ChunkerSpec::RollingSum { window, divisor, reset } if reset == wanted && (divisor as usize) < window => {
                Some(cell.mean? / (window as f64 + f64::from(divisor)) - 1.0)
            }
            _ => None,
        }))
    };
    let (with, without) = (of(true)?, of(false)?);
    Some(Finding {
        claim: "the mean chunk size is about window + divisor when the divisor is the smaller one".into(),
        published: "said of the rolling hash in general".into(),
        measured: format!(
            "median error {:.0} % with the window reset after every chunk, {:.0} % without",
            with.0, without.0
        ),
        verdict: if without.0 < 10.0 { Verdict::Seen } else { Verdict::NotSeen },
        note: "true only of the version with the reset mistake; without it the mean is about the divisor".into(),
    })
}

fn divisor_finding(cells: &[Cell]) -> Option<Finding> {
    let mut grows = (0, 0);
    for pair in cells.windows(2) {
        let (Some(first), Some(second)) = (pair[0].mean, pair[1].mean) else { continue };
        match (pair[0].chunker, pair[1].chunker) {
            (
                ChunkerSpec::RollingSum { window: a, divisor: d, reset: r },
                ChunkerSpec::RollingSum { window: b, divisor: e, reset: s },
            ) if a == b && r == s && d < e => {
                grows.0 += usize::from(second >= first);
                grows.1 += 1;
            }
            _ => {}
        }
    }
    (grows.1 > 0).then(|| Finding {
        claim: "larger divisors result in smaller chunks".into(),
        published: "a conclusion of the thesis, against its own data".into(),
        measured: format!("doubling the divisor did not shrink chunks in {} of {} steps", grows.0, grows.1),
        verdict: if grows.0 * 2 < grows.1 { Verdict::Seen } else { Verdict::NotSeen },
        note: "it is the other way round".into(),
    })
}

fn law_finding(cells: &[Cell]) -> Option<Finding> {
    let (median, largest) = errors(
        cells
            .iter()
            .filter(|cell| !cell.gave_up && matches!(cell.chunker, ChunkerSpec::RollingSum { reset: false, .. }))
            .filter_map(|cell| Some(cell.mean? / law_mean(cell)? - 1.0)),
    )?;
    Some(Finding {
        claim: "the flat tops are chance".into(),
        published: "said of divisors beyond which the mean no longer grows".into(),
        measured: format!(
            "the normal law of the sum predicts every mean: median error {median:.0} %, largest {largest:.0} %"
        ),
        verdict: if median < 10.0 { Verdict::NotSeen } else { Verdict::Seen },
        note: "100 chunks alone scatter by about 10 %; the law has no free parameter".into(),
    })
}

fn history_finding(history: &[Deduplicated]) -> Option<Finding> {
    let best = |name: &str| {
        let ratios = history.iter().filter(|one| one.chunker.algorithm() == name).map(|one| one.totals.ratio());
        ratios.max_by(f64::total_cmp)
    };
    let (fastcdc, fixed) = (best("fastcdc")?, best("fixed")?);
    Some(Finding {
        claim: "cutting by content saves more than cutting at fixed places".into(),
        published: String::new(),
        measured: format!("best deduplication: FastCDC {fastcdc:.2}, fixed size {fixed:.2}"),
        verdict: if fastcdc > 1.02 * fixed {
            Verdict::Seen
        } else if fixed > 1.02 * fastcdc {
            Verdict::NotSeen
        } else {
            Verdict::NoDifference
        },
        note: "depends on the data: fixed sizes suit files that are overwritten in place".into(),
    })
}
