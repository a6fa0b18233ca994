//! Results of fio (`--output-format=json` and `json+`), version 3 and later: latencies in nanoseconds.

mod analysis;
mod clones;
mod concurrency;
mod conditions;
pub mod format;

use super::{ImportedFile, Importer, read_text};
use crate::run::{Imported, ImportedRun, Recorded, import_with};
use clones::Joined;
pub use clones::sum;
use concurrency::Concurrency;
pub use concurrency::impossible;
use format::{Direction, Output};
use hdrhistogram::Histogram;
use senesce_core::analysis::{Analysis, Better};
use senesce_core::failure::errno_message;
use senesce_core::{Environment, ExitCode, Failure, Measurement};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Reads text as `import` would; says why it is no result of fio.
///
/// # Errors
/// In words, what of fio's JSON is missing or wrong.
pub fn check(text: &str) -> Result<(), String> {
    format::parse(text).map(drop)
}

/// The importer, and the reader of its records.
pub struct Fio;

/// What was recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// One direction of one job.
    FioJob(JobEvent),
}

/// One direction of one job with all its clones.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobEvent {
    name: String,
    direction: String,
    clones: usize,
    options: BTreeMap<String, String>,
    error: i64,
    /// Whether its numbers count: it ended without an error, and nothing in the file contradicts them.
    counts: bool,
    bandwidth_bytes_per_second: f64,
    iops: f64,
    runtime_ms: f64,
    /// Of completion latencies, where fio measured these.
    #[serde(default)]
    latency_mean_ns: Option<f64>,
    /// Percent and nanoseconds.
    percentiles: Vec<(f64, f64)>,
    /// Whether these are of the total latency, not of the completion latency.
    #[serde(default)]
    percentiles_of_total: bool,
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
        let spec = ImportedFile::of(source, crc32fast::hash(text.as_bytes()));
        let (mut imported, histograms) = imported(&output, spec)?;
        super::date(&mut imported.environment, source, output.timestamp);
        let nothing_counts = imported.measurements.is_empty();
        import_with(out, imported, |directory| {
            histograms.iter().try_for_each(|(name, histogram)| Ok(directory.write_histogram(name, histogram)?))
        })?;
        match nothing_counts {
            true => Err(Failure::new(
                ExitCode::RunFailed,
                format!("{}: no job of it counts; the record {} says why", source.display(), out.display()),
            )),
            false => Ok(()),
        }
    }
}

impl ImportedRun for Fio {
    const KIND: &'static str = "fio";
    type Spec = ImportedFile;
    type Event = Event;

    fn analyse(spec: &ImportedFile, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis::analysis(spec, recorded))
    }
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

/// The options that tell a job from others of its name.
type Conditions<'a> = BTreeMap<&'a str, &'a str>;

/// A histogram with the name under which the record keeps it.
type Named = (String, Histogram<u64>);

