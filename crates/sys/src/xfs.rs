//! XFS ioctls (xfsprogs, libxfs/xfs_fs.h).

use rustix::ioctl::{Getter, Opcode, ioctl, opcode};
use std::os::fd::AsFd;

const XFS_IOC_FSGEOMETRY_V1: Opcode = opcode::read::<Geometry>(b'X', 100);
const XFS_IOC_FSCOUNTS: Opcode = opcode::read::<Counts>(b'X', 113);

/// `struct xfs_fsop_geom_v1`. Sizes are bytes, counts are blocks unless noted.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Geometry {
    pub block_size: u32,
    realtime_extent: u32,
    pub group_blocks: u32,
    pub groups: u32,
    pub log_blocks: u32,
    sector_size: u32,
    pub inode_size: u32,
    /// Maximum share of the space that inodes may take, in percent; 0: no limit.
    pub inode_percent: u32,
    pub data_blocks: u64,
    pub realtime_blocks: u64,
    realtime_extents: u64,
    /// First block of the log; 0: on another device.
    pub log_start: u64,
    uuid: [u8; 16],
    stripe_unit: u32,
    stripe_width: u32,
    version: i32,
    /// `XFS_FSOP_GEOM_FLAGS_*`.
    pub flags: u32,
    log_sector_size: u32,
    realtime_sector_size: u32,
    pub directory_block_size: u32,
}

impl Geometry {
    pub const FINOBT: u32 = 1 << 16;
    /// A chunk of inodes may be partly filled.
    pub const SPINODES: u32 = 1 << 18;
    pub const RMAPBT: u32 = 1 << 19;
    pub const REFLINK: u32 = 1 << 20;
}

/// `struct xfs_fsop_counts`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub free_blocks: u64,
    pub free_realtime_extents: u64,
    pub free_inodes: u64,
    pub made_inodes: u64,
}

pub fn geometry(root: impl AsFd) -> crate::Result<Geometry> {
    // SAFETY: the kernel writes one structure of this type, any bytes of which are valid.
    unsafe { ioctl(root, Getter::<XFS_IOC_FSGEOMETRY_V1, Geometry>::new()) }
}

pub fn counts(root: impl AsFd) -> crate::Result<Counts> {
    // SAFETY: the kernel writes one structure of this type, any bytes of which are valid.
    unsafe { ioctl(root, Getter::<XFS_IOC_FSCOUNTS, Counts>::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_codes_match_the_headers() {
        assert_eq!((XFS_IOC_FSGEOMETRY_V1, XFS_IOC_FSCOUNTS), (0x8070_5864, 0x8020_5871));
        assert_eq!(std::mem::offset_of!(Geometry, flags), 92);
    }
}
