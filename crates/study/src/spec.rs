//! The TOML file of a study: parsing and checks.

use crate::adaptive;
use crate::check::with_suggestion;
use crate::command::files;
use crate::factor;
use crate::matrix::{ImageId, RunId};
use crate::questions::{default_repetitions, too_few};
use senesce_core::failure::errno_message;
use senesce_core::plan::count_runs;
use senesce_core::{Bytes, Failure, Span};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub use crate::entries::{CUSTOM, CellSpec, FileSystemSpec, StateKind, StateSpec, WorkloadSpec};

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
    /// Repetitions of every cell on every image; with `until_decided` the maximum. The default, as many as decide or as
    /// the time allows, is set when the study is read.
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
    /// Report numbers without verdicts, with any number of repetitions.
    #[serde(default, skip_serializing_if = "is_false")]
    pub numbers_only: bool,
    /// Whether every workload is measured twice in the first state, as a control.
    #[serde(default)]
    pub noise: bool,
    /// Built-in device models that time the block trace of every run; empty: no trace is taken.
    #[serde(default)]
    pub models: Vec<String>,
    /// Kernels as an axis: every file system on each of them, `host` or a release of the guest. Written out into the
    /// file systems when the study is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// Block device for every file system without one. Written out into them when the study is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PathBuf>,
    /// Memory of the guest.
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
    /// Folder of the study's file, for warnings only; not a part of the study.
    #[serde(skip)]
    pub folder: PathBuf,
}

mod defaults {
    pub(crate) fn repetitions() -> u32 {
        senesce_stats::arm::LEAST_VALUES as u32
    }
    pub(crate) fn seed() -> u64 {
        senesce_core::seed::DEFAULT_SEED.0
    }
    pub(crate) fn one() -> u32 {
        1
    }
    pub(crate) fn two() -> usize {
        2
    }
    pub(crate) fn guest_memory() -> senesce_core::Bytes {
        senesce_core::Bytes::gib(2)
    }
}

// Serde requires a reference.
fn is_false(flag: &bool) -> bool {
    !flag
}

pub(crate) const HOST: &str = "host";

impl StudySpec {
    pub fn new(name: &str, size: Bytes) -> Self {
        Self {
            name: name.into(),
            size,
            seed: defaults::seed(),
            repetitions: defaults::repetitions(),
            until_decided: false,
            max_time: None,
            images: 1,
            numbers_only: false,
            noise: false,
            models: Vec::new(),
            kernels: Vec::new(),
            device: None,
            guest_memory: defaults::guest_memory(),
            threads: defaults::two(),
            file_system: Vec::new(),
            state: Vec::new(),
            workload: Vec::new(),
            cell: Vec::new(),
            folder: PathBuf::new(),
        }
    }

    /// Reads and checks a study. Errors begin with `origin` and name the line, and the nearest name for an unknown one.
    pub fn parse(origin: &str, text: &str) -> Result<Self, Failure> {
        Self::parse_with(origin, text, |_| {})
    }

    /// Reads and checks a study like [`Self::parse`], with changes by the command line before the checks.
    pub fn parse_with(origin: &str, text: &str, change: impl FnOnce(&mut Self)) -> Result<Self, Failure> {
        let named = |problem: &dyn std::fmt::Display| Failure::usage(format!("{origin}: {problem}"));
        let mut table: toml::Table =
            toml::from_str(text).map_err(|error| named(&with_suggestion(&error.to_string())))?;
        let is_said = table.contains_key("repetitions");
        let read = match table.contains_key("factor") {
            true => {
                factor::spread(&mut table).map_err(|problem| named(&problem))?;
                table.try_into()
            }
            // From the text, so that an error names its line.
            false => toml::from_str(text),
        };
        let mut spec: Self = read.map_err(|error| named(&with_suggestion(&error.to_string())))?;
        change(&mut spec);
        spec.count().map_err(|problem| named(&problem))?;
        spec.fill_names();
        spec.resolve_files(origin).map_err(|problem| named(&problem))?;
        spec.spread_kernels();
        spec.spread_device();
        spec.check().map_err(|problem| named(&problem))?;
        if !is_said {
            spec.repetitions = match spec.until_decided {
                true => adaptive::most_repetitions(&spec).map_err(|problem| named(&problem))?,
                false => default_repetitions(&spec),
            };
            spec.count().map_err(|problem| named(&problem))?;
        }
        too_few(&spec).map_or(Ok(spec), |problem| Err(named(&problem)))
    }

