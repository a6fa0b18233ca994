//! Commits a file system: everything done so far is on the device, and freed blocks are available.

use rustix::io::Errno;
use senesce_sys::mounted::finish_deletes_of_xfs;
use senesce_volume::FileSystem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Commits the file system.
///
/// # Errors
/// Those of syncfs(2) and fstatfs(2), and of the xfs request to finish deletes.
pub(crate) fn commit(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    if deletes_later(directory)? {
        finish_deletes_of_xfs(directory)?;
    }
    rustix::fs::syncfs(directory)
}

/// Returns whether mount options or a mount command set the time between two commits of the file system's timer (`commit=` of ext4
/// and btrfs).
pub fn sets_commit_time(options: &str) -> bool {
    options.split([',', ' ']).any(|option| option.starts_with("commit="))
}

fn deletes_later(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(FileSystem::of(directory)?.is_some_and(|known| known.entry().deletes_later))
}

/// Waits until a delete is complete on file systems that delete in the background.
///
/// xfs frees inode and blocks of a deleted file a moment later, and syncfs does not wait for it (fs/xfs/xfs_icache.c,
/// `xfs_inodegc_queue`). Without waiting, the inode and location of the next file would depend on the load of the machine.
#[derive(Debug)]
pub(crate) struct Deletes(OwnedFd);

impl Deletes {
    /// Returns `None` if deletes are complete when they return, or if waiting needs root.
    pub(crate) fn of(directory: BorrowedFd<'_>) -> Result<Option<Self>, Errno> {
        match deletes_later(directory)? && finish_deletes_of_xfs(directory)? {
            true => Ok(Some(Self(
                directory.try_clone_to_owned().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?,
            ))),
            false => Ok(None),
        }
    }

    pub(crate) fn finish(&self) -> Result<(), Errno> {
        finish_deletes_of_xfs(self.0.as_fd()).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_time_is_found_among_other_options() {
        for options in ["commit=1", "noatime,commit=30", "mount -o remount,commit=1 $MNT", "mount -o commit=1 $MNT"] {
            assert!(sets_commit_time(options), "{options}");
        }
        for options in ["", "noatime", "journal_async_commit", "data=journal,nobarrier"] {
            assert!(!sets_commit_time(options), "{options}");
        }
    }
}
