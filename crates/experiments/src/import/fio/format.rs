//! The parts of fio's JSON that are read (fio 3 HOWTO, "JSON output" and "JSON+ output").

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
    /// Global options.
    pub options: BTreeMap<String, String>,
    /// Names of disks below.
    pub disks: Vec<String>,
    /// Jobs in order.
    pub jobs: Vec<Job>,
}

/// One job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// The errno it ended with, 0: none.
    pub error: i64,
    /// Its options.
    pub options: BTreeMap<String, String>,
    /// What it did: read, write, trim.
    pub directions: Vec<Direction>,
}

/// One direction of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// `read`, `write` or `trim`.
    pub name: &'static str,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Operations per second.
    pub iops: f64,
    /// Runtime in milliseconds.
    pub runtime_ms: f64,
    /// Mean completion latency.
    pub latency_mean_ns: f64,
    /// Mean latency from submission on; the completion latency where fio gives nothing else.
    pub total_mean_ns: f64,
    /// Percent and nanoseconds, rising; of the total latency where fio was told so.
    pub percentiles: Vec<(f64, f64)>,
    /// Completion latencies (ns) and how often (json+), rising.
    pub bins: Vec<(u64, u64)>,
}

#[derive(Deserialize)]
struct RawOutput {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(default)]
    time: String,
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
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, Value>,
    read: Option<RawDirection>,
    write: Option<RawDirection>,
    trim: Option<RawDirection>,
}

#[derive(Deserialize)]
struct RawDirection {
    #[serde(default)]
    total_ios: f64,
    #[serde(default)]
    io_bytes: f64,
    bw_bytes: Option<f64>,
    #[serde(default)]
    iops: f64,
    #[serde(default)]
    runtime: f64,
    clat_ns: Option<RawLatency>,
    lat_ns: Option<RawLatency>,
}

#[derive(Deserialize)]
struct RawLatency {
    #[serde(default)]
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

/// Reads fio's output; lines before the first brace (warnings of fio) are skipped.
pub fn parse(text: &str) -> Result<Output, String> {
    let start = text.find('{').ok_or("no JSON in it; run fio with --output-format=json or json+")?;
    let mut documents = serde_json::Deserializer::from_str(&text[start..]).into_iter::<RawOutput>();
    let raw = match documents.next() {
        Some(Ok(raw)) => raw,
        Some(Err(error)) => return Err(format!("not a result of fio: {error}")),
        None => return Err("empty".into()),
    };
    if raw.jobs.is_empty() {
        return Err("it holds no jobs; client/server results are not read".into());
    }
    Ok(Output {
        version: raw.version,
        time: raw.time.trim().to_string(),
        options: plain(raw.options),
        disks: raw.disk_util.into_iter().map(|disk| disk.name).filter(|name| !name.is_empty()).collect(),
        jobs: raw.jobs.into_iter().map(job).collect::<Result<_, _>>()?,
    })
}

fn plain(options: BTreeMap<String, Value>) -> BTreeMap<String, String> {
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    options.into_iter().map(|(name, value)| (name, text(value))).collect()
}

fn job(raw: RawJob) -> Result<Job, String> {
    let mut directions = Vec::new();
    for (name, part) in [("read", raw.read), ("write", raw.write), ("trim", raw.trim)] {
        let Some(part) = part.filter(|part| part.total_ios > 0.0 || part.io_bytes > 0.0) else { continue };
        directions.push(direction(name, part).map_err(|problem| format!("job '{}', {name}: {problem}", raw.jobname))?);
    }
    Ok(Job { name: raw.jobname, error: raw.error, options: plain(raw.options), directions })
}

fn direction(name: &'static str, raw: RawDirection) -> Result<Direction, String> {
    let (Some(bandwidth), Some(latency)) = (raw.bw_bytes, raw.clat_ns) else {
        return Err("no bw_bytes or clat_ns; results of fio before version 3 are not read".into());
    };
    let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
    let total = raw.lat_ns.as_ref();
    let of_total = total.filter(|_| latency.percentile.is_empty()).unwrap_or(&latency);
    let mut percentiles: Vec<(f64, f64)> =
        of_total.percentile.iter().filter_map(|(percent, value)| Some((number(percent)?, *value))).collect();
    percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut bins: Vec<(u64, u64)> =
        latency.bins.iter().filter_map(|(value, count)| Some((value.parse().ok()?, *count))).collect();
    bins.sort_unstable();
    let latency_mean_ns = latency.mean;
    let total_mean_ns = total.map_or(latency.mean, |total| total.mean);
    let (iops, runtime_ms) = (raw.iops, raw.runtime);
    Ok(Direction { name, bandwidth, iops, runtime_ms, latency_mean_ns, total_mean_ns, percentiles, bins })
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
