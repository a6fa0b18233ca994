//! What a study asks for: the TOML file, read and checked as a whole.

use senesce_aging::{Churn, Data, Profile, Truncate};
use senesce_core::parameter::{nearest, suggest};
use senesce_core::{Bytes, Failure};
use senesce_target::FileSystem;
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
    /// Repetitions of every cell on every image.
    #[serde(default = "defaults::repetitions")]
    pub repetitions: u32,
    /// Independent agings of every state.
    #[serde(default = "defaults::one")]
    pub images: u32,
    /// Whether the noise floor is measured: every workload twice over in the first state.
    #[serde(default = "defaults::yes")]
    pub noise: bool,
    /// Built-in device models that time the block trace of every run; empty: no trace is taken.
    #[serde(default)]
    pub models: Vec<String>,
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
    pub fn seed() -> u64 {
        senesce_core::seed::DEFAULT_SEED.0
    }
    pub fn repetitions() -> u32 {
        5
    }
    pub fn one() -> u32 {
        1
    }
    pub fn two() -> usize {
        2
    }
    pub fn yes() -> bool {
        true
    }
}

/// A file system with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSystemSpec {
    /// `ext4`, `xfs`, `btrfs`, `f2fs`, `nilfs2`.
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
    /// The state whose files are copied (copy).
    #[serde(default)]
    pub of: String,
    /// The image file (image).
    #[serde(default)]
    pub path: String,
}

/// A workload: exactly one of `personality`, `file`, `cold_read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
}

impl StudySpec {
    /// Reads and checks a study. Every problem that can be known beforehand is found here.
    pub fn parse(origin: &str, text: &str) -> Result<Self, Failure> {
        let mut spec: Self = toml::from_str(text)
            .map_err(|error| Failure::usage(format!("{origin}: {}", with_suggestion(&error.to_string()))))?;
        spec.fill_names();
        spec.check().map_err(|problem| Failure::usage(format!("{origin}: {problem}")))?;
        Ok(spec)
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

    /// What is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        let counts = [self.file_system.len(), self.state.len(), self.workload.len()];
        for (count, what) in counts.into_iter().zip(["file_system", "state", "workload"]) {
            if count == 0 {
                return Err(format!("it has no [[{what}]]; a study needs at least one"));
            }
        }
        if self.repetitions == 0 || self.images == 0 || self.threads == 0 {
            return Err("repetitions, images and threads must be at least 1".into());
        }
        unique("file_system", self.file_system.iter().map(|one| &one.name))?;
        unique("state", self.state.iter().map(|one| &one.name))?;
        unique("workload", self.workload.iter().map(|one| &one.name))?;
        for one in &self.file_system {
            one.kind().map_err(|problem| format!("file_system '{}': {problem}", one.name))?;
        }
        for one in &self.state {
            self.check_state(one).map_err(|problem| format!("state '{}': {problem}", one.name))?;
        }
        for one in &self.workload {
            one.check().map_err(|problem| format!("workload '{}': {problem}", one.name))?;
        }
        for one in &self.cell {
            self.check_cell(one)?;
        }
        for name in &self.models {
            senesce_devmodel::DeviceModel::builtin(name).map_err(|error| error.to_string())?;
        }
        self.check_cold_reads()
    }

    fn check_state(&self, state: &StateSpec) -> Result<(), String> {
        let needs_profile = matches!(state.kind, StateKind::Aged | StateKind::WriteOnce);
        if needs_profile {
            Profile::load(&state.profile).map_err(|error| error.to_string())?;
        } else if !state.profile.is_empty() || state.fullness.is_some() || state.overwrites.is_some() {
            return Err(format!("profile, fullness and overwrites mean nothing for kind '{}'", state.kind.word()));
        }
        if state.kind == StateKind::Copy {
            let of = find("state", &state.of, self.state.iter().map(|one| one.name.as_str()))?;
            if self.state[of].kind != StateKind::Aged {
                return Err(format!("of = '{}' is not an aged state", state.of));
            }
        }
        if state.kind == StateKind::Image && !std::path::Path::new(&state.path).is_file() {
            return Err(format!("path = '{}' is not a file", state.path));
        }
        Ok(())
    }

    fn check_cell(&self, cell: &CellSpec) -> Result<(), String> {
        let named = |what, name: &str, known: Vec<&str>| match name {
            "" => Ok(()),
            _ => find(what, name, known.into_iter()).map(|_| ()).map_err(|problem| format!("cell: {problem}")),
        };
        named("file_system", &cell.file_system, self.file_system.iter().map(|one| one.name.as_str()).collect())?;
        named("state", &cell.state, self.state.iter().map(|one| one.name.as_str()).collect())?;
        named("workload", &cell.workload, self.workload.iter().map(|one| one.name.as_str()).collect())
    }

