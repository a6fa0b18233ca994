//! Remaining space of a file system: statfs(2), every free extent, and details by type. Never writes.

mod btrfs;
mod xfs_groups;

use crate::error::LayoutError;
use crate::ext4_format;
use crate::method::Mounted;
use crate::xfs::Geometry;
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use senesce_sys::{fsmap, xfs as xfs_calls};
use senesce_volume::file_system::FreeSpaceBy;
use senesce_volume::{BlockDevice, FileSystem};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Remaining space of a file system.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileSystemSpace {
    /// File system type.
    pub file_system: String,
    /// Bytes per block.
    pub block_size: u64,
    /// Blocks for data and metadata of files, used ones included.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Free blocks available to ordinary users.
    pub user_blocks: u64,
    /// Inodes; 0 if they are created on demand without a limit.
    pub inodes: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// Whether it is mounted read-only here, so that the kernel has reserved nothing.
    pub read_only: bool,
    /// Free extents, ascending; `None` if not reported.
    #[serde(skip)]
    pub free: Option<Vec<FreeExtent>>,
    /// Details by file system type.
    pub kind: FileSystemDetails,
}

/// In blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FreeExtent {
    pub start: u64,
    pub blocks: u64,
}

/// Details by file system type.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FileSystemDetails {
    /// ext4, ext3 and ext2.
    Ext(Ext),
    /// xfs.
    Xfs(Xfs),
    /// btrfs.
    Btrfs(Btrfs),
    /// Nothing is known.
    Other,
}

/// ext4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Ext {
    /// Whether files are mapped by extents.
    pub extents: bool,
    /// Whether inodes hold the data of small files.
    pub inline_data: bool,
    /// Blocks per cluster, the unit of allocation.
    pub cluster_blocks: u64,
    /// Blocks reserved by the kernel for itself.
    pub held_back_blocks: u64,
    /// Whether directories have an index.
    pub dir_index: bool,
    /// Whether the directory index may have a third level.
    pub large_dir: bool,
    /// Whether blocks of directories end in a checksum.
    pub metadata_checksums: bool,
    /// Whether names are hashed uniformly.
    pub uniform_hash: bool,
}

/// xfs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Xfs {
    /// Allocation groups.
    pub groups: u64,
    /// Blocks of a group.
    pub group_blocks: u64,
    /// Bytes per inode.
    pub inode_size: u64,
    /// Whether a chunk of inodes may be partly filled.
    pub sparse_inodes: bool,
    /// Inodes that exist.
    pub made_inodes: u64,
    /// Free inodes among them.
    pub free_made_inodes: u64,
    /// Bytes of a block of a directory.
    pub directory_block: u64,
    /// Whether it has a realtime device.
    pub realtime: bool,
    /// Maximum share of the space for inodes, in percent; 0: no limit.
    pub inode_percent: u64,
    /// Blocks that a read-write mount reserves and this one has not.
    pub to_set_aside: u64,
    /// Blocks missing in the list of free blocks of each group. Empty if unknown.
    #[serde(skip)]
    pub list_lacks: Vec<u64>,
}

/// Space by use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Chunks {
    /// Bytes of its chunks, without copies.
    pub total: u64,
    /// Bytes used in them.
    pub used: u64,
    /// Placement of new chunks on devices.
    pub profile: Profile,
}

/// A row of btrfs_raid_array (fs/btrfs/volumes.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// Minimum number of devices for a chunk.
    pub least_devices: u64,
    /// Maximum number of devices for a chunk; 0: all.
    pub most_devices: u64,
    /// A chunk uses a multiple of this number of devices.
    pub multiple: u64,
    /// Stripes on one device.
    pub on_device: u64,
    /// Copies of data.
    pub copies: u64,
    /// Stripes of parity.
    pub parity: u64,
}

/// btrfs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Btrfs {
    /// For data.
    pub data: Chunks,
    /// For metadata.
    pub metadata: Chunks,
    /// Whether data and metadata share their chunks.
    pub mixed: bool,
    /// Bytes that the kernel reserves for its own metadata.
    pub global_reserve: u64,
    /// Bytes of the devices without chunk.
    pub unallocated: u64,
    /// Bytes of each of these ranges, by device and address; without root, one range per device. A stripe of a chunk is within
    /// one range.
    pub holes: Vec<Vec<u64>>,
    /// Bytes of all devices.
    pub device: u64,
    /// Devices.
    pub devices: u64,
    /// Bytes of a tree block.
    pub node_size: u64,
    /// Bytes of the checksum of a block of data.
    pub checksum_bytes: u64,
}

