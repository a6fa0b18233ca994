//! Ages one image in memory, and measures the result.

use crate::spec::AgingSpec;
use senesce_aging::execute::CommitWitness;
use senesce_aging::{
    AgingPlan, Clock, CommitShare, Data, DirectoryTarget, ExecuteOptions, Limit, PlanSpec, Profile, Stop, Truncate,
    WorkUnit, execute,
};
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, ExitCode, Failure, Progress, Seed};
use senesce_devmodel::DeviceModel;
use senesce_diagnose::reading::{Order, ReadTimes};
use senesce_layout::{FileRuns, Layout, Options};
use senesce_runner::interrupted;
use senesce_runs::kernel_log::fail_on;
use senesce_study::slow_append;
use senesce_study::spec::FileSystemSpec;
use senesce_volume::{BlockDevice, DeviceStat, MountedTarget, TargetSpec, open};
use serde::{Deserialize, Serialize};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

pub const DISK: &str = "st500dm002";
pub const SSD: &str = "850-evo";

/// An aged image, and how it got there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Aged {
    pub files: u64,
    pub extents: u64,
    /// Gaps between consecutive blocks of all files in tree order.
    pub discontinuities: u64,
    pub free_extents: Option<u64>,
    pub mean_free_bytes: Option<f64>,
    /// Free extents in buckets: smallest size in bytes, and number.
    pub free_histogram: Vec<(u64, u64)>,
    /// Modelled seconds of reading every file once in path order.
    pub disk_seconds: f64,
    pub ssd_seconds: f64,
    /// Extents per file of slowly appended files.
    pub append_extents: f64,
    /// Allocated blocks of the file system that hold no file, in bytes.
    pub metadata_bytes: u64,
    /// Creates and deletes of the aging; none: a command aged it.
    pub operations: Option<u64>,
    /// Requests that the aging sent to its device.
    pub requests: u64,
    pub written_bytes: u64,
    pub flushes: u64,
    /// Commits, if the file system counts them.
    pub commits: Option<u64>,
    /// Digest of the layout.
    pub digest: Option<String>,
    /// Mount options with the defaults of the kernel, as in /proc/self/mountinfo.
    pub mount_options: String,
    /// Version of mkfs; none in older records or with another program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mkfs_version: Option<String>,
}

impl Aged {
    /// Returns a text that is the same for the same layout, also of the slow append; `None` without a digest.
    pub fn layout(&self) -> Option<String> {
        Some(format!("{}-{:016x}", self.digest.as_ref()?, self.append_extents.to_bits()))
    }
}

/// How an image is aged.
#[derive(Debug, Clone, Copy)]
pub struct ImageAging<'a> {
    pub size: Bytes,
    pub aging: &'a AgingSpec,
    /// Seed of its plan.
    pub seed: Seed,
    /// `$SEED` of a command that ages.
    pub number: u32,
}

impl ImageAging<'_> {
    /// Returns the specification of the aging plan.
    ///
    /// # Errors
    /// An unknown profile.
    pub fn plan_spec(&self) -> Result<PlanSpec, Failure> {
        let clock = match self.aging.operations_per_second {
            Some(_) => Clock::NONE,
            None => Clock { commit_share: CommitShare::DEFAULT, sync_every: 0 },
        };
        Ok(PlanSpec {
            fullness: Some(self.aging.fullness),
            truncate: Truncate::Drop,
            limit: Limit::Overwrites(self.aging.overwrites),
            clock,
            ..PlanSpec::new(Profile::load(&self.aging.profile)?, self.size, self.seed)
        })
    }
}

/// Estimates the seconds that each of `agings` adds to a run, of which `at_a_time` run in guests at the same time.
pub fn estimated_seconds(size: Bytes, overwrites: f64, agings: usize, at_a_time: usize) -> f64 {
    // Measured with ext4, XFS and btrfs on two processors (benches/results/gate.md): a start, and created bytes per second.
    let one = 2.0 + size.0 as f64 * overwrites / 80e6;
    one / at_a_time.min(agings).max(1) as f64
}

