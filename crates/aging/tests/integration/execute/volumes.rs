//! Targets in memory that run out of space.

use senesce_aging::execute::{PlanExecutor, PlanTarget};
use senesce_aging::{AgingError, AgingPlan, Change, ChangeKind, File, Operation, OperationKind, Pace, Stop};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

pub(super) const WINDOW: u64 = 2048;
pub(super) const THREADS: usize = 4;

/// A file system without spare space, whose first thread is slow: it waits until the others have done all that may be in
/// flight, or one of them waits for space.
pub(super) struct SmallVolume {
    pub(super) operations: Vec<Operation>,
    pub(super) capacity: i64,
    pub(super) used: AtomicI64,
    pub(super) hands: AtomicUsize,
    /// Births of all files ever created, and the existing files.
    pub(super) files: Mutex<(HashSet<u64>, HashMap<u64, File>)>,
    pub(super) others: Mutex<Others>,
    pub(super) changed: Condvar,
}

/// State of the threads that are not slow.
#[derive(Default)]
pub(super) struct Others {
    done: usize,
    waiting: usize,
}

impl SmallVolume {
    /// As large as the files of a plan at maximum fullness.
    pub(super) fn new(plan: &Arc<AgingPlan>) -> Self {
        Self {
            operations: plan.operations().collect(),
            capacity: bytes_held(plan).0,
            used: AtomicI64::new(0),
            hands: AtomicUsize::new(0),
            files: Mutex::default(),
            others: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn announce(&self, change: impl FnOnce(&mut Others)) {
        change(&mut self.others.lock().unwrap());
        self.changed.notify_all();
    }

    /// Waits before an operation of the slow thread: the first lane has every directory whose number is a multiple of the
    /// number of threads.
    fn let_others_run_ahead(&self, operation: &Operation) {
        let position = self.operations.iter().position(|other| other == operation).unwrap() as u64;
        let end = (position / (WINDOW / 2) * (WINDOW / 2) + WINDOW).min(self.operations.len() as u64);
        let is_of_others = |operation: &&Operation| !(operation.file.directory as usize).is_multiple_of(THREADS);
        let most = self.operations[..end as usize].iter().filter(is_of_others).count();
        let others = self.others.lock().unwrap();
        drop(self.changed.wait_while(others, |others| others.done < most && others.waiting == 0).unwrap());
    }

    fn apply(&self, operation: &Operation) -> Result<(), AgingError> {
        let size = operation.file.size as i64;
        if operation.kind == OperationKind::Delete {
            self.used.fetch_sub(size, Ordering::Relaxed);
        } else {
            self.take(size)?;
        }
        let mut files = self.files.lock().unwrap();
        match operation.kind {
            OperationKind::Delete => {
                assert_eq!(files.1.remove(&operation.file.birth), Some(operation.file));
            }
            OperationKind::Create => {
                files.0.insert(operation.file.birth);
                assert_eq!(files.1.insert(operation.file.birth, operation.file), None);
            }
        }
        Ok(())
    }

    fn change(&self, change: &Change) -> Result<(), AgingError> {
        let size = change.file.size as i64;
        match change.kind {
            ChangeKind::Append { from } => self.take(size - from as i64)?,
            ChangeKind::Truncate { from } => _ = self.used.fetch_sub(from as i64 - size, Ordering::Relaxed),
            _ => {}
        }
        let before = self.files.lock().unwrap().1.insert(change.file.birth, change.file);
        assert_eq!(before, Some(change.before()));
        Ok(())
    }

    fn take(&self, bytes: i64) -> Result<(), AgingError> {
        if self.used.fetch_add(bytes, Ordering::Relaxed) + bytes > self.capacity {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(AgingError::io("allocate", "a file", std::io::Error::from_raw_os_error(libc::ENOSPC)));
        }
        Ok(())
    }
}

/// Other shards that trust the reports of this one.
pub(super) struct Witness<'a> {
    pub(super) volume: &'a SmallVolume,
    pub(super) asked: AtomicUsize,
}

impl Pace for Witness<'_> {
    fn begin(&self, _end: u64) -> Option<Stop> {
        None
    }

