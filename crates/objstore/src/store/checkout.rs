//! Restores a snapshot as files.

use super::snapshot::{EntryKind, SnapshotEntry, unescape};
use super::writing::SparseWriter;
use super::{Store, make_directory, space};
use crate::error::{StoreError, io};
use rayon::prelude::*;
use senesce_core::beneath::{self, Attributes, ConfinedDirectory};
use senesce_core::failure::errno_message;
use senesce_core::heartbeat::Heartbeat;
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Progress;
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A file that could not be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnrestoredFile {
    pub path: String,
    pub problem: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CheckoutReport {
    pub snapshot: u64,
    pub files: u64,
    /// Bytes of these files, including holes.
    pub bytes: u64,
    /// Files that could not be restored; nothing of them is left at the destination.
    pub lost: Vec<UnrestoredFile>,
    /// Files and directories whose setuid, setgid or sticky bits were omitted.
    pub stripped: u64,
    /// Problems of the snapshot itself; entries on damaged lines are lost without a name.
    pub snapshot_problems: Vec<String>,
    /// Wall-clock time. The files are in the page cache, not synced.
    pub elapsed_seconds: f64,
    /// Set if too much time was lost to a stop: the elapsed seconds are invalid then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_lost: Option<senesce_core::heartbeat::LostTime>,
}

/// Attributes restored in addition to content, owner (as root), permissions and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckoutOptions {
    /// Setuid, setgid and sticky bits. An untrusted store could create programs that run as root.
    pub special_bits: bool,
}

/// Checks out a snapshot (default: the latest) into `destination`, which must be new or empty; a new one gets mode 0700, because
/// the committed directory may have been private. Writes everything intact and lists the rest. No name or link of the snapshot
/// leads out of the destination, and no file becomes longer than the snapshot states.
pub fn checkout(
    store: &Store,
    number: Option<u64>,
    destination: &Path,
    options: CheckoutOptions,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<CheckoutReport, StoreError> {
    let (heartbeat, started) = (Heartbeat::begin(), Instant::now());
    let snapshot = store.snapshot(number)?;
    make_directory(destination)?;
    if fs::read_dir(destination).map_err(io("list", destination))?.next().is_some() {
        return Err(StoreError::DestinationNotEmpty(destination.into()));
    }
    space::check(&snapshot, destination)?;
    progress.phase("checkout", snapshot.entries.len() as u64, "entries");
    let beneath = ConfinedDirectory::open(destination).map_err(io("open directory", destination))?;
    let (done, stripped) = (AtomicU64::new(0), AtomicU64::new(0));
    let writer = Writer { store, beneath, options, progress, interrupt, done, stripped };
    let is = |wanted: fn(&EntryKind) -> bool| snapshot.entries.iter().filter(move |entry| wanted(&entry.kind));
    let directories: Vec<&SnapshotEntry> = is(|kind| matches!(kind, EntryKind::Directory)).collect();
    let mut lost: Vec<UnrestoredFile> = directories.iter().filter_map(|entry| writer.directory(entry)).collect();
    let files: Vec<&SnapshotEntry> = is(|kind| matches!(kind, EntryKind::File { .. })).collect();
    let outcomes: Vec<Result<u64, UnrestoredFile>> = files.par_iter().map(|entry| writer.file(entry)).collect();
    let links: Vec<UnrestoredFile> =
        is(|kind| matches!(kind, EntryKind::Link { .. })).filter_map(|entry| writer.link(entry)).collect();
    if interrupt.requested() {
        return Err(StoreError::Interrupted);
    }
    let mut report = CheckoutReport {
        snapshot: snapshot.number,
        snapshot_problems: snapshot.problems.clone(),
        ..CheckoutReport::default()
    };
    for outcome in outcomes {
        match outcome {
            Ok(bytes) => {
                report.files += 1;
                report.bytes += bytes;
            }
            Err(file) => lost.push(file),
        }
    }
    lost.extend(links);
    // Times and modes of directories last, deepest first, because writing into them changes the times.
    for entry in directories.iter().rev() {
        lost.extend(writer.finish_directory(entry));
    }
    report.lost = lost;
    report.stripped = writer.stripped.into_inner();
    report.elapsed_seconds = started.elapsed().as_secs_f64();
    report.time_lost = heartbeat.end().lost();
    Ok(report)
}

struct Writer<'a> {
    store: &'a Store,
    beneath: ConfinedDirectory,
    options: CheckoutOptions,
    progress: &'a dyn Progress,
    interrupt: &'a Interrupt,
    done: AtomicU64,
    stripped: AtomicU64,
}

