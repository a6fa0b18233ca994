//! Page cache residency.

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// Returns the number of cached pages of a file or device (cachestat(2), since Linux 6.5); `None` if the kernel does
/// not support it.
pub fn cached_pages(file: impl AsFd) -> crate::Result<Option<u64>> {
    /// `__NR_cachestat`, the same number on all architectures but alpha (include/uapi/asm-generic/unistd.h).
    const CACHESTAT: libc::c_long = 451;
    // struct cachestat_range: offset, length (0: to the end).
    let range = [0u64, 0];
    // struct cachestat: in the cache, dirty, under write-back, evicted, evicted lately (include/uapi/linux/mman.h).
    let mut found = [0u64; 5];
    let file = file.as_fd().as_raw_fd();
    // SAFETY: the call reads one range and writes one struct cachestat of five 64-bit numbers; the descriptor is open.
    match unsafe { libc::syscall(CACHESTAT, file, range.as_ptr(), found.as_mut_ptr(), 0u32) } {
        0 => Ok(Some(found[0])),
        _ => match crate::errno::last() {
            Errno::NOSYS | Errno::OPNOTSUPP => Ok(None),
            errno => Err(errno),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn pages_of_a_written_file_are_cached() {
        let mut file = tempfile::tempfile().unwrap();
        assert!(matches!(cached_pages(&file), Ok(None | Some(0))));
        file.write_all(&[1; 8192]).unwrap();
        assert!(matches!(cached_pages(&file), Ok(None | Some(1..))));
    }
}
