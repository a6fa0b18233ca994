//! What a run is going to do, complete before the first byte is written.

use crate::seed::Seed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A validated plan, stored as `plan.toml` in the run directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The experiment's id, or the verb (`age`, `bench`, `zns` ...).
    pub kind: String,
    /// Root seed.
    pub seed: Seed,
    /// Every parameter after defaults and overrides, as text. Two plans are the same when kind, seed and settings are.
    pub settings: BTreeMap<String, String>,
    /// The command that repeats the run.
    pub command: String,
    /// Version of the program that made the plan.
    pub program_version: String,
    /// Bytes the run will write to its targets, at most.
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
    /// A plan without steps yet; `command` is filled from the process' own arguments.
    pub fn new(kind: &str, seed: Seed, settings: BTreeMap<String, String>) -> Self {
        Self {
            kind: kind.to_string(),
            seed,
            settings,
            command: std::env::args().map(|word| shell_quote(&word)).collect::<Vec<_>>().join(" "),
            program_version: env!("CARGO_PKG_VERSION").to_string(),
            bytes_to_write: 0,
            estimated_seconds: 0.0,
            steps: Vec::new(),
        }
    }

    /// Adds a step.
    pub fn step(&mut self, action: impl Into<String>, target: impl Into<String>) {
        self.steps.push(Step { action: action.into(), target: target.into() });
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
        let names: std::collections::BTreeSet<_> = self.settings.keys().chain(other.settings.keys()).collect();
        // The seed has been told; some plans have it among their settings as well.
        for name in names.into_iter().filter(|name| *name != "seed") {
            let (ours, theirs) = (self.settings.get(name), other.settings.get(name));
            if ours != theirs {
                let show = |value: Option<&String>| value.cloned().unwrap_or_else(|| "(unset)".to_string());
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

    #[test]
    fn plans_differ_by_settings_and_not_by_command() {
        let settings = BTreeMap::from([("size".to_string(), "1G".to_string())]);
        let first = Plan::new("age", Seed(1), settings.clone());
        let mut second = first.clone();
        second.command = "another way to say it".into();
        assert!(first.same_run(&second));
        second.settings.insert("size".into(), "2G".into());
        assert_eq!(first.differences(&second), vec!["size: 1G against 2G"]);
    }
}
