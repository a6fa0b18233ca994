//! A workload after its variables are resolved: plain data that the population and the engine read.

pub mod flowop;
pub mod random;
mod random_definition;
mod resolve;
pub mod resolve_flow;
mod scope;

pub use flowop::{Direction, FlowopKind};
pub use random::{Drand48, GlibcRand, RandomVariable};

use crate::error::WorkloadError;
use crate::wml::Source;
use crate::wml::syntax::QuitMode;
use std::collections::BTreeMap;

/// Stands for the claimed directory in a path: `$dir` has this value unless it is set from outside.
pub const TARGET_PLACEHOLDER: &str = "{target}";

/// An attribute's value: fixed, or drawn anew at each use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Constant(u64),
    /// Index into [`Workload::randoms`].
    Random(usize),
}

/// A file set, or a single file (one entry).
#[derive(Debug, Clone, PartialEq)]
pub struct FilesetSpec {
    /// Name; also the name of its directory.
    pub name: String,
    /// Directory that holds it; [`TARGET_PLACEHOLDER`] at its start stands for the target.
    pub path: String,
    pub entries: Value,
    /// File size in bytes.
    pub size: Value,
    /// Mean entries per directory.
    pub dirwidth: Value,
    /// Depth of each directory, when a variable is given.
    pub dirdepth: Option<usize>,
    /// Shape of the gamma distribution of directory depth and width, times 1000; 0: all the same.
    pub dirgamma: u64,
    /// Number of leaf directories for makedir and removedir.
    pub leafdirs: Value,
    /// Percent of the files that exist at the start.
    pub prealloc_percent: u64,
    /// Whether the directory tree is made at the start.
    pub prealloc: bool,
    /// Whether an existing tree is used again.
    pub reuse: bool,
    /// Whether an existing tree is taken to be right without a look.
    pub trusttree: bool,
    /// Files are opened read-only.
    pub readonly: bool,
    /// Files are opened write-only.
    pub writeonly: bool,
    /// Files stay in the page cache.
    pub cached: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FlowopSpec {
    /// Name, unique in practice; results are kept by it.
    pub name: String,
    pub kind: FlowopKind,
    /// Index into [`Workload::filesets`].
    pub fileset: Option<usize>,
    /// Bytes per call; 0 with the whole-file flowops: the whole file at once.
    pub iosize: Value,
    /// Working set in bytes; 0: the file's size.
    pub workingset: Value,
    pub random: bool,
    /// Opens with `O_SYNC`.
    pub dsync: bool,
    /// Opens with `O_DIRECT`.
    pub directio: bool,
    /// Opens with `POSIX_FADV_RANDOM`.
    pub noreadahead: bool,
    /// Rotates through descriptors.
    pub opennext: bool,
    pub indexed: Option<Value>,
    /// How often it is executed before the next.
    pub iters: Value,
    pub fd: usize,
    /// Slot whose file gives the size to write.
    pub srcfd: usize,
    pub target: Option<String>,
    /// Depends on the flowop: seconds, events, a limit.
    pub value: Value,
    /// What `print` prints.
    pub text: String,
    /// A semaphore post waits for space.
    pub blocking: bool,
    /// Initial space of a semaphore's queue.
    pub highwater: u64,
}

/// A flowop or a composite flowop in a thread's loop.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowNode {
    Single(Box<FlowopSpec>),
    /// A composite flowop: `iters` passes over its flowops.
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
    /// Bytes of memory each reads into and writes from; 0: a buffer of the size of the call.
    pub memsize: u64,
    /// Best-effort I/O priority 0 to 7, if set.
    pub io_priority: Option<u8>,
    pub flow: Vec<FlowNode>,
}

/// Processes with the same threads. They run as threads of this process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessSpec {
    pub name: String,
    pub instances: u64,
    pub nice: i64,
    pub threads: Vec<ThreadSpec>,
}

/// What the file asks to be done around the run, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Echo(String),
    /// Run a shell command.
    System(String),
    /// Wait, in seconds.
    Sleep(u64),
    CreateFiles,
}

/// How long the file asks the run to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunLength {
    /// Seconds; `None`: the file has no run command or names no time.
    pub seconds: Option<u64>,
    /// Seconds between the statistics of `psrun`.
    pub interval: Option<u64>,
    /// Seconds before the statistics are cleared.
    pub warm_up: u64,
}

/// Threads of a workload: as many as the kernel has by default on a large machine (/proc/sys/kernel/threads-max, 64 GiB).
pub const MOST_THREADS: u64 = 500_000;

/// A workload, ready to be prepared on a directory.
#[derive(Debug, Clone)]
pub struct Workload {
    /// File name or name of the built-in personality.
    pub name: String,
    /// The file sets in the order of their definition.
    pub filesets: Vec<FilesetSpec>,
    pub randoms: Vec<RandomVariable>,
    pub processes: Vec<ProcessSpec>,
    /// Events per second of the event generator; `None` or 0: no limits.
    pub event_rate: Option<u64>,
    /// What happens when no file can be obtained.
    pub quit_mode: QuitMode,
    /// What to do before the run.
    pub steps: Vec<Step>,
    pub run: RunLength,
    /// Every variable with its value, for `--check`.
    pub variables: BTreeMap<String, String>,
}

impl Workload {
    /// Parses and resolves a workload text. `overrides` set variables from outside and win over the file. A name that
    /// the file does not know is an error.
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
