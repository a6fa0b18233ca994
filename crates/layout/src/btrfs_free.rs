//! Free space of btrfs: gaps between extents in data chunks, and device ranges that belong to no chunk. Gaps in metadata chunks
//! are not available to files and are omitted. If data chunks have several copies (DUP, RAID1), a range without chunk can hold
//! only its share of them.

use crate::btrfs_chunks::Chunk;
use crate::btrfs_search::{kind, search, tree};
use crate::error::LayoutError;
use crate::free::{FreeSpace, Histogram};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Copies of the superblock and the stripe around each, which is never allocated (fs/btrfs/zoned.h, volumes.h).
const SUPERBLOCKS: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
const SUPERBLOCK_STRIPE: u64 = 64 << 10;
/// `BTRFS_DEVICE_RANGE_RESERVED`: bytes at the start of a device that chunks never use.
const DEVICE_RESERVED: u64 = 1 << 20;

/// Reads the free space from the chunk and device trees and `allocated`, the extents in ascending order.
pub(crate) fn read(
    root: BorrowedFd<'_>,
    shown: &Path,
    block_size: u64,
    allocated: &[(u64, u64)],
) -> Result<FreeSpace, LayoutError> {
    let failed = |source| LayoutError::io("search the btrfs chunk and device trees of", shown, source);
    let (mut chunks, mut devices) = (Vec::new(), BTreeMap::new());
    search(root, tree::CHUNK, 0..=u64::MAX, |item| match item.kind {
        kind::CHUNK_ITEM => chunks.push(Chunk::of(&item)),
        kind::DEV_ITEM => drop(devices.insert(item.offset, (item.u64_at(8), Vec::new()))),
        _ => {}
    })
    .map_err(failed)?;
    search(root, tree::DEVICE, 1..=u64::MAX, |item| {
        if item.kind == kind::DEV_EXTENT
            && let Some((_, extents)) = devices.get_mut(&item.object)
        {
            extents.push((item.offset, item.u64_at(24)));
        }
    })
    .map_err(failed)?;
    let mut histogram = Histogram::new(block_size);
    for chunk in chunks.iter().filter(|chunk| chunk.data) {
        chunk_gaps(chunk, allocated, &mut histogram);
    }
    let copies = data_copies(&chunks);
    for (total, extents) in devices.into_values() {
        gaps(DEVICE_RESERVED, total, extents, copies, &mut histogram);
    }
    Ok(histogram.finish())
}

/// Returns the logical addresses of superblock copies in a chunk; empty for a distributed chunk, whose addresses are
/// unknown.
fn superblocks(chunk: &Chunk) -> Vec<u64> {
    let copies = chunk.copies.iter().filter(|_| !chunk.spread);
    let mut found: Vec<u64> = copies
        .flat_map(|(_, physical)| SUPERBLOCKS.into_iter().filter_map(move |block| block.checked_sub(*physical)))
        .filter(|offset| *offset < chunk.length)
        .map(|offset| chunk.start.saturating_add(offset))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn chunk_gaps(chunk: &Chunk, allocated: &[(u64, u64)], histogram: &mut Histogram) {
    let end = chunk.start.saturating_add(chunk.length);
    let first = allocated.partition_point(|extent| extent.0 < chunk.start);
    let inside = allocated[first..].iter().copied().take_while(|extent| extent.0 < end);
    let mut used: Vec<(u64, u64)> = inside.collect();
    used.extend(superblocks(chunk).into_iter().map(|superblock| (superblock, SUPERBLOCK_STRIPE)));
    used.sort_unstable();
    gaps(chunk.start, end, used, 1, histogram);
}

/// Returns the number of copies of the next data chunk: as for the newest one, which has the highest address. Unknown
/// for a distributed chunk (RAID0, RAID10, RAID5, RAID6).
fn data_copies(chunks: &[Chunk]) -> u64 {
    let newest = chunks.iter().filter(|chunk| chunk.data).max_by_key(|chunk| chunk.start);
    newest.filter(|chunk| !chunk.spread).map_or(1, |chunk| chunk.copies.len().max(1) as u64)
}

/// Adds the gaps that `used` (ascending, may overlap) leaves in a range; data need this number of copies.
fn gaps(start: u64, end: u64, used: Vec<(u64, u64)>, copies: u64, histogram: &mut Histogram) {
    let mut at = start;
    for (from, length) in used {
        histogram.add(at, from.min(end).saturating_sub(at) / copies);
        at = at.max(from.saturating_add(length));
    }
    histogram.add(at, end.saturating_sub(at) / copies);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_exclude_extents_and_superblocks() {
        // The second copy of the superblock is 32 MiB after its start, on both devices.
        let copies = vec![(1, 32 << 20), (2, 32 << 20)];
        let chunk = Chunk { start: 32 << 20, length: 64 << 20, data: true, spread: false, copies };
        let mut histogram = Histogram::new(4096);
        chunk_gaps(&chunk, &[(0, 4096), (32 << 20, 8192), ((32 << 20) + 12288, 4096)], &mut histogram);
        let free = histogram.finish();
        assert_eq!(free.extents, 3);
        assert_eq!(free.free_blocks * 4096, (64 << 20) - 12288 - 65536);
        assert_eq!(free.min_bytes, 4096);
    }

    #[test]
    fn unallocated_space_is_divided_by_the_number_of_copies() {
        const MIB: u64 = 1 << 20;
        let chunk = |start: u64, spread: bool, copies: &[(u64, u64)]| Chunk {
            start: start * MIB,
            length: 8 * MIB,
            data: true,
            spread,
            copies: copies.to_vec(),
        };
        let single = chunk(16, false, &[(1, 16 * MIB)]);
        let dup = chunk(24, false, &[(1, 24 * MIB), (1, 32 * MIB)]);
        let striped = chunk(32, true, &[(1, 40 * MIB), (2, 40 * MIB)]);
        assert_eq!(data_copies(&[dup.clone(), single.clone()]), 2, "the newest decides");
        assert_eq!(data_copies(std::slice::from_ref(&single)), 1);
        assert_eq!((data_copies(&[dup, striped]), data_copies(&[])), (1, 1));
        let mut histogram = Histogram::new(4096);
        gaps(MIB, 64 * MIB, vec![(8 * MIB, 40 * MIB)], 2, &mut histogram);
        let free = histogram.finish();
        assert_eq!((free.extents, free.free_blocks * 4096), (2, (7 + 16) * MIB / 2));
    }
}
