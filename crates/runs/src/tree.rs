//! Trees of files: listed in directory order, copied whole.

use rand::Rng;
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Failure, number_of};
use senesce_runner::interrupted;
use senesce_volume::mount_points_below;
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Regular files in the order in which directories list them, depth first: the order of `find` and of the cold read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    pub files: Vec<PathBuf>,
    pub closed: Vec<PathBuf>,
}

impl Tree {
    pub fn of_user(root: &Path) -> Result<Self, Failure> {
        if !root.is_dir() {
            return Err(Failure::usage(format!(
                "tree: {} is not a directory; name one whose files are used",
                root.display()
            )));
        }
        let tree = Self::below(root)?;
        let may_read = |path: &PathBuf| rustix::fs::access(root.join(path), rustix::fs::Access::READ_OK).is_ok();
        let (files, closed): (Vec<_>, Vec<_>) = tree.files.into_iter().partition(may_read);
        Ok(Self { files, closed: [tree.closed, closed].concat() })
    }

    pub fn without(&self, root: &Path) -> Option<String> {
        let first = root.join(self.closed.first()?);
        Some(format!(
            "measured without {} of the tree, the first is {}; use sudo",
            number_of(self.closed.len(), "unreadable part"),
            first.display()
        ))
    }

    /// Lists the files below a directory. Skips links, special files and mounts below it.
    pub fn below(root: &Path) -> Result<Self, Failure> {
        let mut tree = Self::default();
        tree.list(root, Path::new(""), &mount_points_below(root))?;
        Ok(tree)
    }

    fn list(&mut self, root: &Path, below: &Path, mounts: &BTreeSet<PathBuf>) -> Result<(), Failure> {
        let here = if below.as_os_str().is_empty() { root.to_path_buf() } else { root.join(below) };
        let entries = match fs::read_dir(&here) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && here != root => {
                self.closed.push(below.into());
                return Ok(());
            }
            other => other.map_err(failed("list", &here))?,
        };
        for entry in entries {
            let entry = entry.map_err(failed("list", &here))?;
            let kind = entry.file_type().map_err(failed("inspect", &entry.path()))?;
            let path = below.join(entry.file_name());
            if mounts.contains(&path) {
                continue;
            }
            if kind.is_dir() {
                self.list(root, &path, mounts)?;
            } else if kind.is_file() {
                self.files.push(path);
            }
        }
        Ok(())
    }

    /// Drops the files' data from the page cache, as far as possible without root.
    pub fn forget(&self, root: &Path) -> Result<(), Failure> {
        for path in &self.files {
            let path = root.join(path);
            let file = File::open(&path).map_err(failed("open", &path))?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
                .map_err(|errno| failed("drop from the cache", &path)(errno.into()))?;
        }
        Ok(())
    }

    pub fn contents(self, root: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
        let read = |path: PathBuf| {
            let from = root.join(&path);
            let content = fs::read(&from).map_err(failed("read", &from))?;
            Ok((path, content))
        };
        self.files.into_iter().map(read).collect()
    }
}

/// Writes files one by one, creating directories as needed, like `cp --parents`.
pub struct Writer<'a> {
    root: &'a Path,
    made: HashSet<PathBuf>,
    interrupt: &'a Interrupt,
}

impl<'a> Writer<'a> {
    pub fn new(root: &'a Path, interrupt: &'a Interrupt) -> Self {
        Self { root, made: HashSet::new(), interrupt }
    }

    pub fn write(&mut self, path: &Path, content: &[u8]) -> Result<(), Failure> {
        check(self.interrupt)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        if !self.made.contains(parent) {
            let folder = self.root.join(parent);
            fs::create_dir_all(&folder).map_err(failed("make directory", &folder))?;
            self.made.insert(parent.into());
        }
        let to = self.root.join(path);
        let mut file = File::create(&to).map_err(failed("create", &to))?;
        file.write_all(content).map_err(failed("write", &to))
    }
}

/// Draws a random permutation of the numbers below `count`, by sorting random keys, so that it does not depend on the
/// version of a library.
pub fn permutation(random: &mut impl Rng, count: usize) -> Vec<usize> {
    let mut keyed: Vec<(u64, usize)> = (0..count).map(|number| (random.next_u64(), number)).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, number)| number).collect()
}

pub fn check(interrupt: &Interrupt) -> Result<(), Failure> {
    if interrupt.requested() {
        return Err(interrupted());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::ExitCode;

    #[test]
    fn a_tree_is_copied_with_its_directories_and_listed_again() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new();
        let mut writer = Writer::new(directory.path(), &interrupt);
        for (path, content) in [("a/b/one", "1"), ("two", "22"), ("a/three", "333")] {
            writer.write(Path::new(path), content.as_bytes()).unwrap();
        }
        let tree = Tree::below(directory.path()).unwrap();
        tree.forget(directory.path()).unwrap();
        let mut found = tree.contents(directory.path()).unwrap();
        found.sort();
        let sizes: Vec<_> = found.iter().map(|(path, content)| (path.to_str().unwrap(), content.len())).collect();
        assert_eq!(sizes, [("a/b/one", 1), ("a/three", 3), ("two", 2)]);
    }

    #[test]
    fn an_interrupt_stops_a_copy() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new();
        interrupt.request();
        let failure = Writer::new(directory.path(), &interrupt).write(Path::new("x"), b"").unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::Interrupted);
    }
}
