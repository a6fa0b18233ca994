//! Space that a default mkfs leaves for files, and space that directories use.

use serde::{Deserialize, Serialize};

/// How directories use space, inodes excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectoryFormat {
    /// Every directory has at least one block (ext4); an estimate for other file systems.
    #[default]
    Blocks,
    /// Small directories are in the inode (XFS).
    Xfs,
    /// Entries are tree items without blocks of their own (Btrfs).
    Items,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedSpace {
    /// `None` if inodes are created as needed.
    pub inodes: Option<u64>,
    pub bytes: u64,
    pub block_bytes: u64,
}

pub(super) const ESTIMATE: &str = "estimate from the defaults of its mkfs";

/// Computes what ext4 offers by mke2fs.conf. Below 512 MiB it has 1 KiB blocks and an inode per 4 KiB. Larger volumes
/// have 4 KiB blocks and an inode per 16 KiB (32 from 4 TiB, 64 from 16 TiB). Inodes have 256 bytes; 5 % are reserved
/// for root; the journal size follows `ext2fs_default_journal_size`.
pub(super) fn ext4(size: u64) -> OfferedSpace {
    let (block_bytes, ratio) = match size {
        0..0x2000_0000 => (1024, 4096),
        0x2000_0000..0x400_0000_0000 => (4096, 16 << 10),
        0x400_0000_0000..0x1000_0000_0000 => (4096, 32 << 10),
        _ => (4096, 64 << 10),
    };
    let journal = match size / block_bytes {
        0..2048 => 0,
        2048..32_768 => 1024,
        32_768..262_144 => 4096,
        262_144..524_288 => 8192,
        524_288..4_194_304 => 16_384,
        4_194_304..8_388_608 => 32_768,
        8_388_608..16_777_216 => 65_536,
        16_777_216..33_554_432 => 131_072,
        _ => 262_144,
    };
    let (inodes, blocks) = (size / ratio, size / block_bytes);
    let metadata = inodes * INODE_BYTES / block_bytes + journal + groups_of_ext4(blocks, block_bytes);
    let kept = blocks / 20 + held_back_by_ext4(blocks);
    let free = blocks.saturating_sub(metadata + kept);
    OfferedSpace { inodes: Some(inodes.saturating_sub(11)), bytes: free * block_bytes, block_bytes }
}

/// Returns the blocks that the kernel holds back for metadata, also from root: 2 %, at most 4096 (fs/ext4/super.c,
/// `ext4_set_resv_clusters`).
pub(super) fn held_back_by_ext4(blocks: u64) -> u64 {
    (blocks / 50).min(4096)
}

/// Of ext4 (mke2fs.conf).
const INODE_BYTES: u64 = 256;

pub(super) fn ext4_inode_tables(size: u64) -> u64 {
    ext4(size).inodes.unwrap_or(0) * INODE_BYTES
}

/// Counts the blocks of the bitmaps, of the first directories, and of the backups of the superblock and descriptors
/// with their reserve for growth. Sources: mke2fs, calc_reserved_gdt_blocks; sparse_super: groups 0, 1 and powers of 3,
/// 5 and 7.
fn groups_of_ext4(blocks: u64, block_bytes: u64) -> u64 {
    const DESCRIPTOR: u64 = 64;
    let in_group = 8 * block_bytes;
    let groups = blocks.div_ceil(in_group);
    let descriptors = (groups * DESCRIPTOR).div_ceil(block_bytes);
    let grown = ((blocks * 1024).div_ceil(in_group) * DESCRIPTOR).div_ceil(block_bytes);
    let reserved = grown.saturating_sub(descriptors).min(block_bytes / 4);
    let powers = |base: u64| std::iter::successors(Some(base), move |power| power.checked_mul(base));
    let powers = [3, 5, 7].map(|base| powers(base).take_while(|power| *power < groups).count() as u64);
    let copies = groups.min(2) + powers.iter().sum::<u64>();
    let directories = (16 << 10) / block_bytes + 1;
    2 * groups + copies * (1 + descriptors + reserved) + directories
}

/// Computes what XFS offers (xfs_mkfs(8)): inodes of 512 bytes, at most 25 % of the volume (imaxpct below 1 TiB). The
/// log has 64 MiB up to 128 GiB, then 1/2048 up to 2 GiB. Reserve: a twentieth, at most 32 MiB (fs/xfs/xfs_mount.c:
/// xfs_default_resblks), and about 1/150 for the trees of inodes and shared extents.
pub(super) fn xfs(size: u64) -> OfferedSpace {
    let log = (size / 2048).clamp(64 << 20, 2 << 30);
    let set_aside = (size / 20).min(32 << 20) + size / 150;
    OfferedSpace { inodes: Some(size / 4 / 512), bytes: size.saturating_sub(log + set_aside), block_bytes: 4096 }
}

/// Computes what btrfs offers. An inode's items without its name (inode, reference, two directory items) take about 350
/// bytes of leaves, kept twice (metadata profile DUP). The table counts them per inode.
pub(super) fn btrfs(size: u64) -> OfferedSpace {
    OfferedSpace { inodes: None, bytes: (size - size / 32).saturating_sub(64 << 20), block_bytes: 4096 }
}

/// Computes what F2FS offers. Every inode is a node block of 4 KiB; 5 to 10 % are reserved for cleaning.
pub(super) fn f2fs(size: u64) -> OfferedSpace {
    OfferedSpace { inodes: None, bytes: size - size / 12, block_bytes: 4096 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses the numbers of mkfs.ext4 1.47 for 100 MiB: statfs reports 83,151 blocks for users and 25,573 inodes.
    #[test]
    fn small_ext4_offers_what_statfs_reports() {
        let offered = ext4(100 << 20);
        assert!(offered.bytes.abs_diff(83_151 << 10) < 83 << 10, "{offered:?}");
        assert!(offered.inodes.unwrap().abs_diff(25_573) < 32, "{offered:?}");
    }
}
