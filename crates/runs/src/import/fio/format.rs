//! The parts of fio's JSON that are read (fio 3 HOWTO, "JSON output" and "JSON+ output").

mod impossible;

use impossible::{check_bins, check_latency, check_rates, countable, percentiles};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A whole result.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// `fio-3.33`.
    pub version: String,
    /// When it was taken, as fio writes it.
    pub time: String,
    /// The same in seconds since 1970, where the file has it.
    pub timestamp: Option<u64>,
    /// Global options.
    pub options: BTreeMap<String, String>,
    /// Names of disks below.
    pub disks: Vec<String>,
    /// Jobs in order.
    pub jobs: Vec<Job>,
    /// What a reader must know about the file.
    pub caveats: Vec<String>,
}

/// One job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// The number of its group; jobs of one group ran at the same time.
    pub group: Option<i64>,
    /// The errno it ended with, 0: none.
    pub error: i64,
    /// How long it ran, in milliseconds; of clones that are reported as one the sum.
    pub runtime_ms: Option<f64>,
    /// Its options.
    pub options: BTreeMap<String, String>,
    /// What it did: read, write, trim; or mixed, where fio was told to report these as one; of a fork of fio for zoned drives
    /// also zone resets and finishes.
    pub directions: Vec<Direction>,
}

/// One direction of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// `read`, `write`, `trim`, `mixed`, `zone reset` or `zone finish`.
    pub name: &'static str,
    /// Operations done.
    pub operations: f64,
    /// Bytes of these.
    pub bytes: f64,
    /// How many of their completion latencies were measured, where the file says so.
    pub samples: Option<f64>,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Operations per second.
    pub iops: f64,
    /// Runtime in milliseconds.
    pub runtime_ms: f64,
    /// Mean completion latency, where fio measured it.
    pub latency_mean_ns: Option<f64>,
    /// Mean latency from submission on; the completion latency where fio gives nothing else. None where it measured neither.
    pub total_mean_ns: Option<f64>,
    /// Percent and nanoseconds, rising.
    pub percentiles: Vec<(f64, f64)>,
    /// Whether these are of the total latency: fio was told so.
    pub percentiles_of_total: bool,
    /// Completion latencies (ns) and how often (json+), rising.
    pub bins: Vec<(u64, u64)>,
}

#[derive(Deserialize)]
struct RawOutput {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(default)]
    time: String,
    #[serde(default)]
    timestamp: Option<u64>,
    #[serde(rename = "global options", default)]
    options: BTreeMap<String, Value>,
    #[serde(default)]
    disk_util: Vec<RawDisk>,
    #[serde(default)]
    jobs: Vec<RawJob>,
}

