//! Parameters of `bench`.

use clap::{Args, ValueEnum};
use senesce_core::parameter::real;
use senesce_core::{Bytes, Failure, Seed, Size, Span};
use senesce_volume::{FileSystem, Limits, OpenOptions, TargetSpec};
use senesce_workload::micro::{CallOptions, FileOpsOptions, SyncMode, WriteMode};
use senesce_workload::{Execution, Length, Options, Workload, builtin};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A benchmark on a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// The target.
    pub target: TargetSpec,
    /// A built-in workload, a workload file, `file-ops`, `append`, `random-write` or `cold-read`.
    pub workload: String,
    /// The text of a workload file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The ranks that run it; none: one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Ranks>,
    /// The options.
    pub how: BenchOptions,
}

/// Concurrent ranks of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranks {
    /// Number of ranks.
    pub count: u32,
    /// One file set for all of them instead of one for each.
    pub shared: bool,
}

/// How files are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// In turn.
    Rotation,
    /// At random.
    Random,
}

/// Read-ahead of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReadAhead {
    /// In KiB; 0: off.
    pub kib: u64,
}

/// The smallest page size of any machine; a kernel with larger pages refuses more values.
const PAGE_KIB: u64 = 4;

impl std::str::FromStr for ReadAhead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self { kib: 0 }),
            number => match number.parse::<u64>() {
                // The kernel counts it in pages, and rounds down (block/blk-sysfs.c, `queue_ra_store`).
                Ok(kib) if kib.is_multiple_of(PAGE_KIB) => Ok(Self { kib }),
                Ok(kib) => {
                    Err(format!("it must be a multiple of {PAGE_KIB} KiB (a page): write {}", kib - kib % PAGE_KIB))
                }
                Err(_) => Err("write off or a number of KiB".to_string()),
            },
        }
    }
}

fn some_time(text: &str) -> Result<Span, String> {
    match text.parse::<Span>().map_err(|error| error.to_string())? {
        time if time.0.is_zero() => Err("the time must be above 0".into()),
        time => Ok(time),
    }
}

/// The options that determine a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BenchOptions {
    /// Multiply the size of file sets
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = real(0.0..=f64::MAX), help_heading = "Workload")]
    pub scale: f64,
    /// Set a variable of the workload; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, help_heading = "Workload")]
    pub set: Vec<String>,
    /// Choice of files: rotation, random
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Choice::Rotation, hide_default_value = true, hide_possible_values = true,
          help_heading = "Workload")]
    pub choice: Choice,
    /// Draw other file sets than Filebench does
    #[arg(long, value_name = "N", help_heading = "Workload")]
    pub populate_seed: Option<u64>,
    /// Stop after writing the file sets
    #[arg(long, help_heading = "Workload")]
    pub populate_only: bool,
    /// Execute no system calls, to measure the engine
    #[arg(long, help_heading = "Workload")]
    pub null: bool,
    /// file-ops: operations, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Benchmarks")]
    pub ops: Vec<String>,
    /// file-ops: add mail loads and a source tree
    #[arg(long, help_heading = "Benchmarks")]
    pub macros: bool,
    /// append, random-write: sizes [default: 1 to 16M by 4]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Benchmarks")]
    pub sizes: Vec<Size>,
    /// append, random-write: fsync, fdatasync, dsync or none
    #[arg(long, value_name = "HOW", default_value = "fsync", hide_default_value = true, help_heading = "Benchmarks")]
    pub sync: String,
    /// append, random-write: maximum calls per size
    #[arg(long, value_name = "N", default_value_t = 1000, hide_default_value = true, help_heading = "Benchmarks")]
    pub calls: u64,
    /// cold-read: wait after the remount
    #[arg(long, value_name = "TIME", default_value = "0s", hide_default_value = true, help_heading = "Benchmarks")]
    pub settle: Span,
    /// cold-read: read-ahead, off or a size in KiB
    #[arg(long, value_name = "KIB", help_heading = "Benchmarks")]
    pub read_ahead: Option<ReadAhead>,
    /// cold-read: record the device's requests
    #[arg(long, help_heading = "Benchmarks")]
    pub trace: bool,
    /// File system to make
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    pub fs: Option<FileSystem>,
    /// More options for mkfs
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true,
        help_heading = "Target"
    )]
    pub mkfs_options: String,
    /// Mount options
    #[arg(long, value_name = "OPTIONS", default_value = "", hide_default_value = true, help_heading = "Target")]
    pub mount_options: String,
    /// Hold the image in memory until the run ends
    #[arg(long, help_heading = "Target")]
    pub in_memory: bool,
    /// Keep the file system of the target
    #[arg(long, help_heading = "Target")]
    pub keep: bool,
    /// Time to measure [default: the workload's, or 60s]
    #[arg(long, value_name = "TIME", value_parser = some_time, conflicts_with_all = ["operations", "steady"],
          help_heading = "Measurement")]
    pub time: Option<Span>,
    /// Operations to measure
    #[arg(long, value_name = "N", conflicts_with = "steady", value_parser = clap::value_parser!(u64).range(1..),
          help_heading = "Measurement")]
    pub operations: Option<u64>,
    /// Maximum time until five intervals agree
    #[arg(long, value_name = "TIME", value_parser = some_time, help_heading = "Measurement")]
    pub steady: Option<Span>,
    /// Time before counting starts
    #[arg(long, value_name = "TIME", default_value = "0s", help_heading = "Measurement")]
    pub warm_up: Span,
    /// Length of an interval [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = some_time, help_heading = "Measurement")]
    pub interval: Option<Span>,
    /// Repetitions, each on new file sets
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..),
          help_heading = "Measurement")]
    pub reps: u64,
    /// Keep caches warm
    #[arg(long, help_heading = "Measurement")]
    pub keep_caches: bool,
    /// Limit of memory, page cache included
    #[arg(long, value_name = "SIZE", help_heading = "Measurement")]
    pub memory: Option<Size>,
    /// Limit of processors, such as 1.5
    #[arg(long, value_name = "N", help_heading = "Measurement")]
    pub cpus: Option<f64>,
    /// Report longer system calls
    #[arg(long, value_name = "TIME", default_value = "60s", help_heading = "Measurement")]
    pub stuck_after: Span,
}

