//! The end of `events.jsonl`, where the writers of a run append.

use super::error::{RecordError, io_error};
use super::files::EVENTS;
use super::identity::Sum;
use super::limits::EventMemory;
use super::lines::signed;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// State after the last line.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail {
    /// Checksum of the last line, which that of the next one continues.
    pub sum: u32,
    /// Memory of all lines.
    pub held: EventMemory,
    /// Whether a line is an event, and not only a note of the record about itself.
    pub has_events: bool,
    /// Checksum of `summary.json`, if no event follows it: the end of a complete run.
    pub summary: Option<Sum>,
}

impl Tail {
    /// Notes that an event follows.
    pub(super) fn pass_event(&mut self) {
        (self.has_events, self.summary) = (true, None);
    }
}

/// `events.jsonl`, open for appending. Its handles share the end of the file.
#[derive(Debug)]
pub(super) struct EventsFile {
    file: File,
    path: PathBuf,
    tail: Arc<Mutex<Tail>>,
}

impl EventsFile {
    pub(super) fn new(file: File, run: &Path, tail: Tail) -> Self {
        Self { file, path: run.join(EVENTS), tail: Arc::new(Mutex::new(tail)) }
    }

    /// Opens a second handle. One that waits for durability does not keep the other from appending.
    pub(super) fn duplicate(&self) -> Result<Self, RecordError> {
        let file = self.file.try_clone().map_err(io_error("duplicate the descriptor of", &self.path))?;
        Ok(Self { file, path: self.path.clone(), tail: Arc::clone(&self.tail) })
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of lines.
    pub(super) fn lines(&self) -> usize {
        self.tail().held.lines()
    }

    pub(super) fn has_events(&self) -> bool {
        self.tail().has_events
    }

    /// Returns the checksum of the `summary.json` that completes the run.
    pub(super) fn summary(&self) -> Option<Sum> {
        self.tail().summary.clone()
    }

    /// Appends events; nothing of them is kept after an error.
    pub(super) fn append(&self, bodies: &[String]) -> Result<(), RecordError> {
        self.write(&mut self.tail(), bodies, EventMemory::and_written).map(Tail::pass_event)
    }

    /// Appends a last event, for which memory is reserved.
    pub(super) fn append_last(&self, body: String) -> Result<(), RecordError> {
        self.write(&mut self.tail(), &[body], EventMemory::and).map(Tail::pass_event)
    }

    /// Appends a note of the record about itself; it leaves a complete run complete.
    pub(super) fn note(&self, body: String) -> Result<(), RecordError> {
        self.write(&mut self.tail(), &[body], EventMemory::and).map(drop)
    }

    /// Appends the note that completes the run: the checksum of its `summary.json`.
    pub(super) fn complete(&self, body: String, summary: Sum) -> Result<(), RecordError> {
        self.write(&mut self.tail(), &[body], EventMemory::and)?.summary = Some(summary);
        Ok(())
    }

    fn write<'t>(
        &self,
        tail: &'t mut Tail,
        bodies: &[String],
        fit: fn(EventMemory, &[u8], &Path) -> Result<EventMemory, RecordError>,
    ) -> Result<&'t mut Tail, RecordError> {
        let (text, sum) = signed(tail.sum, bodies);
        let held = fit(tail.held, text.as_bytes(), &self.path)?;
        let before = self.bytes()?;
        (&self.file).write_all(text.as_bytes()).map_err(|error| {
            // Lines after a partial line would be damaged.
            let _ = self.file.set_len(before);
            io_error("append to", &self.path)(error)
        })?;
        (tail.sum, tail.held) = (sum, held);
        Ok(tail)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self) -> Result<u64, RecordError> {
        Ok(self.file.metadata().map_err(io_error("inspect", &self.path))?.len())
    }

    /// Shortens it to the lines before `tail`.
    pub(super) fn shorten(&self, bytes: u64, tail: Tail) -> Result<(), RecordError> {
        let mut end = self.tail();
        // A truncation to the same length would make the run newer.
        if self.bytes()? != bytes {
            self.file.set_len(bytes).map_err(io_error("shorten", &self.path))?;
        }
        *end = tail;
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), RecordError> {
        self.file.sync_data().map_err(io_error("sync", &self.path))
    }

    pub(super) fn modified(&self) -> io::Result<SystemTime> {
        self.file.metadata().and_then(|found| found.modified())
    }

    pub(super) fn set_modified(&self, time: SystemTime) {
        let _ = self.file.set_modified(time);
    }
}
