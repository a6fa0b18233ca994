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
const TRANSACTION: f64 = 46.0;
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

/// Blocks of a whole and of a sparse chunk.
fn chunk_blocks(space: &FileSystemSpace, xfs: &Xfs) -> (u64, u64) {
    let whole = (CHUNK * xfs.inode_size / space.block_size).max(1);
    let sparse = (CLUSTER_BYTES * (xfs.inode_size / 512).max(1) / space.block_size).clamp(1, whole);
    (whole, sparse)
}

/// Counts aligned places in free extents; alignment counts from the beginning of the allocation group.
pub(super) fn sites(free: &[FreeExtent], group_blocks: u64, whole: u64, sparse: Option<u64>) -> Sites {
    let mut found = Sites::default();
    for extent in free {
        let start = extent.start % group_blocks.max(1);
        let end = start + extent.blocks;
        let aligned = |unit: u64| (end / unit).saturating_sub(start.div_ceil(unit));
        let wholes = aligned(whole);
        found.whole += wholes;
        if let Some(unit) = sparse {
            found.sparse += aligned(unit).saturating_sub(wholes * (whole / unit));
        }
    }
    found
}

pub(super) fn estimate(space: &FileSystemSpace, xfs: &Xfs, size: u64) -> Estimate {
    let free = (space.free_blocks.saturating_sub(xfs.to_set_aside) as f64 - TRANSACTION).max(0.0);
    let (whole, sparse) = chunk_blocks(space, xfs);
    let data = size.div_ceil(space.block_size);
    let made = xfs.free_made_inodes as f64;
    let inode_share = whole as f64 / CHUNK as f64;
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
    };
    let blocks = blocks.first_of(limit);
    match &space.free {
        Some(extents) => {
            let unit = xfs.sparse_inodes.then_some(sparse);
            let sites = sites(extents, xfs.group_blocks, whole, unit);
            by_chunks(sites, (whole, sparse), made, free, data as f64 + DIRECTORY, blocks)
        }
        None => Estimate { low: made.min(blocks.low), ..blocks },
    }
}

/// Data take free blocks too. At best they take none that a chunk could have, at worst those first.
fn by_chunks(
    sites: Sites,
    (whole, sparse): (u64, u64),
    made: f64,
    free: f64,
    blocks_per_file: f64,
    blocks: Estimate,
) -> Estimate {
    let inodes = (sites.whole * CHUNK) as f64 + (sites.sparse * CHUNK * sparse / whole) as f64;
    let in_sites = (sites.whole * whole + sites.sparse * sparse) as f64;
    let elsewhere = (free - in_sites).max(0.0);
    let per_inode = if inodes > 0.0 { in_sites / inodes } else { 0.0 };
    // f files take (f - made) inodes from the sites and what of their data finds no space elsewhere.
    let best = {
        let alone = made + inodes;
        let shared = (in_sites + elsewhere + made * per_inode) / (per_inode + blocks_per_file);
        if alone * blocks_per_file <= elsewhere { alone } else { shared.max(made).min(alone) }
    };
    let worst = (in_sites + made * per_inode) / (per_inode + blocks_per_file);
    // The directory of the files takes an inode too.
    let worst = worst.max((made - 2.0).max(0.0).min(free / blocks_per_file)).min(best);
    let within = |files: f64| Estimate {
        files,
        low: (worst * 0.95 - 1.0).max(0.0),
        high: best * 1.05 + CHUNK as f64,
        ends_by: EndsBy::InodeChunks,
    };
    if blocks_per_file < 1.0 && best < blocks.low {
        return within(best);
    }
    if best < blocks.low {
        return within((worst * best).sqrt());
    }
    // Few places among much that is free are soon taken by data, unless a few chunks are all that is wanted.
    let few = in_sites < FEW_SITES * free && blocks.files - made > FEW_CHUNKS * CHUNK as f64;
    if worst < blocks.low && few {
        return within((worst * best).sqrt());
    }
    // Data may still take the last places before the next chunk is wanted.
    let low = if in_sites < FEW_SITES * free { worst.min((made - 2.0).max(0.0)) } else { worst };
    Estimate { low: low.min(blocks.low), ..blocks }
}

/// Share of the free blocks that lies in places for chunks, above which data leave enough of them (measured: at 8 to 27 % chunks
/// end it, at 61 % bytes).
const FEW_SITES: f64 = 0.45;
/// So few chunks are made before their places are taken.
const FEW_CHUNKS: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_aligned_within_their_group() {
        let free = |start, blocks| FreeExtent { start, blocks };
        assert_eq!(sites(&[free(1000, 16)], 1000, 8, Some(4)), Sites { whole: 2, sparse: 0 });
        assert_eq!(sites(&[free(1001, 7)], 1000, 8, Some(4)), Sites { whole: 0, sparse: 1 });
        assert_eq!(sites(&[free(1001, 7)], 1000, 8, None), Sites::default());
        assert_eq!(sites(&[free(3, 14)], 1000, 8, Some(4)), Sites { whole: 1, sparse: 1 });
        assert_eq!(sites(&[free(5, 2)], 1000, 8, Some(4)), Sites::default());
    }
}
