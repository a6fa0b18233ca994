//! Every operation of the BPFS microbenchmark on the anti-caching file system, its baseline and ext4.

use crate::tier::costs::Costs;
use crate::tier::interleave::{AGAIN, Turns, turns};
use crate::tier::results::{Medians, Value};
use crate::tier::subject::{Kind, NAMES, Setup};
use crate::tier::{self, MEMORY, PERIOD, ROUNDS, THREADS, THRESHOLD};
use senesce_core::analysis::Better;
use senesce_core::published::{self, PublishedValue};
use senesce_core::{
    Analysis, Axis, Experiment, Failure, Figure, FigureKind, Finding, Mark, Parameter, ParameterKind, Plan, Record,
    RunContext, RunKind, Series, Settings, Silent,
};
use senesce_workload::micro::{FileOpsOptions, file_ops, operations};
use serde_json::json;

/// The experiment.
pub struct FileOps;

/// The loop without an operation: its time is subtracted, so that what is left of it is no time.
const EMPTY: &str = "empty";
const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "subjects",
        help: "file systems to compare",
        kind: ParameterKind::Choices(NAMES),
        defaults: ["anticache,bpfs,ext4", "anticache,bpfs,ext4", "anticache,bpfs,ext4"],
    },
    Parameter {
        name: "operations",
        help: "operations by name, or all",
        kind: ParameterKind::Text,
        defaults: ["create,unlink_4k,rename_file_inter,write_1M_4k,append_8k_4k,read", "all", "all"],
    },
    Parameter {
        name: "time",
        help: "timed time per operation, file system and round, at least",
        kind: ParameterKind::Duration,
        defaults: ["5ms", "10ms", "500ms"],
    },
    Parameter {
        name: "fsync",
        help: "follow every operation by fsync",
        kind: ParameterKind::Flag,
        defaults: ["false"; 3],
    },
    Parameter { name: "rounds", help: ROUNDS.help, kind: ROUNDS.kind, defaults: ["1", "4", "15"] },
    MEMORY,
    THRESHOLD,
    PERIOD,
    THREADS,
];

fn operations(settings: &Settings) -> Result<Vec<String>, Failure> {
    let known: Vec<&str> = operations::OPERATIONS.iter().map(|operation| operation.name).collect();
    if settings.text("operations") == "all" {
        return Ok(known.iter().map(ToString::to_string).collect());
    }
    let chosen = settings.list("operations");
    match chosen.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            let hint = senesce_core::parameter::suggest(name, known.iter().copied());
            Err(Failure::usage(format!("there is no operation '{name}'{hint}; there are {}", known.join(", "))))
        }
        None => Ok(chosen),
    }
}

/// Files in memory alone: without a modelled disk, and hot.
fn setup(settings: &Settings) -> Result<Setup, Failure> {
    Ok(Setup { latency: None, ..tier::setup(settings)? })
}

impl RunKind for FileOps {
    fn kind(&self) -> &'static str {
        "file-ops"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let all: Vec<Value> = record.events_of("operation").filter(|value: &Value| value.condition != EMPTY).collect();
        let once: Vec<Value> = all.iter().filter(|value| value.subject != AGAIN).cloned().collect();
        let medians = Medians::new(&once, record.plan.seed);
        let costs = Costs::new(medians.conditions.clone(), &all, record.plan.seed, "operations");
        let published = published::parse(self.published()).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Analysis {
            title: "File operations with and without anti-caching".into(),
            summary: format!("Median time of an operation over the rounds; {}.", costs.words()),
            figures: vec![
                medians.bars(
                    "file-ops",
                    "Time of file operations",
                    "Median over the rounds; lower is better.",
                    "time (us)",
                ),
                ratio_figure(&costs, &published),
            ],
            tables: vec![
                medians.table("file-ops", "Median time of an operation", "operation", "us"),
                costs.table("operation"),
            ],
            findings: vec![Finding {
                claim: "eviction costs nothing where data are hot: operations take as long as without it".into(),
                published: published_ratios(&published),
                measured: costs.words(),
                verdict: costs.free(),
                note:
                    "compare ratios, not times: the published times contain unmount and mount of an unstated number of \
                       iterations"
                        .into(),
            }],
            result: json!({
                "median_us": medians.json(),
                "ratio": costs.overall,
                "ratio_of_bpfs_to_itself": costs.noise,
                "slower": costs.slower(),
                "slower_of_bpfs_to_itself": costs.slower_than_itself(),
            }),
            ..Analysis::default()
        })
    }
}

