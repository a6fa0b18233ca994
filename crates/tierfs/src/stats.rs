use crate::fs::{Mode, Promotion, TierFs};
use crate::scrub::Progress;
use parking_lot::Mutex;
use senesce_core::failure::errno_message;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

const MOST_PRINTED: u64 = 100;

#[derive(Default)]
pub(crate) struct Counters {
    pub cold: AtomicU64,
    pub evicted: AtomicU64,
    pub fetched: AtomicU64,
    pub promoted: AtomicU64,
    /// Eviction batches, each with one flush.
    pub batches: AtomicU64,
    pub damaged: AtomicU64,
    complaint: Mutex<Option<String>>,
}

impl Counters {
    pub(crate) fn starting_with(cold: u64) -> Self {
        Self { cold: AtomicU64::new(cold), ..Self::default() }
    }

    pub(crate) fn damaged_block(&self, slot: u32) {
        let before = self.damaged.fetch_add(1, Ordering::Relaxed);
        if before < MOST_PRINTED {
            eprintln!("tier: the content of slot {slot} of the cold store is damaged: its checksum is wrong");
        }
        if before + 1 == MOST_PRINTED {
            eprintln!("tier: further damaged slots are only counted");
        }
    }

    /// Keeps the first failure of the cold store and prints it once.
    pub(crate) fn complain(&self, operation: &str, error: &std::io::Error) {
        let mut complaint = self.complaint.lock();
        if complaint.is_none() {
            let text = format!("{operation}: {}", errno_message(error));
            eprintln!("tier: {text}");
            *complaint = Some(text);
        }
    }
}

/// A snapshot of the counters, as `senesce tier stats --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Leaf blocks of regular files in memory.
    pub resident_blocks: u64,
    /// Blocks in the cold store.
    pub cold_blocks: u64,
    /// Blocks moved to the cold store since the mount.
    pub evicted: u64,
    /// Blocks read from the cold store since the mount.
    pub fetched: u64,
    /// Fetched blocks that stayed in memory.
    pub promoted: u64,
    /// Flushes of the cold store for evictions.
    pub eviction_batches: u64,
    /// Blocks of memory for metadata: nodes, inodes, directories, attributes.
    pub metadata_blocks: u64,
    /// Free blocks of memory.
    pub free_blocks: u64,
    /// Free slots of the cold store.
    pub free_cold_blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes kept outside the region per block of it, for the evictor.
    pub overhead_bytes_per_block: u64,
    /// Mode.
    pub mode: Mode,
    /// Promotion policy.
    pub promotion: Promotion,
    /// Resident blocks above which the evictor works.
    pub threshold_blocks: u64,
    /// Interval of the evictor's checks, milliseconds.
    pub period_ms: f64,
    /// How stores become durable.
    pub durability: String,
    /// The cold store with its modelled latency, if any.
    pub cold_store: String,
    /// The first failure of the cold store.
    pub cold_store_failure: Option<String>,
    /// Reads of evicted blocks with a wrong checksum, which return EIO.
    pub damaged_block_reads: u64,
    /// Number of structures in the region found with a wrong checksum.
    pub damaged_metadata: u64,
    /// Whether evicted blocks have checksums.
    pub block_sums: bool,
    /// Blocks of the cold store whose space was released since the mount.
    pub punched_cold_blocks: u64,
    /// Whether eviction stopped because the cold store failed or its disk is full; in the latter case it resumes by itself.
    pub eviction_stopped: bool,
    /// The current or last scrub.
    pub scrub: Progress,
    /// Whether eviction stopped because the cold store is full; it resumes once blocks are freed.
    pub cold_store_full: bool,
}

impl TierFs {
    pub fn stats(&self) -> Stats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (resident, free) = (self.heat.resident(), self.blocks.free());
        Stats {
            resident_blocks: resident,
            cold_blocks: load(&self.counters.cold),
            evicted: load(&self.counters.evicted),
            fetched: load(&self.counters.fetched),
            promoted: load(&self.counters.promoted),
            eviction_batches: load(&self.counters.batches),
            metadata_blocks: self.blocks.total().saturating_sub(free + resident),
            free_blocks: free,
            free_cold_blocks: self.free_slots(),
            block_bytes: crate::format::BLOCK as u64,
            overhead_bytes_per_block: crate::heat::Heat::BYTES_PER_BLOCK as u64,
            mode: self.mode,
            promotion: self.promotion,
            threshold_blocks: self.evictor.threshold(),
            period_ms: self.evictor.period().as_secs_f64() * 1e3,
            durability: self.region.nvm().durability().into(),
            cold_store: self.cold.describe(),
            cold_store_failure: self.counters.complaint.lock().clone(),
            damaged_block_reads: load(&self.counters.damaged),
            damaged_metadata: self.region.damage(),
            block_sums: self.block_sums,
            punched_cold_blocks: self.released.punched(),
            eviction_stopped: self.evictor.is_stopped(),
            scrub: self.scrubbed.progress(self.caretaker.is_scrub_due()),
            cold_store_full: self.evictor.cold_store_full(),
        }
    }

    pub(crate) fn available_blocks(&self) -> u64 {
        let cold = if self.mode == Mode::Anticache { self.free_slots() } else { 0 };
        self.blocks.available() + cold
    }

    fn free_slots(&self) -> u64 {
        self.slots.free() + self.released.count()
    }

    pub(crate) fn statfs(&self) -> Statfs {
        let cold = if self.mode == Mode::Anticache { self.slots.total() - 1 } else { 0 };
        let cold_free = if self.mode == Mode::Anticache { self.free_slots() } else { 0 };
        let inodes = u64::from(self.table.end()) - 1;
        let free_inodes = self.table.free() as u64;
        let available = self.available_blocks();
        Statfs {
            blocks: self.blocks.total() - 1 + cold,
            free: self.blocks.free() + cold_free,
            available,
            inodes: inodes + self.blocks.available() * u64::from(crate::format::INODES_PER_BLOCK),
            free_inodes: free_inodes + self.blocks.available() * u64::from(crate::format::INODES_PER_BLOCK),
        }
    }
}

/// Result of statfs(2), in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Statfs {
    pub blocks: u64,
    pub free: u64,
    /// Blocks available to ordinary writers.
    pub available: u64,
    pub inodes: u64,
    pub free_inodes: u64,
}
