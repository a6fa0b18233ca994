//! ext4: inodes are made by mkfs; blocks are few, or the reserve of root, or the index of the directory is full.

use super::consume::{Appetite, consume};
use super::{EndsBy, Estimate, NAME_BYTES, User, free_or_whole};
use senesce_layout::FileSystemSpace;
use senesce_layout::indirect::map_blocks;
use senesce_layout::space::Ext;

/// How full the leaves of a hashed directory are after many splits in halves, on average between two rounds of splits
/// (1 / (2 ln 2) = 0.72 in the long run; measured 0.70 with names of eight characters).
const LEAF_FILL: f64 = 0.70;
/// Extents that an inode holds, and bytes of an extent or of the header in a block of the tree (kernel documentation,
/// filesystems/ext4/: "Extent Tree").
const IN_INODE: f64 = 4.0;
const ENTRY_BYTES: u64 = 12;

/// Blocks of the extent tree of a file in so many pieces.
fn tree_blocks(block_size: u64, pieces: f64) -> f64 {
    if pieces <= IN_INODE {
        return 0.0;
    }
    let leaves = (pieces.ceil() / ((block_size - ENTRY_BYTES - 4) / ENTRY_BYTES) as f64).ceil();
    if leaves <= IN_INODE { leaves } else { leaves + 1.0 }
}

/// Names in a leaf of the directory, once there are many.
fn names_in_leaf(block_size: u64) -> f64 {
    let entry = (8 + NAME_BYTES).next_multiple_of(4);
    ((block_size - 12) / entry) as f64 * LEAF_FILL
}

pub(super) fn estimate(space: &FileSystemSpace, ext: &Ext, size: u64, user: User) -> Estimate {
    let reserve_binds = user == User::User && space.user_blocks + ext.held_back_blocks < space.free_blocks;
    let blocks = match user {
        User::Root => space.free_blocks.saturating_sub(ext.held_back_blocks),
        User::User => space.user_blocks,
    };
    let by_inodes = space.free_inodes.saturating_sub(1) as f64;
    let unit = space.block_size * ext.cluster_blocks;
    // 60 bytes of i_block and what inodes of 256 bytes have left hold the smallest files.
    let inline = ext.inline_data && size <= 60;
    let data = if inline { 0 } else { size.div_ceil(unit) * ext.cluster_blocks };
    let beside = 1.0 / names_in_leaf(space.block_size);
    let by_blocks = match data {
        0 => (blocks as f64 - 1.0) / beside,
        data => {
            let mapped = map_blocks(space.block_size, data) as f64;
            let map = |pieces: f64| if ext.extents { tree_blocks(space.block_size, pieces) } else { mapped };
            let lengths = free_or_whole(space).into_iter().map(|extent| extent.blocks).collect::<Vec<_>>();
            consume(lengths.into_iter(), blocks.saturating_sub(1) as f64, &Appetite { data, beside, map }).files
        }
    };
    let index = index_limit(space.block_size, ext);
    let ends = if reserve_binds { EndsBy::RootReserve } else { EndsBy::Bytes };
    let share = if space.free.is_some() { 0.01 } else { 0.08 };
    let inodes = Estimate::within(by_inodes, 0.0, EndsBy::Inodes);
    let inodes = Estimate { low: by_inodes, high: by_inodes, ..inodes };
    let found = Estimate::within(by_blocks, share, ends).first_of(inodes);
    index.map_or(found, |names| found.first_of(Estimate::within(names, 0.1, EndsBy::DirectoryIndex)))
}

/// Names that the index of a directory takes: two levels of index blocks with entries of 8 bytes, three with the feature
/// `large_dir` (fs/ext4/namei.c, ext4_dir_htree_level). Without `dir_index` there is none to be full.
fn index_limit(block_size: u64, ext: &Ext) -> Option<f64> {
    let (root, node) = (((block_size - 32) / 8) as f64, ((block_size - 16) / 8) as f64);
    let leaves = root * node * if ext.large_dir { node } else { 1.0 };
    ext.dir_index.then(|| leaves * names_in_leaf(block_size))
}