fn range(values: &[f64]) -> String {
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    if values.is_empty() { "none".into() } else { format!("{low:.2} to {high:.2} over {} operations", values.len()) }
}

/// Published ratio of an operation: both modes' times divided.
fn published_ratio(published: &[PublishedValue], operation: &str) -> Option<f64> {
    let time = |mode: &str| {
        let condition = format!("{operation}, {mode}");
        published.iter().find(|value| value.condition == condition).map(|value| value.value)
    };
    Some(time("anticache")? / time("bpfs")?)
}

fn published_ratios(published: &[PublishedValue]) -> String {
    let all: Vec<f64> =
        operations::OPERATIONS.iter().filter_map(|operation| published_ratio(published, operation.name)).collect();
    range(&all)
}

fn ratio_figure(costs: &Costs, published: &[PublishedValue]) -> Figure {
    let places = costs.conditions.iter().enumerate();
    let points = places.filter_map(|(index, name)| Some((index as f64, published_ratio(published, name)?))).collect();
    let published = Series { name: "published".into(), mark: Mark::Published, points, ..Series::default() };
    Figure {
        id: "ratio".into(),
        title: "Cost of anti-caching".into(),
        caption:
            "Time with anti-caching over that without: median and 95 % interval of the ratio within a round. 1: no \
                  cost. Bpfs mode against itself shows what this machine cannot tell apart."
                .into(),
        device: "memory".into(),
        better: Better::Lower,
        kind: FigureKind::Bars {
            x: Axis::categories("operation", costs.conditions.clone()),
            y: Axis::linear("anticache / bpfs").from_zero(),
            series: costs.series().into_iter().chain([published]).collect(),
        },
    }
}

impl Experiment for FileOps {
    fn title(&self) -> &'static str {
        "What does anti-caching cost an ordinary file operation?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/file-ops.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/file-ops.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let setup = setup(settings)?;
        let operations = operations(settings)?;
        let (kinds, rounds) = (Kind::list(&settings.list("subjects")), settings.integer("rounds")?);
        let time = settings.duration("time")?.as_secs_f64();
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        for kind in &kinds {
            plan.step(format!("time {} operations in {rounds} rounds", operations.len()), Kind::label(kind.name()));
        }
        plan.bytes_to_write = kinds.len() as u64 * setup.memory.0;
        let turns = turns(&kinds).len() as u64 * rounds;
        plan.estimated_seconds = turns as f64 * (1.0 + 6.0 * time * operations.len() as f64);
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let (setup, kinds) = (setup(settings)?, Kind::list(&settings.list("subjects")));
        let options = FileOpsOptions {
            operations: operations(settings)?,
            sync: vec![settings.flag("fsync")?],
            time: settings.duration("time")?,
            macros: false,
            seed: settings.seed(),
        };
        let turns = Turns {
            kinds: &kinds,
            setup: &setup,
            conditions: &options.operations,
            rounds: settings.integer("rounds")?,
            seed: settings.seed(),
        };
        turns.run(context, |subject, operation, context| {
            let one = FileOpsOptions { operations: vec![options.operations[operation].clone()], ..options.clone() };
            let measured = file_ops(subject.directory()?, &one, &Silent, context.interrupt)?;
            Ok(measured.operations.iter().map(|operation| ("operation", operation.mean_us)).collect())
        })
    }
}
