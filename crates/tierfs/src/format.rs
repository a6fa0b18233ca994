//! Layout of the region and of the cold store.
//!
//! Region: block 0 is the superblock, block 1 the first block of inodes, followed by the checksums of the cold store's slots; all
//! other blocks belong to trees. Cold store: slot 0 is its header. All numbers are little-endian. A word is 8 aligned bytes and
//! is stored atomically.
//!
//! A word that makes something valid contains its checksum (CRC32C), so that no crash can separate them.

use crate::error::TierError;
use crate::sum;
use crc32c::crc32c;
use senesce_core::Bytes;
use std::path::Path;

pub(crate) mod entry;
pub(crate) mod inode;
mod pointer;

pub(crate) use inode::Inode;
pub(crate) use pointer::Pointer;

/// Bytes of a block of the region and of a slot of the cold store.
pub const BLOCK: usize = 4096;
pub(crate) const FORMAT_VERSION: u32 = 2;
pub(crate) const INODE_BYTES: usize = 128;
pub(crate) const INODES_PER_BLOCK: u32 = (BLOCK / INODE_BYTES) as u32;
/// Pointers in an interior node of a tree, as a power of two.
pub(crate) const NODE_BITS: u32 = 9;
/// Maximum height of a tree; 512^4 blocks exceed an index of 32 bits.
pub(crate) const MAX_HEIGHT: u8 = 4;
/// Maximum size of a file: block indices are 32 bits wide.
pub(crate) const MAX_FILE_BYTES: u64 = (u32::MAX as u64) * BLOCK as u64;
/// Maximum length of a name in a directory entry, bytes.
pub(crate) const MAX_NAME: usize = 255;
/// Required by FUSE.
pub const ROOT_INO: u32 = 1;
/// Minimum number of blocks of a region.
pub(crate) const MIN_BLOCKS: u64 = 64;

pub(crate) mod superblock {
    use super::sealed;

    /// [`CLEAN`] after a clean unmount, [`DIRTY`] while mounted, [`REPAIRING`] during a repair.
    pub(crate) const STATE: usize = 64;
    pub(crate) const INODE_TREE: usize = 72;
    /// Copy of the previous word, stored after it; fallback for a repair.
    pub(crate) const INODE_TREE_COPY: usize = 128;
    /// Not 0 after a repair that found no space for all names: inodes without a name are kept until another repair.
    pub(crate) const NAMELESS: usize = 136;
    /// Commit record of a rename: count and checksum, then pairs of address and value.
    pub(crate) const COMMIT_RECORD: usize = 256;
    /// Value of [`NAMELESS`] while inodes without a name exist.
    pub(crate) const SOME: u64 = sealed(1);
    pub(crate) const CLEAN: u64 = sealed(1);
    pub(crate) const DIRTY: u64 = sealed(2);
    /// Value of [`STATE`] from the first change of a repair to its last: only another repair may continue.
    pub(crate) const REPAIRING: u64 = sealed(3);
}

/// Block of the inodes below [`INODES_PER_BLOCK`]; it never moves.
pub(crate) const FIRST_INODES: u32 = 1;
/// First block of the checksums of slots: 4 bytes each, 0 without checksum.
pub(crate) const SUMS_FIRST: u32 = 2;

const REGION_MAGIC: [u8; 8] = *b"SNSCTIER";
const COLD_MAGIC: [u8; 8] = *b"SNSCCOLD";
const HEADER_BYTES: usize = 52;

/// The immutable part of both headers: pair identity and sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Equal in region and cold store of the same file system.
    pub pair: [u8; 16],
    /// Blocks of the region, including the superblock.
    pub blocks: u64,
    /// Slots of the cold store, including its header.
    pub slots: u64,
}

impl Identity {
    pub(crate) fn sum_blocks(&self) -> u64 {
        self.slots.div_ceil(BLOCK as u64 / 4)
    }

