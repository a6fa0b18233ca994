//! Runs every operation of the BPFS microbenchmark on the anti-caching file system, its baseline and ext4.

use crate::tier::costs::Costs;
use crate::tier::disk::Disk;
use crate::tier::interleave::{AGAIN, Event, InterleavedRound, Reading, iterations};
use crate::tier::results::{Medians, Value};
use crate::tier::subject::SubjectKind;
use crate::tier::{ColdLatency, check_disk, needs, setup};
use clap::{Args, value_parser};
use senesce_claims::Facts;
use senesce_core::analysis::Better;
use senesce_core::parameter::suggest;
use senesce_core::published::{self, PublishedValue};
use senesce_core::{
    Analysis, Axis, Bytes, Failure, Figure, FigureKind, Level, Mark, Measurement, Seed, Series, Silent, Size, Span,
};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_workload::micro::{FileOpsOptions, OperationResult, file_ops, operations};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;
use std::str::FromStr;

pub struct FileOps;

/// The empty loop, whose time is subtracted from the others.
const EMPTY: &str = "empty";

const TIME: &str = "time";
const OPERATION: &str = "operation";

/// File systems, operations and duration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// file systems to compare
    #[arg(long, value_delimiter = ',')]
    pub subjects: Vec<SubjectKind>,
    /// operations by name, or all
    #[arg(long)]
    pub operations: Operations,
    /// minimum timed time per operation, file system and round
    #[arg(long)]
    pub time: Span,
    /// without fsync after every operation, with it, or each in turn
    #[arg(long)]
    pub fsync: Fsync,
    /// rounds over all file systems, each in a different order
    #[arg(long, value_parser = value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// size of the memory region, and of ext4's image
    #[arg(long)]
    pub memory: Size,
    /// bytes of files in memory above which blocks are evicted
    #[arg(long)]
    pub threshold: Size,
    /// latency of the modelled disks: ssd, hdd or microseconds
    #[arg(long)]
    pub cold_latency: ColdLatency,
    /// directory on the disk that holds the cold store of anticache and the image of ext4-disk
    #[arg(long)]
    pub disk: Disk,
    /// time between two passes of the evictor
    #[arg(long)]
    pub period: Span,
    /// threads of a tier file system that answer the kernel
    #[arg(long, value_parser = value_parser!(u64).range(1..=64))]
    pub threads: u64,
}

/// Whether operations are followed by fsync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Fsync {
    /// No fsync.
    Off,
    /// An fsync after every operation.
    On,
    /// Both, alternating.
    Both,
}

impl Fsync {
    fn each(self) -> Vec<bool> {
        match self {
            Self::Off => vec![false],
            Self::On => vec![true],
            Self::Both => vec![false, true],
        }
    }

    fn word(on: bool) -> &'static str {
        if on { "on" } else { "off" }
    }
}

/// Instances of an operation between two fsyncs of the directory. Each fsync waits for a disk.
const INSTANCES_WITH_FSYNC: u64 = 16;

/// Operations by name; as a text, `all` means every operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Operations(Vec<String>);

fn known() -> Vec<String> {
    operations::OPERATIONS.iter().map(|operation| operation.name.to_string()).collect()
}

impl FromStr for Operations {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = known();
        if text == "all" {
            return Ok(Self(known));
        }
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let chosen: Vec<String> = words.map(str::to_string).collect();
        match chosen.iter().find(|name| !known.contains(name)) {
            Some(name) => {
                let hint = suggest(name, known.iter().map(String::as_str));
                Err(format!("unknown operation '{name}'{hint}; operations: {}", known.join(", ")))
            }
            None => Ok(Self(chosen)),
        }
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&if self.0 == known() { "all".into() } else { self.0.join(",") })
    }
}

senesce_core::text_form!(Operations);

/// Time per operation and file system outside of the measurement: making its files, with fsync also on disks (mean of 2,100 on
/// two processors).
const CELL_SECONDS: f64 = 0.3;

impl Run for FileOps {
    const KIND: &'static str = "file-ops";
    const PUBLISHED: &'static str = include_str!("../data/published/file-ops.csv");
    const CLAIMS: &'static str = include_str!("../data/published/file-ops.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = u64;

    fn needs(spec: &Spec) -> Needs {
        needs(spec.memory)
    }

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<u64>>, Failure> {
        let (kinds, count) = (SubjectKind::in_order(&spec.subjects), spec.operations.0.len());
        let bytes = Bytes(kinds.len() as u64 * spec.memory.bytes());
        let cells = iterations(&kinds).len() * count * spec.fsync.each().len();
        let seconds = cells as f64 * (CELL_SECONDS + 6.0 * spec.time.seconds());
        let round = |round| {
            let action = format!("round {}: time {count} operations", round + 1);
            Planned::new(round, action, SubjectKind::names(&kinds)).costing(bytes, seconds)
        };
        Ok((0..spec.rounds).map(round).collect())
    }

