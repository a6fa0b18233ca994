//! Latency of a write call by size: the common part of the experiments `append` and `random-write`.

use super::costs::Costs;
use super::interleave::{AGAIN, Turns};
use super::results::{Medians, Value};
use super::subject::{Kind, NAMES};
use super::{COLD_LATENCY, MEMORY, PERIOD, ROUNDS, THREADS, THRESHOLD};
use senesce_core::analysis::Better;
use senesce_core::{
    Analysis, Axis, Bytes, Failure, Figure, FigureKind, Finding, Parameter, ParameterKind, Plan, Record, RunContext,
    Seed, Settings, Silent, Verdict,
};
use senesce_workload::micro::{CallOptions, WriteMode, measure_calls};
use serde_json::json;

/// Bytes of a block of the tier file system.
const BLOCK: u64 = 4096;

/// Parameters of both experiments.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "subjects",
        help: "file systems to compare",
        kind: ParameterKind::Choices(NAMES),
        defaults: ["anticache,bpfs,ext4,ext4-disk"; 3],
    },
    Parameter {
        name: "sizes",
        help: "bytes per call, separated by commas",
        kind: ParameterKind::Text,
        defaults: ["8,4K,64K", "8,64,512,4K,16K,64K,256K,1M", "8,64,512,4K,16K,64K,256K,1M,4M,16M"],
    },
    Parameter {
        name: "calls",
        help: "calls per size, file system and round, at most",
        kind: ParameterKind::Integer { min: 8, max: 1_000_000 },
        defaults: ["50", "400", "2000"],
    },
    Parameter {
        name: "file-size",
        help: "size of the file that random writes go to; at least twice the threshold",
        kind: ParameterKind::Size,
        defaults: ["16M", "96M", "512M"],
    },
    Parameter { name: "threshold", help: THRESHOLD.help, kind: THRESHOLD.kind, defaults: ["8M", "40M", "40M"] },
    Parameter { name: "rounds", help: ROUNDS.help, kind: ROUNDS.kind, defaults: ["1", "5", "15"] },
    COLD_LATENCY,
    MEMORY,
    PERIOD,
    THREADS,
];

fn options(settings: &Settings, mode: WriteMode) -> Result<CallOptions, Failure> {
    let sizes = settings.list("sizes").iter().map(|text| text.parse()).collect::<Result<Vec<Bytes>, _>>()?;
    let file_size = settings.size("file-size")?;
    if mode == WriteMode::RandomWrite && file_size.0 < 2 * settings.size("threshold")?.0 {
        return Err(Failure::usage(
            "--file-size must be at least twice --threshold, or the data are not in both tiers",
        ));
    }
    if 2 * file_size.0 > settings.size("memory")?.0 {
        return Err(Failure::usage("--memory must be at least twice --file-size, so that the baseline holds it too"));
    }
    let bytes = Bytes(settings.size("memory")?.0 / 4);
    Ok(CallOptions {
        sizes,
        calls: settings.integer("calls")?,
        bytes,
        file_size,
        seed: settings.seed(),
        ..CallOptions::new(mode)
    })
}

/// Validates and says what a run would do.
pub fn plan(kind: &str, mode: WriteMode, settings: &Settings) -> Result<Plan, Failure> {
    let options = options(settings, mode)?;
    let setup = super::setup(settings)?;
    let kinds = Kind::list(&settings.list("subjects"));
    let mut plan = Plan::new(kind, settings.seed(), settings.to_map());
    for kind in &kinds {
        plan.step(format!("{} sizes, each call followed by fsync", options.sizes.len()), Kind::label(kind.name()));
    }
    let rounds = settings.integer("rounds")?;
    plan.bytes_to_write =
        rounds * kinds.len() as u64 * options.sizes.len() as u64 * (options.bytes.0 + options.file_size.0);
    let calls = (options.calls * rounds) as f64 * options.sizes.len() as f64;
    let disk_us = setup.latency.map_or(0.0, |latency| latency.sync.as_secs_f64() * 4e6);
    plan.estimated_seconds = calls * (kinds.len() as f64 * 300.0 + disk_us) / 1e6;
    Ok(plan)
}