/// Makes, ages and measures an image in memory. With `sham`, a file is created and deleted before.
///
/// # Errors
/// Any failure of mkfs, mount, a hook, or the aging; a full volume; a warning of the kernel; an interrupt.
pub fn age(
    spec: &ImageAging<'_>,
    fs: &FileSystemSpec,
    sham: bool,
    (progress, interrupt): (&dyn Progress, &Interrupt),
) -> Result<Aged, Failure> {
    let options = fs.open_options("").map_err(Failure::usage)?;
    let mut target = open(&TargetSpec::Memory { size: spec.size }, &options)?;
    fs.run_hook(&target)?;
    if sham {
        create_and_delete(&target)?;
    }
    let device = target.block_device_info().ok_or_else(|| broken("the image has no block device"))?;
    let before = Counters::of(&device, &target)?;
    let operations = match spec.aging.command.as_slice() {
        [] => Some(by_plan(spec, &target, (progress, interrupt))?),
        [program, ..] => {
            by_command(program, &spec.aging.command, spec.number, &target)?;
            None
        }
    };
    target.sync()?;
    let used = Counters::of(&device, &target)?.since(before);
    // The layout that later mounts show: preallocated blocks are free.
    target.settle()?;
    let layout = Layout::examine(target.mount_point(), &Options { runs: true, extents: true, ..Options::default() })?;
    let metadata_bytes = metadata(&target)?;
    let digest = layout.digest();
    let runs = layout.runs.unwrap_or_default();
    let (disk_seconds, ssd_seconds) = (read_seconds(DISK, &runs)?, read_seconds(SSD, &runs)?);
    fs.run_hook(&target)?;
    let append_extents = append(&target, spec)?;
    let mount_options = mount_options(target.mount_point())?;
    fail_on(target.kernel_warnings())?;
    fail_on(senesce_volume::guest::kernel_faults())?;
    target.close()?;
    let (summary, free_space) = (&layout.summary, layout.summary.free_space.as_ref());
    Ok(Aged {
        files: summary.files,
        extents: summary.extents,
        discontinuities: summary.discontinuities.count,
        free_extents: free_space.map(|free| free.extents),
        mean_free_bytes: free_space.map(|free| free.avg_bytes),
        free_histogram: free_space
            .map(|free| free.buckets.iter().map(|bucket| (bucket.from_bytes, bucket.extents)).collect())
            .unwrap_or_default(),
        disk_seconds,
        ssd_seconds,
        append_extents,
        metadata_bytes,
        operations,
        requests: used.stat.reads + used.stat.writes + used.stat.discards,
        written_bytes: used.stat.write_bytes,
        flushes: used.stat.flushes,
        commits: used.commits,
        digest,
        mount_options,
        mkfs_version: fs.kind().ok().and_then(|kind| kind.mkfs_version().ok()),
    })
}

fn broken(words: &str) -> Failure {
    Failure::new(ExitCode::RunFailed, words)
}

fn mount_options(point: &Path) -> Result<String, Failure> {
    let lines = senesce_volume::guard::mounts()?;
    Ok(lines.into_iter().rfind(|line| line.mount_point == point).map(|line| line.options).unwrap_or_default())
}

fn create_and_delete(target: &MountedTarget) -> Result<(), Failure> {
    const SHAM: [u8; 4096] = [1; 4096];
    let path = target.mount_point().join("sham");
    fs::write(&path, SHAM).map_err(failed("write", &path))?;
    target.sync()?;
    fs::remove_file(&path).map_err(failed("delete", &path))?;
    Ok(target.sync()?)
}

fn by_plan(
    spec: &ImageAging<'_>,
    target: &MountedTarget,
    (progress, interrupt): (&dyn Progress, &Interrupt),
) -> Result<u64, Failure> {
    let plan = Arc::new(AgingPlan::new(&spec.plan_spec()?)?);
    let back_end = DirectoryTarget::new(plan.clone(), target.directory(), Data::Write);
    let pace = spec.aging.operations_per_second;
    let unit = WorkUnit::of(Data::Write, plan.summary(), plan.len());
    let (total, name) = unit.total();
    progress.phase("aging", total, name);
    let mut planner = plan.operations();
    let options = ExecuteOptions { pace, ..ExecuteOptions::default() };
    let outcome = execute(&mut planner, &back_end, &options, interrupt, &mut |planner, done| {
        let overwrites = planner.overwrites();
        progress.position(unit.done(done, overwrites), &format!("{overwrites:.1} overwrites"));
        ControlFlow::Continue(())
    });
    match outcome.result? {
        Stop::Finished => Ok(outcome.completed),
        _ => Err(interrupted()),
    }
}

