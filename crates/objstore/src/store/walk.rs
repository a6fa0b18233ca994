//! Lists the files to commit.

use crate::error::{StoreError, io};
use senesce_core::interrupt::Interrupt;
use senesce_sys::mounted;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// Relative to the committed directory.
    pub path: PathBuf,
    pub kind: ItemKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    File,
    Directory,
    Link,
}

/// Lists the items below `root`: directories before their content, files of a directory in inode order (close to the
/// order of their blocks). Also returns the paths of other file types and of mount points. Skips `exclude`.
pub(super) fn walk(
    root: &Path,
    exclude: &Path,
    interrupt: &Interrupt,
) -> Result<(Vec<Item>, Vec<PathBuf>), StoreError> {
    let exclude = fs::metadata(exclude).map(|data| (data.dev(), data.ino())).ok();
    let (mut items, mut others) = (Vec::new(), Vec::new());
    let mounts = mounted::points_below(root);
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let full = root.join(&folder);
        let is_root = folder.as_os_str().is_empty();
        let opened = fs::metadata(&full).and_then(|data| Ok((data, fs::read_dir(&full)?)));
        let (data, entries) = match opened {
            // It was removed concurrently; reading its state will report that.
            Err(error) if error.kind() == ErrorKind::NotFound && !is_root => {
                items.push(Item { path: folder, kind: ItemKind::Directory });
                continue;
            }
            other => other.map_err(io("list", &full))?,
        };
        if Some((data.dev(), data.ino())) == exclude {
            continue;
        }
        if !is_root {
            items.push(Item { path: folder.clone(), kind: ItemKind::Directory });
        }
        let mut files = Vec::new();
        for entry in entries {
            if interrupt.requested() {
                return Err(StoreError::Interrupted);
            }
            let entry = entry.map_err(io("list", &full))?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(io("read the type of", &entry.path()))?;
            if mounts.contains(&path) {
                others.push(path);
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() || kind.is_symlink() {
                let kind = if kind.is_file() { ItemKind::File } else { ItemKind::Link };
                files.push((entry.ino(), Item { path, kind }));
            } else {
                others.push(path);
            }
        }
        files.sort_by_key(|(inode, _)| *inode);
        items.extend(files.into_iter().map(|(_, item)| item));
    }
    Ok((items, others))
}
