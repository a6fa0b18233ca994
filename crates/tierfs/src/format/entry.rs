//! Directory entries. Word 1 is the inode number and the entry's checksum, or `FREE`. Word 2, sealed separately, holds the
//! record's length, the name's length and the type. The name follows. Records are 8-aligned and fill their block.

use super::sealed;
use crate::sum;

pub(crate) const HEADER: usize = 16;
pub(crate) const FREE: u64 = sealed(0);

/// Returns the length of a record for a name of `length` bytes.
pub(crate) const fn bytes_for(length: usize) -> usize {
    (HEADER + length).next_multiple_of(8)
}

/// Returns word 2 of a record.
pub(crate) fn encode(record: usize, length: usize, kind: u8) -> u64 {
    let value = (record | length << 16) as u32 | u32::from(kind) << 24;
    u64::from(value) | u64::from(sum::of_half(value)) << 32
}

/// Returns word 1 of the record at byte `at` of the region for `ino`.
pub(crate) fn name_inode(at: usize, ino: u32, shape: u64, name: &[u8]) -> u64 {
    let both = u64::from(ino) | shape << 32;
    u64::from(ino) | u64::from(sum::of_bytes(at as u64, both, name)) << 32
}

pub(crate) fn record(word: u64) -> usize {
    (word & 0xffff) as usize
}

pub(crate) fn name_length(word: u64) -> usize {
    (word >> 16 & 0xff) as usize
}

/// Returns the type, `st_mode >> 12`.
pub(crate) fn kind(word: u64) -> u8 {
    (word >> 24) as u8
}
