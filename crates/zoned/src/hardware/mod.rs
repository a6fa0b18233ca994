//! Real drives: NVMe passthrough and zoned block devices, protected by the guard.

mod block;
mod buffers;
mod claim;
mod drive_content;
mod find;
mod leftover;
mod noise;
mod nvme;
mod nvme_commands;
mod owned;
mod paths;
mod ring;
mod threads;

pub use block::ZonedBlockDevice;
pub(crate) use claim::ClaimedDrive;
pub use claim::open_for_reading;
pub(crate) use find::only_zoned_drive;
pub use leftover::Leftover;
pub(crate) use paths::{has_block_device, has_passthrough, model_of};
pub use ring::{RingOptions, Submission};

use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo, ZoneState};
use crate::job::{Job, JobResult, Pointers, PrepareStep};
use crate::run::{RunOptions, check_on};
use crate::sim::HostPath;
use std::path::Path;

fn regions(geometry: &Geometry, first: u32, count: u32) -> Vec<ZoneInfo> {
    let region = |zone| ZoneInfo {
        zone,
        state: ZoneState::Conventional,
        start: geometry.start(zone),
        capacity: geometry.capacity_blocks,
        pointer: 0,
    };
    (first..first + count).map(region).collect()
}

/// Claims a drive and opens it for single commands, by passthrough if available.
pub(crate) fn open_claimed(path: &Path, erase: Option<&str>) -> Result<Box<dyn ZonedDevice>, ZonedError> {
    let way = if has_passthrough(path) { HostPath::Direct } else { HostPath::None };
    open_claimed_by(path, way, RingOptions::default(), erase)
}

pub fn open_claimed_by(
    path: &Path,
    way: HostPath,
    rings: RingOptions,
    erase: Option<&str>,
) -> Result<Box<dyn ZonedDevice>, ZonedError> {
    let mut drive = ClaimedDrive::claim(path, way, erase)?;
    let device = drive.open(rings)?;
    drive.check_before_first_write()?;
    Ok(Box::new(owned::OwnedDrive::new(drive, device)))
}

/// Opens a drive for zone commands that lose no data. Refuses only a drive that is in use or claimed.
pub(crate) fn open_unused(path: &Path) -> Result<Box<dyn ZonedDevice>, ZonedError> {
    let way = if has_passthrough(path) { HostPath::Direct } else { HostPath::None };
    let drive = ClaimedDrive::claim_unused(path, way)?;
    let device = drive.open(RingOptions::default())?;
    Ok(Box::new(owned::OwnedDrive::new(drive, device)))
}

/// Claims the drive, prepares it and runs a job with one thread, ring and processor per worker.
pub(crate) fn run(
    path: &Path,
    job: &Job,
    erase: Option<&str>,
    options: &RunOptions<'_>,
) -> Result<JobResult, ZonedError> {
    check_real(path, job)?;
    run_on(&mut ClaimedDrive::claim(path, job.path, erase)?, job, options)
}

/// Refuses a job that this drive cannot run, before claiming it.
pub(crate) fn check_real(path: &Path, job: &Job) -> Result<(), ZonedError> {
    if !job.faults.is_empty() || job.prepare.as_ref().is_some_and(|steps| steps.iter().any(only_simulated)) {
        return Err(ZonedError::Usage("faults and the step wear require a simulated drive".into()));
    }
    let mut device = open_for_reading(path, job.path)?;
    check_on(&mut *device, job)?;
    Ok(())
}

pub(crate) fn run_on(drive: &mut ClaimedDrive, job: &Job, options: &RunOptions<'_>) -> Result<JobResult, ZonedError> {
    drive.set_path(job.path)?;
    let mut device = drive.open(job.rings())?;
    let checked = check_on(&mut *device, job)?;
    drive.check_before_first_write()?;
    let zones = device.report(0, device.geometry().zones)?;
    drive.check_pointers(&zones)?;
    let mut pointers = Pointers::of(&zones);
    let unusable = crate::job::prepare::prepare(&mut *device, &checked, options.progress, options.interrupt)?;
    drop(device);
    if !options.interrupt.requested() {
        pointers.prepare(&checked.steps, &zones);
        pointers.check(&drive.zones()?)?;
    }
    drive.remember(None);
    let (mut result, pointers) = threads::run(drive, &checked, options)?;
    drive.remember(Some(pointers));
    result.unusable = unusable;
    Ok(result)
}

fn only_simulated(step: &crate::job::Preparation) -> bool {
    step.step == PrepareStep::Wear
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs loop devices"]
    fn harmless_zone_commands_also_need_an_unused_drive() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        let device = senesce_volume::LoopDevice::attach(&file, "test", false).unwrap();
        let first = open_unused(device.path()).unwrap();
        let words = open_unused(device.path()).err().unwrap().to_string();
        assert!(words.contains("is using it"), "{words}");
        drop(first);
        open_unused(device.path()).unwrap();
    }
}
