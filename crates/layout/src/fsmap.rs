//! GETFSMAP (linux/fsmap.h): what each range of a file system's device is used for. ext4 tells free space; xfs made with
//! rmapbt=1 tells the owner of every extent.

use crate::sys::{self, pair, split};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// struct fsmap_head without its array, and struct fsmap, in words.
const HEAD_WORDS: usize = 24;
const RECORD_WORDS: usize = 8;
/// Records fetched by one call: 1 MiB.
const RECORDS: usize = 16 << 10;

const SPECIAL_OWNER: u32 = 0x10;
const LAST: u32 = 0x20;

/// `FMR_OWN_FREE`: FMR_OWNER(0, 1).
pub const OWNER_FREE: u64 = 1;

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Bytes.
    pub length: u64,
}

impl Record {
    /// Unwritten.
    pub const PREALLOC: u32 = 0x1;
    /// Maps extended attributes.
    pub const ATTR_FORK: u32 = 0x2;
    /// A block of the owner's extent tree.
    pub const EXTENT_MAP: u32 = 0x4;
    /// Some block of it has other owners too.
    pub const SHARED: u32 = 0x8;

    /// Whether it is free space.
    pub fn is_free(&self) -> bool {
        self.flags & SPECIAL_OWNER != 0 && self.owner == OWNER_FREE
    }

    /// Whether it maps data of a file.
    pub fn is_file_data(&self) -> bool {
        self.flags & (SPECIAL_OWNER | Self::ATTR_FORK | Self::EXTENT_MAP) == 0
    }
}

/// Calls `each` with the records of `device` that lie in `range`, ascending by address.
pub fn query(root: BorrowedFd<'_>, device: u32, range: Range<u64>, mut each: impl FnMut(Record)) -> io::Result<()> {
    let mut words = vec![0u64; HEAD_WORDS + RECORDS * RECORD_WORDS];
    words[1] = pair(RECORDS as u32, 0);
    let low = [pair(device, 0), range.start, 0, 0, 0, 0, 0, 0];
    let high = [pair(device, u32::MAX), range.end.saturating_sub(1), u64::MAX, u64::MAX, 0, 0, 0, 0];
    words[8..16].copy_from_slice(&low);
    words[16..24].copy_from_slice(&high);
    loop {
        words[0] = 0;
        words[1] = pair(RECORDS as u32, 0);
        sys::ioctl(root, sys::FS_IOC_GETFSMAP, &mut words)?;
        let count = (split(words[1]).1 as usize).min(RECORDS);
        let records = &words[HEAD_WORDS..][..count * RECORD_WORDS];
        let mut last = count == 0;
        for record in records.chunks_exact(RECORD_WORDS) {
            let (device, flags) = split(record[0]);
            last |= flags & LAST != 0;
            let [physical, owner, offset, length] = [record[1], record[2], record[3], record[4]];
            each(Record { device, flags, physical, owner, offset, length });
        }
        if last {
            return Ok(());
        }
        // linux/fsmap.h, fsmap_advance: the last record becomes the low key.
        words.copy_within(HEAD_WORDS + (count - 1) * RECORD_WORDS..HEAD_WORDS + count * RECORD_WORDS, 8);
    }
}

/// The kernel's new_encode_dev of a device number, as in `Record::device`.
pub fn encode_device(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}
