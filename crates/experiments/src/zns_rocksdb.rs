//! RocksDB's own benchmark on file systems over a conventional and over a zoned drive, and on ZenFS.

mod analysis;
mod bench;
mod output;
mod setup;

use crate::drives;
use crate::lab_cell::{LabCell, run_in_lab};
use bench::{BENCHMARKS, KEY_BYTES, Measured, VALUE_BYTES};
use senesce_core::{
    Analysis, Bytes, ExitCode, Experiment, Failure, Parameter, ParameterKind, Plan, Record, RunContext, RunKind,
    Settings,
};
use setup::{SETUPS, ZENFS};

pub use output::check as check_output;

/// The experiment.
pub struct ZnsRocksdb;

/// The program of Debian's rocksdb-tools.
const DB_BENCH: &str = "db_bench";

impl RunKind for ZnsRocksdb {
    fn kind(&self) -> &'static str {
        "zns-rocksdb"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        analysis::analyse(record, self.published())
    }
}

const fn parameter(
    name: &'static str,
    help: &'static str,
    kind: ParameterKind,
    defaults: [&'static str; 3],
) -> Parameter {
    Parameter { name, help, kind, defaults }
}

const EVERY_BENCHMARK: &str = "fillrandom,overwrite,readrandom,readwhilewriting,readwhilewriting-limited";
const EVERY_SETUP: &str = "xfs-conventional,f2fs-conventional,f2fs-zns,btrfs-zns";

const PARAMETERS: &[Parameter] = &[
    parameter(
        "setups",
        "file systems and drives to compare",
        ParameterKind::Choices(SETUPS),
        ["f2fs-zns", EVERY_SETUP, EVERY_SETUP],
    ),
    parameter(
        "benchmarks",
        "which of db_bench's benchmarks; in the published order, fillrandom among them",
        ParameterKind::Choices(&BENCHMARKS),
        ["fillrandom", EVERY_BENCHMARK, EVERY_BENCHMARK],
    ),
    parameter(
        "keys",
        "keys of 20 bytes with values of 800 bytes",
        ParameterKind::Integer { min: 100, max: 10_000_000_000 },
        ["2000", "200000", "1300000000"],
    ),
    parameter("read-time", "duration of each benchmark with readers", ParameterKind::Duration, ["1s", "10s", "30min"]),
    parameter("readers", "reading threads", ParameterKind::Integer { min: 1, max: 1024 }, ["1", "2", "32"]),
    parameter("write-limit", "bytes per second of the limited writer", ParameterKind::Size, ["20M", "20M", "20M"]),
    parameter("write-buffer", "RocksDB's write buffer; its level 1 holds two", ParameterKind::Size, ["1M", "8M", "2G"]),
    parameter("file-size", "RocksDB's files on conventional drives", ParameterKind::Size, ["1M", "8M", "128M"]),
    // The study: 95 % of two zone capacities of 1077 MiB.
    parameter("zoned-file-size", "RocksDB's files on zoned drives", ParameterKind::Size, ["1M", "15M", "2046M"]),
    parameter("size", "capacity of each drive in the lab", ParameterKind::Size, ["512M", "1G", "2T"]),
    parameter(
        "conventional",
        "conventional drive of this machine, or lab to boot the guest",
        ParameterKind::Text,
        ["lab", "lab", "lab"],
    ),
    parameter("zoned", "zoned drive of this machine, or lab", ParameterKind::Text, ["lab", "lab", "lab"]),
    parameter(
        "metadata",
        "small conventional drive beside the zoned one, or lab",
        ParameterKind::Text,
        ["lab", "lab", "lab"],
    ),
    parameter(
        "db-bench",
        "RocksDB's db_bench; one with the ZenFS plugin adds ZenFS",
        ParameterKind::Text,
        [DB_BENCH, DB_BENCH, DB_BENCH],
    ),
    parameter("time-limit", "ends the guest", ParameterKind::Duration, ["2min", "30min", "12h"]),
];

impl Experiment for ZnsRocksdb {
    fn title(&self) -> &'static str {
        "RocksDB on conventional and zoned drives: speed, write amplification, space"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/zns-rocksdb.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/zns-rocksdb.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        check(settings)?;
        bench::find_program(settings.text("db-bench"))?;
        let setups = setups(settings);
        let database = settings.integer("keys")? * (KEY_BYTES + VALUE_BYTES);
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        // The log, the flush and some four compactions of the fill and of the overwrite.
        plan.bytes_to_write = 12 * database * setups.len() as u64;
        let chosen = bench::chosen(settings);
        for name in &setups {
            plan.step(format!("make it anew; {}", chosen.join(", ")), name.clone());
        }
        let reading = chosen.iter().filter(|name| name.starts_with("read")).count() as f64
            * settings.duration("read-time")?.as_secs_f64()
            * setups.len() as f64;
        plan.estimated_seconds = reading + plan.bytes_to_write as f64 / 300e6;
        if in_lab(settings) {
            senesce_lab::kernel::choose(None)?;
            // Under emulation some 30 MB/s pass through RocksDB, and each of its starts takes seconds.
            plan.estimated_seconds = 10.0
                + reading
                + plan.bytes_to_write as f64 / 30e6
                + (3 + 2 * chosen.len()) as f64 * setups.len() as f64;
        }
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        if in_lab(settings) {
            return run_in_lab(&cell(settings)?, context);
        }
        let record = Record::open(context.directory.path())?;
        let done: Vec<Measured> = record.events_of("measured").collect();
        let finished =
            |name: &str| done.iter().filter(|one| one.setup == name).count() >= bench::chosen(settings).len();
        let mut ours = Vec::new();
        for name in setups(settings).iter().filter(|name| !finished(name)) {
            context.progress.phase(name, 0, "benchmarks");
            match bench::run_setup(name, settings, &mut ours, context) {
                // That a file system fails under the load is a result; the others are still measured.
                Err(failure) if failure.exit_code() == ExitCode::RunFailed => {
                    context.progress.say(&format!("{name} failed: {failure}"));
                    context.directory.append("setup-failed", &format!("{name}: {failure}"))?;
                }
                other => other?,
            }
        }
        if Record::open(context.directory.path())?.events_of::<Measured>("measured").next().is_none() {
            return Err(Failure::new(ExitCode::RunFailed, "no setup could be measured; events.jsonl says why"));
        }
        Ok(())
    }
}

