//! The table of inodes: location in the region, and volatile state.

use crate::error::FsResult;
use crate::format::{BLOCK, INODE_BYTES, INODES_PER_BLOCK, Inode, inode};
use crate::region::{Region, Unsynced, byte};
use crate::sum;
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Volatile state of an inode: 24 bytes.
#[derive(Default)]
pub(crate) struct Slot {
    /// Shared by readers of the file's tree and attributes; exclusive for writers and for the evictor's pointer changes.
    pub lock: RwLock<()>,
    /// References held by the kernel; an inode without links lives until they are released.
    pub lookups: AtomicU64,
    /// Blocks of the tree in both tiers, and the attribute block.
    pub blocks: AtomicU32,
    /// Counts changes of the content, to check whether a fetched block is current. The lowest bit means that the kernel may cache
    /// pages of the file.
    version: AtomicU32,
}

const IN_CACHE: u32 = 1;
const CHANGE: u32 = 2;

impl Slot {
    /// Changes with every change of the content.
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Relaxed) / CHANGE
    }

    /// Notes a change of the content; the caller holds the lock for writing.
    pub(crate) fn change(&self) {
        self.version.fetch_add(CHANGE, Ordering::Relaxed);
    }

    /// Returns whether the kernel may cache pages of the file. Set before the file is read for the cache, so that later
    /// writers, under the lock, see it.
    pub(crate) fn is_in_cache(&self) -> bool {
        self.version.load(Ordering::Relaxed) & IN_CACHE != 0
    }

    /// Records that the kernel will cache pages of the file.
    pub(crate) fn keep_in_cache(&self) {
        if !self.is_in_cache() {
            self.version.fetch_or(IN_CACHE, Ordering::Relaxed);
        }
    }

    pub(crate) fn leave_cache(&self) {
        self.version.fetch_and(!IN_CACHE, Ordering::Relaxed);
    }
}

const SEGMENT: usize = 4096;

pub(crate) struct Table {
    /// Block of the region that holds the inodes `INODES_PER_BLOCK * index ..`; 0 past the end.
    blocks: Box<[AtomicU32]>,
    block_count: AtomicU32,
    segments: Box<[OnceLock<Box<[Slot]>>]>,
    free: Mutex<FreeInodes>,
    /// Maximum generation in freed blocks of inodes.
    newest_generation: AtomicU32,
}

#[derive(Default)]
struct FreeInodes {
    /// One bit for every free inode of a block.
    masks: Vec<u32>,
    partly: BTreeSet<u32>,
    /// Blocks with free inodes only.
    wholly: BTreeSet<u32>,
    /// Indices below the last block that have no block.
    gone: BTreeSet<u32>,
    count: usize,
}

impl FreeInodes {
    fn sort_in(&mut self, block: u32) {
        let mask = self.masks[block as usize];
        self.partly.remove(&block);
        self.wholly.remove(&block);
        match mask {
            0 => {}
            u32::MAX => drop(self.wholly.insert(block)),
            _ => drop(self.partly.insert(block)),
        }
    }

    fn take(&mut self) -> Option<u32> {
        let block = *self.partly.first().or_else(|| self.wholly.first())?;
        let bit = self.masks[block as usize].trailing_zeros();
        self.masks[block as usize] &= !(1 << bit);
        self.count -= 1;
        self.sort_in(block);
        Some(block * INODES_PER_BLOCK + bit)
    }

    fn give(&mut self, ino: u32) {
        let block = ino / INODES_PER_BLOCK;
        if self.masks.len() <= block as usize {
            self.masks.resize(block as usize + 1, 0);
        }
        let before = self.masks[block as usize];
        self.masks[block as usize] |= 1 << (ino % INODES_PER_BLOCK);
        self.count += usize::from(self.masks[block as usize] != before);
        if before == 0 || self.masks[block as usize] == u32::MAX {
            self.sort_in(block);
        }
    }
}

const SPARE_BLOCKS: usize = 8;
const _: () = assert!(INODES_PER_BLOCK == u32::BITS);

