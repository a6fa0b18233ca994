//! Table, figure and findings of the sweep.

use super::Cell;
use senesce_core::analysis::Better;
use senesce_core::{Analysis, Axis, Bytes, Figure, FigureKind, Finding, Mark, Seed, Series, Table, Verdict};
use senesce_stats::bootstrap::{Estimate, bootstrap};
use senesce_stats::describe::median;
use serde_json::json;

/// Everything from the cells.
pub fn analyse(cells: &[Cell], latency: &str, seed: Seed) -> Analysis {
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
    let period = |cell: &Cell| format!("{} ms", cell.period_ms);
    let threshold = |cell: &Cell| Bytes(cell.threshold_bytes).to_string();
    let at = |keep: &dyn Fn(&Cell) -> bool| cells.iter().filter(|cell| keep(cell)).cloned().collect::<Vec<_>>();
    let (at_40_mib, at_10_ms) = (at(&|cell| cell.threshold_bytes == 40 << 20), at(&|cell| cell.period_ms == 10.0));
    Analysis {
        title: "How often to look, and how much to keep".into(),
        summary: "One thread reads and writes blocks; four fifths of the accesses go to one fifth of the file.".into(),
        figures: vec![figure(&means, cells, latency, seed)],
        tables: vec![table],
        findings: vec![
            Finding {
                claim: "at a threshold of 40 MB, a period of 10 ms serves as well as the best".into(),
                published: "10 ms, found by trial on a region of 2 GiB".into(),
                note: String::new(),
                ..chosen_against_best(&rates(&at_40_mib, period, seed), "10 ms")
            },
            Finding {
                claim: "at a period of 10 ms, a threshold of 40 MB serves as well as the best".into(),
                published: "40 MB, found by trial on a region of 2 GiB".into(),
                note: "more memory cannot serve worse, and what it costs is not part of the measure".into(),
                ..chosen_against_best(&rates(&at_10_ms, threshold, seed), "40 MiB")
            },
        ],
        caveats: vec![format!("modelled: latency of the cold store: {latency}")],
        result: json!({"cells": means, "cold_latency": latency}),
    }
}

/// Median rates with intervals over the rounds, by name.
fn rates(cells: &[Cell], name: impl Fn(&Cell) -> String, seed: Seed) -> Vec<(String, Estimate)> {
    let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
    for cell in cells {
        match groups.iter_mut().find(|(known, _)| *known == name(cell)) {
            Some((_, rates)) => rates.push(cell.ops_per_second),
            None => groups.push((name(cell), vec![cell.ops_per_second])),
        }
    }
    let estimate = |(name, rates): (String, Vec<f64>)| {
        let found = bootstrap(&rates, median, &mut seed.stream(&format!("tier-sweep/{name}")))?;
        Some((name, found))
    };
    groups.into_iter().filter_map(estimate).collect()
}

/// Whether the published choice reaches 95 % of the best; undecided where their intervals meet.
fn chosen_against_best(rates: &[(String, Estimate)], chosen: &str) -> Finding {
    let best = rates.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let (measured, verdict) = match best.zip(rates.iter().find(|(name, _)| name == chosen)) {
        None => ("it is not among the cells".into(), Verdict::NotTestable),
        Some(((name, best), (_, ours))) => {
            let words = |rate: &Estimate| format!("{:.0} ({:.0} to {:.0})", rate.value, rate.low, rate.high);
            let verdict = match ours.value >= 0.95 * best.value {
                true => Verdict::Seen,
                false if ours.high < 0.95 * best.low => Verdict::NotSeen,
                false => Verdict::Invalid,
            };
            (format!("{} operations/s; {} at {name}, the best", words(ours), words(best)), verdict)
        }
    };
    Finding {
        claim: String::new(),
        published: String::new(),
        measured,
        verdict,
        note: String::new(),
        ..Finding::default()
    }
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

fn figure(means: &[Cell], cells: &[Cell], latency: &str, seed: Seed) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for cell in means {
        let name = format!("threshold {}", Bytes(cell.threshold_bytes));
        if series.iter().any(|series| series.name == name) {
            continue;
        }
        let same: Vec<Cell> =
            cells.iter().filter(|other| other.threshold_bytes == cell.threshold_bytes).cloned().collect();
        let mut line = Series { name, mark: Mark::Measured, ..Series::default() };
        let mut rates: Vec<(f64, Estimate)> = rates(&same, |cell| cell.period_ms.to_string(), seed)
            .into_iter()
            .filter_map(|(period, rate)| Some((period.parse().ok()?, rate)))
            .collect();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (period, rate) in rates {
            line.points.push((period, rate.value));
            line.intervals.push((rate.low, rate.high));
        }
        series.push(line);
    }
    Figure {
        id: "sweep".into(),
        title: "Operations per second by period and threshold".into(),
        caption: "Median and 95 % interval over the rounds.".into(),
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
