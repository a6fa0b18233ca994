//! Parses the used parts of fio's JSON (fio 3 HOWTO, "JSON output" and "JSON+ output").

use super::document::{RawDirection, RawJob, RawLatency, last_document};
use super::rules::{Evidence, Interval, OF_DIRECTIONS, OF_LATENCIES};
use crate::import::{printable, rules};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

pub type Options = BTreeMap<String, String>;

#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    pub version: String,
    pub time: String,
    pub timestamp: Option<u64>,
    pub options: Options,
    pub disks: Vec<String>,
    pub jobs: Vec<Job>,
    /// Of several clients: fio's own sum over all of them.
    pub all_clients: Option<Job>,
    pub caveats: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub name: String,
    /// The number of its group; jobs of one group ran at the same time.
    pub group: Option<i64>,
    /// The errno it ended with, 0: success.
    pub error: i64,
    /// Failed operations after which fio continued (`continue_on_error`).
    pub failed_operations: u64,
    pub not_steady: Option<String>,
    /// Its runtime in milliseconds; the sum of clones that are reported as one.
    pub runtime_ms: Option<f64>,
    pub options: Options,
    /// Its directions: read, write, trim; mixed if fio reports these as one; zone resets and finishes of a fork of fio
    /// for zoned drives.
    pub directions: Vec<Direction>,
    /// fsync, fdatasync and sync_file_range: operations and latencies only.
    pub sync: Option<Direction>,
}

impl Job {
    pub fn all(&self) -> impl Iterator<Item = &Direction> {
        self.directions.iter().chain(&self.sync)
    }

    pub fn option<'a>(&'a self, global: &'a Options, name: &str) -> Option<&'a str> {
        self.options.get(name).or(global.get(name)).map(String::as_str)
    }

    /// Returns `iodepth` or `numjobs`; 1 by default.
    pub fn number(&self, global: &Options, name: &str) -> Option<f64> {
        self.option(global, name).map_or(Some(1.0), |text| text.parse().ok())
    }
}

pub const SYNC: &str = "sync";

#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// `read`, `write`, `trim`, `mixed`, `sync`, `zone reset` or `zone finish`.
    pub name: &'static str,
    pub operations: f64,
    pub bytes: f64,
    /// Number of measured completion latencies, if the file has it.
    pub samples: Option<f64>,
    /// Bytes per second.
    pub bandwidth: f64,
    pub iops: f64,
    pub runtime_ms: f64,
    pub latency_mean_ns: Option<f64>,
    /// Mean latency from submission, or the completion latency if it is the only one. None if fio measured neither.
    pub total_mean_ns: Option<f64>,
    /// Percent and nanoseconds, rising.
    pub percentiles: Vec<(f64, f64)>,
    /// Whether these are of the total latency (`lat_percentiles`).
    pub percentiles_of_total: bool,
    pub bins: Vec<(u64, u64)>,
}

/// Parses fio's output. Skips other text (messages of fio), whose warnings become caveats. Of several results in one
/// file (`--status-interval`) the last complete one counts.
pub fn parse(text: &str) -> Result<Output, String> {
    let (mut raw, mut caveats) = last_document(text)?;
    // fio adds it behind two or more clients, with the group of the first in some versions.
    let several = raw.client_stats.len() > 2;
    let total = raw.client_stats.pop_if(|job| several && job.jobname == "All clients");
    raw.jobs.append(&mut raw.client_stats);
    let all = raw.jobs.len();
    raw.jobs.retain(|job| !job.jobname.is_empty());
    if raw.jobs.is_empty() {
        let why = if all > 0 { " with statistics (stats=0)" } else { "" };
        return Err(format!("it holds no jobs{why}"));
    }
    if raw.jobs.len() < all {
        caveats.push("it holds jobs without statistics (stats=0), which add load and are not counted".into());
    }
    let (options, of_hosts) = global_options(raw.options);
    let read = |raw: RawJob, clients: usize| job(raw, &options, &of_hosts, clients);
    let jobs = raw.jobs.into_iter().map(|raw| read(raw, 1)).collect::<Result<Vec<_>, _>>()?;
    let all_clients = total.map(|raw| read(raw, jobs.len())).transpose()?;
    if let Some(total) = &all_clients {
        check_sum(total, &jobs)?;
    }
    let disk = |disk: &Value| disk.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()).map(printable);
    Ok(Output {
        version: printable(&raw.version),
        time: printable(raw.time.trim()),
        timestamp: raw.timestamp.filter(|seconds| *seconds > 0),
        disks: raw.disk_util.iter().filter_map(disk).collect(),
        options,
        jobs,
        all_clients,
        caveats,
    })
}

