//! Latency of write calls by size: shared by the experiments `append` and `random-write`.

use super::costs::Costs;
use super::disk::Disk;
use super::interleave::{AGAIN, Event, InterleavedRound, Reading};
use super::peaks::{self, Peaks};
use super::results::{Medians, Value};
use super::subject::{Subject, SubjectKind};
use super::{ColdLatency, check_disk, needs, setup};
use clap::{Args, value_parser};
use senesce_claims::Facts;
use senesce_core::analysis::Better;
use senesce_core::interrupt::Interrupt;
use senesce_core::{
    Analysis, Axis, Bytes, Failure, Figure, FigureKind, Level, Measurement, Seed, Silent, Size, Span, Table,
};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_tierfs::Latency;
use senesce_workload::micro::{CallOptions, SizeResult, Watch, WriteMode, measure_calls_watched};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::marker::PhantomData;

const P50: &str = "latency";
const P99: &str = "p99 latency";
const MEAN: &str = "mean latency";
const SIZE: &str = "size";

/// Maximum number of calls on a modelled disk drive: each takes tens of milliseconds, and a model does not vary.
const CALLS_ON_A_DRIVE: u64 = 24;

/// Parameters of both experiments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// file systems to compare
    #[arg(long, value_delimiter = ',')]
    pub subjects: Vec<SubjectKind>,
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// maximum calls per size, file system and round
    #[arg(long, value_parser = value_parser!(u64).range(8..=1_000_000))]
    pub calls: u64,
    /// size of the file that random writes go to; at least twice the threshold
    #[arg(long)]
    pub file_size: Size,
    /// bytes of files in memory above which blocks are evicted
    #[arg(long)]
    pub threshold: Size,
    /// rounds over all file systems, each in a different order
    #[arg(long, value_parser = value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// latency of the modelled disks: ssd, hdd or microseconds
    #[arg(long)]
    pub cold_latency: ColdLatency,
    /// directory on the disk that holds the cold store of anticache and the image of ext4-disk
    #[arg(long)]
    pub disk: Disk,
    /// size of the memory region, and of ext4's image
    #[arg(long)]
    pub memory: Size,
    /// time between two passes of the evictor
    #[arg(long)]
    pub period: Span,
    /// threads of a tier file system that answer the kernel
    #[arg(long, value_parser = value_parser!(u64).range(1..=64))]
    pub threads: u64,
}

impl Spec {
    fn options(&self, mode: WriteMode, seed: Seed) -> CallOptions {
        CallOptions {
            sizes: self.sizes.iter().map(|size| size.0).collect(),
            calls: self.calls,
            bytes: Bytes(self.memory.bytes() / 4),
            file_size: self.file_size.0,
            seed,
            ..CallOptions::new(mode)
        }
    }

    fn check(&self, mode: WriteMode) -> Result<(), Failure> {
        let file = self.file_size.bytes();
        if mode == WriteMode::RandomWrite && file < 2 * self.threshold.bytes() {
            return Err(Failure::usage(
                "--file-size must be at least twice --threshold, or the data are not in both tiers",
            ));
        }
        if 2 * file > self.memory.bytes() {
            return Err(Failure::usage(
                "--memory must be at least twice --file-size, so that the baseline holds it too",
            ));
        }
        Ok(())
    }
}

pub(crate) trait Writes: 'static {
    const ID: &'static str;
    const TITLE: &'static str;
    const HEADING: &'static str;
    const PAGE: &'static str;
    const PUBLISHED: &'static str;
    const CLAIMS: &'static str;
    const MODE: WriteMode;
}

pub struct Sizes<W>(PhantomData<W>);

impl<W: Writes> Run for Sizes<W> {
    const KIND: &'static str = W::ID;
    const PUBLISHED: &'static str = W::PUBLISHED;
    const CLAIMS: &'static str = W::CLAIMS;
    type Spec = Spec;
    type Event = Event;
    type Step = u64;

