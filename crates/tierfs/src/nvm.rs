//! Memory for hot blocks: byte-addressable, changed by plain stores, made durable by `persist`.

use crate::error::{TierError, io_error};
use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::FlockOperation;
use senesce_core::failure::errno_message;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Byte-addressable memory.
///
/// # Safety
/// `base` must stay valid for reads and writes of `len` bytes, and unmoved, for the life of the value.
pub unsafe trait Nvm: Send + Sync {
    fn base(&self) -> *mut u8;

    /// Returns the size in bytes, a multiple of the block size.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes everything stored in `ranges` before this call survive a crash, before anything that is stored later. It
    /// ends an epoch. Other bytes may become durable too.
    fn persist_all(&self, ranges: &[Range<usize>]);

    fn persist(&self, offset: usize, len: usize) {
        self.persist_all(std::slice::from_ref(&(offset..offset + len)));
    }

    /// Returns whether persisting ever failed; the file system then returns EIO.
    fn failed(&self) -> bool {
        false
    }

    fn durability(&self) -> &'static str;
}

/// How stores become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// The file is in memory (tmpfs): contents survive the process but not a loss of power.
    Nothing,
    /// Cache lines are written back (clwb) and fenced (sfence).
    CacheLines,
    /// The kernel writes the pages to the disk (msync).
    Pages,
}

#[derive(Debug)]
pub struct MappedNvm {
    map: MmapRaw,
    flush: Flush,
    failed: AtomicBool,
    _file: Option<File>,
}

// SAFETY: the mapping lives as long as the value and is never moved or shrunk.
unsafe impl Nvm for MappedNvm {
    fn base(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    fn len(&self) -> usize {
        self.map.len()
    }

    fn persist_all(&self, ranges: &[Range<usize>]) {
        match self.flush {
            Flush::Nothing => std::sync::atomic::compiler_fence(Ordering::SeqCst),
            Flush::CacheLines => {
                for range in ranges {
                    // SAFETY: the range is inside the mapping; callers address whole words of it.
                    unsafe { cache_lines::write_back(self.base().add(range.start), range.len()) };
                }
                cache_lines::fence();
            }
            Flush::Pages => self.sync_pages(ranges),
        }
    }

    fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn durability(&self) -> &'static str {
        match self.flush {
            Flush::Nothing => "memory: survives the end of the server, but not a loss of power",
            Flush::CacheLines => "persistent memory: cache lines are written back and fenced",
            Flush::Pages => "file on a disk: msync before and at every commit",
        }
    }
}

impl MappedNvm {
    /// Calls msync(2) once over all ranges: the kernel writes the dirty pages and flushes the disk's cache once.
    fn sync_pages(&self, ranges: &[Range<usize>]) {
        let first = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        if first < end
            && let Err(error) = self.map.flush_range(first, end - first)
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            let words = errno_message(&error);
            eprintln!("tier: msync of the region: {words}: the file system is read-only from now on");
        }
    }

    pub fn anonymous(bytes: u64) -> Result<Self, TierError> {
        let map = MmapOptions::new()
            .len(bytes as usize)
            .map_anon()
            .map(MmapRaw::from)
            .map_err(io_error("map anonymous memory", Path::new("anonymous")))?;
        populate(&map);
        Ok(Self { map, flush: Flush::Nothing, failed: AtomicBool::new(false), _file: None })
    }

    /// Maps the whole of `file`. With `private`, changes stay in this process.
    pub(crate) fn map(file: File, path: &Path, private: bool) -> Result<Self, TierError> {
        let len = file.metadata().map_err(io_error("stat", path))?.len() as usize;
        if private {
            // SAFETY: the file is locked against other instances of senesce; truncation by another program would end the process.
            let map = unsafe { MmapOptions::new().len(len).map_copy(&file) }.map_err(io_error("map", path))?;
            let map = MmapRaw::from(map);
            return Ok(Self { map, flush: Flush::Nothing, failed: AtomicBool::new(false), _file: Some(file) });
        }
        let flush = kind_of_memory(&file, len).map_err(io_error("find the file system of", path))?;
        let map = MmapOptions::new().len(len).map_raw(&file).map_err(io_error("map", path))?;
        if flush == Flush::Nothing {
            populate(&map);
        }
        Ok(Self { map, flush, failed: AtomicBool::new(false), _file: Some(file) })
    }
}