    fn resolve_files(&mut self, origin: &str) -> Result<(), String> {
        let folder = Path::new(origin).parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = std::path::absolute(folder.unwrap_or(Path::new("."))).map_err(|error| errno_message(&error))?;
        for one in &mut self.workload {
            let resolved = files::resolve([&mut one.prepare, &mut one.command], &mut one.folder, &folder);
            resolved.map_err(|problem| format!("workload '{}': {problem}", one.name))?;
        }
        for one in &mut self.state {
            let resolved = files::resolve([&mut one.command], &mut one.folder, &folder);
            resolved.map_err(|problem| format!("state '{}': {problem}", one.name))?;
        }
        self.folder = folder;
        Ok(())
    }

    pub(crate) fn most_seconds(&self) -> f64 {
        self.max_time.map_or(f64::INFINITY, Span::seconds)
    }

    /// Refuses a matrix that is too large, before it is expanded.
    pub(crate) fn count(&self) -> Result<(), Failure> {
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

    pub(crate) fn fill_names(&mut self) {
        for one in self.file_system.iter_mut().filter(|one| one.name.is_empty()) {
            one.name.clone_from(&one.kind);
        }
        for one in self.state.iter_mut().filter(|one| one.name.is_empty()) {
            one.name = one.kind.word().into();
        }
        for one in self.workload.iter_mut().filter(|one| one.name.is_empty()) {
            let said = [&one.personality, &one.file, &one.microbenchmark, &one.ready].into_iter();
            let said = said.chain(one.command.first()).find(|text| !text.is_empty());
            one.name = said.map_or_else(|| "cold-read".into(), Clone::clone);
        }
    }

    /// Returns the state that determines how the files of `state` are made: itself, or for a copy the state it copies.
    pub(crate) fn source<'a>(&'a self, state: &'a StateSpec) -> &'a StateSpec {
        match state.kind {
            StateKind::Copy => self.state.iter().find(|one| one.name == state.of).unwrap_or(state),
            _ => state,
        }
    }

    pub fn combinations(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let states = move |fs| (0..self.state.len()).map(move |state| (fs, state));
        (0..self.file_system.len())
            .flat_map(states)
            .flat_map(|(fs, state)| (0..self.workload.len()).map(move |workload| (fs, state, workload)))
    }

    pub(crate) fn names(&self, (fs, state, workload): (usize, usize, usize)) -> (&str, &str, &str) {
        (&self.file_system[fs].name, &self.state[state].name, &self.workload[workload].name)
    }

    /// Returns whether the study has this run. An altered record may name others.
    pub(crate) fn holds(&self, id: RunId) -> bool {
        self.holds_image(id.on) && id.workload < self.workload.len()
    }

    pub(crate) fn holds_image(&self, id: ImageId) -> bool {
        id.fs < self.file_system.len() && id.state < self.state.len()
    }

    /// Merges the exceptions that match one cell, later ones over earlier ones.
    pub(crate) fn exception(&self, fs: usize, state: usize, workload: &str) -> CellSpec {
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
                merged.vm |= one.vm;
                merged.scale = one.scale.or(merged.scale);
                merged.set.extend(one.set.clone());
                merged.device_state = one.device_state.or(merged.device_state);
                if !one.kernel.is_empty() {
                    merged.kernel.clone_from(&one.kernel);
                }
            }
        }
        merged
    }

    pub(crate) fn workload_of(&self, fs: usize, state: usize, workload: usize) -> WorkloadSpec {
        let mut own = self.workload[workload].clone();
        let exception = self.exception(fs, state, &own.name);
        own.scale = exception.scale.or(own.scale);
        own.set.extend(exception.set);
        own
    }

    /// Returns the kernel of the guest on which a cell runs, empty for any installed one. `None`: it runs here.
    pub fn guest_kernel(&self, fs: usize, state: usize, workload: &str) -> Option<String> {
        let exception = self.exception(fs, state, workload);
        let asked = [exception.kernel, self.file_system[fs].kernel.clone()].into_iter().find(|name| !name.is_empty());
        match asked {
            Some(name) if name == HOST => None,
            Some(name) => Some(name),
            None => exception.vm.then(String::new),
        }
    }

    fn spread_device(&mut self) {
        if let Some(device) = self.device.take() {
            for one in self.file_system.iter_mut().filter(|one| one.device.is_none()) {
                one.device = Some(device.clone());
            }
        }
    }

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
