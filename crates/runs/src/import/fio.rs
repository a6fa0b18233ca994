//! Results of fio (`--output-format=json` and `json+`), version 3 and later: latencies in nanoseconds.

mod analysis;
mod clones;
mod conditions;
mod document;
pub mod format;
mod rules;
mod soundness;

use super::{ImportedFile, Importer, finish, read_text};
use clones::JoinedClones;
pub use clones::sum;
use format::{Direction, Output, SYNC};
use hdrhistogram::Histogram;
use senesce_core::analysis::{Analysis, Better};
use senesce_core::{Environment, ExitCode, Failure, Measurement};
use senesce_runner::{Imported, ImportedRun, Recorded, import_with};
use serde::{Deserialize, Serialize};
pub use soundness::impossible;
use std::collections::BTreeMap;
use std::path::Path;

pub fn check(text: &str) -> Result<(), String> {
    format::parse(text).map(drop)
}

#[cfg(test)]
pub(crate) fn rules() -> Vec<&'static str> {
    rules::OF_LATENCIES.iter().map(|rule| rule.name).chain(rules::OF_DIRECTIONS.iter().map(|rule| rule.name)).collect()
}

pub struct Fio;

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

/// Returns only facts in the file: it was measured on another machine.
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

type NamedHistogram = (String, Histogram<u64>);

fn imported(output: &Output, spec: ImportedFile) -> Result<(Imported<Fio>, Vec<NamedHistogram>), Failure> {
    let (mut jobs, of_clones) = clones::join(output);
    let own = jobs.len();
    jobs.extend(JoinedClones::of_clients(output));
    let mut conditions = conditions::conditions(&jobs[..own], &output.options);
    conditions.resize(jobs.len(), Conditions::new());
    let (mut events, mut values, mut histograms) = (Vec::new(), Vec::new(), Vec::new());
    let mut repetitions: BTreeMap<(&str, &Conditions<'_>, &str), u32> = BTreeMap::new();
    let mut caveats = output.caveats.clone();
    for (number, (joined, condition)) in jobs.iter().zip(&conditions).enumerate() {
        let mut is_sound = true;
        let reasons = if number < own { soundness::contradictions(joined, &output.options) } else { Vec::new() };
        for (message, counts) in reasons.into_iter().chain(soundness::failures(joined)) {
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
            caveats.extend(soundness::of_direction(&joined.job.name, direction, counts));
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

fn job_event(
    JoinedClones { job, clones, .. }: &JoinedClones,
    direction: &Direction,
    histogram: String,
    counts: bool,
) -> JobEvent {
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
    JoinedClones { job, .. }: &JoinedClones,
    condition: &Conditions<'_>,
    direction: &Direction,
    repetition: u32,
) -> Vec<Measurement> {
    let is_sync = direction.name == SYNC;
    let (mean, latency) = match direction.percentiles_of_total {
        _ if is_sync => ("sync latency, mean", "sync latency"),
        true => ("completion latency, mean", "total latency"),
        false => ("completion latency, mean", "completion latency"),
    };
    let one = |metric: &str, unit: &str, better, value| Measurement::new(metric, unit, better, value).ok();
    let rates = [
        one("bandwidth", "bytes/s", Better::Higher, direction.bandwidth),
        one("operations", "1/s", Better::Higher, direction.iops).map(Measurement::primary),
    ];
    let mean = direction.latency_mean_ns.and_then(|value| one(mean, "ns", Better::Lower, value));
    let shown = direction.percentiles.iter().filter(|(percent, _)| [50.0, 99.0, 99.9].contains(percent));
    let percentiles =
        shown.map(|(percent, value)| one(&format!("{latency}, percentile {percent}"), "ns", Better::Lower, *value));
    let rates = rates.into_iter().filter(|_| !is_sync);
    let under = |one: Measurement| {
        let one = one.under("job", &job.name).under("direction", direction.name);
        condition.iter().fold(one, |one, (option, value)| one.under(option, *value))
    };
    let all = rates.chain([mean.map(Measurement::primary)]).chain(percentiles).flatten();
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
