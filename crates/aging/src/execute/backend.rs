//! What the executor plays on.

use crate::error::AgingError;
use crate::planner::{Change, Operation};

/// A place where files are created and deleted.
pub trait BackEnd: Sync {
    /// What one thread works with.
    type Hand: Hand;

    /// Makes the directories of the plan; those that exist are kept.
    fn prepare(&self) -> Result<(), AgingError>;

    /// The hand of one of `threads` threads.
    fn hand(&self, threads: usize) -> Result<Self::Hand, AgingError>;

    /// Whether the place is still there; asked now and then.
    fn check(&self) -> Result<(), AgingError>;

    /// Brings everything done so far to the device; what was freed is available then.
    fn commit(&self) -> Result<(), AgingError>;
}

/// Does operations for one thread.
pub trait Hand: Send {
    /// Does one operation; `sync` asks for a created file to be on the device before it returns.
    fn apply(&mut self, operation: &Operation, sync: bool) -> Result<(), AgingError>;

    /// Changes a file that exists. After a failure for want of room it can be tried again.
    fn change(&mut self, change: &Change) -> Result<(), AgingError>;

    /// Ends what operations left under way. After a failure for want of room it can be tried again.
    fn finish(&mut self) -> Result<(), AgingError> {
        Ok(())
    }
}

/// Does nothing: to measure the planner and to test the executor.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullBackEnd;

/// The hand of [`NullBackEnd`].
#[derive(Debug, Clone, Copy, Default)]
pub struct NullHand;

impl BackEnd for NullBackEnd {
    type Hand = NullHand;

    fn prepare(&self) -> Result<(), AgingError> {
        Ok(())
    }

    fn hand(&self, _threads: usize) -> Result<NullHand, AgingError> {
        Ok(NullHand)
    }

    fn check(&self) -> Result<(), AgingError> {
        Ok(())
    }

    fn commit(&self) -> Result<(), AgingError> {
        Ok(())
    }
}

impl Hand for NullHand {
    fn apply(&mut self, _operation: &Operation, _sync: bool) -> Result<(), AgingError> {
        Ok(())
    }

    fn change(&mut self, _change: &Change) -> Result<(), AgingError> {
        Ok(())
    }
}
