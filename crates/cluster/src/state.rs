//! State shared by a rank's worker and its coordinator.

use crate::hello::Member;
use senesce_core::ExitCode;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Reason for an early end of the run on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    pub rank: u32,
    /// Name of its machine.
    pub host: String,
    pub reason: String,
    /// Exit code of the run.
    pub code: u8,
    /// The rank is dead and did not report this itself.
    pub died: bool,
}

impl Ending {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.code {
            1 => ExitCode::Negative,
            2 => ExitCode::Usage,
            3 => ExitCode::Refused,
            4 => ExitCode::Missing,
            130 => ExitCode::Interrupted,
            _ => ExitCode::RunFailed,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rank {} on {}: {}", self.rank, self.host, self.reason)
    }
}

/// Why no further operations may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    Interrupted,
    Wanted,
    Ended,
}

/// Not yet, or never.
pub(crate) const NONE: u64 = u64::MAX;

/// A value that arrived before it was requested.
pub(crate) struct ReceivedValue {
    pub from: u32,
    pub step: u64,
    pub body: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct Inner {
    pub inbox: VecDeque<ReceivedValue>,
    pub ending: Option<Ending>,
    pub members: Vec<Member>,
    pub halt: Option<Halt>,
}

pub(crate) struct State {
    /// Operations in flight over all ranks; 0: no operations are running.
    pub window: AtomicU64,
    /// Every operation of this rank below is done.
    pub reached: AtomicU64,
    /// Every operation of every rank below is done; [`NONE`] until all have started.
    pub floor: AtomicU64,
    /// No operation that ends above may start.
    pub stop_at: AtomicU64,
    pub waiting: AtomicBool,
    /// Clocks are being compared: polls without sleeping.
    pub timing: AtomicBool,
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            window: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            floor: AtomicU64::new(NONE),
            stop_at: AtomicU64::new(NONE),
            waiting: AtomicBool::new(false),
            timing: AtomicBool::new(false),
            inner: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Locks the state, even after a panic of a worker: it is plain data and stays valid.
    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits until `ready` returns a value.
    pub(crate) fn wait_for<T>(&self, mut ready: impl FnMut(&mut Inner) -> Option<T>) -> T {
        let mut inner = self.inner();
        self.waiting.store(true, Ordering::Relaxed);
        loop {
            if let Some(value) = ready(&mut inner) {
                self.waiting.store(false, Ordering::Relaxed);
                return value;
            }
            let waited = self.changed.wait_timeout(inner, Duration::from_millis(100));
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns whether operations below `end` may start; `None`: not yet.
    pub(crate) fn permits(&self, end: u64) -> Option<Result<(), Halt>> {
        if end > self.stop_at.load(Ordering::Acquire) {
            return Some(Err(Halt::Wanted));
        }
        let floor = self.floor.load(Ordering::Acquire);
        let most = floor.saturating_add(self.window.load(Ordering::Relaxed));
        (floor != NONE && end <= most).then_some(Ok(()))
    }
}
