//! What a run is going to do, complete before the first byte is written.

use crate::failure::{Failure, errno_message};
use crate::input;
use crate::parameter::Level;
use crate::seed::Seed;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// Runs that one plan may have. At ten seconds each they take twelve days; in memory they take some tens of MB.
pub const MOST_RUNS: u64 = 100_000;

/// Bytes of a run that writes for a time, as much as its targets take: no number bounds them. TOML holds no greater one.
pub const BY_TIME_ALONE: u64 = i64::MAX as u64;

/// The number of runs of a matrix, before anything of it is expanded: `factors` are its dimensions with their names.
///
/// # Errors
/// More than [`MOST_RUNS`]: with all dimensions and what to do (exit code 2).
pub fn count_runs(factors: &[(u64, &str)]) -> Result<u64, Failure> {
    let runs = factors.iter().try_fold(1u64, |runs, (count, _)| runs.checked_mul(*count));
    if let Some(runs) = runs.filter(|runs| *runs <= MOST_RUNS) {
        return Ok(runs);
    }
    let words: Vec<String> = factors.iter().map(|(count, name)| format!("{count} {name}")).collect();
    let total = runs.map_or_else(|| "more than can be counted".into(), |runs| format!("{runs} runs"));
    Err(Failure::usage(format!(
        "{} make {total}; a plan has at most {MOST_RUNS}: lower a number, or divide it into several plans",
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
    /// The specification, as its kind writes it. Two plans are the same when kind, seed and specification are.
    #[serde(default)]
    pub spec: toml::Table,
    /// The level whose defaults the specification was made of, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Level>,
    /// The command that repeats the run.
    pub command: String,
    /// Version of the program that made the plan.
    pub program_version: String,
    /// Bytes the run will write to its targets, at most; [`BY_TIME_ALONE`]: no number bounds them.
    pub bytes_to_write: u64,
    /// Estimated duration in seconds (0: not known).
    pub estimated_seconds: f64,
    /// The steps in order.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// One step of a plan, in words and with its target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What is done ("make ext4", "age by agrawal", "cold read").
    pub action: String,
    /// To what: path, device identity, or "-".
    pub target: String,
}

impl Plan {
    /// A plan that says nothing yet; `command` is filled from the process' own arguments.
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
        }
    }

    /// A plan of a typed specification, without steps yet.
    ///
    /// # Errors
    /// When the specification holds what TOML cannot.
    pub fn of_spec(kind: &str, seed: Seed, spec: &impl Serialize) -> Result<Self, toml::ser::Error> {
        Ok(Self { spec: toml::Table::try_from(spec)?, ..Self::default_of(kind, seed) })
    }

    /// A plan in a file.
    ///
    /// # Errors
    /// In words: what could not be read, or what is no plan.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Self::of_text(input::text(path), path)
    }

    /// The plan of a run directory, whose files are no links.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of_run(directory: &Path) -> Result<Self, Failure> {
        Self::of_text(input::text_within(directory, "plan.toml"), &directory.join("plan.toml"))
    }

    fn of_text(text: io::Result<String>, path: &Path) -> Result<Self, Failure> {
        let text =
            text.map_err(|error| Failure::usage(format!("read {}: {}", path.display(), errno_message(&error))))?;
        let no_plan = |error: toml::de::Error| format!("{} is no plan: {}", path.display(), error.message());
        toml::from_str(&text).map_err(|error| Failure::usage(no_plan(error)))
    }

    /// The specification with the types of its kind.
    ///
    /// # Errors
    /// What in it does not fit the types.
    pub fn read_spec<S: serde::de::DeserializeOwned>(&self) -> Result<S, toml::de::Error> {
        self.spec.clone().try_into()
    }

    /// A number that stands for kind, seed and specification, for names of run directories.
    pub fn identity(&self) -> u32 {
        self.identity_under(self.seed)
    }

    /// A number that stands for kind and specification whatever the seed: runs that share it measured the same.
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

    /// Adds what a step writes at most, and how long it takes.
    pub fn add_cost(&mut self, bytes: u64, seconds: f64) {
        self.bytes_to_write = self.bytes_to_write.saturating_add(bytes).min(BY_TIME_ALONE);
        self.estimated_seconds += seconds;
    }

    /// How much it writes, in words; `size` writes a number of bytes.
    pub fn written_words(&self, size: impl Fn(u64) -> String) -> String {
        match self.bytes_to_write {
            BY_TIME_ALONE.. => "as much as they take in the time that it runs".into(),
            bytes => format!("at most {}", size(bytes)),
        }
    }

    /// Whether `other` asks for the same run.
    pub fn same_run(&self, other: &Plan) -> bool {
        self.differences(other).is_empty()
    }

    /// The names of what differs between two plans, with both values.
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
            if ours != theirs {
                found.push(format!("{name}: {} against {}", show(ours), show(theirs)));
            }
        }
        found
    }
}

fn shell_quote(word: &str) -> String {
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
    fn a_matrix_is_counted_before_it_is_expanded() {
        assert_eq!(count_runs(&[(50, "file systems"), (20, "states"), (100, "repetitions")]).unwrap(), 100_000);
        let error = count_runs(&[(50, "file systems"), (20, "states"), (10, "workloads"), (10_000, "repetitions")]);
        let message = error.unwrap_err().to_string();
        assert!(message.contains("50 file systems x 20 states") && message.contains("100000000 runs"), "{message}");
        assert!(count_runs(&[(u64::MAX, "a"), (u64::MAX, "b")]).is_err());
        assert_eq!(count_runs(&[]).unwrap(), 1);
    }

    #[test]
    fn what_a_time_alone_bounds_has_no_number() {
        let mut plan = Plan::default_of("zns", Seed(1));
        plan.add_cost(5, 1.0);
        let words = |plan: &Plan| plan.written_words(|bytes| format!("{bytes} B"));
        assert_eq!(words(&plan), "at most 5 B");
        (0..3).for_each(|_| plan.add_cost(BY_TIME_ALONE, 1.0));
        assert_eq!(
            (words(&plan).as_str(), plan.estimated_seconds),
            ("as much as they take in the time that it runs", 4.0)
        );
        let kept: Plan = toml::from_str(&toml::to_string(&plan).unwrap()).unwrap();
        assert_eq!(kept, plan);
    }

    #[test]
    fn plans_differ_by_specification_and_not_by_command() {
        let plan = |size: &str| Plan::of_spec("age", Seed(1), &BTreeMap::from([("size", size)])).unwrap();
        let first = plan("1G");
        let second = Plan { command: "another way to say it".into(), ..first.clone() };
        assert!(first.same_run(&second));
        assert_eq!(first.differences(&plan("2G")), vec!["size: \"1G\" against \"2G\""]);
    }
}
