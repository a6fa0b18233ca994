//! The evictor: moves the coldest leaf blocks to the cold store in batches, and makes them durable there before it changes
//! pointers.
//!
//! A block is copied under its file's shared lock, and written and flushed without any lock. Its pointer changes under the
//! exclusive lock if the block is unchanged. Readers therefore wait only for memory.

use crate::cold::AlignedBuffer;
use crate::format::{BLOCK, Pointer};
use crate::fs::{FreedSpace, TierFs};
use crate::heat::Leaf;
use crate::region::{Unsynced, byte, sum_of_block};
use crate::space::BlockMarks;
use crate::tree::Cursor;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Blocks of one batch: 4 MiB.
pub const BATCH: usize = 1024;
const SWINGS_PER_LOCK: usize = 64;

pub(crate) struct Evictor {
    threshold: u64,
    period: Duration,
    work: Mutex<Work>,
    stopped: Mutex<EvictionStop>,
    /// Whether the last search found no free slot.
    full: AtomicBool,
    /// Cold slots that were read since they were written, for the second-use policy.
    used: BlockMarks,
    shutdown: Mutex<bool>,
    wake: Condvar,
    /// Whether it sleeps until the threshold is exceeded.
    calm: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvictionStop {
    No,
    NoSpace,
    Failed,
}

struct Work {
    hand: u32,
    buffer: Option<AlignedBuffer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    leaf: Leaf,
    block: u32,
}

impl Evictor {
    /// Keeps at most `threshold` leaf blocks in memory; checks every `period` while there are more.
    pub(crate) fn new(threshold: u64, period: Duration, slots: u64) -> Self {
        Self {
            threshold,
            period,
            work: Mutex::new(Work { hand: 0, buffer: None }),
            stopped: Mutex::new(EvictionStop::No),
            full: AtomicBool::new(false),
            used: BlockMarks::new(slots),
            shutdown: Mutex::new(false),
            wake: Condvar::new(),
            calm: AtomicBool::new(false),
        }
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    pub(crate) fn period(&self) -> Duration {
        self.period
    }

    /// Marks a slot as used; returns whether it was marked before.
    pub(crate) fn used_before(&self, slot: u32) -> bool {
        self.used.set(slot)
    }

    pub(crate) fn cold_store_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Tracks whether the cold store has space; warns when it becomes full.
    fn note_space(&self, free: u64) {
        let full = free == 0;
        if full && !self.full.load(Ordering::Relaxed) {
            eprintln!("tier: the cold store is full: eviction stopped until some of its blocks are freed");
        }
        self.full.store(full, Ordering::Relaxed);
    }

    /// Returns whether eviction stopped because the cold store failed or its disk is full.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.stopped.lock() != EvictionStop::No
    }

    fn stop_after(&self, error: &io::Error) {
        let no_space = matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT));
        *self.stopped.lock() = if no_space { EvictionStop::NoSpace } else { EvictionStop::Failed };
    }

    fn resume(&self) {
        if std::mem::replace(&mut *self.stopped.lock(), EvictionStop::No) != EvictionStop::No {
            eprintln!("tier: the disk of the cold store has space again: eviction resumed");
        }
    }

    /// Ends [`TierFs::run_evictor`].
    pub(crate) fn shut_down(&self) {
        *self.shutdown.lock() = true;
        self.wake.notify_all();
    }

    /// Wakes the evictor if the threshold is exceeded. Called with the number of leaf blocks in memory when it grows.
    pub(crate) fn grown_to(&self, resident: u64) {
        if resident > self.threshold && self.calm.load(Ordering::SeqCst) && self.calm.swap(false, Ordering::SeqCst) {
            let _sleeper = self.shutdown.lock();
            self.wake.notify_all();
        }
    }

    /// Sleeps until the threshold is exceeded, and for one period more; `false` after shutdown.
    fn sleep(&self, resident: impl Fn() -> u64) -> bool {
        let mut shutdown = self.shutdown.lock();
        while !*shutdown {
            self.calm.store(true, Ordering::SeqCst);
            // A thread that exceeds the threshold after this check sees `calm`.
            if resident() > self.threshold {
                break;
            }
            self.wake.wait(&mut shutdown);
        }
        self.calm.store(false, Ordering::SeqCst);
        if !*shutdown {
            self.wake.wait_for(&mut shutdown, self.period);
        }
        !*shutdown
    }
}

