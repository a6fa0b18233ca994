//! The executor's back end for a directory of a mounted file system.

use super::Data;
use super::backend::{BackEnd, Hand};
use super::commit::{Deletes, commit};
use super::content::{CHUNK, Content};
use super::descriptors::{Descriptors, budget};
use crate::error::AgingError;
use crate::plan::AgingPlan;
use crate::planner::{File, Operation, OperationKind};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use senesce_core::IoFailure;
use senesce_volume::ClaimedDirectory;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A claimed directory that a plan is played on.
#[derive(Debug)]
pub struct DirectoryBackEnd<'a> {
    plan: Arc<AgingPlan>,
    directory: &'a ClaimedDirectory,
    data: Data,
    /// Name of the directory below the claimed one that the files lie in; empty: the claimed one itself.
    below: String,
    prepared: bool,
}

impl<'a> DirectoryBackEnd<'a> {
    /// Plays `plan` on `directory`, giving files their size as `data` says.
    pub fn new(plan: Arc<AgingPlan>, directory: &'a ClaimedDirectory, data: Data) -> Self {
        Self { plan, directory, data, below: String::new(), prepared: false }
    }

    /// Plays in the directory `name` of the claimed one.
    pub fn below(self, name: String) -> Self {
        Self { below: name, ..self }
    }

    /// Takes it that somebody else has made the directories.
    pub fn prepared(self) -> Self {
        Self { prepared: true, ..self }
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

    /// With a clock the layout must not depend on the load of the machine; without one it does anyway.
    fn deletes(&self) -> Result<Option<Deletes>, AgingError> {
        if self.plan.spec().clock.is_none() {
            return Ok(None);
        }
        Deletes::of(self.directory.as_fd()).map_err(|errno| explain("ask what file system holds", self.path(), errno))
    }

    pub(crate) fn descriptors(&self, threads: usize) -> Result<Descriptors, AgingError> {
        Ok(Descriptors::new(self.plan.clone(), self.top()?, self.path(), budget(threads)))
    }
}

impl BackEnd for DirectoryBackEnd<'_> {
    type Hand = DirectoryHand;

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

