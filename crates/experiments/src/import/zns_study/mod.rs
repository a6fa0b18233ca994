//! The raw files of the CLUSTER 2023 study on zoned drives, so that they go through the same analysis as our own runs.

mod files;
mod keys;
mod text;

use super::Importer;
use super::fio::format::{Direction, Output, parse};
use crate::zns::ZnsStudy;
use crate::zns::compare::{compare, group_table, groups, table};
use crate::zns::measure::{Measured, Values};
use files::{Found, walk};
use keys::{Place, operation_key, place};
use senesce_core::analysis::Table;
use senesce_core::{Analysis, Environment, Failure, Plan, Record, RunDirectory, RunKind, Seed};
use senesce_zoned::job::Latency;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

pub use text::{bandwidth_log, operations};

/// The importer, and the reader of its records.
pub struct ZnsStudyImport;

/// The experiments whose points an import may hold.
fn studies() -> [&'static dyn ZnsStudy; 10] {
    [
        &crate::zns_request_size::ZnsRequestSize,
        &crate::zns_intra_zone::ZnsIntraZone,
        &crate::zns_inter_zone::ZnsInterZone,
        &crate::zns_bandwidth::ZnsBandwidth,
        &crate::zns_reset::ZnsReset,
        &crate::zns_finish::ZnsFinish,
        &crate::zns_open_close::ZnsOpenClose,
        &crate::zns_read_interference::ZnsReadInterference,
        &crate::zns_heavy::ZnsHeavy,
        &crate::zns_reset_interference::ZnsResetInterference,
    ]
}

impl Importer for ZnsStudyImport {
    fn name(&self) -> &'static str {
        "zns-study"
    }

    fn about(&self) -> &'static str {
        "raw files of the CLUSTER 2023 study on zoned drives: a folder or a zip archive"
    }

    fn import(&self, source: &Path, out: &Path) -> Result<(), Failure> {
        let mut gathered = Gathered::default();
        walk(source, &mut |found| {
            gathered.take(found);
            Ok(())
        })?;
        let (points, operations) = (gathered.points.len(), gathered.operations.len());
        if points + operations == 0 {
            return Err(Failure::usage(format!(
                "{}: none of its {} files is a result of the study; fio results lie in \
                 ENGINE/DEVICE/FORMAT/OP/<bs>bs/<zones>zone/<qd>.json, others are lines of op,ns",
                source.display(),
                gathered.skipped.len()
            )));
        }
        let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sum = format!("{:08x}", gathered.checksum());
        let settings = BTreeMap::from([("source".to_string(), name.clone()), ("crc32".to_string(), sum)]);
        let mut facts = Environment::default();
        facts.put("zns.device.0", format!("imported from {name}"));
        let mut directory = RunDirectory::open(out, &Plan::new(self.kind(), Seed(0), settings), &facts)?;
        if directory.is_finished() {
            return Ok(());
        }
        gathered.record(&mut directory)?;
        let result = self.analyse(&Record::open(out)?)?.result;
        Ok(directory.finish(&result)?)
    }
}

/// What was found so far.
#[derive(Default)]
struct Gathered {
    points: BTreeMap<String, Values>,
    operations: BTreeMap<String, Latency>,
    zeros: usize,
    skipped: Vec<(String, String)>,
    read: Vec<String>,
    checksums: u32,
}

impl Gathered {
    fn checksum(&self) -> u32 {
        self.checksums
    }

    fn take(&mut self, found: Found) {
        let content = match found.content {
            Ok(content) => content,
            Err(problem) => return self.skipped.push((found.path, problem)),
        };
        self.checksums = self.checksums.rotate_left(1) ^ crc32fast::hash(&content);
        let Ok(text) = String::from_utf8(content) else {
            return self.skipped.push((found.path, "not text".into()));
        };
        let place = place(&found.path);
        match self.understand(&found.path, &place, &text) {
            Ok(()) => self.read.push(found.path),
            Err(problem) => self.skipped.push((found.path, problem)),
        }
    }

    fn understand(&mut self, path: &str, place: &Place, text: &str) -> Result<(), String> {
        if let (Place::Heavy(key) | Place::Rate(key), Some(log)) = (place, bandwidth_log(text)) {
            self.take_log(key, &log);
            return Ok(());
        }
        if text.trim_start().starts_with('{') || place != &Place::Other && text.contains("\"fio version\"") {
            let output = parse(text)?;
            return self.take_fio(place, &output);
        }
        let (operations, zeros) = operations(text).ok_or("neither fio JSON nor op,ns lines nor a bandwidth log")?;
        self.zeros += zeros;
        for (op, ns) in operations {
            self.operations.entry(operation_key(path, op)).or_default().record(ns);
        }
        Ok(())
    }

