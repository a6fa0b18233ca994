//! What it takes that a file system has committed: everything done so far is on the device, and what was freed can be used.

use rustix::io::Errno;
use senesce_sys::mounted::finish_deletes_of_xfs;
use senesce_volume::FileSystem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Has the file system commit.
///
/// # Errors
/// Those of syncfs(2) and fstatfs(2), and of asking xfs to finish its deletes.
pub fn commit(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    if deletes_later(directory)? {
        finish_deletes_of_xfs(directory)?;
    }
    rustix::fs::syncfs(directory)
}

fn deletes_later(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(FileSystem::of(directory)?.is_some_and(|known| known.entry().deletes_later))
}

/// Waits after a delete until it is complete, on a file system where it otherwise is not.
///
/// xfs frees inode and blocks of a deleted file in the background a moment later, and syncfs does not wait for it
/// (fs/xfs/xfs_icache.c, `xfs_inodegc_queue`): which inode the next file gets, and with it where it lies, would depend on the
/// load of the machine.
#[derive(Debug)]
pub struct Deletes(OwnedFd);

impl Deletes {
    /// `None` where deletes are complete when they return, or where only root may wait for them.
    pub fn of(directory: BorrowedFd<'_>) -> Result<Option<Self>, Errno> {
        match deletes_later(directory)? && finish_deletes_of_xfs(directory)? {
            true => Ok(Some(Self(
                directory.try_clone_to_owned().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?,
            ))),
            false => Ok(None),
        }
    }

    /// Waits.
    pub fn finish(&self) -> Result<(), Errno> {
        finish_deletes_of_xfs(self.0.as_fd()).map(|_| ())
    }
}
