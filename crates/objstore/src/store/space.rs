//! Checks for enough space before a checkout. A small store may declare more content than any disk holds.

use super::snapshot::{EntryKind, Snapshot, SnapshotEntry, data_bytes};
use crate::error::{StoreError, io};
use rustix::fs::StatVfs;
use senesce_core::machine::memory_available;
use senesce_core::units::Bytes;
use senesce_volume::TargetError;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum memory per object name while a snapshot is created: in a list, and as text.
const BYTES_PER_NAME: u64 = 128;

/// Maximum bytes counted per directory: network file systems report their request size as block size.
const MOST_OF_DIRECTORY: u64 = 4096;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SpaceNeed {
    bytes: u64,
    inodes: u64,
}

impl SpaceNeed {
    fn of(snapshot: &Snapshot, block: u64) -> Self {
        let mut need = Self::default();
        let mut directories = HashSet::new();
        for entry in &snapshot.entries {
            match &entry.kind {
                EntryKind::File { size, holes, .. } => {
                    need.bytes = need.bytes.saturating_add(data_bytes(*size, holes).unwrap_or(*size));
                }
                EntryKind::Link { .. } | EntryKind::Directory => {}
            }
            need.inodes += u64::from(!matches!(entry.kind, EntryKind::Directory));
            note_directories(entry, &mut directories);
        }
        let directories = directories.len() as u64;
        Self {
            bytes: need.bytes.saturating_add(directories.saturating_mul(block)),
            inodes: need.inodes.saturating_add(directories),
        }
    }
}

/// Directories created for an entry, possibly thousands: stored as digests of their paths.
fn note_directories(entry: &SnapshotEntry, directories: &mut HashSet<u64>) {
    let Some(path) = entry.safe_path() else { return };
    let folder = if matches!(entry.kind, EntryKind::Directory) { Some(&*path) } else { path.parent() };
    let names = folder.into_iter().flat_map(Path::iter);
    let below = |above: &mut u64, name: &OsStr| {
        let mut hasher = DefaultHasher::new();
        (*above, name).hash(&mut hasher);
        *above = hasher.finish();
        Some(*above)
    };
    directories.extend(names.scan(0, below));
}

/// Refuses a snapshot that exceeds the free space of the destination, before anything is written.
pub(super) fn check(snapshot: &Snapshot, destination: &Path) -> Result<(), StoreError> {
    let host = rustix::fs::statvfs(destination).map_err(io("determine the space in", destination))?;
    fits(SpaceNeed::of(snapshot, host.f_frsize.min(MOST_OF_DIRECTORY)), &host)
        .map_err(|(needed, free)| missing(&format!("{} for the checkout", destination.display()), needed, free))
}

fn fits(need: SpaceNeed, host: &StatVfs) -> Result<(), (String, String)> {
    let free = Bytes(host.f_bavail.saturating_mul(host.f_frsize));
    match () {
        // Some file systems do not report sizes, for example one in memory without a limit.
        () if host.f_blocks > 0 && need.bytes > free.0 => Err((Bytes(need.bytes).to_string(), free.to_string())),
        // Some file systems create inodes on demand and report none.
        () if host.f_files > 0 && need.inodes > host.f_favail => {
            Err((format!("{} inodes", need.inodes), host.f_favail.to_string()))
        }
        () => Ok(()),
    }
}

fn missing(place: &str, needed: String, free: String) -> StoreError {
    TargetError::missing(
        format!("space in {place}: the snapshot needs {needed}, but only {free} are free; it"),
        "free some space or choose another path; no option allows it",
    )
    .into()
}

/// Object names of a commit, which are held in memory; consecutive occurrences count once.
#[derive(Debug)]
pub(super) struct Names {
    taken: AtomicU64,
    most: u64,
}

impl Names {
    pub(crate) fn new() -> Self {
        let most = memory_available().map_or(u64::MAX, |memory| memory.0 / 2 / BYTES_PER_NAME);
        Self { taken: AtomicU64::new(0), most }
    }

    pub(crate) fn take(&self, path: &Path, count: u64) -> Result<(), StoreError> {
        if self.taken.fetch_add(count, Ordering::Relaxed) < self.most {
            return Ok(());
        }
        let what = format!("memory for the names of all objects, exhausted at {}; it", path.display());
        let remedy = "omit the file, commit fewer files, or create a store with larger chunks";
        Err(TargetError::missing(what, remedy).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(entries: &[(&str, EntryKind)]) -> Snapshot {
        let entry = |(path, kind): &(&str, EntryKind)| {
            let (path, kind) = ((*path).into(), kind.clone());
            SnapshotEntry { path, mode: 0o644, uid: 0, gid: 0, modified: (0, 0), kind }
        };
        Snapshot { number: 1, header: None, entries: entries.iter().map(entry).collect(), problems: Vec::new() }
    }

    #[test]
    fn declared_content_and_directories_count() {
        let file = |size| EntryKind::File { size, objects: Vec::new(), holes: Vec::new(), changed: false };
        let link = EntryKind::Link { to: "x".into() };
        let entries = [("a", EntryKind::Directory), ("a/f", file(10)), ("b/c/d/l", link), ("b/g", file(u64::MAX))];
        let found = SpaceNeed::of(&snapshot(&entries), 4096);
        assert_eq!(found, SpaceNeed { bytes: u64::MAX, inodes: 3 + 4 });
        assert_eq!(SpaceNeed::of(&snapshot(&entries[..3]), 4096), SpaceNeed { bytes: 10 + 4 * 4096, inodes: 2 + 4 });
        let long = "d/".repeat(2000) + "f";
        assert_eq!(SpaceNeed::of(&snapshot(&[(&long, file(0))]), 4096).inodes, 2001);
    }

    #[test]
    fn object_names_are_limited_by_memory() {
        let names = Names { taken: AtomicU64::new(0), most: 2 };
        assert!(names.take(Path::new("a"), 1).is_ok() && names.take(Path::new("b"), 1).is_ok());
        assert!(names.take(Path::new("c"), 1).unwrap_err().to_string().contains("exhausted at c"));
    }

    #[test]
    fn file_system_without_inode_count_has_enough() {
        let mut host = rustix::fs::statvfs("/").unwrap();
        (host.f_bavail, host.f_frsize, host.f_files, host.f_favail) = (10, 4096, 0, 0);
        assert!(fits(SpaceNeed { bytes: 40_960, inodes: 1000 }, &host).is_ok());
        assert!(fits(SpaceNeed { bytes: 40_961, inodes: 1 }, &host).is_err());
        host.f_blocks = 0;
        assert!(fits(SpaceNeed { bytes: 40_961, inodes: 1 }, &host).is_ok());
        (host.f_files, host.f_favail) = (100, 50);
        assert!(fits(SpaceNeed { bytes: 0, inodes: 50 }, &host).is_ok());
        assert!(fits(SpaceNeed { bytes: 0, inodes: 51 }, &host).is_err());
    }
}
