//! The raw files of the CLUSTER 2023 study on zoned drives, so that they go through the same analysis as our own runs.

mod files;
mod keys;
mod text;

use crate::zns::ZnsStudy;
use crate::zns::compare::{Comparison, compare, group_table, groups, table};
use crate::zns::measure::{Measured, Values};
use files::{Found, walk};
use keys::{StudyFile, operation_key, place};
use senesce_core::analysis::Table;
use senesce_core::{Analysis, Environment, Failure, Figure, Finding, Seed};
use senesce_runs::import::Importer;
use senesce_runs::import::fio::format::{Direction, Output, parse};
use senesce_runs::run::{Context, Imported, Planned, Recorded, Run, import, only_imported};
use senesce_zoned::job::Latency;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

pub use text::{bandwidth_log, operations};

/// The importer, and the reader of its records.
pub struct ZnsStudyImport;

/// What an experiment makes of points, whoever measured them.
struct Study {
    id: &'static str,
    published: &'static str,
    findings: fn(&Measured) -> Vec<Finding>,
    figures: fn(&Measured, &[Comparison]) -> Vec<Figure>,
}

const fn study<S: ZnsStudy>() -> Study {
    Study { id: S::ID, published: S::PUBLISHED, findings: S::findings, figures: S::figures }
}

/// The experiments whose points an import may hold.
const STUDIES: [Study; 10] = [
    study::<crate::zns_request_size::ZnsRequestSize>(),
    study::<crate::zns_intra_zone::ZnsIntraZone>(),
    study::<crate::zns_inter_zone::ZnsInterZone>(),
    study::<crate::zns_bandwidth::ZnsBandwidth>(),
    study::<crate::zns_reset::ZnsReset>(),
    study::<crate::zns_finish::ZnsFinish>(),
    study::<crate::zns_open_close::ZnsOpenClose>(),
    study::<crate::zns_read_interference::ZnsReadInterference>(),
    study::<crate::zns_heavy::ZnsHeavy>(),
    study::<crate::zns_reset_interference::ZnsResetInterference>(),
];

/// What tells one import from another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name of the folder or archive.
    pub source: String,
    /// Checksum over all files.
    pub crc32: String,
}

/// What was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "kebab-case")]
pub enum Event {
    /// The values of one key.
    Point(Values),
    /// A file that is no result of the study.
    Skipped {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// What was read.
    Imported {
        /// Files.
        files: usize,
        /// Operations without a duration, which were dropped.
        zeros_dropped: usize,
    },
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
        let mut environment = Environment::default();
        environment.put("zns.device.0", format!("imported from {name}"));
        let spec = Spec { source: name, crc32: sum };
        import::<Self>(
            out,
            Imported { spec, environment, events: gathered.events(), measurements: Vec::new(), caveats: Vec::new() },
        )
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

    fn understand(&mut self, path: &str, place: &StudyFile, text: &str) -> Result<(), String> {
        if let (StudyFile::Heavy(key) | StudyFile::Rate(key), Some(log)) = (place, bandwidth_log(text)) {
            self.take_log(key, &log);
            return Ok(());
        }
        if text.trim_start().starts_with('{') || place != &StudyFile::Other && text.contains("\"fio version\"") {
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

    fn take_fio(&mut self, place: &StudyFile, output: &Output) -> Result<(), String> {
        let directions = |write: bool| -> Vec<&Direction> {
            let all = output.jobs.iter().flat_map(|job| &job.directions);
            // A mixed one is neither.
            all.filter(|direction| direction.name != "mixed" && (direction.name == "write") == write).collect()
        };
        let (reads, writes) = (directions(false), directions(true));
        match place {
            StudyFile::Grid(key) => {
                let all = if key.contains("read") { reads } else { writes };
                put(self.entry(key), "", &all).ok_or("it holds no I/O of the operation that its path names".into())
            }
            StudyFile::Rate(key) | StudyFile::Heavy(key) => {
                let read = put(self.entry(key), "", &reads);
                let written = put(self.entry(key), "writer_", &writes);
                read.or(written).ok_or("it holds neither reads nor writes".into())
            }
            StudyFile::Other => Err("a result of fio whose path does not say what it is".into()),
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

    fn events(self) -> Vec<Event> {
        let mut events: Vec<Event> = self.points.into_values().map(Event::Point).collect();
        let timed = self.operations.iter().map(|(key, latency)| Event::Point(Values::of_latency(key, latency)));
        events.extend(timed);
        events.extend(self.skipped.into_iter().map(|(path, why)| Event::Skipped { path, why }));
        events.push(Event::Imported { files: self.read.len(), zeros_dropped: self.zeros });
        events
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

impl Run for ZnsStudyImport {
    const KIND: &'static str = "zns-study";
    type Spec = Spec;
    type Event = Event;
    type Step = ();

    fn steps(_spec: &Spec, _seed: Seed) -> Result<Vec<Planned<()>>, Failure> {
        Err(only_imported(Self::KIND))
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Err(only_imported(Self::KIND))
    }

    fn step(&mut self, _spec: &Spec, _step: &(), _context: &mut Context<'_, Self>) -> Result<(), Failure> {
        Err(only_imported(Self::KIND))
    }

    fn analyse(_spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let points = recorded.events().filter_map(|event| match event {
            Event::Point(values) => Some(values),
            _ => None,
        });
        let measured = Measured::of(&recorded.environment, points, std::iter::empty());
        let mut analysis = Analysis {
            title: "Imported results of the ZNS study".into(),
            summary: "Raw files brought into the form of our own experiments, beside the published values.".into(),
            caveats: measured.caveats(),
            ..Analysis::default()
        };
        let mut all = Vec::new();
        for study in STUDIES {
            let comparison = compare(&measured, study.published)?;
            let findings = (study.findings)(&measured);
            let tested = findings.iter().any(|finding| finding.verdict != senesce_core::Verdict::NotTestable);
            if comparison.is_empty() && !tested {
                continue;
            }
            let rename = |mut figure: senesce_core::Figure| {
                figure.id = format!("{}-{}", study.id, figure.id);
                figure
            };
            analysis.figures.extend((study.figures)(&measured, &comparison).into_iter().map(rename));
            analysis.findings.extend(findings);
            all.extend(comparison);
        }
        let groups = groups(&all);
        analysis.tables = vec![group_table(&groups), table(&all, &measured), own_values(&measured), skipped(recorded)];
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

fn skipped(recorded: &Recorded<ZnsStudyImport>) -> Table {
    let mut table = Table::new("skipped", "Files that are no results of the study", &["file", "why"]);
    for event in recorded.events() {
        if let Event::Skipped { path, why } = event {
            table.row(vec![json!(path), json!(why)]);
        }
    }
    table
}

#[cfg(test)]
mod tests;
