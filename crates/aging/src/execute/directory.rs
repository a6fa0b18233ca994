//! The executor's target for a directory of a mounted file system.

use super::Data;
use super::commit::{Deletes, commit};
use super::descriptors::{Descriptors, budget};
use super::filler::{FailedCall, Filler, cut};
use super::name::Name;
use super::plan_target::{PlanExecutor, PlanTarget};
use crate::error::AgingError;
use crate::plan::AgingPlan;
use crate::planner::{Change, ChangeKind, File, Operation, OperationKind};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use senesce_core::IoFailure;
use senesce_volume::ClaimedDirectory;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// A claimed directory on which a plan is executed.
#[derive(Debug)]
pub struct DirectoryTarget<'a> {
    plan: Arc<AgingPlan>,
    directory: &'a ClaimedDirectory,
    data: Data,
    /// Subdirectory of the claimed one for the files; empty: the claimed one itself.
    below: String,
    prepared: bool,
    writers: usize,
}

impl<'a> DirectoryTarget<'a> {
    pub fn new(plan: Arc<AgingPlan>, directory: &'a ClaimedDirectory, data: Data) -> Self {
        Self { plan, directory, data, below: String::new(), prepared: false, writers: 1 }
    }

    pub(crate) fn data(&self) -> Data {
        self.data
    }

    pub fn below(self, name: String) -> Self {
        Self { below: name, ..self }
    }

    /// Assumes that the directories exist.
    pub fn prepared(self) -> Self {
        Self { prepared: true, ..self }
    }

    /// Keeps this number of files open that grow concurrently. Only for a single thread: others would find incomplete files.
    pub fn writers(self, writers: usize) -> Self {
        Self { writers: writers.max(1), ..self }
    }

    fn path(&self) -> PathBuf {
        let path = self.directory.path();
        if self.below.is_empty() { path.into() } else { path.join(&self.below) }
    }

    fn top(&self) -> Result<OwnedFd, AgingError> {
        if self.below.is_empty() {
            let copied = self.directory.as_fd().try_clone_to_owned();
            return copied.map_err(|source| AgingError::io("duplicate the descriptor of", self.path(), source));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(self.directory.as_fd(), &self.below, flags, Mode::empty())
            .map_err(|errno| explain("open directory", self.path(), errno))
    }

    /// Returns a handle that waits for deletes, if the plan has a clock. With a clock, the layout must not depend on the
    /// load of the machine; without one it does anyway.
    fn deletes(&self) -> Result<Option<Deletes>, AgingError> {
        if self.plan.spec().clock.is_none() {
            return Ok(None);
        }
        Deletes::of(self.directory.as_fd()).map_err(|errno| explain("find the file system of", self.path(), errno))
    }

    pub(crate) fn descriptors(&self, threads: usize) -> Result<Descriptors, AgingError> {
        Ok(Descriptors::new(self.plan.clone(), self.top()?, self.path(), budget(threads, self.writers)))
    }
}

impl PlanTarget for DirectoryTarget<'_> {
    type PlanExecutor = DirectoryExecutor;

    fn prepare(&self) -> Result<(), AgingError> {
        if self.prepared {
            return Ok(());
        }
        if !self.below.is_empty() {
            let made = make(self.directory.as_fd(), &self.below);
            made.map_err(|errno| explain("make directory", self.path(), errno))?;
        }
        let mut descriptors = self.descriptors(1)?;
        let tree = self.plan.directories();
        for directory in 1..tree.count() {
            let made = make(descriptors.get(tree.parent(directory).unwrap_or(0))?, &tree.name(directory));
            made.map_err(|errno| explain("make directory", descriptors.path(directory), errno))?;
        }
        Ok(())
    }

    fn hand(&self, threads: usize) -> Result<DirectoryExecutor, AgingError> {
        Ok(DirectoryExecutor {
            descriptors: self.descriptors(threads)?,
            filler: Filler::new(self.data, self.plan.spec().seed),
            writers: self.writers,
            growing: Vec::new(),
            deletes: self.deletes()?,
        })
    }