    fn take_fio(&mut self, place: &Place, output: &Output) -> Result<(), String> {
        let directions = |write: bool| -> Vec<&Direction> {
            let all = output.jobs.iter().flat_map(|job| &job.directions);
            all.filter(|direction| (direction.name == "write") == write).collect()
        };
        let (reads, writes) = (directions(false), directions(true));
        match place {
            Place::Grid(key) => {
                let all = if key.contains("read") { reads } else { writes };
                put(self.entry(key), "", &all).ok_or("it holds no I/O of the operation that its path names".into())
            }
            Place::Rate(key) | Place::Heavy(key) => {
                let read = put(self.entry(key), "", &reads);
                let written = put(self.entry(key), "writer_", &writes);
                read.or(written).ok_or("it holds neither reads nor writes".into())
            }
            Place::Other => Err("a result of fio whose path does not say what it is".into()),
        }
    }

    fn take_log(&mut self, key: &str, [reads, writes]: &[Vec<f64>; 2]) {
        let entry = self.entry(key);
        let series = if writes.is_empty() { reads } else { writes };
        if entry.by_second.len() < series.len() {
            entry.by_second.resize(series.len(), 0.0);
        }
        // One log per job: together they are the bandwidth of all.
        for (sum, value) in entry.by_second.iter_mut().zip(series) {
            *sum += value;
        }
    }

    fn entry(&mut self, key: &str) -> &mut Values {
        let empty = || Values { key: key.into(), values: BTreeMap::new(), by_second: Vec::new() };
        self.points.entry(key.into()).or_insert_with(empty)
    }

    fn record(&mut self, directory: &mut RunDirectory) -> Result<(), Failure> {
        for values in self.points.values() {
            directory.append("point", values)?;
        }
        for (key, latency) in &self.operations {
            directory.append("point", &Values::of_latency(key, latency))?;
        }
        for (path, why) in &self.skipped {
            directory.append("skipped", &json!({"path": path, "why": why}))?;
        }
        directory.append("imported", &json!({"files": self.read.len(), "zeros_dropped": self.zeros}))?;
        Ok(())
    }
}

/// Jobs of one file are one point: rates add up, latencies are weighted by operations; a percentile is that of the slowest job.
fn put(entry: &mut Values, prefix: &str, directions: &[&Direction]) -> Option<()> {
    let iops: f64 = directions.iter().map(|direction| direction.iops).sum();
    if directions.is_empty() || iops <= 0.0 {
        return None;
    }
    let mean: f64 = directions.iter().map(|direction| direction.total_mean_ns * direction.iops).sum::<f64>() / iops;
    let percentile = |wanted: f64| {
        let values = directions.iter().flat_map(|direction| &direction.percentiles);
        values
            .filter(|(percent, _)| (percent - wanted).abs() < 1e-6)
            .map(|(_, ns)| *ns)
            .fold(None, |most: Option<f64>, ns| Some(most.map_or(ns, |most| most.max(ns))))
    };
    let mut insert = |name: &str, value: f64| entry.values.insert(format!("{prefix}{name}"), value);
    insert("iops", iops);
    insert("bw_mib", directions.iter().map(|direction| direction.bandwidth).sum::<f64>() / 1_048_576.0);
    insert("lat_mean_us", mean / 1000.0);
    for (name, wanted) in [("lat_p50_us", 50.0), ("lat_p95_us", 95.0), ("lat_p99_us", 99.0)] {
        if let Some(ns) = percentile(wanted) {
            insert(name, ns / 1000.0);
        }
    }
    Some(())
}

impl RunKind for ZnsStudyImport {
    fn kind(&self) -> &'static str {
        "zns-study"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let measured = Measured::from_record(record);
        let mut analysis = Analysis {
            title: "Imported results of the ZNS study".into(),
            summary: "Raw files brought into the form of our own experiments, beside the published values.".into(),
            caveats: measured.caveats(),
            ..Analysis::default()
        };
        let mut all = Vec::new();
        for study in studies() {
            let comparison = compare(&measured, study.published())?;
            let findings = study.findings(&measured);
            let tested = findings.iter().any(|finding| finding.verdict != senesce_core::Verdict::NotTestable);
            if comparison.is_empty() && !tested {
                continue;
            }
            let rename = |mut figure: senesce_core::Figure| {
                figure.id = format!("{}-{}", study.id(), figure.id);
                figure
            };
            analysis.figures.extend(study.figures(&measured, &comparison).into_iter().map(rename));
            analysis.findings.extend(findings);
            all.extend(comparison);
        }
        let groups = groups(&all);
        analysis.tables = vec![group_table(&groups), table(&all, &measured), own_values(&measured), skipped(record)];
        analysis.result = json!({"points": measured.to_json(), "groups": groups, "comparison": all});
        Ok(analysis)
    }
}

fn own_values(measured: &Measured) -> Table {
    let columns = ["point", "1/s", "MiB/s", "mean (us)", "p95 (us)"];
    let mut table = Table::new("points", "All imported points", &columns);
    for values in measured.all() {
        let get = |name: &str| values.values.get(name).map_or(Value::Null, |value| json!(value));
        table.row(vec![json!(values.key), get("iops"), get("bw_mib"), get("lat_mean_us"), get("lat_p95_us")]);
    }
    table
}

fn skipped(record: &Record) -> Table {
    let mut table = Table::new("skipped", "Files that are no results of the study", &["file", "why"]);
    for event in record.events_of::<Value>("skipped") {
        table.row(vec![event["path"].clone(), event["why"].clone()]);
    }
    table
}

#[cfg(test)]
mod tests;
