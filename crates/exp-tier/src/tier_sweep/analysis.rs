//! Tables and figure of the sweep.

use super::{AGAIN, Cell, Spec};
use senesce_core::Rows;
use senesce_core::analysis::Better;
use senesce_core::{Analysis, Axis, Bytes, Figure, FigureKind, Mark, Series};
use senesce_stats::{MedianEstimate, mean, middle};
use serde_json::json;

pub(crate) fn analyse(cells: &[Cell], spec: &Spec) -> Analysis {
    let kinds = kinds(cells);
    let against = against(cells, &kinds, spec);
    let of = |cell: &Cell, value: fn(&Cell) -> f64| mean(&same(cells, cell).map(value).collect::<Vec<_>>());
    let title =
        "Period and threshold of the evictor: geometric means of the rates over the rounds, means of the other values";
    let table = Rows::of(kinds.iter().zip(&against))
        .column("file system", |(cell, _)| &cell.subject)
        .column("period (ms)", |(cell, _)| cell.period_ms)
        .column("threshold", |(cell, _)| cell.threshold_bytes.map(|bytes| Bytes(bytes).to_string()))
        .column("operations/s", |(cell, _)| geometric_mean(same(cells, cell).map(|one| one.ops_per_second)))
        .column("over the reference, round by round", |(_, ratio)| ratio)
        .column("median (us)", |(cell, _)| of(cell, |one| one.p50_us))
        .column("p99 (us)", |(cell, _)| of(cell, |one| one.p99_us))
        .column("evicted", |(cell, _)| of(cell, |one| one.evicted as f64))
        .column("fetched", |(cell, _)| of(cell, |one| one.fetched as f64))
        .table("sweep", title);
    let reference = spec.reference().map_or(String::new(), |(period, threshold)| {
        format!(
            " The reference is a period of {:?} and a threshold of {}, which is measured twice in every round ({AGAIN}).",
            period.0, threshold.0
        )
    });
    Analysis {
        title: "Period and threshold of the evictor".into(),
        summary: format!(
            "One thread reads and writes blocks; four fifths of the accesses go to one fifth of the file.{reference}"
        ),
        figures: vec![figure(&kinds, cells, spec)],
        tables: vec![table],
        caveats: spec.cold_latency.caveats(&spec.disk),
        result: json!({"cells": cells, "cold_latency": spec.cold_latency.to_string()}),
        ..Analysis::default()
    }
}

fn kinds(cells: &[Cell]) -> Vec<Cell> {
    let mut kinds: Vec<Cell> = Vec::new();
    for cell in cells {
        if !kinds.iter().any(|known| known.is_like(cell)) {
            kinds.push(cell.clone());
        }
    }
    let place = |cell: &Cell| {
        let period = cell.period_ms.map_or(u64::MAX, |period| (period * 1e3) as u64);
        (cell.threshold_bytes.unwrap_or(u64::MAX), period, cell.subject.clone())
    };
    kinds.sort_by_key(place);
    kinds
}

fn same<'a>(cells: &'a [Cell], one: &'a Cell) -> impl Iterator<Item = &'a Cell> {
    cells.iter().filter(|cell| cell.is_like(one))
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    mean(&values.map(f64::ln).collect::<Vec<_>>()).map(f64::exp)
}

/// Returns the rate of each condition over that of the reference in the same rounds, as a geometric mean, for claims.
fn against(cells: &[Cell], kinds: &[Cell], spec: &Spec) -> Vec<Option<f64>> {
    let reference = spec.reference().map(|(period, threshold)| (Some(period.seconds() * 1e3), Some(threshold.bytes())));
    let is_reference =
        |cell: &&Cell| cell.subject == spec.subject.name() && Some((cell.period_ms, cell.threshold_bytes)) == reference;
    let of_round = |round: u64| cells.iter().filter(is_reference).find(|cell| cell.round == round);
    let ratio = |kind: &Cell| {
        let quotients =
            same(cells, kind).filter_map(|cell| Some(cell.ops_per_second / of_round(cell.round)?.ops_per_second));
        geometric_mean(quotients)
    };
    kinds.iter().map(ratio).collect()
}

