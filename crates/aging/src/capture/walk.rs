//! Walks a tree in parallel on a single file system.

use super::CaptureOptions;
use super::changes::FileState;
use super::tally::Tally;
use crate::error::AgingError;
use rayon::Scope;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Statx, StatxFlags, openat, statx};
use rustix::io::Errno;
use std::ffi::CStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

struct Walk<'a> {
    top: &'a Path,
    root: OwnedFd,
    device: (u32, u32, u64),
    now: i64,
    keep: bool,
    ends: Option<Instant>,
    /// One tally per thread, so that none waits.
    tallies: Vec<Mutex<Tally>>,
    failure: Mutex<Option<AgingError>>,
}

const WANTED: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::SIZE)
    .union(StatxFlags::BTIME)
    .union(StatxFlags::MTIME)
    .union(StatxFlags::INO)
    .union(StatxFlags::MNT_ID);

/// Counts every regular file below `top`, and keeps its state if `keep`; `now` is in seconds since 1970.
pub(crate) fn walk(top: &Path, options: &CaptureOptions, now: i64, keep: bool) -> Result<Tally, AgingError> {
    let failed = |errno: Errno| AgingError::io("open directory", top, errno);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(top, flags, Mode::empty()).map_err(failed)?;
    let found = statx(&root, c"", AtFlags::EMPTY_PATH, WANTED).map_err(failed)?;
    let threads = options.threads;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| AgingError::Target(format!("cannot start {threads} threads: {error}")))?;
    let walk = Walk {
        top,
        root,
        device: place(&found),
        now,
        keep,
        ends: options.most_time.map(|time| Instant::now() + time),
        tallies: (0..pool.current_num_threads()).map(|_| Mutex::default()).collect(),
        failure: Mutex::new(None),
    };
    pool.scope(|scope| walk.visit(scope, PathBuf::from("."), 0));
    if let Some(error) = lock(&walk.failure).take() {
        return Err(error);
    }
    let mut total = Tally::default();
    for tally in &walk.tallies {
        total.merge(&lock(tally));
    }
    Ok(total)
}

/// Returns the device and mount id: a bind mount has the same device as the file system around it.
fn place(found: &Statx) -> (u32, u32, u64) {
    let mount = if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 { found.stx_mnt_id } else { 0 };
    (found.stx_dev_major, found.stx_dev_minor, mount)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl<'a> Walk<'a> {
    fn visit<'s>(&'s self, scope: &Scope<'s>, relative: PathBuf, depth: usize) {
        if self.ends.is_some_and(|ends| Instant::now() > ends) {
            let words = format!(
                "{} has too many files to count within the time limit; name a directory below it",
                self.top.display()
            );
            *lock(&self.failure) = Some(AgingError::Target(words));
        }
        if lock(&self.failure).is_some() {
            return;
        }
        let thread = rayon::current_thread_index().unwrap_or(0);
        let mut tally = lock(&self.tallies[thread]);
        let mut below = Vec::new();
        let result = self.list(&relative, depth, &mut tally, &mut below);
        drop(tally);
        match result {
            Ok(()) => {}
            Err(Errno::ACCESS | Errno::PERM) => lock(&self.tallies[thread]).unreadable += 1,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => lock(&self.tallies[thread]).vanished += 1,
            Err(errno) => {
                *lock(&self.failure) = Some(AgingError::io("read directory", self.top.join(&relative), errno));
                return;
            }
        }
        for name in below {
            let path = relative.join(name);
            scope.spawn(move |scope| self.visit(scope, path, depth + 1));
        }
    }

    fn list(&self, relative: &Path, depth: usize, tally: &mut Tally, below: &mut Vec<PathBuf>) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(&self.root, relative, flags, Mode::empty())?;
        if depth > 0 {
            let found = statx(&directory, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE.union(StatxFlags::MNT_ID))?;
            if place(&found) != self.device {
                tally.other_file_systems += 1;
                return Ok(());
            }
            tally.directory(depth);
        }
        let borrowed = std::os::fd::AsFd::as_fd(&directory);
        let mut buffer = [MaybeUninit::<u8>::uninit(); 32 << 10];
        let mut entries = RawDir::new(borrowed, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            match entry.file_type() {
                FileType::Directory if name == c"." || name == c".." => {}
                FileType::Directory => below.push(owned(name)),
                FileType::RegularFile => self.file(borrowed, (relative, name), depth, tally, None)?,
                FileType::Unknown => self.file(borrowed, (relative, name), depth, tally, Some(below))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Counts a regular file. An entry of unknown type may be a directory, which is added to `below`.
    fn file(
        &self,
        directory: BorrowedFd<'_>,
        (above, name): (&Path, &CStr),
        depth: usize,
        tally: &mut Tally,
        below: Option<&mut Vec<PathBuf>>,
    ) -> Result<(), Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let found = match statx(directory, name, flags, WANTED) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                tally.vanished += 1;
                return Ok(());
            }
            Err(errno) => return Err(errno),
        };
        if let Some(below) = below {
            match FileType::from_raw_mode(found.stx_mode.into()) {
                FileType::RegularFile => {}
                FileType::Directory if name != c"." && name != c".." => {
                    below.push(owned(name));
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
        // A file may be mounted over another.
        if place(&found) != self.device {
            tally.other_file_systems += 1;
            return Ok(());
        }
        if self.keep {
            tally.seen.push(file_state(&found, above, name));
        }
        let nanoseconds = |(seconds, part): (i64, u32)| seconds as u64 * 1_000_000_000 + u64::from(part);
        tally.births.add(birth(&found).map(nanoseconds), found.stx_ino, above);
        tally.name(name.count_bytes());
        let born = self.born(&found, tally);
        tally.file(found.stx_size, self.now.saturating_sub(born).max(1) as u64, depth);
        Ok(())
    }

    /// Returns the time of birth, or of the last modification if unknown.
    fn born(&self, found: &Statx, tally: &mut Tally) -> i64 {
        match birth(found) {
            Some((seconds, _)) => {
                tally.by_birth += 1;
                seconds
            }
            None => {
                tally.by_modification += 1;
                found.stx_mtime.tv_sec
            }
        }
    }
}

fn birth(found: &Statx) -> Option<(i64, u32)> {
    let known = found.stx_mask & StatxFlags::BTIME.bits() != 0 && found.stx_btime.tv_sec > 0;
    known.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
}

fn file_state(found: &Statx, above: &Path, name: &CStr) -> FileState {
    let mut path = DefaultHasher::new();
    (above, name).hash(&mut path);
    FileState {
        inode: found.stx_ino,
        born: birth(found),
        size: found.stx_size,
        modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
        path: path.finish(),
    }
}

fn owned(name: &CStr) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()))
}
