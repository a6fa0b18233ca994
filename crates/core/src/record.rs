//! The run directory: append-only while running, readable anywhere afterwards.
//!
//! `plan.toml`, `env.json`, `events.jsonl`, `histograms/NAME.hdr`, `summary.json` (present once the run is complete), `log`,
//! `lock`. A line of `events.jsonl` is `{"crc":"XXXXXXXX","event":BODY}` where crc is CRC-32 (IEEE) of the bytes of BODY, and
//! BODY is `{"t":SECONDS,"kind":NAME,"data":...}`. Events of one step are recorded all or none: all but the last have
//! `"more":true` in BODY. A torn last line, as after `kill -9`, is dropped, and so is an incomplete last step. The first event
//! is the identity of the run with the checksums of `plan.toml` and `env.json`; it is repeated when `env.json` changes.

mod change;
mod data;
mod error;
pub mod files;
mod folder;
mod histogram;
mod identity;
mod limits;
mod lines;
mod of_sudo;
mod overview;
mod stored;

pub(crate) use data::Data;
pub use error::RecordError;
pub use histogram::read_histogram;
pub use identity::random_for_guest;
pub use overview::Overview;
pub use stored::Record;

use crate::environment::Environment;
use crate::io_failure::IoFailure;
use crate::output::NewFile;
use crate::plan::Plan;
use error::io_error;
use files::{ENVIRONMENT, EVENTS, PLAN, SUMMARY};
use folder::{CreatedFolders, RunFolder};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use identity::{FileSums, Identity, sum};
use lines::{line, named_lines};
use senesce_sys::lock::Locked;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Version of the run directory's format, in the file `format`.
pub(crate) const FORMAT: u32 = 4;

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
    /// Its line, from 1; 0 before it is read back.
    #[serde(skip)]
    pub line: usize,
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
    identity: Identity,
    /// Bytes of the events that identify the run: they are not counted as recorded.
    identity_bytes: u64,
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
        if place.holds(PLAN) {
            place.check_ours()?;
            let record = Record::read_in(&place.within()?, path)?;
            let differences = record.plan.differences(plan);
            if !differences.is_empty() {
                return Err(RecordError::OtherPlan { path: path.into(), differences: differences.join("; ") });
            }
            return Self::reopen(place, lock, record, made);
        }
        place.write(files::FORMAT, FORMAT.to_string().as_bytes())?;
        let facts = pretty(environment);
        place.write(ENVIRONMENT, &facts)?;
        let text = toml::to_string_pretty(plan).map_err(|error| {
            let name = path.join(PLAN);
            RecordError::Io(IoFailure::new("encode", name, io::Error::other(error.to_string())))
        })?;
        let files = FileSums { plan: sum(text.as_bytes()), environment: sum(&facts) };
        // One that was killed before it had its plan may have left its identity; other events were refused above.
        place.remove(EVENTS)?;
        let mut run = Self {
            path: path.into(),
            events: place.open_events()?,
            place,
            started: Instant::now(),
            earlier: Vec::new(),
            held: limits::EventMemory::default(),
            identity: Identity::draw(files, path)?,
            identity_bytes: 0,
            finished: false,
            made,
            _lock: lock,
        };
        run.identify()?;
        run.sync()?;
        // Written last: a directory with a plan also has the identity of its run.
        run.place.write(PLAN, text.as_bytes())?;
        Ok(run)
    }

    /// Appends the event with the identity of the run.
    fn identify(&mut self) -> Result<(), RecordError> {
        let text = line(self.started, identity::KIND, &self.identity);
        self.write(&text)?;
        self.identity_bytes += text.len() as u64;
        Ok(())
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
        Overview::read_in(&place.within()?, path)?;
        place.check_ours()?;
        let lock = place.lock()?;
        let record = Record::read_in(&place.within()?, path)?;
        Self::reopen(place, lock, record, CreatedFolders::default())
    }

    fn reopen(place: RunFolder, lock: Locked, record: Record, made: CreatedFolders) -> Result<Self, RecordError> {
        let Record { path, events: earlier, summary, valid_event_bytes, held, identity, files, identity_bytes, .. } =
            record;
        let events = place.open_events()?;
        let name = path.join(EVENTS);
        let shorten = io_error("drop the torn last line of", &name);
        match events.metadata() {
            // A truncation to the same length would make the run newer.
            Ok(found) if found.len() == valid_event_bytes => {}
            Ok(_) => events.set_len(valid_event_bytes).map_err(shorten)?,
            Err(error) => return Err(shorten(error)),
        }
        let (started, finished, is_identified) = (Instant::now(), summary.is_some(), identity.is_some());
        let identity = identity.map_or_else(|| Identity::draw(files, &path), Ok)?;
        let mut run =
            Self { path, place, events, started, earlier, held, identity, identity_bytes, finished, made, _lock: lock };
        if !is_identified {
            run.identify()?;
        }
        Ok(run)
    }

    /// Returns the path; the directory stays locked while this value lives.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the random identity of the run, in 32 hexadecimal digits.
    pub fn identity(&self) -> &str {
        &self.identity.run
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

    /// Returns the number of the last line in `events.jsonl`, from 1. Lines of a [`Witness`] are not counted.
    pub fn last_line(&self) -> usize {
        self.held.lines()
    }

    fn write(&mut self, lines: &str) -> Result<(), RecordError> {
        let path = self.path.join(EVENTS);
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
        if self.events.metadata().is_ok_and(|found| found.len() == self.identity_bytes) {
            self.discard();
        }
    }

    /// Removes its files and newly created folders if the recorded events are useless. Keeps what an earlier part of
    /// the run recorded.
    pub fn discard(self) {
        if self.earlier.is_empty() && !self.finished {
            // The events first: a folder with events and without a plan is kept as an incomplete copy of a run.
            for name in [EVENTS].into_iter().chain(files::FILES.into_iter().rev()) {
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
        let path = self.path.join(EVENTS);
        let events = self.events.try_clone().map_err(io_error("duplicate the descriptor of", &path))?;
        Ok(Witness { events, path, started: self.started })
    }

    /// Makes appended events durable.
    ///
    /// # Errors
    /// As fdatasync(2).
    pub fn sync(&self) -> Result<(), RecordError> {
        self.events.sync_data().map_err(io_error("sync", &self.path.join(EVENTS)))
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

    /// Completes the run: writes `summary.json` last and atomically.
    ///
    /// # Errors
    /// As [`Self::sync`] and [`write_atomically`].
    pub fn finish(&mut self, summary: &impl Serialize) -> Result<(), RecordError> {
        self.sync()?;
        self.place.write(SUMMARY, &pretty(summary))?;
        self.finished = true;
        Ok(())
    }

    /// Reopens a complete run, to continue it under new limits.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn reopen_finished(&mut self) -> Result<(), RecordError> {
        self.place.remove(SUMMARY)?;
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

#[cfg(test)]
mod tests;
