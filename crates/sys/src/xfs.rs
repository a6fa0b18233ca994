//! What xfs tells of itself (xfsprogs, libxfs/xfs_fs.h).

use rustix::ioctl::{Getter, Opcode, ioctl, opcode};
use std::os::fd::AsFd;

const XFS_IOC_FSGEOMETRY_V1: Opcode = opcode::read::<Geometry>(b'X', 100);
const XFS_IOC_FSCOUNTS: Opcode = opcode::read::<Counts>(b'X', 113);

/// `struct xfs_fsop_geom_v1`. Sizes are bytes, counts are blocks unless something else is said.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Geometry {
    /// Bytes per block.
    pub block_size: u32,
    realtime_extent: u32,
    /// Blocks of an allocation group.
    pub group_blocks: u32,
    /// Allocation groups.
    pub groups: u32,
    /// Blocks of the log.
    pub log_blocks: u32,
    sector_size: u32,
    /// Bytes per inode.
    pub inode_size: u32,
    /// Most percent of the space that inodes may take; 0: no limit.
    pub inode_percent: u32,
    /// Blocks of the data device.
    pub data_blocks: u64,
    /// Blocks of the realtime device.
    pub realtime_blocks: u64,
    realtime_extents: u64,
    /// First block of the log; 0: it is on another device.
    pub log_start: u64,
    uuid: [u8; 16],
    stripe_unit: u32,
    stripe_width: u32,
    version: i32,
    /// `XFS_FSOP_GEOM_FLAGS_*`.
    pub flags: u32,
    log_sector_size: u32,
    realtime_sector_size: u32,
    /// Bytes of a block of a directory.
    pub directory_block_size: u32,
}

impl Geometry {
    /// It has a tree of free inodes.
    pub const FINOBT: u32 = 1 << 16;
    /// A chunk of inodes may be partly filled.
    pub const SPINODES: u32 = 1 << 18;
    /// It has a reverse map.
    pub const RMAPBT: u32 = 1 << 19;
    /// It has a reference count tree.
    pub const REFLINK: u32 = 1 << 20;
}

/// `struct xfs_fsop_counts`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Free blocks of the data device.
    pub free_blocks: u64,
    /// Free realtime extents.
    pub free_realtime_extents: u64,
    /// Inodes that are made and free.
    pub free_inodes: u64,
    /// Inodes that are made.
    pub made_inodes: u64,
}

/// Its geometry.
///
/// # Errors
/// It is no xfs.
pub fn geometry(root: impl AsFd) -> crate::Result<Geometry> {
    // SAFETY: the kernel writes one structure of this type, any bytes of which are valid.
    unsafe { ioctl(root, Getter::<XFS_IOC_FSGEOMETRY_V1, Geometry>::new()) }
}

/// Its counters.
///
/// # Errors
/// It is no xfs.
pub fn counts(root: impl AsFd) -> crate::Result<Counts> {
    // SAFETY: the kernel writes one structure of this type, any bytes of which are valid.
    unsafe { ioctl(root, Getter::<XFS_IOC_FSCOUNTS, Counts>::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_headers() {
        assert_eq!((XFS_IOC_FSGEOMETRY_V1, XFS_IOC_FSCOUNTS), (0x8070_5864, 0x8020_5871));
        assert_eq!(std::mem::offset_of!(Geometry, flags), 92);
    }
}
