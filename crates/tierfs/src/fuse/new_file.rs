//! Whether the data of a new file pass the kernel's cache. What a program only writes does not need the cache, the memory
//! here is as fast; and past it the kernel leaves it to the server to drop capabilities, instead of asking for them before
//! the first write.

use fuser::{FileHandle, FopenFlags};

const CACHED: FileHandle = FileHandle(0);
const PAST_THE_CACHE: FileHandle = FileHandle(1);

/// How new files are opened on this kernel.
#[derive(Debug, Clone, Copy)]
pub struct NewFiles {
    may_pass: bool,
}

impl NewFiles {
    /// As the running kernel allows.
    pub fn on_this_kernel() -> Self {
        Self { may_pass: stays_coherent(&rustix::system::uname().release().to_string_lossy()) }
    }

    /// Handle and flags of a file that was created with these open(2) flags.
    pub fn opened(self, flags: i32) -> (FileHandle, FopenFlags) {
        match flags & libc::O_ACCMODE {
            libc::O_WRONLY if self.may_pass => (PAST_THE_CACHE, FopenFlags::FOPEN_DIRECT_IO),
            _ => (CACHED, FopenFlags::FOPEN_KEEP_CACHE),
        }
    }
}

/// Whether writes through this handle pass the cache.
pub fn passes_the_cache(handle: FileHandle) -> bool {
    handle == PAST_THE_CACHE
}

/// Whether other readers see what was written past the cache: only since 6.19 does the kernel drop cached pages after such a
/// write (commit b359af8275a9 "fuse: Invalidate the page cache after FOPEN_DIRECT_IO write"), and since 6.12.64 and early
/// releases of 6.18 that took it over.
fn stays_coherent(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0u32);
    match (next(), next(), next()) {
        (6, 12, patch) => patch >= 64,
        (6, 18, patch) => patch >= 10,
        version => version >= (6, 19, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernels_that_drop_stale_pages_are_trusted() {
        for release in ["6.19.0", "6.18.44-fc", "6.12.64+deb13-amd64", "7.0.0-rc1", "6.20"] {
            assert!(stays_coherent(release), "{release}");
        }
        for release in ["5.15.0-100-generic", "6.1.0-32-amd64", "6.12.63", "6.18.0", "6.17.13", "6.18", ""] {
            assert!(!stays_coherent(release), "{release}");
        }
    }

    #[test]
    fn files_that_are_read_too_are_cached() {
        let new = NewFiles { may_pass: true };
        assert!(passes_the_cache(new.opened(libc::O_WRONLY | libc::O_CREAT).0));
        assert!(!passes_the_cache(new.opened(libc::O_RDWR | libc::O_CREAT).0));
        assert!(!passes_the_cache(NewFiles { may_pass: false }.opened(libc::O_WRONLY).0));
    }
}