impl TierFs {
    /// Runs until [`Evictor::shut_down`].
    pub(crate) fn run_evictor(&self) {
        while self.evictor.sleep(|| self.heat.resident()) {
            while self.heat.resident() > self.evictor.threshold {
                let excess = self.heat.resident().saturating_sub(self.evictor.threshold) as usize;
                if self.evict(excess.min(BATCH)) == 0 || *self.evictor.shutdown.lock() {
                    break;
                }
            }
        }
    }

    pub(crate) fn adopt(&self, block: u32, leaf: Leaf) {
        self.evictor.grown_to(self.heat.adopt(block, leaf));
    }

    pub(crate) fn evictor(&self) -> &Evictor {
        &self.evictor
    }

    pub(crate) fn evict_under_pressure(&self, needed: usize) -> usize {
        const ATTEMPTS: usize = 4;
        let some = (self.blocks.total() as usize / 16).min(BATCH / 4);
        (0..ATTEMPTS).map(|_| self.evict((2 * needed).max(some))).find(|moved| *moved > 0).unwrap_or(0)
    }

    /// Moves up to `want` (at most [`BATCH`]) blocks to the cold store; returns the number. 0 means that nothing can be evicted:
    /// no leaf in memory, or the cold store is full or failed.
    pub fn evict(&self, want: usize) -> usize {
        if !self.may_evict() || self.changeable().is_err() {
            return 0;
        }
        let mut work = self.evictor.work.lock();
        if self.slots.free() < want.min(BATCH) as u64 && self.released.is_waiting() {
            self.hurry_released();
        }
        self.evictor.note_space(self.slots.free());
        let want = want.min(BATCH).min(self.slots.free() as usize);
        let mut batch = self.pick(&mut work.hand, want);
        batch.sort_unstable();
        // The hand may have passed a leaf twice.
        batch.dedup();
        let mut buffer = work.buffer.take().unwrap_or_else(|| AlignedBuffer::new(BATCH));
        let batch = self.snapshot(&batch, &mut buffer);
        let mut slots = Vec::with_capacity(batch.len());
        let moved = if batch.is_empty() || !self.slots.take(batch.len(), false, &mut slots) {
            0
        } else {
            match self.write_batch(&slots, &buffer) {
                Ok(()) => {
                    self.evictor.resume();
                    self.swing_batch(&batch, &slots)
                }
                Err(error) => {
                    self.slots.give(&slots);
                    self.evictor.stop_after(&error);
                    self.counters.complain("eviction stopped: write to the cold store", &error);
                    0
                }
            }
        };
        work.buffer = Some(buffer);
        moved
    }

    /// Returns whether eviction may run: it resumes by itself once the disk of the cold store has space.
    fn may_evict(&self) -> bool {
        match *self.evictor.stopped.lock() {
            EvictionStop::No => true,
            EvictionStop::NoSpace => self.cold.has_space((BATCH * BLOCK) as u64),
            EvictionStop::Failed => false,
        }
    }

    /// Moves the CLOCK hand until `want` cold leaves are found, at most twice around.
    fn pick(&self, hand: &mut u32, want: usize) -> Vec<Candidate> {
        let mut found = Vec::with_capacity(want);
        let blocks = self.region.blocks() as u32;
        for _ in 0..2 * u64::from(blocks) {
            if found.len() == want {
                break;
            }
            if let Some(leaf) = self.heat.sweep(*hand) {
                found.push(Candidate { leaf, block: *hand });
            }
            *hand = (*hand + 1) % blocks;
        }
        found
    }