impl Writer<'_> {
    fn directory(&self, entry: &SnapshotEntry) -> Option<UnrestoredFile> {
        if self.interrupt.requested() {
            return None;
        }
        let made = place(entry)
            .and_then(|path| self.beneath.create_dir_all(&path).map_err(|error| lost(entry, errno_message(&error))));
        made.err()
    }

    fn file(&self, entry: &SnapshotEntry) -> Result<u64, UnrestoredFile> {
        if self.interrupt.requested() {
            return Ok(0);
        }
        let path = place(entry)?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            // The directory's own line in the snapshot may be damaged.
            self.beneath.create_dir_all(parent).map_err(|error| lost(entry, errno_message(&error)))?;
        }
        let file = self.beneath.create_new(&path).map_err(|error| lost(entry, errno_message(&error)))?;
        let bytes = self.content(entry, file).inspect_err(|_| drop(self.beneath.remove_file(&path)))?;
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(1000) {
            self.progress.position(done, "");
        }
        Ok(bytes)
    }

    fn content(&self, entry: &SnapshotEntry, file: File) -> Result<u64, UnrestoredFile> {
        let EntryKind::File { size, objects, holes, .. } = &entry.kind else { return Ok(0) };
        let mut writer = SparseWriter::new(&file, *size, holes).map_err(|problem| lost(entry, problem))?;
        for run in objects {
            let object = run.object;
            let data =
                self.store.read(&object).map_err(|problem| lost(entry, format!("object {object}: {problem}")))?;
            let stop = || self.interrupt.requested();
            writer.write(&data, run.times, stop).map_err(|problem| lost(entry, problem))?;
        }
        let written = writer.finish().map_err(|problem| lost(entry, problem))?;
        beneath::set(&file, &self.attributes(entry)).map_err(|error| not_set(entry, &error))?;
        Ok(written)
    }

    fn link(&self, entry: &SnapshotEntry) -> Option<UnrestoredFile> {
        let EntryKind::Link { to } = &entry.kind else { return None };
        if self.interrupt.requested() {
            return None;
        }
        let make = || {
            let path = place(entry)?;
            let to = unescape(to).ok_or_else(|| lost(entry, "its target is damaged"))?;
            self.beneath.symlink(&to, &path).map_err(|error| lost(entry, errno_message(&error)))?;
            self.beneath.set_link(&path, &self.attributes(entry)).map_err(|error| not_set(entry, &error))
        };
        make().err()
    }

    fn finish_directory(&self, entry: &SnapshotEntry) -> Option<UnrestoredFile> {
        // Failures to create it were already reported.
        let path = entry.safe_path()?;
        self.beneath.set_directory(&path, &self.attributes(entry)).err().map(|error| not_set(entry, &error))
    }

    fn attributes(&self, entry: &SnapshotEntry) -> Attributes {
        const SPECIAL: u32 = 0o7000;
        let is_link = matches!(entry.kind, EntryKind::Link { .. });
        if entry.mode & SPECIAL != 0 && !self.options.special_bits && !is_link {
            self.stripped.fetch_add(1, Ordering::Relaxed);
        }
        let kept = if self.options.special_bits { 0o7777 } else { 0o777 };
        let is_root = rustix::process::geteuid().is_root();
        Attributes {
            owner: is_root.then_some((entry.uid, entry.gid)),
            mode: entry.mode & kept,
            modified: entry.modified,
        }
    }
}

fn place(entry: &SnapshotEntry) -> Result<PathBuf, UnrestoredFile> {
    entry.safe_path().ok_or_else(|| lost(entry, "its path is outside the destination"))
}

fn not_set(entry: &SnapshotEntry, error: &std::io::Error) -> UnrestoredFile {
    lost(entry, format!("set owner, mode and times: {}", errno_message(error)))
}

fn lost(entry: &SnapshotEntry, problem: impl ToString) -> UnrestoredFile {
    UnrestoredFile { path: entry.path.clone(), problem: problem.to_string() }
}
