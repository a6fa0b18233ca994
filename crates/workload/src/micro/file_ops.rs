//! The file-operation microbenchmark: prepares untimed, times only the operation, measures and subtracts overhead.

use super::macros;
use super::operations::{self, BatchDirectory, OPERATIONS, Operation};
use crate::engine::clock::Clock;
use crate::engine::memory::filled;
use crate::error::WorkloadError;
use senesce_core::heartbeat::{LostTime, watched};
use senesce_core::interrupt::Interrupt;
use senesce_core::parameter::suggest;
use senesce_core::progress::Progress;
use senesce_volume::ClaimedDirectory;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub struct FileOpsOptions {
    /// Empty: all of the published table.
    pub operations: Vec<String>,
    /// Whether to fsync after each operation; several values are measured separately.
    pub sync: Vec<bool>,
    pub time: Duration,
    pub instances: u64,
    /// Also measure the macro loads: mail, unpacking and removing a source tree.
    pub macros: bool,
    pub seed: senesce_core::Seed,
}

impl Default for FileOpsOptions {
    fn default() -> Self {
        Self {
            operations: Vec::new(),
            sync: vec![false, true],
            time: Duration::from_millis(200),
            instances: MOST_INSTANCES,
            macros: false,
            seed: senesce_core::seed::DEFAULT_SEED,
        }
    }
}

/// The result of the microbenchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileOpsResult {
    /// Time of a loop iteration without an operation, in ns; subtracted from every result.
    pub loop_overhead_ns: f64,
    /// Time of reading the clock twice, in ns; subtracted once per batch.
    pub clock_overhead_ns: f64,
    /// Results in the order of the table.
    pub operations: Vec<OperationResult>,
    /// Time lost during the measurement, if that is too much: the result is invalid then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostTime>,
}

impl FileOpsResult {
    pub fn valid(self) -> Result<Self, LostTime> {
        self.lost.map_or(Ok(self), Err)
    }
}

/// The result of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationResult {
    /// Name, as in the table of operations.
    pub name: String,
    /// Whether every operation was followed by fsync.
    pub fsync: bool,
    /// Timed operations.
    pub iterations: u64,
    /// Number of timed batches.
    pub batches: u64,
    /// Median over the batches of the mean time of an operation without overhead, in microseconds.
    pub mean_us: f64,
    /// Fastest batch.
    pub min_us: f64,
    /// Slowest batch.
    pub max_us: f64,
    /// Share of overhead in the timed time, in percent.
    pub overhead_percent: f64,
}

const FOLDER: &str = "senesce-file-ops";
/// Maximum instances of a batch; all are in one directory.
const MOST_INSTANCES: u64 = 256;
/// Maximum bytes that a batch prepares.
const MOST_PREPARED: u64 = 32 << 20;
const LEAST_BATCHES: usize = 3;
const MOST_BATCHES: usize = 2000;

/// Runs the microbenchmark below `directory`.
pub fn file_ops(
    directory: &ClaimedDirectory,
    options: &FileOpsOptions,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<FileOpsResult, WorkloadError> {
    let chosen = choose(&options.operations)?;
    let folder = directory.path().join(FOLDER);
    remove(&folder)?;
    let content = filled(128 << 10, 1).map_err(WorkloadError::io("allocate content for", &folder))?;
    let mut bench = FileOps { folder: &folder, content: &content, clock: Clock::new(), overhead: Overhead::default() };
    bench.overhead = bench.measure_overhead()?;
    let (mut results, mut lost) = (Vec::new(), None);
    progress.phase("file operations", (chosen.len() * options.sync.len()) as u64, "operations");
    for sync in &options.sync {
        for operation in chosen.iter().filter(|operation| !sync || operation.changes()) {
            if interrupt.requested() {
                remove(&folder)?;
                return Err(WorkloadError::Interrupted("measuring file operations".into()));
            }
            let (result, lost_here) = measured_again(|| bench.operation(operation, *sync, options))?;
            results.push(result);
            lost = lost.or(lost_here);
            progress.position(results.len() as u64, operation.name);
        }
    }
    if options.macros {
        let (loads, lost_here) = watched(|| macros::all(&folder, &content, options.seed, progress));
        results.extend(loads?);
        lost = lost.or(lost_here);
    }
    remove(&folder)?;
    Ok(FileOpsResult {
        loop_overhead_ns: bench.overhead.pass_ns,
        clock_overhead_ns: bench.overhead.clock_ns,
        operations: results,
        lost,
    })
}

/// Maximum attempts until a measurement is valid: it takes a fraction of a second, so a delay of a few milliseconds invalidates
/// it.
const TRIES: u32 = 3;

/// Measures until a measurement is valid, at most [`TRIES`] times; returns the time lost by the last one.
fn measured_again<T>(measure: impl Fn() -> Result<T, WorkloadError>) -> Result<(T, Option<LostTime>), WorkloadError> {
    for _ in 1..TRIES {
        if let (done, None) = watched(&measure) {
            return Ok((done?, None));
        }
    }
    let (done, lost) = watched(&measure);
    Ok((done?, lost))
}

fn choose(names: &[String]) -> Result<Vec<&'static Operation>, WorkloadError> {
    if names.is_empty() {
        return Ok(OPERATIONS.iter().collect());
    }
    let find = |name: &String| {
        operations::all().find(|operation| operation.name == name).ok_or_else(|| {
            let known = operations::all().map(|operation| operation.name);
            WorkloadError::Usage(format!("unknown file operation '{name}'{}", suggest(name, known)))
        })
    };
    names.iter().map(find).collect()
}

