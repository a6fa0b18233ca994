//! Results of fio (`--output-format=json` and `json+`), version 3 and later: latencies in nanoseconds.

mod analysis;
pub(crate) mod format;

use super::{Importer, read_text};
use format::{Direction, Job, Output};
use hdrhistogram::Histogram;
use senesce_core::analysis::{Analysis, Better};
use senesce_core::measurement::EVENT;
use senesce_core::{Environment, ExitCode, Failure, Measurement, Plan, Record, RunDirectory, RunKind, Seed};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads text as `import` would; says why it is no result of fio.
pub fn check(text: &str) -> Result<(), String> {
    format::parse(text).map(drop)
}

/// The importer, and the reader of its records.
pub struct Fio;

/// One direction of one job as recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JobEvent {
    name: String,
    direction: String,
    options: BTreeMap<String, String>,
    error: i64,
    bandwidth_bytes_per_second: f64,
    iops: f64,
    runtime_ms: f64,
    latency_mean_ns: f64,
    /// Percent and nanoseconds.
    percentiles: Vec<(f64, f64)>,
    /// Name of the stored histogram (json+), or nothing.
    histogram: String,
}

impl Importer for Fio {
    fn name(&self) -> &'static str {
        "fio"
    }

    fn about(&self) -> &'static str {
        "results of fio 3 or later, --output-format=json or json+"
    }

    fn import(&self, source: &Path, out: &Path) -> Result<(), Failure> {
        let text = read_text(source)?;
        let output =
            format::parse(&text).map_err(|problem| Failure::usage(format!("{}: {problem}", source.display())))?;
        let file = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sum = format!("{:08x}", crc32(text.as_bytes()));
        let settings = BTreeMap::from([("source".to_string(), file), ("crc32".to_string(), sum)]);
        let mut directory = RunDirectory::open(out, &Plan::new(self.kind(), Seed(0), settings), &environment(&output))?;
        if directory.is_finished() {
            return Ok(());
        }
        if !directory.earlier_events().is_empty() {
            return Err(Failure::new(
                ExitCode::Usage,
                format!(
                    "{} holds an import that was interrupted; remove it or choose another directory",
                    out.display()
                ),
            ));
        }
        record(&output, &mut directory)?;
        let result = self.analyse(&Record::open(out)?)?.result;
        Ok(directory.finish(&result)?)
    }
}

impl RunKind for Fio {
    fn kind(&self) -> &'static str {
        "fio"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        analysis::analysis(record)
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Only what the file says: it was measured on another machine.
fn environment(output: &Output) -> Environment {
    let mut facts = Environment::default();
    facts.put("fio.version", &output.version);
    facts.put("fio.time", &output.time);
    for (name, value) in &output.options {
        facts.put(&format!("fio.global.{name}"), value);
    }
    for disk in &output.disks {
        facts.put("fio.disks", disk);
    }
    facts
}

fn record(output: &Output, directory: &mut RunDirectory) -> Result<(), Failure> {
    let mut repetitions: BTreeMap<(String, &str), u32> = BTreeMap::new();
    for (number, job) in output.jobs.iter().enumerate() {
        for direction in &job.directions {
            let histogram = match direction.bins.is_empty() {
                true => String::new(),
                false => format!("{number:03}-{}", direction.name),
            };
            if !histogram.is_empty() {
                directory.write_histogram(&histogram, &to_histogram(&direction.bins)?)?;
            }
            directory.append("fio-job", &job_event(job, direction, histogram))?;
            let repetition = repetitions.entry((job.name.clone(), direction.name)).or_insert(0);
            for one in measurements(job, direction, *repetition) {
                directory.append(EVENT, &one)?;
            }
            *repetition += 1;
        }
    }
    Ok(())
}

fn job_event(job: &Job, direction: &Direction, histogram: String) -> JobEvent {
    JobEvent {
        name: job.name.clone(),
        direction: direction.name.into(),
        options: job.options.clone(),
        error: job.error,
        bandwidth_bytes_per_second: direction.bandwidth,
        iops: direction.iops,
        runtime_ms: direction.runtime_ms,
        latency_mean_ns: direction.latency_mean_ns,
        percentiles: direction.percentiles.clone(),
        histogram,
    }
}

/// A job that ended with an error gives no measurement.
fn measurements(job: &Job, direction: &Direction, repetition: u32) -> Vec<Measurement> {
    if job.error != 0 {
        return Vec::new();
    }
    let mut all = vec![
        Measurement::new("bandwidth", "bytes/s", Better::Higher, direction.bandwidth),
        Measurement::new("operations", "1/s", Better::Higher, direction.iops),
        Measurement::new("completion latency, mean", "ns", Better::Lower, direction.latency_mean_ns),
    ];
    for (percent, latency) in direction.percentiles.iter().filter(|(percent, _)| [50.0, 99.0, 99.9].contains(percent)) {
        let name = format!("completion latency, percentile {percent}");
        all.push(Measurement::new(&name, "ns", Better::Lower, *latency));
    }
    all.into_iter()
        .map(|one| Measurement { repetition, ..one.under("job", &job.name).under("direction", direction.name) })
        .collect()
}

fn to_histogram(bins: &[(u64, u64)]) -> Result<Histogram<u64>, Failure> {
    let damaged = |_| Failure::new(ExitCode::RunFailed, "a latency of the file is too large for a histogram");
    let mut histogram = Histogram::new(3).map_err(|_| Failure::new(ExitCode::RunFailed, "no histogram can be made"))?;
    for &(latency, count) in bins {
        histogram.record_n(latency.max(1), count).map_err(damaged)?;
    }
    Ok(histogram)
}

/// The JSON of one event list, for tests and the result.
fn jobs_json(jobs: &[JobEvent]) -> serde_json::Value {
    json!(jobs)
}
