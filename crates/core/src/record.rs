//! The run directory: append-only while running, readable anywhere afterwards.
//!
//! `plan.toml`, `env.json`, `events.jsonl`, `histograms/NAME.hdr`, `summary.json` (present once the run is complete),
//! `log`, `lock`. A line of `events.jsonl` is `{"crc":"XXXXXXXX","event":BODY}` where the sum is CRC-32 (IEEE) of the
//! bytes of BODY and BODY is `{"t":SECONDS,"kind":NAME,"data":...}`. Events that count together or not at all (those of a step)
//! have `"more":true` in BODY, but for the last of them. A torn last line is dropped, as after `kill -9`, and so are last lines to
//! which more belong.

mod error;
mod lines;
mod overview;

pub use error::RecordError;
pub use overview::Overview;

use crate::environment::Environment;
use crate::input;
use crate::output::NewFile;
use crate::plan::Plan;
use error::io_error;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use lines::{line, read_events, tagged_lines};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Version of the run directory's format, in the file `format`.
pub const FORMAT: u32 = 2;

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds since the process began this (part of the) run.
    pub t: f64,
    /// What it is ("sample", "cell", "warning", "interrupted", ...).
    pub kind: String,
    /// Its data; null for an event that is only a word.
    #[serde(default)]
    pub data: Value,
}

/// The lock of a run directory.
#[derive(Debug)]
pub struct Held {
    _lock: File,
}

/// A run directory open for writing; holds its lock.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    events: File,
    started: Instant,
    earlier: Vec<Event>,
    finished: bool,
    _lock: File,
}

impl RunDirectory {
    /// Opens `path` for `plan`: a new directory is begun, one with the same plan is continued (or found finished), one
    /// with another plan is refused.
    pub fn open(path: &Path, plan: &Plan, environment: &Environment) -> Result<Self, RecordError> {
        refuse_foreign(path)?;
        let histograms = path.join("histograms");
        fs::create_dir_all(&histograms).map_err(io_error("make run directory", path))?;
        let lock = lock(path)?;
        refuse_foreign(path)?;
        if path.join("plan.toml").exists() {
            let record = Record::open(path)?;
            let differences = record.plan.differences(plan);
            if !differences.is_empty() {
                return Err(RecordError::OtherPlan { path: path.into(), differences: differences.join("; ") });
            }
            return Self::reopen(path, lock, record);
        }
        write_atomically(&path.join("format"), FORMAT.to_string().as_bytes())?;
        write_atomically(&path.join("env.json"), &pretty(environment))?;
        let text = toml::to_string_pretty(plan).expect("a plan is always valid TOML");
        write_atomically(&path.join("plan.toml"), text.as_bytes())?;
        let events = open_events(path)?;
        Ok(Self {
            path: path.into(),
            events,
            started: Instant::now(),
            earlier: Vec::new(),
            finished: false,
            _lock: lock,
        })
    }

    /// Takes the lock of an existing run without changing anything; whoever holds it is the only one who does.
    ///
    /// # Errors
    /// When another process runs it, or `path` cannot be written.
    pub fn hold(path: &Path) -> Result<Held, RecordError> {
        Ok(Held { _lock: lock(path)? })
    }

    /// Opens an existing run to continue it, whatever its plan.
    pub fn resume(path: &Path) -> Result<Self, RecordError> {
        let record = Record::open(path)?;
        let lock = lock(path)?;
        Self::reopen(path, lock, record)
    }

