//! The cold read ("grep") test: one thread reads every file in directory order, as `grep -r` does.

use crate::error::WorkloadError;
use rustix::fs::{FileType, Mode, OFlags, RawDir};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Progress;
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes per read(2).
const READ_BYTES: usize = 32 << 10;

/// What was read, and how long it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColdRead {
    /// Seconds of walking and reading.
    pub seconds: f64,
    /// Bytes that read(2) returned.
    pub bytes_read: u64,
    /// Bytes allocated to the files that were read, without holes.
    pub allocated_bytes: u64,
    /// Files read.
    pub files: u64,
    /// Directories listed.
    pub directories: u64,
    /// Seconds per GiB of allocated bytes; 0 when nothing is allocated.
    pub seconds_per_gib: f64,
    /// Whether the user stopped it before the end.
    pub interrupted: bool,
}

/// Reads every regular file below `root` in the order in which the directories list them, depth first, with one thread,
/// read(2) and a buffer of 32 KiB. Symbolic links are not followed. The caller makes the caches cold before.
pub fn cold_read(root: &Path, progress: &dyn Progress, interrupt: &Interrupt) -> Result<ColdRead, WorkloadError> {
    progress.phase("cold read", 0, "bytes");
    let mut walk =
        Walk { buffer: vec![0; READ_BYTES], read: 0, allocated: 0, files: 0, directories: 0, progress, interrupt };
    let begin = Instant::now();
    let handle = rustix::fs::open(root, DIRECTORY, Mode::empty()).map_err(WorkloadError::io("open directory", root))?;
    walk.directory(handle, root.into())?;
    let seconds = begin.elapsed().as_secs_f64();
    let gib = walk.allocated as f64 / f64::from(1u32 << 30);
    Ok(ColdRead {
        seconds,
        bytes_read: walk.read,
        allocated_bytes: walk.allocated,
        files: walk.files,
        directories: walk.directories,
        seconds_per_gib: if gib > 0.0 { seconds / gib } else { 0.0 },
        interrupted: interrupt.requested(),
    })
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Walk<'a> {
    buffer: Vec<u8>,
    read: u64,
    allocated: u64,
    files: u64,
    directories: u64,
    progress: &'a dyn Progress,
    interrupt: &'a Interrupt,
}

impl Walk<'_> {
    fn directory(&mut self, handle: OwnedFd, path: PathBuf) -> Result<(), WorkloadError> {
        self.directories += 1;
        for (name, kind) in list(&handle, &path)? {
            if self.interrupt.requested() {
                return Ok(());
            }
            let below = || path.join(name.to_string_lossy().as_ref());
            match kind {
                FileType::Directory => {
                    let inner = rustix::fs::openat(&handle, &*name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
                    let inner = inner.map_err(|errno| WorkloadError::io("open directory", below())(errno))?;
                    self.directory(inner, below())?;
                }
                FileType::RegularFile => {
                    let file = rustix::fs::openat(&handle, &*name, FILE, Mode::empty());
                    let file = file.map_err(|errno| WorkloadError::io("open", below())(errno))?;
                    self.file(&file).map_err(|errno| WorkloadError::io("read", below())(errno))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, file: &OwnedFd) -> Result<(), rustix::io::Errno> {
        self.allocated += rustix::fs::fstat(file)?.st_blocks as u64 * 512;
        loop {
            match rustix::io::read(file, &mut *self.buffer)? {
                0 => break,
                count => self.read += count as u64,
            }
        }
        self.files += 1;
        if self.files.is_multiple_of(1024) {
            self.progress.position(self.read, &format!("{} files", self.files));
        }
        Ok(())
    }
}

/// The entries of a directory in its own order. A type that the directory does not tell is looked up.
fn list(handle: &OwnedFd, path: &Path) -> Result<Vec<(CString, FileType)>, WorkloadError> {
    let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
    let mut entries = RawDir::new(handle.as_fd(), &mut buffer);
    let mut list = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(WorkloadError::io("list", path))?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            let found = rustix::fs::statat(handle, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
            let found = found.map_err(WorkloadError::io("look up", path.join(name.to_string_lossy().as_ref())))?;
            kind = FileType::from_raw_mode(found.st_mode);
        }
        list.push((name.to_owned(), kind));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::progress::Silent;

    #[test]
    fn every_file_is_read_once_and_links_are_not_followed() {
        let room = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(room.path().join("a/b")).unwrap();
        for (path, size) in [("one", 10), ("a/two", 100_000), ("a/b/three", 1)] {
            std::fs::write(room.path().join(path), vec![1u8; size]).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", room.path().join("link")).unwrap();
        let result = cold_read(room.path(), &Silent, &Interrupt::new()).unwrap();
        assert_eq!((result.files, result.directories, result.bytes_read), (3, 3, 100_011));
        assert!(result.allocated_bytes >= 100_000 && result.seconds_per_gib > 0.0);
    }
}
