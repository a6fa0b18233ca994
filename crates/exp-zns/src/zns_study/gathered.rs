//! Gathers the contents of a tree's files by device and point.

use super::Event;
use super::agreement::{check, check_single};
use super::files::ArtifactFile;
use super::keys::{FileContent, PublishedFile, operation_key, place, printable, word};
use super::text::{BySecond, bandwidth_log, operations};
use crate::zns::values::Values;
use crate::zns_rocksdb::output::{percentiles, throughput};
use senesce_core::failure::errno_message;
use senesce_runs::import::fio::format::{Direction, Output, parse};
use senesce_zoned::job::Latency;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

type Digest = (usize, u64);

type Key = (String, String, u32);

/// One run of a point: the files of one folder, a result and the logs of its jobs. Either may be missing.
struct Run {
    folder: String,
    result: Option<String>,
    logs: Option<String>,
}

#[derive(Default)]
pub(crate) struct GatheredTree {
    points: BTreeMap<Key, Values>,
    operations: BTreeMap<Key, Latency>,
    logs: BTreeMap<Key, Vec<[BySecond; 2]>>,
    runs: BTreeMap<(String, String), Vec<Run>>,
    /// Paths of the files read, by device, condition and content.
    known: BTreeMap<(String, String, Digest), String>,
    zeros: usize,
    other_lines: usize,
    pub skipped: Vec<(String, String)>,
    read: Vec<String>,
    /// Results of fio and db_bench, including unusable ones.
    pub results: usize,
    pub checksum: u32,
}

impl GatheredTree {
    pub(crate) fn take(&mut self, found: ArtifactFile) {
        let found = ArtifactFile { path: printable(&found.path), ..found };
        let content = match found.content {
            Ok(content) => content,
            Err(problem) => return self.skipped.push((found.path, problem)),
        };
        self.checksum = self.checksum.rotate_left(1) ^ crc32fast::hash(&content);
        let Ok(text) = String::from_utf8(content) else {
            return self.skipped.push((found.path, "not text".into()));
        };
        match self.understand(&found.path, &text) {
            Ok(()) => self.read.push(found.path),
            Err(problem) => self.skipped.push((found.path, problem)),
        }
    }

    fn understand(&mut self, path: &str, text: &str) -> Result<(), String> {
        if text.trim().is_empty() {
            return Err("it is empty".into());
        }
        let place = place(path);
        if let FileContent::Database(run) = place.kind {
            self.results += 1;
            return self.take_database(&place, run, text);
        }
        if !place.key.starts_with("file=") {
            self.refuse_copy(path, &place, text)?;
        }
        if let (FileContent::Beside, Some(log)) = (place.kind, bandwidth_log(text)) {
            self.take_log(path, &place, log);
            return Ok(());
        }
        if text.contains("\"fio version\"") {
            self.results += 1;
            return self.take_fio(path, &place, &parse(text)?);
        }
        let operations = operations(text).ok_or_else(|| description(path, text))?;
        self.refuse_copy(path, &place, text)?;
        if operations.is_cut {
            let why = "its last line is cut off and was not read; the others were";
            self.skipped.push((path.to_string(), why.into()));
        }
        self.zeros += operations.zeros;
        self.other_lines += operations.other_lines;
        for (op, ns) in operations.timed {
            let key = (place.device.clone(), operation_key(path, op), 0);
            self.operations.entry(key).or_default().record(ns);
        }
        Ok(())
    }

    /// Refuses a copy of a file, which is not a repetition. The artifacts contain some files twice, also unpacked next
    /// to their archive.
    fn refuse_copy(&mut self, path: &str, place: &PublishedFile, text: &str) -> Result<(), String> {
        let name = path.rsplit('/').next().unwrap_or(path);
        // If the path is the key, copies in different folders must still be recognized.
        let key = if place.key.starts_with("file=") { "" } else { place.key.as_str() };
        let words = format!("{key}/{name}");
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let digest = (text.len(), hasher.finish());
        match self.known.entry((place.device.clone(), words, digest)) {
            Entry::Vacant(entry) => {
                entry.insert(path.to_string());
                Ok(())
            }
            Entry::Occupied(entry) if entry.get() == path => Ok(()),
            Entry::Occupied(entry) => Err(format!("a copy of {}: the same bytes", entry.get())),
        }
    }

