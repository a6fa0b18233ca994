//! The run directory: append-only while running, readable anywhere afterwards.
//!
//! `plan.toml`, `env.json`, `events.jsonl`, `histograms/NAME.hdr`, `summary.json` (present once the run is complete), `lock`.
//! A line of `events.jsonl` is `{"crc":"XXXXXXXX","event":BODY}` where crc is CRC-32 (IEEE) of the bytes of BODY,
//! continued from the crc of the line before: no line can be removed, moved or repeated. BODY is
//! `{"t":SECONDS,"kind":NAME,"data":...}`. Events of one step are recorded all or none: all but the last have `"more":true` in
//! BODY. A torn last line, as after `kill -9`, is dropped, and so is an incomplete last step. The first event is the identity
//! of the run with the checksums of `plan.toml` and `env.json`; it is repeated when `env.json` changes. Events of the kind
//! `checksum` are about the other files; that of `summary.json` ends a complete run.

mod change;
mod data;
mod error;
mod events_file;
pub mod files;
mod folder;
mod histogram;
mod identity;
mod limits;
mod lines;
mod of_sudo;
mod overview;
mod side_files;
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
use events_file::{EventsFile, Tail};
use files::{ENVIRONMENT, EVENTS, HISTOGRAMS, PLAN, SUMMARY};
use folder::{CreatedFolders, RunFolder};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use identity::{FileSums, Identity, sum};
use lines::{body, named_bodies};
use senesce_sys::lock::Locked;
use serde::Serialize;
use side_files::{SideFile, SideFiles};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Version of the run directory's format, in the file `format`.
pub(crate) const FORMAT: u32 = 5;

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
    events: EventsFile,
    started: Instant,
    earlier: Vec<Event>,
    identity: Identity,
    files: SideFiles,
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
        let run = Self {
            path: path.into(),
            events: EventsFile::new(place.open_events()?, path, Tail::default()),
            place,
            started: Instant::now(),
            earlier: Vec::new(),
            identity: Identity::draw(files, path)?,
            files: SideFiles::default(),
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
    fn identify(&self) -> Result<(), RecordError> {
        self.events.note(body(self.started, identity::KIND, &self.identity))
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
        let Record { path, events: earlier, summary, valid_event_bytes, tail, identity, files, side_files, .. } =
            record;
        let events = EventsFile::new(place.open_events()?, &path, Tail::default());
        events.shorten(valid_event_bytes, tail)?;
        let (started, finished, is_identified) = (Instant::now(), summary.is_some(), identity.is_some());
        let identity = identity.map_or_else(|| Identity::draw(files, &path), Ok)?;
        let run =
            Self { path, place, events, started, earlier, identity, files: side_files, finished, made, _lock: lock };
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
        self.events.append(&[body(self.started, kind, data)])
    }

    /// Appends events that contain their kind: values that serialise to `NAME` or `{NAME:DATA}`, such as enums. They are recorded
    /// all or none, even after `kill -9` or on a full disk.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_named(&mut self, events: &[impl Serialize]) -> Result<(), RecordError> {
        self.events.append(&named_bodies(self.started, events))
    }

    /// Returns the number of the last line in `events.jsonl`, from 1.
    pub fn last_line(&self) -> usize {
        self.events.lines()
    }

    /// Returns the seconds since this process began its part of the run.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Removes its files and newly created folders if nothing was recorded, so that a refused run leaves nothing behind.
    pub fn discard_if_empty(self) {
        if !self.events.has_events() {
            self.discard();
        }
    }

    /// Removes its files and newly created folders if the recorded events are useless. Keeps what an earlier part of
    /// the run recorded.
    pub fn discard(self) {
        if self.earlier.is_empty() && !self.finished {
            // The events first: a folder with events and without a plan is kept as an incomplete copy of a run.
            for name in [EVENTS].into_iter().chain(self.files.names()).chain(files::FILES.into_iter().rev()) {
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
        Ok(Witness { events: self.events.duplicate()?, started: self.started })
    }

    /// Makes appended events durable.
    ///
    /// # Errors
    /// As fdatasync(2).
    pub fn sync(&self) -> Result<(), RecordError> {
        self.events.sync()
    }

    /// Stores a latency histogram (V2 deflate format of HdrHistogram) as `histograms/NAME.hdr`.
    ///
    /// # Errors
    /// If it cannot be encoded; as [`Self::write_file`].
    pub fn write_histogram(&mut self, name: &str, histogram: &Histogram<u64>) -> Result<(), RecordError> {
        let file = format!("{HISTOGRAMS}/{name}.hdr");
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(histogram, &mut bytes)
            .map_err(|error| RecordError::Io(IoFailure::new("encode", &file, io::Error::other(error.to_string()))))?;
        self.write_file(&file, &bytes)
    }

    /// Stores another file of the record, with its checksum in the events.
    ///
    /// # Errors
    /// As [`Self::append`] and [`write_atomically`].
    pub fn write_file(&mut self, name: &str, bytes: &[u8]) -> Result<(), RecordError> {
        if self.files.contains(name) {
            self.note_file(SideFile::replaced(name))?;
            self.sync()?;
        }
        self.place.write_side_file(name, bytes)?;
        self.note_file(SideFile::of(name, bytes))
    }

    fn note_file(&mut self, file: SideFile) -> Result<(), RecordError> {
        self.events.note(body(self.started, side_files::KIND, &file))?;
        self.files.note(file);
        Ok(())
    }

    /// Completes the run: writes `summary.json` last and atomically.
    ///
    /// # Errors
    /// As [`Self::sync`] and [`write_atomically`].
    pub fn finish(&mut self, summary: &impl Serialize) -> Result<(), RecordError> {
        let text = pretty(summary);
        limits::check_file(SUMMARY, &self.path.join(SUMMARY), &text)?;
        let file = SideFile::of(SUMMARY, &text);
        if self.events.summary() != file.crc {
            self.events.complete(body(self.started, side_files::KIND, &file), sum(&text))?;
        }
        self.sync()?;
        self.place.write(SUMMARY, &text)?;
        self.finished = true;
        Ok(())
    }

    /// Reopens a complete run, to continue it under new limits.
    ///
    /// # Errors
    /// As unlink(2) and fsync(2).
    pub fn reopen_finished(&mut self) -> Result<(), RecordError> {
        self.place.remove(SUMMARY)?;
        // A crash of the machine must not leave it with events that follow the end of the run.
        self.place.sync()?;
        self.finished = false;
        Ok(())
    }
}

/// Appends to the record of a [`RunDirectory`] in use; every event is one write.
#[derive(Debug)]
pub struct Witness {
    events: EventsFile,
    started: Instant,
}

impl Witness {
    /// Appends one event.
    ///
    /// # Errors
    /// As write(2).
    pub fn append(&self, kind: &str, data: &impl Serialize) -> Result<(), RecordError> {
        self.events.append_last(body(self.started, kind, data))
    }
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
