//! Positions of btrfs chunks on their devices.

use crate::btrfs_search::{Item, kind, search, tree, u64_at};
use crate::error::LayoutError;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Offsets in struct btrfs_chunk and struct btrfs_stripe (linux/btrfs_tree.h).
const TYPE: usize = 24;
const STRIPE_COUNT: usize = 44;
const STRIPES: usize = 48;
const STRIPE_BYTES: usize = 32;
const DATA: u64 = 1;
/// Profiles that distribute a chunk over its stripes: RAID0, RAID10, RAID5, RAID6.
const SPREAD: u64 = 8 | 64 | 128 | 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// First logical address, in bytes.
    pub start: u64,
    pub length: u64,
    pub data: bool,
    /// Whether it is distributed over stripes, so that no stripe holds all of it.
    pub spread: bool,
    /// Device and byte offset of each copy.
    pub copies: Vec<(u64, u64)>,
}

impl Chunk {
    /// Parses the chunk of a CHUNK_ITEM; missing fields are 0.
    pub(crate) fn of(item: &Item<'_>) -> Self {
        let count = item.data.get(STRIPE_COUNT..STRIPE_COUNT + 2).map_or(0, |two| u16::from_le_bytes([two[0], two[1]]));
        let stripe = |index: usize| {
            let at = STRIPES + index * STRIPE_BYTES;
            (u64_at(item.data, at), u64_at(item.data, at + 8))
        };
        let flags = item.u64_at(TYPE);
        Self {
            start: item.offset,
            length: item.u64_at(0),
            data: flags & DATA != 0,
            spread: flags & SPREAD != 0,
            copies: (0..usize::from(count)).map(stripe).collect(),
        }
    }
}

/// Returns all chunks, ascending by logical address.
pub fn chunks(root: BorrowedFd<'_>, shown: &Path) -> Result<Vec<Chunk>, LayoutError> {
    let mut found = Vec::new();
    search(root, tree::CHUNK, 0..=u64::MAX, |item| {
        if item.kind == kind::CHUNK_ITEM {
            found.push(Chunk::of(&item));
        }
    })
    .map_err(|source| LayoutError::io("search the btrfs chunk tree of", shown, source))?;
    Ok(found)
}