    fn take_fio(&mut self, path: &str, place: &PublishedFile, output: &Output) -> Result<(), String> {
        let sound = || output.jobs.iter().filter(|job| job.error == 0);
        if let (None, Some(job)) = (sound().next(), output.jobs.first()) {
            let words = errno_message(&std::io::Error::from_raw_os_error(job.error as i32));
            return Err(format!("its jobs ended with an error: {words}"));
        }
        for job in output.jobs.iter().filter(|job| job.error != 0) {
            let words = errno_message(&std::io::Error::from_raw_os_error(job.error as i32));
            let why =
                format!("its job {} ended with an error: {words}; its other jobs were read", printable(&job.name));
            self.skipped.push((path.to_string(), why));
        }
        check(place, output)?;
        // A mixed job is neither.
        let of = |wanted: &dyn Fn(&str) -> bool| -> Vec<&Direction> {
            let all = sound().flat_map(|job| &job.directions);
            all.filter(|direction| direction.name != "mixed" && wanted(direction.name)).collect()
        };
        match place.kind {
            FileContent::Grid => {
                let reads = place.key.contains("read");
                let all = of(&|name| name == if reads { "read" } else { "write" });
                place.stated.map_or(Ok(()), |stated| check_single(stated, &all))?;
                put(self.entry(path, place, ""), "", &all)
                    .ok_or("it contains no I/O of the operation that its path names".into())
            }
            FileContent::Beside => {
                let entry = self.entry(path, place, "");
                let read = put(entry, "", &of(&|name| name == "read"));
                let written = put(entry, "writer_", &of(&|name| name == "write"));
                read.or(written).ok_or("it contains neither reads nor writes".into())
            }
            _ => {
                let mut named: BTreeMap<String, Vec<&Direction>> = BTreeMap::new();
                for job in sound() {
                    for direction in &job.directions {
                        let key = format!(",job={},does={}", word(&job.name), direction.name);
                        named.entry(key).or_default().push(direction);
                    }
                }
                let mut found = 0;
                for (key, directions) in &named {
                    found += usize::from(put(self.entry(path, place, key), "", directions).is_some());
                }
                if found == 0 { Err("its jobs did no I/O".into()) } else { Ok(()) }
            }
        }
    }

    fn take_database(&mut self, place: &PublishedFile, run: u32, text: &str) -> Result<(), String> {
        let (_, benchmark) = place.key.rsplit_once(' ').unwrap_or_default();
        let name = benchmark.trim_end_matches("-limited");
        let rate = throughput(text, name)
            .ok_or_else(|| format!("db_bench printed no result of {name}: it did not complete"))?;
        let key = (place.device.clone(), place.key.clone(), run);
        let entry = self.points.entry(key).or_insert_with(|| Values::of(&place.key));
        entry.values.insert("operations per second".into(), rate.ops_per_second);
        for (what, histogram) in [("read", "rocksdb.db.get.micros"), ("write", "rocksdb.db.write.micros")] {
            let Some(found) = percentiles(text, histogram) else { continue };
            entry.values.insert(format!("{what} latency p50"), found.p50_us);
            entry.values.insert(format!("{what} latency p99"), found.p99_us);
        }
        Ok(())
    }

    fn take_log(&mut self, path: &str, place: &PublishedFile, log: [BySecond; 2]) {
        // NAME.JOB.log
        let stem = path.strip_suffix(".log").unwrap_or(path);
        let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
        let key = self.run_of(path, place, "", |run| match &run.logs {
            Some(known) => known == stem,
            None => {
                run.logs = Some(stem.to_string());
                true
            }
        });
        self.points.entry(key.clone()).or_insert_with(|| Values::of(&key.1));
        self.logs.entry(key).or_default().push(log);
    }

    fn entry(&mut self, path: &str, place: &PublishedFile, more: &str) -> &mut Values {
        let key = self.run_of(path, place, more, |run| run.result.get_or_insert_with(|| path.to_string()) == path);
        let values = Values::of(&key.1);
        self.points.entry(key).or_insert(values)
    }

