//! Latency of appends and random writes by size, with a selectable sync method.

use crate::engine::clock::Clock;
use crate::engine::latency::Latencies;
use crate::engine::memory::filled;
use crate::error::WorkloadError;
use rand_pcg::rand_core::Rng;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use senesce_core::heartbeat::{Heartbeat, LostTime};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Progress;
use senesce_core::{Bytes, Seed};
use senesce_volume::ClaimedDirectory;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::str::FromStr;

/// Position of the writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMode {
    /// At the end of a file.
    Append,
    /// At random multiples of the size in an existing file.
    RandomWrite,
}

/// Sync method of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncMode {
    /// By fsync.
    Fsync,
    /// By fdatasync.
    Fdatasync,
    /// By opening with `O_DSYNC`.
    Dsync,
    /// No sync.
    None,
}

impl FromStr for SyncMode {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        match text {
            "fsync" => Ok(Self::Fsync),
            "fdatasync" => Ok(Self::Fdatasync),
            "dsync" => Ok(Self::Dsync),
            "none" => Ok(Self::None),
            _ => Err(WorkloadError::Usage(format!("'{text}': expected fsync, fdatasync, dsync or none"))),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct CallOptions {
    pub mode: WriteMode,
    pub sizes: Vec<Bytes>,
    pub sync: SyncMode,
    pub calls: u64,
    /// Maximum bytes written with one size, but at least eight calls.
    pub bytes: Bytes,
    /// Size of the file for random writes, at least eight times the call's size.
    pub file_size: Bytes,
    pub seed: Seed,
}

impl CallOptions {
    /// Creates a measurement of 1 byte to 16 MiB in steps of four, each followed by fsync.
    pub fn new(mode: WriteMode) -> Self {
        Self {
            mode,
            sizes: (0..=12).map(|step| Bytes(1 << (2 * step))).collect(),
            sync: SyncMode::Fsync,
            calls: 1000,
            bytes: Bytes::mib(256),
            file_size: Bytes::mib(64),
            seed: senesce_core::seed::DEFAULT_SEED,
        }
    }

    /// Returns the number of calls of `size` bytes, at least 1.
    fn calls_of(&self, size: u64) -> u64 {
        (self.bytes.0 / size).clamp(LEAST_CALLS, self.calls.max(LEAST_CALLS))
    }

    /// Returns the total bytes written by all sizes, including the files for random writes.
    pub fn bytes_to_write(&self) -> Bytes {
        let prepared = |size| if self.mode == WriteMode::RandomWrite { file_size(self, size) } else { 0 };
        let sizes = self.sizes.iter().map(|size| size.0).filter(|size| *size > 0);
        Bytes(sizes.map(|size| size.saturating_mul(self.calls_of(size)).saturating_add(prepared(size))).sum())
    }
}

/// Latencies of all sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// Append or random write.
    pub mode: WriteMode,
    /// How calls were made durable.
    pub sync: SyncMode,
    /// One per size.
    pub sizes: Vec<SizeResult>,
    /// Time lost during the measurement, if that is too much: the result is invalid then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostTime>,
}

impl CallResult {
    pub fn valid(self) -> Result<Self, LostTime> {
        self.lost.map_or(Ok(self), Err)
    }
}

/// Latencies of one size: the call including its sync.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeResult {
    /// Bytes per call.
    pub bytes: u64,
    /// Calls.
    pub calls: u64,
    /// MiB per second.
    pub mb_per_second: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 90 % lie below.
    pub p90_us: f64,
    /// 99 % lie below.
    pub p99_us: f64,
    /// 99.9 % lie below.
    pub p999_us: f64,
    /// 99.99 % lie below.
    pub p9999_us: f64,
    /// Maximum.
    pub max_us: f64,
}

pub trait Watch {
    fn prepared(&mut self, _file: &Path) {}
    /// Reports that a call including its sync took this number of nanoseconds.
    fn called(&mut self, _nanoseconds: u64) {}
}

impl Watch for () {}

const FOLDER: &str = "senesce-calls";
const LEAST_CALLS: u64 = 8;