    fn needs(spec: &Spec) -> Needs {
        needs(spec.memory)
    }

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<u64>>, Failure> {
        spec.check(W::MODE)?;
        let (kinds, options) = (SubjectKind::in_order(&spec.subjects), spec.options(W::MODE, seed));
        let (subjects, sizes) = (kinds.len() as u64, spec.sizes.len() as u64);
        let bytes = Bytes(subjects * sizes * (options.bytes.0 + options.file_size.0));
        let disk_us = spec.cold_latency.model.sync.as_secs_f64() * 4e6;
        let drive_calls =
            if kinds.contains(&SubjectKind::Ext4Hdd) { spec.calls.min(CALLS_ON_A_DRIVE) * sizes } else { 0 };
        let seconds = (spec.calls * sizes) as f64 * (subjects as f64 * 300.0 + disk_us) / 1e6
            + drive_calls as f64 * 4.0 * Latency::HDD.write.as_secs_f64();
        let round = |round| {
            let action = format!("round {}: {sizes} sizes, each call followed by fsync", round + 1);
            Planned::new(round, action, SubjectKind::names(&kinds)).costing(bytes, seconds)
        };
        Ok((0..spec.rounds).map(round).collect())
    }

    fn begin(spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        check_disk(&spec.subjects, &spec.disk)?;
        Ok(Self(PhantomData))
    }

    fn step(&mut self, spec: &Spec, round: &u64, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let (options, interrupt) = (spec.options(W::MODE, context.seed), context.interrupt);
        let conditions: Vec<_> = options.sizes.iter().map(|size| (size.to_string(), size.0.to_string())).collect();
        let disk = (spec.cold_latency.model, &spec.disk);
        let setup = setup(spec.memory, spec.threshold, spec.period, spec.threads, disk);
        let kinds = SubjectKind::in_order(&spec.subjects);
        let turns = InterleavedRound { kinds: &kinds, setup: &setup, key: SIZE, conditions: &conditions };
        turns.round(*round, context, |subject, size| {
            let calls = if subject.kind == SubjectKind::Ext4Hdd { CALLS_ON_A_DRIVE } else { options.calls };
            let calls = calls.min(options.calls);
            let one = CallOptions { sizes: vec![options.sizes[size]], calls, ..options.clone() };
            match subject.evicting() {
                None => calls_on(subject, &one, &mut (), interrupt),
                Some(fs) => {
                    let settle_to = (W::MODE == WriteMode::RandomWrite).then_some(spec.threshold.0);
                    let mut watch = Peaks::new(fs, settle_to);
                    let mut readings = calls_on(subject, &one, &mut watch, interrupt)?;
                    readings.extend(watch.readings()?);
                    Ok(readings)
                }
            }
        })
    }

    fn facts(spec: &Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        spec.cold_latency.stated(facts)
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let all = values(recorded, P50);
        let once = |values: Vec<Value>| values.into_iter().filter(|value| value.subject != AGAIN).collect::<Vec<_>>();
        let (p50, p99) = (Medians::new(&once(all.clone())), Medians::new(&once(values(recorded, P99))));
        let evicted: u64 = recorded.events().map(|Event::Stats { stats, .. }| stats.evicted).sum();
        let costs = Costs::new(p50.conditions.clone(), &all, "sizes");
        let figure = Figure {
            id: "latency".into(),
            title: W::HEADING.into(),
            caption:
                "Median latency of a call and its fsync, over the rounds, with its 95 % interval from 5 rounds on."
                    .into(),
            device: format!("memory, the disk of {}, and modelled disks: {}", spec.disk, spec.cold_latency),
            better: Better::Lower,
            kind: FigureKind::Lines {
                x: Axis::linear("bytes per call").log2().in_bytes(),
                y: Axis::linear("latency (us)").log10(),
                series: p50.series(|_, size| size.parse::<Bytes>().map_or(0.0, |size| size.0 as f64)),
            },
        };
        let tables = vec![
            p50.table("p50", "Median latency", "size", "us"),
            p99.table("p99", "99th percentile", "size", "us"),
            costs.table("size"),
            tiers(recorded),
        ];
        let fetched = Medians::new(&values(recorded, peaks::FETCHED)).json();
        Ok(Analysis {
            title: W::HEADING.into(),
            summary: format!("{evicted} blocks were evicted while file systems with an evictor were measured."),
            figures: vec![figure],
            tables,
            findings: Vec::new(),
            caveats: spec.cold_latency.caveats(&spec.disk),
            result: json!({
                "p50_us": p50.json(),
                "p99_us": p99.json(),
                "evicted": evicted,
                "fetched_percent": fetched,
                "cold_at_start_percent": Medians::new(&values(recorded, peaks::COLD_AT_START)).json(),
                "cold_latency": spec.cold_latency.to_string(),
            }),
        })
    }
}

