//! The inodes: where each one is in the region, and what is known of it in memory only.

use crate::error::FsResult;
use crate::format::{BLOCK, INODE_BYTES, INODES_PER_BLOCK, Inode, inode};
use crate::region::Region;
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is known of an inode in memory only: 24 bytes.
#[derive(Default)]
pub struct Slot {
    /// Readers of the file's tree and attributes share it, writers and the evictor's swing own it.
    pub lock: RwLock<()>,
    /// References that the kernel holds; an inode without links lives until they are gone.
    pub lookups: AtomicU64,
    /// Blocks of the tree, in whichever tier, and its attribute block.
    pub blocks: AtomicU32,
    /// Counts changes of the file's content, so that a fetched block is known to be current.
    pub version: AtomicU32,
}

const SEGMENT: usize = 4096;

/// All inodes.
pub struct Table {
    /// Block of the region that holds the inodes `INODES_PER_BLOCK * index ..`; 0 past the end.
    blocks: Box<[AtomicU32]>,
    block_count: AtomicU32,
    segments: Box<[OnceLock<Box<[Slot]>>]>,
    free: Mutex<Vec<u32>>,
}

impl Table {
    /// An empty table for a region of `region_blocks`.
    pub fn new(region_blocks: u64) -> Self {
        let inodes = region_blocks as usize * INODES_PER_BLOCK as usize;
        // SAFETY: zero is a value of the atomic.
        let blocks = unsafe { Box::new_zeroed_slice(region_blocks as usize).assume_init() };
        let segments = (0..inodes.div_ceil(SEGMENT)).map(|_| OnceLock::new()).collect();
        Self { blocks, block_count: AtomicU32::new(0), segments, free: Mutex::new(Vec::new()) }
    }

    /// Adds the next block of inodes.
    pub fn add_block(&self, block: u32) {
        let index = self.block_count.load(Ordering::Acquire);
        self.blocks[index as usize].store(block, Ordering::Release);
        self.block_count.store(index + 1, Ordering::Release);
    }

    /// Blocks of inodes.
    pub fn block_count(&self) -> u32 {
        self.block_count.load(Ordering::Acquire)
    }

    /// One more than the greatest inode number.
    pub fn end(&self) -> u32 {
        self.block_count() * INODES_PER_BLOCK
    }

    /// Byte offset of an inode, or ESTALE for a number that does not exist.
    pub fn offset(&self, ino: u32) -> FsResult<usize> {
        match self.blocks.get((ino / INODES_PER_BLOCK) as usize).map(|block| block.load(Ordering::Acquire)) {
            Some(block) if block != 0 => Ok(block as usize * BLOCK + (ino % INODES_PER_BLOCK) as usize * INODE_BYTES),
            _ => Err(Errno::STALE),
        }
    }

    /// The volatile part of an inode below [`end`](Self::end).
    pub fn slot(&self, ino: u32) -> &Slot {
        let segment =
            self.segments[ino as usize / SEGMENT].get_or_init(|| (0..SEGMENT).map(|_| Slot::default()).collect());
        &segment[ino as usize % SEGMENT]
    }

    /// Takes a free inode number.
    pub fn take(&self) -> Option<u32> {
        self.free.lock().pop()
    }

    /// Gives numbers back.
    pub fn give(&self, numbers: impl IntoIterator<Item = u32>) {
        self.free.lock().extend(numbers);
    }

    /// Free inode numbers in the blocks there are.
    pub fn free(&self) -> usize {
        self.free.lock().len()
    }
}

/// The copy that counts.
pub fn active_copy(offset: usize, selector: u64) -> usize {
    offset + inode::COPY0 + if selector & inode::SECOND != 0 { inode::COPY_BYTES } else { 0 }
}

/// Reads the inode at a byte offset; `None` if it is not in use.
pub fn load(region: &Region, offset: usize) -> Option<Inode> {
    let selector = region.load(offset + inode::SELECTOR);
    (selector & inode::IN_USE != 0).then(|| region.load_inode(active_copy(offset, selector)))
}

/// Replaces the inode at a byte offset: the other copy is written and persisted, then the selector flips.
pub fn commit(region: &Region, offset: usize, value: &Inode) {
    let selector = region.load(offset + inode::SELECTOR) ^ inode::SECOND;
    let copy = active_copy(offset, selector);
    region.store_inode(copy, value);
    region.persist(copy, inode::COPY_BYTES);
    region.commit(offset + inode::SELECTOR, selector);
}

/// Begins the life of an inode that is not in use.
pub fn initialise(region: &Region, offset: usize, value: &Inode) {
    let generation = (region.load(offset + inode::SELECTOR) >> 32).wrapping_add(1) << 32;
    region.store_inode(offset + inode::COPY0, value);
    region.store(offset + inode::ATIME, value.mtime as u64);
    region.persist(offset + inode::ATIME, INODE_BYTES - inode::ATIME);
    region.commit(offset + inode::SELECTOR, generation | inode::IN_USE);
}

/// Ends the life of an inode.
pub fn retire(region: &Region, offset: usize) {
    let selector = region.load(offset + inode::SELECTOR);
    region.commit(offset + inode::SELECTOR, selector & !(inode::IN_USE | inode::SECOND));
}

/// Stores the times of modification and change in place; each is a word of its own.
pub fn store_times(region: &Region, offset: usize, mtime: Option<i64>, ctime: i64) {
    let copy = active_copy(offset, region.load(offset + inode::SELECTOR));
    if let Some(mtime) = mtime {
        region.store(copy + inode::MTIME, mtime as u64);
    }
    region.store(copy + inode::MTIME + 8, ctime as u64);
    region.persist(copy + inode::MTIME, 16);
}

/// Generation of the inode at a byte offset.
pub fn generation(region: &Region, offset: usize) -> u32 {
    (region.load(offset + inode::SELECTOR) >> 32) as u32
}
