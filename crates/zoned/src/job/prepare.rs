//! Brings zones into a defined state before the actors start.

use super::check::{CheckedJob, CheckedStep};
use super::spec::PrepareStep;
use crate::command::{Command, Operation, ZoneFault};
use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::geometry::{ZoneInfo, ZoneState};
use senesce_core::Progress;
use senesce_core::interrupt::Interrupt;

const FILL_BYTES: u32 = 128 << 10;

/// Runs all steps. Skips read-only and offline zones and returns them.
pub(crate) fn prepare<D: ZonedDevice + ?Sized>(
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

/// Applies one step to one zone; `false`: the zone is lost.
fn apply<D: ZonedDevice + ?Sized>(device: &mut D, step: &CheckedStep, info: &ZoneInfo) -> Result<bool, ZonedError> {
    if matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline) {
        return Ok(false);
    }
    match step.step {
        PrepareStep::Wear => Ok(true),
        PrepareStep::Reset if needs_no_reset(device, info) => Ok(true),
        PrepareStep::Reset if device.preset(info.zone, None)? => Ok(true),
        PrepareStep::Reset => zone_command(device, Operation::Reset, info),
        PrepareStep::Fill => fill(device, info, step.blocks),
        PrepareStep::Finish => zone_command(device, Operation::Finish, info),
        PrepareStep::Open => zone_command(device, Operation::Open, info),
        PrepareStep::Close => zone_command(device, Operation::Close, info),
    }
}

/// Returns whether a zone need not be reset. The kernel's write pointer may be stale if another path emptied the zone.
fn needs_no_reset<D: ZonedDevice + ?Sized>(device: &D, info: &ZoneInfo) -> bool {
    info.state == ZoneState::Empty && !device.host_keeps_pointers()
}

fn fill<D: ZonedDevice + ?Sized>(device: &mut D, info: &ZoneInfo, blocks: u64) -> Result<bool, ZonedError> {
    let full = info.state == ZoneState::Full && blocks >= info.capacity;
    if full || info.state == ZoneState::Conventional {
        return Ok(true);
    }
    if device.preset(info.zone, Some(blocks))? {
        return Ok(true);
    }
    if !needs_no_reset(device, info) && !zone_command(device, Operation::Reset, info)? {
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
            remedy: "preparation failed; inspect the zones with `senesce zoned list DEVICE`",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Completion;
    use crate::device::Clock;
    use crate::geometry::Geometry;
    use crate::job::{Activity, ActorSpec, Job, Preparation, Span, Zones};
    use crate::run::{check_on, open_sim};
    use crate::sim::SimDevice;
    use crate::sim::model::Model;
    use senesce_core::{Seed, Silent};
    use std::collections::BTreeMap;

    /// A block layer that rejects writes away from the pointer it tracks.
    struct Plugged {
        drive: SimDevice,
        believed: BTreeMap<u32, u64>,
        refused: u32,
    }

    impl ZonedDevice for Plugged {
        fn geometry(&self) -> &Geometry {
            self.drive.geometry()
        }

        fn clock(&self) -> Clock {
            self.drive.clock()
        }

        fn now_ns(&mut self) -> u64 {
            self.drive.now_ns()
        }

        fn host_keeps_pointers(&self) -> bool {
            true
        }

        fn reserve(&mut self, commands: u32, transfer_bytes: u32) -> Result<(), ZonedError> {
            self.drive.reserve(commands, transfer_bytes)
        }

        fn submit(&mut self, command: Command) -> Result<(), ZonedError> {
            let pointer = self.believed.entry(command.zone).or_insert(command.block);
            match command.operation {
                Operation::Reset => *pointer = command.block,
                Operation::Write if *pointer == command.block => *pointer += u64::from(command.blocks),
                Operation::Write => self.refused += 1,
                _ => {}
            }
            self.drive.submit(command)
        }

        fn next(&mut self, until_ns: u64) -> Result<Option<Completion>, ZonedError> {
            self.drive.next(until_ns)
        }

        fn report(&mut self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZonedError> {
            self.drive.report(first, count)
        }
    }

    #[test]
    fn zone_emptied_by_another_path_is_reset_again() {
        let fill = Preparation { step: PrepareStep::Fill, zones: Zones::Count(1), to: 0.01 };
        let job = Job {
            prepare: Some(vec![fill]),
            ..Job::of(vec![ActorSpec { time: Some(Span::seconds(1.0)), ..ActorSpec::new(Activity::Write) }])
        };
        let drive = open_sim(&Model::load("zn540").unwrap(), &job, Seed(1)).unwrap();
        let mut plugged = Plugged { drive, believed: BTreeMap::new(), refused: 0 };
        let checked = check_on(&mut plugged, &job).unwrap();
        let interrupt = Interrupt::new();
        let once = |plugged: &mut Plugged| prepare(plugged, &checked, &Silent, &interrupt).unwrap();
        once(&mut plugged);
        assert!(plugged.believed[&0] > 0);
        // By passthrough: the block layer does not notice.
        let zone = plugged.drive.report(0, 1).unwrap()[0];
        assert!(zone_command(&mut plugged.drive, Operation::Reset, &zone).unwrap());
        once(&mut plugged);
        assert_eq!(plugged.refused, 0);
    }
}
