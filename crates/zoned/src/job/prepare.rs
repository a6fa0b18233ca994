//! Brings zones into a known state before the actors start.

use super::check::{CheckedJob, CheckedStep};
use super::spec::PrepareStep;
use crate::command::{Command, Operation, ZoneFault};
use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::geometry::{ZoneInfo, ZoneState};
use senesce_core::Progress;
use senesce_core::interrupt::Interrupt;

/// Request size of fills.
const FILL_BYTES: u32 = 128 << 10;

/// Runs all steps. Zones that are read-only or offline are left out and returned.
///
/// # Errors
/// [`ZonedError::Zone`] when a zone refuses a command of its step; [`ZonedError::Io`] when the way to the drive fails.
pub fn prepare<D: ZonedDevice + ?Sized>(
    device: &mut D,
    job: &CheckedJob,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<Vec<u32>, ZonedError> {
    let total: u64 = job.steps.iter().map(|step| step.zones.len() as u64).sum();
    progress.phase("prepare zones", total, "zones");
    let (mut done, mut lost) = (0, Vec::new());
    for step in &job.steps {
        let zones = device.report(step.zones.start, step.zones.end - step.zones.start)?;
        for info in &zones {
            if interrupt.requested() {
                return Ok(lost);
            }
            if !apply(device, step, info)? {
                lost.push(info.zone);
            }
            done += 1;
            if done % 16 == 0 {
                progress.position(done, step.step.name());
            }
        }
    }
    Ok(lost)
}

/// One step on one zone; `false`: the zone is lost.
fn apply<D: ZonedDevice + ?Sized>(device: &mut D, step: &CheckedStep, info: &ZoneInfo) -> Result<bool, ZonedError> {
    if matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline) {
        return Ok(false);
    }
    match step.step {
        PrepareStep::Wear => Ok(true),
        PrepareStep::Reset if info.state == ZoneState::Empty => Ok(true),
        PrepareStep::Reset if device.preset(info.zone, None)? => Ok(true),
        PrepareStep::Reset => zone_command(device, Operation::Reset, info),
        PrepareStep::Fill => fill(device, info, step.blocks),
        PrepareStep::Finish => zone_command(device, Operation::Finish, info),
        PrepareStep::Open => zone_command(device, Operation::Open, info),
        PrepareStep::Close => zone_command(device, Operation::Close, info),
    }
}

fn fill<D: ZonedDevice + ?Sized>(device: &mut D, info: &ZoneInfo, blocks: u64) -> Result<bool, ZonedError> {
    let full = info.state == ZoneState::Full && blocks >= info.capacity;
    if full || info.state == ZoneState::Conventional {
        return Ok(true);
    }
    if device.preset(info.zone, Some(blocks))? {
        return Ok(true);
    }
    if info.state != ZoneState::Empty && !zone_command(device, Operation::Reset, info)? {
        return Ok(false);
    }
    let block_bytes = device.geometry().block_bytes;
    let step = (device.geometry().transfer_limit.min(FILL_BYTES) / block_bytes).max(1);
    let mut written = 0;
    while written < blocks {
        let count = u64::from(step).min(blocks - written);
        let command = Command {
            tag: 0,
            queue: 0,
            operation: Operation::Write,
            zone: info.zone,
            block: info.start + written,
            blocks: count as u32,
        };
        if !run(device, command)? {
            return Ok(false);
        }
        written += count;
    }
    Ok(true)
}

fn zone_command<D: ZonedDevice + ?Sized>(
    device: &mut D,
    operation: Operation,
    info: &ZoneInfo,
) -> Result<bool, ZonedError> {
    run(device, Command { tag: 0, queue: 0, operation, zone: info.zone, block: info.start, blocks: 0 })
}

fn run<D: ZonedDevice + ?Sized>(device: &mut D, command: Command) -> Result<bool, ZonedError> {
    match device.execute(command)?.result {
        Ok(_) => Ok(true),
        Err(ZoneFault::ReadOnly | ZoneFault::Offline) => Ok(false),
        Err(fault) => Err(ZonedError::Zone {
            operation: command.operation.name(),
            zone: command.zone,
            fault,
            remedy: "preparation cannot go on; look at the zones with `senesce zones DEVICE list`",
        }),
    }
}
