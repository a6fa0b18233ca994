//! Writes a snapshot back as files.

use super::Store;
use super::snapshot::{Entry, Kind, unescape};
use crate::error::{StoreError, io};
use rayon::prelude::*;
use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Progress;
use serde::Serialize;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A file that could not be had back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Its path in the snapshot.
    pub path: String,
    /// Why.
    pub problem: String,
}

/// What a checkout did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CheckoutReport {
    /// The snapshot.
    pub snapshot: u64,
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Files that could not be had back; nothing of them was left at the destination.
    pub lost: Vec<Lost>,
    /// What is wrong with the snapshot itself; entries on damaged lines are lost without a name.
    pub snapshot_problems: Vec<String>,
    /// Wall-clock time. The files are in the page cache, not synced.
    pub elapsed_seconds: f64,
}

/// Checks out a snapshot (the latest without a number) into `destination`, which must be new or empty. Whatever is whole is
/// written, whatever is not is listed.
pub fn checkout(
    store: &Store,
    number: Option<u64>,
    destination: &Path,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<CheckoutReport, StoreError> {
    let started = Instant::now();
    let snapshot = store.snapshot(number)?;
    fs::create_dir_all(destination).map_err(io("make directory", destination))?;
    if fs::read_dir(destination).map_err(io("list", destination))?.next().is_some() {
        return Err(StoreError::DestinationNotEmpty(destination.into()));
    }
    progress.phase("checkout", snapshot.entries.len() as u64, "entries");
    let writer = Writer { store, destination, progress, interrupt, done: AtomicU64::new(0) };
    // Directories first, links last: so no file is ever written through a link of the snapshot.
    let is = |wanted: fn(&Kind) -> bool| snapshot.entries.iter().filter(move |entry| wanted(&entry.kind));
    let directories: Vec<&Entry> = is(|kind| matches!(kind, Kind::Directory)).collect();
    let mut lost: Vec<Lost> = directories.iter().filter_map(|entry| writer.directory(entry)).collect();
    let files: Vec<&Entry> = is(|kind| matches!(kind, Kind::File { .. })).collect();
    let outcomes: Vec<Result<u64, Lost>> = files.par_iter().map(|entry| writer.file(entry)).collect();
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
    lost.extend(is(|kind| matches!(kind, Kind::Link { .. })).filter_map(|entry| writer.link(entry)));
    // Times and modes of directories last, deepest first: writing into them has changed the times.
    for entry in directories.iter().rev() {
        lost.extend(entry.safe_path().and_then(|path| writer.finish(entry, &destination.join(path))));
    }
    report.lost = lost;
    report.elapsed_seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

struct Writer<'a> {
    store: &'a Store,
    destination: &'a Path,
    progress: &'a dyn Progress,
    interrupt: &'a Interrupt,
    done: AtomicU64,
}

impl Writer<'_> {
    fn place(&self, entry: &Entry) -> Result<PathBuf, Lost> {
        let path = entry.safe_path().ok_or_else(|| lost(entry, "its path leads out of the destination"))?;
        Ok(self.destination.join(path))
    }

    fn directory(&self, entry: &Entry) -> Option<Lost> {
        let outcome = self.place(entry).and_then(|path| fs::create_dir_all(path).map_err(|error| lost(entry, error)));
        outcome.err()
    }

    fn file(&self, entry: &Entry) -> Result<u64, Lost> {
        if self.interrupt.requested() {
            return Ok(0);
        }
        let path = self.place(entry)?;
        let bytes = self.content(entry, &path).inspect_err(|_| drop(fs::remove_file(&path)))?;
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(1000) {
            self.progress.position(done, "");
        }
        Ok(bytes)
    }

    fn content(&self, entry: &Entry, path: &Path) -> Result<u64, Lost> {
        let Kind::File { size, objects, .. } = &entry.kind else { return Ok(0) };
        if let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) {
            // The directory's own line in the snapshot was damaged.
            fs::create_dir_all(parent).map_err(|error| lost(entry, error))?;
        }
        let mut file = File::create_new(path).map_err(|error| lost(entry, error))?;
        let mut written = 0;
        for object in objects {
            let data = self.store.read(object).map_err(|problem| lost(entry, format!("object {object}: {problem}")))?;
            file.write_all(&data).map_err(|error| lost(entry, error))?;
            written += data.len() as u64;
        }
        if written != *size {
            return Err(lost(entry, format!("its objects hold {written} bytes instead of {size}")));
        }
        self.finish(entry, path).map_or(Ok(written), Err)
    }

    fn link(&self, entry: &Entry) -> Option<Lost> {
        let Kind::Link { to } = &entry.kind else { return None };
        let make = || {
            let path = self.place(entry)?;
            let to = unescape(to).ok_or_else(|| lost(entry, "its target is damaged"))?;
            std::os::unix::fs::symlink(to, &path).map_err(|error| lost(entry, error))?;
            self.finish(entry, &path).map_or(Ok(()), Err)
        };
        make().err()
    }

    /// Owner (as root), mode and times.
    fn finish(&self, entry: &Entry, path: &Path) -> Option<Lost> {
        let set = || -> rustix::io::Result<()> {
            if rustix::process::geteuid().is_root() {
                let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
                rustix::fs::chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            if !matches!(entry.kind, Kind::Link { .. }) {
                rustix::fs::chmod(path, Mode::from_raw_mode(entry.mode))?;
            }
            let time = Timespec { tv_sec: entry.modified.0, tv_nsec: entry.modified.1.into() };
            let times = Timestamps { last_access: time, last_modification: time };
            rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
        };
        set().err().map(|errno| lost(entry, format!("set owner, mode and times: {errno}")))
    }
}

fn lost(entry: &Entry, problem: impl ToString) -> Lost {
    Lost { path: entry.path.clone(), problem: problem.to_string() }
}
