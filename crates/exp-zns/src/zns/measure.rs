//! Runs points, and reads their values from a record.

use super::drives::{PUBLISHED_CONVENTIONAL, PUBLISHED_ZONED, Used, used};
use super::values::{Values, parts};
use senesce_core::failure::Classify;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Environment, ExitCode, Failure, Seed, Silent, number_of};
use senesce_zoned::job::{ActorResult, Job, JobResult};
use senesce_zoned::run::{DeviceName, RunOptions};
use senesce_zoned::session::Session;
use senesce_zoned::{Operation, ZonedError};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
pub struct Extract {
    pub key: String,
    pub actor: usize,
    /// The operation whose latency is used; `None`: the actor's only operation.
    pub operation: Option<Operation>,
    /// Prefix of the names of its values.
    pub prefix: &'static str,
}

#[derive(Debug, Clone)]
pub struct Point {
    pub key: String,
    pub device: String,
    pub job: Job,
    pub extracts: Vec<Extract>,
    pub adapted: Vec<String>,
}

impl Point {
    pub(crate) fn new(key: impl Into<String>, device: impl Into<String>, job: Job) -> Self {
        let key = key.into();
        let extracts = vec![Extract { key: key.clone(), actor: 0, operation: None, prefix: "" }];
        Self { key, device: device.into(), job, extracts, adapted: Vec::new() }
    }

    pub(crate) fn and(mut self, key: &str, actor: usize, operation: Option<Operation>, prefix: &'static str) -> Self {
        self.extracts.push(Extract { key: key.into(), actor, operation, prefix });
        self
    }

    pub(crate) fn adapted(mut self, how: impl IntoIterator<Item = String>) -> Self {
        self.adapted.extend(how);
        self
    }
}

fn put_actor(values: &mut Values, extract: &Extract, actor: &ActorResult) {
    let latency = match extract.operation {
        None => actor.latency(),
        Some(operation) => actor.tally.latency(operation).cloned().unwrap_or_default(),
    };
    values.put_latency(extract.prefix, &latency);
    let parts: [(&Option<String>, &[&str]); 3] = [
        (&actor.outside_model, &["iops", "bw_", "lat_"]),
        (&actor.rates_outside_model, &["iops", "bw_", "lat_mean"]),
        (&actor.latencies_outside_model, &["lat_"]),
    ];
    for (_, names) in parts.into_iter().filter(|(why, _)| why.is_some()) {
        values.outside.extend(names.iter().map(|name| format!("{}{name}", extract.prefix)));
    }
    if extract.operation.is_none() {
        let mut put = |name: &str, value| values.values.insert(format!("{}{name}", extract.prefix), value);
        put("iops", actor.iops());
        put("bw_mib", actor.bw_mib());
        put("errors", actor.tally.error_count() as f64);
    }
}

fn values_of(point: &Point, result: &JobResult) -> Vec<Values> {
    let mut found: BTreeMap<&str, Values> = BTreeMap::new();
    for extract in &point.extracts {
        let Some(actor) = result.actors.get(extract.actor) else { continue };
        let entry = found.entry(&extract.key).or_insert_with(|| Values::of(&extract.key));
        put_actor(entry, extract, actor);
        if extract.operation.is_none() && (entry.by_second.is_empty() || extract.prefix == "writer_") {
            entry.by_second = actor.bw_by_second();
        }
    }
    found.into_values().collect()
}

/// Adds the point to an error; the exit code stays.
pub(crate) fn at_point(key: &str, error: ZonedError) -> Failure {
    Failure::new(error.exit_code(), format!("point {key}: {error}"))
}

/// Runs the job of a point on its drive; returns its values and warnings.
pub(crate) fn run_on(
    session: &mut Session,
    point: &Point,
    seed: Seed,
    interrupt: &Interrupt,
) -> Result<(Vec<Values>, Vec<String>), Failure> {
    let options = RunOptions { seed, progress: &Silent, interrupt };
    let result = session.run(&point.job, &options).map_err(|error| at_point(&point.key, error))?;
    result.lost.map_or(Ok(()), Err)?;
    if let Some(refused) = result.actors.iter().find(|actor| actor.tally.error_count() > 0) {
        return Err(refused_commands(&point.key, refused));
    }
    let mut warnings = point.adapted.clone();
    warnings.extend(result.warnings.iter().cloned());
    Ok((values_of(point, &result), warnings))
}

