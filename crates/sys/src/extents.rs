//! The extents of a file: FIEMAP (include/uapi/linux/fs.h, fiemap.h).

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::os::fd::AsFd;

const FS_IOC_FIEMAP: Opcode = opcode::read_write::<Head>(b'f', 11);
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
    pub length: u64,
    reserved64: [u64; 2],
    /// `FIEMAP_EXTENT_*`.
    pub flags: u32,
    reserved: [u32; 3],
}

impl Extent {
    pub const LAST: u32 = 0x1;
    pub const UNKNOWN: u32 = 0x2;
    /// Not yet allocated.
    pub const DELALLOC: u32 = 0x4;
    pub const ENCODED: u32 = 0x8;
    pub const DATA_ENCRYPTED: u32 = 0x80;
    pub const DATA_INLINE: u32 = 0x200;
    /// Allocated but unwritten; reads as zeros.
    pub const UNWRITTEN: u32 = 0x800;
    pub const SHARED: u32 = 0x2000;
}

#[repr(C)]
struct Request<const AT_ONCE: usize> {
    head: Head,
    extents: [Extent; AT_ONCE],
}

/// A reusable buffer for at most `AT_ONCE` extents per call.
pub struct ExtentMap<const AT_ONCE: usize = 256>(Box<Request<AT_ONCE>>);

impl<const AT_ONCE: usize> Default for ExtentMap<AT_ONCE> {
    fn default() -> Self {
        Self(Box::new(Request { head: Head::default(), extents: [Extent::default(); AT_ONCE] }))
    }
}

impl<const AT_ONCE: usize> ExtentMap<AT_ONCE> {
    /// Returns the next extents of an open file from byte `start` on, ascending; empty after the last one.
    pub fn read(&mut self, file: impl AsFd, start: u64) -> crate::Result<&[Extent]> {
        self.0.head = Head { start, length: u64::MAX - start, count: AT_ONCE as u32, ..Head::default() };
        // SAFETY: the kernel reads the head and writes it and at most `count` extents, all of which the structure has.
        unsafe { ioctl(file, Updater::<FS_IOC_FIEMAP, Request<AT_ONCE>>::new(&mut self.0)) }?;
        Ok(&self.0.extents[..(self.0.head.mapped as usize).min(AT_ONCE)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_codes_match_the_headers() {
        assert_eq!(FS_IOC_FIEMAP, 0xC020_660B);
        assert_eq!(size_of::<Request<256>>(), 32 + 56 * 256);
        assert_eq!(size_of::<Request<1>>(), 32 + 56);
    }

    #[test]
    fn number_of_extents_is_limited_by_the_buffer() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Pieces separated by holes are separate extents.
        for piece in 0..8u64 {
            std::os::unix::fs::FileExt::write_all_at(file.as_file(), &[1; 4096], piece << 20).unwrap();
        }
        file.as_file().sync_all().unwrap();
        match ExtentMap::<256>::default().read(&file, 0) {
            Ok(all) => assert_eq!(all.len(), 8),
            Err(errno) => return eprintln!("this file system does not support it: {errno}"),
        }
        assert_eq!(ExtentMap::<3>::default().read(&file, 0).unwrap().len(), 3);
        assert_eq!(ExtentMap::<3>::default().read(&file, 6 << 20).unwrap().len(), 2);
    }
}
