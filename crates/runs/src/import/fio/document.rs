//! The JSON document of fio, as in the file.

use crate::import::printable;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
pub struct RawOutput {
    #[serde(rename = "fio version")]
    pub version: String,
    #[serde(default)]
    pub time: String,
    pub timestamp: Option<u64>,
    /// Of several clients, one map for each.
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
    pub read: Option<RawDirection>,
    pub write: Option<RawDirection>,
    pub trim: Option<RawDirection>,
    pub mixed: Option<RawDirection>,
    pub sync: Option<RawDirection>,
    pub steadystate: Option<RawSteadyState>,
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
pub struct RawSteadyState {
    #[serde(default)]
    pub ss: String,
    pub attained: Option<i64>,
}

#[derive(Deserialize, Default)]
pub struct RawDirection {
    pub total_ios: Option<f64>,
    pub io_bytes: Option<f64>,
    pub io_kbytes: Option<f64>,
    pub bw_bytes: Option<f64>,
    /// KiB per second; before fio 3.2 the only rate of bytes.
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

    pub fn did_something(&self) -> bool {
        [self.total_ios, self.io_bytes].into_iter().any(|count| count.is_some_and(|count| count != 0.0))
    }
}

#[derive(Deserialize)]
pub struct RawLatency {
    #[serde(rename = "N")]
    pub samples: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    #[serde(default)]
    pub mean: f64,
    pub stddev: Option<f64>,
    #[serde(default)]
    pub percentile: BTreeMap<String, f64>,
    #[serde(default)]
    pub bins: BTreeMap<String, u64>,
}

impl RawLatency {
    /// Whether it has samples. Older versions of fio do not report their number, but no latency is 0.
    pub fn measured(&self) -> bool {
        let stated = || self.mean > 0.0 || self.percentile.values().any(|value| *value > 0.0);
        self.samples.map_or_else(stated, |samples| samples > 0.0)
    }
}

const MOST_MESSAGES: usize = 10;

pub fn last_document(text: &str) -> Result<(RawOutput, Vec<String>), String> {
    let start = text.find('{').ok_or("no JSON in it; run fio with --output-format=json or json+")?;
    let (mut rest, mut last, mut complete, mut cut) = (&text[start..], None::<RawOutput>, 0, "");
    let mut caveats = messages(&text[..start]);
    loop {
        let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<RawOutput>();
        match documents.next() {
            Some(Ok(raw)) => {
                last.as_ref().map_or(Ok(()), |before| check_continues(before, &raw))?;
                (last, complete, rest) = (Some(raw), complete + 1, &rest[documents.byte_offset()..]);
            }
            Some(Err(error)) if error.is_eof() && complete > 0 => cut = "; another one after it is cut off",
            Some(Err(error)) => return Err(no_result(rest, &error)),
            None => {}
        }
        if !cut.is_empty() {
            break;
        }
        // Other text may lie between: warnings, or the normal output of `--output-format=json,normal`.
        let next = rest.trim_start();
        let at = if next.starts_with('{') { Some(0) } else { next.find("\n{").map(|at| at + 1) };
        caveats.extend(messages(&next[..at.unwrap_or(next.len())]));
        match at {
            Some(at) => rest = &next[at..],
            None => break,
        }
    }
    if complete > 1 || !cut.is_empty() {
        caveats
            .push(format!("the file holds {complete} complete results (--status-interval): the last one counts{cut}"));
    }
    caveats.truncate(MOST_MESSAGES);
    Ok((last.ok_or("empty")?, caveats))
}

fn messages(text: &str) -> Vec<String> {
    let warns = |line: &&str| {
        let line = line.to_lowercase();
        ["warning", "error", "verify:", "failed"].iter().any(|word| line.contains(word))
    };
    text.lines()
        .filter(warns)
        .take(MOST_MESSAGES)
        .map(|line| format!("fio printed: {}", printable(line.trim())))
        .collect()
}

/// Results of one run (`--status-interval`) have the same jobs, whose counts never decrease.
fn check_continues(before: &RawOutput, after: &RawOutput) -> Result<(), String> {
    let name =
        |raw: &RawOutput| raw.jobs.iter().chain(&raw.client_stats).map(|job| job.jobname.clone()).collect::<Vec<_>>();
    let done = |raw: &RawOutput| {
        let sections = |job: &RawJob| {
            let all = [&job.read, &job.write, &job.trim, &job.mixed];
            all.map(|part| part.as_ref().and_then(|part| part.total_ios).unwrap_or(0.0))
        };
        raw.jobs.iter().flat_map(sections).collect::<Vec<_>>()
    };
    let falls = || done(before).iter().zip(done(after)).any(|(before, after)| after < *before);
    match name(before) != name(after) || falls() {
        true => Err("it holds results of several runs; import each separately".into()),
        false => Ok(()),
    }
}

/// The problem of a document. fio writes `nan`, which is not JSON.
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
