//! Lists what is to be committed.

use crate::error::{StoreError, io};
use std::fs;
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
/// is near that of their blocks), and the paths that are neither file, directory nor link. `exclude` is left out.
pub(super) fn walk(root: &Path, exclude: &Path) -> Result<(Vec<Item>, Vec<PathBuf>), StoreError> {
    let exclude = fs::metadata(exclude).map(|data| (data.dev(), data.ino())).ok();
    let (mut items, mut others) = (Vec::new(), Vec::new());
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let full = root.join(&folder);
        let data = fs::metadata(&full).map_err(io("read", &full))?;
        if Some((data.dev(), data.ino())) == exclude {
            continue;
        }
        if !folder.as_os_str().is_empty() {
            items.push(Item { path: folder.clone(), kind: ItemKind::Directory });
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(&full).map_err(io("list", &full))? {
            let entry = entry.map_err(io("list", &full))?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(io("read the type of", &entry.path()))?;
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
