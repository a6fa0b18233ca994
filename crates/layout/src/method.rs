//! Methods of reading extents, and their selection by file system.

use senesce_volume::FileSystem;
use senesce_volume::file_system::{ExtentsBy, FreeSpaceBy};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Method of reading extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// FIEMAP on every file.
    Fiemap,
    /// The inode tables of ext4, from its device.
    InodeTables,
    /// The reverse map of xfs, by GETFSMAP.
    ReverseMap,
    /// The trees of btrfs, by tree search.
    TreeSearch,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fiemap => "fiemap",
            Self::InodeTables => "inode-tables",
            Self::ReverseMap => "reverse-map",
            Self::TreeSearch => "tree-search",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Fiemap, Self::InodeTables, Self::ReverseMap, Self::TreeSearch]
            .into_iter()
            .find(|method| method.name() == text)
            .ok_or_else(|| format!("unknown method '{text}': use fiemap, inode-tables, reverse-map or tree-search"))
    }
}

/// Mounted file system, by the magic number from statfs(2) (linux/magic.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mounted {
    Known(FileSystem),
    Other(u64),
    Without(u64),
}

impl Mounted {
    /// Identifies the file system. `has_device`: the device number of the files is that of a block device.
    pub(crate) fn new(magic: u64, has_device: bool) -> Self {
        match (FileSystem::by_statfs_magic(magic), magic) {
            (Some(known), _) => Self::Known(known),
            // bcachefs has an anonymous device number, like btrfs.
            (None, 0xCA45_1A4E) => Self::Other(magic),
            (None, other) if has_device => Self::Other(other),
            (None, other) => Self::Without(other),
        }
    }

    pub(crate) fn extents(self) -> ExtentsBy {
        match self {
            Self::Known(known) => known.entry().extents,
            Self::Other(_) | Self::Without(_) => ExtentsBy::Fiemap,
        }
    }

    pub(crate) fn free_space(self) -> FreeSpaceBy {
        match self {
            Self::Known(known) => known.entry().free_space,
            Self::Other(_) | Self::Without(_) => FreeSpaceBy::Unknown,
        }
    }

    pub(crate) fn name(self) -> String {
        let magic = match self {
            Self::Known(known) => return known.name().into(),
            Self::Other(magic) | Self::Without(magic) => magic,
        };
        let known = match magic {
            0x0102_1994 => "tmpfs",
            0x8584_58F6 => "ramfs",
            0x794C_7630 => "overlay",
            0x6573_5546 => "fuse",
            0x6969 => "nfs",
            0x0102_1997 => "9p",
            0xFF53_4D42 | 0xFE53_4D42 => "cifs",
            0x9FA0 => "proc",
            0x6265_6572 => "sysfs",
            0x2FC1_2FC1 => "zfs",
            0xCA45_1A4E => "bcachefs",
            0x4D44 => "vfat",
            0x2011_BAB0 => "exfat",
            _ => return format!("a file system with magic number {magic:#x}"),
        };
        known.into()
    }
}
