//! Btrfs ioctls (include/uapi/linux/btrfs.h).

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::os::fd::AsFd;

const BTRFS_IOC_TREE_SEARCH_V2: Opcode = opcode::read_write::<SearchHead>(MAGIC, 17);
const BTRFS_IOC_SPACE_INFO: Opcode = opcode::read_write::<SpaceHead>(MAGIC, 20);
const BTRFS_IOC_DEV_INFO: Opcode = opcode::read_write::<DeviceRequest>(MAGIC, 30);
const BTRFS_IOC_FS_INFO: Opcode = opcode::read::<FileSystem>(MAGIC, 31);
const BTRFS_IOC_GET_DEV_STATS: Opcode = opcode::read_write::<ErrorsRequest>(MAGIC, 52);
const MAGIC: u8 = 0x94;
/// Maximum bytes of items per search.
const SEARCH_BYTES: usize = 256 << 10;
/// Maximum number of space infos; there are four uses, each with few profiles.
const SPACES: usize = 32;

/// `struct btrfs_ioctl_search_key`: inclusive bounds of a search.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SearchKey {
    /// 0: the subvolume of the descriptor.
    pub tree: u64,
    pub min_object: u64,
    pub max_object: u64,
    /// Minimum offset, of the smallest object and type.
    pub min_offset: u64,
    /// Maximum offset, of the largest object and type.
    pub max_offset: u64,
    pub min_transaction: u64,
    pub max_transaction: u64,
    /// Minimum type, of the smallest object.
    pub min_type: u32,
    /// Maximum type, of the largest object.
    pub max_type: u32,
    /// Maximum number of items; after the call, the number found.
    pub items: u32,
    pub unused: u32,
    pub unused_words: [u64; 4],
}

/// `struct btrfs_ioctl_search_args_v2` without its buffer.
#[repr(C)]
#[derive(Clone, Copy)]
struct SearchHead {
    key: SearchKey,
    buffer_bytes: u64,
}

#[repr(C)]
struct SearchRequest {
    head: SearchHead,
    buffer: [u8; SEARCH_BYTES],
}

pub struct TreeSearch(Box<SearchRequest>);

impl Default for TreeSearch {
    fn default() -> Self {
        // SAFETY: all-zero bytes are a valid request; it is too large for the stack.
        Self(unsafe { Box::new_zeroed().assume_init() })
    }
}

impl TreeSearch {
    /// Returns the number of items and their bytes: for each a header of 32 bytes and its data.
    pub fn search(&mut self, root: impl AsFd, key: SearchKey) -> crate::Result<(u32, &[u8])> {
        self.0.head = SearchHead { key, buffer_bytes: SEARCH_BYTES as u64 };
        // SAFETY: the kernel reads the head and writes it and at most `buffer_bytes` of the buffer.
        unsafe { ioctl(root, Updater::<BTRFS_IOC_TREE_SEARCH_V2, SearchRequest>::new(&mut self.0)) }?;
        Ok((self.0.head.key.items, &self.0.buffer))
    }
}

/// `struct btrfs_ioctl_space_info`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// `BTRFS_BLOCK_GROUP_*`.
    pub flags: u64,
    pub total: u64,
    pub used: u64,
}

impl Space {
    pub const DATA: u64 = 1;
    pub const METADATA: u64 = 1 << 2;
    pub const RAID0: u64 = 1 << 3;
    /// Two copies on two devices.
    pub const RAID1: u64 = 1 << 4;
    /// Two copies on one device.
    pub const DUP: u64 = 1 << 5;
    /// Two copies of each stripe.
    pub const RAID10: u64 = 1 << 6;
    pub const RAID5: u64 = 1 << 7;
    /// Two devices of parity.
    pub const RAID6: u64 = 1 << 8;
    /// Three copies on three devices.
    pub const RAID1C3: u64 = 1 << 9;
    /// Four copies on four devices.
    pub const RAID1C4: u64 = 1 << 10;
    /// Reserved by the kernel; not a chunk.
    pub const GLOBAL_RESERVE: u64 = 1 << 49;
}

/// `struct btrfs_ioctl_space_args` without its array.
#[repr(C)]
struct SpaceHead {
    slots: u64,
    total: u64,
}

#[repr(C)]
struct SpaceRequest {
    head: SpaceHead,
    spaces: [Space; SPACES],
}

