//! The cold read ("grep") test: one thread reads every file in directory order, as `grep -r` does.

use crate::error::WorkloadError;
use rustix::fs::{FileType, Mode, OFlags, RawDir};
use senesce_core::finite::Finite;
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Progress;
use senesce_sys::mounted;
use senesce_volume::MARKER;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

const READ_BYTES: usize = 32 << 10;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ColdRead {
    /// Seconds of walking and reading.
    pub seconds: f64,
    /// Bytes that read(2) returned.
    pub bytes_read: u64,
    /// Bytes allocated to the files that were read, without holes; hard links count once.
    pub allocated_bytes: u64,
    /// Files read.
    pub files: u64,
    /// Directories listed.
    pub directories: u64,
    /// Seconds per GiB of allocated bytes; none if nothing is allocated.
    pub seconds_per_gib: Option<Finite>,
    /// Whether the user stopped it before the end.
    pub interrupted: bool,
}

/// Reads every regular file below `root` in directory order, depth first, with one thread, read(2) and a buffer of 32 KiB. Does
/// not follow symbolic links, and skips the marker file of a claimed directory. The caller drops the caches before.
pub fn cold_read(root: &Path, progress: &dyn Progress, interrupt: &Interrupt) -> Result<ColdRead, WorkloadError> {
    progress.phase("cold read", 0, "bytes");
    let mut walk = Walk {
        buffer: vec![0; READ_BYTES],
        found: ColdRead::default(),
        linked: HashSet::new(),
        mounts: mounted::points_below(root).into_iter().map(|path| root.join(path)).collect(),
        progress,
        interrupt,
    };
    let begin = Instant::now();
    let handle = rustix::fs::open(root, DIRECTORY, Mode::empty()).map_err(WorkloadError::io("open directory", root))?;
    walk.directory(handle, root.into())?;
    let seconds = begin.elapsed().as_secs_f64();
    let gib = walk.found.allocated_bytes as f64 / f64::from(1u32 << 30);
    let seconds_per_gib = Finite::per(seconds, gib).ok();
    Ok(ColdRead { seconds, seconds_per_gib, interrupted: interrupt.requested(), ..walk.found })
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Walk<'a> {
    buffer: Vec<u8>,
    found: ColdRead,
    linked: HashSet<(u64, u64)>,
    /// File systems mounted below the root are skipped.
    mounts: HashSet<PathBuf>,
    progress: &'a dyn Progress,
    interrupt: &'a Interrupt,
}

impl Walk<'_> {
    fn directory(&mut self, handle: OwnedFd, path: PathBuf) -> Result<(), WorkloadError> {
        self.found.directories += 1;
        for (name, kind) in list(&handle, &path)?.into_iter().filter(|(name, _)| name.as_bytes() != MARKER.as_bytes()) {
            if self.interrupt.requested() {
                return Ok(());
            }
            let below = || path.join(name.to_string_lossy().as_ref());
            if !self.mounts.is_empty() && self.mounts.contains(&below()) {
                continue;
            }
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
        let stat = rustix::fs::fstat(file)?;
        if stat.st_nlink == 1 || self.linked.insert((stat.st_dev, stat.st_ino)) {
            self.found.allocated_bytes += stat.st_blocks as u64 * 512;
        }
        loop {
            match rustix::io::read(file, &mut *self.buffer)? {
                0 => break,
                count => self.found.bytes_read += count as u64,
            }
        }
        self.found.files += 1;
        if self.found.files.is_multiple_of(1024) {
            self.progress.position(self.found.bytes_read, &format!("{} files", self.found.files));
        }
        Ok(())
    }
}

/// Entries of a directory in its own order. Types that are not listed are looked up.
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
        let temporary = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temporary.path().join("a/b")).unwrap();
        for (path, size) in [("one", 10), ("a/two", 100_000), ("a/b/three", 1)] {
            std::fs::write(temporary.path().join(path), vec![1u8; size]).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", temporary.path().join("link")).unwrap();
        let result = cold_read(temporary.path(), &Silent, &Interrupt::new()).unwrap();
        assert_eq!((result.files, result.directories, result.bytes_read), (3, 3, 100_011));
        assert!(result.allocated_bytes >= 100_000 && result.seconds_per_gib.is_some_and(|cost| cost.get() > 0.0));
        std::fs::write(temporary.path().join(MARKER), "ours").unwrap();
        std::fs::hard_link(temporary.path().join("a/two"), temporary.path().join("a/three")).unwrap();
        let again = cold_read(temporary.path(), &Silent, &Interrupt::new()).unwrap();
        assert_eq!((again.files, again.bytes_read), (4, 200_011));
        assert_eq!(again.allocated_bytes, result.allocated_bytes, "one file with two names");
    }

    #[test]
    fn empty_tree_has_no_rate() {
        let temporary = tempfile::tempdir().unwrap();
        let result = cold_read(temporary.path(), &Silent, &Interrupt::new()).unwrap();
        assert_eq!((result.files, result.seconds_per_gib), (0, None));
        assert!(serde_json::to_value(&result).unwrap()["seconds_per_gib"].is_null());
    }
}
