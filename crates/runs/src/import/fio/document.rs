//! The JSON document of fio, as in the file.

use crate::import::printable;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::str::FromStr;

#[derive(Deserialize)]
pub struct RawOutput {
    #[serde(rename = "fio version")]
    pub version: String,
    #[serde(default)]
    pub time: String,
    pub timestamp: Option<u64>,
    /// Options by name; with several clients, one map for each client.
    #[serde(rename = "global options", default)]
    pub options: Value,
    #[serde(default)]
    pub disk_util: Vec<Value>,
    #[serde(default)]
    pub jobs: Vec<RawJob>,
    #[serde(default)]
    pub client_stats: Vec<RawJob>,
}

#[derive(Deserialize)]
pub struct RawJob {
    /// Empty: jobs with `stats=0`, of which fio shows nothing.
    #[serde(default)]
    pub jobname: String,
    pub hostname: Option<String>,
    pub groupid: Option<i64>,
    #[serde(default)]
    pub error: i64,
    #[serde(default)]
    pub total_err: u64,
    pub job_runtime: Option<f64>,
    #[serde(rename = "job options", default)]
    pub options: BTreeMap<String, Value>,
    /// Its directions, and other sections.
    #[serde(flatten)]
    pub sections: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
pub struct RawDirection {
    pub total_ios: Option<f64>,
    pub io_bytes: Option<f64>,
    pub io_kbytes: Option<f64>,
    pub bw_bytes: Option<f64>,
    /// KiB per second; before fio 3.2 the only byte rate.
    pub bw: Option<f64>,
    pub iops: Option<f64>,
    pub runtime: Option<f64>,
    #[serde(default)]
    pub short_ios: f64,
    #[serde(default)]
    pub drop_ios: f64,
    pub slat_ns: Option<RawLatency>,
    pub clat_ns: Option<RawLatency>,
    pub lat_ns: Option<RawLatency>,
}

impl RawDirection {
    pub fn latencies(&self) -> impl Iterator<Item = (&'static str, &RawLatency)> {
        let all = [("slat_ns", &self.slat_ns), ("clat_ns", &self.clat_ns), ("lat_ns", &self.lat_ns)];
        all.into_iter().filter_map(|(name, one)| Some((name, one.as_ref()?)))
    }
}

#[derive(Clone, Deserialize)]
pub struct RawLatency {
    #[serde(rename = "N")]
    pub samples: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    #[serde(default)]
    pub mean: f64,
    pub stddev: Option<f64>,
    /// Percent and nanoseconds, rising.
    #[serde(default, deserialize_with = "rising")]
    pub percentile: Vec<(f64, f64)>,
    /// Nanoseconds and count, rising.
    #[serde(default, deserialize_with = "rising")]
    pub bins: Vec<(u64, u64)>,
}

/// Reads an object with numbers as keys.
fn rising<'de, D, K, V>(source: D) -> Result<Vec<(K, V)>, D::Error>
where
    D: Deserializer<'de>,
    K: FromStr + PartialOrd,
    V: Deserialize<'de>,
{
    let number = |(key, value): (String, V)| match key.parse::<K>() {
        Ok(key) => Ok((key, value)),
        Err(_) => Err(D::Error::custom(format!("'{}' is not a number", printable(&key)))),
    };
    let mut all = BTreeMap::deserialize(source)?.into_iter().map(number).collect::<Result<Vec<_>, _>>()?;
    all.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
    Ok(all)
}

impl RawLatency {
    /// Returns whether it has samples. Older versions of fio do not report their number, but no latency is 0.
    pub fn measured(&self) -> bool {
        let stated = || self.mean > 0.0 || self.percentile.iter().any(|step| step.1 > 0.0);
        self.samples.map_or_else(stated, |samples| samples > 0.0)
    }
}

const MOST_MESSAGES: usize = 10;

pub fn last_document(text: &str) -> Result<(RawOutput, Vec<String>), String> {
    let start = text.find('{').ok_or("no JSON in it; run fio with --output-format=json or json+")?;
    let (mut rest, mut next, mut caveats) = (text, Some(start), Vec::new());
    let (mut last, mut complete, mut cut) = (None, 0, "");
    // Other text may lie between: warnings, or the normal output of `--output-format=json,normal`.
    while let Some(at) = next {
        caveats.extend(messages(&rest[..at]));
        rest = &rest[at..];
        let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<RawOutput>();
        match documents.next() {
            Some(Err(error)) if error.is_eof() && complete > 0 => {
                (cut, rest) = ("; another one after it is cut off", "");
                break;
            }
            Some(Err(error)) => return Err(no_result(rest, &error)),
            Some(Ok(raw)) => {
                check_continues(last.as_ref().unwrap_or(&raw), &raw)?;
                (last, complete) = (Some(raw), complete + 1);
            }
            None => {}
        }
        rest = rest[documents.byte_offset()..].trim_start();
        next = if rest.starts_with('{') { Some(0) } else { rest.find("\n{").map(|at| at + 1) };
    }
    caveats.extend(messages(rest));
    if complete > 1 || !cut.is_empty() {
        caveats
            .push(format!("the file holds {complete} complete results (--status-interval): the last one counts{cut}"));
    }
    caveats.truncate(MOST_MESSAGES);
    Ok((last.ok_or("empty")?, caveats))
}

fn messages(text: &str) -> impl Iterator<Item = String> {
    let warns = |line: &&str| {
        let line = line.to_lowercase();
        ["warning", "error", "verify:", "failed"].iter().any(|word| line.contains(word))
    };
    text.lines().filter(warns).take(MOST_MESSAGES).map(|line| format!("fio printed: {}", printable(line.trim())))
}

/// Results of one run (`--status-interval`) have the same jobs, whose counts never decrease.
fn check_continues(before: &RawOutput, after: &RawOutput) -> Result<(), String> {
    fn names(raw: &RawOutput) -> impl Iterator<Item = &str> {
        raw.jobs.iter().chain(&raw.client_stats).map(|job| &*job.jobname)
    }
    let done = |section: &Value| section.get("total_ios").and_then(Value::as_f64).unwrap_or(0.0);
    let falls = |(before, after): (&RawJob, &RawJob)| {
        before.sections.iter().any(|(name, section)| done(section) > after.sections.get(name).map_or(0.0, done))
    };
    match names(before).ne(names(after)) || before.jobs.iter().zip(&after.jobs).any(falls) {
        true => Err("it holds results of several runs; import each separately".into()),
        false => Ok(()),
    }
}

/// Describes the problem of a document. fio writes `nan`, which is not JSON.
fn no_result(text: &str, error: &serde_json::Error) -> String {
    let before: Vec<&str> = text.lines().take(error.line()).collect();
    let after = |line: &str, key: &str| Some(line.rsplit_once(key)?.1.trim_matches([' ', ':', ',', '"']).to_string());
    let job = before.iter().rev().find_map(|line| after(line, "\"jobname\""));
    let field = before.last().map_or("", |line| line.trim().trim_end_matches(','));
    let value = field.rsplit(':').next().unwrap_or_default().trim().trim_start_matches('-').to_lowercase();
    let Some(job) = job.filter(|_| ["nan", "inf"].contains(&value.as_str())) else {
        return format!("not a result of fio: {error}");
    };
    let sections = ["clat_ns", "lat_ns", "slat_ns"];
    let opens = before.iter().rev().find(|line| line.trim().ends_with('{'));
    let part = opens.and_then(|line| sections.into_iter().find(|name| line.contains(&format!("\"{name}\""))));
    let (job, field, part) = (printable(&job), printable(field), part.unwrap_or("a field"));
    format!("line {}: job '{job}', {part}, {field}: this is not a number; measure again", error.line())
}
