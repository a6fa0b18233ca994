//! The one place where temporary directories are made: with random names, for this user alone, and gone with this process.

use crate::error::TargetError;
use crate::guardian::{Guardian, Owner};
use crate::runtime;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

pub(crate) const PREFIX: &str = "senesce-";

/// The file system in memory that every Linux has (shm_overview(7)).
pub const MEMORY: &str = "/dev/shm";

/// A directory of this process alone (mode 0700, a random name, made anew), removed with everything in it when it is dropped
/// or the process is killed. Images in memory would hold it until the next boot otherwise.
#[derive(Debug)]
pub struct ScratchDirectory {
    path: PathBuf,
    handle: File,
    _guardian: Guardian,
}

impl ScratchDirectory {
    /// For small things: in the folder of the running machine, see [`crate::runtime`].
    ///
    /// # Errors
    /// The directory or its entry in the ledger cannot be made, here and in the others.
    pub fn small(purpose: &str) -> Result<Self, TargetError> {
        Self::create(&runtime::folder()?, purpose)
    }

    /// For images and whatever is large: in `$TMPDIR`, because the folder of the running machine lies in memory.
    ///
    /// # Errors
    /// [`TargetError::Refused`] when `$TMPDIR` is no directory, or others may exchange what is made in it; as [`Self::create`].
    pub fn large(purpose: &str) -> Result<Self, TargetError> {
        let parent = std::env::temp_dir();
        runtime::check_shared(&parent)?;
        Self::create(&parent, purpose)
    }

    /// In memory.
    pub fn in_memory(purpose: &str) -> Result<Self, TargetError> {
        let parent = Path::new(MEMORY);
        runtime::check_shared(parent)?;
        Self::create(parent, purpose)
    }

    /// In a directory that the user chose: `parent/senesce-PURPOSE-OWNER-RANDOM`.
    ///
    /// # Errors
    /// Where `parent` is not there or cannot be written, or the directory not be written into the ledger.
    pub fn create(parent: &Path, purpose: &str) -> Result<Self, TargetError> {
        let parent = parent.canonicalize().map_err(TargetError::io("look at", parent))?;
        let (path, guardian) =
            make_unique(&parent, &format!("{PREFIX}{purpose}-{}-", Owner::current()), Guardian::of_tree)?;
        // The directory is looked at through its descriptor: it is ours, and no link.
        let handle = runtime::private(&path)?;
        // Another kernel on a shared file system may see the lock, and not this process.
        let _ = rustix::fs::flock(&handle, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        Ok(Self { path, handle, _guardian: guardian })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its descriptor, for `openat` and its relatives.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Makes an empty directory for a mount in the folder of the running machine. It is removed when the guardian undoes.
pub(crate) fn mount_point(
    name: &str,
    guard: impl Fn(&Path) -> Result<Guardian, TargetError>,
) -> Result<(PathBuf, Guardian), TargetError> {
    make_unique(&runtime::subfolder("mnt")?, &format!("{name}-"), guard)
}

/// mkdtemp(3), with an entry in the ledger before the directory is made.
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
            // Somebody else's directory has this name, or none could be made: there is nothing to undo.
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
    fn it_is_for_us_alone_and_goes_with_everything_in_it() {
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
