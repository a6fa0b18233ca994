//! The run directory: append-only while running, readable anywhere afterwards.
//!
//! `plan.toml`, `env.json`, `events.jsonl`, `histograms/NAME.hdr`, `summary.json` (present once the run is complete), `log`,
//! `lock`. A line of `events.jsonl` is `{"crc":"XXXXXXXX","event":BODY}` where crc is CRC-32 (IEEE) of the bytes of BODY, and
//! BODY is `{"t":SECONDS,"kind":NAME,"data":...}`. Events of one step are recorded all or none: all but the last have
//! `"more":true` in BODY. A torn last line, as after `kill -9`, is dropped, and so is an incomplete last step.

mod data;
mod error;
mod folder;
mod histogram;
mod limits;
mod lines;
mod of_sudo;
mod overview;

pub(crate) use data::Data;
pub use error::RecordError;
pub use histogram::read_histogram;
pub use overview::Overview;

use crate::environment::Environment;
use crate::input::InputFolder;
use crate::io_failure::IoFailure;
use crate::output::NewFile;
use crate::plan::Plan;
use error::io_error;
use folder::{CreatedFolders, RunFolder};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use lines::{Lines, line, named_lines, read_events};
use senesce_sys::lock::Locked;
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Version of the run directory's format, in the file `format`.
pub(crate) const FORMAT: u32 = 3;

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Seconds since this process began this part of the run.
    pub t: f64,
    /// Kind ("sample", "cell", "warning", "interrupted", ...).
    pub kind: String,
    /// Data; null if the event has none.
    pub data: Data,
    /// Index of the batch it was written with, from 0: batches are recorded all or none.
    #[serde(skip)]
    pub batch: usize,
}

/// The lock of a run directory.
#[derive(Debug)]
pub struct RunLock {
    _lock: Locked,
}

/// A locked run directory, open for writing.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    place: RunFolder,
    events: File,
    started: Instant,
    earlier: Vec<Event>,
    held: limits::EventMemory,
    finished: bool,
    made: CreatedFolders,
    _lock: Locked,
}

impl RunDirectory {
    /// Checks early whether a run can be stored there; changes nothing.
    ///
    /// # Errors
    /// [`RecordError::NoDirectory`] or [`RecordError::NotEmpty`] if another file or directory exists there.
    pub fn check(path: &Path) -> Result<(), RecordError> {
        folder::check(path)
    }

    /// Opens `path` for `plan`: starts a new run, or continues one with the same plan (possibly complete).
    ///
    /// # Errors
    /// [`RecordError::NoDirectory`] or [`RecordError::NotEmpty`] if another file or directory exists there;
    /// [`RecordError::InUse`] if another process has the lock; [`RecordError::Foreign`] if another user may have written it;
    /// [`RecordError::OtherPlan`] with the differences; for an existing run, as [`Record::open`]; those of writing the files.
    pub fn open(path: &Path, plan: &Plan, environment: &Environment) -> Result<Self, RecordError> {
        folder::check(path)?;
        let (place, made) = RunFolder::make(path)?;
        let lock = place.lock()?;
        place.refuse_foreign()?;
        if place.holds("plan.toml") {
            place.check_ours()?;
            let record = Record::read_in(&place.within()?, path)?;
            let differences = record.plan.differences(plan);
            if !differences.is_empty() {
                return Err(RecordError::OtherPlan { path: path.into(), differences: differences.join("; ") });
            }
            return Self::reopen(place, lock, record, made);
        }
        place.write("format", FORMAT.to_string().as_bytes())?;
        place.write("env.json", &pretty(environment))?;
        let text = toml::to_string_pretty(plan).map_err(|error| {
            let name = path.join("plan.toml");
            RecordError::Io(IoFailure::new("encode", name, io::Error::other(error.to_string())))
        })?;
        place.write("plan.toml", text.as_bytes())?;
        let events = place.open_events()?;
        Ok(Self {
            path: path.into(),
            place,
            events,
            started: Instant::now(),
            earlier: Vec::new(),
            held: limits::EventMemory::default(),
            finished: false,
            made,
            _lock: lock,
        })
    }

    /// Locks an existing run without changing it.
    ///
    /// # Errors
    /// If another process has the lock, or `path` is not writable.
    pub fn hold(path: &Path) -> Result<RunLock, RecordError> {
        Ok(RunLock { _lock: RunFolder::open(path)?.lock()? })
    }

