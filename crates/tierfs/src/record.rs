//! Directory records in the region.

use crate::format::{BLOCK, MAX_NAME, entry, unsealed};
use crate::region::{Region, byte};

/// Records start at multiples of this number of bytes.
pub(crate) const UNIT: usize = 8;
pub(crate) const LEAST_RECORD: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntry {
    pub ino: u32,
    /// Type, `st_mode >> 12`.
    pub kind: u8,
    /// Offset from the directory's start in units of 8 bytes.
    pub position: u32,
}

pub(crate) struct Record {
    pub ino: u32,
    /// Type, `st_mode >> 12`.
    pub kind: u8,
    pub length: usize,
    name: [u8; MAX_NAME],
    name_length: usize,
}

impl Record {
    pub(crate) fn name(&self) -> &[u8] {
        &self.name[..self.name_length]
    }
}

/// Returns whether a record at byte `at` of the region can have `length` bytes: it fills its block, or leaves space for
/// another one.
pub(crate) fn fits(at: usize, length: usize) -> bool {
    let space = BLOCK - at % BLOCK;
    length >= LEAST_RECORD && length.is_multiple_of(UNIT) && (length == space || length + LEAST_RECORD <= space)
}

/// Reads the record at byte `at` of the region; `None` if a checksum is wrong or it does not fit its block. The caller keeps
/// writers out.
pub(crate) fn read_record(region: &Region, at: usize) -> Option<Record> {
    if BLOCK - at % BLOCK < LEAST_RECORD {
        return None;
    }
    let (first, shape) = (region.load(at), region.load(at + 8));
    let (length, name_length) = (entry::record(shape), entry::name_length(shape));
    if unsealed(shape).is_none() || !fits(at, length) {
        return None;
    }
    let mut record = Record { ino: 0, kind: entry::kind(shape), length, name: [0; MAX_NAME], name_length };
    if first == entry::FREE {
        return Some(record);
    }
    if name_length == 0 || entry::bytes_for(name_length) > length {
        return None;
    }
    // SAFETY: the caller keeps writers out.
    unsafe { region.read(at + entry::HEADER, &mut record.name[..name_length]) };
    record.ino = first as u32;
    (first == entry::name_inode(at, record.ino, shape, record.name())).then_some(record)
}

/// Returns the inode of the intact record at byte `at` if it has this name: a faster [`read_record`]. `None` proves
/// nothing. The caller keeps writers out.
pub(crate) fn inode_named(region: &Region, at: usize, name: &[u8]) -> Option<(u32, u8)> {
    let (first, shape) = (region.load(at), region.load(at + 8));
    let (ino, fits) = (first as u32, entry::HEADER + name.len() <= BLOCK - at % BLOCK);
    if entry::name_length(shape) != name.len() || ino == 0 || !fits {
        return None;
    }
    // SAFETY: the caller keeps writers out.
    let same = unsafe { region.bytes(at + entry::HEADER, name.len()) } == name;
    (same && first == entry::name_inode(at, ino, shape, name)).then(|| (ino, entry::kind(shape)))
}

/// Makes one free record of a directory's block. Zeros the block, because a repair searches all positions and would find valid
/// old entries. The caller has exclusive access and makes it durable.
pub(crate) fn clear_directory_block(region: &Region, block: u32) {
    // SAFETY: as the caller promises.
    unsafe { region.zero(byte(block), BLOCK) };
    region.store(byte(block), entry::FREE);
    region.store(byte(block) + 8, entry::encode(BLOCK, 0, 0));
}

/// Calls `visit(entry, name)` for every used record in a directory's block, from byte `from` on, until it returns `false`. Fails
/// on a damaged record.
pub(crate) fn scan_block(
    region: &Region,
    block: u32,
    first_position: u32,
    from: usize,
    visit: &mut dyn FnMut(DirEntry, &[u8]) -> bool,
) -> Result<bool, String> {
    let mut at = 0;
    while at < BLOCK {
        let Some(record) = read_record(region, byte(block) + at) else {
            return Err(format!("the directory record at byte {at} of block {block} is damaged"));
        };
        if record.ino != 0 && at >= from {
            let position = first_position + (at / UNIT) as u32;
            if !visit(DirEntry { ino: record.ino, kind: record.kind, position }, record.name()) {
                return Ok(false);
            }
        }
        at += record.length;
    }
    Ok(true)
}
