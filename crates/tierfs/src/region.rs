//! Typed access to the memory. Who may touch what is decided by the locks of the inodes; words are atomic.

use crate::format::{BLOCK, Inode, inode};
use crate::nvm::Nvm;
use std::sync::atomic::{AtomicU64, Ordering};

/// The region: blocks of [`BLOCK`] bytes, addressed by byte offset or block number.
pub struct Region {
    nvm: Box<dyn Nvm>,
    base: *mut u8,
    len: usize,
}

// SAFETY: the pointer is the memory of `nvm`, which may be used from any thread; the file system's locks order accesses.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Wraps a memory.
    pub fn new(nvm: Box<dyn Nvm>) -> Self {
        let (base, len) = (nvm.base(), nvm.len() / BLOCK * BLOCK);
        Self { nvm, base, len }
    }

    /// Blocks there are.
    pub fn blocks(&self) -> u64 {
        (self.len / BLOCK) as u64
    }

    /// The memory behind it.
    pub fn nvm(&self) -> &dyn Nvm {
        &*self.nvm
    }

    /// Gives the memory back.
    pub fn into_nvm(self) -> Box<dyn Nvm> {
        self.nvm
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "address {offset}+{len} outside the region");
        self.base.wrapping_add(offset)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "address {offset} is not that of a word");
        // SAFETY: in bounds and aligned; the memory lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    /// The word at a byte offset.
    pub fn load(&self, offset: usize) -> u64 {
        u64::from_le(self.word(offset).load(Ordering::Acquire))
    }

    /// Stores a word atomically.
    pub fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value.to_le(), Ordering::Release);
    }

    /// Stores a word and persists it: a commit.
    pub fn commit(&self, offset: usize, value: u64) {
        self.store(offset, value);
        self.persist(offset, 8);
    }

    /// Copies out of the region.
    ///
    /// # Safety
    /// Nobody writes these bytes meanwhile: their inode is locked, or the region is not mounted.
    pub unsafe fn read(&self, offset: usize, into: &mut [u8]) {
        // SAFETY: in bounds; `into` is not in the region; the caller keeps writers out.
        unsafe { std::ptr::copy_nonoverlapping(self.at(offset, into.len()), into.as_mut_ptr(), into.len()) }
    }

    /// Copies into the region.
    ///
    /// # Safety
    /// Nobody reads or writes these bytes meanwhile: their block is fresh, or their inode is locked for writing.
    pub unsafe fn write(&self, offset: usize, from: &[u8]) {
        // SAFETY: in bounds; `from` is not in the region; the caller alone uses the bytes.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at(offset, from.len()), from.len()) }
    }

    /// Zeros bytes.
    ///
    /// # Safety
    /// As for [`Self::write`].
    pub unsafe fn zero(&self, offset: usize, len: usize) {
        // SAFETY: in bounds; the caller alone uses the bytes.
        unsafe { std::ptr::write_bytes(self.at(offset, len), 0, len) }
    }

    /// Copies `range` of block `from` to the same place in block `to`.
    ///
    /// # Safety
    /// As for [`Self::read`] of one and [`Self::write`] of the other.
    pub unsafe fn copy_within_blocks(&self, from: u32, to: u32, range: std::ops::Range<usize>) {
        let source = self.at(byte(from) + range.start, range.len());
        // SAFETY: both in bounds; `copy` allows that they overlap; the caller keeps others out.
        unsafe { std::ptr::copy(source, self.at(byte(to) + range.start, range.len()), range.len()) }
    }

    /// A block as a slice.
    ///
    /// # Safety
    /// Nobody else may write the block while the slice lives: it is fresh, or its inode is locked.
    pub unsafe fn block(&self, block: u32) -> &[u8] {
        // SAFETY: in bounds; the caller keeps writers out.
        unsafe { std::slice::from_raw_parts(self.at(byte(block), BLOCK), BLOCK) }
    }

    /// A block as a mutable slice.
    ///
    /// # Safety
    /// The block must be fresh: taken from the free blocks and not yet referenced.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn fresh_block(&self, block: u32) -> &mut [u8] {
        // SAFETY: in bounds; the caller alone knows the block.
        unsafe { std::slice::from_raw_parts_mut(self.at(byte(block), BLOCK), BLOCK) }
    }

    /// Makes a range durable before anything that is stored later.
    pub fn persist(&self, offset: usize, len: usize) {
        self.nvm.persist(offset, len);
    }

    /// Makes a block durable.
    pub fn persist_block(&self, block: u32) {
        self.nvm.persist(byte(block), BLOCK);
    }

    /// Reads a copy of an inode, word by word: whoever reads it while it is written gets a mixture, and no other harm.
    pub fn load_inode(&self, offset: usize) -> Inode {
        let words: [u64; INODE_WORDS] =
            std::array::from_fn(|index| self.word(offset + 8 * index).load(Ordering::Acquire));
        zerocopy::transmute!(words)
    }

    /// Writes a copy of an inode, word by word.
    pub fn store_inode(&self, offset: usize, value: &Inode) {
        let words: [u64; INODE_WORDS] = zerocopy::transmute!(*value);
        for (index, word) in words.into_iter().enumerate() {
            self.word(offset + 8 * index).store(word, Ordering::Release);
        }
    }
}

/// Words of a copy of an inode.
const INODE_WORDS: usize = inode::COPY_BYTES / 8;

/// Byte offset of a block.
pub fn byte(block: u32) -> usize {
    block as usize * BLOCK
}
