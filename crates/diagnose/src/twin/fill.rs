//! The probe: creates files of one size in one new directory, by one thread, until none fits.

use crate::error::PrognosisError;
use crate::headroom::{EndsBy, NewFiles, User};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use senesce_layout::FileSystemSpace;
use senesce_layout::space::FileSystemDetails;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

const DIRECTORY: &str = ".senesce-probe";
/// An ordinary user: `nobody`.
const NOBODY: u32 = 65534;
/// Maximum number of write-back rounds after which more files may fit.
const ROUNDS: u32 = 16;

/// The call that returned ENOSPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnospcCall {
    /// Making the directory.
    Mkdir,
    /// Making a file.
    Open,
    /// Writing it.
    Write,
}

/// The probe in steps: files of one size in one new directory, as root.
#[derive(Debug)]
pub struct Probe {
    directory: OwnedFd,
    path: PathBuf,
    new: NewFiles,
    pub files: u64,
}

impl Probe {
    pub fn begin(directory: &Path, new: NewFiles) -> Result<Self, PrognosisError> {
        let path = directory.join(DIRECTORY);
        let failed = |errno: Errno| PrognosisError::io("make the directory of the probe in", directory)(errno.into());
        rustix::fs::mkdir(&path, Mode::RWXU).map_err(failed)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, &path, flags, Mode::empty()).map_err(failed)?;
        Ok(Self { directory, path, new, files: 0 })
    }

    /// Creates up to `most` files; returns the call that found no space, if any.
    pub fn create(&mut self, most: u64) -> Result<Option<EnospcCall>, PrognosisError> {
        let failed = |errno: Errno| PrognosisError::io("create files in", &self.path)(errno.into());
        let (files, ended) = create(self.directory.as_fd(), self.new, self.files, most).map_err(failed)?;
        self.files = files;
        Ok(ended)
    }
}

/// The result of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FillResult {
    /// Bytes of each file.
    pub size: u64,
    /// The creating user.
    #[serde(rename = "as")]
    pub user: User,
    /// Files until the first failure.
    pub files: u64,
    /// Files after everything was written back and creation was repeated, until nothing more fitted.
    pub files_after_sync: u64,
    /// The call that failed first.
    pub ended: EnospcCall,
    /// The limit at that time.
    pub ends_by: EndsBy,
    /// The limit after write-back.
    pub ends_by_after_sync: EndsBy,
    /// Bytes that statvfs(2) reported as free at the first failure.
    pub free_bytes: u64,
    /// Inodes that were free then.
    pub free_inodes: u64,
}

pub(super) fn fill(directory: &Path, new: NewFiles, user: User) -> Result<FillResult, PrognosisError> {
    let size = new.size;
    let before = FileSystemSpace::of(directory)?;
    let failed = |errno: Errno| PrognosisError::io("create files in", directory)(errno.into());
    let probe = match rustix::fs::mkdirat(CWD, directory.join(DIRECTORY), Mode::from_raw_mode(0o777)) {
        Ok(()) => {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
            let probe = rustix::fs::openat(CWD, directory.join(DIRECTORY), flags, Mode::empty()).map_err(failed)?;
            rustix::fs::fchmod(&probe, Mode::from_raw_mode(0o777)).map_err(failed)?;
            Some(probe)
        }
        Err(Errno::NOSPC | Errno::DQUOT) => None,
        Err(errno) => return Err(failed(errno)),
    };
    let Some(probe) = probe else {
        let (ended, space) = (EnospcCall::Mkdir, &before);
        let ends_by = ends_by(&before, space, size, user, ended);
        return Ok(filled(space, (size, user), (0, ended, ends_by), (0, ends_by)));
    };
    let (files, ended) = as_user(user, || create(probe.as_fd(), new, 0, u64::MAX)).map_err(failed)?;
    let ended = ended.unwrap_or(EnospcCall::Write);
    let space = FileSystemSpace::of(directory)?;
    let (mut after, mut ended_after) = (files, ended);
    for _ in 0..ROUNDS {
        rustix::fs::syncfs(&probe).map_err(failed)?;
        let (more, call) = as_user(user, || create(probe.as_fd(), new, after, u64::MAX)).map_err(failed)?;
        ended_after = call.unwrap_or(ended_after);
        if more == after {
            break;
        }
        after = more;
    }
    let first = (files, ended, ends_by(&before, &space, size, user, ended));
    let left = FileSystemSpace::of(directory)?;
    Ok(filled(&space, (size, user), first, (after, ends_by(&before, &left, size, user, ended_after))))
}