    fn check(&self) -> Result<(), AgingError> {
        check(self.directory)
    }

    fn commit(&self) -> Result<(), AgingError> {
        commit(self.directory.as_fd())
            .map_err(|errno| explain("synchronise", self.directory.path().to_path_buf(), errno))
    }
}

/// Checks that a directory is still the one that was claimed.
pub fn check(directory: &ClaimedDirectory) -> Result<(), AgingError> {
    let path = directory.path();
    let failed = |errno| AgingError::io("inspect", path, errno);
    let held = rustix::fs::fstat(directory.as_fd()).map_err(failed)?;
    let named = rustix::fs::stat(path).map_err(failed)?;
    if (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino) {
        return Ok(());
    }
    Err(AgingError::Target(format!(
        "{} is no longer the directory this run began on: it was unmounted or replaced; mount it again and resume",
        path.display()
    )))
}

/// Bytes by which each of several files grows in turn: a typical write of a program.
const PIECE: u64 = 64 << 10;

#[derive(Debug)]
struct GrowingFile {
    made: OwnedFd,
    file: File,
    done: u64,
    sync: bool,
}

#[derive(Debug)]
pub struct DirectoryExecutor {
    descriptors: Descriptors,
    filler: Filler,
    writers: usize,
    /// Concurrently growing files, in the order of their creates.
    growing: Vec<GrowingFile>,
    deletes: Option<Deletes>,
}

impl PlanExecutor for DirectoryExecutor {
    fn apply(&mut self, operation: &Operation, sync: bool) -> Result<(), AgingError> {
        match operation.kind {
            OperationKind::Create => self.create(&operation.file, sync),
            OperationKind::Delete => self.delete(&operation.file),
        }
    }

    fn change(&mut self, change: &Change) -> Result<(), AgingError> {
        let file = &change.file;
        self.complete(file.birth)?;
        if change.kind == ChangeKind::Rename {
            return self.rename(file);
        }
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let above = self.descriptors.get(file.directory)?;
        let opened = rustix::fs::openat(above, Name::of(file).as_c_str(), flags, Mode::empty());
        let opened = opened.map_err(|errno| self.explain(file, ("open", errno)))?;
        let changed = match change.kind {
            ChangeKind::Append { from } => self.filler.extend(&opened, file.birth, from, file.size),
            ChangeKind::Truncate { .. } => cut(&opened, file.size),
            ChangeKind::Overwrite { from, bytes } => self.filler.overwrite(&opened, file, from, bytes),
            ChangeKind::Punch { from, bytes } => self.filler.punch(&opened, file, from, bytes),
            ChangeKind::Rename => Ok(()),
        };
        changed.map_err(|failed| self.explain(file, failed))
    }

    fn finish(&mut self) -> Result<(), AgingError> {
        while !self.growing.is_empty() {
            self.grow()?;
        }
        Ok(())
    }
}

impl DirectoryExecutor {
    /// Creates a file, which must not exist. An incomplete file is removed, unless it grows concurrently with others.
    pub fn create(&mut self, file: &File, sync: bool) -> Result<(), AgingError> {
        if self.writers > 1 {
            return self.begin(file, sync);
        }
        let made = self.make(file)?;
        let extended = self.filler.extend(&made, file.birth, 0, file.size);
        if let Err(failed) = extended.and_then(|()| synchronise(&made, sync)) {
            let error = self.explain(file, failed);
            let name = Name::of(file);
            // The first error is reported; a leftover is found by the reconciliation of a resume.
            let _ = rustix::fs::unlinkat(self.descriptors.get(file.directory)?, name.as_c_str(), AtFlags::empty());
            return Err(error);
        }
        Ok(())
    }

