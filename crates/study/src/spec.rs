//! What a study asks for: the TOML file, read and checked as a whole.

use crate::adaptive;
use crate::check::with_suggestion;
use crate::device_state::DeviceState;
use crate::matrix::{ImageId, RunId};
use crate::questions::default_repetitions;
use senesce_aging::{Churn, CommitShare, Data, Truncate};
use senesce_core::parameter::suggest;
use senesce_core::plan::count_runs;
use senesce_core::{Bytes, Failure, Span};
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A study: file systems x states x workloads x images x repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudySpec {
    /// Title of the report.
    pub name: String,
    /// Size of every image.
    pub size: Bytes,
    /// Root seed.
    #[serde(default = "defaults::seed")]
    pub seed: u64,
    /// Repetitions of every cell on every image; with `until_decided` at most so many. As many as decide, or as the time
    /// allows, unless said: written out when the study is read.
    #[serde(default = "defaults::repetitions")]
    pub repetitions: u32,
    /// Whether cells are measured until their answers are decided.
    #[serde(default, skip_serializing_if = "is_false")]
    pub until_decided: bool,
    /// Time of all runs after which an undecided study ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Span>,
    /// Independent agings of every state.
    #[serde(default = "defaults::one")]
    pub images: u32,
    /// Whether every workload is measured twice over in the first state, as a control.
    #[serde(default)]
    pub noise: bool,
    /// Built-in device models that time the block trace of every run; empty: no trace is taken.
    #[serde(default)]
    pub models: Vec<String>,
    /// Kernels as an axis: every file system on each of them, `host` or a release of the lab. Written out into the file
    /// systems when the study is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// Memory of the lab's guest.
    #[serde(default = "defaults::guest_memory")]
    pub guest_memory: Bytes,
    /// Threads that age.
    #[serde(default = "defaults::two")]
    pub threads: usize,
    /// File systems.
    #[serde(default)]
    pub file_system: Vec<FileSystemSpec>,
    /// States; the first is the reference.
    #[serde(default)]
    pub state: Vec<StateSpec>,
    /// Workloads.
    #[serde(default)]
    pub workload: Vec<WorkloadSpec>,
    /// Exceptions for some cells.
    #[serde(default)]
    pub cell: Vec<CellSpec>,
}

mod defaults {
    /// Until the study is read.
    pub fn repetitions() -> u32 {
        senesce_stats::arm::LEAST_VALUES as u32
    }
    pub fn seed() -> u64 {
        senesce_core::seed::DEFAULT_SEED.0
    }
    pub fn one() -> u32 {
        1
    }
    pub fn two() -> usize {
        2
    }
    pub fn guest_memory() -> senesce_core::Bytes {
        senesce_core::Bytes::gib(2)
    }
}

// Serde wants a reference.
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A file system with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSystemSpec {
    /// `ext4`, `xfs`, `btrfs`, `f2fs`, `nilfs2`; `zoned-btrfs` and `zoned-f2fs` on the zoned drive of a guest.
    pub kind: String,
    /// Name in tables; the kind unless said.
    #[serde(default)]
    pub name: String,
    /// Options of mkfs.
    #[serde(default)]
    pub mkfs: String,
    /// Mount options.
    #[serde(default)]
    pub mount: String,
    /// Kernel: `host` (also when empty), or a release of the lab.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
}

/// How an image comes to its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateKind {
    /// An empty file system.
    Fresh,
    /// Aged by a profile.
    Aged,
    /// The same files as in the state `of`, copied in order to an empty file system, with the same kind of extents.
    Copy,
    /// Filled once, nothing deleted.
    WriteOnce,
    /// A saved image.
    Image,
}

/// A state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSpec {
    /// How it is made.
    pub kind: StateKind,
    /// Name in tables; the kind unless said.
    #[serde(default)]
    pub name: String,
    /// Profile (aged, write-once).
    #[serde(default)]
    pub profile: String,
    /// Fullness (aged, write-once).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fullness: Option<f64>,
    /// Overwrites (aged); until convergence unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrites: Option<f64>,
    /// How files get their size.
    #[serde(default)]
    pub data: Data,
    /// Which sizes are replaced.
    #[serde(default)]
    pub churn: Churn,
    /// What becomes of sizes that cannot fit.
    #[serde(default)]
    pub truncate: Truncate,
    /// Share of the free space that is freed between two commits, or `none` (aged).
    #[serde(default)]
    pub commit_share: CommitShare,
    /// The state whose files are copied (copy).
    #[serde(default)]
    pub of: String,
    /// The image file (image).
    #[serde(default)]
    pub path: String,
}

impl FileSystemSpec {
    /// A kind under its own name, without options.
    pub fn named(kind: &str) -> Self {
        let (kind, name) = (kind.to_string(), kind.to_string());
        Self { kind, name, mkfs: String::new(), mount: String::new(), kernel: String::new() }
    }
}

