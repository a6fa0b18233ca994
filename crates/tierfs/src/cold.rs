//! The cold store: slots of one block each on a disk. Slot 0 is the header.

use crate::error::{TierError, io_error};
use crate::format::BLOCK;
use parking_lot::Mutex;
use rustix::fs::FallocateFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Storage of cold blocks. Buffers are multiples of the block size and aligned to it.
pub trait ColdStore: Send + Sync {
    fn read(&self, slot: u32, into: &mut [u8]) -> io::Result<()>;

    /// Writes consecutive slots from `slot` on; durable after the next [`sync`](Self::sync).
    fn write(&self, slot: u32, from: &[u8]) -> io::Result<()>;

    /// Makes all completed writes durable.
    fn sync(&self) -> io::Result<()>;

    /// Releases the space of `count` slots from `slot` on; their content is no longer needed.
    fn punch(&self, _slot: u32, _count: u32) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether `bytes` more could be written, as far as known.
    fn has_space(&self, _bytes: u64) -> bool {
        true
    }

    fn describe(&self) -> String;
}

#[derive(Debug)]
pub struct FileCold {
    file: File,
    direct: bool,
    is_device: bool,
    name: String,
}

impl FileCold {
    /// Opens `path`, bypassing the page cache if its file system supports it.
    pub fn open(path: &Path) -> Result<Self, TierError> {
        Self::open_at(path, path)
    }

    /// Opens the same file again, even if its name was reused.
    pub(crate) fn of(file: &File, path: &Path) -> Result<Self, TierError> {
        Self::open_at(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), path)
    }

    fn open_at(place: &Path, path: &Path) -> Result<Self, TierError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        // O_EXCL makes mkfs and mount refuse the device (open(2)).
        let is_device = place.metadata().is_ok_and(|found| found.file_type().is_block_device());
        let alone = if is_device { libc::O_EXCL } else { 0 };
        let direct = options.clone().custom_flags(libc::O_DIRECT | alone).open(place);
        let (file, direct) = match direct {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                (options.custom_flags(alone).open(place).map_err(io_error("open", path))?, false)
            }
            other => (other.map_err(io_error("open", path))?, true),
        };
        Ok(Self { file, direct, is_device, name: path.display().to_string() })
    }

    pub(crate) fn bytes(&self) -> io::Result<u64> {
        use std::io::{Seek, SeekFrom};
        (&self.file).seek(SeekFrom::End(0))
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

fn at(slot: u32) -> u64 {
    u64::from(slot) * BLOCK as u64
}

impl ColdStore for FileCold {
    fn read(&self, slot: u32, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at(slot))
    }

    fn write(&self, slot: u32, from: &[u8]) -> io::Result<()> {
        self.file.write_all_at(from, at(slot))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn punch(&self, slot: u32, count: u32) -> io::Result<()> {
        if self.is_device {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, flags, at(slot), u64::from(count) * BLOCK as u64)?)
    }

    fn has_space(&self, bytes: u64) -> bool {
        let free = rustix::fs::fstatvfs(&self.file).map(|found| found.f_bavail.saturating_mul(found.f_frsize));
        self.is_device || free.is_ok_and(|free| free >= bytes)
    }

    fn describe(&self) -> String {
        let cached =
            if self.direct { "" } else { " (its file system does not support O_DIRECT: reads use the page cache)" };
        format!("{}{cached}", self.name)
    }
}

/// Adds a modelled latency to every request, so that a store in memory behaves like a disk.
pub struct LatencyCold {
    inner: Box<dyn ColdStore>,
    model: Latency,
    /// Slot after the last request: the position of a disk's arm.
    arm: Mutex<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Before the first byte of a read.
    pub read: Duration,
    /// Before the first byte of a write.
    pub write: Duration,
    pub sync: Duration,
    /// 0 means that bytes are free.
    pub bytes_per_s: u64,
    /// One arm serves one request at a time; a request where the last one ended needs no seek.
    pub arm: bool,
}

impl Latency {
    /// A SATA solid-state drive: 90 us to read, 30 us to write into its cache, 500 MB/s.
    pub const SSD: Self = Self {
        read: Duration::from_micros(90),
        write: Duration::from_micros(30),
        sync: Duration::from_micros(500),
        bytes_per_s: 500_000_000,
        arm: false,
    };

    /// A disk of 7200 revolutions per minute: 8.5 ms mean seek, 4.16 ms half a turn, 150 MB/s.
    pub const HDD: Self = Self {
        read: Duration::from_micros(12_660),
        write: Duration::from_micros(12_660),
        sync: Duration::from_micros(8_330),
        bytes_per_s: 150_000_000,
        arm: true,
    };

    /// Returns a model with the same time for every request; bytes are free.
    pub(crate) fn fixed(per_request: Duration) -> Self {
        Self { read: per_request, write: per_request, sync: per_request, bytes_per_s: 0, arm: false }
    }

