//! Populates file sets: first the directory tree, then the initial files in parallel.

use super::layout::Layout;
use crate::error::WorkloadError;
use rustix::fs::{AtFlags, Mode, OFlags};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Progress;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Bytes per write of a file's initial content (Filebench: `FILE_ALLOC_BLOCK`).
const WRITE_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub(crate) struct PopulateOptions {
    pub threads: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Populated {
    pub written_files: u64,
    pub written_bytes: u64,
    /// Files that an existing tree already contained.
    pub reused_files: u64,
}

/// Populates one file set below `root` (its own directory).
pub(crate) fn populate(
    layout: &Layout,
    root: &Path,
    content: &[u8],
    options: PopulateOptions,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<Populated, WorkloadError> {
    let reusing = layout.spec.trusttree || (layout.spec.reuse && root.is_dir());
    if !reusing {
        remove_tree(root)?;
    }
    fs::create_dir_all(root).map_err(WorkloadError::io("make directory", root))?;
    let handle = File::open(root).map_err(WorkloadError::io("open directory", root))?;
    let job = Job { layout, root, handle: handle.as_fd(), content, reusing, counts: Counts::default() };
    if layout.spec.prealloc && !layout.spec.trusttree {
        job.make_directories()?;
    }
    job.write_files(options.threads.max(1), progress, interrupt)?;
    job.make_leaf_directories()?;
    Ok(job.counts.total())
}

fn remove_tree(root: &Path) -> Result<(), WorkloadError> {
    match fs::remove_dir_all(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(WorkloadError::io("remove the old tree", root)),
    }
}

#[derive(Default)]
struct Counts {
    files: AtomicU64,
    bytes: AtomicU64,
    reused: AtomicU64,
}

impl Counts {
    fn total(&self) -> Populated {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Populated {
            written_files: load(&self.files),
            written_bytes: load(&self.bytes),
            reused_files: load(&self.reused),
        }
    }
}

struct Job<'a> {
    layout: &'a Layout,
    root: &'a Path,
    handle: BorrowedFd<'a>,
    content: &'a [u8],
    reusing: bool,
    counts: Counts,
}

impl Job<'_> {
    fn make_directories(&self) -> Result<(), WorkloadError> {
        for path in self.layout.directory_paths().iter().filter(|path| !path.is_empty()) {
            self.make_directory(path)?;
        }
        Ok(())
    }

    fn make_leaf_directories(&self) -> Result<(), WorkloadError> {
        if self.layout.existing_leaf_directories.is_empty() {
            return Ok(());
        }
        let paths = self.layout.leaf_directory_paths();
        let chosen = self.layout.existing_leaf_directories.iter();
        chosen.map(|index| &paths[*index as usize]).try_for_each(|path| self.make_directory(path))
    }

    fn make_directory(&self, path: &str) -> Result<(), WorkloadError> {
        match rustix::fs::mkdirat(self.handle, path, Mode::from_raw_mode(0o755)) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(errno) => Err(WorkloadError::io("make directory", self.root.join(path))(errno)),
        }
    }

    fn write_files(&self, threads: usize, progress: &dyn Progress, interrupt: &Interrupt) -> Result<(), WorkloadError> {
        let paths = self.layout.file_paths();
        let total = self.layout.existing_bytes();
        progress.phase(&format!("populating {}", self.layout.spec.name), total, "bytes");
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let error = Mutex::new(None);
        let work = || {
            while !failed.load(Ordering::Relaxed) && !interrupt.requested() {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                let Some(index) = self.layout.existing.get(turn) else { return };
                let size = self.layout.files[*index as usize].size;
                if let Err(problem) = self.file(&paths[*index as usize], size) {
                    failed.store(true, Ordering::Relaxed);
                    if let Ok(mut slot) = error.lock() {
                        slot.get_or_insert(problem);
                    }
                }
                if turn.is_multiple_of(256) {
                    progress.position(self.counts.bytes.load(Ordering::Relaxed), &format!("{turn} files"));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(self.layout.existing.len()) {
                scope.spawn(work);
            }
            work();
        });
        match error.into_inner() {
            Ok(Some(problem)) => Err(problem),
            _ if interrupt.requested() => {
                Err(WorkloadError::Interrupted(format!("populating {}", self.layout.spec.name)))
            }
            _ => Ok(()),
        }
    }

    fn file(&self, path: &str, size: u64) -> Result<(), WorkloadError> {
        if self.reusing && self.reuse(path, size)? {
            self.counts.reused.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let full = || self.root.join(path);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.handle, path, flags, Mode::from_raw_mode(0o644))
            .map_err(|errno| WorkloadError::io("create", full())(errno))?;
        let mut file = File::from(file);
        let mut left = size;
        while left > 0 {
            let piece = left.min(WRITE_BYTES.min(self.content.len()) as u64);
            file.write_all(&self.content[..piece as usize]).map_err(WorkloadError::io("write", full()))?;
            left -= piece;
        }
        self.counts.files.fetch_add(1, Ordering::Relaxed);
        self.counts.bytes.fetch_add(size, Ordering::Relaxed);
        Ok(())
    }

    /// Returns whether an existing file is usable: a trusted one without checks, one of the right size, or a larger one
    /// after truncation. A smaller or missing one is written.
    fn reuse(&self, path: &str, size: u64) -> Result<bool, WorkloadError> {
        if self.layout.spec.trusttree {
            return Ok(true);
        }
        let found = match rustix::fs::statat(self.handle, path, AtFlags::empty()) {
            Ok(stat) => stat.st_size as u64,
            Err(rustix::io::Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(WorkloadError::io("look up", self.root.join(path))(errno)),
        };
        if found > size {
            let cut = rustix::fs::openat(self.handle, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
                .and_then(|file| rustix::fs::ftruncate(file, size));
            cut.map_err(|errno| WorkloadError::io("truncate", self.root.join(path))(errno))?;
        }
        Ok(found >= size)
    }
}

/// Resolves a path as a user may give it: below the target by the target's name, absolute, or relative to the target.
fn below(path: &Path, target: &Path) -> PathBuf {
    let absolute = std::path::absolute(target).unwrap_or_else(|_| target.into());
    match path.strip_prefix(&absolute) {
        Ok(rest) => target.join(rest),
        Err(_) if path.is_relative() && !path.starts_with(target) => target.join(path),
        Err(_) => path.into(),
    }
}

/// Returns the location of a file set: its path with the placeholder replaced, then its name. It must be inside
/// `target`.
pub(crate) fn root_of(layout: &Layout, target: &Path) -> Result<PathBuf, WorkloadError> {
    let spec = &layout.spec;
    let path = match spec.path.strip_prefix(crate::model::TARGET_PLACEHOLDER) {
        Some(rest) => target.join(rest.trim_start_matches('/')),
        None => below(Path::new(&spec.path), target),
    };
    let climbs = path.components().any(|part| part == std::path::Component::ParentDir);
    if climbs || !path.starts_with(target) {
        return Err(WorkloadError::Outside {
            fileset: spec.name.clone(),
            path: path.join(&spec.name),
            target: target.into(),
            remedy: "write path=$dir in the workload file, or name that directory as the target".into(),
        });
    }
    Ok(path.join(&spec.name))
}