impl Table {
    pub(crate) fn new(region_blocks: u64) -> Self {
        let inodes = region_blocks as usize * INODES_PER_BLOCK as usize;
        // SAFETY: zero is a value of the atomic.
        let blocks = unsafe { Box::new_zeroed_slice(region_blocks as usize).assume_init() };
        let segments = (0..inodes.div_ceil(SEGMENT)).map(|_| OnceLock::new()).collect();
        Self {
            blocks,
            block_count: AtomicU32::new(0),
            segments,
            free: Mutex::default(),
            newest_generation: AtomicU32::new(0),
        }
    }

    /// Enters block `index` of inodes. One caller at a time.
    pub(crate) fn set_block(&self, index: u32, block: u32) {
        if let Some(place) = self.blocks.get(index as usize) {
            place.store(block, Ordering::Release);
            self.block_count.fetch_max(index + 1, Ordering::AcqRel);
            self.free.lock().gone.remove(&index);
        }
    }

    /// Returns the number of inode numbers with a position, including 0.
    pub(crate) fn numbers(&self) -> u64 {
        let blocks = self.blocks[..self.block_count() as usize].iter();
        blocks.filter(|block| block.load(Ordering::Acquire) != 0).count() as u64 * u64::from(INODES_PER_BLOCK)
    }

    pub(crate) fn block_count(&self) -> u32 {
        self.block_count.load(Ordering::Acquire)
    }

    /// Returns the maximum inode number plus one.
    pub(crate) fn end(&self) -> u32 {
        self.block_count() * INODES_PER_BLOCK
    }

    /// Returns the byte offset of an inode; ESTALE if the number does not exist.
    pub(crate) fn offset(&self, ino: u32) -> FsResult<usize> {
        match self.blocks.get((ino / INODES_PER_BLOCK) as usize).map(|block| block.load(Ordering::Acquire)) {
            Some(block) if block != 0 => Ok(block as usize * BLOCK + (ino % INODES_PER_BLOCK) as usize * INODE_BYTES),
            _ => Err(Errno::STALE),
        }
    }

    /// Returns the volatile state of an inode below [`end`](Self::end).
    pub(crate) fn slot(&self, ino: u32) -> &Slot {
        let segment =
            self.segments[ino as usize / SEGMENT].get_or_init(|| (0..SEGMENT).map(|_| Slot::default()).collect());
        &segment[ino as usize % SEGMENT]
    }

    /// Takes a free inode number, preferably in a block with used inodes.
    pub(crate) fn take(&self) -> Option<u32> {
        self.free.lock().take()
    }

    pub(crate) fn give(&self, numbers: impl IntoIterator<Item = u32>) {
        let mut free = self.free.lock();
        numbers.into_iter().for_each(|ino| free.give(ino));
    }

    /// Returns the number of free inode numbers in existing blocks.
    pub(crate) fn free(&self) -> usize {
        self.free.lock().count
    }

    /// Returns the index of the next block of inodes: a missing one, or at the end.
    pub(crate) fn next_block(&self) -> u32 {
        self.free.lock().gone.first().copied().unwrap_or(self.block_count())
    }

    /// Finds the indices without a block, after all existing blocks have been entered.
    pub(crate) fn note_gone(&self) {
        let gone = |index: &u32| self.blocks[*index as usize].load(Ordering::Acquire) == 0;
        self.free.lock().gone = (0..self.block_count()).filter(gone).collect();
    }

    /// Returns whether there are more blocks of free inodes than needed soon.
    pub(crate) fn has_too_many(&self) -> bool {
        self.free.lock().wholly.len() > SPARE_BLOCKS
    }

    /// Takes the last block of free inodes out of use if there are too many; returns its index.
    pub(crate) fn take_block(&self) -> Option<u32> {
        let mut free = self.free.lock();
        if free.wholly.len() <= SPARE_BLOCKS {
            return None;
        }
        let index = free.wholly.pop_last()?;
        free.masks[index as usize] = 0;
        free.count -= INODES_PER_BLOCK as usize;
        Some(index)
    }

    /// Forgets a block whose inodes were taken; returns once no thread reads them.
    pub(crate) fn remove_block(&self, region: &Region, index: u32) {
        let block = self.blocks[index as usize].swap(0, Ordering::AcqRel);
        for number in 0..INODES_PER_BLOCK {
            drop(self.slot(index * INODES_PER_BLOCK + number).lock.write());
            let generation = generation(region, byte(block) + number as usize * INODE_BYTES);
            self.newest_generation.fetch_max(generation, Ordering::Relaxed);
        }
        self.free.lock().gone.insert(index);
    }

