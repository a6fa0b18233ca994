//! Plan of a run, complete before the first byte is written.

use crate::failure::{Failure, errno_message};
use crate::input;
use crate::parameter::Level;
use crate::seed::Seed;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// Maximum number of runs of a plan. At ten seconds each they take twelve days; in memory they take tens of MB.
pub const MOST_RUNS: u64 = 100_000;

/// Bytes of a run limited only by time. The maximum of TOML.
pub const BY_TIME_ALONE: u64 = i64::MAX as u64;

/// Counts the runs of a matrix before it is expanded: `factors` are its dimensions with their names.
///
/// # Errors
/// More than [`MOST_RUNS`]: lists all dimensions (exit code 2).
pub fn count_runs(factors: &[(u64, &str)]) -> Result<u64, Failure> {
    let runs = factors.iter().try_fold(1u64, |runs, (count, _)| runs.checked_mul(*count));
    if let Some(runs) = runs.filter(|runs| *runs <= MOST_RUNS) {
        return Ok(runs);
    }
    let words: Vec<String> = factors.iter().map(|(count, name)| format!("{count} {name}")).collect();
    let total = runs.map_or_else(|| "too many runs to count".into(), |runs| format!("{runs} runs"));
    Err(Failure::usage(format!(
        "{} make {total}; a plan has at most {MOST_RUNS}: reduce a number, or split the plan",
        words.join(" x ")
    )))
}

/// A validated plan, stored as `plan.toml` in the run directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The experiment's id, or the verb (`age`, `bench`, `zns` ...).
    pub kind: String,
    /// Root seed.
    pub seed: Seed,
    /// The specification in the form of its kind. Plans are the same if kind, seed and specification are.
    #[serde(default)]
    pub spec: toml::Table,
    /// Level that supplied the defaults of the specification, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Level>,
    /// Command that repeats the run.
    pub command: String,
    /// Version of the program that created the plan.
    pub program_version: String,
    /// Maximum bytes that the run writes to its targets; [`BY_TIME_ALONE`]: limited only by time.
    pub bytes_to_write: u64,
    /// Estimated duration in seconds (0: unknown).
    pub estimated_seconds: f64,
    /// The steps, in the order of execution.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Conditions that hold during the steps, and warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An action on one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Action ("make ext4", "age by agrawal", "cold read").
    pub action: String,
    /// Target: path, device identity, or "-".
    pub target: String,
}

impl Plan {
    /// Creates an empty plan; `command` is this process's command line.
    pub fn default_of(kind: &str, seed: Seed) -> Self {
        Self {
            kind: kind.to_string(),
            seed,
            spec: toml::Table::new(),
            scale: None,
            command: std::env::args().map(|word| shell_quote(&word)).collect::<Vec<_>>().join(" "),
            program_version: env!("CARGO_PKG_VERSION").to_string(),
            bytes_to_write: 0,
            estimated_seconds: 0.0,
            steps: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Creates a plan of a typed specification, without steps.
    ///
    /// # Errors
    /// If the specification is not representable in TOML.
    pub fn of_spec(kind: &str, seed: Seed, spec: &impl Serialize) -> Result<Self, toml::ser::Error> {
        Ok(Self { spec: toml::Table::try_from(spec)?, ..Self::default_of(kind, seed) })
    }

    /// Reads a plan from a file.
    ///
    /// # Errors
    /// If the file is unreadable or not a plan.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Self::of_text(input::text(path), path)
    }

    /// Reads the plan of a run directory without following links in it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of_run(directory: &Path) -> Result<Self, Failure> {
        Self::of_text(input::text_within(directory, "plan.toml"), &directory.join("plan.toml"))
    }

    fn of_text(text: io::Result<String>, path: &Path) -> Result<Self, Failure> {
        let text =
            text.map_err(|error| Failure::usage(format!("cannot read {}: {}", path.display(), errno_message(&error))))?;
        let no_plan = |error: toml::de::Error| format!("{} is not a plan: {}", path.display(), error.message());
        toml::from_str(&text).map_err(|error| Failure::usage(no_plan(error)))
    }

    /// Deserialises the specification.
    ///
    /// # Errors
    /// If it does not match the types.
    pub fn read_spec<S: serde::de::DeserializeOwned>(&self) -> Result<S, toml::de::Error> {
        self.spec.clone().try_into()
    }

    /// Hashes kind, seed and specification, for names of run directories.
    pub fn identity(&self) -> u32 {
        self.identity_under(self.seed)
    }

    /// Hashes kind and specification without the seed: runs with equal values measured the same.
    pub fn setting(&self) -> u32 {
        self.identity_under(Seed(0))
    }

    fn identity_under(&self, seed: Seed) -> u32 {
        let spec = serde_json::to_string(&self.spec).unwrap_or_default();
        let child = seed.child(&format!("{}\n\n{spec}", self.kind));
        (child.0 >> 32) as u32
    }

    /// Adds a step.
    pub fn step(&mut self, action: impl Into<String>, target: impl Into<String>) {
        self.steps.push(Step { action: action.into(), target: target.into() });
    }