fn in_lab(settings: &Settings) -> bool {
    settings.text("conventional") == "lab"
}

/// The chosen ones, and ZenFS where the user's db_bench has its plugin: only that names its scheme.
fn setups(settings: &Settings) -> Vec<String> {
    let mut names = settings.list("setups");
    let program = settings.text("db-bench");
    let has_plugin = || std::fs::read(program).is_ok_and(|bytes| bytes.windows(8).any(|part| part == b"zenfs://"));
    if program != DB_BENCH && has_plugin() {
        names.push(ZENFS.into());
    }
    names
}

fn check(settings: &Settings) -> Result<(), Failure> {
    for name in ["write-buffer", "file-size", "zoned-file-size", "write-limit", "size"] {
        if settings.size(name)? == Bytes(0) {
            return Err(Failure::usage(format!("{name} must be above 0")));
        }
    }
    settings.duration("time-limit")?;
    if !bench::chosen(settings).contains(&"fillrandom") {
        return Err(Failure::usage(
            "benchmarks: every other one needs the database that fillrandom makes; name it too",
        ));
    }
    let places = ["conventional", "zoned", "metadata"].map(|name| settings.text(name) == "lab");
    if places.contains(&true) && places.contains(&false) {
        return Err(Failure::usage(
            "conventional, zoned and metadata are either all in the lab or all drives of this machine",
        ));
    }
    let database = settings.integer("keys")? * (KEY_BYTES + VALUE_BYTES);
    let room = settings.size("size")?;
    // Space amplification, the log and what compaction has not yet deleted.
    if in_lab(settings) && database * 3 > room.0 {
        return Err(Failure::usage(format!(
            "{} keys make {}, which with room for compaction needs drives of three times that: raise size ({room}) or lower keys",
            settings.text("keys"),
            Bytes(database)
        )));
    }
    Ok(())
}

fn cell(settings: &Settings) -> Result<LabCell, Failure> {
    let mut arguments = ["reproduce", "zns-rocksdb", "--scale", settings.level().name()].map(str::to_string).to_vec();
    for name in PARAMETERS.iter().map(|parameter| parameter.name).chain(["seed"]) {
        let value = match name {
            "conventional" | "zoned" | "metadata" => "auto",
            other => settings.text(other),
        };
        arguments.extend(["--set".to_string(), format!("{name}={value}")]);
    }
    let drives = drives::emulated(settings.size("size")?);
    Ok(LabCell { drives, memory: Bytes::gib(1), time_limit: settings.duration("time-limit")?, arguments })
}