/// Populates the page table, so that no write waits for a page fault. Kernels before 5.14 do not support it and populate pages at
/// first use. Skipped for files on a disk, because all pages would become dirty. Miri has no madvise(2).
fn populate(map: &MmapRaw) {
    if cfg!(miri) {
        return;
    }
    if let Err(error) = map.advise(Advice::PopulateWrite) {
        tracing::debug!("the region is not populated: {error}");
    }
}

const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58f6;
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// Returns how stores to this memory become durable. MAP_SYNC only succeeds on persistent memory with DAX (mmap(2)).
fn kind_of_memory(file: &File, len: usize) -> io::Result<Flush> {
    let system = rustix::fs::fstatfs(file)?;
    if [TMPFS_MAGIC, RAMFS_MAGIC, HUGETLBFS_MAGIC].contains(&(system.f_type as i64)) {
        return Ok(Flush::Nothing);
    }
    let flags = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
    // SAFETY: a new mapping at an address of the kernel's choice, removed at once.
    unsafe {
        let fd = std::os::fd::AsRawFd::as_raw_fd(file);
        let probe = libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, flags, fd, 0);
        if probe == libc::MAP_FAILED {
            return Ok(Flush::Pages);
        }
        libc::munmap(probe, len);
    }
    Ok(Flush::CacheLines)
}

/// Opens `path` for reading and writing and locks it; refuses a file that is already locked.
pub(crate) fn open_locked(path: &Path) -> Result<File, TierError> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(io_error("open", path))?;
    lock(&file, path)?;
    Ok(file)
}

/// Time for a server to make everything durable after umount(8) has returned.
const CLOSING: Duration = Duration::from_secs(3);

pub(crate) fn lock(file: &File, path: &Path) -> Result<(), TierError> {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < CLOSING => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(TierError::InUse { path: path.into() }),
            Err(error) => return Err(io_error("lock", path)(error.into())),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

mod cache_lines {
    //! Intel SDM: clwb and clflushopt are only ordered by sfence; clflush is ordered by itself.

    #[cfg(target_arch = "x86_64")]
    pub(crate) unsafe fn write_back(start: *const u8, len: usize) {
        use std::arch::asm;
        use std::arch::x86_64::_mm_clflush;
        const LINE: usize = 64;
        let first = start as usize / LINE * LINE;
        let clwb = has_clwb();
        for line in (first..start as usize + len).step_by(LINE) {
            // SAFETY: the line belongs to the mapping that the caller vouches for.
            unsafe {
                if clwb {
                    asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags));
                } else {
                    _mm_clflush(line as *const u8);
                }
            }
        }
    }

    /// Orders earlier write-backs before later stores.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn fence() {
        // SAFETY: SSE belongs to the architecture.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }

    #[cfg(target_arch = "x86_64")]
    fn has_clwb() -> bool {
        use std::sync::OnceLock;
        static FOUND: OnceLock<bool> = OnceLock::new();
        // CPUID leaf 7, subleaf 0, EBX bit 24.
        *FOUND.get_or_init(|| std::arch::x86_64::__cpuid_count(7, 0).ebx & 1 << 24 != 0)
    }

    #[cfg(target_arch = "aarch64")]
    pub unsafe fn write_back(start: *const u8, len: usize) {
        use std::arch::asm;
        const LINE: usize = 64;
        let first = start as usize / LINE * LINE;
        for line in (first..start as usize + len).step_by(LINE) {
            // SAFETY: the line belongs to the mapping that the caller vouches for.
            unsafe { asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags)) };
        }
    }

    #[cfg(target_arch = "aarch64")]
    pub fn fence() {
        // SAFETY: a barrier.
        unsafe { std::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn writing_back_ordinary_memory_is_harmless() {
            let memory = vec![7u8; 300];
            // SAFETY: the range is the vector's.
            unsafe { super::write_back(memory.as_ptr().wrapping_add(3), 290) };
            assert!(memory.iter().all(|byte| *byte == 7));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_in_use_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = open_locked(file.path()).unwrap();
        assert!(matches!(open_locked(file.path()), Err(TierError::InUse { .. })));
        drop(first);
        assert!(open_locked(file.path()).is_ok());
    }

    #[test]
    fn private_mapping_does_not_change_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1u8; 8192]).unwrap();
        let map = MappedNvm::map(open_locked(file.path()).unwrap(), file.path(), true).unwrap();
        // SAFETY: inside the mapping.
        unsafe { *map.base() = 9 };
        map.persist(0, 8);
        drop(map);
        assert_eq!(std::fs::read(file.path()).unwrap()[0], 1);
    }
}
