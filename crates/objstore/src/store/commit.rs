//! Commits a directory.

use super::loose::LooseWriter;
use super::pack::Pack;
use super::reading::FileReader;
use super::sink::Sink;
use super::snapshot::{self, Entry, EntryKind, Header, escape};
use super::space::Names;
use super::walk::{Item, ItemKind, walk};
use super::{Layout, Store, sync_directory, write_durably};
use crate::error::{StoreError, io};
use crate::object_id::ObjectId;
use rustix::fs::Stat;
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Progress;
use senesce_core::units::Bytes;
use serde::Serialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How to commit.
#[derive(Debug, Clone, Copy)]
pub struct CommitOptions {
    /// How new objects are laid down.
    pub layout: Layout,
    /// Threads that read, hash and write (at least 1).
    pub threads: usize,
    /// Objects whose write takes longer are listed.
    pub log_slower_than: Option<Duration>,
}

/// An object whose write took long.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowObject {
    /// The object.
    pub object: ObjectId,
    /// Its bytes.
    pub bytes: u64,
    /// Time of its write.
    pub write_ms: f64,
    /// When, since the commit began.
    pub at_seconds: f64,
}

/// What a commit did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CommitReport {
    /// Number of the snapshot.
    pub snapshot: u64,
    /// Files in it.
    pub files: u64,
    /// Objects its files consist of, each counted once.
    pub objects: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Objects that the store did not have.
    pub new_objects: u64,
    /// Their bytes.
    pub new_bytes: u64,
    /// Wall-clock time until everything was durable.
    pub elapsed_seconds: f64,
    /// Part of it spent after the last object was written: syncing, renaming, writing the snapshot.
    pub finish_seconds: f64,
    /// Objects slower than the limit that was asked for.
    pub slow_objects: Vec<SlowObject>,
    /// Files that changed at every attempt to read them; they are in the snapshot as they were read.
    pub changed: Vec<String>,
    /// Files that were gone when their turn came; they are not in the snapshot.
    pub vanished: Vec<String>,
    /// Sockets, pipes and devices, which a store does not hold.
    pub left_out: Vec<String>,
}