/// Reports refused commands. A drive refuses commands of a planned point only if another process changed the zones or a
/// zone failed.
fn refused_commands(key: &str, actor: &ActorResult) -> Failure {
    let words = format!(
        "point {key}: the drive refused {} commands of {} ({}); make sure that no other program uses it, inspect its \
         zones with `senesce zoned list DEVICE list`, and run the same command again",
        actor.tally.error_count(),
        actor.name,
        actor.tally.error_words()
    );
    Failure::new(ExitCode::RunFailed, words)
}

pub fn run_point(
    point: &Point,
    erase: Option<&str>,
    seed: Seed,
    interrupt: &Interrupt,
) -> Result<(Vec<Values>, Vec<String>), Failure> {
    let name: DeviceName = point.device.parse()?;
    run_on(&mut Session::new(name, erase, None), point, seed, interrupt)
}

/// All values of a record, with the repetitions of a point combined.
#[derive(Debug, Clone, Default)]
pub struct DeviceValues {
    pub device: String,
    pub simulated: bool,
    drives: Vec<Used>,
    values: BTreeMap<String, Values>,
    repetitions: usize,
    warnings: BTreeMap<String, usize>,
}

impl DeviceValues {
    pub fn of<'a>(
        environment: &Environment,
        points: impl Iterator<Item = &'a Values>,
        warnings: impl Iterator<Item = &'a str>,
    ) -> Self {
        Self::on(used(environment), points, warnings)
    }

    pub(crate) fn on<'a>(
        drives: Vec<Used>,
        points: impl Iterator<Item = &'a Values>,
        warnings: impl Iterator<Item = &'a str>,
    ) -> Self {
        let names: Vec<&str> = drives.iter().map(|drive| drive.name.as_str()).collect();
        let mut repeated: BTreeMap<&str, Vec<&Values>> = BTreeMap::new();
        points.for_each(|values| repeated.entry(&values.key).or_default().push(values));
        let mut measured = Self {
            device: names.join(", "),
            simulated: drives.iter().any(|drive| drive.nature == "simulated"),
            repetitions: repeated.values().map(Vec::len).max().unwrap_or(0),
            values: repeated.into_iter().map(|(key, values)| (key.to_string(), together(&values))).collect(),
            drives,
            ..Self::default()
        };
        warnings.for_each(|text| *measured.warnings.entry(text.to_string()).or_default() += 1);
        measured
    }

    pub(crate) fn get(&self, key: &str, name: &str) -> Option<f64> {
        self.values.get(key)?.inside(name)
    }

    pub(crate) fn by_second(&self, key: &str) -> &[f64] {
        self.values.get(key).map_or(&[], |values| &values.by_second)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Values> {
        self.values.values()
    }

    /// Returns whether a published value was measured on the drive that is used or modelled here.
    pub(crate) fn is_of_published_drive(&self, condition: &str) -> bool {
        let wanted = if condition.contains("drive=conventional") { PUBLISHED_CONVENTIONAL } else { PUBLISHED_ZONED };
        self.drives.iter().any(|drive| drive.called == wanted)
    }

    pub(crate) fn caveats(&self) -> Vec<String> {
        let mut caveats = Vec::new();
        if self.simulated {
            caveats.push(format!("modelled, not measured: {}", self.device));
        }
        if self.repetitions > 1 {
            let words = "rates, means and percentiles are averaged, maxima are the largest, counts are summed";
            caveats.push(format!("{} repetitions: {words}", self.repetitions));
        }
        let of = |nature: &str| -> Vec<&str> {
            self.drives.iter().filter(|drive| drive.nature == nature).map(|drive| drive.name.as_str()).collect()
        };
        if !of("emulated").is_empty() {
            let names = of("emulated").join(", ");
            caveats.push(format!("{names}: emulated; its times depend on this machine and decide nothing"));
        }
        if !self.is_of_published_drive("") {
            let words = "it is neither the published drive nor its model: published values are for context only";
            caveats.push(format!("{}: {words}", self.device));
        }
        caveats.extend(self.warnings.iter().map(|(text, count)| format!("{text} ({})", number_of(*count, "point"))));
        caveats
    }

    pub(crate) fn to_json(&self) -> Value {
        self.values
            .values()
            .map(|values| json!({"key": values.key, "values": values.values, "outside_model": values.outside}))
            .collect()
    }
}

