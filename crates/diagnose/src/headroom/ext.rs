//! ext4: mkfs makes the inodes; files end when blocks, or all except root's reserve, or the index of the directory are
//! full.

mod index;

use super::consume::{Pool, SpaceDemand, consume};
use super::{EndsBy, Estimate, NewFiles, User};
use index::{Growth, IndexShape};
use senesce_layout::FileSystemSpace;
use senesce_layout::indirect::map_blocks;
use senesce_layout::space::Ext;

/// Extents that an inode holds, and bytes of an extent or of the header in a block of the tree (kernel documentation,
/// filesystems/ext4/: "Extent Tree").
const IN_INODE: f64 = 4.0;
const ENTRY_BYTES: u64 = 12;
/// Maximum deviation of the number of names of a full index from the simulation (measured over fills).
const INDEX_SHARE: f64 = 0.05;
/// Simulations of an index that may become full; fewer for a very large one, whose number is then uncertain.
const DRAWINGS: u64 = 8;
const FEW_DRAWINGS: u64 = 2;
const LARGE_INDEX_NAMES: f64 = 4e6;
const LARGE_INDEX_SHARE: f64 = 0.15;
/// The same share with a third level, which is not simulated, and with hashes that are not uniform (`legacy`).
const THIRD_LEVEL_SHARE: f64 = 0.5;
const UNEVEN_HASH_SHARE: f64 = 0.75;
const DIRECTORY_SHARE: f64 = 0.04;
const UNEVEN_DIRECTORY_SHARE: f64 = 0.5;
const ROUNDS: u32 = 8;

fn tree_blocks(block_size: u64, pieces: f64) -> f64 {
    if pieces <= IN_INODE {
        return 0.0;
    }
    let leaves = (pieces.ceil() / ((block_size - ENTRY_BYTES - 4) / ENTRY_BYTES) as f64).ceil();
    if leaves <= IN_INODE { leaves } else { leaves + 1.0 }
}

enum Directory {
    /// Without an index: blocks fill one after the other, each with this number of names.
    Listed(f64),
    Indexed(Vec<Growth>),
}

impl Directory {
    fn of(block_size: u64, ext: &Ext, name_bytes: u64, most: f64) -> Self {
        let shape = IndexShape::of(block_size, name_bytes, ext.metadata_checksums, ext.large_dir);
        if !ext.dir_index {
            return Self::Listed(shape.names as f64);
        }
        let drawn = |seed| Growth::drawn(shape, most, seed);
        let first = drawn(0);
        let more = match first.full {
            Some(names) if names < LARGE_INDEX_NAMES => DRAWINGS,
            Some(_) => FEW_DRAWINGS,
            // The index may become full with random variation.
            None if shape.levels == 2 && most > 0.4 * shape.fullest() && most < LARGE_INDEX_NAMES => DRAWINGS,
            None => 1,
        };
        Self::Indexed(std::iter::once(first).chain((1..more).map(drawn)).collect())
    }

    fn blocks(&self, names: f64) -> f64 {
        match self {
            Self::Listed(in_block) => (names / in_block).ceil().max(1.0),
            Self::Indexed(grown) => grown[0].blocks(names),
        }
    }

    /// Returns the number of names in this number of blocks; more than `most` are not counted one by one.
    fn names_in(&self, blocks: f64, most: f64) -> f64 {
        let needed = self.blocks(most);
        if needed <= blocks {
            return most * (blocks / needed).max(2.0);
        }
        let (mut low, mut high) = (0.0, most);
        while high - low > 0.5 {
            let middle = (low + high) / 2.0;
            *(if self.blocks(middle) <= blocks { &mut low } else { &mut high }) = middle;
        }
        low.floor()
    }

    fn full(&self, share: f64) -> Option<Estimate> {
        let Self::Indexed(grown) = self else { return None };
        let names: Vec<f64> = grown.iter().filter_map(|one| one.full).collect();
        let mean = names.iter().sum::<f64>() / names.len().max(1) as f64;
        let least = names.iter().copied().reduce(f64::min)?;
        let most = names.iter().copied().reduce(f64::max)?;
        let share = if most > LARGE_INDEX_NAMES { share.max(LARGE_INDEX_SHARE) } else { share };
        let around = Estimate::within(mean, share, EndsBy::DirectoryIndex);
        Some(Estimate { low: least * (1.0 - share), high: most * (1.0 + share), ..around })
    }
}