impl StateSpec {
    /// A state without a profile.
    pub fn named(kind: StateKind, name: &str) -> Self {
        Self {
            kind,
            name: name.into(),
            profile: String::new(),
            fullness: None,
            overwrites: None,
            data: Data::default(),
            churn: Churn::default(),
            truncate: Truncate::default(),
            commit_share: CommitShare::default(),
            of: String::new(),
            path: String::new(),
        }
    }
}

/// A workload: exactly one of `personality`, `file`, `cold_read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Name in tables; what it is unless said.
    #[serde(default)]
    pub name: String,
    /// A built-in personality.
    #[serde(default)]
    pub personality: String,
    /// A file in the workload language.
    #[serde(default)]
    pub file: String,
    /// One file operation, each on its own ("create", "unlink" ...).
    #[serde(default)]
    pub microbenchmark: String,
    /// Read everything that is there, from a cold cache.
    #[serde(default)]
    pub cold_read: bool,
    /// Factor for the file sets of a personality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Seconds of measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Variables of the workload.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Starts many ranks that run it together: `mpirun -n 4`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub launcher: String,
}

/// An exception: which cells, and what holds for them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// Only this file system.
    #[serde(default)]
    pub file_system: String,
    /// Only this state.
    #[serde(default)]
    pub state: String,
    /// Only this workload.
    #[serde(default)]
    pub workload: String,
    /// Leave them out.
    #[serde(default)]
    pub skip: bool,
    /// Memory of the run, page cache included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// CPUs of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Run them in the lab's guest.
    #[serde(default)]
    pub lab: bool,
    /// Kernel: `host`, or a release of the lab.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// What happens to the device below before every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_state: Option<DeviceState>,
}

/// The kernel that is running.
pub const HOST: &str = "host";

impl StudySpec {
    /// A study without cells.
    pub fn new(name: &str, size: Bytes) -> Self {
        Self {
            name: name.into(),
            size,
            seed: defaults::seed(),
            repetitions: defaults::repetitions(),
            until_decided: false,
            max_time: None,
            images: 1,
            noise: false,
            models: Vec::new(),
            kernels: Vec::new(),
            guest_memory: defaults::guest_memory(),
            threads: defaults::two(),
            file_system: Vec::new(),
            state: Vec::new(),
            workload: Vec::new(),
            cell: Vec::new(),
        }
    }

    /// Reads and checks a study. Every problem that can be known beforehand is found here.
    pub fn parse(origin: &str, text: &str) -> Result<Self, Failure> {
        Self::parse_with(origin, text, |_| {})
    }

    /// The same, changed by what the command line says before it is checked.
    pub fn parse_with(origin: &str, text: &str, change: impl FnOnce(&mut Self)) -> Result<Self, Failure> {
        let named = |problem: &dyn std::fmt::Display| Failure::usage(format!("{origin}: {problem}"));
        let mut spec: Self = toml::from_str(text).map_err(|error| named(&with_suggestion(&error.to_string())))?;
        let is_said = toml::from_str::<toml::Table>(text).is_ok_and(|keys| keys.contains_key("repetitions"));
        change(&mut spec);
        spec.count().map_err(|problem| named(&problem))?;
        spec.fill_names();
        spec.spread_kernels();
        spec.check().map_err(|problem| named(&problem))?;
        if !is_said {
            spec.repetitions = match spec.until_decided {
                true => adaptive::most_repetitions(&spec).map_err(|problem| named(&problem))?,
                false => default_repetitions(&spec),
            };
            spec.count().map_err(|problem| named(&problem))?;
        }
        Ok(spec)
    }

    /// Seconds of all runs after which an undecided study ends.
    pub fn most_seconds(&self) -> f64 {
        self.max_time.map_or(f64::INFINITY, Span::seconds)
    }

    /// Refuses a matrix that is too large, before any of it is expanded.
    pub fn count(&self) -> Result<(), Failure> {
        let length = |length: usize| length as u64;
        let factors = [
            (length(self.kernels.len().max(1)), "kernels"),
            (length(self.file_system.len()), "file systems"),
            (length(self.state.len()), "states"),
            (length(self.workload.len()), "workloads"),
            (u64::from(self.images), "images"),
            (u64::from(self.repetitions), "repetitions"),
        ];
        count_runs(&factors).map(drop)
    }

    /// Names that were left out.
    pub fn fill_names(&mut self) {
        for one in self.file_system.iter_mut().filter(|one| one.name.is_empty()) {
            one.name.clone_from(&one.kind);
        }
        for one in self.state.iter_mut().filter(|one| one.name.is_empty()) {
            one.name = one.kind.word().into();
        }
        for one in self.workload.iter_mut().filter(|one| one.name.is_empty()) {
            one.name = [&one.personality, &one.file, &one.microbenchmark]
                .into_iter()
                .find(|text| !text.is_empty())
                .map_or_else(|| "cold-read".into(), Clone::clone);
        }
    }

