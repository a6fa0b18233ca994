//! The result of a command's run: its time, fio's report, or a printed number.

use super::job_file::STONEWALLS;
use regex::Regex;
use senesce_core::analysis::Better;
use senesce_core::{Measurement, NoValue};
use senesce_runs::import::fio::format::{self, Direction, Job, Options};
use senesce_runs::import::fio::{impossible, sum};
use senesce_runs::measurements::MODELLED;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How a command is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MetricSpec {
    /// `"time"` or `"fio"`.
    Named(NamedMetric),
    /// A number that the command prints.
    Printed(PrintedMetric),
}

/// A metric that needs no description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamedMetric {
    /// Its own time, from start to end.
    Time,
    /// The JSON report of fio.
    Fio,
}

/// A number in the output of the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedMetric {
    /// Must match exactly once in its output or messages; the first group is the number, or the whole match without a
    /// group.
    pub regex: String,
    /// Unit of the number.
    pub unit: String,
    /// Which values are better.
    pub better: BetterValues,
    /// Name of the metric.
    #[serde(default = "printed")]
    pub name: String,
    /// Whether it is a time or a rate, which means nothing under emulation; with `false` it is compared there too.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub timing: bool,
}

/// Which values of a printed number are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BetterValues {
    /// Larger ones.
    Higher,
    /// Smaller ones.
    Lower,
}

impl From<BetterValues> for Better {
    fn from(wanted: BetterValues) -> Self {
        match wanted {
            BetterValues::Higher => Self::Higher,
            BetterValues::Lower => Self::Lower,
        }
    }
}

fn printed() -> String {
    "printed".into()
}

fn yes() -> bool {
    true
}

// Serde requires a reference.
fn is_true(flag: &bool) -> bool {
    *flag
}

pub(crate) const WALL_TIME: &str = "wall time";

pub(crate) const TIME_WITH_SYNC: &str = "time with sync";

/// Names of the bytes written and read by the device, and of the growth of the files.
pub(crate) const WRITTEN: &str = "written to the device";
pub(crate) const READ: &str = "read from the device";
pub(crate) const GROWTH: &str = "growth of the files";

/// Tolerance between two clocks, and for programs that round their own time (seconds, and share).
const SLACK_SECONDS: f64 = 0.05;
const SLACK_SHARE: f64 = 0.02;

impl MetricSpec {
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Printed(printed) => name(&printed.name).and_then(|()| pattern(printed).map(drop)),
            Self::Named(_) => Ok(()),
        }
    }

    /// Reads the measurements of a run that took `seconds` and printed `out` and `errors`; the first is compared.
    pub(crate) fn read(&self, seconds: f64, out: &str, errors: &str) -> Result<Vec<Measurement>, String> {
        let none = |error: NoValue| error.to_string();
        let wall = Measurement::new(WALL_TIME, "s", Better::Lower, seconds).map_err(none)?;
        let mut found = match self {
            Self::Named(NamedMetric::Time) => return Ok(vec![wall]),
            Self::Named(NamedMetric::Fio) => fio(out, seconds)?,
            Self::Printed(printed) => vec![number(printed, seconds, out, errors)?],
        };
        if let Some(first) = found.first().filter(|first| first.value.get() <= 0.0) {
            return Err(format!("its metric is {}; only values above 0 have a ratio", first.value));
        }
        found.push(wall);
        Ok(found)
    }
}

/// Checks that a name differs from that of any other measurement of the run, because values with the same name are one metric.
fn name(name: &str) -> Result<(), String> {
    let known = [WALL_TIME, TIME_WITH_SYNC, WRITTEN, READ, GROWTH];
    match name.trim() {
        "" => Err("metric: name is empty; leave it out, or name the printed value".into()),
        name if known.contains(&name) || name.contains(MODELLED) => {
            Err(format!("metric: name = \"{name}\" is a name that senesce uses itself; choose another"))
        }
        _ => Ok(()),
    }
}

fn pattern(printed: &PrintedMetric) -> Result<Regex, String> {
    Regex::new(&format!("(?m){}", printed.regex)).map_err(|error| format!("metric: regex: {error}"))
}

