//! xfs: inodes are made in chunks of 64, which need free extents of their length, aligned; with sparse inodes half a chunk does
//! (xfs_ialloc_ag_alloc in fs/xfs/libxfs/xfs_ialloc.c).

use super::consume::{Appetite, consume};
use super::{EndsBy, Estimate, free_or_whole};
use senesce_layout::FileSystemSpace;
use senesce_layout::space::{FreeExtent, Xfs};

/// Inodes of a chunk.
const CHUNK: u64 = 64;
/// Bytes of an inode cluster, the unit in which sparse chunks are made, for inodes of 512 bytes; it grows with the inode
/// (`sb_spino_align`, M_IGEO(mp)->inode_cluster_size).
const CLUSTER_BYTES: u64 = 16 << 10;
/// Blocks of a new directory per name of eight characters: its data block holds 168 in 4 KiB, the leaves of its index are filled
/// to about two thirds, and the trees of inodes grow with it (measured 0.0087 to 0.0115).
const DIRECTORY: f64 = 0.0095;
/// The same in directories of hundreds of thousands of names, which only empty files make.
const LARGE_DIRECTORY: f64 = 0.0115;
/// Blocks that must be free for the transaction that makes a file (XFS_CREATE_SPACE_RES with trees of usual height).
pub(super) const TRANSACTION: f64 = 46.0;
/// Extents that an inode of 512 bytes holds, and those that a block of the tree holds after splits.
const IN_INODE: f64 = 19.0;
const IN_BLOCK: f64 = 200.0;

/// Places for chunks of inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sites {
    /// Whole chunks.
    pub whole: u64,
    /// Sparse ones beside.
    pub sparse: u64,
}

impl Sites {
    fn inodes(self, chunk: Chunk) -> f64 {
        (self.whole * CHUNK) as f64 + (self.sparse * CHUNK * chunk.sparse / chunk.whole) as f64
    }

    fn blocks(self, chunk: Chunk) -> f64 {
        (self.whole * chunk.whole + self.sparse * chunk.sparse) as f64
    }
}

/// Blocks of chunks of inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub whole: u64,
    /// What whole ones are aligned to.
    pub align: u64,
    /// Of the least sparse chunk; as many as of a whole one where there are none.
    pub sparse: u64,
}

impl Chunk {
    fn of(space: &FileSystemSpace, xfs: &Xfs) -> Self {
        let whole = (CHUNK * xfs.inode_size / space.block_size).max(1);
        let cluster = (CLUSTER_BYTES * (xfs.inode_size / 512).max(1) / space.block_size).clamp(1, whole);
        match xfs.sparse_inodes {
            true => Self { whole, align: whole, sparse: cluster },
            false => Self { whole, align: cluster, sparse: whole },
        }
    }

    /// Blocks that the longest extent of a group must have before the kernel looks for a place in it: wherever it begins, an aligned
    /// chunk must fit (xfs_alloc_space_available in fs/xfs/libxfs/xfs_alloc.c).
    fn least_extent(self) -> u64 {
        match self.sparse < self.whole {
            true => 2 * self.sparse - 1,
            false => self.whole + self.align - 1,
        }
    }
}

