//! Fixed sequences of single commands: the cost of opening and closing zones.

use crate::command::{Command, Operation};
use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::geometry::Geometry;
use crate::job::Latency;
use senesce_core::interrupt::Interrupt;
use std::collections::BTreeMap;

pub type TimedLatencies = BTreeMap<&'static str, Latency>;

/// Request size for filling: slower than the flash, so that the buffer has space for the timed commands.
const FILL_BYTES: u32 = 16 << 10;
/// Timed single-block writes at the start of each zone.
const STEADY: u64 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMethod {
    Explicit,
    ImplicitWrite,
    ImplicitAppend,
    ExplicitAppend,
}

impl OpenMethod {
    pub const ALL: [Self; 4] = [Self::Explicit, Self::ImplicitWrite, Self::ImplicitAppend, Self::ExplicitAppend];

    /// Returns (first transfer, steady transfers, close, transfer that opens again); an empty name is not timed.
    fn names(self) -> [&'static str; 4] {
        match self {
            Self::Explicit => [
                "write, opened explicitly",
                "write, opened explicitly",
                "close after explicit open",
                "write to a closed zone, opened explicitly before",
            ],
            Self::ImplicitWrite => [
                "first write, opens implicitly",
                "write, opened implicitly",
                "close after implicit open",
                "write to a closed zone, opened implicitly before",
            ],
            Self::ImplicitAppend => ["first append, opens implicitly", "append, opened implicitly", "", ""],
            Self::ExplicitAppend => ["append, opened explicitly", "append, opened explicitly", "", ""],
        }
    }

    pub fn appends(self) -> bool {
        matches!(self, Self::ImplicitAppend | Self::ExplicitAppend)
    }

    fn explicit(self) -> bool {
        matches!(self, Self::Explicit | Self::ExplicitAppend)
    }
}

/// Returns blocks and commands of a round, including its reset.
pub fn cost_of_round(geometry: &Geometry, opening: OpenMethod) -> (u64, u64) {
    let [.., close, _] = opening.names();
    let last = geometry.capacity_blocks - 1;
    let single = last.clamp(1, STEADY);
    let filled = if close.is_empty() { 0 } else { last - single };
    // Close, transfer that opens again, reset.
    let commands = u64::from(opening.explicit()) + single + filled.div_ceil(fill_blocks(geometry)) + 3;
    (single + filled + 1, commands)
}

fn fill_blocks(geometry: &Geometry) -> u64 {
    u64::from((geometry.transfer_limit.min(FILL_BYTES) / geometry.block_bytes).max(1))
}

/// Runs one round on an empty zone, as in the CLUSTER 2023 study. A round opens, writes all but the last block, closes,
/// writes the last block, and resets.
pub fn open_close_round(
    device: &mut dyn ZonedDevice,
    zone: u32,
    opening: OpenMethod,
    timed: &mut TimedLatencies,
    interrupt: &Interrupt,
) -> Result<(), ZonedError> {
    let geometry = device.geometry().clone();
    let [first, steady, close, reopen] = opening.names();
    let transfer = if opening.appends() { Operation::Append } else { Operation::Write };
    let mut round = Round { device, zone, zone_start: geometry.start(zone), timed };
    if opening.explicit() {
        round.run(Operation::Open, 0, 0, "open")?;
    }
    round.run(transfer, 0, 1, first)?;
    let last = geometry.capacity_blocks - 1;
    let mut written = 1;
    while written < last.min(STEADY) {
        round.run(transfer, written, 1, steady)?;
        written += 1;
    }
    let step = fill_blocks(&geometry);
    while written < last && !close.is_empty() && !interrupt.requested() {
        let blocks = step.min(last - written);
        round.run(Operation::Write, written, blocks as u32, "")?;
        written += blocks;
    }
    round.run(Operation::Close, 0, 0, close)?;
    round.run(Operation::Write, written, 1, reopen)?;
    round.run(Operation::Reset, 0, 0, "")
}

struct Round<'a> {
    device: &'a mut dyn ZonedDevice,
    zone: u32,
    zone_start: u64,
    timed: &'a mut TimedLatencies,
}

impl Round<'_> {
    fn run(&mut self, operation: Operation, offset: u64, blocks: u32, name: &'static str) -> Result<(), ZonedError> {
        let offset = if operation == Operation::Append { 0 } else { offset };
        let block = self.zone_start + offset;
        let done = self.device.execute(Command { tag: 0, queue: 0, operation, zone: self.zone, block, blocks })?;
        done.result.map_err(|fault| ZonedError::Zone {
            operation: operation.name(),
            zone: self.zone,
            fault,
            remedy: "choose other zones with --zones, or inspect them with `senesce zoned list DEVICE`",
        })?;
        if !name.is_empty() {
            self.timed.entry(name).or_default().record(done.completed_ns - done.submitted_ns);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Completion;
    use crate::device::Clock;
    use crate::geometry::ZoneInfo;
    use crate::null::NullDevice;

    struct Counting(NullDevice, (u64, u64));

    impl ZonedDevice for Counting {
        fn geometry(&self) -> &Geometry {
            self.0.geometry()
        }

        fn clock(&self) -> Clock {
            self.0.clock()
        }

        fn now_ns(&mut self) -> u64 {
            self.0.now_ns()
        }

        fn reserve(&mut self, commands: u32, transfer_bytes: u32) -> Result<(), ZonedError> {
            self.0.reserve(commands, transfer_bytes)
        }

        fn submit(&mut self, command: Command) -> Result<(), ZonedError> {
            self.1 = (self.1.0 + u64::from(command.blocks), self.1.1 + 1);
            self.0.submit(command)
        }

        fn next(&mut self, until_ns: u64) -> Result<Option<Completion>, ZonedError> {
            self.0.next(until_ns)
        }

        fn report(&mut self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZonedError> {
            self.0.report(first, count)
        }
    }

    #[test]
    fn cost_of_round_is_exact() {
        for opening in OpenMethod::ALL {
            let mut device = Counting(NullDevice::new(None).unwrap(), (0, 0));
            open_close_round(&mut device, 3, opening, &mut TimedLatencies::new(), &Interrupt::new()).unwrap();
            assert_eq!(cost_of_round(device.geometry(), opening), device.1, "{opening:?}");
        }
    }
}
