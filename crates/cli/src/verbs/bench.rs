//! `senesce bench TARGET WORKLOAD`: workloads, microbenchmarks, cold reads.

mod ranks;
mod request;

use crate::Exit;
use crate::display::print_analysis;
use crate::session::{Session, runs_directory};
use crate::table::Verb;
use crate::verbs::report::output_failed;
use clap::{Args, ValueEnum};
use senesce_core::units::parse_duration;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_experiments::conduct::default_path;
use senesce_experiments::verbs::bench::{self, Outcome, Request, Subject};
use senesce_target::FileSystem;
use senesce_workload::{PERSONALITIES, draw};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables
    Table,
    /// Filebench's own breakdown and summary lines
    Filebench,
}

/// Measure a workload, file operations, writes by size, or a cold read
#[derive(Args)]
pub struct Bench {
    /// Directory, image:FILE[,size=1G], memory:1G or a block device (in the lab's guest auto: its only NVMe drive)
    target: Option<String>,
    /// A built-in workload (see --list), a workload file (FILE.f), file-ops, append, random-write or cold-read
    workload: Option<String>,
    /// List the built-in workloads
    #[arg(long)]
    list: bool,
    /// Parse and validate only; the target is not touched
    #[arg(long)]
    check: bool,
    /// Stop after the file sets are written
    #[arg(long)]
    populate_only: bool,
    /// Print what would be done and stop
    #[arg(long)]
    dry_run: bool,
    /// Measure this long, for example 10s [default: as the workload says, else 60s]
    #[arg(long, value_name = "TIME", value_parser = some_time, conflicts_with_all = ["operations", "steady"])]
    time: Option<Duration>,
    /// Measure this many operations
    #[arg(long, value_name = "N", conflicts_with = "steady", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// Measure until the last five intervals agree, at most this long
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    steady: Option<Duration>,
    /// Run this long before counting
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    warm_up: Duration,
    /// Length of the intervals over time [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    interval: Option<Duration>,
    /// Repetitions; file sets are written anew and the target is remounted for each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    reps: u64,
    /// Seed of everything random while the workload runs
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Draw other file sets than Filebench does
    #[arg(long, value_name = "N")]
    populate_seed: Option<u64>,
    /// Threads that write file sets
    #[arg(long, value_name = "N")]
    populate_threads: Option<usize>,
    /// Set a variable of the workload
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Multiply a built-in workload's file sets
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,
    /// How files are chosen
    #[arg(long, value_parser = ["rotation", "random"], default_value = "rotation")]
    choice: String,
    /// Limit memory, page cache included
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Limit processors, for example 4 or 1.5
    #[arg(long, value_name = "N")]
    cpus: Option<f64>,
    /// Do not make caches cold before measuring
    #[arg(long)]
    keep_caches: bool,
    /// Report a system call that takes longer
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    stuck_after: Duration,
    /// Execute no system calls: measures the engine itself
    #[arg(long)]
    null: bool,
    /// file-ops: only these operations, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ops: Vec<String>,
    /// file-ops: also mail loads, unpacking and removing a source tree
    #[arg(long)]
    macros: bool,
    /// append, random-write: sizes, separated by commas [default: 1 byte to 16 MiB in steps of four]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sizes: Vec<Bytes>,
    /// append, random-write: fsync, fdatasync, dsync or none; file-ops: none leaves out the runs with fsync
    #[arg(long, value_name = "HOW", default_value = "fsync")]
    sync: String,
    /// append, random-write: most calls per size
    #[arg(long, value_name = "N", default_value_t = 1000)]
    calls: u64,
    /// cold-read: wait after the remount
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    settle: Duration,
    /// cold-read: off, or KiB [default: as it is]
    #[arg(long, value_name = "KIB")]
    read_ahead: Option<String>,
    /// cold-read: record the device's requests meanwhile
    #[arg(long)]
    trace: bool,
    /// File system to make on an image or device
    #[arg(long, value_name = "NAME")]
    fs: Option<FileSystem>,
    /// More options for mkfs
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    mkfs_options: String,
    /// Mount options
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    mount_options: String,
    /// Hold the image in memory while it is used
    #[arg(long)]
    in_memory: bool,
    /// Use the file system that is there
    #[arg(long)]
    keep: bool,
    /// Allow the loss of what is there: repeats the path or serial number
    #[arg(long, value_name = "IDENTITY")]
    erase: Option<String>,
    /// Run on all ranks that mpirun started, each with a file set of its own; the target is a directory that all see
    #[arg(long)]
    mpi: bool,
    /// One file set for all ranks
    #[arg(long, requires = "mpi")]
    shared: bool,
    /// Run directory [default: a new one in senesce-runs]
    #[arg(long, value_name = "RUNDIR")]
    out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// A time in which something can be measured.
fn some_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("nothing can be measured in no time".into()),
        time => Ok(time),
    }
}

