//! Sites for chunks of inodes in the free extents of allocation groups.

use senesce_layout::space::{FreeExtent, Xfs};

pub(in crate::headroom) const CHUNK: u64 = 64;
/// Bytes of an inode cluster, the unit of sparse chunks, for inodes of 512 bytes; it grows with the inode
/// (`sb_spino_align`, M_IGEO(mp)->inode_cluster_size).
const CLUSTER_BYTES: u64 = 16 << 10;
/// Blocks that a group's list for its trees may lack (xfs_alloc_min_freelist, trees of two levels); they are taken from
/// the longest extent.
const REFILL: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sites {
    pub whole: u64,
    pub sparse: u64,
}

impl Sites {
    pub(super) fn inodes(self, chunk: Chunk) -> f64 {
        (self.whole * CHUNK) as f64 + (self.sparse * CHUNK * chunk.sparse / chunk.whole) as f64
    }

    pub(super) fn blocks(self, chunk: Chunk) -> f64 {
        (self.whole * chunk.whole + self.sparse * chunk.sparse) as f64
    }

    fn add(&mut self, other: Self) {
        self.whole += other.whole;
        self.sparse += other.sparse;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub whole: u64,
    pub align: u64,
    /// For the smallest sparse chunk; equal to `whole` without sparse chunks.
    pub sparse: u64,
}

impl Chunk {
    pub(super) fn of(block_size: u64, xfs: &Xfs) -> Self {
        let whole = (CHUNK * xfs.inode_size / block_size).max(1);
        let cluster = (CLUSTER_BYTES * (xfs.inode_size / 512).max(1) / block_size).clamp(1, whole);
        match xfs.sparse_inodes {
            true => Self { whole, align: whole, sparse: cluster },
            false => Self { whole, align: cluster, sparse: whole },
        }
    }

    /// Returns the minimum length of a group's longest extent for the kernel to search it. An aligned chunk must fit
    /// wherever it begins (xfs_alloc_space_available in fs/xfs/libxfs/xfs_alloc.c).
    fn minimum_extent(self) -> u64 {
        match self.sparse < self.whole {
            true => 2 * self.sparse - 1,
            false => self.whole + self.align - 1,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SiteCounts {
    pub usable: Sites,
    pub lasting: Sites,
    /// In extents that are long enough even while the group must refill its list of free blocks.
    pub safe: Sites,
    /// Whether some group can make a chunk now, before anything refills its list.
    pub ready: bool,
}

pub(super) fn sites(free: &[FreeExtent], xfs: &Xfs, chunk: Chunk) -> SiteCounts {
    let group_blocks = xfs.group_blocks.max(1);
    let least = chunk.minimum_extent();
    let mut counted = SiteCounts::default();
    for group in free.chunk_by(|one, next| one.start / group_blocks == next.start / group_blocks) {
        let longest = group.iter().map(|extent| extent.blocks).max().unwrap_or(0);
        if longest < least {
            continue;
        }
        let number = (group[0].start / group_blocks) as usize;
        counted.ready |= longest >= least + xfs.list_lacks.get(number).copied().unwrap_or(0);
        let of = |least: u64| places(group, group_blocks, chunk, least);
        counted.usable.add(of(0));
        counted.lasting.add(of(least));
        counted.safe.add(of(least + REFILL));
    }
    counted
}

/// Counts aligned sites in free extents of a minimum length; alignment counts from the beginning of the allocation
/// group.
fn places(free: &[FreeExtent], group_blocks: u64, chunk: Chunk, least: u64) -> Sites {
    let mut found = Sites::default();
    for extent in free.iter().filter(|extent| extent.blocks >= least) {
        let start = extent.start % group_blocks;
        let end = start + extent.blocks;
        let aligned = |unit: u64, align: u64| end.saturating_sub(start.next_multiple_of(align)) / unit;
        let wholes = aligned(chunk.whole, chunk.align);
        found.whole += wholes;
        if chunk.sparse < chunk.whole {
            let sparse = aligned(chunk.sparse, chunk.sparse);
            found.sparse += sparse.saturating_sub(wholes * (chunk.whole / chunk.sparse));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_aligned_within_their_group() {
        let free = |start, blocks| FreeExtent { start, blocks };
        let (sparse, whole) = (Chunk { whole: 8, align: 8, sparse: 4 }, Chunk { whole: 8, align: 4, sparse: 8 });
        let of = |extent, chunk| places(&[extent], 1000, chunk, 0);
        assert_eq!(of(free(1000, 16), sparse), Sites { whole: 2, sparse: 0 });
        assert_eq!(of(free(1001, 7), sparse), Sites { whole: 0, sparse: 1 });
        assert_eq!(of(free(1001, 7), whole), Sites::default());
        assert_eq!(of(free(3, 14), sparse), Sites { whole: 1, sparse: 1 });
        assert_eq!(of(free(3, 9), whole), Sites { whole: 1, sparse: 0 });
        assert_eq!(of(free(5, 2), sparse), Sites::default());
        assert_eq!((sparse.minimum_extent(), whole.minimum_extent()), (7, 11));
        assert_eq!(places(&[free(1000, 6), free(1008, 7)], 1000, sparse, 7), Sites { whole: 0, sparse: 1 });
    }
}