    /// Copies the unmoved candidates into `buffer`; returns them.
    fn snapshot(&self, candidates: &[Candidate], buffer: &mut [u8]) -> Vec<Candidate> {
        let mut kept = Vec::with_capacity(candidates.len());
        for group in candidates.chunk_by(|a, b| a.leaf.ino == b.leaf.ino) {
            let ino = group[0].leaf.ino;
            for part in group.chunks(SWINGS_PER_LOCK) {
                let _guard = self.table.slot(ino).lock.read();
                // The inode may be gone, and its block with it, so the block is looked up again under the lock.
                let Ok(file) = self.find(ino).and_then(|(offset, _)| self.load(offset)) else { continue };
                let mut cursor = Cursor::new(&self.region, file.root);
                for candidate in part {
                    let here = cursor.get(u64::from(candidate.leaf.index)) == Pointer::resident(candidate.block);
                    if file.is_file() && here {
                        self.heat.begin_snapshot(candidate.block);
                        // SAFETY: the inode is locked.
                        unsafe { self.region.read(byte(candidate.block), &mut buffer[kept.len() * BLOCK..][..BLOCK]) };
                        kept.push(*candidate);
                    }
                }
            }
        }
        kept
    }

    /// Writes the batch, with one request per run of adjacent slots, and flushes. Then stores the checksums of the slots, to
    /// which nothing points yet.
    fn write_batch(&self, slots: &[u32], buffer: &[u8]) -> io::Result<()> {
        let mut done = 0;
        for run in slots.chunk_by(|a, b| a + 1 == *b) {
            self.cold.write(run[0], &buffer[done * BLOCK..(done + run.len()) * BLOCK])?;
            done += run.len();
        }
        self.cold.sync()?;
        let (mut rest, mut unsynced) = (buffer.chunks(BLOCK), Unsynced::default());
        for run in slots.chunk_by(|a, b| a + 1 == *b) {
            let blocks = run.iter().zip(&mut rest);
            let sums: Vec<u32> =
                blocks.map(|(slot, block)| if self.block_sums { sum_of_block(*slot, block) } else { 0 }).collect();
            self.region.store_block_sums(&mut unsynced, run[0], &sums);
        }
        self.region.sync(&mut unsynced);
        self.settled().map_err(io::Error::from)
    }

    /// Changes the pointers of unmodified blocks to their slots and frees the blocks; releases the other slots.
    fn swing_batch(&self, batch: &[Candidate], slots: &[u32]) -> usize {
        let moves: Vec<(Candidate, u32)> = batch.iter().copied().zip(slots.iter().copied()).collect();
        let (mut freed, mut unused) = (Vec::with_capacity(moves.len()), Vec::new());
        for group in moves.chunk_by(|a, b| a.0.leaf.ino == b.0.leaf.ino) {
            let ino = group[0].0.leaf.ino;
            for part in group.chunks(SWINGS_PER_LOCK) {
                let _guard = self.table.slot(ino).lock.write();
                let offset = self.table.offset(ino).unwrap_or(0);
                let root =
                    self.find(ino).and_then(|(offset, _)| self.load(offset)).map_or(Pointer::HOLE, |file| file.root);
                let (mut cursor, mut unsynced) = (Cursor::new(&self.region, root), Unsynced::default());
                for (candidate, slot) in part {
                    let index = u64::from(candidate.leaf.index);
                    let here = cursor.get(index) == Pointer::resident(candidate.block);
                    if here && self.heat.unchanged(candidate.block) && self.changeable().is_ok() {
                        self.swing(offset, &mut cursor, index, Pointer::cold(*slot), &mut unsynced);
                        self.evictor.used.clear(*slot);
                        freed.push(candidate.block);
                    } else {
                        unused.push(*slot);
                    }
                }
                self.region.sync(&mut unsynced);
            }
        }
        self.slots.give(&unused);
        let moved = freed.len();
        self.give(&FreedSpace { blocks: freed, ..FreedSpace::default() });
        self.counters.cold.fetch_add(moved as u64, Ordering::Relaxed);
        self.counters.evicted.fetch_add(moved as u64, Ordering::Relaxed);
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        moved
    }
}
