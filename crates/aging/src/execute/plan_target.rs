//! What the executor plays on.

use crate::error::AgingError;
use crate::planner::{Change, Operation};

/// A place where files are created and deleted.
pub trait PlanTarget: Sync {
    type Hand: Hand;

    /// Makes the directories of the plan; those that exist are kept.
    ///
    /// # Errors
    /// [`AgingError::Io`] with the directory that cannot be made.
    fn prepare(&self) -> Result<(), AgingError>;

    /// The hand of one of `threads` threads.
    ///
    /// # Errors
    /// When a thread cannot be given what it works with, above all descriptors.
    fn hand(&self, threads: usize) -> Result<Self::Hand, AgingError>;

    /// Whether the place is still there; asked now and then.
    ///
    /// # Errors
    /// [`AgingError::Target`] when it is another place by now, [`AgingError::Io`] when it cannot be looked at.
    fn check(&self) -> Result<(), AgingError>;

    /// Brings everything done so far to the device; what was freed is available then.
    ///
    /// # Errors
    /// [`AgingError::Io`]: those of syncfs(2).
    fn commit(&self) -> Result<(), AgingError>;
}

/// Does operations for one thread.
pub trait Hand: Send {
    /// Does one operation; `sync` asks for a created file to be on the device before it returns.
    ///
    /// # Errors
    /// [`AgingError::Io`] with the file that cannot be made or deleted; nothing of a file that cannot be made whole
    /// stays. For ENOSPC the executor waits for the deletes of other threads and tries once more.
    fn apply(&mut self, operation: &Operation, sync: bool) -> Result<(), AgingError>;

    /// Changes a file that exists. After a failure for want of room it can be tried again.
    ///
    /// # Errors
    /// [`AgingError::Io`] with the file that cannot be changed.
    fn change(&mut self, change: &Change) -> Result<(), AgingError>;

    /// Ends what operations left under way. After a failure for want of room it can be tried again.
    ///
    /// # Errors
    /// [`AgingError::Io`] with the file that cannot be ended.
    fn finish(&mut self) -> Result<(), AgingError> {
        Ok(())
    }
}

/// Does nothing: to measure the planner and to test the executor.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullTarget;

/// The hand of [`NullTarget`].
#[derive(Debug, Clone, Copy, Default)]
pub struct NullHand;

impl PlanTarget for NullTarget {
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
