//! Points, and the values that were measured at them.

use senesce_core::failure::Classify;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Environment, Failure, Seed, Silent};
use senesce_zoned::job::{ActorResult, Job, JobResult, Latency};
use senesce_zoned::run::{DeviceName, RunOptions, run_job};
use senesce_zoned::{Operation, ZonedError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What of a job's result belongs to one key.
#[derive(Debug, Clone)]
pub struct Extract {
    /// The key it is kept under.
    pub key: String,
    /// The actor.
    pub actor: usize,
    /// The operation whose latency is meant; not given: the actor's own.
    pub operation: Option<Operation>,
    /// Put before the names of its values.
    pub prefix: &'static str,
}

/// One job to be run.
#[derive(Debug, Clone)]
pub struct Point {
    /// Its words.
    pub key: String,
    /// The drive.
    pub device: String,
    /// The job.
    pub job: Job,
    /// What is kept.
    pub extracts: Vec<Extract>,
}

impl Point {
    /// A point that is about its job's first actor.
    pub fn new(key: impl Into<String>, device: impl Into<String>, job: Job) -> Self {
        let key = key.into();
        let extracts = vec![Extract { key: key.clone(), actor: 0, operation: None, prefix: "" }];
        Self { key, device: device.into(), job, extracts }
    }

    /// Keeps something else too.
    pub fn and(mut self, key: &str, actor: usize, operation: Option<Operation>, prefix: &'static str) -> Self {
        self.extracts.push(Extract { key: key.into(), actor, operation, prefix });
        self
    }

    /// Seconds of its longest actor, with the ramp.
    pub fn seconds(&self) -> f64 {
        let longest = self.job.actors.iter().filter_map(|actor| actor.time).map(|span| span.0.as_secs_f64());
        longest.fold(0.0, f64::max) + self.job.ramp.0.as_secs_f64()
    }
}

/// The values of one key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Values {
    /// The words of the point.
    pub key: String,
    /// Numbers by name: iops, bw_mib, lat_mean_us ...
    pub values: BTreeMap<String, f64>,
    /// Bandwidth of each second, MiB/s.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_second: Vec<f64>,
}

impl Values {
    /// The latency of something that was timed by itself.
    pub fn of_latency(key: &str, latency: &Latency) -> Self {
        let mut values = BTreeMap::new();
        put_latency(&mut values, "", latency);
        Self { key: key.into(), values, by_second: Vec::new() }
    }
}

fn put_latency(values: &mut BTreeMap<String, f64>, prefix: &str, latency: &Latency) {
    for (name, value) in [
        ("lat_mean_us", latency.mean_us()),
        ("lat_p50_us", latency.quantile_us(0.50)),
        ("lat_p95_us", latency.quantile_us(0.95)),
        ("lat_p99_us", latency.quantile_us(0.99)),
        ("lat_max_us", latency.max_us()),
        ("count", latency.count() as f64),
    ] {
        values.insert(format!("{prefix}{name}"), value);
    }
}

fn put_actor(values: &mut BTreeMap<String, f64>, extract: &Extract, actor: &ActorResult) {
    let latency = match extract.operation {
        None => actor.latency(),
        Some(operation) => actor.tally.latency(operation).cloned().unwrap_or_default(),
    };
    put_latency(values, extract.prefix, &latency);
    if extract.operation.is_none() {
        values.insert(format!("{}iops", extract.prefix), actor.iops());
        values.insert(format!("{}bw_mib", extract.prefix), actor.bw_mib());
        values.insert(format!("{}errors", extract.prefix), actor.tally.error_count() as f64);
    }
}

/// What a result says about each of the point's keys.
fn values_of(point: &Point, result: &JobResult) -> Vec<Values> {
    let mut found: BTreeMap<&str, Values> = BTreeMap::new();
    for extract in &point.extracts {
        let Some(actor) = result.actors.get(extract.actor) else { continue };
        let entry = found.entry(&extract.key).or_insert_with(|| Values {
            key: extract.key.clone(),
            values: BTreeMap::new(),
            by_second: Vec::new(),
        });
        put_actor(&mut entry.values, extract, actor);
        if extract.operation.is_none() && (entry.by_second.is_empty() || extract.prefix == "writer_") {
            entry.by_second = actor.bw_by_second();
        }
    }
    found.into_values().collect()
}

/// An error with the point it came from; the exit code stays.
pub fn at_point(key: &str, error: ZonedError) -> Failure {
    Failure::new(error.exit_code(), format!("point {key}: {error}"))
}

/// Runs the job of a point; its values, and what it warned of.
///
/// # Errors
/// What the drive answered, with the point.
pub fn run_point(
    point: &Point,
    erase: Option<&str>,
    seed: Seed,
    interrupt: &Interrupt,
) -> Result<(Vec<Values>, Vec<String>), Failure> {
    let name: DeviceName = point.device.parse()?;
    let options = RunOptions { seed, progress: &Silent, interrupt };
    let result = run_job(&name, &point.job, erase, &options).map_err(|error| at_point(&point.key, error))?;
    Ok((values_of(point, &result), result.warnings))
}

/// Everything a record holds.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// The drives it was measured on.
    pub device: String,
    /// Whether any of them is simulated.
    pub simulated: bool,
    values: BTreeMap<String, Values>,
    warnings: BTreeMap<String, usize>,
}

impl Measured {
    /// What a record holds, complete or partial.
    pub fn of<'a>(
        environment: &Environment,
        points: impl Iterator<Item = &'a Values>,
        warnings: impl Iterator<Item = &'a str>,
    ) -> Self {
        let facts = environment.0.iter().filter(|(name, _)| name.starts_with("zns.device."));
        let devices: Vec<&str> = facts.filter_map(|(_, value)| value.as_str()).collect();
        let mut measured = Self {
            device: devices.join(", "),
            simulated: devices.iter().any(|device| device.starts_with("sim:")),
            ..Self::default()
        };
        measured.values.extend(points.map(|values| (values.key.clone(), values.clone())));
        warnings.for_each(|text| *measured.warnings.entry(text.to_string()).or_default() += 1);
        measured
    }

    /// A value by key and name.
    pub fn get(&self, key: &str, name: &str) -> Option<f64> {
        self.values.get(key)?.values.get(name).copied()
    }

    /// Bandwidth of each second of a key.
    pub fn by_second(&self, key: &str) -> &[f64] {
        self.values.get(key).map_or(&[], |values| &values.by_second)
    }

    /// All keys with their values.
    pub fn all(&self) -> impl Iterator<Item = &Values> {
        self.values.values()
    }

    /// Visible notes.
    pub fn caveats(&self) -> Vec<String> {
        let mut caveats = Vec::new();
        if self.simulated {
            caveats.push(format!("modelled, not measured: {}", self.device));
        }
        caveats.extend(self.warnings.iter().map(|(text, count)| format!("{text} ({count} points)")));
        caveats
    }

    /// All values as JSON.
    pub fn to_json(&self) -> Value {
        self.values.values().map(|values| json!({"key": values.key, "values": values.values})).collect()
    }
}