    /// Returns the reason if these sizes are invalid.
    pub(crate) fn check_sizes(&self) -> Result<(), String> {
        let least = Bytes(MIN_BLOCKS * BLOCK as u64);
        if self.blocks < MIN_BLOCKS {
            return Err(format!("a region needs at least {least}; choose a larger --nvm-size"));
        }
        if self.blocks > u64::from(u32::MAX) || self.slots > u64::from(u32::MAX) {
            return Err("blocks are numbered by 32 bits; choose a smaller --nvm-size or --cold-size".into());
        }
        if self.sum_blocks() > most_sum_blocks(self.blocks) {
            let (most, wanted) = (Bytes(most_slots(self.blocks) * BLOCK as u64), Bytes(self.slots * BLOCK as u64));
            let text = "is too large for the region, which can keep the checksums of";
            let remedy = "choose a smaller --cold-size or a larger --nvm-size";
            return Err(format!("a cold store of {wanted} {text} {most}; {remedy}"));
        }
        Ok(())
    }

    pub(crate) fn encode_region(&self) -> [u8; HEADER_BYTES] {
        self.encode(REGION_MAGIC)
    }

    pub(crate) fn encode_cold(&self) -> [u8; HEADER_BYTES] {
        self.encode(COLD_MAGIC)
    }

    pub(crate) fn decode_region(bytes: &[u8], path: &Path) -> Result<Self, TierError> {
        decode(bytes, REGION_MAGIC, COLD_MAGIC, path, "region")
    }

    pub(crate) fn decode_cold(bytes: &[u8], path: &Path) -> Result<Self, TierError> {
        decode(bytes, COLD_MAGIC, REGION_MAGIC, path, "cold store")
    }

    fn encode(&self, magic: [u8; 8]) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&magic);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(BLOCK as u32).to_le_bytes());
        bytes[16..32].copy_from_slice(&self.pair);
        bytes[32..40].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.slots.to_le_bytes());
        let sum = crc32c(&bytes[..48]);
        bytes[48..52].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// Checksums of slots take at most an eighth of the region.
fn most_sum_blocks(blocks: u64) -> u64 {
    blocks / 8
}

pub(crate) fn most_slots(blocks: u64) -> u64 {
    most_sum_blocks(blocks) * BLOCK as u64 / 4
}

fn decode(
    bytes: &[u8],
    magic: [u8; 8],
    other_magic: [u8; 8],
    path: &Path,
    role: &'static str,
) -> Result<Identity, TierError> {
    let foreign = |found: &str| TierError::Foreign { path: path.into(), role, found: found.into() };
    let Some(bytes) = bytes.get(..HEADER_BYTES) else {
        return Err(foreign("it is shorter than a header"));
    };
    if bytes[..8] == other_magic {
        return Err(foreign("it is the other half of a pair; --nvm and --cold are swapped"));
    }
    if bytes[..8] != magic {
        return Err(foreign("its first bytes are not those of a tier file system"));
    }
    let version = u32_at(bytes, 8);
    if version != FORMAT_VERSION {
        return Err(TierError::Version { path: path.into(), found: version });
    }
    if u32_at(bytes, 48) != crc32c(&bytes[..48]) || u32_at(bytes, 12) != BLOCK as u32 {
        return Err(TierError::Damaged { path: path.into(), problem: "the checksum of its header is wrong".into() });
    }
    let mut pair = [0; 16];
    pair.copy_from_slice(&bytes[16..32]);
    Ok(Identity { pair, blocks: u64_at(bytes, 32), slots: u64_at(bytes, 40) })
}

/// Returns the little-endian number at `at`; the caller has checked the length.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the little-endian number at `at`; the caller has checked the length.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Returns a word that holds `value` and, in its upper half, a checksum that detects small changes.
pub(crate) const fn sealed(value: u32) -> u64 {
    value as u64 | (sum::constant(value as u64, 32) as u64) << 32
}

/// Returns the value of a sealed word, if it is intact.
pub(crate) fn unsealed(word: u64) -> Option<u32> {
    let value = word as u32;
    (sum::of_half(value) == (word >> 32) as u32).then_some(value)
}

pub(crate) fn entry_kind(mode: u32) -> u8 {
    (mode >> 12) as u8
}

#[cfg(test)]
mod tests;