    fn reopen(path: &Path, lock: File, record: Record) -> Result<Self, RecordError> {
        let valid_bytes = record.valid_event_bytes;
        let events = open_events(path)?;
        events.set_len(valid_bytes).map_err(io_error("drop the torn last line of", &path.join("events.jsonl")))?;
        let finished = record.summary.is_some();
        Ok(Self { path: path.into(), events, started: Instant::now(), earlier: record.events, finished, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Events of earlier, interrupted parts of this run.
    pub fn earlier_events(&self) -> &[Event] {
        &self.earlier
    }

    /// Whether the run is complete already.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Appends one event. It reaches the kernel at once, so `kill -9` loses at most the event being written.
    pub fn append(&mut self, kind: &str, data: &impl Serialize) -> Result<(), RecordError> {
        self.write(&line(self.started, kind, data))
    }

    /// Appends events that name their kind themselves: values that serialise to `{"kind":NAME,"data":...}`. All of them are in
    /// the record or none, also after `kill -9` or on a full disk.
    pub fn append_tagged(&mut self, events: &[impl Serialize]) -> Result<(), RecordError> {
        self.write(&tagged_lines(self.started, events))
    }

    fn write(&mut self, lines: &str) -> Result<(), RecordError> {
        let path = self.path.join("events.jsonl");
        let before = self.events.metadata().map_err(io_error("look at", &path))?.len();
        self.events.write_all(lines.as_bytes()).map_err(|error| {
            // What comes after a part of a line would be damage.
            let _ = self.events.set_len(before);
            io_error("append to", &path)(error)
        })
    }

    /// Seconds since this process began its part of the run.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Removes the directory again if nothing was recorded in it: what was refused leaves nothing behind.
    pub fn discard_if_empty(self) {
        let untouched = self.earlier.is_empty() && !self.finished;
        let empty = fs::metadata(self.path.join("events.jsonl")).is_ok_and(|found| found.len() == 0);
        if untouched && empty {
            for name in ["events.jsonl", "plan.toml", "env.json", "format", "lock"] {
                let _ = fs::remove_file(self.path.join(name));
            }
            let _ = fs::remove_dir(self.path.join("histograms"));
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// A second hand that can append while the first is busy, for last words.
    pub fn witness(&self) -> Result<Witness, RecordError> {
        let path = self.path.join("events.jsonl");
        let events = self.events.try_clone().map_err(io_error("duplicate the descriptor of", &path))?;
        Ok(Witness { events, path, started: self.started })
    }

    /// Makes what was appended durable.
    pub fn sync(&self) -> Result<(), RecordError> {
        self.events.sync_data().map_err(io_error("sync", &self.path.join("events.jsonl")))
    }

    /// Stores a latency histogram (V2 deflate form of HdrHistogram) as `histograms/NAME.hdr`.
    pub fn write_histogram(&self, name: &str, histogram: &Histogram<u64>) -> Result<(), RecordError> {
        let path = self.path.join("histograms").join(format!("{name}.hdr"));
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(|error| RecordError::Io {
            operation: "encode",
            path: path.clone(),
            source: io::Error::other(error.to_string()),
        })?;
        write_atomically(&path, &bytes)
    }

    /// Adds facts to `env.json` (what the target knows about itself).
    pub fn add_environment(&self, environment: &Environment) -> Result<(), RecordError> {
        let path = self.path.join("env.json");
        let text = fs::read(&path).map_err(io_error("read", &path))?;
        let mut all: Environment =
            serde_json::from_slice(&text).map_err(|error| damaged_environment(&self.path, &error))?;
        all.0.extend(environment.0.clone());
        write_atomically(&path, &pretty(&all))
    }

    /// Completes the run: `summary.json` is written last and atomically.
    pub fn finish(&mut self, summary: &impl Serialize) -> Result<(), RecordError> {
        self.sync()?;
        write_atomically(&self.path.join("summary.json"), &pretty(summary))?;
        self.finished = true;
        Ok(())
    }

    /// Takes back the completion, when a finished run is continued under new limits.
    pub fn reopen_finished(&mut self) -> Result<(), RecordError> {
        let path = self.path.join("summary.json");
        if path.exists() {
            fs::remove_file(&path).map_err(io_error("remove", &path))?;
        }
        self.finished = false;
        Ok(())
    }
}

/// Appends to the record of a [`RunDirectory`] that somebody else is writing; every event is one write of its own.
#[derive(Debug)]
pub struct Witness {
    events: File,
    path: PathBuf,
    started: Instant,
}

impl Witness {
    /// Appends one event.
    pub fn append(&mut self, kind: &str, data: &impl Serialize) -> Result<(), RecordError> {
        let line = line(self.started, kind, data);
        self.events.write_all(line.as_bytes()).map_err(io_error("append to", &self.path))
    }
}

/// A directory that is there must be a run's, or hold no more than the beginning of one. Its folder is no link.
fn refuse_foreign(path: &Path) -> Result<(), RecordError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(io_error("list", path))?,
    };
    let is_run = path.join("plan.toml").exists();
    let is_ours = |entry: fs::DirEntry| match &*entry.file_name().to_string_lossy() {
        "histograms" => entry.file_type().is_ok_and(|kind| kind.is_dir()),
        "lock" => true,
        _ => is_run,
    };
    if entries.flatten().all(is_ours) { Ok(()) } else { Err(RecordError::NotEmpty { path: path.into() }) }
}

fn damaged_environment(path: &Path, error: &serde_json::Error) -> RecordError {
    RecordError::NotARun { path: path.into(), missing: format!("env.json ({error})") }
}

fn open_events(path: &Path) -> Result<File, RecordError> {
    let file = path.join("events.jsonl");
    own_file().append(true).open(&file).map_err(io_error("open", &file))
}

/// A run directory may come from somebody else: its files are not written through links.
fn own_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options
}

fn lock(path: &Path) -> Result<File, RecordError> {
    let name = path.join("lock");
    let file = own_file().write(true).truncate(false).open(&name).map_err(io_error("open", &name))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(RecordError::InUse { path: path.into() }),
        Err(errno) => Err(io_error("lock", &name)(errno.into())),
    }
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("records are plain data");
    bytes.push(b'\n');
    bytes
}

/// Writes a file of a run directory so that a reader sees the old content or the new, never a part. What a user names goes
/// through [`crate::output`].
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let new = NewFile::beside(path).map_err(io_error("create", path))?;
    new.file().write_all(bytes).map_err(io_error("write", path))?;
    new.replace().map_err(io_error("rename into place", path))
}

