//! Threads of a commit: read, split, hash and store.

use super::Store;
use super::commit::{CommitReport, Job, SlowObject};
use super::loose::LooseObjectState;
use super::reading::FileReader;
use super::sink::Sink;
use super::snapshot::{self, EntryKind, SnapshotEntry, escape};
use super::space::Names;
use super::walk::{Item, ItemKind};
use crate::error::{StoreError, io};
use crate::object_id::ObjectId;
use rustix::fs::Stat;
use senesce_core::units::Bytes;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

pub(super) struct Workers<'a> {
    store: &'a Store,
    items: &'a [Item],
    job: &'a Job<'a>,
    seen: MetObjects,
    /// Packs with objects that differ from the source.
    damaged: Mutex<BTreeSet<usize>>,
    next: AtomicUsize,
    bytes: AtomicU64,
    names: Names,
    stop: AtomicBool,
}

pub(super) struct WorkerResult<'a> {
    pub sinks: Vec<Sink<'a>>,
    pub entries: Vec<SnapshotEntry>,
    pub report: CommitReport,
    /// Packs with objects that differ from the source.
    pub damaged: BTreeSet<usize>,
}

struct WorkerDone<'a> {
    sink: Sink<'a>,
    entries: Vec<(usize, SnapshotEntry)>,
    report: CommitReport,
}

/// Items taken at a time, to reduce contention on the counter.
const STRIDE: usize = 16;

