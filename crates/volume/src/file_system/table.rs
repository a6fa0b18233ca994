//! The table of file systems and their features. A new one is a line of `file_systems!` and an [`FileSystemEntry`].

use super::offered::{self, DirectoryFormat, OfferedSpace};
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Debug)]
pub struct FileSystemEntry {
    /// The name for `mount -t`, also of its kernel module.
    pub name: &'static str,
    /// Debian package of its programs.
    pub package: &'static str,
    /// With the options that are always given.
    pub(super) mkfs: &'static [&'static str],
    pub(super) version: &'static [&'static str],
    /// Read-only check; empty without a checker.
    pub(super) checker: &'static [&'static str],
    /// Minimum size in bytes that mkfs accepts without options (xfsprogs 6.1, btrfs-progs 6.2, f2fs-tools 1.15,
    /// nilfs-tools 2.2; ext4 without a journal accepts less).
    pub least_bytes: u64,
    /// Nanoseconds per operation of an aging in memory, with allocated but unwritten files (benches/results/aging.md,
    /// and the times of `reproduce free-space`; f2fs and nilfs2 are not measured and count as ext4).
    pub operation_ns: u32,
    pub(super) features: Option<Features>,
    /// Mount options for reading without journal replay, so that the device is never written.
    pub inspect_options: &'static str,
    /// Mount options for a copy whose original may be mounted too.
    pub copy_options: &'static str,
    /// Options of mkfs for an image whose holes read as zeros: no discards, and no zeroing of tables or journal.
    pub(crate) unwritten_options: &'static str,
    /// Mount options for such a file system: no background zeroing of tables.
    pub(crate) unwritten_mount_options: &'static str,
    /// `f_type` of statfs(2) (include/uapi/linux/magic.h).
    pub statfs_magic: u32,
    pub(crate) signature: Signature,
    /// The fastest way to list its extents; FIEMAP works for all.
    pub extents: ExtentsBy,
    pub free_space: FreeSpaceBy,
    pub offered: Option<fn(u64) -> OfferedSpace>,
    pub offered_source: &'static str,
    /// Data bytes that each new inode takes; 0 if mkfs preallocates inodes.
    pub inode_bytes: u64,
    pub directories: DirectoryFormat,
    pub metadata: Option<Metadata>,
    pub keeps_space_for_root: bool,
    pub deletes_later: bool,
    pub can_be_zoned: bool,
    pub defragmenter: Option<Defragmenter>,
    pub twin: Option<TwinBy>,
}

/// The magic number of a superblock (the on-disk headers of each file system; util-linux libblkid/src/superblocks).
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) held: &'static str,
    pub(crate) offset: u64,
    pub(crate) magic: &'static [u8],
    /// Offset of the UUID, of 16 bytes.
    pub(crate) uuid: u64,
    pub(crate) copies: fn(u64) -> Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Features {
    pub(super) command: &'static [&'static str],
    /// Takes the mount point of a mounted file system, else the device.
    pub(super) mounted: bool,
    pub(super) parse: fn(&str) -> Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentsBy {
    /// The inode tables of ext4, from its device.
    InodeTables,
    ReverseMap,
    TreeSearch,
    Fiemap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreeSpaceBy {
    Fsmap,
    TreeSearch,
    SegmentBits,
    Unknown,
}

#[derive(Debug, Clone, Copy)]
pub struct Metadata {
    pub log: fn(u64) -> u64,
    /// Tables that mkfs fills with zeros, unless it skips them.
    pub tables: fn(u64) -> u64,
    /// One part in 2^n of the volume.
    pub volume_shift: u32,
    pub of_a_file: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Defragmenter {
    pub command: &'static [&'static str],
    pub recursive: &'static [&'static str],
    pub package: &'static str,
    /// Table of mounts that the program reads, and that some containers lack.
    pub mount_table: Option<&'static str>,
}

impl Defragmenter {
    pub fn words(&self) -> Vec<&'static str> {
        self.command.iter().chain(self.recursive).copied().collect()
    }
}

