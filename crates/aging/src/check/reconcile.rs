//! Restores a recorded state of a directory: first removes extra files, then creates missing ones.

use super::content::{Buffers, ContentCheck};
use super::{Listing, find, list, open_file};
use crate::error::AgingError;
use crate::execute::{Descriptors, DirectoryTarget, Name, PlanExecutor, PlanTarget, Shard, explain};
use crate::namespace::Namespace;
use crate::planner::{File, Planner};
use rustix::fs::{AtFlags, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ops::{ControlFlow, Range};
use std::os::fd::{AsFd, BorrowedFd};

/// Work to restore a recorded state of a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciliation {
    /// Files removed because the recorded state does not have them yet.
    pub removed: u64,
    /// Missing files created again.
    pub restored: u64,
    /// Files of a wrong size or content created again.
    pub repaired: u64,
}

/// How much of each existing file is compared with the recorded state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileComparison {
    /// Only its size: its data was written back without an error.
    #[default]
    Size,
    /// Its size and its content: a write may have failed, or data may have been lost in the cache of a guest.
    Content,
}

/// Makes the directory of `backend` match the live files of `planner` exactly. After a kill it may be a window of operations
/// ahead of the record, with an incomplete file. Only names that a plan can make are removed.
///
/// # Errors
/// Those of [`clear`] and [`PartialReconciliation::restore`]. The same call continues after a failure.
pub fn reconcile(
    planner: &Planner,
    backend: &DirectoryTarget<'_>,
    shard: Option<Shard>,
    comparison: FileComparison,
) -> Result<Reconciliation, AgingError> {
    clear(planner, backend, shard, comparison, &mut |_| ControlFlow::Continue(()))?.restore(planner, backend)
}

#[derive(Debug)]
pub struct PartialReconciliation {
    missing: Vec<u32>,
    done: Reconciliation,
}

/// Creates the directories, then removes extra files from all of them. This is the first half of [`reconcile`]. It
/// creates no file before all extra files are gone, so it needs no more space than the plan.
///
/// # Errors
/// [`AgingError::Io`] when a directory cannot be created or listed, or a file cannot be inspected, read or deleted;
/// [`AgingError::Interrupted`] if `after_file`, which gets the bytes of each compared file, breaks. The same call continues
/// after a failure.
pub fn clear(
    planner: &Planner,
    backend: &DirectoryTarget<'_>,
    shard: Option<Shard>,
    comparison: FileComparison,
    after_file: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<PartialReconciliation, AgingError> {
    backend.prepare()?;
    let content =
        (comparison == FileComparison::Content).then(|| ContentCheck::new(backend.data(), planner.plan().spec().seed));
    let mut buffers = Buffers::default();
    let mut hand = backend.hand(2)?;
    let mut descriptors = backend.descriptors(2)?;
    let namespace = planner.namespace();
    let mut cleared = PartialReconciliation { missing: Vec::new(), done: Reconciliation::default() };
    let count = planner.plan().directories().count();
    let places = namespace.places(count);
    for directory in (0..count).filter(|directory| shard.is_none_or(|shard| shard.owns(*directory))) {
        let places = places[directory as usize].clone();
        let listing = listing_of(&mut descriptors, directory, &namespace, &places)?;
        for name in listing.strangers.iter().filter(|name| Name::parse(name.as_os_str().as_encoded_bytes()).is_some()) {
            unlinkat(descriptors.get(directory)?, name, AtFlags::empty())
                .map_err(|errno| explain("delete", descriptors.path(directory).join(name), errno))?;
            cleared.done.removed += 1;
        }
        for place in places.clone() {
            if !listing.seen[place - places.start] {
                cleared.missing.push(place as u32);
                cleared.done.restored += 1;
                continue;
            }
            let file = namespace.file(place);
            let name = Name::of(&file);
            let existing = ExistingFile { directory: descriptors.get(directory)?, name: &name, file: &file };
            let is_equal = existing
                .is_equal(content.as_ref(), &mut buffers)
                .map_err(|errno| explain("inspect", descriptors.path(directory).join(&name), errno))?;
            if !is_equal {
                hand.delete(&file)?;
                cleared.missing.push(place as u32);
                cleared.done.repaired += 1;
            }
            if content.is_some() && after_file(file.size).is_break() {
                return Err(AgingError::Interrupted);
            }
        }
    }
    Ok(cleared)
}

/// A file with the name of a file of the plan.
struct ExistingFile<'a> {
    directory: BorrowedFd<'a>,
    name: &'a Name,
    file: &'a File,
}

impl ExistingFile<'_> {
    /// Returns whether it has the size, and with `content` also the content, that it has in the plan.
    fn is_equal(&self, content: Option<&ContentCheck>, buffers: &mut Buffers) -> Result<bool, Errno> {
        let found = statat(self.directory, self.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
        let has_size = found.st_size as u64 == self.file.size;
        let Some(content) = content.filter(|_| has_size) else { return Ok(has_size) };
        let compared =
            open_file(self.directory, self.name).and_then(|opened| content.compare(&opened, self.file, buffers));
        match compared {
            // A link of this size, or data that was lost (btrfs checks its checksum).
            Err(Errno::LOOP | Errno::IO) => Ok(false),
            compared => Ok(compared?.wrong_from.is_none()),
        }
    }
}

impl PartialReconciliation {
    /// Creates the missing files, which is the second half of [`reconcile`]. All ranks should be cleared before.
    ///
    /// # Errors
    /// [`AgingError::Io`] when a file cannot be created, even after a commit of the deletes.
    pub fn restore(self, planner: &Planner, backend: &DirectoryTarget<'_>) -> Result<Reconciliation, AgingError> {
        if self.missing.is_empty() {
            return Ok(self.done);
        }
        let mut hand = backend.hand(1)?;
        let namespace = planner.namespace();
        for place in &self.missing {
            let file = namespace.file(*place as usize);
            retry_after_commit(backend, || hand.create(&file, false))?;
        }
        retry_after_commit(backend, || hand.finish())?;
        Ok(self.done)
    }
}

/// Runs `act`, and again after a commit if space is missing.
fn retry_after_commit(
    backend: &impl PlanTarget,
    mut act: impl FnMut() -> Result<(), AgingError>,
) -> Result<(), AgingError> {
    match act() {
        Err(error) if error.is_full() => {
            backend.commit()?;
            act()
        }
        result => result,
    }
}

fn listing_of(
    descriptors: &mut Descriptors,
    directory: u32,
    namespace: &Namespace<'_>,
    places: &Range<usize>,
) -> Result<Listing, AgingError> {
    let path = descriptors.path(directory);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Cached descriptors are O_PATH; listing needs a readable one.
    let opened = openat(descriptors.get(directory)?, ".", flags, Mode::empty())
        .map_err(|errno| AgingError::io("open directory", &path, errno))?;
    list(opened.as_fd(), &path, |name| find(namespace, places, name))
}