/// Combines all repetitions of a point; the per-second series are concatenated.
fn together(repetitions: &[&Values]) -> Values {
    let mut whole = Values::of(repetitions.first().map_or("", |values| &values.key));
    let names: BTreeSet<&String> = repetitions.iter().flat_map(|values| values.values.keys()).collect();
    for name in names {
        let found: Vec<f64> = repetitions.iter().filter_map(|values| values.of_something(name)).collect();
        if !found.is_empty() {
            whole.values.insert(name.clone(), one_of(name, &found));
        }
    }
    for values in repetitions {
        whole.by_second.extend(&values.by_second);
        whole.outside.extend(values.outside.iter().cloned());
    }
    whole
}

/// Sums counts, takes the largest maximum, and averages rates, means and percentiles.
fn one_of(name: &str, repetitions: &[f64]) -> f64 {
    let sum: f64 = repetitions.iter().sum();
    match parts(name).1 {
        "count" | "errors" => sum,
        "lat_max_us" => repetitions.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        _ => sum / repetitions.len() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actor_without_completions_has_no_rate_and_no_latency() {
        let values = |count: f64, mean: f64| {
            let mut values = Values::of("op=read,qd=1");
            let named = [("iops", 9.0 * count), ("lat_mean_us", mean), ("count", count)];
            values.values.extend(named.map(|(name, value)| (name.to_string(), value)));
            values
        };
        let of = |all: &[Values], name: &str| {
            DeviceValues::on(Vec::new(), all.iter(), std::iter::empty()).get("op=read,qd=1", name)
        };
        assert_eq!(of(&[values(0.0, 0.0)], "lat_mean_us"), None);
        let mixed = [values(0.0, 0.0), values(10.0, 80.0)];
        assert_eq!((of(&mixed, "lat_mean_us"), of(&mixed, "iops")), (Some(80.0), Some(90.0)));
        assert_eq!(of(&mixed, "count"), Some(10.0));
    }

    #[test]
    fn repetitions_sum_counts_and_keep_the_maximum() {
        let values = |max: f64, p99: f64, count: f64| {
            let mut values = Values::of("op=finish,blocks=1");
            let named = [("lat_max_us", max), ("lat_p99_us", p99), ("count", count), ("errors", 1.0)];
            values.values.extend(named.map(|(name, value)| (name.to_string(), value)));
            values.values.extend([("writer_lat_max_us".to_string(), max), ("writer_count".to_string(), count)]);
            values
        };
        let all = [values(9037.0, 5.0, 20.0), values(9076.0, 6.0, 20.0), values(9013.0, 10.0, 20.0)];
        let measured = DeviceValues::on(Vec::new(), all.iter(), std::iter::empty());
        let get = |name: &str| measured.get("op=finish,blocks=1", name);
        assert_eq!((get("lat_max_us"), get("writer_lat_max_us")), (Some(9076.0), Some(9076.0)));
        assert_eq!((get("count"), get("writer_count"), get("errors")), (Some(60.0), Some(60.0), Some(3.0)));
        assert_eq!(get("lat_p99_us"), Some(7.0));
        let said = |measured: &DeviceValues| measured.caveats().iter().any(|words| words.starts_with("3 repetitions"));
        assert!(said(&measured));
        assert!(!said(&DeviceValues::on(Vec::new(), all[..1].iter(), std::iter::empty())));
    }
}
