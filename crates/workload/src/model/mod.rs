//! A workload with resolved variables: plain data for population and engine.

pub mod flowop;
pub(crate) mod random;
mod random_definition;
mod resolve;
pub(crate) mod resolve_flow;
mod scope;

pub use flowop::Direction;
pub(crate) use flowop::FlowopKind;
pub(crate) use random::{Drand48, GlibcRand, RandomVariable};

use crate::error::WorkloadError;
use crate::wml::Source;
use crate::wml::syntax::QuitMode;
use std::collections::BTreeMap;

/// Placeholder of the claimed directory in a path: the value of `$dir` unless set from outside.
pub(crate) const TARGET_PLACEHOLDER: &str = "{target}";

/// An attribute's value: fixed, or drawn at each use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Constant(u64),
    /// Index into [`Workload::randoms`].
    Random(usize),
}

/// A file set, or a single file (one entry).
#[derive(Debug, Clone, PartialEq)]
pub struct FilesetSpec {
    /// Also the name of its directory.
    pub name: String,
    /// Parent directory; a leading [`TARGET_PLACEHOLDER`] stands for the target.
    pub path: String,
    pub entries: Value,
    pub size: Value,
    /// Mean entries per directory.
    pub dirwidth: Value,
    /// Depth of each directory, if a variable is given.
    pub dirdepth: Option<usize>,
    /// Shape of the gamma distribution of directory depth and width, times 1000; 0: all equal.
    pub dirgamma: u64,
    pub leafdirs: Value,
    /// Percentage of files that exist at the start.
    pub prealloc_percent: u64,
    pub prealloc: bool,
    /// Whether to use an existing tree again.
    pub reuse: bool,
    /// Whether to trust an existing tree without checks.
    pub trusttree: bool,
    pub readonly: bool,
    pub writeonly: bool,
    /// Keep files in the page cache.
    pub cached: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FlowopSpec {
    /// Name, unique in practice; the key of results.
    pub name: String,
    pub kind: FlowopKind,
    /// Index into [`Workload::filesets`].
    pub fileset: Option<usize>,
    /// Bytes per call; 0 with whole-file flowops: the whole file at once.
    pub iosize: Value,
    /// Working set in bytes; 0: the file's size.
    pub workingset: Value,
    pub random: bool,
    /// Opens with `O_SYNC`.
    pub dsync: bool,
    pub directio: bool,
    /// Opens with `POSIX_FADV_RANDOM`.
    pub noreadahead: bool,
    pub opennext: bool,
    pub indexed: Option<Value>,
    /// Number of executions before the next.
    pub iters: Value,
    pub fd: usize,
    /// Slot whose file gives the size to write.
    pub srcfd: usize,
    pub target: Option<String>,
    /// Depends on the flowop: seconds, events, a limit.
    pub value: Value,
    pub text: String,
    pub blocking: bool,
    pub highwater: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FlowNode {
    Single(Box<FlowopSpec>),
    /// `iters` passes over its flowops.
    Composite {
        name: String,
        iters: Value,
        inner: Vec<FlowNode>,
    },
}

/// Threads that execute the same loop.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadSpec {
    pub name: String,
    pub instances: u64,
    /// Bytes of memory of each thread; 0: a buffer of the size of the call.
    pub memsize: u64,
    /// Best-effort I/O priority 0 to 7, if set.
    pub io_priority: Option<u8>,
    pub flow: Vec<FlowNode>,
}

/// Processes with the same threads, which run as threads of this process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessSpec {
    pub name: String,
    pub instances: u64,
    pub nice: i64,
    pub threads: Vec<ThreadSpec>,
}

/// A preparation step, in file order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Echo(String),
    System(String),
    /// Wait, in seconds.
    Sleep(u64),
    CreateFiles,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunLength {
    /// `None`: without a run command, or without a time.
    pub seconds: Option<u64>,
    /// Seconds between the statistics of `psrun`.
    pub interval: Option<u64>,
    /// Seconds before the statistics are cleared.
    pub warm_up: u64,
}

/// Maximum threads of a workload: the kernel's default on a large machine (/proc/sys/kernel/threads-max, 64 GiB).
pub(crate) const MOST_THREADS: u64 = 500_000;

#[derive(Debug, Clone)]
pub struct Workload {
    pub name: String,
    /// In order of definition.
    pub filesets: Vec<FilesetSpec>,
    pub randoms: Vec<RandomVariable>,
    pub processes: Vec<ProcessSpec>,
    /// Events per second of the event generator; `None` or 0: no limits.
    pub event_rate: Option<u64>,
    /// Reaction if no file can be obtained.
    pub quit_mode: QuitMode,
    /// Steps before the run.
    pub steps: Vec<Step>,
    pub run: RunLength,
    /// Every variable with its value, for `--check`.
    pub variables: BTreeMap<String, String>,
}

impl Workload {
    /// Parses and resolves a workload text. `overrides` set variables from outside and take precedence over the file. A name that
    /// the file does not use is an error.
    pub fn parse(name: &str, text: &str, overrides: &BTreeMap<String, String>) -> Result<Self, WorkloadError> {
        let source = Source::new(name, text);
        let commands = crate::wml::parse(&source)?;
        let workload = resolve::resolve(&source, &commands, overrides)?;
        let threads = workload.thread_count();
        if threads > MOST_THREADS {
            return Err(WorkloadError::Usage(format!(
                "{name} has {threads} threads, instances included; a workload has at most {MOST_THREADS}"
            )));
        }
        Ok(workload)
    }

    pub fn thread_count(&self) -> u64 {
        let sum = |sum: u64, more: u64| sum.saturating_add(more);
        let of_one = |process: &ProcessSpec| process.threads.iter().map(|thread| thread.instances).fold(0, sum);
        self.processes.iter().map(|process| process.instances.saturating_mul(of_one(process))).fold(0, sum)
    }
}