    pub fn delete(&mut self, file: &File) -> Result<(), AgingError> {
        self.complete(file.birth)?;
        let name = Name::of(file);
        let above = self.descriptors.get(file.directory)?;
        let deleted = rustix::fs::unlinkat(above, name.as_c_str(), AtFlags::empty());
        deleted
            .and_then(|()| self.deletes.as_ref().map_or(Ok(()), Deletes::finish))
            .map_err(|errno| explain("delete", self.path(file, &name), errno))
    }

    /// Opens the configured number of files before any of them is complete.
    fn begin(&mut self, file: &File, sync: bool) -> Result<(), AgingError> {
        while self.growing.len() >= self.writers {
            self.grow()?;
        }
        let made = self.make(file)?;
        self.growing.push(GrowingFile { made, file: *file, done: 0, sync });
        Ok(())
    }

    /// Writes the next piece of each growing file. Can be retried after a failure.
    fn grow(&mut self) -> Result<(), AgingError> {
        let mut at = 0;
        while let Some(growing) = self.growing.get_mut(at) {
            let file = growing.file;
            let to = (growing.done + PIECE).min(file.size);
            let extended = self.filler.extend(&growing.made, file.birth, growing.done, to);
            let settled = extended.and_then(|()| synchronise(&growing.made, growing.sync && to == file.size));
            settled.map_err(|failed| self.explain(&file, failed))?;
            self.growing[at].done = to;
            if to == file.size {
                self.growing.remove(at);
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    fn complete(&mut self, birth: u64) -> Result<(), AgingError> {
        while self.growing.iter().any(|growing| growing.file.birth == birth) {
            self.grow()?;
        }
        Ok(())
    }

    fn make(&mut self, file: &File) -> Result<OwnedFd, AgingError> {
        let name = Name::of(file);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let above = self.descriptors.get(file.directory)?;
        let made = rustix::fs::openat(above, name.as_c_str(), flags, Mode::from_raw_mode(0o644));
        made.map_err(|errno| self.explain(file, ("create", errno)))
    }

    fn rename(&mut self, file: &File) -> Result<(), AgingError> {
        let before = Name::of(&File { renamed: !file.renamed, ..*file });
        let above = self.descriptors.get(file.directory)?;
        rustix::fs::renameat(above, before.as_c_str(), above, Name::of(file).as_c_str())
            .map_err(|errno| explain("rename", self.path(file, &before), errno))
    }

    fn explain(&self, file: &File, (operation, errno): FailedCall) -> AgingError {
        explain(operation, self.path(file, &Name::of(file)), errno)
    }

    fn path(&self, file: &File, name: &Name) -> PathBuf {
        self.descriptors.path(file.directory).join(name.as_str())
    }
}

fn synchronise(made: &OwnedFd, wanted: bool) -> Result<(), FailedCall> {
    if wanted { rustix::fs::fsync(made).map_err(|errno| ("synchronise", errno)) } else { Ok(()) }
}

fn make(above: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    match rustix::fs::mkdirat(above, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

pub(crate) fn explain(operation: &'static str, path: PathBuf, errno: Errno) -> AgingError {
    let remedy = match errno {
        Errno::NOSPC | Errno::DQUOT => {
            "metadata and inodes need space in addition to the files: lower --fullness, or declare a smaller \
             --size"
        }
        Errno::ROFS => {
            "the file system became read-only, usually after an error: see `dmesg`, then check the file system"
        }
        Errno::IO | Errno::NODEV | Errno::NXIO | Errno::STALE => "the device failed or went away: see `dmesg`",
        Errno::MFILE | Errno::NFILE => "raise the number of open files (`ulimit -n`) or lower --threads",
        Errno::OPNOTSUPP => "this file system cannot allocate without writing: use --data write or --data sparse",
        Errno::FBIG => "the file system has a lower maximum file size: use --truncate-sizes",
        Errno::EXIST => {
            "the directory has a file that the plan has not created yet: did another program change the directory?"
        }
        Errno::NOENT => "a file or directory of the plan is missing: did another program change the directory?",
        _ => "",
    };
    IoFailure::new(operation, path, errno).with_remedy(remedy).into()
}
