//! Lists what is to be committed.

use crate::error::{StoreError, io};
use senesce_core::interrupt::Interrupt;
use senesce_sys::mounted;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// One thing below the committed directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// Its path below the committed directory.
    pub path: PathBuf,
    pub kind: ItemKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    File,
    Directory,
    Link,
}

/// The items below `root`, directories before their content, files of a directory in the order of their inodes (which
/// is near that of their blocks), and the paths that are neither file, directory nor link, or mount points.
/// `exclude` is left out.
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
            // It was removed meanwhile; who reads its state finds out.
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