    fn reached(&self, position: u64) {
        let files = self.volume.files.lock().unwrap();
        let (made, live) = &*files;
        for operation in &self.volume.operations[..position as usize] {
            let birth = operation.file.birth;
            let done = if operation.kind == OperationKind::Delete {
                !live.contains_key(&birth)
            } else {
                made.contains(&birth)
            };
            assert!(done, "{operation:?} was reported done before {position}");
        }
    }

    fn earlier_done(&self, position: u64) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.reached(position);
        true
    }
}

pub(super) struct SmallExecutor<'a> {
    pub(super) volume: &'a SmallVolume,
    pub(super) slow: bool,
    pub(super) refused: bool,
}

impl<'a> PlanTarget for &'a SmallVolume {
    type PlanExecutor = SmallExecutor<'a>;

    fn prepare(&self) -> Result<(), AgingError> {
        Ok(())
    }

    fn hand(&self, _threads: usize) -> Result<SmallExecutor<'a>, AgingError> {
        Ok(SmallExecutor { volume: self, slow: self.hands.fetch_add(1, Ordering::Relaxed) == 0, refused: false })
    }

    fn check(&self) -> Result<(), AgingError> {
        Ok(())
    }

    fn commit(&self) -> Result<(), AgingError> {
        Ok(())
    }
}

impl SmallExecutor<'_> {
    fn tries(&mut self) {
        if std::mem::take(&mut self.refused) {
            self.volume.announce(|others| others.waiting -= 1);
        }
    }

    fn is_refused(&mut self) {
        self.refused = true;
        self.volume.announce(|others| others.waiting += 1);
    }
}

impl PlanExecutor for SmallExecutor<'_> {
    fn change(&mut self, change: &Change) -> Result<(), AgingError> {
        self.tries();
        let changed = self.volume.change(change);
        if changed.is_err() {
            self.is_refused();
        }
        changed
    }

    fn apply(&mut self, operation: &Operation, _sync: bool) -> Result<(), AgingError> {
        self.tries();
        if self.slow {
            self.volume.let_others_run_ahead(operation);
        }
        let applied = self.volume.apply(operation);
        match &applied {
            Ok(()) => self.volume.announce(|others| others.done += usize::from(!self.slow)),
            Err(_) => self.is_refused(),
        }
        applied
    }
}

/// Bytes in files after each operation and change: their maximum, and the last value.
pub(super) fn bytes_held(plan: &Arc<AgingPlan>) -> (i64, i64) {
    let (mut planner, mut greatest, mut held) = (plan.operations(), 0, 0);
    while let Some(operation) = planner.next() {
        let size = operation.file.size as i64;
        held += if operation.kind == OperationKind::Delete { -size } else { size };
        greatest = held.max(greatest);
        for change in planner.changes() {
            held += match change.kind {
                ChangeKind::Append { from } | ChangeKind::Truncate { from } => change.file.size as i64 - from as i64,
                _ => 0,
            };
            greatest = held.max(greatest);
        }
    }
    (greatest, held)
}

/// A volume that refuses one file for lack of space a given number of times.
#[derive(Default)]
pub(super) struct FullForOne {
    pub(super) tries: AtomicUsize,
    pub(super) commits: AtomicUsize,
}

/// The birth of that file, and the number of refusals.
pub(super) const REFUSED: (u64, usize) = (10, 3);

pub(super) struct ExecutorOfOne<'a>(&'a FullForOne);

impl<'a> PlanTarget for &'a FullForOne {
    type PlanExecutor = ExecutorOfOne<'a>;

    fn prepare(&self) -> Result<(), AgingError> {
        Ok(())
    }

    fn hand(&self, _threads: usize) -> Result<ExecutorOfOne<'a>, AgingError> {
        Ok(ExecutorOfOne(self))
    }

    fn check(&self) -> Result<(), AgingError> {
        Ok(())
    }

    fn commit(&self) -> Result<(), AgingError> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl PlanExecutor for ExecutorOfOne<'_> {
    fn change(&mut self, _change: &Change) -> Result<(), AgingError> {
        Ok(())
    }

    fn apply(&mut self, operation: &Operation, _sync: bool) -> Result<(), AgingError> {
        let is_it = operation.kind == OperationKind::Create && operation.file.birth == REFUSED.0;
        if is_it && self.0.tries.fetch_add(1, Ordering::Relaxed) < REFUSED.1 {
            return Err(AgingError::io("allocate", "a file", std::io::Error::from_raw_os_error(libc::ENOSPC)));
        }
        Ok(())
    }
}