    fn begin(spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        check_disk(&spec.subjects, &spec.disk)?;
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, round: &u64, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let names: Vec<&String> = spec.operations.0.iter().filter(|name| *name != EMPTY).collect();
        let interrupt = context.interrupt;
        let conditions: Vec<_> = names.iter().map(|name| (name.to_string(), name.to_string())).collect();
        let options = FileOpsOptions { time: spec.time.0, seed: context.seed, ..FileOpsOptions::default() };
        let disk = (spec.cold_latency.model, &spec.disk);
        let setup = setup(spec.memory, spec.threshold, spec.period, spec.threads, disk);
        let kinds = SubjectKind::in_order(&spec.subjects);
        let turns = InterleavedRound { kinds: &kinds, setup: &setup, key: OPERATION, conditions: &conditions };
        turns.round(*round, context, |subject, operation| {
            let mut readings = Vec::new();
            for sync in spec.fsync.each() {
                let one = FileOpsOptions {
                    operations: vec![names[operation].to_string()],
                    sync: vec![sync],
                    instances: if sync { INSTANCES_WITH_FSYNC } else { options.instances },
                    ..options.clone()
                };
                let measured = file_ops(subject.directory()?, &one, &Silent, interrupt)?.valid()?;
                let reading = |found: &OperationResult| {
                    Reading::new(TIME, "ms", found.mean_us / 1e3).under("fsync", Fsync::word(sync))
                };
                readings.extend(measured.operations.iter().map(reading));
            }
            Ok(readings)
        })
    }

    fn facts(spec: &Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        spec.cold_latency.stated(facts)
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let of = |on: bool| {
            let is_it =
                move |one: &&Measurement| one.condition.get("fsync").is_some_and(|word| word == Fsync::word(on));
            let mut values = Value::of(recorded.measurements().filter(is_it), TIME, OPERATION);
            values.iter_mut().for_each(|value| value.value *= 1e3);
            values
        };
        let all = of(spec.fsync == Fsync::On);
        let synced: Vec<Value> = of(true).into_iter().filter(|value| value.subject != AGAIN).collect();
        let once: Vec<Value> = all.iter().filter(|value| value.subject != AGAIN).cloned().collect();
        let medians = Medians::new(&once);
        let costs = Costs::new(medians.conditions.clone(), &all, "operations");
        let published = published::parse(Self::PUBLISHED).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Analysis {
            title: "File operations with and without anti-caching".into(),
            summary: format!("Median time of an operation over the rounds; {}.", costs.text()),
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
                Medians::new(&synced).table("fsync", "Median time of an operation and its fsync", "operation", "us"),
            ],
            caveats: spec.cold_latency.caveats(&spec.disk),
            result: json!({
                "median_us": medians.json(),
                "ratio": costs.overall(),
                "ratio_of_bpfs_to_itself": costs.overall_again(),
                "worse": costs.worse(),
                "worse_of_bpfs_to_itself": costs.worse_than_itself(),
            }),
            ..Analysis::default()
        })
    }
}

impl Experiment for FileOps {
    const TITLE: &'static str = "What does anti-caching cost an ordinary file operation?";
    const PAGE: &'static str = include_str!("../docs/experiments/file-ops.md");

    fn defaults(level: Level) -> Spec {
        let few = ["create", "unlink_4k", "rename_file_inter", "write_1M_4k", "append_8k_4k", "read"];
        let few = Operations(few.map(str::to_string).into());
        let all = || Operations(known());
        Spec {
            subjects: vec![
                SubjectKind::Anticache,
                SubjectKind::Bpfs,
                SubjectKind::Ext4,
                SubjectKind::Ext4Disk,
                SubjectKind::Ext4Model,
            ],
            operations: level.of([few, all(), all()]),
            time: Span::from_millis(level.of([5, 10, 500])),
            fsync: Fsync::Both,
            rounds: level.of([1, 5, 15]),
            memory: Size(Bytes::mib(level.of([128, 512, 2048]))),
            threshold: Size(Bytes::mib(40)),
            cold_latency: ColdLatency::ssd(),
            disk: Disk::default(),
            period: Span::from_millis(10),
            threads: 2,
        }
    }
}

fn published_ratio(published: &[PublishedValue], operation: &str) -> Option<f64> {
    let time = |mode: &str| {
        let condition = format!("{operation}, {mode}");
        published.iter().find(|value| value.condition == condition).map(|value| value.value)
    };
    Some(time("anticache")? / time("bpfs")?)
}

fn ratio_figure(costs: &Costs, published: &[PublishedValue]) -> Figure {
    let conditions: Vec<String> = costs.all.iter().map(|cost| cost.condition.clone()).collect();
    let places = conditions.iter().enumerate();
    let points = places.filter_map(|(index, name)| Some((index as f64, published_ratio(published, name)?))).collect();
    let published = Series { name: "published".into(), mark: Mark::Published, points, ..Series::default() };
    Figure {
        id: "ratio".into(),
        title: "Cost of anti-caching".into(),
        caption:
            "Time with anti-caching over that without: median of the ratio within a round, with its 95 % interval \
             from 5 rounds on. 1: no cost. Bpfs mode against itself shows the noise of this machine."
                .into(),
        device: "memory".into(),
        better: Better::Lower,
        kind: FigureKind::Bars {
            x: Axis::categories("operation", conditions),
            y: Axis::linear("anticache / bpfs").from_zero(),
            series: costs.series().into_iter().chain([published]).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_written_back_and_unknown_ones_refused() {
        for text in ["all", "create,read"] {
            assert_eq!(String::from(text.parse::<Operations>().unwrap()), text);
        }
        assert!("reed".parse::<Operations>().unwrap_err().contains("did you mean 'read'"));
    }
}
