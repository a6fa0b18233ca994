//! Cross-checks of a cold read: bytes delivered by the device against the extents of the files, and the time of the read against
//! the busy time of the device.

use crate::tree::Tree;
use rustix::io::Errno;
use senesce_core::failure::{Classify, errno_message};
use senesce_core::heartbeat::{LostTime, watched};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, ExitCode, Failure, Progress};
use senesce_layout::extent::SCORE_BLOCK;
use senesce_layout::{Extent, ExtentKind, Fiemap};
use senesce_volume::claim::TargetDirectory;
use senesce_volume::{BlockDevice, BlockTrace, BusyTime, DeviceStat, MARKER, MountedTarget, Operation, TargetSpec};
use senesce_workload::micro::{ColdRead, cold_read};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

/// If a device delivers less than this share of the extents, a cache served the rest.
const LEAST: f64 = 0.99;
/// The same if the file system reports only allocated blocks, which include holes and metadata.
const LEAST_OF_ALLOCATED: f64 = 0.5;
/// Allowance for metadata in the delivered bytes: superblock, bitmaps, journal, roots of trees ...
const METADATA: u64 = 1 << 20;
/// ... and per file and directory an inode and its entry, in blocks shared with neighbours. Measured: 0.2 to 6.6 KB on
/// ext4, xfs and btrfs, the maximum with only ten files.
const METADATA_OF_EACH: u64 = 4096;
/// The kernel counts busy time in ticks of at most 10 ms, one of them more than elapsed at either end.
const TICKS_MS: u64 = 20;
/// Maximum difference of two clocks.
const CLOCK_SHARE: f64 = 0.01;
/// Minimum share of content in the files that are read: holes need no device I/O.
const LEAST_CONTENT: f64 = 0.5;

/// Cross-check data of a cold read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdAccount {
    /// Bytes delivered by the device; for a directory that others use too, bytes that this process read from devices.
    /// None: no counter exists here.
    pub device_bytes: Option<u64>,
    /// Requests for them; none if only bytes are counted.
    pub device_requests: Option<u64>,
    /// Bytes that the device must deliver at least: the files' extents without holes, preallocated ranges and data in
    /// inodes; of compressed extents a block each. None: the file system does not report extents.
    pub extent_bytes: Option<u64>,
    /// Bytes of the files with content: written extents, compressed ones in full, data in inodes.
    pub content_bytes: Option<u64>,
    /// Whether the files are in memory, where no read is cold.
    pub in_memory: bool,
    /// Bytes of the image file in the page cache when the read began. None: not an image file, or the kernel does not
    /// report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_cached_bytes: Option<u64>,
    /// Milliseconds during which the device had requests in flight, by the kernel's tick. None: no counter, or a device that others
    /// use too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_busy_ms: Option<u64>,
    /// Milliseconds between the readings of that counter, by the monotonic clock. The read happens between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_ms: Option<u64>,
    /// Time that the read lost to a stop or to other guests of the host, if that is too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostTime>,
}

/// Why a read does not count as a cold read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCold {
    #[error("the files' extents hold {extents}, and the device delivered {delivered}: the rest came from a cache")]
    Cached { extents: Bytes, delivered: Bytes },
    #[error(
        "only {content} of the {read} that were read are on the device. The rest are holes or were never written, and \
         the file system reads them as zeros without the device. Age with --data write for cold reads"
    )]
    Nothing { read: Bytes, content: Bytes },
    #[error("the target has no file with data, so nothing was read: fill it first, for example with senesce age")]
    Empty,
    #[error("{0}")]
    Lost(#[from] LostTime),
    #[error(
        "{cached} of the image file are in the page cache, where another process maps, locks or reads it: end that \
         process"
    )]
    ImageCached { cached: Bytes },
    #[error(
        "the device was busy for {busy_ms} ms of the {counted_ms} ms that contain the read, which took {read_ms} ms: the clocks \
         disagree"
    )]
    Clocks { busy_ms: u64, counted_ms: u64, read_ms: u64 },
    #[error("the files are in memory: no read reaches a device")]
    InMemory,
    #[error("the block trace has {traced} of reads, but the device delivered {delivered}: the trace is incomplete")]
    ShortTrace { traced: Bytes, delivered: Bytes },
    #[error("{0}")]
    InvalidTrace(String),
}

impl Classify for NotCold {
    fn exit_code(&self) -> ExitCode {
        ExitCode::RunFailed
    }
}

