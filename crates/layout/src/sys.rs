//! System calls that rustix does not wrap: a few ioctls, each with the numbers of its kernel header.

use std::ffi::c_ulong;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `FS_IOC_FIEMAP`, linux/fs.h: `_IOWR('f', 11, struct fiemap)`.
pub const FS_IOC_FIEMAP: c_ulong = 0xC020_660B;
/// `FS_IOC_GETFSMAP`, linux/fsmap.h: `_IOWR('X', 59, struct fsmap_head)`.
pub const FS_IOC_GETFSMAP: c_ulong = 0xC0C0_583B;
/// `XFS_IOC_FSGEOMETRY_V1`, xfs_fs.h: `_IOR('X', 100, struct xfs_fsop_geom_v1)`.
pub const XFS_IOC_FSGEOMETRY_V1: c_ulong = 0x8070_5864;
/// `BTRFS_IOC_TREE_SEARCH_V2`, linux/btrfs.h: `_IOWR(0x94, 17, struct btrfs_ioctl_search_args_v2)`.
pub const BTRFS_IOC_TREE_SEARCH_V2: c_ulong = 0xC070_9411;
/// `BTRFS_IOC_FS_INFO`, linux/btrfs.h: `_IOR(0x94, 31, struct btrfs_ioctl_fs_info_args)`.
pub const BTRFS_IOC_FS_INFO: c_ulong = 0x8400_941F;

/// `XFS_IOC_FSCOUNTS`, xfs_fs.h: `_IOR('X', 113, struct xfs_fsop_counts)`.
pub const XFS_IOC_FSCOUNTS: c_ulong = 0x8020_5871;
/// `BTRFS_IOC_SPACE_INFO`, linux/btrfs.h: `_IOWR(0x94, 20, struct btrfs_ioctl_space_args)`.
pub const BTRFS_IOC_SPACE_INFO: c_ulong = 0xC010_9414;
/// `BTRFS_IOC_DEV_INFO`, linux/btrfs.h: `_IOWR(0x94, 30, struct btrfs_ioctl_dev_info_args)`.
pub const BTRFS_IOC_DEV_INFO: c_ulong = 0xD000_941E;

/// Calls an ioctl whose argument is a buffer of u64 words: all structures used here are made of 8-byte aligned fields.
pub fn ioctl(file: impl AsFd, request: c_ulong, argument: &mut [u64]) -> io::Result<()> {
    // SAFETY: the buffer is at least as long as the structure whose length is part of `request` plus the array whose
    // length the caller wrote into it; the kernel writes no further, and any bit pattern is a valid u64.
    let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), request, argument.as_mut_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Two u32 fields, in memory order, as one word.
pub const fn pair(first: u32, second: u32) -> u64 {
    if cfg!(target_endian = "little") {
        first as u64 | (second as u64) << 32
    } else {
        second as u64 | (first as u64) << 32
    }
}

/// The two u32 fields of a word, in memory order.
pub const fn split(word: u64) -> (u32, u32) {
    if cfg!(target_endian = "little") { (word as u32, (word >> 32) as u32) } else { ((word >> 32) as u32, word as u32) }
}

/// The bytes of a buffer of words.
pub fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: u64 has no padding, u8 has no alignment, and the length is that of the same memory.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), std::mem::size_of_val(words)) }
}