pub fn spaces(root: impl AsFd) -> crate::Result<Vec<Space>> {
    let head = SpaceHead { slots: SPACES as u64, total: 0 };
    let mut request = SpaceRequest { head, spaces: [Space::default(); SPACES] };
    // SAFETY: the kernel reads the head and writes it and at most `slots` spaces, all of which the structure has.
    unsafe { ioctl(root, Updater::<BTRFS_IOC_SPACE_INFO, SpaceRequest>::new(&mut request)) }?;
    Ok(request.spaces[..(request.head.total as usize).min(SPACES)].to_vec())
}

/// `struct btrfs_ioctl_fs_info_args`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FileSystem {
    pub max_device: u64,
    pub devices: u64,
    uuid: [u8; 16],
    pub node_size: u32,
    pub block_size: u32,
    clone_alignment: u32,
    checksum_kind: u16,
    checksum_bytes: u16,
    flags: u64,
    rest: [u64; 121],
}

impl Default for FileSystem {
    fn default() -> Self {
        // SAFETY: all-zero bytes are numbers.
        unsafe { std::mem::zeroed() }
    }
}

impl FileSystem {
    /// BTRFS_FS_INFO_FLAG_CSUM_INFO.
    const CHECKSUM: u64 = 1;

    /// Returns the bytes of a block's checksum; for kernels before 5.11, which do not report it, that of crc32c.
    pub fn checksum_bytes(&self) -> u64 {
        if self.flags & Self::CHECKSUM != 0 { u64::from(self.checksum_bytes) } else { 4 }
    }
}

impl FileSystem {
    pub fn uuid(&self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|range| hex(&self.uuid[range]));
        format!("{a}-{b}-{c}-{d}-{e}")
    }
}

pub fn file_system(root: impl AsFd) -> crate::Result<FileSystem> {
    let mut request = FileSystem { flags: FileSystem::CHECKSUM, ..FileSystem::default() };
    // SAFETY: the kernel reads the flags and writes one structure of this type, any bytes of which are valid.
    unsafe { ioctl(root, Updater::<BTRFS_IOC_FS_INFO, FileSystem>::new(&mut request)) }?;
    Ok(request)
}

/// `struct btrfs_ioctl_dev_info_args`.
#[repr(C)]
struct DeviceRequest {
    number: u64,
    uuid: [u8; 16],
    used: u64,
    total: u64,
    rest: [u64; 507],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// Bytes in chunks.
    pub used: u64,
    pub total: u64,
}

pub fn device(root: impl AsFd, number: u64) -> crate::Result<Device> {
    let mut request = DeviceRequest { number, uuid: [0; 16], used: 0, total: 0, rest: [0; 507] };
    // SAFETY: the kernel reads and writes one structure of this type.
    unsafe { ioctl(root, Updater::<BTRFS_IOC_DEV_INFO, DeviceRequest>::new(&mut request)) }?;
    Ok(Device { used: request.used, total: request.total })
}

/// `struct btrfs_ioctl_get_dev_stats`.
#[repr(C)]
struct ErrorsRequest {
    number: u64,
    items: u64,
    flags: u64,
    values: [u64; 5],
    unused: [u64; 121],
}

/// Error counters of a device since their last reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errors {
    pub read: u64,
    pub corruption: u64,
    pub generation: u64,
}

pub fn device_errors(root: impl AsFd, number: u64) -> crate::Result<Errors> {
    let mut request = ErrorsRequest { number, items: 5, flags: 0, values: [0; 5], unused: [0; 121] };
    // SAFETY: the kernel reads and writes one structure of this type.
    unsafe { ioctl(root, Updater::<BTRFS_IOC_GET_DEV_STATS, ErrorsRequest>::new(&mut request)) }?;
    let [_, read, _, corruption, generation] = request.values;
    Ok(Errors { read, corruption, generation })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_codes_match_the_headers() {
        assert_eq!((BTRFS_IOC_TREE_SEARCH_V2, BTRFS_IOC_SPACE_INFO), (0xC070_9411, 0xC010_9414));
        assert_eq!((BTRFS_IOC_DEV_INFO, BTRFS_IOC_FS_INFO), (0xD000_941E, 0x8400_941F));
        assert_eq!(std::mem::offset_of!(FileSystem, flags), 48);
    }
}