/// Returns the command that makes the [`Defragmenter::mount_table`].
pub fn remedy_of_mount_table(table: &Path) -> String {
    format!("ln -s /proc/self/mounts {}", table.display())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwinBy {
    E2image,
    Metadump,
    /// The metadata chunks, byte by byte; data checksums are recomputed.
    Chunks,
}

macro_rules! file_systems {
    ($($(#[$text:meta])* $name:ident = $entry:ident;)*) => {
        /// A file system that senesce can make, mount and check.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum FileSystem {
            $($(#[$text])* $name,)*
        }

        impl FileSystem {
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];

            pub const fn entry(self) -> &'static FileSystemEntry {
                match self {
                    $(Self::$name => &$entry,)*
                }
            }
        }
    };
}

file_systems! {
    Ext4 = EXT4;
    Xfs = XFS;
    Btrfs = BTRFS;
    F2fs = F2FS;
    /// The log-structured file system NILFS2.
    Nilfs2 = NILFS2;
}

const MIB: u64 = 1 << 20;

static EXT4: FileSystemEntry = FileSystemEntry {
    name: "ext4",
    package: "e2fsprogs",
    // Lazy initialisation would write during a measurement (mke2fs(8), -E lazy_itable_init). The group of a top
    // directory, and so the position of its files, follows from its name and this seed (fs/ext4/ialloc.c,
    // find_group_orlov). By default the seed is random, and the same aging would not repeat.
    mkfs: &[
        "mkfs.ext4",
        "-q",
        "-F",
        "-E",
        "lazy_itable_init=0,lazy_journal_init=0,hash_seed=73656e65-7363-6521-8f00-000000000000",
    ],
    version: &["mkfs.ext4", "-V"],
    checker: &["e2fsck", "-fn"],
    least_bytes: 8 * MIB,
    operation_ns: 20_000,
    features: Some(Features { command: &["dumpe2fs", "-h"], mounted: false, parse: super::programs::ext4_features }),
    inspect_options: "ro,noload",
    copy_options: "",
    unwritten_options: "-E nodiscard,lazy_itable_init=1,lazy_journal_init=1,hash_seed=73656e65-7363-6521-8f00-000000000000",
    unwritten_mount_options: "noinit_itable",
    statfs_magic: 0xEF53,
    signature: Signature {
        held: "ext2, ext3 or ext4",
        offset: 1080,
        magic: &[0x53, 0xEF],
        uuid: 1128,
        copies: ext4_copies,
    },
    extents: ExtentsBy::InodeTables,
    free_space: FreeSpaceBy::Fsmap,
    offered: Some(offered::ext4),
    offered_source: "defaults of mke2fs.conf and mke2fs 1.47",
    inode_bytes: 0,
    directories: DirectoryFormat::Blocks,
    metadata: Some(Metadata {
        log: |volume| (volume / 32).clamp(4 * MIB, 1 << 30),
        tables: offered::ext4_inode_tables,
        volume_shift: 13,
        of_a_file: 1 << 10,
    }),
    keeps_space_for_root: true,
    deletes_later: false,
    can_be_zoned: false,
    defragmenter: Some(Defragmenter {
        command: &["e4defrag"],
        recursive: &[],
        package: "e2fsprogs",
        mount_table: Some("/etc/mtab"),
    }),
    twin: Some(TwinBy::E2image),
};

/// Groups 1, 3, 5, 7 and 9 with sparse_super, with blocks of 1, 2 and 4 KiB (Documentation/filesystems/ext4/super.rst).
fn ext4_copies(_size: u64) -> Vec<u64> {
    const MAGIC: u64 = 56;
    let of = |block: u64| {
        let first = u64::from(block == 1024);
        [1u64, 3, 5, 7, 9].map(|group| (group * block * 8 + first) * block + MAGIC)
    };
    [1024, 2048, 4096].into_iter().flat_map(of).collect()
}

static XFS: FileSystemEntry = FileSystemEntry {
    name: "xfs",
    package: "xfsprogs",
    mkfs: &["mkfs.xfs", "-q", "-f"],
    version: &["mkfs.xfs", "-V"],
    checker: &["xfs_repair", "-n"],
    least_bytes: 300 * MIB,
    operation_ns: 35_000,
    features: Some(Features { command: &["xfs_info"], mounted: true, parse: super::programs::one_line }),
    inspect_options: "ro,norecovery,nouuid",
    copy_options: "nouuid",
    unwritten_options: "-K",
    unwritten_mount_options: "",
    statfs_magic: 0x5846_5342,
    // Its allocation groups, 4 by default, of 1 TiB from 4 TiB on (xfsprogs, libxfs/topology.c).
    signature: Signature {
        held: "xfs",
        offset: 0,
        magic: b"XFSB",
        uuid: 32,
        copies: |size| {
            let group = (size / 4096).div_ceil(4) * 4096;
            [group, 2 * group, 3 * group, 1 << 40, 2 << 40, 3 << 40].to_vec()
        },
    },
    extents: ExtentsBy::ReverseMap,
    free_space: FreeSpaceBy::Fsmap,
    offered: Some(offered::xfs),
    offered_source: offered::ESTIMATE,
    inode_bytes: 512,
    directories: DirectoryFormat::Xfs,
    metadata: Some(Metadata {
        log: |volume| (volume / 2048).clamp(64 * MIB, 2 << 30),
        tables: |_| 0,
        volume_shift: 13,
        of_a_file: 2 << 10,
    }),
    keeps_space_for_root: false,
    deletes_later: true,
    can_be_zoned: false,
    defragmenter: Some(Defragmenter {
        command: &["xfs_fsr", "-v"],
        recursive: &[],
        package: "xfsdump",
        mount_table: None,
    }),
    twin: Some(TwinBy::Metadump),
};

static BTRFS: FileSystemEntry = FileSystemEntry {
    name: "btrfs",
    package: "btrfs-progs",
    mkfs: &["mkfs.btrfs", "-q", "-f"],
    version: &["mkfs.btrfs", "--version"],
    checker: &["btrfs", "check", "--readonly"],
    least_bytes: 109 * MIB,
    operation_ns: 80_000,
    features: Some(Features {
        command: &["btrfs", "inspect-internal", "dump-super"],
        mounted: false,
        parse: super::programs::btrfs_features,
    }),
    inspect_options: "ro,rescue=nologreplay",
    copy_options: "",
    unwritten_options: "-K",
    unwritten_mount_options: "",
    statfs_magic: 0x9123_683E,
    // Its mirrors (fs/btrfs/disk-io.h).
    signature: Signature {
        held: "btrfs",
        offset: 0x10040,
        magic: b"_BHRfS_M",
        uuid: 0x10020,
        copies: |_| [64 * MIB, 1 << 38].map(|mirror| mirror + 64).to_vec(),
    },
    extents: ExtentsBy::TreeSearch,
    free_space: FreeSpaceBy::TreeSearch,
    offered: Some(offered::btrfs),
    offered_source: offered::ESTIMATE,
    inode_bytes: 700,
    directories: DirectoryFormat::Items,
    // Each commit writes changed metadata to a new location, in two copies.
    metadata: Some(Metadata { log: |_| 256 * MIB, tables: |_| 0, volume_shift: 10, of_a_file: 16 << 10 }),
    keeps_space_for_root: false,
    deletes_later: false,
    can_be_zoned: true,
    defragmenter: Some(Defragmenter {
        command: &["btrfs", "filesystem", "defragment"],
        recursive: &["-r"],
        package: "btrfs-progs",
        mount_table: None,
    }),
    twin: Some(TwinBy::Chunks),
};

static F2FS: FileSystemEntry = FileSystemEntry {
    name: "f2fs",
    package: "f2fs-tools",
    mkfs: &["mkfs.f2fs", "-f"],
    version: &["mkfs.f2fs", "-V"],
    checker: &["fsck.f2fs", "--dry-run"],
    least_bytes: 64 * MIB,
    operation_ns: 20_000,
    features: None,
    inspect_options: "ro,norecovery",
    copy_options: "",
    unwritten_options: "-t 0",
    unwritten_mount_options: "",
    statfs_magic: 0xF2F5_2010,
    signature: Signature {
        held: "f2fs",
        offset: 1024,
        magic: &[0x10, 0x20, 0xF5, 0xF2],
        uuid: 1132,
        copies: |_| Vec::new(),
    },
    extents: ExtentsBy::Fiemap,
    free_space: FreeSpaceBy::SegmentBits,
    offered: Some(offered::f2fs),
    offered_source: offered::ESTIMATE,
    inode_bytes: 4096,
    directories: DirectoryFormat::Blocks,
    metadata: None,
    keeps_space_for_root: false,
    deletes_later: false,
    can_be_zoned: true,
    defragmenter: None,
    twin: None,
};

static NILFS2: FileSystemEntry = FileSystemEntry {
    name: "nilfs2",
    package: "nilfs-tools",
    mkfs: &["mkfs.nilfs2", "-q", "-f"],
    version: &["mkfs.nilfs2", "-V"],
    checker: &[],
    least_bytes: 129 * MIB,
    operation_ns: 20_000,
    features: None,
    inspect_options: "ro,norecovery",
    copy_options: "",
    unwritten_options: "-K",
    unwritten_mount_options: "",
    statfs_magic: 0x3434,
    signature: Signature { held: "nilfs2", offset: 1030, magic: &[0x34, 0x34], uuid: 1176, copies: |_| Vec::new() },
    extents: ExtentsBy::Fiemap,
    free_space: FreeSpaceBy::Unknown,
    offered: None,
    offered_source: "",
    inode_bytes: 0,
    directories: DirectoryFormat::Blocks,
    metadata: None,
    keeps_space_for_root: false,
    deletes_later: false,
    can_be_zoned: false,
    defragmenter: None,
    twin: None,
};
