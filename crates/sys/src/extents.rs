//! The extents of a file: FIEMAP (include/uapi/linux/fs.h, fiemap.h).

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::os::fd::AsFd;

const FS_IOC_FIEMAP: Opcode = opcode::read_write::<Head>(b'f', 11);
/// Extents that one call gives at most.
const AT_ONCE: usize = 256;

/// `struct fiemap` without its array.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub logical: u64,
    /// First byte on the device.
    pub physical: u64,
    /// Bytes.
    pub length: u64,
    reserved64: [u64; 2],
    /// `FIEMAP_EXTENT_*`.
    pub flags: u32,
    reserved: [u32; 3],
}

impl Extent {
    /// The last one of the file.
    pub const LAST: u32 = 0x1;
    /// Where it lies is not known.
    pub const UNKNOWN: u32 = 0x2;
    /// Not yet given a place.
    pub const DELALLOC: u32 = 0x4;
    /// Compressed or encrypted.
    pub const ENCODED: u32 = 0x8;
    /// Encrypted by the file system.
    pub const DATA_ENCRYPTED: u32 = 0x80;
    /// Among metadata.
    pub const DATA_INLINE: u32 = 0x200;
    /// Reserved, reads as zeroes.
    pub const UNWRITTEN: u32 = 0x800;
    /// Shared with other files.
    pub const SHARED: u32 = 0x2000;
}

#[repr(C)]
struct Request {
    head: Head,
    extents: [Extent; AT_ONCE],
}

/// A buffer for calls, reused from file to file.
pub struct ExtentMap(Box<Request>);

impl Default for ExtentMap {
    fn default() -> Self {
        Self(Box::new(Request { head: Head::default(), extents: [Extent::default(); AT_ONCE] }))
    }
}

impl ExtentMap {
    /// The next extents of an open file from byte `start` on, ascending; empty behind the last one.
    ///
    /// # Errors
    /// The file system does not tell, or cannot be read.
    pub fn read(&mut self, file: impl AsFd, start: u64) -> crate::Result<&[Extent]> {
        self.0.head = Head { start, length: u64::MAX - start, count: AT_ONCE as u32, ..Head::default() };
        // SAFETY: the kernel reads the head and writes it and at most `count` extents, all of which the structure has.
        unsafe { ioctl(file, Updater::<FS_IOC_FIEMAP, Request>::new(&mut self.0)) }?;
        Ok(&self.0.extents[..(self.0.head.mapped as usize).min(AT_ONCE)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_headers() {
        assert_eq!(FS_IOC_FIEMAP, 0xC020_660B);
        assert_eq!(size_of::<Request>(), 32 + 56 * AT_ONCE);
    }
}