    /// Opens an existing run to continue it with any plan.
    ///
    /// # Errors
    /// As [`Record::open`]; [`RecordError::InUse`] if another process has the lock; [`RecordError::Foreign`] if a user other
    /// than root and this user may have written it.
    pub fn resume(path: &Path) -> Result<Self, RecordError> {
        let place = RunFolder::open(path)?;
        let record = Record::read_in(&place.within()?, path)?;
        place.check_ours()?;
        let lock = place.lock()?;
        Self::reopen(place, lock, record, CreatedFolders::default())
    }

    fn reopen(place: RunFolder, lock: Locked, record: Record, made: CreatedFolders) -> Result<Self, RecordError> {
        let Record { path, events: earlier, summary, valid_event_bytes, held, .. } = record;
        let events = place.open_events()?;
        events
            .set_len(valid_event_bytes)
            .map_err(io_error("drop the torn last line of", &path.join("events.jsonl")))?;
        let (started, finished) = (Instant::now(), summary.is_some());
        Ok(Self { path, place, events, started, earlier, held, finished, made, _lock: lock })
    }

    /// Returns the path; the directory stays locked while this value lives.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Events of earlier, interrupted parts of this run.
    pub fn earlier_events(&self) -> &[Event] {
        &self.earlier
    }

    /// Returns whether the run is already complete.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Appends one event. It reaches the kernel at once, so `kill -9` loses at most this event.
    ///
    /// # Errors
    /// As write(2); nothing of the event is kept then.
    pub fn append(&mut self, kind: &str, data: &impl Serialize) -> Result<(), RecordError> {
        self.write(&line(self.started, kind, data))
    }

    /// Appends events that contain their kind: values that serialise to `NAME` or `{NAME:DATA}`, such as enums. They are recorded
    /// all or none, even after `kill -9` or on a full disk.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_named(&mut self, events: &[impl Serialize]) -> Result<(), RecordError> {
        self.write(&named_lines(self.started, events))
    }

    fn write(&mut self, lines: &str) -> Result<(), RecordError> {
        let path = self.path.join("events.jsonl");
        let before = self.events.metadata().map_err(io_error("inspect", &path))?.len();
        let held = self.held.and_written(lines.as_bytes(), &path)?;
        self.events.write_all(lines.as_bytes()).map_err(|error| {
            // Lines after a partial line would be damaged.
            let _ = self.events.set_len(before);
            io_error("append to", &path)(error)
        })?;
        self.held = held;
        Ok(())
    }

    /// Returns the seconds since this process began its part of the run.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Removes its files and newly created folders if nothing was recorded, so that a refused run leaves nothing behind.
    pub fn discard_if_empty(self) {
        if self.events.metadata().is_ok_and(|found| found.len() == 0) {
            self.discard();
        }
    }

    /// Removes its files and newly created folders if the recorded events are useless. Keeps what an earlier part of
    /// the run recorded.
    pub fn discard(self) {
        if self.earlier.is_empty() && !self.finished {
            for name in ["events.jsonl", "plan.toml", "env.json", "format", "lock"] {
                let _ = self.place.remove(name);
            }
            self.made.remove();
        }
    }

    /// Creates a second handle for appending final events while the first is busy.
    ///
    /// # Errors
    /// As dup(2).
    pub fn witness(&self) -> Result<Witness, RecordError> {
        let path = self.path.join("events.jsonl");
        let events = self.events.try_clone().map_err(io_error("duplicate the descriptor of", &path))?;
        Ok(Witness { events, path, started: self.started })
    }

    /// Makes appended events durable.
    ///
    /// # Errors
    /// As fdatasync(2).
    pub fn sync(&self) -> Result<(), RecordError> {
        self.events.sync_data().map_err(io_error("sync", &self.path.join("events.jsonl")))
    }

    /// Stores a latency histogram (V2 deflate format of HdrHistogram) as `histograms/NAME.hdr`.
    ///
    /// # Errors
    /// If it cannot be encoded; as [`write_atomically`].
    pub fn write_histogram(&self, name: &str, histogram: &Histogram<u64>) -> Result<(), RecordError> {
        let file = format!("{name}.hdr");
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(histogram, &mut bytes)
            .map_err(|error| RecordError::Io(IoFailure::new("encode", &file, io::Error::other(error.to_string()))))?;
        self.place.write_histogram(&file, &bytes)
    }

    /// Adds facts to `env.json`, such as those of the target.
    ///
    /// # Errors
    /// [`RecordError::NotARun`] if the existing facts are invalid; those of reading them; as [`write_atomically`].
    pub fn add_environment(&self, environment: &Environment) -> Result<(), RecordError> {
        let name = "env.json";
        let text = overview::read_file(&self.place.within()?, &self.path, name)?;
        let text = text.map_err(io_error("read", &self.path.join(name)))?;
        let mut all: Environment =
            serde_json::from_slice(&text).map_err(|error| damaged_environment(&self.path, &error))?;
        all.0.extend(environment.0.clone());
        self.place.write(name, &pretty(&all))
    }

    /// Completes the run: writes `summary.json` last and atomically.
    ///
    /// # Errors
    /// As [`Self::sync`] and [`write_atomically`].
    pub fn finish(&mut self, summary: &impl Serialize) -> Result<(), RecordError> {
        self.sync()?;
        self.place.write("summary.json", &pretty(summary))?;
        self.finished = true;
        Ok(())
    }

    /// Reopens a complete run, to continue it under new limits.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn reopen_finished(&mut self) -> Result<(), RecordError> {
        self.place.remove("summary.json")?;
        self.finished = false;
        Ok(())
    }
}