    /// Returns the kernels of the guests that the specification names, each once.
    pub fn guest_kernels(&self) -> Vec<&str> {
        let list = |key: &str| self.spec.get(key).and_then(toml::Value::as_array).into_iter().flatten();
        let of_file_systems = list("file_system").filter_map(|one| one.get("kernel"));
        let named = self.spec.get("kernel").into_iter().chain(list("kernels")).chain(of_file_systems);
        let mut kernels = Vec::new();
        for name in named.filter_map(toml::Value::as_str).filter(|name| !["", "host"].contains(name)) {
            if !kernels.contains(&name) {
                kernels.push(name);
            }
        }
        kernels
    }

    /// Adds a note.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Adds the maximum bytes and the duration of a step.
    pub fn add_cost(&mut self, bytes: u64, seconds: f64) {
        self.bytes_to_write = self.bytes_to_write.saturating_add(bytes).min(BY_TIME_ALONE);
        self.estimated_seconds += seconds;
    }

    /// Describes the bytes to write; `size` formats a number of bytes.
    pub fn written_words(&self, size: impl Fn(u64) -> String) -> String {
        match self.bytes_to_write {
            BY_TIME_ALONE.. => "as much as the targets accept in the run time".into(),
            0 => format!("{} on drives; images in memory and simulated drives do not count", size(0)),
            bytes => format!("at most {}", size(bytes)),
        }
    }

    /// Differences between two plans, with both values.
    pub fn differences(&self, other: &Plan) -> Vec<String> {
        let mut found = Vec::new();
        if self.kind != other.kind {
            found.push(format!("kind: {} against {}", self.kind, other.kind));
        }
        if self.seed != other.seed {
            found.push(format!("seed: {} against {}", self.seed.0, other.seed.0));
        }
        let show = |value: Option<&toml::Value>| value.map_or("(unset)".to_string(), ToString::to_string);
        let names: std::collections::BTreeSet<_> = self.spec.keys().chain(other.spec.keys()).collect();
        for name in names {
            let (ours, theirs) = (self.spec.get(name), other.spec.get(name));
            let difference = format!("{name}: {} against {}", show(ours), show(theirs));
            // A specification may repeat the seed.
            if ours != theirs && !found.contains(&difference) {
                found.push(difference);
            }
        }
        found
    }
}

/// Returns a word as a POSIX shell reads it, in quotes if it needs them.
pub fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn matrix_is_counted_before_expansion() {
        assert_eq!(count_runs(&[(50, "file systems"), (20, "states"), (100, "repetitions")]).unwrap(), 100_000);
        let error = count_runs(&[(50, "file systems"), (20, "states"), (10, "workloads"), (10_000, "repetitions")]);
        let message = error.unwrap_err().to_string();
        assert!(message.contains("50 file systems x 20 states") && message.contains("100000000 runs"), "{message}");
        assert!(count_runs(&[(u64::MAX, "a"), (u64::MAX, "b")]).is_err());
        assert_eq!(count_runs(&[]).unwrap(), 1);
    }

    #[test]
    fn runs_limited_by_time_have_no_byte_count() {
        let mut plan = Plan::default_of("zns", Seed(1));
        let nothing = plan.clone();
        plan.add_cost(5, 1.0);
        let words = |plan: &Plan| plan.written_words(|bytes| format!("{bytes} B"));
        assert!(words(&nothing).starts_with("0 B on drives; images in memory"));
        assert_eq!(words(&plan), "at most 5 B");
        (0..3).for_each(|_| plan.add_cost(BY_TIME_ALONE, 1.0));
        assert_eq!(
            (words(&plan).as_str(), plan.estimated_seconds),
            ("as much as the targets accept in the run time", 4.0)
        );
        let kept: Plan = toml::from_str(&toml::to_string(&plan).unwrap()).unwrap();
        assert_eq!(kept, plan);
    }

    #[test]
    fn kernels_of_guests_are_named_once() {
        let plan = |spec: &str| Plan { spec: toml::from_str(spec).unwrap(), ..Plan::default_of("gate", Seed(1)) };
        let gate =
            "file_system = [{ kernel = '6.12' }, { kernel = '7.2' }, { kernel = '6.12' }, { kernel = 'host' }, {}]";
        assert_eq!(plan(gate).guest_kernels(), ["6.12", "7.2"]);
        assert_eq!(plan("kernels = ['6.1', '6.12']").guest_kernels(), ["6.1", "6.12"]);
        assert_eq!(plan("kernel = '6.1'").guest_kernels(), ["6.1"]);
        assert!(plan("kernel = ''").guest_kernels().is_empty());
    }

    #[test]
    fn plans_differ_by_specification_and_not_by_command() {
        let plan = |size: &str| Plan::of_spec("age", Seed(1), &BTreeMap::from([("size", size)])).unwrap();
        let first = plan("1G");
        let second = Plan { command: "another way to say it".into(), ..first.clone() };
        assert!(first.differences(&second).is_empty());
        assert_eq!(first.differences(&plan("2G")), vec!["size: \"1G\" against \"2G\""]);
    }
}
