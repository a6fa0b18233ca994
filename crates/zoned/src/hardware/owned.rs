//! A device together with its claim.

use super::claim::ClaimedDrive;
use crate::command::{Command, Completion};
use crate::device::{Clock, ZonedDevice};
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo};

pub(crate) struct OwnedDrive {
    device: Box<dyn ZonedDevice>,
    _drive: ClaimedDrive,
}

impl OwnedDrive {
    /// Keeps the claim as long as the handle.
    pub(crate) fn new(drive: ClaimedDrive, device: Box<dyn ZonedDevice>) -> Self {
        Self { device, _drive: drive }
    }
}

impl ZonedDevice for OwnedDrive {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn clock(&self) -> Clock {
        self.device.clock()
    }

    fn now_ns(&mut self) -> u64 {
        self.device.now_ns()
    }

    fn host_keeps_pointers(&self) -> bool {
        self.device.host_keeps_pointers()
    }

    fn reserve(&mut self, commands: u32, transfer_bytes: u32) -> Result<(), ZonedError> {
        self.device.reserve(commands, transfer_bytes)
    }

    fn submit(&mut self, command: Command) -> Result<(), ZonedError> {
        self.device.submit(command)
    }

    fn next(&mut self, until_ns: u64) -> Result<Option<Completion>, ZonedError> {
        self.device.next(until_ns)
    }

    fn report(&mut self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZonedError> {
        self.device.report(first, count)
    }
}
