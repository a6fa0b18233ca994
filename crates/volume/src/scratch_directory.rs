//! Temporary directories: random names, for this user only, removed with this process.

use crate::error::TargetError;
use crate::guardian::{Guardian, Owner};
use crate::runtime;
use std::fs::File;
use std::path::{Path, PathBuf};

pub(crate) const PREFIX: &str = "senesce-";

/// The file system in memory that every Linux has (shm_overview(7)).
pub const MEMORY: &str = "/dev/shm";

/// A new directory of mode 0700, removed with its content when it is dropped or the process is killed. Otherwise images
/// in memory would stay until the next boot.
#[derive(Debug)]
pub struct ScratchDirectory {
    path: PathBuf,
    _lock: File,
    _guardian: Guardian,
}

impl ScratchDirectory {
    pub fn small(purpose: &str) -> Result<Self, TargetError> {
        Self::create(&runtime::folder()?, purpose)
    }

    /// Creates a directory for images and other large files: in `$TMPDIR`, because the runtime folder is in memory.
    pub fn large(purpose: &str) -> Result<Self, TargetError> {
        let parent = std::env::temp_dir();
        runtime::check_shared(&parent)?;
        Self::create(&parent, purpose)
    }

    pub fn in_memory(purpose: &str) -> Result<Self, TargetError> {
        let parent = Path::new(MEMORY);
        runtime::check_shared(parent)?;
        Self::create(parent, purpose)
    }

    /// Creates `parent/senesce-PURPOSE-OWNER-RANDOM` in a directory that the user chose.
    pub fn create(parent: &Path, purpose: &str) -> Result<Self, TargetError> {
        let parent = parent.canonicalize().map_err(TargetError::io("inspect", parent))?;
        let (path, guardian) =
            make_unique(&parent, &format!("{PREFIX}{purpose}-{}-", Owner::current()), Guardian::of_tree)?;
        // Checked through its descriptor: it is ours and not a link.
        let lock = runtime::private(&path)?;
        // On a shared file system another kernel can see the lock, but not this process.
        let _ = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        Ok(Self { path, _lock: lock, _guardian: guardian })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

pub(crate) fn mount_point(
    name: &str,
    guard: impl Fn(&Path) -> Result<Guardian, TargetError>,
) -> Result<(PathBuf, Guardian), TargetError> {
    make_unique(&runtime::subfolder("mnt")?, &format!("{name}-"), guard)
}

/// Creates a directory like mkdtemp(3), with an entry in the ledger before the directory exists.
fn make_unique(
    parent: &Path,
    prefix: &str,
    guard: impl Fn(&Path) -> Result<Guardian, TargetError>,
) -> Result<(PathBuf, Guardian), TargetError> {
    let mut guardian = None;
    let made = tempfile::Builder::new().prefix(prefix).rand_bytes(12).make_in(parent, |path| {
        let mut entry = guard(path).map_err(std::io::Error::other)?;
        let made = rustix::fs::mkdir(path, rustix::fs::Mode::RWXU);
        match made {
            Ok(()) => guardian = Some(entry),
            // Another user's directory has this name, or creating it failed: there is nothing to undo.
            Err(_) => entry.dismiss(),
        }
        Ok(made?)
    });
    let failed = |error| TargetError::io("make a directory in", parent)(error);
    let path = made.map_err(failed)?.into_temp_path().keep().map_err(|error| failed(error.error))?;
    match guardian {
        Some(guardian) => Ok((path, guardian)),
        None => Err(failed(std::io::Error::other("no name is free"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn scratch_directory_is_private_and_removed_with_content() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = ScratchDirectory::create(directory.path(), "test").unwrap();
        let path = scratch.path().to_path_buf();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        fs::write(path.join("image"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn names_cannot_be_guessed() {
        let directory = tempfile::tempdir().unwrap();
        let names: std::collections::BTreeSet<PathBuf> =
            (0..50).map(|_| ScratchDirectory::create(directory.path(), "test").unwrap().path().to_path_buf()).collect();
        assert_eq!(names.len(), 50);
        let random = |path: &PathBuf| path.to_string_lossy().rsplit('-').next().unwrap().len();
        assert!(names.iter().all(|path| random(path) == 12), "{names:?}");
    }

    #[test]
    fn a_planted_directory_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let precious = directory.path().join("precious");
        fs::create_dir(&precious).unwrap();
        for old in ["senesce-test-", "senesce-tier-"] {
            let name = format!("{old}{}", std::process::id());
            std::os::unix::fs::symlink(&precious, directory.path().join(name)).unwrap();
        }
        let scratch = ScratchDirectory::create(directory.path(), "test").unwrap();
        fs::write(scratch.path().join("file"), "x").unwrap();
        assert_eq!(fs::read_dir(&precious).unwrap().count(), 0);
    }
}