fn variable(text: &str) -> Result<String, String> {
    match text.contains('=') {
        true => Ok(text.into()),
        false => Err("write NAME=VALUE, for example --set nfiles=1000".into()),
    }
}

#[derive(Debug, Clone)]
pub enum Subject {
    Workload(Box<Workload>, Options),
    FileOps(FileOpsOptions),
    Calls(CallOptions),
    ColdRead,
}

pub fn workload_text(workload: &str) -> Result<Option<String>, Failure> {
    if !workload.ends_with(".f") && !workload.contains('/') {
        return Ok(None);
    }
    let text = senesce_core::input::text(Path::new(workload));
    text.map(Some).map_err(|error| Failure::usage(format!("read workload file {workload}: {error}")))
}

impl BenchOptions {
    pub fn subject(&self, workload: &str, text: Option<&str>, seed: Seed) -> Result<Subject, Failure> {
        Ok(match workload {
            "append" => self.calls(WriteMode::Append, seed)?,
            "random-write" => self.calls(WriteMode::RandomWrite, seed)?,
            "file-ops" => {
                let sync = if self.sync == "none" { vec![false] } else { vec![false, true] };
                let time = self.time.map_or(FileOpsOptions::default().time, |time| time.0);
                let (operations, macros) = (self.ops.clone(), self.macros);
                Subject::FileOps(FileOpsOptions { operations, sync, time, macros, seed, ..FileOpsOptions::default() })
            }
            "cold-read" => Subject::ColdRead,
            _ => Subject::Workload(Box::new(self.model(workload, text)?), self.options(seed)),
        })
    }

    fn calls(&self, mode: WriteMode, seed: Seed) -> Result<Subject, Failure> {
        let mut options = CallOptions { calls: self.calls, seed, ..CallOptions::new(mode) };
        options.sync = self.sync.parse::<SyncMode>()?;
        if !self.sizes.is_empty() {
            options.sizes = self.sizes.iter().map(|size| size.0).collect();
        }
        Ok(Subject::Calls(options))
    }

    fn model(&self, workload: &str, text: Option<&str>) -> Result<Workload, Failure> {
        let pairs = self.set.iter().filter_map(|pair| pair.split_once('='));
        let variables: BTreeMap<String, String> =
            pairs.map(|(name, value)| (name.trim_start_matches('$').to_string(), value.to_string())).collect();
        match text {
            Some(_) if self.scale != 1.0 => {
                Err(Failure::usage("--scale is for built-in workloads; set the file's own variables with --set"))
            }
            Some(text) => Ok(Workload::parse(workload, text, &variables)?),
            None => Ok(builtin(workload, self.scale, &variables)?),
        }
    }

    fn options(&self, seed: Seed) -> Options {
        let length = match (self.time, self.operations, self.steady) {
            (Some(time), _, _) => Some(Length::Time(time.0)),
            (_, Some(count), _) => Some(Length::Operations(count)),
            (_, _, Some(most)) => Some(Length::Steady(most.0)),
            _ => None,
        };
        Options {
            seed,
            populate_seed: self.populate_seed,
            length,
            warm_up: self.warm_up.0,
            interval: self.interval.map(|interval| interval.0),
            random_choice: self.choice == Choice::Random,
            stuck_after: self.stuck_after.0,
            execution: if self.null { Execution::Null } else { Execution::System },
            ..Options::default()
        }
    }
}

impl Spec {
    pub(crate) fn subject(&self, seed: Seed) -> Result<Subject, Failure> {
        self.how.subject(&self.workload, self.text.as_deref(), seed)
    }

    /// Returns the options to open the target; `erase` is the identity of a target that may lose its content.
    pub(crate) fn open_options(&self, erase: Option<String>) -> OpenOptions {
        OpenOptions {
            file_system: self.how.fs,
            mkfs_options: self.how.mkfs_options.clone(),
            mount_options: self.how.mount_options.clone(),
            in_memory: self.how.in_memory,
            erase,
            keep_existing: self.how.keep || self.workload == "cold-read",
            ..OpenOptions::default()
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { memory: self.how.memory.map(|size| size.0), cpus: self.how.cpus }
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.ranks.is_some_and(|ranks| ranks.shared)
    }

    pub(crate) fn name(&self, subject: &Subject) -> String {
        match subject {
            Subject::Workload(workload, _) => workload.name.clone(),
            _ => self.workload.clone(),
        }
    }

    pub(super) fn bytes_of_calls(subject: &Subject) -> Bytes {
        match subject {
            Subject::Calls(options) => options.bytes_to_write(),
            _ => Bytes(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ahead_accepts_only_values_the_kernel_can_set() {
        assert_eq!("off".parse::<ReadAhead>(), Ok(ReadAhead { kib: 0 }));
        assert_eq!("128".parse::<ReadAhead>(), Ok(ReadAhead { kib: 128 }));
        let refused = "6".parse::<ReadAhead>().unwrap_err();
        assert!(refused.ends_with("write 4"), "{refused}");
        assert!("-4".parse::<ReadAhead>().is_err() && "4k".parse::<ReadAhead>().is_err());
    }
}