/// Measures below `directory`; every size has its own file, created in advance.
pub fn measure_calls(
    directory: &ClaimedDirectory,
    options: &CallOptions,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<CallResult, WorkloadError> {
    measure_calls_watched(directory, options, progress, interrupt, &mut ())
}

pub fn measure_calls_watched(
    directory: &ClaimedDirectory,
    options: &CallOptions,
    progress: &dyn Progress,
    interrupt: &Interrupt,
    watch: &mut dyn Watch,
) -> Result<CallResult, WorkloadError> {
    let folder = directory.path().join(FOLDER);
    let most = options.sizes.iter().map(|size| size.0).max().unwrap_or(0);
    if options.sizes.iter().any(|size| size.0 == 0 || size.0 > 1 << 30) {
        return Err(WorkloadError::Usage("sizes are 1 byte to 1 GiB".into()));
    }
    let content = filled(most.max(1 << 20), 2).map_err(WorkloadError::io("allocate content for", &folder))?;
    fs::create_dir_all(&folder).map_err(WorkloadError::io("make directory", &folder))?;
    let removed = RemovedAtEnd(&folder);
    progress.phase("writing by size", options.sizes.len() as u64, "sizes");
    let (mut sizes, mut lost) = (Vec::new(), None);
    for (index, size) in options.sizes.iter().enumerate() {
        if interrupt.requested() {
            break;
        }
        let (measured, lost_here) = measure_size(&folder, &content, options, size.0, interrupt, watch)?;
        sizes.push(measured);
        lost = lost.or(lost_here);
        progress.position(index as u64 + 1, &size.to_string());
    }
    removed.now().map_err(WorkloadError::io("remove", &folder))?;
    if sizes.is_empty() {
        return Err(WorkloadError::Interrupted("measuring writes".into()));
    }
    Ok(CallResult { mode: options.mode, sync: options.sync, sizes, lost })
}

struct RemovedAtEnd<'a>(&'a Path);

impl RemovedAtEnd<'_> {
    fn now(self) -> io::Result<()> {
        fs::remove_dir_all(self.0)
    }
}

impl Drop for RemovedAtEnd<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0);
    }
}

fn measure_size(
    folder: &Path,
    content: &[u8],
    options: &CallOptions,
    size: u64,
    interrupt: &Interrupt,
    watch: &mut dyn Watch,
) -> Result<(SizeResult, Option<LostTime>), WorkloadError> {
    let path = folder.join(format!("file-{size}"));
    let calls = options.calls_of(size);
    let offsets = offsets(options, size, calls);
    let file = prepare(&path, content, options, size).map_err(WorkloadError::io("prepare", &path))?;
    let data = &content[..size as usize];
    watch.prepared(&path);
    let (clock, latencies) = (Clock::new(), Latencies::new(1));
    let (mut total, mut done) = (0u64, 0u64);
    let heartbeat = Heartbeat::begin();
    for offset in offsets {
        let start = clock.now();
        call(&file, data, offset, options.sync).map_err(WorkloadError::io("write", &path))?;
        let nanoseconds = clock.nanoseconds(clock.now() - start);
        latencies.record(0, nanoseconds);
        watch.called(nanoseconds);
        total += nanoseconds;
        done += 1;
        if interrupt.requested() {
            break;
        }
    }
    let lost = heartbeat.end().lost();
    drop(file);
    fs::remove_file(&path).map_err(WorkloadError::io("delete", &path))?;
    let quantiles = [0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];
    let snapshot = latencies.snapshot();
    let [p50_us, p90_us, p99_us, p999_us, p9999_us, max_us] = snapshot.flowop(0).quantiles_us(quantiles);
    let result = SizeResult {
        bytes: size,
        calls: done,
        mb_per_second: crate::Repetition::megabytes(done * size, total as f64 / 1e9),
        mean_us: total as f64 / done.max(1) as f64 / 1000.0,
        p50_us,
        p90_us,
        p99_us,
        p999_us,
        p9999_us,
        max_us,
    };
    Ok((result, lost))
}

/// Offsets of random writes, multiples of the size; appends need none.
fn offsets(options: &CallOptions, size: u64, calls: u64) -> Vec<Option<u64>> {
    let places = file_size(options, size) / size;
    let mut generator = options.seed.stream(&format!("workload/random-write/{size}"));
    let mut draw = || ((u128::from(generator.next_u64()) * u128::from(places)) >> 64) as u64 * size;
    (0..calls).map(|_| (options.mode == WriteMode::RandomWrite).then(&mut draw)).collect()
}

fn file_size(options: &CallOptions, size: u64) -> u64 {
    options.file_size.0.max(8 * size) / size * size
}

fn prepare(path: &Path, content: &[u8], options: &CallOptions, size: u64) -> Result<OwnedFd, Errno> {
    let mut flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    if options.mode == WriteMode::RandomWrite {
        let mut left = file_size(options, size);
        while left > 0 {
            left -= rustix::io::write(&file, &content[..left.min(1 << 20) as usize])? as u64;
        }
    }
    rustix::fs::fsync(&file)?;
    flags.remove(OFlags::TRUNC);
    flags.set(OFlags::DSYNC, options.sync == SyncMode::Dsync);
    flags.set(OFlags::APPEND, options.mode == WriteMode::Append);
    rustix::fs::open(path, flags, Mode::empty())
}