fn remove(folder: &Path) -> Result<(), WorkloadError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(WorkloadError::io("remove", folder)),
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Overhead {
    pass_ns: f64,
    clock_ns: f64,
}

struct FileOps<'a> {
    folder: &'a Path,
    content: &'a [u8],
    clock: Clock,
    overhead: Overhead,
}

impl FileOps<'_> {
    /// Measures the loop with an empty operation, and the clock by itself: the fastest of many.
    fn measure_overhead(&self) -> Result<Overhead, WorkloadError> {
        let empty = &OPERATIONS[0];
        let passes = 5000;
        let mut overhead = Overhead { pass_ns: f64::MAX, clock_ns: f64::MAX };
        for _ in 0..10 {
            let start = self.clock.now();
            let end = std::hint::black_box(self.clock.now());
            overhead.clock_ns = overhead.clock_ns.min(self.clock.nanoseconds(end - start) as f64);
            let batch = self.batch(empty, false, passes)?;
            overhead.pass_ns = overhead.pass_ns.min((batch - overhead.clock_ns).max(0.0) / passes as f64);
        }
        Ok(overhead)
    }

    fn operation(
        &self,
        operation: &Operation,
        sync: bool,
        options: &FileOpsOptions,
    ) -> Result<OperationResult, WorkloadError> {
        let (time, most) = (options.time, options.instances.clamp(2, MOST_INSTANCES));
        let instances = (MOST_PREPARED / operation.prepared_bytes().max(1)).clamp(2, most) as usize;
        let mut batches: Vec<f64> = Vec::new();
        let mut timed = 0.0;
        while batches.len() < LEAST_BATCHES || timed < time.as_nanos() as f64 && batches.len() < MOST_BATCHES {
            let nanoseconds = self.batch(operation, sync, instances)?;
            timed += nanoseconds;
            batches.push(nanoseconds);
        }
        let overhead = self.overhead.clock_ns + self.overhead.pass_ns * instances as f64;
        let mut each: Vec<f64> =
            batches.iter().map(|batch| (batch - overhead).max(0.0) / instances as f64 / 1000.0).collect();
        each.sort_by(f64::total_cmp);
        Ok(OperationResult {
            name: operation.name.into(),
            fsync: sync,
            iterations: (batches.len() * instances) as u64,
            batches: batches.len() as u64,
            mean_us: median(&each),
            min_us: each[0],
            max_us: each[each.len() - 1],
            overhead_percent: 100.0 * overhead * batches.len() as f64 / timed.max(1.0),
        })
    }

    /// Prepares a batch in a new directory, times it as a whole, removes it. Nanoseconds.
    fn batch(&self, operation: &Operation, sync: bool, instances: usize) -> Result<f64, WorkloadError> {
        fs::create_dir_all(self.folder).map_err(WorkloadError::io("make directory", self.folder))?;
        let handle = File::open(self.folder).map_err(WorkloadError::io("open directory", self.folder))?;
        let place = BatchDirectory::new(handle.as_fd(), instances, self.content);
        let failed = |what: &str, index: usize, errno: rustix::io::Errno| {
            let path: PathBuf = self.folder.join(format!("a{index}"));
            WorkloadError::io(format!("{what} {} of", operation.name), path)(errno)
        };
        for index in 0..instances {
            operation.prepare(&place, index).map_err(|errno| failed("prepare", index, errno))?;
        }
        if sync && operation.prepared_bytes() > 0 {
            // Otherwise the timed fsync would write data of the preparation.
            rustix::fs::syncfs(&handle).map_err(WorkloadError::io("sync", self.folder))?;
        }
        let start = self.clock.now();
        for index in 0..instances {
            let done = std::hint::black_box(operation).run(&place, index, sync);
            done.map_err(|errno| failed("do", index, errno))?;
        }
        let nanoseconds = self.clock.nanoseconds(self.clock.now() - start) as f64;
        remove(self.folder)?;
        Ok(nanoseconds)
    }
}