fn global_options(raw: Value) -> (Options, BTreeMap<String, Options>) {
    let map = |value: Value| value.as_object().map(|map| plain(map.clone())).unwrap_or_default();
    let Value::Array(clients) = raw else { return (map(raw), BTreeMap::new()) };
    let of_host = |mut options: Options| (options.remove("hostname").unwrap_or_default(), options);
    (Options::new(), clients.into_iter().map(map).map(of_host).collect())
}

/// Checks that fio's sum over all clients equals the sum of the clients.
fn check_sum(total: &Job, jobs: &[Job]) -> Result<(), String> {
    for stated in &total.directions {
        let parts = jobs.iter().flat_map(|job| &job.directions).filter(|part| part.name == stated.name);
        let (operations, bytes) = parts.fold((0.0, 0.0), |all, part| (all.0 + part.operations, all.1 + part.bytes));
        if (operations, bytes) != (stated.operations, stated.bytes) {
            return Err(format!(
                "'{}', {}: total_ios and io_bytes are {} and {}, but the clients have {operations} and {bytes}",
                total.name, stated.name, stated.operations, stated.bytes
            ));
        }
    }
    Ok(())
}

fn plain(options: impl IntoIterator<Item = (String, Value)>) -> Options {
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    options.into_iter().map(|(name, value)| (printable(&name), printable(&text(value)))).collect()
}

/// Sections of directions. `unified_rw_reporting=both` gives `mixed` in addition to its parts; the last three are of a
/// fork of fio, some versions of which write finishes twice.
const SECTIONS: [(&str, &str); 7] = [
    ("read", "read"),
    ("write", "write"),
    ("trim", "trim"),
    ("mixed", "mixed"),
    ("ZNS Reset", "zone reset"),
    ("ZNS finish", "zone finish"),
    ("finish", "zone finish"),
];

