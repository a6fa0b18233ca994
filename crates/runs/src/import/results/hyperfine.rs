//! `hyperfine --export-json` (hyperfine 1.5 and later): seconds of each run of each command.

use super::ParsedResults;
use crate::import::printable;
use crate::import::rules::{self, Rule, rule};
use senesce_core::analysis::Better;
use senesce_core::{Measurement, number_of};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Document {
    results: Vec<Outcome>,
}

/// One command; all times in seconds.
#[derive(Deserialize)]
struct Outcome {
    command: String,
    mean: f64,
    min: f64,
    max: f64,
    median: Option<f64>,
    stddev: Option<f64>,
    user: Option<f64>,
    system: Option<f64>,
    times: Option<Vec<f64>>,
    #[serde(default)]
    exit_codes: Vec<Option<i32>>,
    #[serde(default)]
    memory_usage_byte: Vec<f64>,
    #[serde(default)]
    parameters: BTreeMap<String, serde_json::Value>,
}

// The tolerance covers digits that a JSON number may lose.
const RULES: [Rule<Outcome>; 1] = [rule("statistics of times", "times", 1e-6, 1e-9, |outcome, all| {
    let times = outcome.times.as_ref()?;
    let of = |pick: fn(f64, f64) -> f64| times.iter().copied().reduce(pick);
    let mean = senesce_stats::mean(times)?;
    all.equal("mean", outcome.mean, mean);
    all.equal("min", outcome.min, of(f64::min)?);
    all.equal("max", outcome.max, of(f64::max)?);
    all.equal("median", outcome.median, senesce_stats::median(times)?);
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    let others = Some((times.len() - 1) as f64).filter(|others| *others > 0.0)?;
    all.equal("stddev", outcome.stddev, (squares / others).sqrt())
})];

#[cfg(test)]
pub(super) fn rules() -> Vec<&'static str> {
    RULES.iter().map(|rule| rule.name).collect()
}

pub(super) fn read(text: &str) -> Result<ParsedResults, String> {
    let document: Document = serde_json::from_str(text)
        .map_err(|error| format!("it is not a result of hyperfine --export-json: {error}"))?;
    let mut found = ParsedResults::default();
    // Results of the same command under the same parameters are further repetitions.
    let mut before: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for outcome in &document.results {
        check(outcome).map_err(|problem| format!("command '{}': {problem}", printable(&outcome.command)))?;
        let first = before.entry((outcome.command.as_str(), format!("{:?}", outcome.parameters))).or_default();
        add(outcome, *first, &mut found);
        *first += outcome.times.as_ref().map_or(1, Vec::len);
    }
    Ok(found)
}

fn check(outcome: &Outcome) -> Result<(), String> {
    let stated = [outcome.mean, outcome.min, outcome.max].into_iter().chain(outcome.user).chain(outcome.system);
    let mut all = outcome.times.iter().flatten().chain(&outcome.memory_usage_byte).copied().chain(stated);
    if let Some(wrong) = all.find(|value| !(value.is_finite() && *value >= 0.0)) {
        return Err(format!("{wrong} is not a valid time or size"));
    }
    let Some(times) = &outcome.times else { return Ok(()) };
    if times.is_empty() {
        return Err("it has no times".into());
    }
    rules::check(&RULES, outcome)?;
    if !outcome.exit_codes.is_empty() && outcome.exit_codes.len() != times.len() {
        return Err(format!("it has {} times and {} exit codes", times.len(), outcome.exit_codes.len()));
    }
    Ok(())
}

/// Adds the values of a result whose repetitions count from `first`.
fn add(outcome: &Outcome, first: usize, found: &mut ParsedResults) {
    let under = |one: Measurement, repetition: usize| {
        let one = Measurement {
            repetition: (first + repetition) as u32,
            ..one.under("command", printable(&outcome.command))
        };
        outcome.parameters.iter().fold(one, |one, (name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            one.under(&printable(name), printable(&text))
        })
    };
    let command = printable(&outcome.command);
    let has_failed = |index: usize| outcome.exit_codes.get(index).is_some_and(|code| *code != Some(0));
    let failed = (0..outcome.exit_codes.len()).filter(|index| has_failed(*index)).count();
    if failed > 0 {
        found.caveats.push(format!("'{command}' failed {}: failures do not count", number_of(failed, "time")));
    }
    let mut put = |metric: &str, unit: &str, value: f64, repetition: usize, primary: bool| {
        if let Ok(one) = Measurement::new(metric, unit, Better::Lower, value) {
            found.measurements.push(under(if primary { one.primary() } else { one }, repetition));
        }
    };
    let single = [outcome.mean];
    let times = outcome.times.as_deref().unwrap_or(&single);
    for (index, time) in times.iter().enumerate().filter(|(index, _)| !has_failed(*index)) {
        put("time", "s", *time, index, true);
        if let Some(bytes) = outcome.memory_usage_byte.get(index) {
            put("largest memory", "bytes", *bytes, index, false);
        }
    }
    // Means over all runs are useless if some of these failed.
    if failed == 0 {
        for (metric, value) in [("user time, mean", outcome.user), ("system time, mean", outcome.system)] {
            value.into_iter().for_each(|value| put(metric, "s", value, 0, false));
        }
    }
    if outcome.times.is_none() {
        found.caveats.push(format!("'{command}' has a mean without individual times: its variation is unknown"));
    }
}
