//! The aged tree, without ballast, filler and plug.

use crate::unsynced::Unsynced;
use senesce_core::Failure;
use senesce_core::failure::failed;
use senesce_core::virtual_time::await_middle_of_tick;
use senesce_layout::FileRuns;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) const BALLAST: &str = "senesce-ballast";
pub(super) const FILLER: &str = "senesce-filler";
pub(super) const PLUG: &str = "senesce-plug";

fn is_of_tree(path: &Path) -> bool {
    ![BALLAST, FILLER, PLUG, "lost+found"].iter().any(|name| path == Path::new(name))
}

/// Paths in order, a directory before its entries.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Tree(Vec<TreeEntry>);

#[derive(Debug, PartialEq)]
struct TreeEntry {
    /// Relative to the root.
    path: PathBuf,
    /// Bytes of a file; `None`: a directory.
    bytes: Option<u64>,
}

impl Tree {
    pub(super) fn list(root: &Path) -> Result<Self, Failure> {
        let mut entries = Vec::new();
        list_below(root, Path::new(""), &mut entries)?;
        Ok(Self(entries))
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.0.iter().filter_map(|entry| Some((entry.path.as_path(), entry.bytes?)))
    }

    pub(super) fn delete(&self, root: &Path) -> Result<(), Failure> {
        for TreeEntry { path, bytes } in self.0.iter().rev() {
            await_middle_of_tick();
            let path = root.join(path);
            match bytes {
                Some(_) => fs::remove_file(&path),
                None => fs::remove_dir(&path),
            }
            .map_err(failed("delete", &path))?;
        }
        Ok(())
    }

    /// Writes files of the same sizes in path order.
    pub(super) fn write(&self, root: &Path) -> Result<(), Failure> {
        let mut unsynced = Unsynced::default();
        for TreeEntry { path, bytes } in &self.0 {
            let path = root.join(path);
            match bytes {
                Some(bytes) => {
                    write_file(&path, *bytes)?;
                    unsynced.wrote(*bytes, root)?;
                }
                None => fs::create_dir(&path).map_err(failed("create directory", &path))?,
            }
        }
        Ok(())
    }
}

fn list_below(root: &Path, folder: &Path, entries: &mut Vec<TreeEntry>) -> Result<(), Failure> {
    let full = root.join(folder);
    let names = fs::read_dir(&full)
        .and_then(|found| found.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>());
    let mut names = names.map_err(failed("list", &full))?;
    names.sort();
    for name in names {
        let path = folder.join(&name);
        let full = root.join(&path);
        let found = full.symlink_metadata().map_err(failed("check", &full))?;
        if !is_of_tree(&path) {
            continue;
        }
        let bytes = found.is_file().then_some(found.len());
        entries.push(TreeEntry { path: path.clone(), bytes });
        if found.is_dir() {
            list_below(root, &path, entries)?;
        }
    }
    Ok(())
}

pub(super) fn write_file(path: &Path, bytes: u64) -> Result<(), Failure> {
    await_middle_of_tick();
    let file = File::create(path).map_err(failed("create", path))?;
    write_all(file, bytes).map_err(failed("write", path))
}

/// Writes the bytes of a file again, in place.
pub(super) fn overwrite_file(path: &Path, bytes: u64) -> Result<(), Failure> {
    await_middle_of_tick();
    let file = File::options().write(true).open(path).map_err(failed("open", path))?;
    write_all(file, bytes).map_err(failed("overwrite", path))
}

fn write_all(mut file: File, mut bytes: u64) -> std::io::Result<()> {
    static PART: [u8; 1 << 16] = [1; 1 << 16];
    while bytes > 0 {
        let part = bytes.min(PART.len() as u64);
        file.write_all(&PART[..part as usize])?;
        bytes -= part;
    }
    Ok(())
}

/// Extents of files, gaps between them in path order, and a hash of their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct ExtentStatistics {
    pub files: u64,
    pub bytes: u64,
    pub extents: u64,
    /// Files and extents that do not directly follow the one before.
    pub gaps: u64,
    /// Equal addresses have equal hashes in one record.
    pub hash: u64,
}

impl ExtentStatistics {
    pub(super) fn of(runs: &FileRuns) -> Self {
        let (mut places, mut hasher, mut last) = (Self::default(), DefaultHasher::new(), None);
        for file in runs.by_path() {
            let path = runs.path(file as usize);
            if !is_of_tree(&path) {
                continue;
            }
            path.hash(&mut hasher);
            places.files += 1;
            for run in runs.of(file as usize) {
                (run.start, run.length).hash(&mut hasher);
                places.extents += 1;
                places.bytes += run.length;
                places.gaps += u64::from(last != Some(run.start));
                last = Some(run.end());
            }
        }
        Self { hash: hasher.finish(), ..places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_tree_is_rewritten_with_the_same_files() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("b/c")).unwrap();
        fs::write(root.path().join("b/c/f"), vec![0; 100_000]).unwrap();
        fs::write(root.path().join("a"), b"").unwrap();
        fs::write(root.path().join(BALLAST), b"stays").unwrap();
        let tree = Tree::list(root.path()).unwrap();
        let found: Vec<_> = tree.files().collect();
        assert_eq!(found, [(Path::new("a"), 0), (Path::new("b/c/f"), 100_000)]);
        tree.delete(root.path()).unwrap();
        assert_eq!(Tree::list(root.path()).unwrap(), Tree::default());
        tree.write(root.path()).unwrap();
        assert_eq!(Tree::list(root.path()).unwrap(), tree);
        assert!(root.path().join(BALLAST).exists());
    }
}