fn number(printed: &PrintedMetric, seconds: f64, out: &str, errors: &str) -> Result<Measurement, String> {
    let pattern = pattern(printed)?;
    let all: Vec<String> = [out, errors]
        .iter()
        .flat_map(|text| pattern.captures_iter(text))
        .filter_map(|found| Some(found.get(1).or(found.get(0))?.as_str().trim().to_string()))
        .collect();
    let word = match &all[..] {
        [] => return Err(format!("it prints no metric: '{}' does not match its output", printed.regex)),
        [word] => word,
        [first, second, ..] => {
            return Err(format!(
                "'{}' matches {} times in its output, first '{first}' and '{second}': make it match only the value to \
                 use",
                printed.regex,
                all.len()
            ));
        }
    };
    let value: f64 =
        word.parse().map_err(|_| format!("'{}' matches '{word}', which is not a number", printed.regex))?;
    plausible(&printed.name, &printed.unit, value, seconds)?;
    let one = Measurement::new(&printed.name, &printed.unit, printed.better.into(), value);
    one.map(|one| one.timing(printed.timing)).map_err(|error| error.to_string())
}

/// Checks that a program has not taken longer than it ran. Other units cannot be cross-checked.
fn plausible(name: &str, unit: &str, value: f64, seconds: f64) -> Result<(), String> {
    let factor = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => return Ok(()),
    };
    match value * factor <= seconds * (1.0 + SLACK_SHARE) + SLACK_SECONDS {
        true => Ok(()),
        false => Err(format!("its {name} is {value} {unit}, and it ran for {seconds:.3} s: one of the two is wrong")),
    }
}

fn fio(out: &str, seconds: f64) -> Result<Vec<Measurement>, String> {
    let output = format::parse(out)?;
    for job in &output.jobs {
        let name = &job.name;
        if job.error != 0 {
            return Err(format!("fio: job '{name}' ended with error {}", job.error));
        }
        if job.failed_operations > 0 {
            return Err(format!("fio: {} operations of job '{name}' failed", job.failed_operations));
        }
        if let Some(criterion) = &job.not_steady {
            return Err(format!("fio: job '{name}' is not steady: it did not attain {criterion}"));
        }
    }
    at_once(&output.jobs, &output.options)?;
    impossible(&output).map_or(Ok(()), |problem| Err(format!("fio: {problem}")))?;
    let all: Vec<&Direction> = output.jobs.iter().flat_map(|job| &job.directions).collect();
    let Some(whole) = sum(&all).filter(|whole| whole.operations > 0.0) else {
        return Err("fio did no operation".into());
    };
    plausible("runtime of fio", "ms", whole.runtime_ms, seconds)?;
    let us = |name, ns: f64| (name, "us", Better::Lower, ns / 1000.0);
    let latency = whole.total_mean_ns.map(|ns| us("fio mean latency", ns));
    let syncs: Vec<&Direction> = output.jobs.iter().filter_map(|job| job.sync.as_ref()).collect();
    let sync = sum(&syncs).and_then(|sync| Some((sync.total_mean_ns?, sync.operations)));
    let sync_latency = sync.map(|(mean_ns, _)| us("fio mean sync latency", mean_ns));
    let both = whole.total_mean_ns.zip(sync);
    let with_syncs = both.map(|(mean_ns, (sync_ns, syncs))| {
        us("fio mean latency with syncs", mean_ns + sync_ns * syncs / whole.operations)
    });
    let values = [
        ("fio operations", "operations/s", Better::Higher, whole.iops),
        ("fio bandwidth", "MiB/s", Better::Higher, whole.bandwidth / f64::from(1 << 20)),
    ];
    let made =
        |(name, unit, better, value)| Measurement::new(name, unit, better, value).map_err(|error| error.to_string());
    values.into_iter().chain(latency).chain(sync_latency).chain(with_syncs).map(made).collect()
}

