//! Die collisions: fragmented files read from the emulated drive of the study (Jun et al., FAST 2024).

use crate::{measured, values, word};
use clap::{Args, value_parser};
use senesce_claims::Facts;
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series, Table};
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Rows, Seed};
use senesce_devmodel::ssd::fast24::{OFFSETS, WORKLOADS, Workload, rates};
use senesce_runner::{Context, Experiment, NoEvent, Planned, Recorded, Run};
use serde::{Deserialize, Serialize};
use serde_json::json;

const MODEL: &str = "ssd:fast24";
const RATE: &str = "read rate";
const INDEX: &str = "collision index";
const STATES: [&str; 3] = ["contiguous", "fragmented", "placed"];

pub struct DieCollision;

/// Workloads and start positions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// workloads, separated by commas: append-worst, append-random, overwrite-worst, overwrite-random, sqlite, fileserver,
    /// fileserver-small
    #[arg(long, value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// start positions of the write pointer, spread evenly over the 16 different ones
    #[arg(long, value_parser = value_parser!(u32).range(1..=i64::from(OFFSETS)))]
    pub offsets: u32,
}

fn named(name: &str) -> Result<Workload, Failure> {
    WORKLOADS.into_iter().find(|workload| workload.name() == name).ok_or_else(|| {
        let all: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name()).collect();
        Failure::usage(format!("workloads: unknown workload '{name}'; choose among {}", all.join(", ")))
    })
}

fn offsets(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(move |number| number * OFFSETS / count)
}

impl Run for DieCollision {
    const KIND: &'static str = "ssd-die-collision";
    const PUBLISHED: &'static str = include_str!("../data/published/ssd-die-collision.csv");
    const CLAIMS: &'static str = include_str!("../data/published/ssd-die-collision.claims.toml");
    type Spec = Spec;
    type Event = NoEvent;
    type Step = String;

    fn facts(_spec: &Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        Facts { model: Some(MODEL.into()), deterministic: true, drives: vec![MODEL.into()], ..facts }
    }

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<String>>, Failure> {
        let step = |name: &String| {
            let workload = named(name)?;
            let seconds = match workload {
                Workload::Sqlite => 1.0,
                Workload::Fileserver | Workload::FileserverSmall => 6.0,
                _ => 0.2,
            };
            let action = format!("write and read {name} from {} start positions", spec.offsets);
            Ok(Planned::new(name.clone(), action, MODEL).costing(Bytes(0), seconds * f64::from(spec.offsets)))
        };
        spec.workloads.iter().map(step).collect()
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, name: &String, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let workload = named(name)?;
        for (repetition, offset) in offsets(spec.offsets).enumerate() {
            context.check_interrupt()?;
            let found = rates(workload, offset)?;
            for (number, state) in STATES.into_iter().enumerate() {
                let under = [("workload", name.as_str()), ("state", state)];
                let rate = measured(RATE, "MiB/s", Better::Higher, found.mib_per_s[number], &under)?;
                let index = found.collision_index[number];
                let index = index.map(|index| measured(INDEX, "", Better::Lower, index, &under)).transpose()?;
                for one in std::iter::once(rate).chain(index) {
                    context.measure(Measurement { repetition: repetition as u32, ..one });
                }
            }
        }
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let all: Vec<&Measurement> = recorded.measurements().collect();
        let cells: Vec<Cell> = spec
            .workloads
            .iter()
            .map(|name| Cell::all(&all, name))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .collect();
        Ok(Analysis {
            title: "Die collisions on flash".into(),
            summary: format!(
                "Files were written contiguously, fragmented, and fragmented with the study's placement, and read from the modelled drive \
                 of the study. Rates are means over {} start positions of the write pointer, which the study does not give; one \
                 constant of the host is fitted for each program on its contiguous file.",
                spec.offsets
            ),
            figures: if cells.is_empty() { Vec::new() } else { vec![figure(spec, &cells)] },
            tables: vec![table(&cells)],
            caveats: vec![
                format!(
                    "modelled: every rate is that of {MODEL}, which follows the emulator's parameters; no drive was read"
                ),
                "fileserver: file sizes after 30 s and the order of appends are assumed".into(),
            ],
            result: json!({"model": MODEL, "offsets": spec.offsets, "cells": cells}),
            ..Analysis::default()
        })
    }
}

impl Experiment for DieCollision {
    const TITLE: &'static str = "Die collisions: cost of fragmented files on flash, by order of writing";
    const PAGE: &'static str = include_str!("../docs/experiments/ssd-die-collision.md");

