//! Space that XFS reserves in its allocation groups.

use crate::xfs::Geometry;
use senesce_volume::BlockDevice;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Returns the number of blocks that a read-write mount reserves, assuming that only the roots of the trees exist.
/// These are a reserve pool (fs/xfs/xfs_mount.c, xfs_default_resblks: 5 %, at most 8192 blocks) and the maximum growth
/// of each group's trees. Sources of the growth: xfs_ag_resv_init, with xfs_refcountbt_calc_reserves,
/// xfs_finobt_calc_reserves and xfs_rmapbt_calc_reserves.
pub(super) fn set_aside(geometry: &Geometry) -> u64 {
    let in_group = geometry.group_blocks();
    let groups: u64 = (0..geometry.groups())
        .map(|group| {
            let all = in_group.min(geometry.data_blocks.saturating_sub(group * in_group));
            // The log is in the middle group (xfsprogs, mkfs/xfs_mkfs.c), and its blocks are never shared or inodes.
            let log = if group == geometry.groups() / 2 { geometry.log_blocks } else { 0 };
            trees(geometry, all, all.saturating_sub(log))
        })
        .sum();
    (geometry.data_blocks / 20).min(8192) + groups
}

/// Returns the maximum growth of the trees of a group with `blocks` blocks, of which `usable` are outside the log.
fn trees(geometry: &Geometry, blocks: u64, usable: u64) -> u64 {
    let block = u64::from(geometry.block_size);
    // Minimum records of a leaf and of a node: half of those that fit after the header of 56 bytes.
    let least = |record: u64, entry: u64| ((block - 56) / record / 2, (block - 56) / entry / 2);
    let beyond_root = |wanted: bool, tree: u64| if wanted { tree.saturating_sub(1) } else { 0 };
    let chunks = usable * block / u64::from(geometry.inode_size) / 64;
    beyond_root(geometry.reflink, tree_blocks(usable, least(12, 8)))
        + beyond_root(geometry.free_inode_tree, tree_blocks(chunks, least(16, 8)))
        + beyond_root(geometry.reverse_map(), tree_blocks(blocks, least(24, 44)).max(blocks / 100))
}

/// Returns the number of blocks of a tree with this number of records at minimum fill (xfs_btree_calc_size).
fn tree_blocks(records: u64, (leaf, node): (u64, u64)) -> u64 {
    let mut level = records.div_ceil(leaf);
    let mut all = level;
    while level > 1 {
        level = level.div_ceil(node);
        all += level;
    }
    all
}

/// Returns the number of blocks missing in each group's list of free blocks before its trees may grow (struct xfs_agf
/// in fs/xfs/libxfs/xfs_format.h; xfs_alloc_min_freelist). The next allocation in the group takes them. `None` if a
/// header is unreadable.
pub(super) fn list_lacks(device: u64, geometry: &Geometry) -> Option<Vec<u64>> {
    /// Offsets in the superblock and in the group header, which is one sector after the start of the group.
    const SECTOR_BYTES: u64 = 102;
    const LEVELS: [usize; 3] = [28, 32, 36];
    const COUNT: usize = 48;
    let found = BlockDevice::from_number((rustix::fs::major(device), rustix::fs::minor(device)))?;
    let file = File::open(found.path()).ok()?;
    let mut sector = [0; 2];
    file.read_exact_at(&mut sector, SECTOR_BYTES).ok()?;
    let of = |group: u64| {
        let start = group * geometry.group_blocks() * u64::from(geometry.block_size);
        let mut header = [0; 64];
        file.read_exact_at(&mut header, start + u64::from(u16::from_be_bytes(sector))).ok()?;
        lacks(&header, LEVELS, COUNT, geometry.reverse_map())
    };
    (0..geometry.groups()).map(of).collect()
}

/// Returns the blocks missing in one list. Each free space tree, and the reverse map, may grow by a level and then
/// split below its root.
fn lacks(header: &[u8; 64], levels: [usize; 3], count: usize, reverse_map: bool) -> Option<u64> {
    let word = |at: usize| header.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes);
    if header.get(..4)? != b"XAGF" {
        return None;
    }
    let trees = if reverse_map { &levels[..] } else { &levels[..2] };
    let wanted: u64 = trees.iter().filter_map(|at| word(*at)).map(|level| 2 * u64::from(level.min(16))).sum();
    Some(wanted.saturating_sub(u64::from(word(count)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks 300 records in leaves of 100 and nodes of 2: 3 leaves, 2 nodes, a root.
    #[test]
    fn tree_of_minimum_fill_counts_every_level() {
        assert_eq!(tree_blocks(300, (100, 2)), 6);
        assert_eq!(tree_blocks(100, (100, 2)), 1);
        assert_eq!(tree_blocks(0, (100, 2)), 0);
    }

    /// Trees of two levels need four blocks each.
    #[test]
    fn missing_blocks_match_the_growth_of_trees() {
        let mut header = [0; 64];
        header[..4].copy_from_slice(b"XAGF");
        for (at, value) in [(28, 2u32), (32, 2), (36, 1), (48, 3)] {
            header[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        assert_eq!(lacks(&header, [28, 32, 36], 48, false), Some(5));
        assert_eq!(lacks(&header, [28, 32, 36], 48, true), Some(7));
        header[0] = 0;
        assert_eq!(lacks(&header, [28, 32, 36], 48, true), None);
    }
}