/// Commits `source` as the next snapshot. When it returns, everything is durable; when it does not, nothing of it is seen.
///
/// # Errors
/// [`StoreError::NoSource`] when `source` is no directory; [`StoreError::InUse`] while another process commits;
/// [`StoreError::NotAStore`] when a folder of the store is none; [`StoreError::Target`] when the names of all objects do not fit
/// into memory; [`StoreError::Interrupted`]; those of reading the source and of writing the store.
pub fn commit(
    store: &mut Store,
    source: &Path,
    options: &CommitOptions,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<CommitReport, StoreError> {
    let started = Instant::now();
    if !source.is_dir() {
        return Err(StoreError::NoSource(source.into()));
    }
    let _lock = store.lock()?;
    let last = store.snapshot_numbers()?.last().copied().unwrap_or(0);
    let number = last.checked_add(1).ok_or_else(|| StoreError::NotAStore {
        path: store.path().into(),
        problem: format!("its snapshot {last} has no next number"),
    })?;
    progress.phase("list", 0, "entries");
    let (items, others) = walk(source, store.path())?;
    progress.phase("commit", items.len() as u64, "entries");
    let shared = Shared::new(store, source, &items, options, started, progress);
    let done = shared.run(interrupt)?;
    let copied = Instant::now();
    let packs = publish(store, done.sinks)?;
    let header = Header {
        senesce_snapshot: snapshot::FORMAT,
        number,
        created_unix: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        source: escape(source),
        hash: store.settings.hash,
        chunker: store.settings.chunker,
    };
    let text = snapshot::encode(&header, &done.entries);
    write_durably(&store.snapshot_path(number), &store.path.join("staging/snapshot"), &text)?;
    for pack in packs {
        let pack = Pack::open(&pack, store.settings.hash)?;
        store.add_pack(pack);
    }
    let mut report = done.report;
    report.snapshot = number;
    report.left_out = others.iter().map(|path| escape(path)).collect();
    report.finish_seconds = copied.elapsed().as_secs_f64();
    report.elapsed_seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Puts what the threads wrote in place and makes it durable.
fn publish(store: &Store, sinks: Vec<Sink>) -> Result<Vec<PathBuf>, StoreError> {
    let (mut writers, mut packs) = (Vec::new(), Vec::new());
    for sink in sinks {
        match sink {
            Sink::Loose(writer) => writers.push(writer),
            Sink::Pack(sink) => packs.extend(sink.finish()?),
        }
    }
    if let Some(first) = writers.first() {
        first.sync()?;
        in_parallel(&mut writers, LooseWriter::publish)?;
        writers[0].sync()?;
    } else {
        sync_directory(&store.path.join("packs"))?;
    }
    Ok(packs)
}

fn in_parallel<T: Send>(
    items: &mut [T],
    work: impl Fn(&mut T) -> Result<(), StoreError> + Sync,
) -> Result<(), StoreError> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = items.iter_mut().map(|item| scope.spawn(move || work(item))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// What the threads of a commit share.
struct Shared<'a> {
    store: &'a Store,
    source: &'a Path,
    items: &'a [Item],
    options: &'a CommitOptions,
    started: Instant,
    progress: &'a dyn Progress,
    seen: Seen,
    next: AtomicUsize,
    bytes: AtomicU64,
    names: Names,
    stop: AtomicBool,
}

/// What came of all threads.
struct Done {
    sinks: Vec<Sink>,
    entries: Vec<Entry>,
    report: CommitReport,
}

/// What came of one thread.
struct WorkerDone {
    sink: Sink,
    entries: Vec<(usize, Entry)>,
    report: CommitReport,
}

/// Items taken at a time, so that threads rarely meet at the counter.
const STRIDE: usize = 16;

impl<'a> Shared<'a> {
    fn new(
        store: &'a Store,
        source: &'a Path,
        items: &'a [Item],
        options: &'a CommitOptions,
        started: Instant,
        progress: &'a dyn Progress,
    ) -> Self {
        let (seen, next, bytes, stop) = (Seen::new(), AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self { store, source, items, options, started, progress, seen, next, bytes, names: Names::new(), stop }
    }

    /// Runs the threads, showing progress, until all are done.
    fn run(&self, interrupt: &Interrupt) -> Result<Done, StoreError> {
        let threads = self.options.threads.max(1);
        let outcomes: Vec<Result<WorkerDone, StoreError>> = std::thread::scope(|scope| {
            let (alive, ended) = channel::<()>();
            let workers: Vec<_> = (0..threads)
                .map(|number| {
                    let alive = alive.clone();
                    scope.spawn(move || {
                        let _alive = alive;
                        self.work(number).inspect_err(|_| self.stop.store(true, Ordering::Relaxed))
                    })
                })
                .collect();
            drop(alive);
            while ended.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
                self.show();
                if interrupt.requested() {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        self.show();
        let workers = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(StoreError::Interrupted);
        }
        Ok(self.merge(workers))
    }

    fn merge(&self, workers: Vec<WorkerDone>) -> Done {
        let mut report = CommitReport { objects: self.seen.count(), ..CommitReport::default() };
        let (mut sinks, mut entries) = (Vec::new(), Vec::new());
        for worker in workers {
            report.files += worker.report.files;
            report.bytes += worker.report.bytes;
            report.new_objects += worker.report.new_objects;
            report.new_bytes += worker.report.new_bytes;
            report.slow_objects.extend(worker.report.slow_objects);
            report.changed.extend(worker.report.changed);
            report.vanished.extend(worker.report.vanished);
            sinks.push(worker.sink);
            entries.extend(worker.entries);
        }
        entries.sort_by_key(|(index, _)| *index);
        report.slow_objects.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
        Done { sinks, entries: entries.into_iter().map(|(_, entry)| entry).collect(), report }
    }

    fn show(&self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let rate = bytes as f64 / self.started.elapsed().as_secs_f64().max(1e-3) / f64::from(1 << 20);
        let done = self.next.load(Ordering::Relaxed).min(self.items.len());
        self.progress.position(done as u64, &format!("{}, {rate:.1} MiB/s", Bytes(bytes)));
    }

    fn work(&self, number: usize) -> Result<WorkerDone, StoreError> {
        let mut worker = Worker {
            shared: self,
            reader: FileReader::new(self.store.settings.chunker),
            sink: Sink::new(self.store, number, self.options)?,
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
                        if failure.kind() == std::io::ErrorKind::NotFound && failure.path.starts_with(self.source) =>
                    {
                        worker.report.vanished.push(escape(&item.path));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

struct Worker<'a> {
    shared: &'a Shared<'a>,
    reader: FileReader,
    sink: Sink,
    report: CommitReport,
}

impl Worker<'_> {
    fn item(&mut self, item: &Item) -> Result<Entry, StoreError> {
        let path = self.shared.source.join(&item.path);
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

    fn file(&mut self, item: &Item, path: &Path) -> Result<Entry, StoreError> {
        let objects = std::cell::RefCell::new(Vec::new());
        let Self { shared, reader, sink, report } = self;
        let reading = reader.read(
            path,
            || objects.borrow_mut().clear(),
            |chunk| {
                let id = shared.store.settings.hash.name(chunk);
                objects.borrow_mut().push(id);
                shared.names.take(path)?;
                shared.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                if !shared.seen.insert(id) || shared.store.index.contains_key(&id) || sink.has(&id, chunk.len()) {
                    return Ok(());
                }
                report.new_objects += 1;
                report.new_bytes += chunk.len() as u64;
                shared.timed_put(sink, id, chunk, report)
            },
        )?;
        self.report.files += 1;
        self.report.bytes += reading.size;
        if reading.changed {
            self.report.changed.push(escape(&item.path));
        }
        let kind = EntryKind::File { size: reading.size, objects: objects.into_inner(), changed: reading.changed };
        Ok(entry(item, &reading.stat, kind))
    }
}

impl Shared<'_> {
    fn timed_put(
        &self,
        sink: &mut Sink,
        id: ObjectId,
        chunk: &[u8],
        report: &mut CommitReport,
    ) -> Result<(), StoreError> {
        let Some(limit) = self.options.log_slower_than else { return sink.put(id, chunk) };
        let begun = Instant::now();
        sink.put(id, chunk)?;
        let took = begun.elapsed();
        if took > limit {
            report.slow_objects.push(SlowObject {
                object: id,
                bytes: chunk.len() as u64,
                write_ms: took.as_secs_f64() * 1e3,
                at_seconds: self.started.elapsed().as_secs_f64(),
            });
        }
        Ok(())
    }
}

fn entry(item: &Item, stat: &Stat, kind: EntryKind) -> Entry {
    Entry {
        path: escape(&item.path),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
        kind,
    }
}

/// The objects this commit has met, in parts so that threads rarely wait for each other.
struct Seen(Vec<Mutex<HashSet<ObjectId>>>);

impl Seen {
    fn new() -> Self {
        Self((0..64).map(|_| Mutex::default()).collect())
    }

    /// Whether the object is met for the first time.
    fn insert(&self, id: ObjectId) -> bool {
        let part = &self.0[usize::from(id.as_bytes()[0]) % self.0.len()];
        part.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(id)
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|part| part.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).len() as u64).sum()
    }
}
