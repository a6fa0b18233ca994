//! Cleanup after a failed or killed commit.

use super::{FOLDER_MODE, Store};
use crate::error::{StoreError, io};
use crate::object_id::ObjectId;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Published objects and packs of a commit before its snapshot.
#[derive(Debug, Default)]
pub(super) struct PublishedFiles {
    pub packs: Mutex<Vec<PathBuf>>,
    pub objects: Mutex<Vec<ObjectId>>,
}

impl PublishedFiles {
    pub(crate) fn add<T>(list: &Mutex<Vec<T>>, more: impl IntoIterator<Item = T>) {
        list.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(more);
    }

    /// Removes them: no snapshot refers to them, and the disk is full.
    fn remove(self, store: &Store) {
        let packs = self.packs.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let objects = self.objects.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        // A pack that replaced an earlier one of its name is needed by earlier snapshots.
        let packs = packs.into_iter().filter(|path| store.packs.iter().all(|pack| pack.path != *path));
        for path in packs.chain(objects.iter().map(|id| store.loose_path(id))) {
            // Remaining files are intact, and the next commit uses them.
            let _ = fs::remove_file(path);
        }
    }
}

impl Store {
    /// Empties `staging`. The caller has the writers' lock, so the files there belong to a dead process.
    pub(super) fn empty_staging(&self) -> Result<(), StoreError> {
        let staging = self.path.join("staging");
        match fs::remove_dir_all(&staging) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io("empty", &staging)(error)),
            _ => {}
        }
        fs::DirBuilder::new().mode(FOLDER_MODE).create(&staging).map_err(io("make directory", &staging))
    }

    /// Removes staged files of a failed commit; if the disk is full, also its published objects and packs.
    pub(super) fn clean_up(&self, placed: PublishedFiles, error: &StoreError) {
        if error.is_full() {
            placed.remove(self);
        }
        // The original error is reported; the next commit empties it too.
        let _ = self.empty_staging();
    }

    pub(super) fn staged_bytes(&self) -> Result<u64, StoreError> {
        let staging = self.path.join("staging");
        if staging.symlink_metadata().is_err() {
            return Ok(0);
        }
        files_below(&staging)
    }
}

/// Returns the bytes on disk of the files below a directory. A commit may remove them concurrently.
fn files_below(folder: &Path) -> Result<u64, StoreError> {
    let gone = |error: &std::io::Error| error.kind() == ErrorKind::NotFound;
    let entries = match fs::read_dir(folder) {
        Err(error) if gone(&error) => return Ok(0),
        other => other.map_err(io("list", folder))?,
    };
    let mut bytes = 0;
    for entry in entries {
        let path = entry.map_err(io("list", folder))?.path();
        bytes += match path.symlink_metadata() {
            Err(error) if gone(&error) => 0,
            Err(error) => return Err(io("read the size of", &path)(error)),
            Ok(found) if found.is_dir() => files_below(&path)?,
            Ok(found) => found.blocks() * 512,
        };
    }
    Ok(bytes)
}
