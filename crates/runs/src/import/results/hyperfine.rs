//! `hyperfine --export-json` (hyperfine 1.5 and later): seconds of each run of each command.

use super::{Found, agrees};
use senesce_core::Measurement;
use senesce_core::analysis::Better;
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

/// Digits that a JSON number may lose.
const ROUNDING: f64 = 1e-6;

pub(super) fn read(text: &str) -> Result<Found, String> {
    let document: Document =
        serde_json::from_str(text).map_err(|error| format!("it is no result of hyperfine --export-json: {error}"))?;
    let mut found = Found::default();
    // Results of the same command under the same parameters are further repetitions.
    let mut before: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for outcome in &document.results {
        check(outcome).map_err(|problem| format!("command '{}': {problem}", outcome.command))?;
        let first = before.entry((outcome.command.as_str(), format!("{:?}", outcome.parameters))).or_default();
        add(outcome, *first, &mut found);
        *first += outcome.times.as_ref().map_or(1, Vec::len);
    }
    Ok(found)
}

/// The file's own mean, least and largest time against those of its single times.
fn check(outcome: &Outcome) -> Result<(), String> {
    let Some(times) = &outcome.times else { return Ok(()) };
    if times.iter().any(|time| !(time.is_finite() && *time >= 0.0)) {
        return Err("a time is negative or no number".into());
    }
    let of = |pick: fn(f64, f64) -> f64| times.iter().copied().reduce(pick);
    let own = [("mean", outcome.mean), ("min", outcome.min), ("max", outcome.max)];
    for ((name, said), found) in own.into_iter().zip([senesce_stats::mean(times), of(f64::min), of(f64::max)]) {
        let Some(found) = found else { return Err("it has no times".into()) };
        if !agrees(found, said, ROUNDING) {
            return Err(format!("{name} is {said} s, that of its times is {found} s; the file was altered or cut"));
        }
    }
    if !outcome.exit_codes.is_empty() && outcome.exit_codes.len() != times.len() {
        return Err(format!("it has {} times and {} exit codes", times.len(), outcome.exit_codes.len()));
    }
    Ok(())
}

/// Adds the values of a result whose repetitions count from `first` on.
fn add(outcome: &Outcome, first: usize, found: &mut Found) {
    let under = |one: Measurement, repetition: usize| {
        let one = Measurement { repetition: (first + repetition) as u32, ..one.under("command", &outcome.command) };
        outcome.parameters.iter().fold(one, |one, (name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            one.under(name, text)
        })
    };
    let has_failed = |index: usize| outcome.exit_codes.get(index).is_some_and(|code| *code != Some(0));
    let failed = (0..outcome.exit_codes.len()).filter(|index| has_failed(*index)).count();
    if failed > 0 {
        found.caveats.push(format!("'{}' failed {failed} times: these times do not count", outcome.command));
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
    // Means over all runs: they are of no use where some of these failed.
    if failed == 0 {
        for (metric, value) in [("user time, mean", outcome.user), ("system time, mean", outcome.system)] {
            value.into_iter().for_each(|value| put(metric, "s", value, 0, false));
        }
    }
    if outcome.times.is_none() {
        found
            .caveats
            .push(format!("'{}' has a mean and no single times: nothing tells how much it varies", outcome.command));
    }
}
