//! Table, figure and findings of the sweep.

use super::Cell;
use senesce_core::analysis::Better;
use senesce_core::{Analysis, Axis, Bytes, Figure, FigureKind, Mark, Series, Table};
use senesce_stats::{Middle, middle};
use serde_json::json;

/// Everything from the cells.
pub fn analyse(cells: &[Cell], latency: &str) -> Analysis {
    let means = means(cells);
    let columns = ["period (ms)", "threshold", "operations/s", "median (us)", "p99 (us)", "evicted", "fetched"];
    let mut table = Table::new("sweep", "Period and threshold of the evictor, means over the rounds", &columns);
    for cell in &means {
        table.row(vec![
            json!(cell.period_ms),
            json!(Bytes(cell.threshold_bytes).to_string()),
            json!(cell.ops_per_second),
            json!(cell.p50_us),
            json!(cell.p99_us),
            json!(cell.evicted),
            json!(cell.fetched),
        ]);
    }
    Analysis {
        title: "How often to look, and how much to keep".into(),
        summary: "One thread reads and writes blocks; four fifths of the accesses go to one fifth of the file.".into(),
        figures: vec![figure(&means, cells, latency)],
        tables: vec![table],
        caveats: vec![format!("modelled: latency of the cold store: {latency}")],
        result: json!({"cells": means, "cold_latency": latency}),
        ..Analysis::default()
    }
}

/// Median rates over the rounds by period.
fn rates(cells: &[&Cell]) -> Vec<(f64, Middle)> {
    let mut periods: Vec<f64> = cells.iter().map(|cell| cell.period_ms).collect();
    periods.sort_by(f64::total_cmp);
    periods.dedup();
    let of = |period: f64| -> Vec<f64> {
        cells.iter().filter(|cell| cell.period_ms == period).map(|cell| cell.ops_per_second).collect()
    };
    periods.into_iter().filter_map(|period| Some((period, middle(&of(period))?))).collect()
}

/// Means over the rounds, cell by cell.
fn means(cells: &[Cell]) -> Vec<Cell> {
    let mut means: Vec<Cell> = Vec::new();
    for cell in cells {
        if means.iter().any(|mean| mean.period_ms == cell.period_ms && mean.threshold_bytes == cell.threshold_bytes) {
            continue;
        }
        let same: Vec<&Cell> = cells
            .iter()
            .filter(|other| other.period_ms == cell.period_ms && other.threshold_bytes == cell.threshold_bytes)
            .collect();
        let mean = |value: &dyn Fn(&Cell) -> f64| same.iter().map(|cell| value(cell)).sum::<f64>() / same.len() as f64;
        means.push(Cell {
            ops_per_second: mean(&|cell| cell.ops_per_second),
            p50_us: mean(&|cell| cell.p50_us),
            p99_us: mean(&|cell| cell.p99_us),
            evicted: mean(&|cell| cell.evicted as f64) as u64,
            fetched: mean(&|cell| cell.fetched as f64) as u64,
            ..cell.clone()
        });
    }
    means.sort_by(|a, b| {
        (a.threshold_bytes, a.period_ms)
            .partial_cmp(&(b.threshold_bytes, b.period_ms))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    means
}

fn figure(means: &[Cell], cells: &[Cell], latency: &str) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for cell in means {
        let name = format!("threshold {}", Bytes(cell.threshold_bytes));
        if series.iter().any(|series| series.name == name) {
            continue;
        }
        let same: Vec<&Cell> = cells.iter().filter(|other| other.threshold_bytes == cell.threshold_bytes).collect();
        let mut line = Series { name, mark: Mark::Measured, ..Series::default() };
        for (period, rate) in rates(&same) {
            line.points.push((period, rate.value));
            line.intervals.push(rate.ends());
        }
        series.push(line);
    }
    Figure {
        id: "sweep".into(),
        title: "Operations per second by period and threshold".into(),
        caption: "Median over the rounds, with its 95 % interval from 5 rounds on.".into(),
        device: format!("memory; cold store modelled: {latency}"),
        better: Better::Higher,
        kind: FigureKind::Lines {
            x: Axis::linear("period (ms)").log10(),
            y: Axis::linear("operations/s").from_zero(),
            series,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_averaged_over_the_rounds() {
        let cell = |round, ops| Cell {
            round,
            period_ms: 10.0,
            threshold_bytes: 40 << 20,
            ops_per_second: ops,
            p50_us: 1.0,
            p99_us: 2.0,
            evicted: 10,
            fetched: 4,
        };
        let means = means(&[cell(0, 100.0), cell(1, 300.0)]);
        assert_eq!((means.len(), means[0].ops_per_second), (1, 200.0));
    }
}