fn rate(cells: &[Cell], kind: &Cell) -> Option<MedianEstimate> {
    middle(&same(cells, kind).map(|cell| cell.ops_per_second).collect::<Vec<_>>())
}

fn figure(kinds: &[Cell], cells: &[Cell], spec: &Spec) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    let periods = || kinds.iter().filter_map(|cell| cell.period_ms);
    for kind in kinds {
        let Some(rate) = rate(cells, kind) else { continue };
        let name = match kind.threshold_bytes {
            Some(bytes) => format!("{}, threshold {}", kind.subject, Bytes(bytes)),
            None => kind.subject.clone(),
        };
        let places = match kind.period_ms {
            Some(period) => vec![period],
            None => [periods().reduce(f64::min), periods().reduce(f64::max)].into_iter().flatten().collect(),
        };
        let index = series.iter().position(|series| series.name == name).unwrap_or_else(|| {
            series.push(Series { name, mark: Mark::Measured, ..Series::default() });
            series.len() - 1
        });
        let line = &mut series[index];
        for place in places {
            line.points.push((place, rate.value));
            line.intervals.push(rate.ends());
        }
    }
    Figure {
        id: "sweep".into(),
        title: "Operations per second by period and threshold".into(),
        caption:
            "Median over the rounds, with its 95 % interval from 5 rounds on; file systems without an evictor are \
             horizontal lines."
                .into(),
        device: format!("memory, the disk of {}, a modelled cold store: {}", spec.disk, spec.cold_latency),
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
    use crate::tier_sweep::TierSweep;
    use senesce_core::Level;
    use senesce_runner::Experiment;

    fn cell(subject: &str, grid: Option<(f64, u64)>, round: u64, ops: f64) -> Cell {
        Cell {
            round,
            subject: subject.into(),
            period_ms: grid.map(|(period, _)| period),
            threshold_bytes: grid.map(|(_, mib)| mib << 20),
            ops_per_second: ops,
            p50_us: 1.0,
            p99_us: 2.0,
            evicted: 10,
            fetched: 4,
        }
    }

    #[test]
    fn table_compares_every_condition_with_the_reference_of_the_same_round() {
        let spec = TierSweep::defaults(Level::Smoke);
        let at = |period, mib| Some((period, mib));
        let all: Vec<Cell> = [(0, 1.0), (1, 10.0)]
            .into_iter()
            .flat_map(|(round, load)| {
                [
                    cell("anticache", at(10.0, 40), round, 100.0 * load),
                    cell(AGAIN, at(10.0, 40), round, 101.0 * load),
                    cell("anticache", at(1.0, 40), round, 50.0 * load),
                    cell("ext4-disk", None, round, 20.0 * load),
                ]
            })
            .collect();
        let analysis = analyse(&all, &spec);
        let rows = &analysis.tables[0].rows;
        assert_eq!(rows.len(), 4);
        let ratio = |name: &str, period: f64| {
            let is_it = |row: &&Vec<serde_json::Value>| row[0] == name && (row[1].is_null() || row[1] == period);
            (rows.iter().find(is_it).unwrap()[4].as_f64().unwrap() * 1e3).round() / 1e3
        };
        assert_eq!([ratio("anticache", 10.0), ratio(AGAIN, 10.0), ratio("anticache", 1.0)], [1.0, 1.01, 0.5]);
        assert_eq!(ratio("ext4-disk", 0.0), 0.2);
        assert!(analysis.summary.contains("measured twice"), "{}", analysis.summary);
    }

    #[test]
    fn reference_is_measured_twice() {
        let conditions = TierSweep::defaults(Level::Quick).conditions();
        assert_eq!(conditions.iter().filter(|one| one.again).count(), 1);
        assert_eq!(conditions.len(), 5 * 5 + 3);
    }
}