/// Appends to the record of a [`RunDirectory`] in use; every event is one write.
#[derive(Debug)]
pub struct Witness {
    events: File,
    path: PathBuf,
    started: Instant,
}

impl Witness {
    /// Appends one event.
    ///
    /// # Errors
    /// As write(2).
    pub fn append(&mut self, kind: &str, data: &impl Serialize) -> Result<(), RecordError> {
        let line = line(self.started, kind, data);
        self.events.write_all(line.as_bytes()).map_err(io_error("append to", &self.path))
    }
}

fn damaged_environment(path: &Path, error: &serde_json::Error) -> RecordError {
    RecordError::NotARun { path: path.into(), missing: format!("env.json ({error})") }
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("records are plain data");
    bytes.push(b'\n');
    bytes
}

/// Writes a file of a run directory atomically. For files that a user names, use [`crate::output`].
///
/// # Errors
/// Those of creating, writing and renaming the file; the old content is kept then.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    folder::write_new(NewFile::next_to(path), path, bytes)
}

/// A run directory for reading; needs neither root nor the device.
#[derive(Debug, Clone)]
pub struct Record {
    /// Path of the directory.
    pub path: PathBuf,
    /// Content of `plan.toml`.
    pub plan: Plan,
    /// Content of `env.json`.
    pub environment: Environment,
    /// Content of `events.jsonl`, oldest first.
    pub events: Vec<Event>,
    /// Result, if the run is complete.
    pub summary: Option<Value>,
    valid_event_bytes: u64,
    held: limits::EventMemory,
}

impl Record {
    /// Reads a run directory, complete or partial. Drops a torn last line.
    ///
    /// # Errors
    /// [`RecordError::NotARun`] with the missing part; [`RecordError::OtherFormat`] for another version; [`RecordError::Damaged`]
    /// for a damaged line before the end, and for a complete run without events; [`RecordError::TooLong`] and
    /// [`RecordError::TooLarge`] for files beyond their limits; those of reading.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        Self::read_in(&overview::open(path)?, path)
    }

    fn read_in(folder: &InputFolder, path: &Path) -> Result<Self, RecordError> {
        let Overview { path, plan, environment, summary } = Overview::read_in(folder, path)?;
        let Lines { events, valid_bytes: valid_event_bytes, held } = read_events(folder, &path)?;
        let no_summary =
            |error| RecordError::NotARun { path: path.clone(), missing: format!("summary.json ({error})") };
        let decode = |text: Vec<u8>| {
            data::check_values(&text)?;
            serde_json::from_slice(&text).map_err(|error| error.to_string())
        };
        let summary = summary.map(decode).transpose().map_err(no_summary)?;
        if summary.is_some() && events.is_empty() {
            let problem = "it holds no event, and summary.json states that the run is complete".into();
            return Err(RecordError::Damaged { path: path.join(lines::EVENTS), line: 1, problem });
        }
        Ok(Self { path, plan, environment, events, summary, valid_event_bytes, held })
    }

    /// Returns whether the run is incomplete.
    pub fn is_partial(&self) -> bool {
        self.summary.is_none()
    }

    /// Reads a stored histogram.
    ///
    /// # Errors
    /// As [`read_histogram`].
    #[cfg(test)]
    pub(crate) fn histogram(&self, name: &str) -> Result<Histogram<u64>, RecordError> {
        read_histogram(&self.path, name)
    }
}

#[cfg(test)]
mod tests;
