//! The pieces of a new file, modelled from the free extents.

use senesce_core::Bytes;
use senesce_layout::FreeSpace;
use serde::Serialize;

/// Share of the volume that a new file gets; at most a quarter of the free space.
const VOLUME_SHARE: u64 = 32;

/// Returns the size of the new file, in whole MiB.
pub(super) fn new_file_size(volume: Bytes, free: Bytes) -> Bytes {
    Bytes((volume.0 / VOLUME_SHARE).min(free.0 / 4).next_multiple_of(1 << 20))
}

/// A new file in the largest free extents. An allocator also takes smaller ones, so a real file has at least as many
/// pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct ModelledNewFile {
    pub bytes: Bytes,
    pub minimum_pieces: u64,
}

impl ModelledNewFile {
    /// Returns `None` if the file does not fit.
    pub(super) fn of(volume: Bytes, free: &FreeSpace) -> Option<Self> {
        let bytes = new_file_size(volume, Bytes(free.free_blocks.saturating_mul(free.block_size)));
        Some(Self { bytes, minimum_pieces: minimum_pieces(free, bytes)? })
    }
}

/// Returns a lower bound: only the number and the total size of the extents in each size range are known.
fn minimum_pieces(free: &FreeSpace, bytes: Bytes) -> Option<u64> {
    let blocks = |bytes: u64| (bytes / free.block_size.max(1)).max(1);
    let mut left = bytes.0.div_ceil(free.block_size.max(1));
    let mut pieces = 0;
    for bucket in free.buckets.iter().rev() {
        if left > bucket.blocks {
            left -= bucket.blocks;
            pieces += bucket.extents;
            continue;
        }
        let smallest = blocks(bucket.from_bytes);
        let largest = blocks(bucket.to_bytes.saturating_sub(1)).min(blocks(free.max_bytes));
        // Extents outside the file have at least the minimum size of the range.
        let outside = (bucket.blocks - left) / smallest;
        return Some(pieces + left.div_ceil(largest).max(bucket.extents.saturating_sub(outside)));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_layout::free::Bucket;

    const BLOCK: u64 = 4096;

    /// `buckets`: exponent of the minimum blocks, extents and blocks.
    fn free(buckets: &[(u32, u64, u64)], max_blocks: u64) -> FreeSpace {
        let bucket = |&(power, extents, blocks): &(u32, u64, u64)| Bucket {
            from_bytes: BLOCK << power,
            to_bytes: BLOCK << (power + 1),
            extents,
            blocks,
            percent: 0.0,
        };
        FreeSpace {
            free_blocks: buckets.iter().map(|(.., blocks)| blocks).sum(),
            block_size: BLOCK,
            extents: buckets.iter().map(|(_, extents, _)| extents).sum(),
            max_bytes: max_blocks * BLOCK,
            buckets: buckets.iter().map(bucket).collect(),
            ..FreeSpace::default()
        }
    }

    #[test]
    fn new_file_takes_the_largest_free_extents_first() {
        let pieces = |free: &FreeSpace, blocks: u64| minimum_pieces(free, Bytes(blocks * BLOCK));
        let whole = free(&[(16, 1, 100_000)], 100_000);
        assert_eq!(pieces(&whole, 2048), Some(1));
        // 100 extents of one block, 10 of 16 to 31 blocks, 2 of 256 to 300.
        let aged = free(&[(0, 100, 100), (4, 10, 200), (8, 2, 560)], 300);
        for (blocks, expected) in [(1, 1), (300, 1), (301, 2), (560, 2), (561, 3), (592, 4), (760, 12), (860, 112)] {
            assert_eq!(pieces(&aged, blocks), Some(expected), "{blocks}");
        }
        assert_eq!(pieces(&aged, 861), None);
        // All extents have the minimum size of their range, although the range allows twice that.
        assert_eq!(pieces(&free(&[(4, 10, 160)], 31), 160), Some(10));
    }

    #[test]
    fn new_file_is_a_share_of_the_volume_and_of_the_free_space() {
        assert_eq!(new_file_size(Bytes::mib(256), Bytes::mib(50)), Bytes::mib(8));
        assert_eq!(new_file_size(Bytes::gib(1), Bytes::mib(50)), Bytes::mib(13));
        let new_file = ModelledNewFile::of(Bytes::mib(256), &free(&[(10, 20, 20_480)], 1024)).unwrap();
        assert_eq!(new_file, ModelledNewFile { bytes: Bytes::mib(8), minimum_pieces: 2 });
        assert_eq!(ModelledNewFile::of(Bytes::mib(256), &FreeSpace::default()), None);
    }
}