    /// The state that says how the files of `state` come to be: itself, or for a copy the state it copies.
    pub fn source<'a>(&'a self, state: &'a StateSpec) -> &'a StateSpec {
        match state.kind {
            StateKind::Copy => self.state.iter().find(|one| one.name == state.of).unwrap_or(state),
            _ => state,
        }
    }

    /// Indices of file system, state and workload of every cell, skipped ones included.
    pub fn combinations(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let states = move |fs| (0..self.state.len()).map(move |state| (fs, state));
        (0..self.file_system.len())
            .flat_map(states)
            .flat_map(|(fs, state)| (0..self.workload.len()).map(move |workload| (fs, state, workload)))
    }

    /// Names of the file system, state and workload of a cell.
    pub fn names(&self, (fs, state, workload): (usize, usize, usize)) -> (&str, &str, &str) {
        (&self.file_system[fs].name, &self.state[state].name, &self.workload[workload].name)
    }

    /// Whether it has this run. A record that was altered may name others.
    pub fn holds(&self, id: RunId) -> bool {
        self.holds_image(id.on) && id.workload < self.workload.len()
    }

    /// Whether it has this image.
    pub fn holds_image(&self, id: ImageId) -> bool {
        id.fs < self.file_system.len() && id.state < self.state.len()
    }

    /// What holds for one cell: the exceptions that name it, later ones over earlier ones.
    pub fn exception(&self, fs: usize, state: usize, workload: &str) -> CellSpec {
        let matches = |wanted: &str, name: &str| wanted.is_empty() || wanted == name;
        let mut merged = CellSpec::default();
        for one in &self.cell {
            let holds = matches(&one.file_system, &self.file_system[fs].name)
                && matches(&one.state, &self.state[state].name)
                && matches(&one.workload, workload);
            if holds {
                merged.skip |= one.skip;
                merged.memory = one.memory.or(merged.memory);
                merged.cpus = one.cpus.or(merged.cpus);
                merged.lab |= one.lab;
                merged.device_state = one.device_state.or(merged.device_state);
                if !one.kernel.is_empty() {
                    merged.kernel.clone_from(&one.kernel);
                }
            }
        }
        merged
    }

    /// The kernel of the lab on which a cell runs, empty for any that is set up; `None`: it runs here.
    pub fn lab_kernel(&self, fs: usize, state: usize, workload: &str) -> Option<String> {
        let exception = self.exception(fs, state, workload);
        let asked = [exception.kernel, self.file_system[fs].kernel.clone()].into_iter().find(|name| !name.is_empty());
        match asked {
            Some(name) if name == HOST => None,
            Some(name) => Some(name),
            None => exception.lab.then(String::new),
        }
    }

    /// Every file system once per kernel, when kernels are an axis.
    fn spread_kernels(&mut self) {
        let kernels = std::mem::take(&mut self.kernels);
        if kernels.is_empty() {
            return;
        }
        let on = |one: &FileSystemSpec, kernel: &String| FileSystemSpec {
            name: format!("{} on {kernel}", one.name),
            kernel: kernel.clone(),
            ..one.clone()
        };
        self.file_system =
            self.file_system.iter().flat_map(|one| kernels.iter().map(move |kernel| on(one, kernel))).collect();
    }
}

/// File systems on zoned drives.
const ZONED_KINDS: [(&str, FileSystem); 2] = [("zoned-btrfs", FileSystem::Btrfs), ("zoned-f2fs", FileSystem::F2fs)];

impl FileSystemSpec {
    /// Whether it lies on a zoned drive.
    pub fn is_zoned(&self) -> bool {
        ZONED_KINDS.iter().any(|(word, _)| *word == self.kind)
    }

    /// Its kind.
    pub fn kind(&self) -> Result<FileSystem, String> {
        let zoned = ZONED_KINDS.iter().find(|(word, _)| *word == self.kind).map(|(_, kind)| Ok(*kind));
        zoned.unwrap_or_else(|| self.kind.parse()).map_err(|_| {
            let known: Vec<&str> =
                FileSystem::ALL.map(FileSystem::name).into_iter().chain(ZONED_KINDS.map(|(word, _)| word)).collect();
            format!(
                "there is no kind '{}'{}; there are {}",
                self.kind,
                suggest(&self.kind, known.iter().copied()),
                known.join(", ")
            )
        })
    }
}

impl StateKind {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Aged => "aged",
            Self::Copy => "copy",
            Self::WriteOnce => "write-once",
            Self::Image => "image",
        }
    }
}