#[derive(Deserialize)]
struct RawDisk {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct RawJob {
    jobname: String,
    groupid: Option<i64>,
    #[serde(default)]
    error: i64,
    job_runtime: Option<f64>,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, Value>,
    read: Option<RawDirection>,
    write: Option<RawDirection>,
    trim: Option<RawDirection>,
    mixed: Option<RawDirection>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct RawDirection {
    total_ios: Option<f64>,
    io_bytes: Option<f64>,
    bw_bytes: Option<f64>,
    iops: Option<f64>,
    runtime: Option<f64>,
    clat_ns: Option<RawLatency>,
    lat_ns: Option<RawLatency>,
}

#[derive(Deserialize)]
struct RawLatency {
    #[serde(rename = "N")]
    samples: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    #[serde(default)]
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

impl RawLatency {
    /// Whether it has samples. Older versions of fio do not say how many, but no latency is 0.
    fn measured(&self) -> bool {
        let told = || self.mean > 0.0 || self.percentile.values().any(|value| *value > 0.0);
        self.samples.map_or_else(told, |samples| samples > 0.0)
    }
}

/// Reads fio's output; lines before the first brace (warnings of fio) are skipped. Of several results in one file
/// (`--status-interval`) the last complete one counts.
///
/// # Errors
/// In words: why it is no result of fio 3, or which field of which job cannot be.
pub fn parse(text: &str) -> Result<Output, String> {
    let (raw, caveats) = last_document(text)?;
    if raw.jobs.is_empty() {
        return Err("it holds no jobs; client/server results are not read".into());
    }
    Ok(Output {
        version: raw.version,
        time: raw.time.trim().to_string(),
        timestamp: raw.timestamp.filter(|seconds| *seconds > 0),
        options: plain(raw.options),
        disks: raw.disk_util.into_iter().map(|disk| disk.name).filter(|name| !name.is_empty()).collect(),
        jobs: raw.jobs.into_iter().map(job).collect::<Result<_, _>>()?,
        caveats,
    })
}

/// The last complete result, and what is to be said of the others.
fn last_document(text: &str) -> Result<(RawOutput, Vec<String>), String> {
    let start = text.find('{').ok_or("no JSON in it; run fio with --output-format=json or json+")?;
    let (mut rest, mut last, mut complete, mut cut) = (&text[start..], None, 0, "");
    loop {
        let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<RawOutput>();
        match documents.next() {
            Some(Ok(raw)) => (last, complete, rest) = (Some(raw), complete + 1, &rest[documents.byte_offset()..]),
            Some(Err(error)) if error.is_eof() && complete > 0 => cut = "; another one behind it is cut off",
            Some(Err(error)) => return Err(no_result(rest, &error)),
            None => {}
        }
        // Other text may lie between: warnings, or the normal output where both were asked for.
        let next = rest.trim_start();
        rest = match (next.starts_with('{'), next.find("\n{")) {
            (true, _) => next,
            (false, Some(at)) => &next[at + 1..],
            (false, None) => "",
        };
        if rest.is_empty() || !cut.is_empty() {
            break;
        }
    }
    let many = complete > 1 || !cut.is_empty();
    let message = format!("the file holds {complete} complete results (--status-interval): the last one counts{cut}");
    Ok((last.ok_or("empty")?, if many { vec![message] } else { Vec::new() }))
}

/// What is wrong with a document. fio writes `nan` where JSON has no word for it.
fn no_result(text: &str, error: &serde_json::Error) -> String {
    let before: Vec<&str> = text.lines().take(error.line()).collect();
    let after = |line: &str, key: &str| Some(line.rsplit_once(key)?.1.trim_matches([' ', ':', ',', '"']).to_string());
    let job = before.iter().rev().find_map(|line| after(line, "\"jobname\""));
    let field = before.last().map_or("", |line| line.trim().trim_end_matches(','));
    let value = field.rsplit(':').next().unwrap_or_default().trim().trim_start_matches('-').to_lowercase();
    match job {
        Some(job) if ["nan", "inf"].contains(&value.as_str()) => {
            let of = |line: &&&str| {
                ["clat_ns", "lat_ns", "slat_ns"].into_iter().find(|name| line.contains(&format!("\"{name}\"")))
            };
            let part = before
                .iter()
                .rev()
                .find(|line| line.trim().ends_with('{'))
                .and_then(|line| of(&line))
                .unwrap_or("a field");
            format!("job '{job}', {part}, {field}: this is not a number; measure again")
        }
        _ => format!("not a result of fio: {error}"),
    }
}

fn plain(options: BTreeMap<String, Value>) -> BTreeMap<String, String> {
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    options.into_iter().map(|(name, value)| (name, text(value))).collect()
}

/// Sections of a fork of fio that times zone commands, and what they are called here.
const ZONE_SECTIONS: [(&str, &str); 3] =
    [("ZNS Reset", "zone reset"), ("ZNS finish", "zone finish"), ("finish", "zone finish")];

fn job(mut raw: RawJob) -> Result<Job, String> {
    let did = |part: &RawDirection| {
        part.total_ios.is_some_and(|ios| ios != 0.0) || part.io_bytes.is_some_and(|bytes| bytes != 0.0)
    };
    let mut zone_commands = Vec::new();
    for (section, name) in ZONE_SECTIONS {
        let Some(value) = raw.others.remove(section) else { continue };
        let part =
            RawDirection::deserialize(value).map_err(|error| format!("job '{}', {section}: {error}", raw.jobname))?;
        zone_commands.push((name, Some(part)));
    }
    let did_so = |value: &Value| value.get("bw_bytes").is_some() && value.get("total_ios").is_some_and(|ios| ios != 0);
    if let Some((name, _)) = raw.others.iter().find(|(_, value)| did_so(value)) {
        return Err(format!(
            "job '{}': '{name}' is no direction that is known (read, write, trim, mixed)",
            raw.jobname
        ));
    }
    let mut directions = Vec::new();
    let usual = [("read", raw.read), ("write", raw.write), ("trim", raw.trim), ("mixed", raw.mixed)];
    for (name, part) in usual.into_iter().chain(zone_commands) {
        let Some(part) = part.filter(did) else { continue };
        // `unified_rw_reporting=both` gives the sum beside its parts.
        let again = directions.iter().any(|known: &Direction| known.name == name);
        if again || name == "mixed" && !directions.is_empty() {
            continue;
        }
        directions.push(direction(name, part).map_err(|problem| format!("job '{}', {name}: {problem}", raw.jobname))?);
    }
    Ok(Job {
        name: raw.jobname,
        group: raw.groupid,
        error: raw.error,
        runtime_ms: raw.job_runtime,
        options: plain(raw.options),
        directions,
    })
}

fn direction(name: &'static str, raw: RawDirection) -> Result<Direction, String> {
    let (Some(bandwidth), Some(latency)) = (raw.bw_bytes, raw.clat_ns) else {
        return Err("no bw_bytes or clat_ns; results of fio before version 3 are not read".into());
    };
    let field = |name: &str, value: Option<f64>| {
        let absent = || format!("it did I/O, but has no field {name}; write the whole result again");
        countable(name, value.ok_or_else(absent)?)
    };
    let (operations, iops) = (field("total_ios", raw.total_ios)?, field("iops", raw.iops)?);
    let (bytes, runtime_ms) = (field("io_bytes", raw.io_bytes)?, field("runtime", raw.runtime)?);
    countable("bw_bytes", bandwidth)?;
    check_rates(runtime_ms, [operations, iops], [bytes, bandwidth])?;
    let total = raw.lat_ns;
    check_latency("clat_ns", &latency)?;
    total.as_ref().map_or(Ok(()), |total| check_latency("lat_ns", total))?;
    // gtod_reduce, disable_clat and disable_lat leave latencies without samples.
    let completion = Some(&latency).filter(|one| one.measured());
    let total = total.as_ref().filter(|one| one.measured());
    let has_percentiles = |one: &&RawLatency| !one.percentile.is_empty();
    let (of_completion, of_total) = (completion.filter(has_percentiles), total.filter(has_percentiles));
    let bin = |(value, count): (&String, &u64)| {
        Ok((value.parse().map_err(|_| format!("clat_ns.bins: '{value}' is no latency"))?, *count))
    };
    let mut bins: Vec<(u64, u64)> = latency.bins.iter().map(bin).collect::<Result<_, String>>()?;
    bins.sort_unstable();
    check_bins("clat_ns", &latency, &bins)?;
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
        percentiles: of_completion.or(of_total).map_or(Ok(Vec::new()), |one| percentiles("percentile", one))?,
        percentiles_of_total: of_completion.is_none() && of_total.is_some(),
        bins,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: &str = include_str!("../../../../../fuzz/corpus/fio_json/plain.json");
    const PLUS: &str = include_str!("../../../../../fuzz/corpus/fio_json/plus.json");

    #[test]
    fn real_results_are_read() {
        let output = parse(PLAIN).unwrap();
        assert!(output.version.starts_with("fio-3"));
        let names: Vec<(&str, usize)> =
            output.jobs.iter().map(|job| (job.name.as_str(), job.directions.len())).collect();
        assert_eq!(names, [("rr", 1), ("sw", 1), ("mix", 2)]);
        assert!(output.jobs[0].directions[0].bins.is_empty());
        let plus = parse(&format!("fio: a warning\n{PLUS}")).unwrap();
        let read = &plus.jobs[0].directions[0];
        assert_eq!(read.bins.iter().map(|bin| bin.1).sum::<u64>(), PLUS_READS);
        assert!(read.percentiles.iter().any(|(percent, latency)| *percent == 99.0 && *latency > 0.0));
    }

    /// `jobs[0].read.clat_ns.N` of the file.
    const PLUS_READS: u64 = 13967;

    #[test]
    fn the_committed_corpus_never_panics() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/fio_json");
        for entry in std::fs::read_dir(corpus).unwrap().flatten() {
            let _ = parse(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()));
        }
    }

    #[test]
    fn what_is_not_fio_is_said() {
        for (text, word) in [
            ("", "no JSON"),
            ("{}", "fio version"),
            ("{\"fio version\":\"fio-3\",\"jobs\":[]}", "no jobs"),
            (
                "{\"fio version\":\"fio-2\",\"jobs\":[{\"jobname\":\"a\",\"read\":{\"total_ios\":1,\"clat\":{}}}]}",
                "before version 3",
            ),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains(word), "{problem}");
        }
    }

    proptest! {
        #[test]
        fn damage_is_an_error_and_not_a_panic(at in 0usize..20_000, byte in any::<u8>()) {
            let mut bytes = PLAIN.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }
    }
}