fn call(file: &OwnedFd, data: &[u8], offset: Option<u64>, sync: SyncMode) -> Result<(), Errno> {
    let written = match offset {
        Some(offset) => rustix::io::pwrite(file, data, offset)?,
        None => rustix::io::write(file, data)?,
    };
    if written < data.len() {
        return Err(Errno::NOSPC);
    }
    match sync {
        SyncMode::Fsync => rustix::fs::fsync(file),
        SyncMode::Fdatasync => rustix::fs::fdatasync(file),
        SyncMode::Dsync | SyncMode::None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::progress::Silent;

    #[test]
    fn both_modes_measure_every_size_and_clean_up() {
        let temporary = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let claimed = ClaimedDirectory::claim(temporary.path(), None).unwrap();
        for mode in [WriteMode::Append, WriteMode::RandomWrite] {
            for sync in [SyncMode::Fsync, SyncMode::Fdatasync, SyncMode::Dsync, SyncMode::None] {
                let sizes = vec![Bytes(1), Bytes(4096), Bytes::mib(1)];
                let (bytes, file_size) = (Bytes::mib(16), Bytes::mib(8));
                let options = CallOptions { sizes, sync, bytes, file_size, calls: 50, ..CallOptions::new(mode) };
                let result = measure_calls(&claimed, &options, &Silent, &Interrupt::new()).unwrap();
                let calls: Vec<u64> = result.sizes.iter().map(|size| size.calls).collect();
                assert_eq!(calls, [50, 50, 16]);
                assert!(result.sizes.iter().all(|size| size.p50_us > 0.0 && size.p50_us <= size.p9999_us));
            }
        }
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1);
    }

    #[test]
    fn files_are_removed_if_the_measurement_fails() {
        let temporary = tempfile::tempdir().unwrap();
        let claimed = ClaimedDirectory::claim(temporary.path(), None).unwrap();
        fs::create_dir_all(temporary.path().join(FOLDER).join("file-4096")).unwrap();
        let options = CallOptions { sizes: vec![Bytes(4096)], ..CallOptions::new(WriteMode::Append) };
        assert!(measure_calls(&claimed, &options, &Silent, &Interrupt::new()).is_err());
        assert!(!temporary.path().join(FOLDER).exists());
    }

    #[test]
    fn observer_sees_the_complete_file_and_every_call() {
        #[derive(Default)]
        struct RecordedCalls(Vec<u64>, u64);
        impl Watch for RecordedCalls {
            fn prepared(&mut self, file: &Path) {
                self.1 = file.metadata().unwrap().len();
            }
            fn called(&mut self, nanoseconds: u64) {
                self.0.push(nanoseconds);
            }
        }
        let temporary = tempfile::tempdir().unwrap();
        let claimed = ClaimedDirectory::claim(temporary.path(), None).unwrap();
        let (sizes, file_size) = (vec![Bytes(8)], Bytes(4096));
        let options = CallOptions { sizes, file_size, calls: 20, ..CallOptions::new(WriteMode::RandomWrite) };
        let mut seen = RecordedCalls::default();
        let found = measure_calls_watched(&claimed, &options, &Silent, &Interrupt::new(), &mut seen).unwrap();
        assert_eq!((seen.0.len(), seen.1), (20, 4096));
        let mean_us = seen.0.iter().sum::<u64>() as f64 / 20e3;
        assert!((found.sizes[0].mean_us - mean_us).abs() < 1e-6);
    }

    #[test]
    fn calls_write_at_their_offsets() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("file");
        let options = CallOptions { file_size: Bytes(64), ..CallOptions::new(WriteMode::RandomWrite) };
        let file = prepare(&path, &[1; 1 << 20], &options, 8).unwrap();
        call(&file, &[2; 8], Some(16), SyncMode::Fsync).unwrap();
        let expected: Vec<u8> = (0..64).map(|at| if (16..24).contains(&at) { 2 } else { 1 }).collect();
        assert_eq!(fs::read(&path).unwrap(), expected);
        let file = prepare(&path, &[1; 1 << 20], &CallOptions::new(WriteMode::Append), 8).unwrap();
        call(&file, &[3; 8], None, SyncMode::None).unwrap();
        call(&file, &[4; 8], None, SyncMode::None).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [[3u8; 8], [4u8; 8]].concat());
        let offsets = offsets(&options, 8, 1000);
        assert!(offsets.iter().all(|offset| offset.is_some_and(|offset| offset % 8 == 0 && offset < 64)));
    }
}