/// What is recorded of a result, and the histograms.
fn imported(output: &Output, spec: ImportedFile) -> Result<(Imported<Fio>, Vec<Named>), Failure> {
    let (jobs, of_clones) = clones::join(output);
    let (mut events, mut values, mut histograms) = (Vec::new(), Vec::new(), Vec::new());
    let conditions = conditions::conditions(&jobs, &output.options);
    let mut repetitions: BTreeMap<(&str, &Conditions<'_>, &str), u32> = BTreeMap::new();
    let mut caveats = output.caveats.clone();
    for (number, (joined, condition)) in jobs.iter().zip(&conditions).enumerate() {
        let concurrency = Concurrency::of(joined, &output.options);
        caveats.extend(concurrency.and_then(|one| one.caveat(&joined.job.name)));
        let lacking = clones::lacking(joined, &output.options);
        let is_whole = lacking.as_ref().is_none_or(|(_, counts)| *counts);
        caveats.extend(lacking.map(|(message, _)| message));
        let is_sound = joined.job.error == 0 && is_whole && !concurrency.is_some_and(Concurrency::is_impossible);
        for direction in &joined.job.directions {
            let counts = is_sound && direction.runtime_ms > 0.0;
            let mut histogram = String::new();
            if !direction.bins.is_empty() {
                histogram = format!("{number:03}-{}", direction.name);
                histograms.push((histogram.clone(), to_histogram(&direction.bins)?));
            }
            events.push(Event::FioJob(JobEvent { counts, ..job_event(joined, direction, histogram) }));
            if !counts {
                caveats.extend(of_runtime(&joined.job.name, direction));
                continue;
            }
            caveats.extend(of_latencies(&joined.job.name, direction));
            let repetition = repetitions.entry((&joined.job.name, condition, direction.name)).or_insert(0);
            values.extend(measurements(joined, condition, direction, *repetition));
            *repetition += 1;
        }
    }
    caveats.extend(of_clones);
    caveats.extend(jobs.iter().filter_map(of_job));
    let environment = environment(output);
    Ok((Imported { spec, environment, events, measurements: values, caveats }, histograms))
}

/// What is to be said of a job that failed or did nothing.
fn of_job(Joined { job, clones, .. }: &Joined) -> Option<String> {
    let clones = if *clones > 1 { format!(" ({clones} clones)") } else { String::new() };
    if job.error != 0 {
        let number = i32::try_from(job.error).unwrap_or(0).saturating_abs();
        let words = errno_message(&std::io::Error::from_raw_os_error(number));
        return Some(format!(
            "job '{}'{clones} ended with error {} ({words}): its numbers do not count",
            job.name, job.error
        ));
    }
    job.directions.is_empty().then(|| format!("job '{}'{clones} did no reads, writes or trims", job.name))
}

/// What is to be said of I/O that was over within the resolution of fio's clock.
fn of_runtime(job: &str, direction: &Direction) -> Option<String> {
    let name = direction.name;
    let too_short = direction.runtime_ms == 0.0;
    too_short.then(|| format!("job '{job}' ({name}): it took less than a millisecond: its numbers do not count"))
}

/// What is to be said of latencies that are missing, or of another kind.
fn of_latencies(job: &str, direction: &Direction) -> Option<String> {
    let (name, operations) = (direction.name, direction.operations);
    let few = |samples: &f64| *samples > 0.0 && *samples < clones::MOST * operations;
    if let Some(samples) = direction.samples.filter(few) {
        return Some(format!("job '{job}' ({name}): its latencies are those of {samples} of {operations} operations"));
    }
    if direction.percentiles_of_total {
        return Some(format!("job '{job}' ({name}): the percentiles are those of total latencies (lat_percentiles)"));
    }
    let missing = direction.latency_mean_ns.is_none();
    missing.then(|| format!("job '{job}' ({name}): fio measured no completion latencies (gtod_reduce or disable_clat)"))
}

fn job_event(Joined { job, clones, .. }: &Joined, direction: &Direction, histogram: String) -> JobEvent {
    JobEvent {
        name: job.name.clone(),
        direction: direction.name.into(),
        clones: *clones,
        options: job.options.clone(),
        error: job.error,
        counts: true,
        bandwidth_bytes_per_second: direction.bandwidth,
        iops: direction.iops,
        runtime_ms: direction.runtime_ms,
        latency_mean_ns: direction.latency_mean_ns,
        percentiles: direction.percentiles.clone(),
        percentiles_of_total: direction.percentiles_of_total,
        histogram,
    }
}

fn measurements(
    Joined { job, .. }: &Joined,
    condition: &Conditions<'_>,
    direction: &Direction,
    repetition: u32,
) -> Vec<Measurement> {
    let mut all: Vec<Measurement> = [
        Measurement::new("bandwidth", "bytes/s", Better::Higher, direction.bandwidth),
        Measurement::new("operations", "1/s", Better::Higher, direction.iops).map(Measurement::primary),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(mean) = direction.latency_mean_ns {
        let mean = Measurement::new("completion latency, mean", "ns", Better::Lower, mean);
        all.extend(mean.map(Measurement::primary));
    }
    let latency = if direction.percentiles_of_total { "total latency" } else { "completion latency" };
    for (percent, value) in direction.percentiles.iter().filter(|(percent, _)| [50.0, 99.0, 99.9].contains(percent)) {
        let name = format!("{latency}, percentile {percent}");
        all.extend(Measurement::new(&name, "ns", Better::Lower, *value));
    }
    let under = |one: Measurement| {
        let one = one.under("job", &job.name).under("direction", direction.name);
        condition.iter().fold(one, |one, (option, value)| one.under(option, *value))
    };
    all.into_iter().map(|one| Measurement { repetition, ..under(one) }).collect()
}

fn to_histogram(bins: &[(u64, u64)]) -> Result<Histogram<u64>, Failure> {
    let damaged = |_| Failure::new(ExitCode::RunFailed, "a latency of the file is too large for a histogram");
    let mut histogram = Histogram::new(3).map_err(|_| Failure::new(ExitCode::RunFailed, "no histogram can be made"))?;
    for &(latency, count) in bins {
        histogram.record_n(latency.max(1), count).map_err(damaged)?;
    }
    Ok(histogram)
}

#[cfg(test)]
mod tests;
