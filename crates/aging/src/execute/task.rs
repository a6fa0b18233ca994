//! Tasks for threads, and their counts.

use crate::error::AgingError;
use crate::plan::ChangeCounts;
use crate::planner::{Change, ChangeKind, File, Operation, OperationKind};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub stalls: u64,
    pub executed: u64,
    pub commits: u64,
    pub planned: ChangeCounts,
    pub work: Work,
}

impl Counts {
    pub(crate) fn agree(&self) -> Result<(), AgingError> {
        if self.planned == self.work.changes {
            return Ok(());
        }
        Err(AgingError::Target(format!(
            "planned changes: {:?}; completed changes: {:?}",
            self.planned, self.work.changes
        )))
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    pub synced: u64,
    pub changes: ChangeCounts,
}

impl Work {
    pub(crate) fn count(&mut self, task: &Task) {
        self.synced += u64::from(task.sync);
        if let TaskAction::Change(change) = &task.act {
            self.changes.count(change);
        }
    }

    pub(crate) fn discount(&mut self, task: &Task) {
        let mut once = Self::default();
        once.count(task);
        self.changes.subtract(&once.changes);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.synced += other.synced;
        self.changes.add(&other.changes);
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum TaskAction {
    Operation(Operation),
    Change(Change),
}

impl TaskAction {
    pub(crate) fn file(&self) -> &File {
        match self {
            Self::Operation(operation) => &operation.file,
            Self::Change(change) => &change.file,
        }
    }

    pub(crate) fn is(&self, kind: OperationKind) -> bool {
        matches!(self, Self::Operation(operation) if operation.kind == kind)
    }
}

/// An operation, or a change that follows it, for a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    pub sequence: u64,
    /// 0: the operation itself; its changes follow from 1.
    pub step: u32,
    pub own: usize,
    pub act: TaskAction,
    pub sync: bool,
}

impl Task {
    pub(crate) fn place(&self) -> (u64, u32) {
        (self.sequence, self.step)
    }

    pub(crate) fn grew_by(&self) -> u64 {
        match self.act {
            TaskAction::Change(Change { kind: ChangeKind::Append { from }, file }) => file.size - from,
            _ => 0,
        }
    }

    /// Returns the removal of a file, which replaces this task.
    pub(crate) fn removal(&self, file: File) -> Self {
        self.operation(OperationKind::Delete, file)
    }

    /// Returns the creation of a changed file as it was before the change.
    pub(crate) fn restored(&self) -> Self {
        let before = match self.act {
            TaskAction::Change(change) => change.before(),
            TaskAction::Operation(operation) => operation.file,
        };
        self.operation(OperationKind::Create, before)
    }

    fn operation(&self, kind: OperationKind, file: File) -> Self {
        Self { act: TaskAction::Operation(Operation { kind, file }), sync: false, ..*self }
    }

    pub(crate) fn cut_again(&self) -> Self {
        let after = *self.act.file();
        let file = File { size: after.size - self.grew_by(), ..after };
        Self { act: TaskAction::Change(Change { kind: ChangeKind::Truncate { from: after.size }, file }), ..*self }
    }
}