/// Counts aligned places in free extents of at least so many blocks; alignment counts from the beginning of the allocation group.
pub(super) fn sites(free: &[FreeExtent], group_blocks: u64, chunk: Chunk, least: u64) -> Sites {
    let mut found = Sites::default();
    for extent in free.iter().filter(|extent| extent.blocks >= least) {
        let start = extent.start % group_blocks.max(1);
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

pub(super) fn estimate(space: &FileSystemSpace, xfs: &Xfs, size: u64) -> Estimate {
    let free = (space.free_blocks.saturating_sub(xfs.to_set_aside) as f64 - TRANSACTION).max(0.0);
    let chunk = Chunk::of(space, xfs);
    let data = size.div_ceil(space.block_size);
    let made = xfs.free_made_inodes as f64;
    let inode_share = chunk.whole as f64 / CHUNK as f64;
    let map = |pieces: f64| if pieces > IN_INODE { (pieces / IN_BLOCK).ceil() } else { 0.0 };
    let by_blocks = match data {
        0 => (free + made * inode_share) / (inode_share + LARGE_DIRECTORY),
        data => {
            let lengths = free_or_whole(space).into_iter().map(|extent| extent.blocks).collect::<Vec<_>>();
            let appetite = Appetite { data, beside: inode_share + DIRECTORY, map };
            // Inodes that have been made already take no blocks.
            let taken = consume(lengths.into_iter(), free, &appetite).files;
            let saved = made.min(taken) * inode_share;
            taken + saved / (data as f64 + inode_share + DIRECTORY)
        }
    };
    let share = if data == 0 { 0.05 } else { 0.02 };
    let blocks = Estimate::within(by_blocks, share, EndsBy::Bytes);
    let by_limit = space.free_inodes as f64;
    let limit = Estimate {
        files: by_limit - CHUNK as f64 / 2.0,
        low: by_limit - 2.0 * CHUNK as f64,
        // The limit is compared with counters that every processor keeps for itself.
        high: by_limit * 1.001 + CHUNK as f64,
        ends_by: EndsBy::Inodes,
        after_sync: None,
    };
    let blocks = blocks.first_of(limit);
    let Some(extents) = &space.free else { return Estimate { low: made.min(blocks.low), ..blocks } };
    let places = |least: u64| sites(extents, xfs.group_blocks, chunk, least);
    let least = chunk.least_extent();
    let wanted = Wanted { made, free, data: data as f64, chunk };
    by_chunks([places(0), places(least), places(least + REFILL)], &wanted, blocks)
}

/// What is there for files, and what each takes.
struct Wanted {
    made: f64,
    free: f64,
    /// Blocks of data of a file.
    data: f64,
    chunk: Chunk,
}

impl Wanted {
    fn blocks_per_file(&self) -> f64 {
        self.data + DIRECTORY
    }

    /// Inodes that have been made and those that the sites hold, where data take sites only for want of others.
    fn at_best(&self, sites: Sites) -> f64 {
        let elsewhere = (self.free - sites.blocks(self.chunk)).max(0.0);
        let alone = self.made + sites.inodes(self.chunk);
        match alone * self.blocks_per_file() <= elsewhere {
            true => alone,
            false => self.shared(sites, elsewhere).max(self.made).min(alone),
        }
    }

    /// The same where data take the sites first. The directory of the files takes an inode too.
    fn at_worst(&self, sites: Sites) -> f64 {
        let by_data = self.free / self.blocks_per_file();
        self.shared(sites, 0.0).max((self.made - 2.0).max(0.0).min(by_data))
    }

    /// So many files take inodes and data from the sites and from blocks elsewhere.
    fn shared(&self, sites: Sites, elsewhere: f64) -> f64 {
        let (blocks, inodes) = (sites.blocks(self.chunk), sites.inodes(self.chunk));
        let per_inode = if inodes > 0.0 { blocks / inodes } else { 0.0 };
        (blocks + elsewhere + self.made * per_inode) / (per_inode + self.blocks_per_file())
    }

    /// Whether data, so many files of them, soon take these sites. A few chunks are made before.
    fn soon_taken(&self, sites: Sites, files: f64) -> bool {
        sites.blocks(self.chunk) < FEW_SITES * self.free && files - self.made > FEW_CHUNKS * CHUNK as f64
    }
}

/// Data take free blocks too. At best they take none that a chunk could have, at worst those first: `lasting` sites lie in extents
/// that are long enough for a chunk by themselves, `safe` ones also while the group has to refill its list of free blocks.
fn by_chunks([all, lasting, safe]: [Sites; 3], wanted: &Wanted, blocks: Estimate) -> Estimate {
    let best = wanted.at_best(all);
    let worst = wanted.at_worst(lasting).min(best);
    let within = |files: f64| Estimate {
        files,
        low: (worst * 0.95 - 1.0).max(0.0),
        high: best * 1.05 + CHUNK as f64,
        ends_by: EndsBy::InodeChunks,
        after_sync: None,
    };
    if wanted.data < 1.0 && best < blocks.low {
        return within(best);
    }
    let middle = within((worst * best).sqrt());
    if best < blocks.low || worst < blocks.low && wanted.soon_taken(lasting, blocks.files) {
        return middle;
    }
    // Where extents just hold a chunk, none is made while a list is to be refilled, which the next data to be written do. Data of one
    // block take from the end of an extent and leave the lists as they are (measured).
    if wanted.data > 1.0 && worst < blocks.low && wanted.soon_taken(safe, blocks.files) {
        return Estimate { high: middle.high.max(blocks.high), after_sync: Some(blocks.ends_by), ..middle };
    }
    // Data may still take the last places before the next chunk is wanted.
    let few = lasting.blocks(wanted.chunk) < FEW_SITES * wanted.free;
    let low = if few { worst.min((wanted.made - 2.0).max(0.0)) } else { worst };
    Estimate { low: low.min(blocks.low), ..blocks }
}

/// Share of the free blocks that lies in places for chunks, above which data leave enough of them (measured: at 8 to 27 % chunks
/// end it, at 61 % bytes).
const FEW_SITES: f64 = 0.45;
/// So few chunks are made before their places are taken.
const FEW_CHUNKS: f64 = 8.0;
/// Blocks that the list which a group keeps for its trees may lack (xfs_alloc_min_freelist, trees of two levels); they come off the
/// longest extent.
const REFILL: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_aligned_within_their_group() {
        let free = |start, blocks| FreeExtent { start, blocks };
        let (sparse, whole) = (Chunk { whole: 8, align: 8, sparse: 4 }, Chunk { whole: 8, align: 4, sparse: 8 });
        let of = |extent, chunk| sites(&[extent], 1000, chunk, 0);
        assert_eq!(of(free(1000, 16), sparse), Sites { whole: 2, sparse: 0 });
        assert_eq!(of(free(1001, 7), sparse), Sites { whole: 0, sparse: 1 });
        assert_eq!(of(free(1001, 7), whole), Sites::default());
        assert_eq!(of(free(3, 14), sparse), Sites { whole: 1, sparse: 1 });
        assert_eq!(of(free(3, 9), whole), Sites { whole: 1, sparse: 0 });
        assert_eq!(of(free(5, 2), sparse), Sites::default());
        assert_eq!((sparse.least_extent(), whole.least_extent()), (7, 11));
        assert_eq!(sites(&[free(1000, 6), free(1008, 7)], 1000, sparse, 7), Sites { whole: 0, sparse: 1 });
    }
}