impl Verb for Bench {
    const NAME: &'static str = "bench";
    const ABOUT: &'static str =
        "Measure a workload (Filebench's language), file operations, writes by size, a cold read";

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        if self.list {
            return self.print_list();
        }
        if self.mpi {
            return self.run_by_ranks(session);
        }
        let (target, name) = self.names()?;
        if self.check {
            return self.check(&name);
        }
        let target = target.ok_or_else(|| Failure::usage("name the target: senesce bench TARGET WORKLOAD"))?;
        let mut request = self.request(&target, &name)?;
        let plan = bench::plan(&request)?;
        if self.dry_run {
            return crate::verbs::reproduce::print_plan(&plan, self.json);
        }
        if self.out.is_none() {
            request.out = default_path(&runs_directory(), &plan, true);
        }
        let outcome = bench::run(&request, session.progress(), &session.interrupt()?)?;
        self.show(&request, &outcome, session)
    }
}

impl Bench {
    fn show(&self, request: &Request, outcome: &Outcome, session: &Session) -> Result<Exit, Failure> {
        session.clear();
        if self.format == Format::Filebench && !self.json {
            for repetition in &outcome.repetitions {
                writeln!(std::io::stdout(), "{}", repetition.filebench_lines()).map_err(output_failed)?;
            }
        } else {
            print_analysis(&outcome.analysis, self.json).map_err(output_failed)?;
        }
        for (number, reason) in outcome.repetitions.iter().map(|repetition| &repetition.reason).enumerate() {
            if let Some(reason) = reason {
                eprintln!("repetition {}: {reason}", number + 1);
            }
        }
        eprintln!("record: {path}   report: senesce report {path}", path = request.out.display());
        Ok(outcome.exit.into())
    }

    /// With `--check`, the workload alone is enough.
    fn names(&self) -> Result<(Option<String>, String), Failure> {
        match (&self.target, &self.workload) {
            (target, Some(workload)) => Ok((target.clone(), workload.clone())),
            (Some(workload), None) if self.check => Ok((None, workload.clone())),
            _ => Err(Failure::usage(
                "name a target and a workload: senesce bench TARGET WORKLOAD; see senesce bench --list",
            )),
        }
    }

    fn print_list(&self) -> Result<Exit, Failure> {
        let micro = [
            ("file-ops", "36 single file operations, timed alone"),
            ("append", "latency of appends by size"),
            ("random-write", "latency of random writes by size"),
            ("cold-read", "read everything that is there, caches cold (the grep test)"),
        ];
        let list = PERSONALITIES.iter().map(|personality| (personality.name, personality.summary)).chain(micro);
        let mut out = std::io::stdout().lock();
        if self.json {
            let value: Vec<_> = list.map(|(name, summary)| json!({ "name": name, "summary": summary })).collect();
            writeln!(out, "{:#}", json!(value)).map_err(output_failed)?;
            return Ok(ExitCode::Done.into());
        }
        for (name, summary) in list {
            writeln!(out, "{name:<14} {summary}").map_err(output_failed)?;
        }
        Ok(ExitCode::Done.into())
    }

    fn check(&self, name: &str) -> Result<Exit, Failure> {
        let Subject::Workload(workload, options) = self.subject(name)? else {
            return Ok(ExitCode::Done.into());
        };
        let filesets = draw(&workload, &options)?;
        let mut out = std::io::stdout().lock();
        if self.json {
            let value = json!({
                "workload": workload.name,
                "valid": true,
                "threads": workload.thread_count(),
                "filesets": filesets,
                "variables": workload.variables,
            });
            writeln!(out, "{value:#}").map_err(output_failed)?;
            return Ok(ExitCode::Done.into());
        }
        writeln!(out, "{}: valid, {} threads", workload.name, workload.thread_count()).map_err(output_failed)?;
        for set in filesets {
            let megabytes = set.bytes as f64 / 1_048_576.0;
            writeln!(out, "  {}: {} files, {} directories, {megabytes:.3} MB", set.name, set.files, set.directories)
                .map_err(output_failed)?;
        }
        for (name, value) in &workload.variables {
            writeln!(out, "  ${name} = {value}").map_err(output_failed)?;
        }
        Ok(ExitCode::Done.into())
    }
}