impl<W: Writes> Experiment for Sizes<W> {
    const TITLE: &'static str = W::TITLE;
    const PAGE: &'static str = W::PAGE;

    fn defaults(level: Level) -> Spec {
        let sizes = |texts: &[u64]| texts.iter().map(|size| Size(Bytes(*size))).collect::<Vec<_>>();
        let all = [8, 64, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
        Spec {
            subjects: subjects(level),
            sizes: level.of([sizes(&[8, 4 << 10, 64 << 10]), sizes(&all[..8]), sizes(&all)]),
            calls: level.of([50, 400, 2000]),
            file_size: Size(Bytes::mib(level.of([16, 96, 512]))),
            threshold: Size(Bytes::mib(level.of([8, 40, 40]))),
            rounds: level.of([1, 5, 15]),
            cold_latency: ColdLatency::ssd(),
            disk: Disk::default(),
            memory: Size(Bytes::mib(level.of([128, 512, 2048]))),
            period: Span::from_millis(10),
            threads: 2,
        }
    }
}

/// Returns all subjects; the modelled disk drive takes too long for the smallest scale.
fn subjects(level: Level) -> Vec<SubjectKind> {
    let mut all = vec![
        SubjectKind::Anticache,
        SubjectKind::AnticacheModel,
        SubjectKind::Bpfs,
        SubjectKind::Ext4,
        SubjectKind::Ext4Disk,
        SubjectKind::Ext4Model,
    ];
    if level != Level::Smoke {
        all.push(SubjectKind::Ext4Hdd);
    }
    all
}

fn calls_on(
    subject: &Subject,
    options: &CallOptions,
    watch: &mut dyn Watch,
    interrupt: &Interrupt,
) -> Result<Vec<Reading>, Failure> {
    let calls = measure_calls_watched(subject.directory()?, options, &Silent, interrupt, watch)?.valid()?;
    let of_size = |size: &SizeResult| {
        [(P50, size.p50_us), (P99, size.p99_us), (MEAN, size.mean_us)].map(|(name, us)| Reading::new(name, "us", us))
    };
    Ok(calls.sizes.iter().flat_map(of_size).collect())
}

fn tiers<W: Writes>(recorded: &Recorded<Sizes<W>>) -> Table {
    let columns = [
        "size",
        "file system",
        "cold at the start (%)",
        "calls that fetched (%)",
        "calls beyond the middle of the peaks (%)",
        "peak in memory (us)",
        "peak of fetches (us)",
    ];
    let title = "Fetches by the counter and by the latency, medians over the rounds; peaks if both agree";
    let mut table = Table::new("tiers", title, &columns);
    let metrics = [peaks::COLD_AT_START, peaks::FETCHED, peaks::SLOW].map(|name| Medians::new(&values(recorded, name)));
    let peak = |word: &str| {
        let of_word = |one: &&Measurement| one.condition.get("peak").is_some_and(|found| found == word);
        Medians::new(&with_sizes_as_text(Value::of(recorded.measurements().filter(of_word), peaks::PEAK, SIZE)))
    };
    let all = metrics.into_iter().chain([peak("in memory"), peak("fetched")]).collect::<Vec<_>>();
    for size in &all[1].conditions {
        for subject in &all[1].subjects {
            let cells = all.iter().map(|medians| json!(medians.estimate(size, subject).map(|found| found.value)));
            table.row([json!(size), json!(subject)].into_iter().chain(cells).collect::<Vec<_>>());
        }
    }
    table
}

fn values<W: Writes>(recorded: &Recorded<Sizes<W>>, metric: &str) -> Vec<Value> {
    with_sizes_as_text(Value::of(recorded.measurements(), metric, SIZE))
}

fn with_sizes_as_text(mut values: Vec<Value>) -> Vec<Value> {
    for value in &mut values {
        value.condition =
            value.condition.parse().map_or_else(|_| value.condition.clone(), |size| Bytes(size).to_string());
    }
    values
}
