//! Inodes and the offsets of their words.

use super::{INODE_BYTES, Pointer};
use crc32c::crc32c;

/// The mutable part of an inode. Each inode holds two copies. A selector word chooses the valid one and contains its checksum, so
/// that a change of several fields becomes visible by one 8-byte store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Inode {
    /// File type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Number of directory entries, recounted at mount; 2 for a directory that is not removed.
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    /// Bytes; or the device number of a device node; or length and checksum of a symbolic link's target. 48 bits.
    pub size: u64,
    pub root: Pointer,
    /// Times are nanoseconds since the epoch.
    pub mtime: i64,
    pub ctime: i64,
    pub atime: i64,
    /// First block of extended attributes, or a hole.
    pub xattr: Pointer,
}

/// Flags, generation and, in the upper half, the checksum.
pub(crate) const SELECTOR: usize = 0;
/// First copy; the 8 bytes before it are unused.
pub(crate) const COPY0: usize = 16;
pub(crate) const COPY_BYTES: usize = 56;
pub(crate) const COPY_WORDS: usize = COPY_BYTES / 8;
/// Flag of the selector: copy 1 is valid.
pub(crate) const SECOND: u32 = 1;
/// Flag of the selector: the inode is in use.
pub(crate) const IN_USE: u32 = 2;
pub(crate) const GENERATION_SHIFT: u32 = 2;

const _: () = assert!(COPY0 + 2 * COPY_BYTES == INODE_BYTES);

impl Inode {
    pub(crate) fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == libc::S_IFDIR
    }

    /// Returns whether the inode is a regular file, the only kind whose blocks are evicted.
    pub(crate) fn is_file(&self) -> bool {
        self.kind() == libc::S_IFREG
    }

    pub(crate) fn is_link(&self) -> bool {
        self.kind() == libc::S_IFLNK
    }

    /// Returns whether `size` holds a device number.
    pub(crate) fn is_device(&self) -> bool {
        matches!(self.kind(), libc::S_IFCHR | libc::S_IFBLK)
    }

    pub(crate) fn size_of_target(target: &[u8]) -> u64 {
        target.len() as u64 | u64::from(crc32c(target)) << 16
    }

    /// Returns the bytes of content.
    pub(crate) fn length(&self) -> u64 {
        match self.kind() {
            libc::S_IFCHR | libc::S_IFBLK => 0,
            libc::S_IFLNK => self.size & 0xffff,
            _ => self.size,
        }
    }

    pub(crate) fn pack(&self) -> [u64; COPY_WORDS] {
        [
            u64::from(self.mode) & 0xffff | self.size << 16,
            u64::from(self.links) | u64::from(self.uid) << 32,
            u64::from(self.gid) | u64::from(self.xattr.address()) << 32,
            self.root.0,
            self.mtime as u64,
            self.ctime as u64,
            self.atime as u64,
        ]
    }

    pub(crate) fn unpack(words: &[u64; COPY_WORDS]) -> Self {
        Self {
            mode: (words[0] & 0xffff) as u32,
            links: words[1] as u32,
            uid: (words[1] >> 32) as u32,
            gid: words[2] as u32,
            size: words[0] >> 16,
            root: Pointer(words[3]),
            mtime: words[4] as i64,
            ctime: words[5] as i64,
            atime: words[6] as i64,
            xattr: Pointer::resident((words[2] >> 32) as u32),
        }
    }
}
