//! Use of each range of a file system's device: GETFSMAP (include/uapi/linux/fsmap.h).

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::ops::Range;
use std::os::fd::AsFd;

const FS_IOC_GETFSMAP: Opcode = opcode::read_write::<Head>(b'X', 59);
/// Maximum number of records per call: 1 MiB.
const AT_ONCE: usize = 16 << 10;

/// `struct fsmap_head` without its array.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    flags_in: u32,
    flags_out: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [Record; 2],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// Device in the kernel's new encoding (minor split around the major).
    pub device: u32,
    /// `FMR_OF_*`.
    pub flags: u32,
    /// Byte address on the device.
    pub physical: u64,
    /// Inode number, or a special owner.
    pub owner: u64,
    /// Byte offset in the owner.
    pub offset: u64,
    pub length: u64,
    reserved: [u64; 3],
}

impl Record {
    pub const PREALLOC: u32 = 0x1;
    pub(crate) const ATTR_FORK: u32 = 0x2;
    /// A block of the owner's extent tree.
    pub(crate) const EXTENT_MAP: u32 = 0x4;
    /// Some of its blocks have other owners too.
    pub const SHARED: u32 = 0x8;
    pub(crate) const SPECIAL_OWNER: u32 = 0x10;
    const LAST: u32 = 0x20;
    /// Special owner of free space: `FMR_OWN_FREE`, FMR_OWNER(0, 1).
    pub(crate) const OWNER_FREE: u64 = 1;

    pub fn is_free(&self) -> bool {
        self.flags & Self::SPECIAL_OWNER != 0 && self.owner == Self::OWNER_FREE
    }

    pub fn is_file_data(&self) -> bool {
        self.flags & (Self::SPECIAL_OWNER | Self::ATTR_FORK | Self::EXTENT_MAP) == 0
    }
}

#[repr(C)]
struct Request {
    head: Head,
    records: [Record; AT_ONCE],
}

/// Calls `each` with the records of `device` in `range` of bytes, ascending by address.
pub fn query(root: impl AsFd, device: u32, range: Range<u64>, mut each: impl FnMut(&Record)) -> crate::Result<()> {
    // SAFETY: all-zero bytes are a valid request; it is too large for the stack.
    let mut request = unsafe { Box::<Request>::new_zeroed().assume_init() };
    let low = Record { device, physical: range.start, ..Record::default() };
    let high = Record {
        device,
        flags: u32::MAX,
        physical: range.end.saturating_sub(1),
        owner: u64::MAX,
        offset: u64::MAX,
        ..Record::default()
    };
    request.head.keys = [low, high];
    loop {
        (request.head.flags_in, request.head.flags_out) = (0, 0);
        (request.head.count, request.head.entries) = (AT_ONCE as u32, 0);
        // SAFETY: the kernel reads the head and writes it and at most `count` records, all of which the structure has.
        unsafe { ioctl(root.as_fd(), Updater::<FS_IOC_GETFSMAP, Request>::new(&mut request)) }?;
        let records = &request.records[..(request.head.entries as usize).min(AT_ONCE)];
        records.iter().for_each(&mut each);
        match records.last() {
            // fsmap_advance: the last record becomes the low key.
            Some(last) if records.iter().all(|record| record.flags & Record::LAST == 0) => request.head.keys[0] = *last,
            _ => return Ok(()),
        }
    }
}

/// Encodes a device number with the kernel's new_encode_dev, as in `Record::device`.
pub fn encode_device(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_codes_match_the_headers() {
        assert_eq!(FS_IOC_GETFSMAP, 0xC0C0_583B);
        assert_eq!(size_of::<Request>(), 192 + 64 * AT_ONCE);
    }

    #[test]
    fn device_number_is_split_around_the_major() {
        assert_eq!(encode_device(rustix::fs::makedev(7, 0x1234)), 0x0120_0734);
    }
}