/// Rates of consecutive jobs have no sum. A group of its own (`new_group`) runs at the same time as the others.
fn at_once(jobs: &[Job], global: &Options) -> Result<(), String> {
    let waits = jobs.iter().find(|job| job.option(global, "wait_for").is_some());
    let groups = jobs.iter().filter_map(|job| job.group).collect::<BTreeSet<_>>().len();
    let stonewall =
        jobs.iter().skip(1).find(|job| STONEWALLS.iter().any(|option| job.option(global, option).is_some()));
    let is_apart = jobs.iter().skip(1).all(|job| job.group == jobs[0].group || job.options.contains_key("new_group"));
    let why = match (waits, stonewall) {
        (Some(job), _) => format!("job '{}' waits for another (wait_for)", job.name),
        (None, Some(job)) => format!("job '{}' waits for those before it (stonewall)", job.name),
        (None, None) if groups > 1 && !is_apart => format!("its jobs belong to {groups} groups"),
        _ => return Ok(()),
    };
    Err(format!("fio: {why}, so that their rates did not hold at the same time: give each group a workload of its own"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(text: &str) -> MetricSpec {
        #[derive(Deserialize)]
        struct Holder {
            metric: MetricSpec,
        }
        toml::from_str::<Holder>(text).unwrap().metric
    }

    fn value(metric: &MetricSpec, seconds: f64, out: &str) -> Result<f64, String> {
        metric.read(seconds, out, "").map(|found| found[0].value.get())
    }

    #[test]
    fn time_is_the_default_metric() {
        assert_eq!(value(&spec("metric = 'time'"), 2.5, "whatever"), Ok(2.5));
    }

    #[test]
    fn number_must_match_exactly_once() {
        let metric = spec("metric = { regex = 'ops: ([0-9.]+)', unit = 'ops/s', better = 'higher' }");
        metric.check().unwrap();
        assert_eq!(value(&metric, 1.0, "start\nops: 12.5\n"), Ok(12.5));
        for (out, why) in [
            ("ops: 12\nops: 13\n", "matches 2 times"),
            ("nothing", "prints no metric"),
            ("ops: 0\n", "above 0"),
            ("ops: 1.2.3", "not a number"),
        ] {
            assert!(value(&metric, 1.0, out).unwrap_err().contains(why), "{out}");
        }
        let anchored = spec("metric = { regex = '^ops ([0-9]+)$', unit = 'ops/s', better = 'higher' }");
        assert_eq!(value(&anchored, 1.0, "a ops 1\nops 2\n"), Ok(2.0));
        let took = spec("metric = { regex = 'took ([0-9.]+)', unit = 'ms', better = 'lower' }");
        assert_eq!(value(&took, 2.0, "took 1900"), Ok(1900.0));
        assert!(value(&took, 2.0, "took 2900").is_err(), "it took longer than the run");
        assert!(spec("metric = { regex = '(', unit = 's', better = 'lower' }").check().is_err());
    }

    #[test]
    fn reserved_metric_name_is_refused() {
        let named = |name: &str| {
            spec(&format!("metric = {{ regex = '1', unit = 's', better = 'lower', name = '{name}' }}")).check()
        };
        for name in ["", "  ", "wall time", "time with sync", "growth of the files", "read from the device"] {
            assert!(named(name).is_err(), "{name}");
        }
        assert!(named("throughput, modelled 850-evo").is_err());
        assert_eq!(named("transactions"), Ok(()));
    }

    #[test]
    fn printed_number_is_a_timing_by_default() {
        let one = |more: &str| {
            let text = format!("metric = {{ regex = '[0-9]+', unit = 'IOPS', better = 'higher'{more} }}");
            spec(&text).read(1.0, "42", "").unwrap().remove(0)
        };
        assert!(one("").is_timing() && !one(", timing = false").is_timing());
    }

    #[test]
    fn all_jobs_and_directions_of_fio_count() {
        let direction = |iops: f64| {
            json!({"total_ios": (iops * 2.0) as u64, "io_bytes": 2_097_152, "bw_bytes": 1_048_576, "iops": iops, "runtime": 2000,
                "clat_ns": {"mean": 2000.0}})
        };
        let job = json!({"jobname": "a", "error": 0, "read": direction(100.0), "write": direction(50.0)});
        let text = json!({"fio version": "fio-3.33", "jobs": [job]}).to_string();
        let read = |seconds, text: &str| spec("metric = 'fio'").read(seconds, text, "");
        let values: Vec<f64> = read(2.1, &text).unwrap().iter().map(|one| one.value.get()).collect();
        assert_eq!(values, [150.0, 2.0, 2.0, 2.1]);
        let found = read(2.1, &text.replace("\"mean\":2000.0", "\"mean\":0,\"N\":0")).unwrap();
        assert!(found.len() == 3 && found.iter().all(|one| !one.metric.contains("latency")), "{found:?}");
        assert!(read(1.0, &text).is_err(), "longer than the run");
        assert!(read(1.0, "fio: cannot open").is_err());
    }

    /// Reads fio's output for jobs that each read: name, group, operations per second, seconds, and options.
    fn fio_of(jobs: &[(&str, u32, f64, f64, Value)]) -> Result<Vec<f64>, String> {
        let job = |(name, group, iops, seconds, options): &(&str, u32, f64, f64, Value)| {
            json!({"jobname": name, "groupid": group, "error": 0, "job options": options,
                "read": {"total_ios": (iops * seconds) as u64, "io_bytes": (1_048_576.0 * seconds) as u64,
                    "bw_bytes": 1_048_576, "iops": iops, "runtime": (seconds * 1000.0) as u64, "clat_ns": {"mean": 2000.0}}})
        };
        let all: Vec<Value> = jobs.iter().map(job).collect();
        let text = json!({"fio version": "fio-3.33", "jobs": all}).to_string();
        let found = spec("metric = 'fio'").read(100.0, &text, "")?;
        Ok(found.iter().map(|one| one.value.get()).collect())
    }

    #[test]
    fn jobs_that_did_not_run_at_the_same_time_have_no_sum() {
        let with = |group, options| fio_of(&[("a", 0, 100.0, 10.0, json!({})), ("b", group, 300.0, 10.0, options)]);
        assert!(with(1, json!({})).is_err(), "two groups");
        assert!(with(1, json!({"stonewall": ""})).is_err() && with(0, json!({"wait_for": "a"})).is_err());
        assert_eq!(with(1, json!({"new_group": "1"})).unwrap()[0], 400.0, "a reporting group runs with the others");
        assert_eq!(with(0, json!({})).unwrap()[0], 400.0);
    }

    #[test]
    fn time_of_syncs_is_part_of_an_operation_and_unsteady_jobs_do_not_count() {
        let plain = json!({"jobname": "a", "error": 0,
            "write": {"total_ios": 1000, "io_bytes": 1_000_000, "bw_bytes": 1_000_000, "iops": 1000, "runtime": 1000,
                "clat_ns": {"mean": 8000}},
            "sync": {"total_ios": 0, "lat_ns": {"min": 1, "max": 1_900_000, "mean": 950_000, "N": 500}}});
        let read = |job: &Value| {
            spec("metric = 'fio'").read(2.0, &json!({"fio version": "fio-3.33", "jobs": [job]}).to_string(), "")
        };
        let found = read(&plain).unwrap();
        let of = |name: &str| found.iter().find(|one| one.metric == name).map(|one| one.value.get());
        let names = ["fio mean latency", "fio mean sync latency", "fio mean latency with syncs"];
        assert_eq!(names.map(of), [Some(8.0), Some(950.0), Some(483.0)]);
        let mut unsteady = plain;
        unsteady["steadystate"] = json!({"ss": "iops:1%", "attained": 0});
        assert!(read(&unsteady).is_err());
    }

    #[test]
    fn a_job_that_ends_early_counts_over_the_time_of_the_longest() {
        // 1000 and 3000 operations in 10 s: 400 a second, whatever the second one's own rate was.
        let found = fio_of(&[("a", 0, 100.0, 10.0, json!({})), ("b", 0, 3000.0, 1.0, json!({}))]).unwrap();
        assert!((found[0] - 400.0).abs() < 1e-9 && (found[1] - 1.1).abs() < 1e-9, "{found:?}");
    }
}