fn filled(
    space: &FileSystemSpace,
    (size, user): (u64, User),
    (files, ended, ends_by): (u64, EnospcCall, EndsBy),
    (files_after_sync, ends_by_after_sync): (u64, EndsBy),
) -> FillResult {
    let (free_bytes, free_inodes) = (space.free_blocks * space.block_size, space.free_inodes);
    FillResult { size, user, files, files_after_sync, ended, ends_by, ends_by_after_sync, free_bytes, free_inodes }
}

pub fn ends_by(before: &FileSystemSpace, after: &FileSystemSpace, size: u64, user: User, ended: EnospcCall) -> EndsBy {
    match &after.kind {
        FileSystemDetails::Ext(_) if after.free_inodes == 0 => EndsBy::Inodes,
        FileSystemDetails::Ext(ext) => {
            let held = ext.held_back_blocks + size.div_ceil(after.block_size) + 16;
            match (ended, user) {
                (_, User::User) if after.free_blocks > held => EndsBy::RootReserve,
                (EnospcCall::Open, User::Root) if after.free_blocks > held => EndsBy::DirectoryIndex,
                _ => EndsBy::Bytes,
            }
        }
        // The limit of `imaxpct` is reached in chunks.
        FileSystemDetails::Xfs(_) if after.free_inodes < 64 && after.free_blocks > before.free_blocks / 100 => {
            EndsBy::Inodes
        }
        FileSystemDetails::Xfs(_) if ended == EnospcCall::Write => EndsBy::Bytes,
        // A transaction that makes a file needs some 50 blocks in the worst case, and the last file its data.
        FileSystemDetails::Xfs(xfs)
            if after.free_blocks > 64 * xfs.groups.max(1) + 2 * size.div_ceil(after.block_size) =>
        {
            EndsBy::InodeChunks
        }
        // Making a file needs only metadata.
        FileSystemDetails::Btrfs(_) if ended != EnospcCall::Write => EndsBy::Metadata,
        FileSystemDetails::Btrfs(found) => {
            let free = found.data.total.saturating_sub(found.data.used) + found.unallocated;
            // The last files may not have been written back.
            let near = size.max(1 << 20) + found.device / 100;
            if size > 0 && free < near { EndsBy::Bytes } else { EndsBy::Metadata }
        }
        _ => EndsBy::Bytes,
    }
}

/// Creates up to `most` files from number `next` on; returns the next number and the call that found no space.
fn create(
    directory: BorrowedFd<'_>,
    new: NewFiles,
    mut next: u64,
    most: u64,
) -> Result<(u64, Option<EnospcCall>), Errno> {
    let data = vec![0u8; new.size as usize];
    let width = new.name_bytes as usize;
    let end = next.saturating_add(most);
    while next < end {
        let name = format!("{next:0width$}");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(directory, &*name, flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => file,
            Err(Errno::NOSPC | Errno::DQUOT | Errno::MLINK) => return Ok((next, Some(EnospcCall::Open))),
            Err(errno) => return Err(errno),
        };
        match write_all(&file, &data) {
            Ok(()) => next += 1,
            Err(Errno::NOSPC | Errno::DQUOT) => {
                drop(file);
                rustix::fs::unlinkat(directory, &*name, AtFlags::empty())?;
                return Ok((next, Some(EnospcCall::Write)));
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok((next, None))
}

fn write_all(file: &OwnedFd, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        let written = rustix::io::write(file, data)?;
        data = &data[written..];
    }
    Ok(())
}

/// Runs as root or as nobody. The identity belongs to a thread that ends afterwards: the raw call changes no other
/// thread.
fn as_user<T: Send>(user: User, work: impl FnOnce() -> Result<T, Errno> + Send) -> Result<T, Errno> {
    if user == User::Root || !rustix::process::geteuid().is_root() {
        return work();
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: setresuid takes three numbers and touches no memory of ours.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            if changed != 0 {
                return Err(Errno::PERM);
            }
            work()
        });
        thread.join().unwrap_or(Err(Errno::IO))
    })
}
