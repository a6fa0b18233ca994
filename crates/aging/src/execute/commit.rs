//! What it takes that a file system has committed: everything done so far is on the device, and what was freed can be used.

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `XFS_SUPER_MAGIC` (linux/magic.h).
const XFS_SUPER_MAGIC: u64 = 0x5846_5342;
/// `XFS_IOC_FREE_EOFBLOCKS`, `_IOR('X', 58, struct xfs_fs_eofblocks)` (fs/xfs/libxfs/xfs_fs.h).
const XFS_IOC_FREE_EOFBLOCKS: libc::c_ulong = 0x8080_583a;
const XFS_EOFBLOCKS_VERSION: u32 = 1;
const XFS_EOF_FLAGS_MINFILESIZE: u32 = 1 << 4;

/// `struct xfs_fs_eofblocks` (fs/xfs/libxfs/xfs_fs.h).
#[repr(C)]
struct EofBlocks {
    version: u32,
    flags: u32,
    uid: u32,
    gid: u32,
    prid: u32,
    pad32: u32,
    min_file_size: u64,
    pad64: [u64; 12],
}

/// Has the file system commit.
pub fn commit(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    if is_xfs(directory)? {
        finish_deletes(directory)?;
    }
    rustix::fs::syncfs(directory)
}

fn is_xfs(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(rustix::fs::fstatfs(directory)?.f_type as u64 & 0xffff_ffff == XFS_SUPER_MAGIC)
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
        match is_xfs(directory)? && finish_deletes(directory)? {
            true => Ok(Some(Self(
                directory.try_clone_to_owned().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?,
            ))),
            false => Ok(None),
        }
    }

    /// Waits.
    pub fn finish(&self) -> Result<(), Errno> {
        finish_deletes(self.0.as_fd()).map(|_| ())
    }
}

/// Asks xfs to give up blocks beyond the end of files, which waits for the deletes (`xfs_blockgc_free_space`); of files larger
/// than any, so that none gives up blocks. `false`: only root may.
fn finish_deletes(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let which = EofBlocks {
        version: XFS_EOFBLOCKS_VERSION,
        flags: XFS_EOF_FLAGS_MINFILESIZE,
        uid: 0,
        gid: 0,
        prid: 0,
        pad32: 0,
        min_file_size: u64::MAX,
        pad64: [0; 12],
    };
    // SAFETY: the descriptor is open and the kernel reads one structure of the type that the request is made for.
    let result = unsafe { libc::ioctl(directory.as_raw_fd(), XFS_IOC_FREE_EOFBLOCKS as _, &raw const which) };
    match result {
        0 => Ok(true),
        _ => match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EPERM | libc::ENOTTY) => Ok(false),
            code => Err(Errno::from_raw_os_error(code.unwrap_or(libc::EIO))),
        },
    }
}
