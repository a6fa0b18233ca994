//! A bounded cache of directory descriptors: some profiles have 25,000 directories, and a process often has 256 descriptors.

use crate::error::AgingError;
use crate::plan::AgingPlan;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// Descriptors reserved for the rest of the process.
const RESERVE: usize = 48;
/// A larger cache gains nothing.
const MOST: usize = 32_768;
const NONE: u32 = u32::MAX;

/// Returns the maximum number of descriptors of each of `threads` caches, if each thread also holds `files`. Raises the
/// soft limit of the process to its hard limit.
pub(crate) fn budget(threads: usize, files: usize) -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = getrlimit(Resource::Nofile);
        }
    }
    let open = std::fs::read_dir("/proc/self/fd").map_or(RESERVE, Iterator::count);
    let most = limit.current.map_or(MOST, |most| usize::try_from(most).unwrap_or(MOST));
    (most.saturating_sub(open + RESERVE) / threads.max(1)).saturating_sub(files).clamp(4, MOST)
}

#[derive(Debug)]
pub(crate) struct Descriptors {
    plan: Arc<AgingPlan>,
    top: OwnedFd,
    top_path: PathBuf,
    entry_of: Vec<u32>,
    entries: Vec<CachedDescriptor>,
    capacity: usize,
    clock: usize,
}

#[derive(Debug)]
struct CachedDescriptor {
    directory: u32,
    descriptor: OwnedFd,
    used: bool,
}

impl Descriptors {
    /// Creates an empty cache over the aged directory `top`.
    pub(crate) fn new(plan: Arc<AgingPlan>, top: OwnedFd, top_path: PathBuf, capacity: usize) -> Self {
        let entry_of = vec![NONE; plan.directories().count() as usize];
        Self { plan, top, top_path, entry_of, entries: Vec::new(), capacity, clock: 0 }
    }

    pub(crate) fn path(&self, directory: u32) -> PathBuf {
        self.top_path.join(self.plan.directories().path(directory))
    }

    pub(crate) fn get(&mut self, directory: u32) -> Result<BorrowedFd<'_>, AgingError> {
        if directory == 0 {
            return Ok(self.top.as_fd());
        }
        let mut at = self.entry_of[directory as usize];
        if at == NONE {
            at = self.open(directory)?;
        }
        let entry = &mut self.entries[at as usize];
        entry.used = true;
        Ok(entry.descriptor.as_fd())
    }

    fn open(&mut self, directory: u32) -> Result<u32, AgingError> {
        let descriptor = match self.open_at(directory) {
            // Other code in the process used more than the reserve: evict one and retry once.
            Err(Errno::MFILE | Errno::NFILE) if !self.entries.is_empty() => {
                self.shrink();
                self.open_at(directory)
            }
            result => result,
        };
        let descriptor = descriptor.map_err(|errno| AgingError::io("open directory", self.path(directory), errno))?;
        let entry = CachedDescriptor { directory, descriptor, used: true };
        let at = if self.entries.len() < self.capacity {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let at = self.victim();
            self.entry_of[self.entries[at].directory as usize] = NONE;
            self.entries[at] = entry;
            at
        };
        self.entry_of[directory as usize] = at as u32;
        Ok(at as u32)
    }

    fn open_at(&self, directory: u32) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let tree = self.plan.directories();
        let above = tree.parent(directory).map_or(NONE, |parent| self.entry_of[parent as usize]);
        match self.entries.get(above as usize) {
            Some(entry) => openat(&entry.descriptor, tree.name(directory), flags, Mode::empty()),
            None => openat(&self.top, tree.path(directory).trim_end_matches('/'), flags, Mode::empty()),
        }
    }

    fn victim(&mut self) -> usize {
        loop {
            self.clock = (self.clock + 1) % self.entries.len();
            if !std::mem::take(&mut self.entries[self.clock].used) {
                return self.clock;
            }
        }
    }

    fn shrink(&mut self) {
        self.capacity = (self.entries.len() / 2).max(1);
        for entry in self.entries.drain(self.capacity..) {
            self.entry_of[entry.directory as usize] = NONE;
        }
        self.clock = 0;
    }
}
