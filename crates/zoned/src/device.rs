//! The interface to every zoned drive: real, null or simulated.

use crate::command::{Command, Completion};
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Simulated: time advances only inside [`ZonedDevice::next`].
    Virtual,
    Real,
}

/// A zoned drive with its own submission and completion queue. Real drives are opened once per submitting thread.
pub trait ZonedDevice {
    fn geometry(&self) -> &Geometry;

    fn clock(&self) -> Clock;

    /// Nanoseconds since an arbitrary start.
    fn now_ns(&mut self) -> u64;

    /// Allocates for `commands` in flight of at most `transfer_bytes` each. Called once, before the first command, so
    /// that commands need no allocation.
    fn reserve(&mut self, commands: u32, transfer_bytes: u32) -> Result<(), ZonedError>;

    /// Submits one command. An error means that the command did not reach the drive; the drive's own errors arrive as
    /// completions.
    fn submit(&mut self, command: Command) -> Result<(), ZonedError>;

    /// Returns the next completion, or `None` once the clock has reached `until_ns`. Waits until then if no command is
    /// in flight. Does not wait if `until_ns` is in the past.
    fn next(&mut self, until_ns: u64) -> Result<Option<Completion>, ZonedError>;

    /// Returns the state of `count` zones from `first` on.
    fn report(&mut self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZonedError>;

    /// Sets a zone's state without commands: empty (`None`), or opened and written up to `blocks`. `Ok(false)`: not
    /// supported by this device, use commands.
    fn preset(&mut self, _zone: u32, _blocks: Option<u64>) -> Result<bool, ZonedError> {
        Ok(false)
    }

    fn presets(&self) -> bool {
        false
    }

    /// Returns whether the kernel tracks write pointers itself (zone write plugging, since Linux 6.10). It does not
    /// notice commands sent by another path; only a command by this path corrects its pointer.
    fn host_keeps_pointers(&self) -> bool {
        false
    }

    /// Runs one command and waits for it. No other command may be in flight.
    fn execute(&mut self, command: Command) -> Result<Completion, ZonedError> {
        self.submit(command)?;
        loop {
            if let Some(completion) = self.next(u64::MAX)? {
                return Ok(completion);
            }
        }
    }
}