impl ColdAccount {
    /// Checks that a read was cold. Returns a caveat if the check was weaker than usual.
    pub fn judge(&self, read: &ColdRead) -> Result<Option<&'static str>, NotCold> {
        if let Some(lost) = self.lost {
            return Err(lost.into());
        }
        if self.in_memory {
            return Err(NotCold::InMemory);
        }
        self.check_clocks(read)?;
        let cached = self.image_cached_bytes.unwrap_or(0);
        if cached as f64 > read.bytes_read as f64 * (1.0 - LEAST) {
            return Err(NotCold::ImageCached { cached: Bytes(cached) });
        }
        if read.bytes_read == 0 {
            return Err(NotCold::Empty);
        }
        let content = self.content_bytes.unwrap_or(read.bytes_read);
        if (content as f64) < read.bytes_read as f64 * LEAST_CONTENT {
            return Err(NotCold::Nothing { read: Bytes(read.bytes_read), content: Bytes(content) });
        }
        let (least, message) = match self.extent_bytes {
            Some(extents) => (extents as f64 * LEAST, None),
            None => (
                read.allocated_bytes.min(read.bytes_read) as f64 * LEAST_OF_ALLOCATED,
                Some(
                    "measured without the extents of the files: the check requires only half of the allocated bytes \
                     from the device",
                ),
            ),
        };
        let extents = Bytes(self.extent_bytes.unwrap_or(read.allocated_bytes.min(read.bytes_read)));
        match self.device_bytes {
            Some(delivered) if delivered == 0 || (delivered as f64) < least => {
                Err(NotCold::Cached { extents, delivered: Bytes(delivered) })
            }
            Some(_) if self.beyond_metadata(read).is_some_and(|beyond| beyond.0 > 0) => Ok(Some(
                "the device delivered more than the files' extents (a block for each compressed one) and their \
                 metadata (4 KiB for each file and directory, and 1 MiB): up to the excess in device_bytes, data from \
                 a cache would go unnoticed",
            )),
            Some(_) => Ok(message),
            None => Ok(Some(
                "measured without a cross-check: the device below the target is unknown, and so is whether the read \
                 was cold",
            )),
        }
    }

    /// Checks the clocks: the device cannot be busy for longer than the time that elapsed, and the read happens within
    /// that time.
    fn check_clocks(&self, read: &ColdRead) -> Result<(), NotCold> {
        let Some((busy_ms, counted_ms)) = self.device_busy_ms.zip(self.counted_ms) else { return Ok(()) };
        let read_ms = (read.seconds * 1000.0) as u64;
        let most = counted_ms + TICKS_MS + (counted_ms as f64 * CLOCK_SHARE) as u64;
        if busy_ms > most || read_ms > counted_ms {
            return Err(NotCold::Clocks { busy_ms, counted_ms, read_ms });
        }
        Ok(())
    }

    /// Returns the bytes delivered beyond extents and metadata: that amount could have come from a cache without being
    /// noticed. Returns `None` if the extents are unknown.
    pub(crate) fn beyond_metadata(&self, read: &ColdRead) -> Option<Bytes> {
        let metadata = METADATA + METADATA_OF_EACH * (read.files + read.directories);
        Some(Bytes(self.device_bytes?.saturating_sub(self.extent_bytes? + metadata)))
    }

    pub fn judge_trace(&self, trace: &BlockTrace) -> Result<(), NotCold> {
        trace.valid().map_err(|invalid| NotCold::InvalidTrace(invalid.to_string()))?;
        let reads = trace.iter().filter(|request| request.operation == Operation::Read);
        let traced = Bytes(reads.map(|request| request.bytes()).sum());
        let delivered = Bytes(self.device_bytes.unwrap_or(0));
        if traced < delivered { Err(NotCold::ShortTrace { traced, delivered }) } else { Ok(()) }
    }
}

