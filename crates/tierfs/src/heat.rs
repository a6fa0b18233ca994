//! The evictor's state of each block: owner, recent use (CLOCK), modification. 9 bytes per block outside the region.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const LEAF: u8 = 1;
const REFERENCED: u8 = 2;
const CHANGED: u8 = 4;

pub(crate) struct Heat {
    state: Box<[AtomicU8]>,
    owner: Box<[AtomicU64]>,
    resident: AtomicU64,
}

/// A leaf block of a regular file, the only kind that is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Leaf {
    pub ino: u32,
    pub index: u32,
}

impl Heat {
    /// Creates the table with all blocks unowned. Memory is touched as blocks come into use.
    pub(crate) fn new(blocks: u64) -> Self {
        // SAFETY: zero is a value of both atomics.
        let (state, owner) = unsafe {
            (Box::new_zeroed_slice(blocks as usize).assume_init(), Box::new_zeroed_slice(blocks as usize).assume_init())
        };
        Self { state, owner, resident: AtomicU64::new(0) }
    }

    pub(crate) const BYTES_PER_BLOCK: usize = size_of::<AtomicU8>() + size_of::<AtomicU64>();

    pub(crate) fn resident(&self) -> u64 {
        self.resident.load(Ordering::SeqCst)
    }

    /// Records that `block` now holds a leaf, hot and modified. Returns the number of leaves in memory.
    pub(crate) fn adopt(&self, block: u32, leaf: Leaf) -> u64 {
        self.owner[block as usize].store(u64::from(leaf.ino) << 32 | u64::from(leaf.index), Ordering::Relaxed);
        self.state[block as usize].store(LEAF | REFERENCED | CHANGED, Ordering::Release);
        self.resident.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn release(&self, block: u32) {
        if self.state[block as usize].swap(0, Ordering::AcqRel) & LEAF != 0 {
            self.resident.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Records that a reader used `block`.
    pub(crate) fn touch(&self, block: u32) {
        let state = &self.state[block as usize];
        if state.load(Ordering::Relaxed) & REFERENCED == 0 {
            state.fetch_or(REFERENCED, Ordering::Relaxed);
        }
    }

    pub(crate) fn change(&self, block: u32) {
        self.state[block as usize].fetch_or(REFERENCED | CHANGED, Ordering::Release);
    }

    /// Prepares for a snapshot of `block`; writers are locked out.
    pub(crate) fn begin_snapshot(&self, block: u32) {
        self.state[block as usize].fetch_and(!CHANGED, Ordering::AcqRel);
    }

    /// Returns whether `block` is unchanged since the snapshot.
    pub(crate) fn unchanged(&self, block: u32) -> bool {
        self.state[block as usize].load(Ordering::Acquire) & (LEAF | CHANGED) == LEAF
    }

    /// Performs one step of the CLOCK hand: a used leaf loses its mark, an unused one is a candidate.
    pub(crate) fn sweep(&self, block: u32) -> Option<Leaf> {
        let state = &self.state[block as usize];
        let seen = state.load(Ordering::Acquire);
        if seen & LEAF == 0 {
            return None;
        }
        if seen & REFERENCED != 0 {
            state.fetch_and(!REFERENCED, Ordering::Relaxed);
            return None;
        }
        let owner = self.owner[block as usize].load(Ordering::Relaxed);
        Some(Leaf { ino: (owner >> 32) as u32, index: owner as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_leaf_gets_a_second_chance() {
        let heat = Heat::new(10);
        let leaf = Leaf { ino: 3, index: 9 };
        heat.adopt(5, leaf);
        assert_eq!(heat.sweep(5), None);
        assert_eq!(heat.sweep(5), Some(leaf));
        heat.touch(5);
        assert_eq!(heat.sweep(5), None);
        assert_eq!(heat.sweep(4), None, "not a leaf");
        heat.release(5);
        assert_eq!((heat.resident(), heat.sweep(5)), (0, None));
    }

    #[test]
    fn change_after_the_snapshot_is_detected() {
        let heat = Heat::new(10);
        heat.adopt(5, Leaf { ino: 1, index: 0 });
        heat.begin_snapshot(5);
        assert!(heat.unchanged(5));
        heat.change(5);
        assert!(!heat.unchanged(5));
        heat.begin_snapshot(5);
        heat.release(5);
        assert!(!heat.unchanged(5));
    }
}