    /// Returns the run of a file: the first run of its folder that `takes` it, or a new repetition.
    fn run_of(&mut self, path: &str, place: &PublishedFile, more: &str, takes: impl Fn(&mut Run) -> bool) -> Key {
        let words = format!("{}{more}", place.key);
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let runs = self.runs.entry((place.device.clone(), words.clone())).or_default();
        let at = runs.iter_mut().position(|run| run.folder == folder && takes(run)).unwrap_or_else(|| {
            let mut run = Run { folder: folder.to_string(), result: None, logs: None };
            takes(&mut run);
            runs.push(run);
            runs.len() - 1
        });
        (place.device.clone(), words, at as u32)
    }

    pub(crate) fn events(mut self) -> Vec<Event> {
        for (key, logs) in &self.logs {
            if let Some(values) = self.points.get_mut(key) {
                values.by_second = together(logs);
            }
        }
        let points = self.points.into_iter().filter(|(_, values)| values.values.len() + values.by_second.len() > 0);
        let placed = |((device, _, repetition), values)| Event::Point(Values { device, repetition, ..values });
        let mut events: Vec<Event> = points.map(placed).collect();
        let timed = self.operations.iter().map(|((device, key, _), latency)| {
            Event::Point(Values { device: device.clone(), ..Values::of_latency(key, latency) })
        });
        events.extend(timed);
        events.extend(self.skipped.into_iter().map(|(path, why)| Event::Skipped { path, why }));
        events.push(Event::Imported {
            files: self.read.len(),
            zeros_dropped: self.zeros,
            other_lines: self.other_lines,
        });
        events
    }
}

/// Combines one log per job: the bandwidth of all writers, or of all readers if nothing is written, in the seconds that
/// every log covers.
fn together(logs: &[[BySecond; 2]]) -> Vec<f64> {
    let of = |direction: usize| logs.iter().map(move |log| &log[direction]).filter(|log| !log.is_empty());
    let direction = usize::from(of(1).next().is_some());
    let mut all = of(direction);
    let Some(first) = all.next() else { return Vec::new() };
    let others: Vec<&BySecond> = all.collect();
    let sum = |(second, value): (&u64, &f64)| others.iter().try_fold(*value, |sum, log| Some(sum + log.get(second)?));
    first.iter().filter_map(sum).collect()
}

fn description(path: &str, text: &str) -> String {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let known = match ending {
        "py" | "sh" | "c" | "h" | "bt" | "ipynb" => "a program, not a result",
        "md" | "rst" => "documentation",
        "fio" => "a job file of fio, not a result",
        _ if text.contains("[global]") || text.trim_start().starts_with('[') && text.contains("\nrw=") => {
            "a job file of fio, not a result"
        }
        _ if text.contains("clat") || path.contains("lat.") => {
            "a log of individual latencies; the result of the same run has their distribution"
        }
        _ if operations(&format!("{text}\n")).is_some() => "its only line is incomplete",
        _ => "neither fio JSON nor op,ns lines nor a bandwidth log nor output of db_bench",
    };
    known.into()
}

/// Combines the jobs of one file: rates add up, latencies are weighted by operations, and a percentile is that of the
/// slowest job.
fn put(entry: &mut Values, prefix: &str, directions: &[&Direction]) -> Option<()> {
    let iops: f64 = directions.iter().map(|direction| direction.iops).sum();
    if directions.is_empty() || iops <= 0.0 {
        return None;
    }
    let sum = directions.iter().map(|direction| Some(direction.total_mean_ns? * direction.iops)).sum::<Option<f64>>();
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
    if let Some(sum) = sum {
        insert("lat_mean_us", sum / iops / 1000.0);
    }
    for (name, wanted) in [("lat_p50_us", 50.0), ("lat_p95_us", 95.0), ("lat_p99_us", 99.0)] {
        if let Some(ns) = percentile(wanted) {
            insert(name, ns / 1000.0);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_missing_in_one_job_is_omitted() {
        let log = |seconds: &[u64]| seconds.iter().map(|second| (*second, 2.0)).collect::<BySecond>();
        let writes = |seconds: &[u64]| [BySecond::new(), log(seconds)];
        let reads = |seconds: &[u64]| [log(seconds), BySecond::new()];
        assert_eq!(together(&[writes(&[0, 1, 2]), writes(&[0, 2, 3])]), [4.0, 4.0]);
        assert_eq!(together(&[writes(&[0, 2])]), [2.0, 2.0]);
        assert_eq!(together(&[writes(&[0, 1]), reads(&[0, 1])]), [2.0, 2.0], "reads are not added to writes");
        assert_eq!(together(&[reads(&[0])]), [2.0]);
    }
}