fn job(mut raw: RawJob, global: &Options, of_hosts: &BTreeMap<String, Options>, clients: usize) -> Result<Job, String> {
    let name = printable(&raw.jobname);
    let at = |section: &str, problem: &str| format!("job '{name}', {section}: {problem}");
    let mut options = plain(std::mem::take(&mut raw.options));
    if let Some(host) = &raw.hostname {
        options =
            of_hosts.get(host).into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).chain(options).collect();
        options.insert("host".into(), printable(host));
    }
    let mut take = |section: &str| {
        let part = raw.sections.remove(section).map(RawDirection::deserialize).transpose();
        part.map_err(|error| at(section, &error.to_string()))
    };
    let mut parts: Vec<(&'static str, RawDirection)> = Vec::new();
    for (section, known) in SECTIONS {
        let did = |part: &RawDirection| [part.total_ios, part.io_bytes].into_iter().flatten().any(|count| count != 0.0);
        parts.extend(take(section)?.filter(did).map(|part| (known, part)));
    }
    let of_syncs = take(SYNC)?;
    let did_so = |value: &Value| value.get("bw_bytes").is_some() && value.get("total_ios").is_some_and(|ios| ios != 0);
    if let Some((other, _)) = raw.sections.iter().find(|(_, value)| did_so(value)) {
        let other = printable(other);
        return Err(format!("job '{name}': unknown direction '{other}' (known are read, write, trim, mixed)"));
    }
    let steady = raw.sections.get("steadystate").filter(|one| one["attained"] == 0);
    let mut job = Job {
        name: name.clone(),
        group: raw.groupid,
        error: raw.error,
        failed_operations: raw.total_err,
        not_steady: steady.map(|one| printable(one["ss"].as_str().unwrap_or_default())),
        runtime_ms: raw.job_runtime,
        options,
        directions: Vec::new(),
        sync: None,
    };
    let intervals = if parts.len() == 1 { intervals(&raw.sections) } else { Vec::new() };
    let clones = job.number(global, "numjobs").unwrap_or(1.0);
    let runtimes: Vec<f64> = parts.iter().filter_map(|(_, part)| part.runtime).collect();
    let longest = runtimes.iter().copied().fold(0.0, f64::max);
    let reported = job.runtime_ms.filter(|_| longest > 0.0).map_or(1.0, |all| (all / longest).ceil());
    // A group that is reported as one has the options of its first job.
    let one_after_other = if job.option(global, "verify").is_some() { runtimes.iter().sum() } else { longest };
    let is_one = job.runtime_ms.is_some_and(|all| all <= clones * (one_after_other + CLOCK_MS) * (1.0 + CLOCK_SHARE));
    for (name, part) in parts {
        if job.directions.iter().any(|known| known.name == name) || name == "mixed" && !job.directions.is_empty() {
            continue;
        }
        let evidence = Evidence {
            direction: part,
            block_bytes: if is_one { block_bytes(&job, global, name) } else { None },
            in_flight: job.number(global, "iodepth").unwrap_or(1.0) * clones.max(reported).clamp(1.0, MOST_JOBS),
            clients: clients as f64,
            intervals: intervals.clone(),
        };
        job.directions.push(direction(name, &evidence).map_err(|problem| at(name, &problem))?);
    }
    if let Some(part) = of_syncs {
        job.sync = sync(&part, longest).map_err(|problem| at(SYNC, &problem))?;
    }
    Ok(job)
}

/// A job may run longer than its longest direction by this time.
const CLOCK_MS: f64 = 2.0;
const CLOCK_SHARE: f64 = 1e-3;
/// fio's limit of jobs (`FIO_MAX_JOBS`).
pub const MOST_JOBS: f64 = 4096.0;

/// Returns the shares of latencies in `latency_ns`, `latency_us` and `latency_ms`, which are named by their upper ends.
fn intervals(sections: &BTreeMap<String, Value>) -> Vec<Interval> {
    let (mut all, mut least_ns) = (Vec::new(), 0.0);
    for (section, unit_ns) in [("latency_ns", 1.0), ("latency_us", 1e3), ("latency_ms", 1e6)] {
        let Some(shares) = sections.get(section).and_then(Value::as_object) else { return Vec::new() };
        let most = |name: &str| name.parse::<f64>().map_or(f64::INFINITY, |most| most * unit_ns);
        let mut shares: Vec<_> =
            shares.iter().map(|(name, share)| (most(name), share.as_f64().unwrap_or(0.0))).collect();
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (most_ns, percent) in shares {
            all.push(Interval { least_ns, most_ns, percent });
            least_ns = most_ns;
        }
    }
    all
}

/// Options that vary the size of a request.
const SIZES: &str = "bsrange blocksize_range bssplit bs_unaligned blocksize_unaligned bs_is_seq_rand \
                     blocksize_is_seq_rand read_iolog num_range kb_base";

fn block_bytes(job: &Job, global: &Options, direction: &str) -> Option<f64> {
    let has = |name: &str| job.option(global, name).is_some();
    if job.options.is_empty() && global.is_empty() || SIZES.split(' ').any(has) {
        return None;
    }
    let text = job.option(global, "bs").or(job.option(global, "blocksize"))?;
    let sizes: Vec<&str> = text.split(',').collect();
    let at = match direction {
        "read" => 0,
        "write" => 1,
        "trim" => 2,
        "mixed" if sizes.len() == 1 => 0,
        _ => return None,
    };
    // Missing sizes of writes and trims equal the last given one.
    size(sizes.get(at).or(sizes.last())?)
}

