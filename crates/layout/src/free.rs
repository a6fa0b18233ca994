//! Free space, in the buckets of e2freefrag.

use crate::error::LayoutError;
use senesce_sys::fsmap;
use serde::{Deserialize, Serialize};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Free extents of one power-of-two size range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Minimum size.
    pub from_bytes: u64,
    /// Exclusive maximum size.
    pub to_bytes: u64,
    /// Free extents in the range.
    pub extents: u64,
    /// Blocks in them.
    pub blocks: u64,
    /// Their share of all free blocks, percent.
    pub percent: f64,
}

/// All free extents of a file system.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FreeSpace {
    /// Free blocks.
    pub free_blocks: u64,
    /// Bytes per block.
    pub block_size: u64,
    /// Number of free extents.
    pub extents: u64,
    /// Smallest free extent, bytes.
    pub min_bytes: u64,
    /// Mean free extent, bytes.
    pub avg_bytes: f64,
    /// Largest free extent, bytes.
    pub max_bytes: u64,
    /// Ascending by size, without empty ranges.
    pub buckets: Vec<Bucket>,
    /// Wrapping sum of a hash of each free extent's start and size. Equal free space has equal sums.
    #[serde(default)]
    pub places: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    block_size: u64,
    counts: [(u64, u64); 64],
    min: u64,
    max: u64,
    places: u64,
}

impl Histogram {
    /// Creates an empty count. `block_size`: bytes per block, at least 1.
    pub(crate) fn new(block_size: u64) -> Self {
        Self { block_size: block_size.max(1), counts: [(0, 0); 64], min: u64::MAX, max: 0, places: 0 }
    }

    /// Adds a free extent, by its position. Bucket k holds extents of at least 2^k and less than 2^(k+1) blocks (e2fsprogs, misc/e2freefrag.c,
    /// update_chunk_stats).
    pub(crate) fn add(&mut self, start: u64, bytes: u64) {
        let blocks = bytes / self.block_size;
        if blocks == 0 {
            return;
        }
        let bucket = &mut self.counts[blocks.ilog2() as usize];
        *bucket = (bucket.0 + 1, bucket.1 + blocks);
        self.min = self.min.min(blocks * self.block_size);
        self.max = self.max.max(blocks * self.block_size);
        self.places = self.places.wrapping_add(mixed(mixed(start) ^ bytes));
    }

    /// Adds the result of another thread.
    pub(crate) fn merge(mut self, other: &Histogram) -> Self {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = (mine.0 + theirs.0, mine.1 + theirs.1);
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.places = self.places.wrapping_add(other.places);
        self
    }

    pub(crate) fn finish(&self) -> FreeSpace {
        let (extents, blocks) = self.counts.iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        let occupied = self.counts.iter().enumerate().filter(|(_, count)| count.0 > 0);
        let buckets = occupied.map(|(power, &(extents, bucket_blocks))| Bucket {
            from_bytes: self.block_size << power,
            to_bytes: (self.block_size << power).saturating_mul(2),
            extents,
            blocks: bucket_blocks,
            percent: 100.0 * bucket_blocks as f64 / blocks as f64,
        });
        FreeSpace {
            free_blocks: blocks,
            block_size: self.block_size,
            extents,
            min_bytes: if extents == 0 { 0 } else { self.min },
            avg_bytes: if extents == 0 { 0.0 } else { (blocks * self.block_size) as f64 / extents as f64 },
            max_bytes: self.max,
            buckets: buckets.collect(),
            places: self.places,
        }
    }
}

/// Applies the finaliser of SplitMix64.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

pub(crate) fn by_fsmap(
    root: BorrowedFd<'_>,
    shown: &Path,
    device: u32,
    block_size: u64,
) -> Result<FreeSpace, LayoutError> {
    let mut histogram = Histogram::new(block_size);
    fsmap::query(root, device, 0..u64::MAX, |record| {
        if record.is_free() {
            histogram.add(record.physical, record.length);
        }
    })
    .map_err(|source| LayoutError::io("read the free space (GETFSMAP) of", shown, source))?;
    Ok(histogram.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_match_e2freefrag() {
        let mut histogram = Histogram::new(4096);
        for blocks in [1, 1, 2, 3, 4, 1000] {
            histogram.add(blocks, blocks * 4096);
        }
        let free = histogram.finish();
        assert_eq!((free.extents, free.free_blocks, free.min_bytes, free.max_bytes), (6, 1011, 4096, 4_096_000));
        let buckets: Vec<_> = free.buckets.iter().map(|b| (b.from_bytes >> 10, b.extents, b.blocks)).collect();
        assert_eq!(buckets, vec![(4, 2, 2), (8, 2, 5), (16, 1, 4), (2048, 1, 1000)]);
        assert_eq!(Histogram::new(4096).finish().avg_bytes, 0.0);
    }

    #[test]
    fn hash_of_places_depends_on_positions_not_on_order() {
        let places = |extents: &[(u64, u64)]| {
            let mut histogram = Histogram::new(4096);
            extents.iter().for_each(|(start, blocks)| histogram.add(start * 4096, blocks * 4096));
            histogram.finish().places
        };
        assert_eq!(places(&[(1, 2), (9, 4)]), places(&[(9, 4), (1, 2)]));
        for other in [[(1, 2), (10, 4)], [(1, 4), (9, 2)], [(9, 2), (1, 4)], [(2, 1), (9, 4)]] {
            assert_ne!(places(&[(1, 2), (9, 4)]), places(&other), "{other:?}");
        }
    }
}
