//! State shared by all threads of a run.

use super::clock::Clock;
use super::file_calls::FileCalls;
use super::latency::Latencies;
use super::program::Programs;
use super::synchronize::{EventGenerator, Waits};
use crate::fileset::layout::Layout;
use crate::fileset::pick::EntryTable;
use crate::model::RandomVariable;
use crate::wml::syntax::QuitMode;
use senesce_core::Seed;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub(crate) struct ActiveFileset {
    pub name: String,
    pub path: PathBuf,
    pub root: OwnedFd,
    pub files: EntryTable,
    pub sizes: Vec<u64>,
    pub file_paths: Vec<CString>,
    pub directories: EntryTable,
    pub directory_paths: Vec<CString>,
    pub leaf_directories: EntryTable,
    pub leaf_directory_paths: Vec<CString>,
}

impl ActiveFileset {
    pub(crate) fn new(layout: &Layout, path: PathBuf, root: OwnedFd) -> Self {
        let strings =
            |paths: Vec<String>| paths.into_iter().map(|path| CString::new(path).unwrap_or_default()).collect();
        Self {
            name: layout.spec.name.clone(),
            path,
            root,
            files: EntryTable::new(layout.files.len(), layout.existing.iter().copied()),
            sizes: layout.files.iter().map(|file| file.size).collect(),
            file_paths: strings(layout.file_paths()),
            directories: EntryTable::new(layout.directories.len(), 0..layout.directories.len() as u32),
            directory_paths: strings(layout.directory_paths()),
            leaf_directories: EntryTable::new(
                layout.leaf_directories.len(),
                layout.existing_leaf_directories.iter().copied(),
            ),
            leaf_directory_paths: strings(layout.leaf_directory_paths()),
        }
    }
}

/// Totals over all threads, only kept for flowops and run lengths that need them.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub kept: bool,
    pub operations: AtomicU64,
    pub reads_and_writes: AtomicU64,
    pub bytes: AtomicU64,
    pub charged_operations: AtomicU64,
    pub charged_reads_and_writes: AtomicU64,
    pub charged_bytes: AtomicU64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Requested by the workload (finishoncount, firstdone ...).
    Finished(String),
    /// Invalid because of an I/O error.
    Failed(String),
    /// Invalid because of the workload: no file could be obtained.
    Invalid(String),
}

/// Data of a thread for the watchdog and the statistics. Only the thread writes it. Records of different threads do not share
/// cache lines (nor pairs of lines, which processors prefetch).
#[repr(align(128))]
pub(crate) struct ThreadRecord {
    pub program: usize,
    /// Number among the threads of its program, from 1.
    pub instance: u64,
    /// Tick of its first execution after the start; `u64::MAX` before.
    pub began: AtomicU64,
    pub cut: AtomicU64,
    /// Nanoseconds of waiting for a processor while runnable; `u64::MAX`: unknown.
    pub waiting: AtomicU64,
    /// Count, bytes and latency sum in ns of each flowop.
    pub counters: Box<[[AtomicU64; 3]]>,
    /// Current activity: flowop + 1 (16 bits), system call (8), file set (8), entry (32).
    pub activity: AtomicU64,
    pub since: AtomicU64,
    pub ended: AtomicBool,
}

pub(crate) struct Shared<B: FileCalls> {
    pub backend: B,
    pub clock: Clock,
    pub programs: Programs,
    pub filesets: Vec<ActiveFileset>,
    pub randoms: Vec<RandomVariable>,
    pub latencies: Latencies,
    /// Operations that start before this tick are not counted.
    pub count_from: AtomicU64,
    /// Operations that end after this tick are not counted.
    pub count_until: AtomicU64,
    /// Requested number of counted operations; `u64::MAX`: no limit.
    pub operations_wanted: u64,
    pub places_taken: AtomicU64,
    pub waits: Waits,
    pub events: Option<EventGenerator>,
    pub totals: Totals,
    /// Reaction if no file can be obtained.
    pub quit_mode: QuitMode,
    pub random_choice: bool,
    pub seed: Seed,
    pub ready: AtomicUsize,
    pub ended: AtomicUsize,
    /// First reason for an early end.
    pub ending: Mutex<Option<Ending>>,
    pub messages: Mutex<Vec<String>>,
}

impl<B: FileCalls> Shared<B> {
    /// Ends the run; later reasons are ignored.
    pub(crate) fn end(&self, ending: Ending) {
        let mut slot = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_none() && !self.waits.stopped() {
            *slot = Some(ending);
        }
        drop(slot);
        self.waits.stop();
    }

    /// Records a failure of counted operations that is only known after the run. Overrides every other end.
    pub(crate) fn fail_afterwards(&self, why: String) {
        let mut slot = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*slot, Some(Ending::Failed(_))) {
            *slot = Some(Ending::Failed(why));
        }
        drop(slot);
        self.waits.stop();
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops counting, unless already stopped.
    pub(crate) fn stop_counting(&self) -> u64 {
        let now = self.clock.now();
        self.count_until.fetch_min(now, Ordering::SeqCst);
        self.count_until.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub(crate) enum SystemCall {
    None,
    Openat,
    Close,
    Read,
    Pread,
    Write,
    Pwrite,
    Fsync,
    Unlinkat,
    Newfstatat,
    Fstat,
    Mkdirat,
    Getdents,
    IoUringEnter,
    Wait,
}

impl SystemCall {
    pub(crate) const ALL: [SystemCall; 15] = [
        Self::None,
        Self::Openat,
        Self::Close,
        Self::Read,
        Self::Pread,
        Self::Write,
        Self::Pwrite,
        Self::Fsync,
        Self::Unlinkat,
        Self::Newfstatat,
        Self::Fstat,
        Self::Mkdirat,
        Self::Getdents,
        Self::IoUringEnter,
        Self::Wait,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no system call",
            Self::Openat => "openat",
            Self::Close => "close",
            Self::Read => "read",
            Self::Pread => "pread",
            Self::Write => "write",
            Self::Pwrite => "pwrite",
            Self::Fsync => "fsync",
            Self::Unlinkat => "unlinkat",
            Self::Newfstatat => "newfstatat",
            Self::Fstat => "fstat",
            Self::Mkdirat => "mkdirat",
            Self::Getdents => "getdents64",
            Self::IoUringEnter => "io_uring_enter",
            Self::Wait => "waiting for another thread, an event or time",
        }
    }
}
