//! Whether the data of a new file bypass the kernel's cache. The creator of a file usually writes it next, and writes gain
//! nothing from the cache, because the storage is memory. In addition, the kernel then leaves dropping capabilities to the server
//! instead of requesting them before the first write. Later descriptors use the cache.

use fuser::{FileHandle, FopenFlags, WriteFlags};

const CACHED: FileHandle = FileHandle(0);
const PAST_THE_CACHE: FileHandle = FileHandle(1);

#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFiles {
    stay_coherent: bool,
    can_be_mapped: bool,
}

impl NewFiles {
    /// Capabilities of the running kernel; `can_be_mapped` if it accepted FUSE_DIRECT_IO_ALLOW_MMAP.
    pub(crate) fn on_this_kernel(can_be_mapped: bool) -> Self {
        Self { stay_coherent: stays_coherent(&rustix::system::uname().release().to_string_lossy()), can_be_mapped }
    }

    /// Returns handle and flags of a file created with these open(2) flags. A shared mapping needs a descriptor for
    /// reading and writing (mmap(2)).
    pub(crate) fn opened(self, flags: i32) -> (FileHandle, FopenFlags) {
        let may_pass = match flags & libc::O_ACCMODE {
            libc::O_WRONLY => self.stay_coherent,
            libc::O_RDWR => self.stay_coherent && self.can_be_mapped,
            _ => false,
        };
        match may_pass {
            true => (PAST_THE_CACHE, FopenFlags::FOPEN_DIRECT_IO),
            false => (CACHED, FopenFlags::FOPEN_KEEP_CACHE),
        }
    }
}

/// Relation of written data to the kernel's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// By write(2) through a descriptor that bypasses the cache: the server must drop capabilities.
    PastCache,
    /// By write(2) with O_DIRECT.
    Directly,
    /// By write(2), which also stores them in the cache.
    ThroughCache,
    FromCache,
}

pub(crate) fn written(handle: FileHandle, flags: WriteFlags) -> Written {
    match handle {
        _ if flags.contains(WriteFlags::FUSE_WRITE_CACHE) => Written::FromCache,
        PAST_THE_CACHE => Written::PastCache,
        // A lock owner is named if the kernel writes past its cache (fuse_send_write, fs/fuse/file.c).
        _ if flags.contains(WriteFlags::FUSE_WRITE_LOCKOWNER) => Written::Directly,
        _ => Written::ThroughCache,
    }
}

/// Returns whether other readers see data written past the cache. Only since 6.19 does the kernel drop cached pages
/// after such a write, and in early releases of 6.18 with the backport. That is commit b359af8275a9 "fuse: Invalidate
/// the page cache after FOPEN_DIRECT_IO write". 6.12.64 has the backport too, but does not wait for pages under
/// write-back (before 6.16 from a copy, commit 0c58a97f919c), so they may arrive late.
fn stays_coherent(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0u32);
    match (next(), next(), next()) {
        (6, 18, patch) => patch >= 10,
        version => version >= (6, 19, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernels_that_drop_stale_pages_are_trusted() {
        for release in ["6.19.0", "6.18.44-fc", "7.0.0-rc1", "6.20"] {
            assert!(stays_coherent(release), "{release}");
        }
        for release in ["5.15.0-100-generic", "6.1.0-32-amd64", "6.12.64+deb13-amd64", "6.18.0", "6.17.13", "6.18", ""]
        {
            assert!(!stays_coherent(release), "{release}");
        }
    }

    #[test]
    fn files_are_cached_if_the_kernel_is_not_coherent() {
        let passes = |new: NewFiles, flags| {
            written(new.opened(flags | libc::O_CREAT).0, WriteFlags::empty()) == Written::PastCache
        };
        let new = NewFiles { stay_coherent: true, can_be_mapped: true };
        assert!(passes(new, libc::O_WRONLY) && passes(new, libc::O_RDWR) && !passes(new, libc::O_RDONLY));
        let unmapped = NewFiles { can_be_mapped: false, ..new };
        assert!(passes(unmapped, libc::O_WRONLY) && !passes(unmapped, libc::O_RDWR));
        let stale = NewFiles { stay_coherent: false, ..new };
        assert!(!passes(stale, libc::O_WRONLY) && !passes(stale, libc::O_RDWR));
    }

    #[test]
    fn write_back_of_shared_mappings_is_recognised() {
        assert_eq!(written(PAST_THE_CACHE, WriteFlags::FUSE_WRITE_CACHE), Written::FromCache);
        assert_eq!(written(CACHED, WriteFlags::empty()), Written::ThroughCache);
        assert_eq!(written(CACHED, WriteFlags::FUSE_WRITE_LOCKOWNER), Written::Directly);
    }
}
