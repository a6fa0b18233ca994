//! Measures a state: a cold read, then new files of each size, overwrites, and slow appends.

use super::state::{State, examine, free_bytes};
use super::tree::{ExtentStatistics, overwrite_file, write_file};
use super::{Event, FilesOrFreeSpace, Spec, Step};
use senesce_core::failure::failed;
use senesce_core::{Bytes, ExitCode, Failure, Size};
use senesce_devmodel::{DeviceModel, Request};
use senesce_gate::aged::{DISK, SSD, read_seconds};
use senesce_layout::{FileRuns, FreeSpace};
use senesce_runner::Context;
use senesce_runs::kernel_log::fail_on;
use senesce_study::slow_append;
use senesce_volume::{Operation, TraceSession};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// New files take this share of the free space; one file at most twice as much.
const SHARE: u64 = 4;
const MOST_FILES: u64 = 1000;
/// Open writes of a replay: the command queue of a SATA drive.
const QUEUE: u32 = 32;

/// A state and its measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeasuredState {
    pub step: Step,
    /// Digest of the layout that was aged and filled, the same in all four states.
    pub base: Option<String>,
    /// Free bytes of the empty file system.
    pub usable: u64,
    pub tree: ExtentStatistics,
    pub free: FreeSpaceSummary,
    pub cold_read: Seconds,
    pub new_files: Vec<NewFiles>,
    /// Every fourth file in path order.
    pub overwrite: Written,
    pub append: NewFiles,
}

/// The free space of a state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct FreeSpaceSummary {
    pub bytes: u64,
    pub extents: u64,
    /// Mean size of the free extent that holds a free byte; extents of a power of two count as their mean.
    pub mean_extent: f64,
    /// Wrapping sum of a hash of each free extent.
    pub places: u64,
}

impl FreeSpaceSummary {
    fn of(free: &FreeSpace) -> Self {
        let squares = free.buckets.iter().map(|bucket| (bucket.blocks as f64).powi(2) / bucket.extents as f64);
        let mean_extent = squares.sum::<f64>() / free.free_blocks.max(1) as f64 * free.block_size as f64;
        let bytes = free.free_blocks * free.block_size;
        Self { bytes, extents: free.extents, mean_extent, places: free.places }
    }
}

/// Modelled seconds by drive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seconds {
    pub disk: f64,
    pub ssd: f64,
}

impl Seconds {
    fn of_reading(files: &FileRuns) -> Result<Self, Failure> {
        Ok(Self { disk: read_seconds(DISK, files)?, ssd: read_seconds(SSD, files)? })
    }

    fn of_requests(requests: &[Request]) -> Result<Self, Failure> {
        let of = |drive| Ok::<_, Failure>(DeviceModel::builtin(drive)?.seconds(requests)?);
        Ok(Self { disk: of(DISK)?, ssd: of(SSD)? })
    }
}

/// The requests of a workload until everything is written back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Written {
    /// Write requests.
    pub requests: u64,
    pub bytes: u64,
    pub seconds: Seconds,
}

/// Files written to the free space of the state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct NewFiles {
    /// Of each file.
    pub size: Size,
    pub files: u64,
    pub extents: u64,
    pub written: Written,
    pub read_back: Seconds,
}

/// Makes a state and measures the workloads on it.
///
/// # Errors
/// The state cannot be made; a workload does not fit; a lost event of a trace; a warning of the kernel; an interrupt.
pub(super) fn measure(spec: &Spec, step: &Step, context: &mut Context<'_, FilesOrFreeSpace>) -> Result<Event, Failure> {
    let mut state = State::make(spec, step, context)?;
    let layout = examine(state.target.mount_point())?;
    let free = layout.summary.free_space.as_ref().map(FreeSpaceSummary::of);
    let free = free.ok_or_else(|| Failure::new(ExitCode::RunFailed, "the free space is unknown"))?;
    let runs = layout.runs.unwrap_or_default();
    let new_files = spec.file_sizes.iter().filter(|size| size.bytes() <= 2 * free.bytes / SHARE);
    let new_files = new_files.map(|size| write_new(&mut state, *size)).collect::<Result<_, _>>()?;
    let measured = MeasuredState {
        step: step.clone(),
        base: state.base.clone(),
        usable: state.usable,
        tree: ExtentStatistics::of(&runs),
        free,
        cold_read: Seconds::of_reading(&runs)?,
        new_files,
        append: append(&mut state)?,
        overwrite: overwrite(&mut state)?,
    };
    fail_on(state.target.kernel_warnings())?;
    fail_on(senesce_volume::guest::kernel_faults())?;
    state.target.close()?;
    Ok(Event::Measured(Box::new(measured)))
}

fn write_new(state: &mut State, size: Size) -> Result<NewFiles, Failure> {
    let count = (free_bytes(state.target.mount_point())? / SHARE / size.bytes()).clamp(1, MOST_FILES);
    in_folder(state, size, &|folder| {
        fs::create_dir(folder).map_err(failed("create directory", folder))?;
        (0..count).try_for_each(|number| write_file(&folder.join(format!("{number:04}")), size.bytes()))
    })
}

fn append(state: &mut State) -> Result<NewFiles, Failure> {
    let most = Bytes(free_bytes(state.target.mount_point())? / SHARE);
    in_folder(state, Size(Bytes(0)), &|folder| slow_append(folder, most).map(|_| ()))
}

/// Measures new files in a folder, and deletes them.
fn in_folder(state: &mut State, size: Size, work: &dyn Fn(&Path) -> Result<(), Failure>) -> Result<NewFiles, Failure> {
    let folder = state.target.mount_point().join("senesce-new");
    let written = traced(state, || work(&folder))?;
    state.settle()?;
    let runs = examine(&folder)?.runs.unwrap_or_default();
    let ExtentStatistics { files, extents, .. } = ExtentStatistics::of(&runs);
    let read_back = Seconds::of_reading(&runs)?;
    fs::remove_dir_all(&folder).map_err(failed("delete", &folder))?;
    state.settle()?;
    Ok(NewFiles { size, files, extents, written, read_back })
}

fn overwrite(state: &mut State) -> Result<Written, Failure> {
    let point = state.target.mount_point().to_path_buf();
    let chosen = || state.tree.files().step_by(4);
    let written = traced(state, || chosen().try_for_each(|(path, bytes)| overwrite_file(&point.join(path), bytes)))?;
    state.settle()?;
    Ok(written)
}

fn traced(state: &State, work: impl FnOnce() -> Result<(), Failure>) -> Result<Written, Failure> {
    let device = state.target.block_device_info();
    let device = device.ok_or_else(|| Failure::new(ExitCode::RunFailed, "the image has no block device"))?;
    let session = TraceSession::start(&device)?;
    work()?;
    state.target.sync()?;
    let trace = session.stop()?;
    let valid = trace.valid()?;
    let (requests, bytes) = valid
        .iter()
        .filter(|request| request.operation == Operation::Write)
        .fold((0, 0), |(requests, bytes), request| (requests + 1, bytes + u64::from(request.sectors) * 512));
    let queued = |request: Request| Request { queue_depth: request.queue_depth.max(QUEUE), ..request };
    let is_write = |request: &Request| request.operation == senesce_devmodel::Operation::Write;
    let replayed = valid.for_models().into_iter().map(|one| if is_write(&one) { queued(one) } else { one });
    Ok(Written { requests, bytes, seconds: Seconds::of_requests(&replayed.collect::<Vec<_>>())? })
}