fn size(text: &str) -> Option<f64> {
    let text = text.trim().to_lowercase();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "ki" | "kib" => 10,
        "m" | "mb" | "mi" | "mib" => 20,
        "g" | "gb" | "gi" | "gib" => 30,
        _ => return None,
    };
    Some(digits.parse::<u32>().ok().filter(|digits| *digits > 0)? as f64 * f64::from(1u32 << shift))
}

fn direction(name: &'static str, evidence: &Evidence) -> Result<Direction, String> {
    let raw = &evidence.direction;
    let Some(latency) = &raw.clat_ns else {
        return Err("no clat_ns; results of fio before version 3 are not supported".into());
    };
    let field = |name: &str, value: Option<f64>| {
        value.ok_or_else(|| format!("it did I/O, but has no field {name}; export the complete result again"))
    };
    let (operations, iops) = (field("total_ios", raw.total_ios)?, field("iops", raw.iops)?);
    let (bytes, runtime_ms) = (field("io_bytes", raw.io_bytes)?, field("runtime", raw.runtime)?);
    // fio 3.0 and 3.1 write the rate in KiB only.
    let kib = if runtime_ms > 0.0 { bytes / runtime_ms * 1000.0 } else { 0.0 };
    let bandwidth = field("bw_bytes", raw.bw_bytes.or(raw.bw.map(|_| kib)))?;
    rules::check(&OF_DIRECTIONS, evidence)?;
    raw.latencies().try_for_each(|(name, one)| check_latency(name, one))?;
    // gtod_reduce, disable_clat and disable_lat leave latencies without samples.
    let completion = Some(latency).filter(|one| one.measured());
    let total = raw.lat_ns.as_ref().filter(|one| one.measured());
    let has_percentiles = |one: &&RawLatency| !one.percentile.is_empty();
    let (of_completion, of_total) = (completion.filter(has_percentiles), total.filter(has_percentiles));
    Ok(Direction {
        name,
        operations,
        bytes,
        samples: latency.samples,
        bandwidth,
        iops,
        runtime_ms,
        latency_mean_ns: completion.map(|one| one.mean),
        total_mean_ns: total.or(completion).map(|one| one.mean),
        percentiles: of_completion.or(of_total).map(|one| one.percentile.clone()).unwrap_or_default(),
        percentiles_of_total: of_completion.is_none() && of_total.is_some(),
        bins: latency.bins.clone(),
    })
}

fn check_latency(name: &str, one: &RawLatency) -> Result<(), String> {
    rules::check(&OF_LATENCIES, one).map_err(|problem| format!("{name}.{problem}"))
}

/// Syncs, counted by their latencies, because `total_ios` omits some of them.
fn sync(raw: &RawDirection, runtime_ms: f64) -> Result<Option<Direction>, String> {
    let Some(latency) = raw.lat_ns.as_ref().filter(|one| one.measured()) else { return Ok(None) };
    check_latency("lat_ns", latency)?;
    let operations = latency.samples.or(raw.total_ios).unwrap_or(0.0);
    Ok(Some(Direction {
        name: SYNC,
        operations,
        bytes: 0.0,
        samples: latency.samples,
        bandwidth: 0.0,
        iops: if runtime_ms > 0.0 { operations / runtime_ms * 1000.0 } else { 0.0 },
        runtime_ms,
        latency_mean_ns: Some(latency.mean),
        total_mean_ns: Some(latency.mean),
        percentiles: latency.percentile.clone(),
        percentiles_of_total: true,
        bins: latency.bins.clone(),
    }))
}

#[cfg(test)]
mod tests;