    fn hand(&self, threads: usize) -> Result<DirectoryHand, AgingError> {
        Ok(DirectoryHand {
            descriptors: self.descriptors(threads)?,
            data: self.data,
            content: Content::new(self.plan.spec().seed),
            buffer: if self.data == Data::Write { vec![0; CHUNK] } else { Vec::new() },
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

/// Whether a directory is still the one that was claimed.
///
/// # Errors
/// As [`BackEnd::check`].
pub fn check(directory: &ClaimedDirectory) -> Result<(), AgingError> {
    let path = directory.path();
    let failed = |errno| AgingError::io("look at", path, errno);
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

/// Creates and deletes files for one thread.
#[derive(Debug)]
pub struct DirectoryHand {
    descriptors: Descriptors,
    data: Data,
    content: Content,
    buffer: Vec<u8>,
    deletes: Option<Deletes>,
}

impl Hand for DirectoryHand {
    fn apply(&mut self, operation: &Operation, sync: bool) -> Result<(), AgingError> {
        match operation.kind {
            OperationKind::Create => self.create(&operation.file, sync),
            OperationKind::Delete => self.delete(&operation.file),
        }
    }
}

impl DirectoryHand {
    /// Creates a file that must not exist yet. A file that cannot be completed is taken away again.
    ///
    /// # Errors
    /// As [`Hand::apply`].
    pub fn create(&mut self, file: &File, sync: bool) -> Result<(), AgingError> {
        let name = Name::new(file.birth);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let above = self.descriptors.get(file.directory)?;
        let made = rustix::fs::openat(above, name.as_c_str(), flags, Mode::from_raw_mode(0o644));
        let made = made.map_err(|errno| explain("create", self.path(file, &name), errno))?;
        if let Err((operation, errno)) = self.give_size(&made, file, sync) {
            let error = explain(operation, self.path(file, &name), errno);
            // The first error is the one to tell; what remains is found again by the reconciliation of a resume.
            let _ = rustix::fs::unlinkat(self.descriptors.get(file.directory)?, name.as_c_str(), AtFlags::empty());
            return Err(error);
        }
        Ok(())
    }

    /// Deletes a file that must exist.
    ///
    /// # Errors
    /// As [`Hand::apply`].
    pub fn delete(&mut self, file: &File) -> Result<(), AgingError> {
        let name = Name::new(file.birth);
        let above = self.descriptors.get(file.directory)?;
        let deleted = rustix::fs::unlinkat(above, name.as_c_str(), AtFlags::empty());
        deleted
            .and_then(|()| self.deletes.as_ref().map_or(Ok(()), Deletes::finish))
            .map_err(|errno| explain("delete", self.path(file, &name), errno))
    }

    fn give_size(&mut self, made: &OwnedFd, file: &File, sync: bool) -> Result<(), (&'static str, Errno)> {
        // Of length 0, fallocate is EINVAL; a new file is empty anyway.
        if file.size > 0 {
            match self.data {
                Data::Fallocate => allocate(made, file.size).map_err(|errno| ("allocate", errno))?,
                Data::Sparse => rustix::fs::ftruncate(made, file.size).map_err(|errno| ("set the size of", errno))?,
                Data::Write => self.write(made, file).map_err(|errno| ("write", errno))?,
            }
        }
        if sync { rustix::fs::fsync(made).map_err(|errno| ("synchronise", errno)) } else { Ok(()) }
    }

    fn write(&mut self, made: &OwnedFd, file: &File) -> Result<(), Errno> {
        let mut done = 0;
        while done < file.size {
            let length = (file.size - done).min(CHUNK as u64) as usize;
            self.content.fill(file.birth, done / crate::plan::BLOCK, &mut self.buffer[..length]);
            let mut rest = &self.buffer[..length];
            while !rest.is_empty() {
                match rustix::io::write(made, rest) {
                    Ok(0) => return Err(Errno::IO),
                    Ok(count) => rest = &rest[count..],
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            done += length as u64;
        }
        Ok(())
    }

    fn path(&self, file: &File, name: &Name) -> PathBuf {
        self.descriptors.path(file.directory).join(name.as_str())
    }
}

fn make(above: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    match rustix::fs::mkdirat(above, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// The system call itself: the C library's posix_fallocate would write zeros where the file system cannot allocate.
fn allocate(made: &OwnedFd, size: u64) -> Result<(), Errno> {
    loop {
        match rustix::fs::fallocate(made.as_fd(), FallocateFlags::empty(), 0, size) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Adds what helps to an error of the file system.
pub(crate) fn explain(operation: &'static str, path: PathBuf, errno: Errno) -> AgingError {
    let remedy = match errno {
        Errno::NOSPC | Errno::DQUOT => {
            "metadata and inodes need room beside the files: lower --fullness, or declare a smaller --size"
        }
        Errno::ROFS => "the file system turned read-only, most often after an error: see `dmesg` and check it",
        Errno::IO | Errno::NODEV | Errno::NXIO | Errno::STALE => "the device failed or went away: see `dmesg`",
        Errno::MFILE | Errno::NFILE => "raise the number of open files (`ulimit -n`) or lower --threads",
        Errno::OPNOTSUPP => "this file system cannot allocate without writing: use --data write or --data sparse",
        Errno::FBIG => "the file system has a smaller greatest file size: use --truncate-sizes",
        Errno::EXIST => "the directory holds a file that the plan has not made yet: was it changed from outside?",
        Errno::NOENT => "something that the plan made is gone: was the directory changed from outside?",
        _ => "",
    };
    IoFailure::new(operation, path, errno).with_remedy(remedy).into()
}

/// Name of a file as the kernel wants it, without an allocation.
pub(crate) struct Name([u8; 14]);

impl Name {
    pub fn new(birth: u64) -> Self {
        let mut bytes = [0; 14];
        bytes[0] = b'f';
        for (index, byte) in bytes[1..13].iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(birth >> (44 - 4 * index)) as usize & 15];
        }
        Self(bytes)
    }

    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.0).unwrap_or_default()
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0[..13]).unwrap_or_default()
    }

    /// The birth that a name of ours stands for.
    pub fn parse(name: &[u8]) -> Option<u64> {
        let digits = name.strip_prefix(b"f").filter(|digits| digits.len() == 12)?;
        let lower = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        lower.then(|| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())?
    }
}

impl AsRef<Path> for Name {
    fn as_ref(&self) -> &Path {
        Path::new(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_the_plan_and_parse_back() {
        for birth in [0, 15, 16, 0xabc_def0, (1 << 48) - 1] {
            let name = Name::new(birth);
            assert_eq!(name.as_str(), crate::plan::file_name(birth));
            assert_eq!(name.as_c_str().to_bytes(), name.as_str().as_bytes());
            assert_eq!(Name::parse(name.as_str().as_bytes()), Some(birth));
        }
        assert_eq!(Name::parse(b"f00000000000G"), None);
        assert_eq!(Name::parse(b"lost+found"), None);
    }
}