    /// A file whose extents were never written reads as zeros without touching the device: a cold read of it measures
    /// nothing.
    fn check_cold_reads(&self) -> Result<(), String> {
        for (fs, state, workload) in self.combinations() {
            let workload = &self.workload[workload];
            if !workload.cold_read || self.exception(fs, state, &workload.name).skip {
                continue;
            }
            let one = &self.state[state];
            let data = self.source(one).data;
            let problem = match one.kind {
                StateKind::Fresh => "it holds no files",
                StateKind::Image => continue,
                _ if data != Data::Write => "its files are allocated but never written; set data = \"write\"",
                _ => continue,
            };
            return Err(format!(
                "cell {} / {} / {} cannot be read cold: {problem}, or leave it out with [[cell]] skip = true",
                self.file_system[fs].name, one.name, workload.name
            ));
        }
        Ok(())
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
            }
        }
        merged
    }
}

impl FileSystemSpec {
    /// Its kind.
    pub fn kind(&self) -> Result<FileSystem, String> {
        self.kind.parse().map_err(|_| {
            let known = FileSystem::ALL.map(FileSystem::name);
            format!("there is no kind '{}'{}; there are {}", self.kind, suggest(&self.kind, known), known.join(", "))
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

impl WorkloadSpec {
    fn check(&self) -> Result<(), String> {
        let said = [&self.personality, &self.file, &self.microbenchmark].into_iter().filter(|text| !text.is_empty());
        match said.count() + usize::from(self.cold_read) {
            1 => {}
            _ => return Err("say exactly one of personality, file, microbenchmark, cold_read".into()),
        }
        if self.seconds.is_some_and(|seconds| !(0.1..=1e6).contains(&seconds)) {
            return Err("seconds must lie between 0.1 and 1000000".into());
        }
        super::subject::Subject::of(self).map(|_| ()).map_err(|error| error.to_string())
    }
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("two [[{what}]] are called '{name}'; give one another name"));
        }
        if name.contains(['=', '\n']) {
            return Err(format!("[[{what}]] '{name}': a name holds no '=' and no line end"));
        }
    }
    Ok(())
}

fn find<'a>(what: &str, name: &str, mut known: impl Iterator<Item = &'a str> + Clone) -> Result<usize, String> {
    let all = known.clone();
    known.position(|one| one == name).ok_or_else(|| format!("there is no {what} '{name}'{}", suggest(name, all)))
}

/// Adds the nearest known key to serde's message about an unknown one.
fn with_suggestion(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (Some(unknown), true) = (quoted.first(), message.contains("unknown ")) else { return message.into() };
    let unknown = *unknown;
    match nearest(unknown, quoted[1..].iter().copied()) {
        Some(known) => format!("{}\ndid you mean `{known}`?", message.trim_end()),
        None => message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
name = "does age matter"
size = "256M"
[[file_system]]
kind = "ext4"
[[file_system]]
kind = "xfs"
name = "xfs small log"
mkfs = "-l size=16m"
[[state]]
kind = "fresh"
[[state]]
kind = "aged"
profile = "agrawal"
fullness = 0.7
data = "write"
[[workload]]
personality = "webserver"
scale = 0.1
seconds = 5
[[workload]]
cold_read = true
[[cell]]
state = "fresh"
workload = "cold-read"
skip = true
"#;

    fn problem(from: &str, to: &str) -> String {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD);
        StudySpec::parse("s.toml", &text).unwrap_err().to_string()
    }

    #[test]
    fn a_good_study_is_read_and_names_are_filled_in() {
        let spec = StudySpec::parse("s.toml", GOOD).unwrap();
        let names: Vec<&str> = spec.workload.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["webserver", "cold-read"]);
        assert!(spec.exception(1, 0, "cold-read").skip);
        assert!(!spec.exception(1, 1, "cold-read").skip);
    }

    #[test]
    fn unknown_names_get_the_nearest() {
        assert!(problem("fullness", "fulness").contains("did you mean `fullness`"));
        assert!(problem("\"xfs\"", "\"xsf\"").contains("did you mean 'xfs'"));
        assert!(problem("\"agrawal\"", "\"agraval\"").contains("did you mean 'agrawal'"));
        assert!(problem("\"webserver\"", "\"webservr\"").contains("did you mean 'webserver'"));
        assert!(problem("workload = \"cold-read\"", "workload = \"cold-raed\"").contains("did you mean 'cold-read'"));
    }

    #[test]
    fn a_cold_read_of_files_that_were_never_written_is_refused() {
        assert!(problem("data = \"write\"", "").contains("never written"));
        assert!(problem("skip = true", "").contains("holds no files"));
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(problem("kind = \"fresh\"", "kind = \"fresh\"\nprofile = \"agrawal\"").contains("mean nothing"));
        assert!(problem("cold_read = true", "cold_read = true\nfile = \"x.f\"").contains("exactly one"));
        assert!(problem("name = \"xfs small log\"", "name = \"ext4\"").contains("two [[file_system]]"));
    }
}