/// Ages the target by a command. `$SEED` differs between pairs and is the same for both file systems.
fn by_command(program: &str, words: &[String], seed: u32, target: &MountedTarget) -> Result<(), Failure> {
    let written = senesce_study::with_built_in_jobs(words)?;
    let mut command = Command::new(program);
    command.args(&written.words[1..]).current_dir(target.mount_point());
    command.env("MNT", target.mount_point()).env("SEED", seed.to_string());
    let ended = command.output().map_err(|error| broken(&format!("cannot start {program}: {error}")))?;
    if ended.status.success() {
        return Ok(());
    }
    let last = String::from_utf8_lossy(&ended.stderr).lines().last().unwrap_or_default().to_string();
    Err(broken(&format!("the aging command {program} failed ({}): {last}", ended.status)))
}

/// Measures the extents per file of files that grow slowly, to a quarter of the free space, or 16 MiB.
fn append(target: &MountedTarget, spec: &ImageAging<'_>) -> Result<f64, Failure> {
    let free = (spec.size.0 as f64 * (1.0 - spec.aging.fullness)) as u64;
    let folder = target.mount_point().join("senesce-append");
    let hinted = |failure: Failure| {
        let problem = failure.to_string();
        // The mount point is random, and reasons are counted.
        let point = format!("{}/", target.mount_point().display());
        let problem = problem.lines().next().unwrap_or_default().replace(&point, "");
        let words = format!("{problem}\nhint: the slow append needs space: choose a larger size or a lower fullness");
        Failure::new(failure.exit_code(), words)
    };
    slow_append(&folder, Bytes(free / 4)).map_err(hinted)?;
    target.sync()?;
    let summary = Layout::examine(&folder, &Options::default())?.summary;
    Ok(summary.extents as f64 / summary.files.max(1) as f64)
}

/// Returns the used bytes of the file system that are not allocated to regular files.
fn metadata(target: &MountedTarget) -> Result<u64, Failure> {
    let point = target.mount_point();
    let found = rustix::fs::statvfs(point).map_err(|errno| failed("check the space of", point)(errno.into()))?;
    let used = found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize);
    Ok(used.saturating_sub(allocated(point)?))
}

fn allocated(folder: &Path) -> Result<u64, Failure> {
    const UNIT: u64 = 512;
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(failed("list", folder))? {
        let path = entry.map_err(failed("list", folder))?.path();
        let found = path.symlink_metadata().map_err(failed("check", &path))?;
        bytes += match found.is_dir() {
            true => allocated(&path)?,
            false => found.blocks() * UNIT,
        };
    }
    Ok(bytes)
}

pub fn read_seconds(drive: &str, files: &FileRuns) -> Result<f64, Failure> {
    let order = Order::Path.of(files);
    Ok(ReadTimes::of(&DeviceModel::builtin(drive)?, files, &order, &order).aged)
}

/// What the kernel counted until a moment.
struct Counters {
    stat: DeviceStat,
    commits: Option<u64>,
}

impl Counters {
    fn of(device: &BlockDevice, target: &MountedTarget) -> Result<Self, Failure> {
        let witness = CommitWitness::of(target.directory().as_fd());
        let commits = witness.as_ref().and_then(CommitWitness::count);
        Ok(Self { stat: DeviceStat::of(device)?, commits })
    }

    fn since(self, earlier: Self) -> Self {
        let commits = self.commits.zip(earlier.commits).map(|(now, before)| now.saturating_sub(before));
        Self { stat: self.stat.since(&earlier.stat), commits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agings_at_the_same_time_share_the_estimate() {
        let seconds = |at_a_time| 24.0 * estimated_seconds(Bytes::mib(256), 2.0, 24, at_a_time);
        assert!((60.0..120.0).contains(&seconds(2)), "one to two minutes on two processors: {}", seconds(2));
        assert_eq!((seconds(1), seconds(0)), (2.0 * seconds(2), seconds(1)));
        assert_eq!(seconds(100), seconds(24), "no more guests than agings");
    }
}
