//! BTRFS_IOC_TREE_SEARCH_V2 and its items (linux/btrfs.h, linux/btrfs_tree.h). Items are little-endian.

use senesce_sys::btrfs::{SearchKey, TreeSearch, file_system};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

const HEADER_BYTES: usize = 32;

/// `BTRFS_EXTENT_TREE_OBJECTID` and others. Tree 0 is the subvolume of the file descriptor.
pub(crate) mod tree {
    /// The subvolume of the descriptor.
    pub(crate) const OWN: u64 = 0;
    pub(crate) const EXTENT: u64 = 2;
    pub(crate) const CHUNK: u64 = 3;
    pub(crate) const DEVICE: u64 = 4;
}

pub(crate) mod kind {
    pub(crate) const EXTENT_DATA: u32 = 108;
    /// An extent of data (or of metadata in old file systems).
    pub(crate) const EXTENT_ITEM: u32 = 168;
    pub(crate) const METADATA_ITEM: u32 = 169;
    /// A reference to a data extent that did not fit its item.
    pub(crate) const EXTENT_DATA_REF: u32 = 178;
    pub(crate) const SHARED_BLOCK_REF: u32 = 182;
    /// A reference to a data extent from a shared tree block.
    pub(crate) const SHARED_DATA_REF: u32 = 184;
    /// A range of a device that belongs to a chunk.
    pub(crate) const DEV_EXTENT: u32 = 204;
    pub(crate) const DEV_ITEM: u32 = 216;
    pub(crate) const CHUNK_ITEM: u32 = 228;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'a> {
    pub object: u64,
    pub kind: u32,
    pub offset: u64,
    pub data: &'a [u8],
}

impl Item<'_> {
    /// Reads a little-endian number at `at`; 0 past the end.
    pub(crate) fn u64_at(&self, at: usize) -> u64 {
        u64_at(self.data, at)
    }
}

/// Reads a little-endian number at `at`; 0 past the end.
pub(crate) fn u64_at(data: &[u8], at: usize) -> u64 {
    data.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

pub(crate) fn node_size(root: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(u64::from(file_system(root)?.node_size))
}

/// Calls `each` with the items of `tree` whose object is in `objects`, ascending by key, of all types.
pub(crate) fn search(
    root: BorrowedFd<'_>,
    tree: u64,
    objects: RangeInclusive<u64>,
    mut each: impl FnMut(Item<'_>),
) -> io::Result<()> {
    let mut search = TreeSearch::default();
    let mut next = (*objects.start(), 0u32, 0u64);
    loop {
        let (count, mut rest) = search.search(root, key(tree, next, *objects.end()))?;
        if count == 0 {
            return Ok(());
        }
        for _ in 0..count {
            let Some((item, behind)) = parse_item(rest) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer ends inside an item"));
            };
            each(item);
            next = (item.object, item.kind, item.offset);
            rest = behind;
        }
        match successor(next) {
            Some(key) if key.0 <= *objects.end() => next = key,
            _ => return Ok(()),
        }
    }
}

fn key(tree: u64, (min_object, min_type, min_offset): (u64, u32, u64), max_object: u64) -> SearchKey {
    SearchKey {
        tree,
        min_object,
        max_object,
        min_offset,
        max_offset: u64::MAX,
        min_transaction: 0,
        max_transaction: u64::MAX,
        min_type,
        max_type: u32::MAX,
        items: u32::MAX,
        unused: 0,
        unused_words: [0; 4],
    }
}

fn parse_item(buffer: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (header, rest) = buffer.split_at_checked(HEADER_BYTES)?;
    let word = |at: usize| u64::from_ne_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let half = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    let (kind, length) = (half(24), half(28));
    let (data, rest) = rest.split_at_checked(length as usize)?;
    Some((Item { object: word(8), kind, offset: word(16), data }, rest))
}

/// Returns the smallest key after `key`; keys are ordered by object, type (one byte on disk) and offset.
fn successor((object, kind, offset): (u64, u32, u64)) -> Option<(u64, u32, u64)> {
    if let Some(offset) = offset.checked_add(1) {
        Some((object, kind, offset))
    } else if kind < 255 {
        Some((object, kind + 1, 0))
    } else {
        object.checked_add(1).map(|object| (object, 0, 0))
    }
}
