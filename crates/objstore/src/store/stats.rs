//! Content and space usage of a store.

use super::Store;
use super::loose::{self, LooseFile};
use super::snapshot::EntryKind;
use crate::error::{StoreError, io};
use crate::occupancy;
use senesce_core::interrupt::Interrupt;
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StoreStats {
    pub hash: String,
    pub chunker: String,
    /// Location of loose objects.
    pub scheme: String,
    pub snapshots: u64,
    pub snapshot_bytes: u64,
    /// Loose and packed.
    pub objects: u64,
    pub object_bytes: u64,
    /// Bytes of the snapshots' files over bytes of the objects.
    pub deduplication: Option<f64>,
    pub loose_objects: u64,
    pub loose_directories: u64,
    /// Expected number of directories for this number of loose objects (occupancy law).
    pub loose_directories_expected: f64,
    pub packs: u64,
    /// Bytes on disk (blocks) of objects, packs, directories and staged files.
    pub disk_bytes: u64,
    /// Bytes on disk staged by a running or failed commit. The next commit removes them.
    pub staging_bytes: u64,
    /// Objects by size: upper bound (a power of two) and count.
    pub sizes: Vec<(u64, u64)>,
}

pub fn stats(store: &Store) -> Result<StoreStats, StoreError> {
    let settings = store.settings();
    let mut stats = StoreStats {
        hash: settings.hash.word().into(),
        chunker: settings.chunker.to_string(),
        scheme: settings.scheme.to_string(),
        packs: store.packs.len() as u64,
        ..StoreStats::default()
    };
    let mut sizes = BTreeMap::new();
    let mut count = |bytes: u64| {
        *sizes.entry(bytes.next_power_of_two()).or_insert(0) += 1;
        stats.objects += 1;
        stats.object_bytes += bytes;
    };
    for entry in store.packs.iter().flat_map(|pack| &pack.entries) {
        count(entry.length.into());
    }
    let mut loose_objects = 0;
    for found in loose::list(&store.path.join("objects"), settings.scheme, &Interrupt::new())? {
        let LooseFile::Object(_, path) = found else { continue };
        loose_objects += 1;
        count(std::fs::metadata(&path).map_err(io("read the size of", &path))?.len());
    }
    stats.sizes = sizes.into_iter().collect();
    stats.loose_objects = loose_objects;
    stats.loose_directories_expected = occupancy::directories(settings.scheme, loose_objects as f64);
    for folder in ["objects", "packs"] {
        let (directories, bytes) = disk_usage(&store.path.join(folder))?;
        stats.disk_bytes += bytes;
        stats.loose_directories += if folder == "objects" { directories } else { 0 };
    }
    stats.staging_bytes = store.staged_bytes()?;
    stats.disk_bytes += stats.staging_bytes;
    for number in store.snapshot_numbers()? {
        stats.snapshots += 1;
        for entry in store.snapshot(Some(number))?.entries {
            if let EntryKind::File { size, .. } = entry.kind {
                stats.snapshot_bytes = stats.snapshot_bytes.saturating_add(size);
            }
        }
    }
    if stats.object_bytes > 0 {
        stats.deduplication = Some(stats.snapshot_bytes as f64 / stats.object_bytes as f64);
    }
    Ok(stats)
}

/// Directories below `folder`, and the bytes of all blocks in and below it.
fn disk_usage(folder: &std::path::Path) -> Result<(u64, u64), StoreError> {
    let blocks = |path: &std::path::Path| {
        std::fs::symlink_metadata(path).map(|data| data.blocks() * 512).map_err(io("read the size of", path))
    };
    let (mut directories, mut bytes) = (0, blocks(folder)?);
    for entry in std::fs::read_dir(folder).map_err(io("list", folder))? {
        let entry = entry.map_err(io("list", folder))?;
        if entry.file_type().map_err(io("read the type of", &entry.path()))?.is_dir() {
            let (below, used) = disk_usage(&entry.path())?;
            directories += 1 + below;
            bytes += used;
        } else {
            bytes += blocks(&entry.path())?;
        }
    }
    Ok((directories, bytes))
}
