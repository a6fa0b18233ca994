use super::loose::LooseWriter;
use super::pack::Pack;
use super::sink::Sink;
use super::snapshot::{self, Header, escape};
use super::staging::PublishedFiles;
use super::walk::walk;
use super::workers::{WorkerResult, Workers};
use super::{Layout, Store, sync_directory, write_durably};
use crate::error::StoreError;
use crate::object_id::ObjectId;
use senesce_core::heartbeat::Heartbeat;
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Progress;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Copy)]
pub struct CommitOptions {
    pub layout: Layout,
    /// Threads that read, hash and write (at least 1).
    pub threads: usize,
    pub log_slower_than: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowObject {
    pub object: ObjectId,
    pub bytes: u64,
    /// When, since the start of the commit.
    pub write_ms: f64,
    /// When, since the commit began.
    pub at_seconds: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CommitReport {
    pub snapshot: u64,
    pub files: u64,
    /// Objects of its files, each counted once.
    pub objects: u64,
    pub bytes: u64,
    /// Objects that were new to the store.
    pub new_objects: u64,
    pub new_bytes: u64,
    /// Objects among the new ones that the store had in damaged form.
    pub damaged_objects: u64,
    /// Damaged packs, with their new names: their intact objects were copied into new packs.
    pub damaged_packs: Vec<PathBuf>,
    /// Why damaged packs were left in place.
    pub not_salvaged: Option<String>,
    /// Wall-clock time until everything was durable.
    pub elapsed_seconds: f64,
    /// Set if too much time was lost to a stop: the elapsed seconds are invalid then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_lost: Option<senesce_core::heartbeat::LostTime>,
    /// Part after the last object was written: syncing, renaming, writing the snapshot.
    pub finish_seconds: f64,
    /// Objects slower than the requested limit.
    pub slow_objects: Vec<SlowObject>,
    /// Files that changed at every attempt to read them; the snapshot contains them as read.
    pub changed: Vec<String>,
    /// Files that disappeared before they were read; they are not in the snapshot.
    pub vanished: Vec<String>,
    /// Sockets, pipes and devices, which are not stored.
    pub left_out: Vec<String>,
}

/// Commits `source` as the next snapshot, atomically and durably. Compares existing objects with the source, and stores damaged
/// ones again.
pub fn commit(
    store: &mut Store,
    source: &Path,
    options: &CommitOptions,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<CommitReport, StoreError> {
    let (heartbeat, started) = (Heartbeat::begin(), Instant::now());
    if !source.is_dir() {
        return Err(StoreError::NoSource(source.into()));
    }
    let _lock = store.lock()?;
    let placed = PublishedFiles::default();
    let job = Job { source, options, progress, interrupt, placed: &placed, started };
    let outcome = job.run(store);
    if let Err(error) = &outcome {
        store.clean_up(placed, error);
    }
    let mut report = outcome?;
    report.time_lost = heartbeat.end().lost();
    Ok(report)
}

pub(super) struct Job<'a> {
    pub source: &'a Path,
    pub options: &'a CommitOptions,
    pub progress: &'a dyn Progress,
    pub interrupt: &'a Interrupt,
    pub placed: &'a PublishedFiles,
    pub started: Instant,
}

impl Job<'_> {
    fn run(&self, store: &mut Store) -> Result<CommitReport, StoreError> {
        let last = store.snapshot_numbers()?.last().copied().unwrap_or(0);
        let number = last.checked_add(1).ok_or_else(|| StoreError::NotAStore {
            path: store.path().into(),
            problem: format!("its last snapshot, {last}, has the maximum number"),
        })?;
        self.progress.phase("list", 0, "entries");
        let (items, others) = walk(self.source, store.path(), self.interrupt)?;
        self.progress.phase("commit", items.len() as u64, "entries");
        let WorkerResult { sinks, entries, mut report, damaged } = Workers::new(store, &items, self).run()?;
        let copied = Instant::now();
        let packs = self.publish(store, sinks)?;
        let text = snapshot::encode(&self.header(store, number), &entries);
        self.check_interrupt()?;
        write_durably(&store.snapshot_path(number), &store.path.join("staging/snapshot"), &text)?;
        report.snapshot = number;
        report.left_out = others.iter().map(|path| escape(path)).collect();
        self.take_in(store, &packs, damaged, &mut report)?;
        report.finish_seconds = copied.elapsed().as_secs_f64();
        report.elapsed_seconds = self.started.elapsed().as_secs_f64();
        Ok(report)
    }

    fn header(&self, store: &Store, number: u64) -> Header {
        Header {
            senesce_snapshot: snapshot::FORMAT,
            number,
            created_unix: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            source: escape(self.source),
            hash: store.settings.hash,
            chunker: store.settings.chunker,
        }
    }

    fn check_interrupt(&self) -> Result<(), StoreError> {
        if self.interrupt.requested() { Err(StoreError::Interrupted) } else { Ok(()) }
    }

    /// Publishes the objects of all threads and makes them durable.
    fn publish(&self, store: &Store, sinks: Vec<Sink<'_>>) -> Result<Vec<PathBuf>, StoreError> {
        let (mut writers, mut packs) = (Vec::new(), Vec::new());
        for sink in sinks {
            self.check_interrupt()?;
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

    /// Adds the new packs to the open store, and salvages damaged ones. The snapshot is already durable, so failures are only
    /// reported.
    fn take_in(
        &self,
        store: &mut Store,
        packs: &[PathBuf],
        damaged: BTreeSet<usize>,
        report: &mut CommitReport,
    ) -> Result<(), StoreError> {
        for pack in packs {
            store.add_pack(Pack::open(pack, store.settings.hash)?);
        }
        match store.salvage(damaged, packs, self.interrupt) {
            Ok(kept) => report.damaged_packs = kept,
            Err(StoreError::Interrupted) => report.not_salvaged = Some("interrupted".into()),
            Err(error) => report.not_salvaged = Some(error.to_string()),
        }
        if report.not_salvaged.is_some() { store.empty_staging() } else { Ok(()) }
    }
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