/// Performs a cold read with its cross-check. The caller makes the target cold before. Fails if the device has no
/// counters.
pub fn read<D: TargetDirectory>(
    target: &MountedTarget<D>,
    root: &Path,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<(ColdRead, ColdAccount), Failure> {
    let device = target.block_device_info();
    let is_ours = !matches!(target.spec(), TargetSpec::Directory(_));
    // Without the counters of our own device no reading could be checked.
    if let Some(device) = device.as_ref().filter(|_| is_ours) {
        DeviceStat::of(device)?;
    }
    let image_cached_bytes = target.cached_of_image().map(|bytes| bytes.0);
    let begin = Instant::now();
    let before = Counts::now(device.as_ref());
    let (read, lost) = watched(|| cold_read(root, progress, interrupt));
    let read = read?;
    let after = Counts::now(device.as_ref());
    // Rounded up, as the counters are read in between.
    let counted_ms = begin.elapsed().as_millis() as u64 + 1;
    let content = content(root)?;
    let extent_bytes = content.map(|content| content.delivered);
    let content_bytes = content.map(|content| content.bytes);
    let by_device = after.device.zip(before.device).map(|(after, before)| after.since(&before));
    let by_process = after.process.zip(before.process).map(|(after, before)| after.saturating_sub(before));
    // Counters of a shared device include reads of others, and those of one of several devices miss the rest. Reads of
    // a server on our behalf are visible only at the device.
    let alone = is_ours && device.is_some_and(|device| !spans_more(root, &device));
    let (device_bytes, device_requests) = match (alone, extent_bytes, by_process) {
        (false, Some(_), Some(bytes)) => (Some(bytes), None),
        _ => (by_device.map(|stat| stat.read_bytes), by_device.map(|stat| stat.reads)),
    };
    let device_busy_ms = after.busy.zip(before.busy).filter(|_| alone).and_then(|(after, before)| after.since(&before));
    let account = ColdAccount {
        device_bytes,
        device_requests,
        extent_bytes,
        content_bytes,
        in_memory: is_in_memory(root),
        image_cached_bytes,
        device_busy_ms,
        counted_ms: device_busy_ms.map(|_| counted_ms),
        lost,
    };
    Ok((read, account))
}

struct Counts {
    device: Option<DeviceStat>,
    process: Option<u64>,
    busy: Option<BusyTime>,
}

impl Counts {
    fn now(device: Option<&BlockDevice>) -> Self {
        Self {
            device: device.and_then(|device| DeviceStat::of(device).ok()),
            process: bytes_from_devices(),
            busy: device.and_then(BusyTime::of),
        }
    }
}

/// Returns the bytes that this process read from block devices (proc(5), `read_bytes` of /proc/PID/io).
fn bytes_from_devices() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
}

/// Returns whether the file system has further devices, like btrfs, or F2FS on a zoned drive.
fn spans_more(root: &Path, device: &BlockDevice) -> bool {
    rustix::fs::statvfs(root).is_ok_and(|found| found.f_blocks.saturating_mul(found.f_frsize) > device.size().0)
}

fn is_in_memory(root: &Path) -> bool {
    rustix::fs::statfs(root)
        .is_ok_and(|found| [0x0102_1994, 0x8584_58f6].contains(&(found.f_type as u64 & 0xffff_ffff)))
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Content {
    bytes: u64,
    delivered: u64,
}

/// Sums up the content of all files below `root`. Returns `None` if the file system does not report extents.
fn content(root: &Path) -> Result<Option<Content>, Failure> {
    let (mut fiemap, mut extents, mut linked) = (Fiemap::default(), Vec::new(), HashSet::new());
    let mut sum = Content::default();
    for path in Tree::below(root)?.files.into_iter().filter(|path| path.file_name() != Some(MARKER.as_ref())) {
        let path = root.join(path);
        let failed = |error: std::io::Error| {
            Failure::new(
                ExitCode::RunFailed,
                format!("read the extents of {}: {}", path.display(), errno_message(&error)),
            )
        };
        let file = match File::open(&path) {
            // Another program has deleted the file since.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            other => other.map_err(failed)?,
        };
        let found = file.metadata().map_err(failed)?;
        // Further names of a file are read from the cache.
        if found.nlink() > 1 && !linked.insert((found.dev(), found.ino())) {
            continue;
        }
        extents.clear();
        match fiemap.read(&file, &mut extents) {
            Ok(()) => extents.iter().map(|extent| content_of(extent, found.len())).for_each(|one| {
                sum.bytes += one.bytes;
                sum.delivered += one.delivered;
            }),
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::OPNOTSUPP | Errno::NOTTY)) => {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(Some(sum))
}

fn content_of(extent: &Extent, file_bytes: u64) -> Content {
    let end = extent.logical.saturating_add(extent.length).min(file_bytes);
    let within = end.saturating_sub(extent.logical);
    match extent.kind {
        kind if kind.has(ExtentKind::UNWRITTEN) => Content::default(),
        // Its metadata was read for the directories, or has no block of its own.
        _ if !extent.on_device() => Content { bytes: within, delivered: 0 },
        kind if kind.has(ExtentKind::ENCODED) => Content { bytes: within, delivered: within.min(SCORE_BLOCK) },
        _ => Content { bytes: within, delivered: within },
    }
}

#[cfg(test)]
mod tests;
