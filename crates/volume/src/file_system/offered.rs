//! What a file system leaves for files after its mkfs with defaults, and how its directories take bytes.

use serde::{Deserialize, Serialize};

/// How directories take bytes beside their inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectoryFormat {
    /// Every directory has a block at least (ext4); of other file systems an estimate.
    #[default]
    Blocks,
    /// Few entries lie in the inode (XFS).
    Xfs,
}

/// What a new volume offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// Inodes; none where they are made as needed.
    pub inodes: Option<u64>,
    /// Bytes for data.
    pub bytes: u64,
    /// Bytes per block.
    pub block_bytes: u64,
}

/// Where most of these are known from.
pub(super) const ESTIMATE: &str = "estimate from the defaults of its mkfs";

/// By mke2fs.conf: below 512 MiB 1 KiB blocks and an inode per 4 KiB, then 4 KiB blocks and an inode per 16 KiB (32 from
/// 4 TiB, 64 from 16 TiB); 256-byte inodes; 5 % reserved for root; journal by `ext2fs_default_journal_size`.
pub(super) fn ext4(size: u64) -> Offered {
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
    let inodes = size / ratio;
    let overhead = inodes * 256 + journal * block_bytes + size / 200;
    let free = size.saturating_sub(overhead);
    Offered { inodes: Some(inodes.saturating_sub(11)), bytes: free.saturating_sub(size / 20), block_bytes }
}

/// xfs_mkfs(8): inodes of 512 bytes, at most 25 % of the volume (imaxpct below 1 TiB); a log of 64 MiB up to 128 GiB, then
/// 1/2048 up to 2 GiB. Set aside: a twentieth, at most 32 MiB (fs/xfs/xfs_mount.c: xfs_default_resblks), and about 1/150 for the
/// trees of inodes and shared extents.
pub(super) fn xfs(size: u64) -> Offered {
    let log = (size / 2048).clamp(64 << 20, 2 << 30);
    let set_aside = (size / 20).min(32 << 20) + size / 150;
    Offered { inodes: Some(size / 4 / 512), bytes: size.saturating_sub(log + set_aside), block_bytes: 4096 }
}

/// An inode's items (inode, reference, two directory items, extent, checksum) take about 500 bytes in leaves that are 70 % full,
/// kept twice (metadata profile DUP): the table counts them by the inode.
pub(super) fn btrfs(size: u64) -> Offered {
    Offered { inodes: None, bytes: (size - size / 32).saturating_sub(64 << 20), block_bytes: 4096 }
}

/// Every inode is a node block of 4 KiB; 5 to 10 % are set aside for cleaning.
pub(super) fn f2fs(size: u64) -> Offered {
    Offered { inodes: None, bytes: size - size / 12, block_bytes: 4096 }
}