/// A run directory read back; needs neither root nor the device.
#[derive(Debug, Clone)]
pub struct Record {
    /// Where it is.
    pub path: PathBuf,
    /// What was to be done.
    pub plan: Plan,
    /// Where it was done.
    pub environment: Environment,
    /// What happened.
    pub events: Vec<Event>,
    /// The result, if the run is complete.
    pub summary: Option<Value>,
    valid_event_bytes: u64,
}

impl Record {
    /// Reads a run directory, complete or partial.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let Overview { path, plan, environment, summary } = Overview::read(path)?;
        let (events, valid_event_bytes) = read_events(&path.join("events.jsonl"))?;
        let no_summary =
            |error| RecordError::NotARun { path: path.clone(), missing: format!("summary.json ({error})") };
        let summary = summary.map(|text| serde_json::from_slice(&text)).transpose().map_err(no_summary)?;
        Ok(Self { path, plan, environment, events, summary, valid_event_bytes })
    }

    /// Whether the run never completed.
    pub fn is_partial(&self) -> bool {
        self.summary.is_none()
    }

    /// A stored histogram.
    pub fn histogram(&self, name: &str) -> Result<Histogram<u64>, RecordError> {
        read_histogram(&self.path, name)
    }
}

/// The histogram `NAME` of the run directory `path`.
///
/// # Errors
/// When there is none of this name, or it is damaged.
pub fn read_histogram(path: &Path, name: &str) -> Result<Histogram<u64>, RecordError> {
    let path = path.join("histograms").join(format!("{name}.hdr"));
    let bytes = input::regular(&path).map_err(io_error("read", &path))?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| RecordError::Damaged {
        path,
        line: 1,
        problem: format!("not a histogram: {error:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{ExitCode, Failure};
    use crate::seed::Seed;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn plan(size: &str) -> Plan {
        Plan::of_spec("age", Seed(42), &BTreeMap::from([("size", size)])).unwrap()
    }

    fn open(path: &Path, size: &str) -> Result<RunDirectory, RecordError> {
        RunDirectory::open(path, &plan(size), &Environment::default())
    }

    #[test]
    fn a_record_of_another_format_is_refused_with_what_to_do() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("run");
        drop(open(&path, "1G").unwrap());
        fs::write(path.join("format"), "1").unwrap();
        let refused = Record::open(&path).unwrap_err();
        assert_eq!(Failure::from(refused).exit_code(), ExitCode::Usage);
        let words = |path: &Path| open(path, "1G").unwrap_err().to_string();
        assert_eq!(words(&path), format!("{}: made by senesce 0.1, cannot be read; run again", path.display()));
        fs::write(path.join("format"), "3").unwrap();
        assert!(words(&path).contains("format 3; this one reads 2"), "{}", words(&path));
    }

    #[test]
    fn a_run_is_continued_finished_and_read_back() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("run");
        let mut run = open(&path, "1G").unwrap();
        run.append("sample", &json!({"operations": 1})).unwrap();
        drop(run);
        assert!(Record::open(&path).unwrap().is_partial());

        let mut run = open(&path, "1G").unwrap();
        assert_eq!(run.earlier_events().len(), 1);
        run.append("sample", &json!({"operations": 2})).unwrap();
        let mut histogram = Histogram::new(3).unwrap();
        histogram.record(1000).unwrap();
        run.write_histogram("write", &histogram).unwrap();
        run.finish(&json!({"operations": 2})).unwrap();
        drop(run);

        let record = Record::open(&path).unwrap();
        assert_eq!(record.summary, Some(json!({"operations": 2})));
        assert_eq!(record.events.len(), 2);
        assert_eq!(record.histogram("write").unwrap().len(), 1);
        assert!(open(&path, "1G").unwrap().is_finished());
    }

    #[test]
    fn another_plan_and_a_second_writer_are_refused() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("run");
        let run = open(&path, "1G").unwrap();
        assert!(matches!(open(&path, "1G"), Err(RecordError::InUse { .. })));
        drop(run);
        let error = open(&path, "2G").unwrap_err();
        assert!(error.to_string().contains("size: \"1G\" against \"2G\""), "{error}");
    }

    #[test]
    fn a_torn_last_line_is_dropped_and_damage_before_it_is_an_error() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("run");
        let mut run = open(&path, "1G").unwrap();
        for number in 0..3 {
            run.append("sample", &json!(number)).unwrap();
        }
        drop(run);
        let file = path.join("events.jsonl");
        let whole = fs::read(&file).unwrap();
        for cut in 1..20 {
            fs::write(&file, &whole[..whole.len() - cut]).unwrap();
            assert_eq!(Record::open(&path).unwrap().events.len(), 2, "cut {cut}");
        }
        let mut run = open(&path, "1G").unwrap();
        run.append("sample", &json!("after")).unwrap();
        drop(run);
        assert_eq!(Record::open(&path).unwrap().events.len(), 3);

        let mut damaged = whole;
        damaged[30] ^= 1;
        fs::write(&file, damaged).unwrap();
        assert!(matches!(Record::open(&path), Err(RecordError::Damaged { line: 1, .. })));
    }

    #[test]
    fn events_that_belong_together_are_in_the_record_or_none_of_them() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("run");
        let event = |kind: &str, data: u32| json!({"kind": kind, "data": data});
        let mut run = open(&path, "1G").unwrap();
        run.append_tagged(&[event("sample", 1), event("done", 1)]).unwrap();
        let first = fs::metadata(path.join("events.jsonl")).unwrap().len() as usize;
        run.append_tagged(&[event("sample", 2), event("sample", 3), event("done", 2)]).unwrap();
        drop(run);
        let file = path.join("events.jsonl");
        let whole = fs::read(&file).unwrap();
        for cut in first..whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            assert_eq!(Record::open(&path).unwrap().events.len(), 2, "cut at {cut}");
        }
        open(&path, "1G").unwrap().append_tagged(&[event("sample", 4)]).unwrap();
        let data: Vec<Value> = Record::open(&path).unwrap().events.into_iter().map(|event| event.data).collect();
        assert_eq!(data, [json!(1), json!(1), json!(4)]);
    }

    #[test]
    fn a_record_without_its_environment_is_refused() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("run");
        drop(open(&path, "1G").unwrap());
        for damage in [Some("{"), None] {
            match damage {
                Some(text) => fs::write(path.join("env.json"), text).unwrap(),
                None => fs::remove_file(path.join("env.json")).unwrap(),
            }
            let refused = Record::open(&path).unwrap_err().to_string();
            assert!(refused.contains("env.json"), "{refused}");
            assert!(open(&path, "1G").is_err());
        }
    }

    #[test]
    fn links_in_a_run_directory_are_not_written_through() {
        let room = tempfile::tempdir().unwrap();
        let precious = room.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        let path = room.path().join("run");
        drop(open(&path, "1G").unwrap());
        for name in ["events.jsonl", "lock", "summary.json"] {
            let file = path.join(name);
            let whole = fs::read(&file).ok();
            let _ = fs::remove_file(&file);
            std::os::unix::fs::symlink(&precious, &file).unwrap();
            let run = open(&path, "1G").and_then(|mut run| run.append("sample", &json!(1)));
            assert!(run.is_err(), "{name}");
            fs::remove_file(&file).unwrap();
            if let Some(bytes) = whole {
                fs::write(&file, bytes).unwrap();
            }
        }
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
    }

    #[test]
    fn a_foreign_directory_is_not_touched() {
        let room = tempfile::tempdir().unwrap();
        fs::write(room.path().join("thesis.txt"), "precious").unwrap();
        assert!(matches!(open(room.path(), "1G"), Err(RecordError::NotEmpty { .. })));
        assert!(matches!(Record::open(room.path()), Err(RecordError::NotARun { .. })));
        assert_eq!(fs::read_dir(room.path()).unwrap().count(), 1, "nothing was made in it");
    }

    #[test]
    fn histograms_are_not_written_through_a_link() {
        let room = tempfile::tempdir().unwrap();
        let (path, outside) = (room.path().join("run"), room.path().join("outside"));
        fs::create_dir_all(&path).unwrap();
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, path.join("histograms")).unwrap();
        assert!(matches!(open(&path, "1G"), Err(RecordError::NotEmpty { .. })));
        fs::remove_file(path.join("histograms")).unwrap();
        drop(open(&path, "1G").unwrap());
        fs::remove_dir(path.join("histograms")).unwrap();
        std::os::unix::fs::symlink(&outside, path.join("histograms")).unwrap();
        assert!(matches!(open(&path, "1G"), Err(RecordError::NotEmpty { .. })));
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn a_record_of_devices_is_refused_and_not_read_for_ever() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("run");
        drop(open(&path, "1G").unwrap());
        for name in ["events.jsonl", "summary.json", "plan.toml", "format"] {
            let file = path.join(name);
            let whole = fs::read(&file).ok();
            let _ = fs::remove_file(&file);
            std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
            assert!(Record::open(&path).is_err(), "{name}");
            fs::remove_file(&file).unwrap();
            whole.iter().for_each(|bytes| fs::write(&file, bytes).unwrap());
        }
    }
}