pub(super) fn estimate(space: &FileSystemSpace, ext: &Ext, new: NewFiles, user: User) -> Estimate {
    let NewFiles { size, name_bytes } = new;
    let reserve_binds = user == User::User && space.user_blocks + ext.held_back_blocks < space.free_blocks;
    let blocks = match user {
        User::Root => space.free_blocks.saturating_sub(ext.held_back_blocks),
        User::User => space.user_blocks,
    };
    let by_inodes = space.free_inodes.saturating_sub(1) as f64;
    let unit = space.block_size * ext.cluster_blocks;
    // 60 bytes of i_block and the rest of inodes of 256 bytes hold the smallest files.
    let inline = ext.inline_data && size <= 60;
    let data = if inline { 0 } else { size.div_ceil(unit) * ext.cluster_blocks };
    let most = if data == 0 { by_inodes } else { by_inodes.min(blocks as f64 / data as f64 + 1.0) };
    let directory = Directory::of(space.block_size, ext, name_bytes, most);
    let (by_blocks, in_directory) = by_blocks(space, ext, data, blocks, (&directory, most));
    let ends = if reserve_binds { EndsBy::RootReserve } else { EndsBy::Bytes };
    let of_directory = if ext.uniform_hash { DIRECTORY_SHARE } else { UNEVEN_DIRECTORY_SHARE };
    let share = if space.free.is_some() { 0.01 } else { 0.08 } + of_directory * in_directory;
    let inodes = Estimate::within(by_inodes, 0.0, EndsBy::Inodes);
    let inodes = Estimate { low: by_inodes, high: by_inodes, ..inodes };
    let found = Estimate::within(by_blocks, share, ends).first_of(inodes);
    let full = if ext.large_dir { third_level(space.block_size, ext, name_bytes) } else { None };
    let index_share = if ext.uniform_hash { INDEX_SHARE } else { UNEVEN_HASH_SHARE };
    full.or_else(|| directory.full(index_share)).map_or(found, |full| found.first_of(full))
}

fn by_blocks(
    space: &FileSystemSpace,
    ext: &Ext,
    data: u64,
    blocks: u64,
    (directory, most): (&Directory, f64),
) -> (f64, f64) {
    let block_size = space.block_size;
    // A directory is mapped like a file; because it grows between files, its extents are short.
    let mapped = 1.0 + if ext.extents { 1.5 * ENTRY_BYTES as f64 } else { 4.0 } / block_size as f64;
    let limit = blocks.saturating_sub(1) as f64;
    if data == 0 {
        return (directory.names_in(limit / mapped, most.max(1.0)), 1.0);
    }
    let of_map = map_blocks(block_size, data) as f64;
    let unit = ext.cluster_blocks as f64;
    let map = |pieces: f64| if ext.extents { unit * tree_blocks(block_size, pieces / unit) } else { of_map };
    let pool = Pool::of(space);
    let mut files = blocks as f64 / data as f64;
    let mut metadata = 0.0;
    for _ in 0..ROUNDS {
        metadata = mapped * directory.blocks(files) / files.max(1.0);
        let appetite = SpaceDemand { data, metadata, map };
        let next = consume(&pool, limit, &appetite).files;
        files = (files + next) / 2.0;
    }
    (files, (metadata * files / limit.max(1.0)).min(1.0))
}

/// Estimates the names that an index with a third level takes (feature `large_dir`; fs/ext4/namei.c,
/// ext4_dir_htree_level).
fn third_level(block_size: u64, ext: &Ext, name_bytes: u64) -> Option<Estimate> {
    let shape = IndexShape::of(block_size, name_bytes, ext.metadata_checksums, true);
    let names = 0.6 * shape.fullest();
    ext.dir_index.then(|| Estimate::within(names, THIRD_LEVEL_SHARE, EndsBy::DirectoryIndex))
}