/// Returns the median of sorted values; the mean of the middle two if their number is even.
fn median(sorted: &[f64]) -> f64 {
    let (low, high) = (sorted.len().saturating_sub(1) / 2, sorted.len() / 2);
    (sorted[low] + sorted[high]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::progress::Silent;
    use std::collections::BTreeSet;

    #[test]
    fn median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!([median(&[1.0, 2.0, 9.0]), median(&[1.0, 2.0, 4.0, 9.0]), median(&[5.0])], [2.0, 3.0, 5.0]);
    }

    #[test]
    fn operations_equal_the_published_table() {
        let table = include_str!("../../data/bpfs/microbench.csv");
        let published: BTreeSet<&str> = table.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
        let ours: BTreeSet<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
        assert_eq!(ours, published);
    }

    #[test]
    fn all_operations_run_and_clean_up() {
        let temporary = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let claimed = ClaimedDirectory::claim(temporary.path(), None).unwrap();
        let options =
            FileOpsOptions { time: Duration::ZERO, sync: vec![false], macros: true, ..FileOpsOptions::default() };
        let result = file_ops(&claimed, &options, &Silent, &Interrupt::new()).unwrap();
        assert_eq!(result.operations.iter().filter(|operation| !operation.fsync && operation.batches > 1).count(), 36);
        for operation in result.operations.iter().filter(|operation| operation.name != "empty") {
            assert!(operation.mean_us > 0.0, "{operation:?}");
        }
        let create = result.operations.iter().find(|operation| operation.name == "create").unwrap();
        assert!(create.overhead_percent < 1.0, "{create:?}");
        let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, [".senesce"]);
    }

    #[test]
    fn operations_have_their_effects() {
        let temporary = tempfile::tempdir().unwrap();
        let content = filled(128 << 10, 1).unwrap();
        // Some file systems used for tests do not support hole punching and attributes: /dev/shm and ext4 do.
        for operation in operations::all() {
            let folder = temporary.path().join(operation.name);
            fs::create_dir(&folder).unwrap();
            let handle = File::open(&folder).unwrap();
            let place = BatchDirectory::new(handle.as_fd(), 1, &content);
            operation.prepare(&place, 0).unwrap();
            let before = snapshot(&folder);
            operation.run(&place, 0, true).unwrap();
            let after = snapshot(&folder);
            let unchanged = matches!(operation.name, "empty" | "read" | "readdir" | "chown" | "fiemap_1M" | "getxattr");
            assert_eq!(before == after, unchanged, "{}: {before:?} {after:?}", operation.name);
        }
    }

    /// Lists names with length, mode, link count and checksum, recursively.
    fn snapshot(folder: &Path) -> Vec<String> {
        use std::os::unix::fs::MetadataExt;
        let mut lines = Vec::new();
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let found = entry.path().symlink_metadata().unwrap();
            let sum: u64 = match found.is_file() {
                true => {
                    let bytes = fs::read(entry.path()).unwrap();
                    bytes.iter().enumerate().map(|(index, byte)| (index as u64 + 1) * u64::from(*byte)).sum()
                }
                false => 0,
            };
            let attributes = rustix::fs::listxattr(entry.path(), &mut [0u8; 256][..]).unwrap_or(0);
            let (blocks, mode) = (found.blocks(), found.mode());
            lines.push(format!(
                "{:?} {} {blocks} {mode:o} {} {sum} {attributes}",
                entry.path(),
                found.len(),
                found.ino()
            ));
            if found.is_dir() {
                lines.extend(snapshot(&entry.path()));
            }
        }
        lines.sort();
        lines
    }
}
