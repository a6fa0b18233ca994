//! The one interface to every zoned drive: real, null or simulated.

use crate::command::{Command, Completion};
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Simulated: time passes only inside [`ZonedDevice::next`].
    Virtual,
    /// The host's monotonic clock.
    Real,
}

/// A zoned drive with its own submission and completion queue. Real drives are opened once per submitting thread.
pub trait ZonedDevice {
    fn geometry(&self) -> &Geometry;

    /// Virtual or real time.
    fn clock(&self) -> Clock;

    /// Nanoseconds since an arbitrary start.
    fn now_ns(&mut self) -> u64;

    /// Makes room for `commands` in flight of at most `transfer_bytes` each. Called once, before the first command, so
    /// that commands need no allocation.
    ///
    /// # Errors
    /// [`ZonedError::Usage`] for more memory than a worker may have; [`ZonedError::Io`] when memory or the ring cannot
    /// be had.
    fn reserve(&mut self, commands: u32, transfer_bytes: u32) -> Result<(), ZonedError>;

    /// Submits one command. An error is a failure of the way to the drive; what the drive says comes as completion.
    ///
    /// # Errors
    /// [`ZonedError::Io`] when the command does not reach the drive.
    fn submit(&mut self, command: Command) -> Result<(), ZonedError>;

    /// The next completion, or `None` once the clock has reached `until_ns`. Without a command in flight it waits until
    /// then; with `until_ns` in the past it only looks.
    ///
    /// # Errors
    /// [`ZonedError::Io`] when completions cannot be fetched.
    fn next(&mut self, until_ns: u64) -> Result<Option<Completion>, ZonedError>;

    /// The state of `count` zones from `first` on.
    ///
    /// # Errors
    /// [`ZonedError::Io`] when the drive does not report its zones.
    fn report(&mut self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZonedError>;

    /// Puts a zone into a state at once: no data (`None`), or opened and written up to `blocks`. `Ok(false)`: this
    /// device cannot, the state must be reached by commands.
    ///
    /// # Errors
    /// [`ZonedError::Zone`] when the zone cannot get there: it is lost, or as many as may be are open already.
    fn preset(&mut self, _zone: u32, _blocks: Option<u64>) -> Result<bool, ZonedError> {
        Ok(false)
    }

    /// Whether [`Self::preset`] puts zones into a state.
    fn presets(&self) -> bool {
        false
    }

    /// Whether the way to the drive keeps write pointers of its own, which do not follow what went to the drive by another way: the
    /// kernel's block layer does from Linux 6.10 on (zone write plugging). Only a command by this way puts them right.
    fn host_keeps_pointers(&self) -> bool {
        false
    }

    /// Runs one command alone and waits for it. Must not be mixed with commands in flight.
    fn execute(&mut self, command: Command) -> Result<Completion, ZonedError> {
        self.submit(command)?;
        loop {
            if let Some(completion) = self.next(u64::MAX)? {
                return Ok(completion);
            }
        }
    }
}
