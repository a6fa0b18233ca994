//! The interface between the executor and its target.

use crate::error::AgingError;
use crate::planner::{Change, Operation};

pub trait PlanTarget: Sync {
    type PlanExecutor: PlanExecutor;

    /// Creates the directories of the plan and keeps existing ones.
    ///
    /// # Errors
    /// [`AgingError::Io`] with the directory that cannot be created.
    fn prepare(&self) -> Result<(), AgingError>;

    /// Creates the hand of one of `threads` threads.
    ///
    /// # Errors
    /// Missing resources of the thread, typically descriptors.
    fn hand(&self, threads: usize) -> Result<Self::PlanExecutor, AgingError>;

    /// Checks periodically that the target still exists.
    ///
    /// # Errors
    /// [`AgingError::Target`] when it has been replaced, [`AgingError::Io`] when it cannot be inspected.
    fn check(&self) -> Result<(), AgingError>;

    /// Writes everything done so far to the device; freed blocks are available then.
    ///
    /// # Errors
    /// [`AgingError::Io`] if syncfs(2) fails.
    fn commit(&self) -> Result<(), AgingError>;
}

pub trait PlanExecutor: Send {
    /// Executes one operation; `sync` requests that a created file is on the device before it returns.
    ///
    /// # Errors
    /// [`AgingError::Io`] with the file that cannot be created or deleted; an incomplete file is removed. After ENOSPC
    /// the executor waits for the deletes of other threads and retries once.
    fn apply(&mut self, operation: &Operation, sync: bool) -> Result<(), AgingError>;

    /// Changes an existing file. Can be retried after ENOSPC.
    ///
    /// # Errors
    /// [`AgingError::Io`] with the file that cannot be changed.
    fn change(&mut self, change: &Change) -> Result<(), AgingError>;

    /// Completes growing files. Can be retried after ENOSPC.
    ///
    /// # Errors
    /// [`AgingError::Io`] with the file that cannot be completed.
    fn finish(&mut self) -> Result<(), AgingError> {
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct NullTarget;

#[derive(Debug, Clone, Copy, Default)]
pub struct NullExecutor;

impl PlanTarget for NullTarget {
    type PlanExecutor = NullExecutor;

    fn prepare(&self) -> Result<(), AgingError> {
        Ok(())
    }

    fn hand(&self, _threads: usize) -> Result<NullExecutor, AgingError> {
        Ok(NullExecutor)
    }

    fn check(&self) -> Result<(), AgingError> {
        Ok(())
    }

    fn commit(&self) -> Result<(), AgingError> {
        Ok(())
    }
}

impl PlanExecutor for NullExecutor {
    fn apply(&mut self, _operation: &Operation, _sync: bool) -> Result<(), AgingError> {
        Ok(())
    }

    fn change(&mut self, _change: &Change) -> Result<(), AgingError> {
        Ok(())
    }
}
