//! Single commands in sequence: the cost of open, close, reset of an untouched zone, and refusal.

use crate::command::{Command, Operation};
use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::geometry::ZoneState;
use crate::script::TimedLatencies;
use senesce_core::interrupt::Interrupt;

/// Transfers that are timed after the first one.
const STEADY: u64 = 8;

pub(crate) const NAMES: [&str; 10] = [
    "first-write",
    "write",
    "close",
    "reopening-write",
    "refusal",
    "reset-untouched",
    "first-append",
    "append",
    "open",
    "finish-empty",
];

/// Runs `rounds` rounds on a zone, destroying its data, with transfers of 4 KiB or one block, whichever is larger.
pub(crate) fn run(
    device: &mut dyn ZonedDevice,
    zone: u32,
    rounds: u32,
    interrupt: &Interrupt,
) -> Result<TimedLatencies, ZonedError> {
    let geometry = device.geometry().clone();
    let blocks = (4096 / geometry.block_bytes).max(1);
    if geometry.capacity_blocks < (STEADY + 4) * u64::from(blocks) {
        return Err(ZonedError::Usage(format!("{}: its zones are too small to time single commands", geometry.name)));
    }
    let appends = geometry.append_limit >= blocks * geometry.block_bytes;
    let mut one = SingleCommand { start: geometry.start(zone), device, zone, blocks, timed: TimedLatencies::new() };
    one.device.reserve(1, blocks * geometry.block_bytes)?;
    if one.device.report(zone, 1)?.iter().any(|info| info.state != ZoneState::Empty) {
        one.command(Operation::Reset, "")?;
    }
    for _ in 0..rounds {
        if interrupt.requested() {
            break;
        }
        one.round(appends)?;
    }
    Ok(one.timed)
}

struct SingleCommand<'a> {
    device: &'a mut dyn ZonedDevice,
    zone: u32,
    start: u64,
    blocks: u32,
    timed: TimedLatencies,
}

impl SingleCommand<'_> {
    /// Runs one round of single commands. The zone is empty before and after.
    fn round(&mut self, appends: bool) -> Result<(), ZonedError> {
        self.command(Operation::Reset, "reset-untouched")?;
        self.write(0, "first-write")?;
        for number in 1..=STEADY {
            self.write(number, "write")?;
        }
        self.command(Operation::Close, "close")?;
        self.write(STEADY + 1, "reopening-write")?;
        self.refused_write(STEADY + 3)?;
        self.command(Operation::Reset, "")?;
        if appends {
            self.transfer(Operation::Append, 0, "first-append")?;
            for _ in 0..STEADY {
                self.transfer(Operation::Append, 0, "append")?;
            }
            self.command(Operation::Reset, "")?;
        }
        self.command(Operation::Open, "open")?;
        self.command(Operation::Reset, "")?;
        self.command(Operation::Finish, "finish-empty")?;
        self.command(Operation::Reset, "")
    }

    fn write(&mut self, number: u64, name: &'static str) -> Result<(), ZonedError> {
        self.transfer(Operation::Write, number * u64::from(self.blocks), name)
    }

    fn transfer(&mut self, operation: Operation, offset: u64, name: &'static str) -> Result<(), ZonedError> {
        self.run(operation, offset, self.blocks, name)
    }

    fn command(&mut self, operation: Operation, name: &'static str) -> Result<(), ZonedError> {
        self.run(operation, 0, 0, name)
    }

    fn run(&mut self, operation: Operation, offset: u64, blocks: u32, name: &'static str) -> Result<(), ZonedError> {
        let done = self.device.execute(self.at(operation, offset, blocks))?;
        done.result.map_err(|fault| ZonedError::Zone {
            operation: operation.name(),
            zone: self.zone,
            fault,
            remedy: "check that no other program uses the drive, and inspect its zones with `senesce zoned list DEVICE`",
        })?;
        if !name.is_empty() {
            self.timed.entry(name).or_default().record(done.completed_ns - done.submitted_ns);
        }
        Ok(())
    }

    fn refused_write(&mut self, number: u64) -> Result<(), ZonedError> {
        let command = self.at(Operation::Write, number * u64::from(self.blocks), self.blocks);
        let done = self.device.execute(command)?;
        if done.result.is_ok() {
            return Err(ZonedError::Usage(format!("zone {} accepted a write beyond its write pointer", self.zone)));
        }
        self.timed.entry("refusal").or_default().record(done.completed_ns - done.submitted_ns);
        Ok(())
    }

    fn at(&self, operation: Operation, offset: u64, blocks: u32) -> Command {
        Command { tag: 0, queue: 0, operation, zone: self.zone, block: self.start + offset, blocks }
    }
}