impl<'a> Workers<'a> {
    pub(crate) fn new(store: &'a Store, items: &'a [Item], job: &'a Job<'a>) -> Self {
        let (seen, next, bytes, stop) =
            (MetObjects::new(), AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self { store, items, job, seen, damaged: Mutex::default(), next, bytes, names: Names::new(), stop }
    }

    pub(crate) fn run(self) -> Result<WorkerResult<'a>, StoreError> {
        let (threads, workers) = (self.job.options.threads.max(1), &self);
        let outcomes: Vec<Result<WorkerDone<'a>, StoreError>> = std::thread::scope(|scope| {
            let (alive, ended) = channel::<()>();
            let running: Vec<_> = (0..threads)
                .map(|number| {
                    let alive = alive.clone();
                    scope.spawn(move || {
                        let _alive = alive;
                        workers.work(number).inspect_err(|_| workers.stop.store(true, Ordering::Relaxed))
                    })
                })
                .collect();
            drop(alive);
            while ended.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
                self.show();
                if self.job.interrupt.requested() {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            running.into_iter().map(join).collect()
        });
        self.show();
        let (done, errors): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        // Most threads that ended early did so because another one had failed.
        let errors = errors.into_iter().filter_map(Result::err);
        match errors.min_by_key(|error| matches!(error, StoreError::Interrupted)) {
            Some(error) => Err(error),
            None if self.stop.load(Ordering::Relaxed) => Err(StoreError::Interrupted),
            None => Ok(self.merge(done.into_iter().flatten())),
        }
    }

    fn merge(self, workers: impl Iterator<Item = WorkerDone<'a>>) -> WorkerResult<'a> {
        let mut report = CommitReport { objects: self.seen.count(), ..CommitReport::default() };
        let (mut sinks, mut entries) = (Vec::new(), Vec::new());
        for worker in workers {
            report.files += worker.report.files;
            report.bytes += worker.report.bytes;
            report.new_objects += worker.report.new_objects;
            report.new_bytes += worker.report.new_bytes;
            report.damaged_objects += worker.report.damaged_objects;
            report.slow_objects.extend(worker.report.slow_objects);
            report.changed.extend(worker.report.changed);
            report.vanished.extend(worker.report.vanished);
            sinks.push(worker.sink);
            entries.extend(worker.entries);
        }
        entries.sort_by_key(|(index, _)| *index);
        report.slow_objects.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
        let damaged = self.damaged.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        WorkerResult { sinks, entries: entries.into_iter().map(|(_, entry)| entry).collect(), report, damaged }
    }

    fn show(&self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let rate = bytes as f64 / self.job.started.elapsed().as_secs_f64().max(1e-3) / f64::from(1 << 20);
        let done = self.next.load(Ordering::Relaxed).min(self.items.len());
        self.job.progress.position(done as u64, &format!("{}, {rate:.1} MiB/s", Bytes(bytes)));
    }

    fn work(&self, number: usize) -> Result<WorkerDone<'a>, StoreError> {
        let mut worker = Worker {
            workers: self,
            reader: FileReader::new(self.store.settings.chunker),
            sink: Sink::new(self.store, number, self.job.options, self.job.placed)?,
            report: CommitReport::default(),
        };
        let mut entries = Vec::new();
        loop {
            let first = self.next.fetch_add(STRIDE, Ordering::Relaxed);
            if first >= self.items.len() || self.stop.load(Ordering::Relaxed) {
                return Ok(WorkerDone { sink: worker.sink, entries, report: worker.report });
            }
            for index in first..(first + STRIDE).min(self.items.len()) {
                let item = &self.items[index];
                match worker.item(item) {
                    Ok(entry) => entries.push((index, entry)),
                    Err(StoreError::Io(failure))
                        if failure.kind() == std::io::ErrorKind::NotFound
                            && failure.path.starts_with(self.job.source) =>
                    {
                        worker.report.vanished.push(escape(&item.path));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

struct Worker<'s, 'a> {
    workers: &'s Workers<'a>,
    reader: FileReader,
    sink: Sink<'a>,
    report: CommitReport,
}

impl Worker<'_, '_> {
    fn item(&mut self, item: &Item) -> Result<SnapshotEntry, StoreError> {
        let path = self.workers.job.source.join(&item.path);
        if item.kind == ItemKind::File {
            return self.file(item, &path);
        }
        let stat = rustix::fs::lstat(&path).map_err(io("read the state of", &path))?;
        let kind = if item.kind == ItemKind::Directory {
            EntryKind::Directory
        } else {
            EntryKind::Link { to: escape(&std::fs::read_link(&path).map_err(io("read link", &path))?) }
        };
        Ok(entry(item, &stat, kind))
    }

    fn file(&mut self, item: &Item, path: &Path) -> Result<SnapshotEntry, StoreError> {
        let objects = std::cell::RefCell::new(Vec::new());
        let Self { workers, reader, sink, report } = self;
        let put = |chunk: &[u8], times: u64| {
            let id = workers.store.settings.hash.name(chunk);
            if snapshot::push(&mut objects.borrow_mut(), id, times) {
                workers.names.take(path, 1)?;
            }
            workers.bytes.fetch_add(chunk.len() as u64 * times, Ordering::Relaxed);
            workers.put(sink, id, chunk, report)
        };
        let reading = reader.read(path, || objects.borrow_mut().clear(), put, || workers.check_stop())?;
        workers.names.take(path, reading.holes.len() as u64)?;
        self.report.files += 1;
        self.report.bytes += reading.size;
        if reading.changed {
            self.report.changed.push(escape(&item.path));
        }
        let (objects, holes) = (objects.into_inner(), reading.holes);
        let kind = EntryKind::File { size: reading.size, objects, holes, changed: reading.changed };
        Ok(entry(item, &reading.stat, kind))
    }
}

impl Workers<'_> {
    fn check_stop(&self) -> Result<(), StoreError> {
        if self.stop.load(Ordering::Relaxed) { Err(StoreError::Interrupted) } else { Ok(()) }
    }

    /// Stores an object unless this commit already has, or the store holds the same bytes.
    fn put(
        &self,
        sink: &mut Sink<'_>,
        id: ObjectId,
        chunk: &[u8],
        report: &mut CommitReport,
    ) -> Result<(), StoreError> {
        if !self.seen.insert(id) {
            return Ok(());
        }
        let packed = self.packed(&id, chunk);
        if packed == LooseObjectState::Whole {
            return Ok(());
        }
        let loose = sink.holds(&id, chunk);
        if loose == LooseObjectState::Whole {
            return Ok(());
        }
        report.new_objects += 1;
        report.new_bytes += chunk.len() as u64;
        report.damaged_objects += u64::from(packed == LooseObjectState::Damaged || loose == LooseObjectState::Damaged);
        self.timed_put(sink, id, chunk, loose == LooseObjectState::Damaged, report)
    }

    /// Checks whether a pack holds these bytes under this name. Records packs that hold others.
    fn packed(&self, id: &ObjectId, chunk: &[u8]) -> LooseObjectState {
        let mut held = LooseObjectState::Absent;
        for (pack, entry) in self.store.copies(id) {
            let file = &self.store.packs[pack];
            let is_whole = entry.length as usize == chunk.len()
                && file.has_header(&entry)
                && file.read(&entry).is_ok_and(|found| found == chunk);
            if is_whole {
                return LooseObjectState::Whole;
            }
            held = LooseObjectState::Damaged;
            self.damaged.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(pack);
        }
        held
    }

    fn timed_put(
        &self,
        sink: &mut Sink<'_>,
        id: ObjectId,
        chunk: &[u8],
        replaces: bool,
        report: &mut CommitReport,
    ) -> Result<(), StoreError> {
        let Some(limit) = self.job.options.log_slower_than else { return sink.put(id, chunk, replaces) };
        let begun = Instant::now();
        sink.put(id, chunk, replaces)?;
        let took = begun.elapsed();
        if took > limit {
            report.slow_objects.push(SlowObject {
                object: id,
                bytes: chunk.len() as u64,
                write_ms: took.as_secs_f64() * 1e3,
                at_seconds: self.job.started.elapsed().as_secs_f64(),
            });
        }
        Ok(())
    }
}

fn entry(item: &Item, stat: &Stat, kind: EntryKind) -> SnapshotEntry {
    SnapshotEntry {
        path: escape(&item.path),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
        kind,
    }
}

/// Objects of this commit, in shards to reduce contention.
struct MetObjects(Vec<Mutex<HashSet<ObjectId>>>);

impl MetObjects {
    fn new() -> Self {
        Self((0..64).map(|_| Mutex::default()).collect())
    }

    fn insert(&self, id: ObjectId) -> bool {
        let part = &self.0[usize::from(id.as_bytes()[0]) % self.0.len()];
        part.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(id)
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|part| part.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).len() as u64).sum()
    }
}
