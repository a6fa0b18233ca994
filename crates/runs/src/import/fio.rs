//! Results of fio (`--output-format=json` and `json+`), version 3 and later: latencies in nanoseconds.

mod analysis;
mod clones;
mod concurrency;
mod conditions;
mod document;
pub mod format;
mod witnesses;

use super::{ImportedFile, Importer, finish, read_text};
use clones::Joined;
pub use clones::sum;
use concurrency::Concurrency;
pub use concurrency::impossible;
use format::{Direction, Output, SYNC};
use hdrhistogram::Histogram;
use senesce_core::analysis::{Analysis, Better};
use senesce_core::failure::errno_message;
use senesce_core::{Environment, ExitCode, Failure, Measurement};
use senesce_runner::{Imported, ImportedRun, Recorded, import_with};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

pub fn check(text: &str) -> Result<(), String> {
    format::parse(text).map(drop)
}

#[cfg(test)]
pub(crate) fn rules() -> Vec<&'static str> {
    let of_latencies = witnesses::latency_rules().map(|rule| rule.name);
    of_latencies.into_iter().chain(witnesses::direction_rules().map(|rule| rule.name)).collect()
}

pub struct Fio;

/// Recorded events.
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
    /// Whether its numbers are valid: it ended without an error, and no number in the file contradicts them.
    counts: bool,
    bandwidth_bytes_per_second: f64,
    iops: f64,
    runtime_ms: f64,
    /// Of completion latencies, if fio measured them.
    #[serde(default)]
    latency_mean_ns: Option<f64>,
    /// Percent and nanoseconds.
    percentiles: Vec<(f64, f64)>,
    /// Whether these are of the total latency, not of the completion latency.
    #[serde(default)]
    percentiles_of_total: bool,
    /// Name of the stored histogram (json+), or empty.
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
        finish(source, out, nothing_counts)
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

/// Only facts in the file: it was measured on another machine.
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

type Conditions<'a> = BTreeMap<&'a str, &'a str>;

type Named = (String, Histogram<u64>);

