//! Slots of deleted content, which wait until their space in the cold store is released and then become free.

use crate::fs::TierFs;
use parking_lot::Mutex;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Slots that are punched between two checks for urgent demand.
const AT_ONCE: usize = 256;

#[derive(Default)]
pub(crate) struct ReleasedSlots {
    waiting: Mutex<Vec<u32>>,
    /// Held while slots move from here to the free ones.
    moving: Mutex<()>,
    count: AtomicU64,
    punched: AtomicU64,
    /// The store does not support releasing space.
    cannot: AtomicBool,
}

impl ReleasedSlots {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn punched(&self) -> u64 {
        self.punched.load(Ordering::Relaxed)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.count() > 0
    }
}

impl TierFs {
    pub(crate) fn release_slots(&self, slots: &[u32]) {
        if slots.is_empty() {
            return;
        }
        self.counters.cold.fetch_sub(slots.len() as u64, Ordering::Relaxed);
        if self.released.cannot.load(Ordering::Relaxed) {
            return self.slots.give(slots);
        }
        self.released.waiting.lock().extend(slots);
        self.released.count.fetch_add(slots.len() as u64, Ordering::Relaxed);
        self.caretaker.wake();
    }

    /// Frees slots without punching, because they will be written again soon: their content moved or was replaced.
    pub(crate) fn recycle_slots(&self, slots: &[u32]) {
        self.counters.cold.fetch_sub(slots.len() as u64, Ordering::Relaxed);
        self.slots.give(slots);
    }

    /// Frees released slots without punching.
    pub(crate) fn hurry_released(&self) {
        let _moving = self.released.moving.lock();
        let slots = std::mem::take(&mut *self.released.waiting.lock());
        self.slots.give(&slots);
        self.released.count.fetch_sub(slots.len() as u64, Ordering::Relaxed);
    }

    /// Punches some released slots and frees them; `false` if the list was empty.
    pub(crate) fn punch_released(&self) -> bool {
        let _moving = self.released.moving.lock();
        let mut slots = {
            let mut waiting = self.released.waiting.lock();
            let from = waiting.len().saturating_sub(AT_ONCE);
            waiting.split_off(from)
        };
        if slots.is_empty() {
            return false;
        }
        slots.sort_unstable();
        for run in slots.chunk_by(|a, b| a + 1 == *b) {
            match self.cold.punch(run[0], run.len() as u32) {
                Ok(()) => self.released.punched.fetch_add(run.len() as u64, Ordering::Relaxed),
                Err(error) => {
                    let unsupported = matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS));
                    if unsupported || error.kind() == io::ErrorKind::Unsupported {
                        self.released.cannot.store(true, Ordering::Relaxed);
                    }
                    tracing::debug!("punch a hole into the cold store: {error}");
                    0
                }
            };
        }
        self.slots.give(&slots);
        self.released.count.fetch_sub(slots.len() as u64, Ordering::Relaxed);
        true
    }
}
