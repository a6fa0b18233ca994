//! A directory entry: word 1 is the inode number with the entry's sum above it, or `FREE`; word 2, sealed by
//! itself, holds the record's length, the name's length and the type; the name follows. Records are 8-aligned and fill
//! their block.

use super::sealed;
use crate::sum;

/// Bytes before the name.
pub const HEADER: usize = 16;
/// Word 1 of a record without inode.
pub const FREE: u64 = sealed(0);

/// Bytes of a record for a name of `length` bytes.
pub const fn bytes_for(length: usize) -> usize {
    (HEADER + length).next_multiple_of(8)
}

/// Word 2 of a record.
pub fn encode(record: usize, length: usize, kind: u8) -> u64 {
    let value = (record | length << 16) as u32 | u32::from(kind) << 24;
    u64::from(value) | u64::from(sum::of_half(value)) << 32
}

/// Word 1 of the record at byte `at` of the region that names `ino`.
pub fn name_inode(at: usize, ino: u32, shape: u64, name: &[u8]) -> u64 {
    let both = u64::from(ino) | shape << 32;
    u64::from(ino) | u64::from(sum::of_bytes(at as u64, both, name)) << 32
}

/// Bytes of the record with this word 2.
pub fn record(word: u64) -> usize {
    (word & 0xffff) as usize
}

/// Bytes of its name.
pub fn name_length(word: u64) -> usize {
    (word >> 16 & 0xff) as usize
}

/// Its type, `st_mode >> 12`.
pub fn kind(word: u64) -> u8 {
    (word >> 24) as u8
}