fn imported(output: &Output, spec: ImportedFile) -> Result<(Imported<Fio>, Vec<Named>), Failure> {
    let (mut jobs, of_clones) = clones::join(output);
    let own = jobs.len();
    jobs.extend(Joined::of_clients(output));
    let mut conditions = conditions::conditions(&jobs[..own], &output.options);
    conditions.resize(jobs.len(), Conditions::new());
    let (mut events, mut values, mut histograms) = (Vec::new(), Vec::new(), Vec::new());
    let mut repetitions: BTreeMap<(&str, &Conditions<'_>, &str), u32> = BTreeMap::new();
    let mut caveats = output.caveats.clone();
    for (number, (joined, condition)) in jobs.iter().zip(&conditions).enumerate() {
        let mut is_sound = true;
        let reasons = if number < own { contradictions(joined, output) } else { Vec::new() };
        for (message, counts) in reasons.into_iter().chain(failures(joined)) {
            caveats.push(message);
            is_sound &= counts;
        }
        for direction in joined.job.all() {
            let counts = is_sound && direction.runtime_ms > 0.0;
            let mut histogram = String::new();
            if !direction.bins.is_empty() {
                histogram = format!("{number:03}-{}", direction.name);
                histograms.push((histogram.clone(), to_histogram(&direction.bins)?));
            }
            events.push(Event::FioJob(job_event(joined, direction, histogram, counts)));
            caveats.extend(of_direction(&joined.job.name, direction, counts));
            if counts {
                let repetition = repetitions.entry((&joined.job.name, condition, direction.name)).or_insert(0);
                values.extend(measurements(joined, condition, direction, *repetition));
                *repetition += 1;
            }
        }
    }
    caveats.extend(of_clones);
    let environment = environment(output);
    Ok((Imported { spec, environment, events, measurements: values, caveats }, histograms))
}

fn contradictions(joined: &Joined, output: &Output) -> Vec<(String, bool)> {
    let concurrency = Concurrency::of(joined, &output.options);
    let in_flight = concurrency.and_then(|one| Some((one.caveat(&joined.job.name)?, !one.is_impossible())));
    in_flight.into_iter().chain(clones::lacking(joined, &output.options)).collect()
}

fn failures(Joined { job, clones, .. }: &Joined) -> Vec<(String, bool)> {
    let clones = if *clones > 1 { format!(" ({clones} clones)") } else { String::new() };
    let job_name = format!("job '{}'{clones}", job.name);
    let mut all = Vec::new();
    if job.error != 0 {
        let number = i32::try_from(job.error).unwrap_or(0).saturating_abs();
        let words = errno_message(&std::io::Error::from_raw_os_error(number));
        let message = format!("{job_name} ended with error {} ({words}): its numbers do not count", job.error);
        return vec![(message, false)];
    }
    if job.failed_operations > 0 {
        let count = job.failed_operations;
        all.push((format!("{job_name}: {count} operations failed (total_err): its numbers do not count"), false));
    }
    if let Some(criterion) = &job.not_steady {
        all.push((
            format!("{job_name} is not steady: fio did not attain {criterion}: its numbers do not count"),
            false,
        ));
    }
    if job.all().next().is_none() {
        all.push((format!("{job_name} did no reads, writes or trims"), true));
    }
    all
}

/// Caveats for I/O shorter than the resolution of fio's clock, and for missing or unusual latencies.
fn of_direction(job: &str, direction: &Direction, counts: bool) -> Option<String> {
    let (name, operations) = (direction.name, direction.operations);
    let few = |samples: &f64| *samples > 0.0 && *samples < clones::MOST * operations;
    let message = match direction.samples.filter(few) {
        _ if direction.runtime_ms == 0.0 => "it took less than a millisecond: its numbers do not count".into(),
        _ if !counts || name == SYNC => return None,
        Some(samples) => format!("its latencies are those of {samples} of {operations} operations"),
        None if direction.percentiles_of_total => {
            "the percentiles are those of total latencies (lat_percentiles)".into()
        }
        None if direction.latency_mean_ns.is_none() => {
            "fio measured no completion latencies (gtod_reduce or disable_clat)".into()
        }
        None => return None,
    };
    Some(format!("job '{job}' ({name}): {message}"))
}

fn job_event(Joined { job, clones, .. }: &Joined, direction: &Direction, histogram: String, counts: bool) -> JobEvent {
    JobEvent {
        name: job.name.clone(),
        direction: direction.name.into(),
        clones: *clones,
        options: job.options.clone(),
        error: job.error,
        counts,
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
    let is_sync = direction.name == SYNC;
    let mean = if is_sync { "sync latency, mean" } else { "completion latency, mean" };
    let latency = match direction.percentiles_of_total {
        _ if is_sync => "sync latency",
        true => "total latency",
        false => "completion latency",
    };
    let rates = [
        Measurement::new("bandwidth", "bytes/s", Better::Higher, direction.bandwidth),
        Measurement::new("operations", "1/s", Better::Higher, direction.iops).map(Measurement::primary),
    ];
    let mean = direction.latency_mean_ns.map(|value| Measurement::new(mean, "ns", Better::Lower, value));
    let shown = direction.percentiles.iter().filter(|(percent, _)| [50.0, 99.0, 99.9].contains(percent));
    let percentiles = shown.map(|(percent, value)| {
        Measurement::new(&format!("{latency}, percentile {percent}"), "ns", Better::Lower, *value)
    });
    let rates = rates.into_iter().filter(|_| !is_sync);
    let all = rates.chain(mean.map(|mean| mean.map(Measurement::primary))).chain(percentiles).flatten();
    let under = |one: Measurement| {
        let one = one.under("job", &job.name).under("direction", direction.name);
        condition.iter().fold(one, |one, (option, value)| one.under(option, *value))
    };
    all.map(|one| Measurement { repetition, ..under(one) }).collect()
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