    /// Returns the first generation of inodes in a new block: larger than those of earlier inodes with the same
    /// numbers.
    pub(crate) fn newest_generation(&self) -> u32 {
        self.newest_generation.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InodeSlot {
    Free,
    Used(Inode),
    Damaged,
}

#[inline]
fn active_copy(offset: usize, flags: u32) -> usize {
    offset + inode::COPY0 + if flags & inode::SECOND != 0 { inode::COPY_BYTES } else { 0 }
}

/// Returns the selector of the inode at `offset`: `low`, and the checksum of position, `low` and copy. A free inode has
/// no copy.
#[inline]
fn selector(offset: usize, low: u32, copy: Option<&[u64; inode::COPY_WORDS]>) -> u64 {
    let sum = match copy {
        Some(words) => sum::of_words(offset as u64, low, words),
        None => sum::of_words(offset as u64, low, &[]),
    };
    u64::from(low) | u64::from(sum) << 32
}

#[inline]
pub(crate) fn inspect(region: &Region, offset: usize) -> InodeSlot {
    let word = region.load(offset + inode::SELECTOR);
    let low = word as u32;
    if low & inode::IN_USE == 0 {
        return if word == selector(offset, low, None) { InodeSlot::Free } else { InodeSlot::Damaged };
    }
    let words = region.load_inode(active_copy(offset, low));
    if word == selector(offset, low, Some(&words)) {
        InodeSlot::Used(Inode::unpack(&words))
    } else {
        InodeSlot::Damaged
    }
}

/// Reads an inode; ESTALE if it is not in use, EIO if it is damaged.
#[inline]
pub(crate) fn load(region: &Region, offset: usize) -> FsResult<Inode> {
    match inspect(region, offset) {
        InodeSlot::Used(inode) => Ok(inode),
        InodeSlot::Free => Err(Errno::STALE),
        InodeSlot::Damaged => {
            region.note_damage();
            Err(Errno::IO)
        }
    }
}

/// Replaces an inode: writes and persists the other copy, then flips the selector.
#[inline]
pub(crate) fn commit(region: &Region, offset: usize, value: &Inode) {
    commit_after(region, &mut Unsynced::default(), offset, value);
}

/// Replaces an inode as [`commit`]; `unsynced` stores become durable together with the other copy.
#[inline]
pub(crate) fn commit_after(region: &Region, unsynced: &mut Unsynced, offset: usize, value: &Inode) {
    let low = region.load(offset + inode::SELECTOR) as u32 ^ inode::SECOND;
    let copy = active_copy(offset, low);
    let words = region.store_inode(copy, value);
    unsynced.add(copy, inode::COPY_BYTES);
    region.sync(unsynced);
    region.commit(offset + inode::SELECTOR, selector(offset, low, Some(&words)));
}

/// Creates an inode that is not in use.
pub(crate) fn initialise(region: &Region, offset: usize, value: &Inode) {
    let low = (generation(region, offset).wrapping_add(1) << inode::GENERATION_SHIFT) | inode::IN_USE;
    let words = region.store_inode(offset + inode::COPY0, value);
    region.persist(offset + inode::COPY0, inode::COPY_BYTES);
    region.commit(offset + inode::SELECTOR, selector(offset, low, Some(&words)));
}

pub(crate) fn retire(region: &Region, offset: usize) {
    let low = region.load(offset + inode::SELECTOR) as u32 & !(inode::IN_USE | inode::SECOND);
    region.commit(offset + inode::SELECTOR, selector(offset, low, None));
}

/// Initialises a block of free inodes with generations from `generation` on. The caller persists it.
pub(crate) fn clear_block(region: &Region, block: u32, generation: u32) {
    for index in 0..INODES_PER_BLOCK as usize {
        let offset = byte(block) + index * INODE_BYTES;
        region.store(offset + inode::SELECTOR, selector(offset, generation << inode::GENERATION_SHIFT, None));
    }
}

/// Returns the generation of the inode at a byte offset, 30 bits.
pub(crate) fn generation(region: &Region, offset: usize) -> u32 {
    region.load(offset + inode::SELECTOR) as u32 >> inode::GENERATION_SHIFT
}