impl FileSystemSpace {
    /// Determines the remaining space of the file system of `directory`.
    pub fn of(directory: &Path) -> Result<Self, LayoutError> {
        let failed = |errno| LayoutError::io("open", directory, errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root: OwnedFd = rustix::fs::open(directory, flags, Mode::empty()).map_err(failed)?;
        let found = rustix::fs::fstatvfs(&root).map_err(failed)?;
        let magic = rustix::fs::fstatfs(&root).map_err(failed)?.f_type as u64 & 0xFFFF_FFFF;
        let device = rustix::fs::fstat(&root).map_err(failed)?.st_dev;
        let file_system = Mounted::new(magic, rustix::fs::major(device) != 0);
        let read_only = found.f_flag.contains(StatVfsMountFlags::RDONLY);
        let kind = match file_system {
            Mounted::Known(FileSystem::Ext4) => FileSystemDetails::Ext(ext(device, found.f_blocks)),
            Mounted::Known(FileSystem::Xfs) => {
                FileSystemDetails::Xfs(xfs(root.as_fd(), directory, (device, read_only))?)
            }
            Mounted::Known(FileSystem::Btrfs) => {
                btrfs::read(root.as_fd()).map_or(FileSystemDetails::Other, FileSystemDetails::Btrfs)
            }
            _ => FileSystemDetails::Other,
        };
        let free = match file_system.free_space() {
            FreeSpaceBy::Fsmap => free_extents(root.as_fd(), device, found.f_frsize).ok(),
            _ => None,
        };
        Ok(Self {
            file_system: file_system.name(),
            block_size: found.f_frsize,
            blocks: found.f_blocks,
            free_blocks: found.f_bfree,
            user_blocks: found.f_bavail,
            inodes: found.f_files,
            free_inodes: found.f_favail,
            read_only,
            free,
            kind,
        })
    }
}

/// Returns the number of currently free blocks of the file system of `directory`.
pub fn free_blocks(directory: &Path) -> Result<u64, LayoutError> {
    let found = rustix::fs::statvfs(directory).map_err(|errno| LayoutError::io("open", directory, errno))?;
    Ok(found.f_bfree)
}

pub fn write_back(directory: &Path) -> Result<(), LayoutError> {
    let failed = |errno| LayoutError::io("write back", directory, errno);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(directory, flags, Mode::empty()).map_err(failed)?;
    rustix::fs::syncfs(&root).map_err(failed)
}

fn free_extents(root: BorrowedFd<'_>, device: u64, block_size: u64) -> io::Result<Vec<FreeExtent>> {
    let mut free: Vec<FreeExtent> = Vec::new();
    fsmap::query(root, fsmap::encode_device(device), 0..u64::MAX, |record| {
        if record.is_free() {
            free.push(FreeExtent { start: record.physical / block_size, blocks: record.length / block_size });
        }
    })?;
    Ok(free)
}

/// Returns the details of an ext file system. The kernel holds back 2 % of the clusters, at most 4096, if there are
/// extents (fs/ext4/super.c, ext4_set_resv_clusters).
fn ext(device: u64, blocks: u64) -> Ext {
    let held_back = |all: u64, extents: bool| if extents { (all / 50).min(4096) } else { 0 };
    let unknown = Ext {
        extents: true,
        inline_data: false,
        cluster_blocks: 1,
        held_back_blocks: held_back(blocks, true),
        dir_index: true,
        large_dir: false,
        metadata_checksums: true,
        uniform_hash: true,
    };
    let superblock = || -> Option<Ext> {
        let found = BlockDevice::from_number((rustix::fs::major(device), rustix::fs::minor(device)))?;
        let mut block = [0; ext4_format::SUPERBLOCK_BYTES];
        File::open(found.path()).ok()?.read_exact_at(&mut block, ext4_format::SUPERBLOCK_OFFSET).ok()?;
        let features = ext4_format::Features::parse(&block)?;
        let held = held_back(features.blocks / features.cluster_blocks, features.extents) * features.cluster_blocks;
        Some(Ext {
            extents: features.extents,
            inline_data: features.inline_data,
            cluster_blocks: features.cluster_blocks,
            held_back_blocks: held,
            dir_index: features.dir_index,
            large_dir: features.large_dir,
            metadata_checksums: features.metadata_checksums,
            uniform_hash: features.uniform_hash,
        })
    };
    superblock().unwrap_or(unknown)
}

fn xfs(root: BorrowedFd<'_>, shown: &Path, (device, read_only): (u64, bool)) -> Result<Xfs, LayoutError> {
    let geometry = Geometry::read(root, shown)?;
    let counts =
        xfs_calls::counts(root).map_err(|source| LayoutError::io("read the xfs counters of", shown, source))?;
    Ok(Xfs {
        groups: geometry.groups(),
        group_blocks: geometry.group_blocks(),
        inode_size: u64::from(geometry.inode_size),
        sparse_inodes: geometry.sparse_inodes,
        made_inodes: counts.made_inodes,
        free_made_inodes: counts.free_inodes,
        directory_block: u64::from(geometry.directory_block),
        realtime: geometry.has_realtime,
        inode_percent: u64::from(geometry.inode_percent),
        to_set_aside: if read_only { xfs_groups::set_aside(&geometry) } else { 0 },
        // Device and memory are only consistent if nothing is written.
        list_lacks: if read_only { xfs_groups::list_lacks(device, &geometry).unwrap_or_default() } else { Vec::new() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_matches_statvfs() {
        let here = tempfile::tempdir().unwrap();
        let space = FileSystemSpace::of(here.path()).unwrap();
        let said = rustix::fs::statvfs(here.path()).unwrap();
        assert_eq!((space.block_size, space.blocks), (said.f_frsize, said.f_blocks));
    }
}
