//! Typed access to the memory. The inodes' locks order accesses; words are atomic.

use crate::format::{BLOCK, Identity, Inode, Pointer, SUMS_FIRST, inode};
use crate::nvm::Nvm;
use crc32c::{crc32c, crc32c_append};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Stored bytes that are not durable yet. A request collects them for one sync.
#[derive(Debug, Default)]
pub(crate) struct Unsynced(Vec<Range<usize>>);

impl Unsynced {
    /// Adds bytes; merges with adjacent last ones.
    pub(crate) fn add(&mut self, offset: usize, len: usize) {
        match self.0.last_mut() {
            Some(last) if last.end == offset => last.end += len,
            _ => self.0.push(offset..offset + len),
        }
    }

    pub(crate) fn add_block(&mut self, block: u32) {
        self.add(byte(block), BLOCK);
    }
}

/// Blocks of [`BLOCK`] bytes, addressed by byte offset or block number.
pub(crate) struct Region {
    nvm: Box<dyn Nvm>,
    base: *mut u8,
    len: usize,
    damage: AtomicU64,
}

// SAFETY: the pointer is the memory of `nvm`, which may be used from any thread; the file system's locks order accesses.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn new(nvm: Box<dyn Nvm>) -> Self {
        let (base, len) = (nvm.base(), nvm.len() / BLOCK * BLOCK);
        Self { nvm, base, len, damage: AtomicU64::new(0) }
    }

    /// Wraps the part of a memory that the file system uses; the caller has checked its size.
    pub(crate) fn of(nvm: Box<dyn Nvm>, identity: &Identity) -> Self {
        let mut region = Self::new(nvm);
        region.len = region.len.min(identity.blocks as usize * BLOCK);
        region
    }

    pub(crate) fn blocks(&self) -> u64 {
        (self.len / BLOCK) as u64
    }

    pub(crate) fn nvm(&self) -> &dyn Nvm {
        &*self.nvm
    }

    pub(crate) fn into_nvm(self) -> Box<dyn Nvm> {
        self.nvm
    }

    #[inline]
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "address {offset}+{len} is outside the region");
        self.base.wrapping_add(offset)
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.words::<1>(offset)[0]
    }

    #[inline]
    fn words<const COUNT: usize>(&self, offset: usize) -> &[AtomicU64; COUNT] {
        assert!(offset.is_multiple_of(8), "address {offset} is not word-aligned");
        // SAFETY: in bounds and aligned, and an atomic has the layout of its word; the memory lives as long as `self`.
        unsafe { &*self.at(offset, 8 * COUNT).cast() }
    }

    #[inline]
    pub(crate) fn load(&self, offset: usize) -> u64 {
        u64::from_le(self.word(offset).load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value.to_le(), Ordering::Release);
    }

    /// Stores a word and persists it: a commit. Stores nothing after a failed persist, because the word could make data valid
    /// that are not durable.
    #[inline]
    pub(crate) fn commit(&self, offset: usize, value: u64) {
        if !self.nvm.failed() {
            self.store(offset, value);
            self.persist(offset, 8);
        }
    }

    /// Stores a word that the next [`sync`](Self::sync) of `unsynced` makes durable. Stores nothing after a failed persist, as
    /// [`commit`](Self::commit).
    pub(crate) fn store_unsynced(&self, unsynced: &mut Unsynced, offset: usize, value: u64) {
        if !self.nvm.failed() {
            self.store(offset, value);
            unsynced.add(offset, 8);
        }
    }

    /// Copies out of the region.
    ///
    /// # Safety
    ///
    /// No writer of these bytes: their inode is locked, or the region is not mounted.
    pub(crate) unsafe fn read(&self, offset: usize, into: &mut [u8]) {
        // SAFETY: in bounds; `into` is not in the region; the caller keeps writers out.
        unsafe { std::ptr::copy_nonoverlapping(self.at(offset, into.len()), into.as_mut_ptr(), into.len()) }
    }

    /// Copies into the region.
    ///
    /// # Safety
    ///
    /// No other access to these bytes: their block is fresh, or their inode is locked for writing.
    pub(crate) unsafe fn write(&self, offset: usize, from: &[u8]) {
        // SAFETY: in bounds; `from` is not in the region; the caller alone uses the bytes.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at(offset, from.len()), from.len()) }
    }

    /// Zeros bytes.
    ///
    /// # Safety
    ///
    /// As for [`Self::write`].
    pub(crate) unsafe fn zero(&self, offset: usize, len: usize) {
        // SAFETY: in bounds; the caller alone uses the bytes.
        unsafe { std::ptr::write_bytes(self.at(offset, len), 0, len) }
    }

    /// Copies `range` of block `from` to the same offset in block `to`.
    ///
    /// # Safety
    ///
    /// As for [`Self::read`] of one and [`Self::write`] of the other.
    pub(crate) unsafe fn copy_within_blocks(&self, from: u32, to: u32, range: Range<usize>) {
        let source = self.at(byte(from) + range.start, range.len());
        // SAFETY: both in bounds; `copy` allows that they overlap; the caller keeps others out.
        unsafe { std::ptr::copy(source, self.at(byte(to) + range.start, range.len()), range.len()) }
    }

    /// Returns `len` bytes at `offset` as a slice.
    ///
    /// # Safety
    ///
    /// Nothing may write to the range while the slice lives: its blocks are newly allocated, or its inode is locked.
    pub(crate) unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: in bounds; the caller keeps writers out.
        unsafe { std::slice::from_raw_parts(self.at(offset, len), len) }
    }

    /// Returns a block as a slice.
    ///
    /// # Safety
    ///
    /// No writer of the block while the slice lives: it is fresh, or its inode is locked.
    #[cfg(test)]
    pub(crate) unsafe fn block(&self, block: u32) -> &[u8] {
        // SAFETY: in bounds; the caller keeps writers out.
        unsafe { std::slice::from_raw_parts(self.at(byte(block), BLOCK), BLOCK) }
    }

    /// Returns a block as a mutable slice.
    ///
    /// # Safety
    ///
    /// The block must be fresh: taken from the free blocks and not yet referenced.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn fresh_block(&self, block: u32) -> &mut [u8] {
        // SAFETY: in bounds; the caller alone knows the block.
        unsafe { std::slice::from_raw_parts_mut(self.at(byte(block), BLOCK), BLOCK) }
    }

    /// Makes a range durable before any later stores.
    #[inline]
    pub(crate) fn persist(&self, offset: usize, len: usize) {
        self.nvm.persist(offset, len);
    }

    /// Makes collected stores durable before any later stores.
    pub(crate) fn sync(&self, unsynced: &mut Unsynced) {
        if !unsynced.0.is_empty() {
            self.nvm.persist_all(&unsynced.0);
            unsynced.0.clear();
        }
    }

    pub(crate) fn persist_block(&self, block: u32) {
        self.nvm.persist(byte(block), BLOCK);
    }

    /// Reads a copy of an inode word by word: a concurrent write gives a mixture, which the checksum detects.
    #[inline]
    pub(crate) fn load_inode(&self, offset: usize) -> [u64; inode::COPY_WORDS] {
        self.words(offset).each_ref().map(|word| u64::from_le(word.load(Ordering::Acquire)))
    }

    #[inline]
    pub(crate) fn store_inode(&self, offset: usize, value: &Inode) -> [u64; inode::COPY_WORDS] {
        let words = value.pack();
        for (place, word) in self.words::<{ inode::COPY_WORDS }>(offset).iter().zip(words) {
            place.store(word.to_le(), Ordering::Release);
        }
        words
    }

    /// Returns the pointer in a word of a node, or [`Pointer::LOST`] if the word is damaged.
    #[inline]
    pub(crate) fn pointer(&self, offset: usize) -> Pointer {
        Pointer::unseal(self.load(offset)).unwrap_or_else(|| {
            self.note_damage();
            Pointer::LOST
        })
    }

    #[inline]
    pub(crate) fn store_pointer(&self, offset: usize, pointer: Pointer) {
        self.store(offset, pointer.seal());
    }

    /// Stores a pointer in a node and persists it: a commit.
    #[inline]
    pub(crate) fn commit_pointer(&self, offset: usize, pointer: Pointer) {
        self.commit(offset, pointer.seal());
    }

    /// Initialises a fresh block as a node without children.
    pub(crate) fn clear_node(&self, block: u32) {
        static HOLES: [u64; BLOCK / 8] = [Pointer::SEALED_HOLE.to_le(); BLOCK / 8];
        let holes: &[u8; BLOCK] = zerocopy::transmute_ref!(&HOLES);
        // SAFETY: the block is fresh.
        unsafe { self.write(byte(block), holes) };
    }

    pub(crate) fn note_damage(&self) {
        if self.damage.fetch_add(1, Ordering::Relaxed) == 0 {
            eprintln!("tier: damaged metadata found in the region: unmount and run `senesce tier check --repair`");
        }
    }

    pub(crate) fn damage(&self) -> u64 {
        self.damage.load(Ordering::Relaxed)
    }

    /// Returns the checksum of a slot's content; 0 if it has none.
    pub(crate) fn block_sum(&self, slot: u32) -> u32 {
        let (word, shift) = sum_place(slot);
        (self.load(word) >> shift) as u32
    }

    /// Stores the checksums of consecutive slots from `first` on. One caller at a time; the slots are not referenced yet.
    pub(crate) fn store_block_sums(&self, unsynced: &mut Unsynced, first: u32, sums: &[u32]) {
        for (index, sum) in sums.iter().enumerate() {
            let (word, shift) = sum_place(first + index as u32);
            let others = self.load(word) & !(u64::from(u32::MAX) << shift);
            self.store(word, others | u64::from(*sum) << shift);
        }
        let (start, _) = sum_place(first);
        let (end, _) = sum_place(first + sums.len().saturating_sub(1) as u32);
        unsynced.add(start, end + 8 - start);
    }
}

/// Returns the word of a slot's checksum, and its shift in that word.
fn sum_place(slot: u32) -> (usize, u32) {
    (byte(SUMS_FIRST) + slot as usize / 2 * 8, slot % 2 * 32)
}

/// Returns the checksum of an evicted block, over slot and content; never 0.
pub(crate) fn sum_of_block(slot: u32, content: &[u8]) -> u32 {
    crc32c_append(crc32c(&slot.to_le_bytes()), content).max(1)
}

pub(crate) fn byte(block: u32) -> usize {
    block as usize * BLOCK
}
