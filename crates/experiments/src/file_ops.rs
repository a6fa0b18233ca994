//! Every operation of the BPFS microbenchmark on the anti-caching file system, its baseline and ext4.

use crate::tier::results::{Medians, Value};
use crate::tier::subject::{Kind, NAMES, Setup};
use crate::tier::{self, MEMORY, PERIOD, ROUNDS, THREADS, THRESHOLD};
use senesce_core::analysis::Better;
use senesce_core::published::{self, PublishedValue};
use senesce_core::{
    Analysis, Axis, Experiment, Failure, Figure, FigureKind, Finding, Mark, Parameter, ParameterKind, Plan, Record,
    RunContext, RunKind, Series, Settings, Verdict,
};
use senesce_workload::micro::{FileOpsOptions, file_ops, operations};
use serde_json::json;

/// The experiment.
pub struct FileOps;

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
        defaults: ["5ms", "50ms", "500ms"],
    },
    Parameter {
        name: "fsync",
        help: "follow every operation by fsync",
        kind: ParameterKind::Flag,
        defaults: ["false"; 3],
    },
    ROUNDS,
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
        let values: Vec<Value> = record.events_of("operation").collect();
        let medians = Medians::new(&values, record.plan.seed);
        let published = published::parse(self.published()).map_err(|error| Failure::usage(error.to_string()))?;
        let ratios = medians.ratios("anticache", "bpfs");
        let slowest = ratios.iter().copied().fold(f64::NAN, f64::max);
        let within = ratios.iter().filter(|ratio| **ratio <= 1.05).count();
        Ok(Analysis {
            title: "File operations with and without anti-caching".into(),
            summary: format!(
                "Median time of an operation over the rounds. {within} of {} operations are at most 5 % slower with \
                 anti-caching than without.",
                ratios.len()
            ),
            figures: vec![
                medians.bars(
                    "file-ops",
                    "Time of file operations",
                    "Median over the rounds; lower is better.",
                    "time (us)",
                ),
                ratio_figure(&medians, &published),
            ],
            tables: vec![medians.table("file-ops", "Median time of an operation", "operation", "us")],
            findings: vec![Finding {
                claim: "eviction costs nothing where data are hot: operations take as long as without it".into(),
                published: published_ratios(&published),
                measured: format!("ratio of the medians: {}", range(&ratios)),
                verdict: match ratios.is_empty() {
                    true => Verdict::Invalid,
                    false if within == ratios.len() => Verdict::Seen,
                    false => Verdict::NotSeen,
                },
                note:
                    "compare ratios, not times: the published times contain unmount and mount of an unstated number of \
                       iterations"
                        .into(),
            }],
            result: json!({"median_us": medians.json(), "greatest_ratio": slowest, "within_5_percent": within}),
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

fn ratio_figure(medians: &Medians, published: &[PublishedValue]) -> Figure {
    let points = |ratio: &dyn Fn(&str) -> Option<f64>| -> Vec<(f64, f64)> {
        let places = medians.conditions.iter().enumerate();
        places.filter_map(|(index, name)| Some((index as f64, ratio(name)?))).collect()
    };
    let series = |name: &str, mark, points| Series { name: name.into(), mark, points, ..Series::default() };
    Figure {
        id: "ratio".into(),
        title: "Cost of anti-caching".into(),
        caption: "Median time with anti-caching over that without. 1: no cost.".into(),
        device: "memory".into(),
        better: Better::Lower,
        kind: FigureKind::Bars {
            x: Axis::categories("operation", medians.conditions.clone()),
            y: Axis::linear("anticache / bpfs").from_zero(),
            series: vec![
                series("here", Mark::Measured, points(&|name| medians.ratio(name, "anticache", "bpfs"))),
                series("published", Mark::Published, points(&|name| published_ratio(published, name))),
            ],
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
        plan.estimated_seconds = (kinds.len() as u64 * rounds) as f64 * (1.0 + 4.0 * time * operations.len() as f64);
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
        let done = tier::done(context, "round");
        tier::rounds(&kinds, settings.integer("rounds")?, settings.seed(), &done, context, |context, round, kind| {
            let measured = tier::with_subject(kind, &setup, |subject| {
                Ok(file_ops(subject.directory()?, &options, context.progress, context.interrupt)?)
            })?;
            for operation in measured.operations {
                let value =
                    Value { subject: kind.name().into(), condition: operation.name, round, value: operation.mean_us };
                context.directory.append("operation", &value)?;
            }
            tier::mark_done(context, "round", round, kind)
        })
    }
}