/// Measures all sizes on all subjects.
pub fn run(mode: WriteMode, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
    let (options, setup) = (options(settings, mode)?, super::setup(settings)?);
    let kinds = Kind::list(&settings.list("subjects"));
    if let Some(latency) = &setup.latency {
        context.progress.say(&format!("cold store and disk of ext4: {latency}"));
        context.directory.append("latency", &latency.to_string())?;
    }
    let turns = Turns {
        kinds: &kinds,
        setup: &setup,
        conditions: &options.sizes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        rounds: settings.integer("rounds")?,
        seed: settings.seed(),
    };
    turns.run(context, |subject, size, context| {
        let one = CallOptions { sizes: vec![options.sizes[size]], ..options.clone() };
        let measured = measure_calls(subject.directory()?, &one, &Silent, context.interrupt)?;
        Ok(measured.sizes.iter().flat_map(|size| [("p50", size.p50_us), ("p99", size.p99_us)]).collect())
    })
}

/// What an experiment says of its ratios.
pub struct Claim {
    /// In words.
    pub claim: &'static str,
    /// Whether writes of less than a block must fetch it.
    pub part_is_dear: bool,
}

impl Claim {
    fn finding(&self, sizes: &[String], values: &[Value], seed: Seed) -> Finding {
        let is_part = |size: &&String| size.parse::<Bytes>().is_ok_and(|size| size.0 < BLOCK);
        let (part, whole) = sizes.iter().cloned().partition(|size| self.part_is_dear && is_part(&size));
        let (part, whole) = (Costs::new(part, values, seed, "sizes"), Costs::new(whole, values, seed, "sizes"));
        let (measured, verdict) = match self.part_is_dear {
            false => (whole.words(), whole.free()),
            true => {
                let words = format!("less than a block: {}. Whole blocks: {}", part.words(), whole.words());
                let free = whole.free();
                (words, if free == Verdict::Seen && !part.dear() { Verdict::NotSeen } else { free })
            }
        };
        let (claim, published) = (self.claim.into(), "a figure without readable values".into());
        Finding { claim, published, measured, verdict, note: "the sizes that were published are not known".into() }
    }
}

/// Tables, the figure over the sizes, and what it says.
pub fn analyse(title: &str, claim: &Claim, record: &Record) -> Result<Analysis, Failure> {
    let seed = record.plan.seed;
    let all: Vec<Value> = record.events_of("p50").collect();
    let once =
        |values: &[Value]| -> Vec<Value> { values.iter().filter(|value| value.subject != AGAIN).cloned().collect() };
    let p50 = Medians::new(&once(&all), seed);
    let p99 = Medians::new(&once(&record.events_of("p99").collect::<Vec<_>>()), seed);
    let evicted: u64 = record
        .events_of::<serde_json::Value>("stats")
        .filter(|event| event["subject"] == "anticache")
        .filter_map(|event| event["stats"]["evicted"].as_u64())
        .sum();
    let latency = record.events_of::<String>("latency").last().unwrap_or("none".into());
    let costs = Costs::new(p50.conditions.clone(), &all, seed, "sizes");
    let figure = Figure {
        id: "latency".into(),
        title: title.into(),
        caption: "Median latency of a call and its fsync, with 95 % intervals over the rounds.".into(),
        device: format!("file systems in memory; cold store and disk modelled: {latency}"),
        better: Better::Lower,
        kind: FigureKind::Lines {
            x: Axis::linear("bytes per call").log2().in_bytes(),
            y: Axis::linear("latency (us)").log10(),
            series: p50.series(|_, size| size.parse::<Bytes>().map_or(0.0, |size| size.0 as f64)),
        },
    };
    Ok(Analysis {
        title: title.into(),
        summary: format!("{evicted} blocks were evicted while anticache was measured."),
        figures: vec![figure],
        tables: vec![
            p50.table("p50", "Median latency", "size", "us"),
            p99.table("p99", "99th percentile", "size", "us"),
            costs.table("size"),
        ],
        findings: vec![claim.finding(&p50.conditions, &all, seed)],
        caveats: vec![format!("modelled: latency of the cold store and of ext4's disk: {latency}")],
        result: json!({"p50_us": p50.json(), "p99_us": p99.json(), "evicted": evicted, "cold_latency": latency}),
    })
}