    fn defaults(level: Level) -> Spec {
        let of = |workloads: &[Workload]| workloads.iter().map(|one| one.name().to_string()).collect();
        match level {
            Level::Smoke => Spec { workloads: of(&WORKLOADS[..4]), offsets: 1 },
            Level::Quick => Spec { workloads: of(&WORKLOADS), offsets: 4 },
            Level::Paper => Spec { workloads: of(&WORKLOADS), offsets: OFFSETS },
        }
    }
}

/// One workload in one state.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Cell {
    workload: String,
    state: &'static str,
    published_mib_per_s: f64,
    /// Mean over the start positions.
    modelled_mib_per_s: f64,
    least_mib_per_s: f64,
    greatest_mib_per_s: f64,
    /// Modelled against published.
    difference_percent: f64,
    collision_index: Option<f64>,
}

impl Cell {
    fn all(all: &[&Measurement], name: &str) -> Result<Vec<Self>, Failure> {
        let published = named(name)?.published();
        let of = |metric, state: &str| -> Vec<f64> {
            let chosen = values(all, metric).filter(|one| word(one, "workload") == name && word(one, "state") == state);
            chosen.map(|one| one.value.get()).collect()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let cell = |(number, state): (usize, &'static str)| {
            let (rates, indices) = (of(RATE, state), of(INDEX, state));
            let modelled = mean(&rates);
            (!rates.is_empty()).then(|| Self {
                workload: name.into(),
                state,
                published_mib_per_s: published[number],
                modelled_mib_per_s: modelled,
                least_mib_per_s: rates.iter().copied().fold(f64::INFINITY, f64::min),
                greatest_mib_per_s: rates.iter().copied().fold(0.0, f64::max),
                difference_percent: (modelled / published[number] - 1.0) * 100.0,
                collision_index: (!indices.is_empty()).then(|| mean(&indices)),
            })
        };
        Ok(STATES.into_iter().enumerate().filter_map(cell).collect())
    }
}

fn table(cells: &[Cell]) -> Table {
    Rows::of(cells)
        .column("workload", |cell| &cell.workload)
        .column("state", |cell| &cell.state)
        .column("published (MiB/s)", |cell| cell.published_mib_per_s)
        .column("modelled (MiB/s)", |cell| &cell.modelled_mib_per_s)
        .column("minimum (MiB/s)", |cell| cell.least_mib_per_s)
        .column("maximum (MiB/s)", |cell| cell.greatest_mib_per_s)
        .column("difference (%)", |cell| cell.difference_percent)
        .column("collision index", |cell| cell.collision_index)
        .table("rates", "Read rates, published and modelled")
}

fn figure(spec: &Spec, cells: &[Cell]) -> Figure {
    let place = |cell: &Cell| spec.workloads.iter().position(|name| *name == cell.workload).unwrap_or(0) as f64;
    let mut series = Vec::new();
    for state in STATES {
        let of_state = || cells.iter().filter(|cell| cell.state == state);
        let published = of_state().map(|cell| (place(cell), cell.published_mib_per_s)).collect();
        let modelled = of_state().map(|cell| (place(cell), cell.modelled_mib_per_s)).collect();
        series.push(Series::new(format!("{state}, published"), Mark::Published, published));
        series.push(Series::new(state, Mark::Modelled, modelled));
    }
    Figure {
        id: "rates".into(),
        title: "Read rate by write pattern".into(),
        caption: "Fragments written at different times share few dies, and their reads queue.".into(),
        device: format!("modelled: {MODEL}"),
        better: Better::Higher,
        kind: FigureKind::Bars {
            x: Axis::categories("workload", spec.workloads.clone()),
            y: Axis::linear("read rate (MiB/s)").from_zero(),
            series,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_pointer_positions_are_evenly_spread() {
        assert_eq!(offsets(4).collect::<Vec<_>>(), [0, 4, 8, 12]);
        assert_eq!(offsets(16).collect::<Vec<_>>(), (0..16).collect::<Vec<_>>());
        assert_eq!(offsets(1).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn unknown_workload_is_reported() {
        let spec = Spec { workloads: vec!["append".into()], offsets: 1 };
        let failure = DieCollision::steps(&spec, Seed(1)).unwrap_err();
        assert!(failure.to_string().contains("append-worst"), "{failure}");
    }

    #[test]
    fn claims_table_has_the_published_rates_of_the_model() {
        let rows = senesce_core::published::parse(DieCollision::PUBLISHED).unwrap();
        for workload in WORKLOADS {
            for (state, rate) in STATES.into_iter().zip(workload.published()) {
                let condition = format!("workload={},state={state}", workload.name());
                let row = rows.iter().find(|row| row.metric == RATE && row.condition == condition);
                assert_eq!(row.map(|row| row.value), Some(rate), "{condition}");
            }
        }
    }
}