    /// Parses `ssd`, `hdd` or a number of microseconds.
    pub fn parse(text: &str) -> Result<Self, TierError> {
        match text {
            "ssd" => Ok(Self::SSD),
            "hdd" => Ok(Self::HDD),
            _ => text.trim_end_matches("us").parse().map(|us| Self::fixed(Duration::from_micros(us))).map_err(|_| {
                TierError::Usage(format!("'{text}' is not a cold latency: write ssd, hdd or a number of microseconds"))
            }),
        }
    }

    fn of(&self, base: Duration, bytes: usize) -> Duration {
        match self.bytes_per_s {
            0 => base,
            rate => base + Duration::from_nanos(bytes as u64 * 1_000_000_000 / rate),
        }
    }
}

impl std::fmt::Display for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |time: Duration| time.as_micros();
        write!(f, "read {} us, write {} us, flush {} us", us(self.read), us(self.write), us(self.sync))?;
        match self.bytes_per_s {
            0 => Ok(()),
            rate => write!(f, ", {} MB/s", rate / 1_000_000),
        }
    }
}

impl LatencyCold {
    pub fn new(inner: Box<dyn ColdStore>, model: Latency) -> Self {
        Self { inner, model, arm: Mutex::new(0) }
    }

    /// Delays a request at `slot` to the time of the modelled disk.
    fn timed(
        &self,
        base: Duration,
        slot: u32,
        bytes: usize,
        request: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.model.arm {
            let started = Instant::now();
            let result = request();
            wait_until(started, self.model.of(base, bytes));
            return result;
        }
        let mut arm = self.arm.lock();
        let started = Instant::now();
        let result = request();
        let base = if *arm == slot { Duration::ZERO } else { base };
        wait_until(started, self.model.of(base, bytes));
        *arm = slot + (bytes / BLOCK) as u32;
        result
    }
}

/// Sleeps, then spins for the last stretch, because sleeping overshoots by tens of microseconds.
fn wait_until(started: Instant, duration: Duration) {
    const SPUN: Duration = Duration::from_micros(80);
    let left = duration.saturating_sub(started.elapsed());
    if left > SPUN {
        std::thread::sleep(left - SPUN);
    }
    while started.elapsed() < duration {
        std::thread::yield_now();
    }
}

impl ColdStore for LatencyCold {
    fn read(&self, slot: u32, into: &mut [u8]) -> io::Result<()> {
        let bytes = into.len();
        self.timed(self.model.read, slot, bytes, || self.inner.read(slot, into))
    }

    fn write(&self, slot: u32, from: &[u8]) -> io::Result<()> {
        self.timed(self.model.write, slot, from.len(), || self.inner.write(slot, from))
    }

    fn sync(&self) -> io::Result<()> {
        let started = Instant::now();
        let result = self.inner.sync();
        wait_until(started, self.model.sync);
        result
    }

    fn punch(&self, slot: u32, count: u32) -> io::Result<()> {
        self.inner.punch(slot, count)
    }

    fn has_space(&self, bytes: u64) -> bool {
        self.inner.has_space(bytes)
    }

    fn describe(&self) -> String {
        format!("{} with modelled latency ({})", self.inner.describe(), self.model)
    }
}

/// A buffer aligned to the block size, for O_DIRECT.
pub struct AlignedBuffer {
    start: *mut u8,
    len: usize,
}

// SAFETY: it owns its memory.
unsafe impl Send for AlignedBuffer {}

impl AlignedBuffer {
    /// Allocates `blocks` blocks (at least 1), zeroed.
    pub fn new(blocks: usize) -> Self {
        let len = blocks.max(1) * BLOCK;
        let layout = Self::layout(len);
        // SAFETY: the layout has a size.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        if start.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        Self { start, len }
    }

    fn layout(len: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(len, BLOCK).expect("a multiple of the block size")
    }
}

impl std::ops::Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: its own memory.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl std::ops::DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: its own memory.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.start, Self::layout(self.len)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_read_and_printed() {
        assert_eq!(Latency::parse("ssd").unwrap(), Latency::SSD);
        assert_eq!(Latency::parse("250").unwrap(), Latency::fixed(Duration::from_micros(250)));
        assert!(Latency::parse("tape").is_err());
        assert_eq!(Latency::SSD.to_string(), "read 90 us, write 30 us, flush 500 us, 500 MB/s");
    }

    #[test]
    fn a_file_keeps_slots() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(40 * BLOCK as u64).unwrap();
        let store = FileCold::open(file.path()).unwrap();
        let mut buffer = AlignedBuffer::new(2);
        buffer.fill(7);
        store.write(3, &buffer).unwrap();
        store.sync().unwrap();
        let mut back = AlignedBuffer::new(1);
        store.read(4, &mut back).unwrap();
        assert!(back.iter().all(|byte| *byte == 7));
        assert!(store.read(40, &mut back).is_err(), "past the end");
    }
}
