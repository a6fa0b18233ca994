//! Brings a directory back to a recorded state: first away with what should not be there, then what is missing.

use super::{Listing, find, list};
use crate::error::AgingError;
use crate::execute::{Descriptors, DirectoryTarget, Hand, Name, PlanTarget, Shard, explain};
use crate::namespace::Namespace;
use crate::planner::Planner;
use rustix::fs::{AtFlags, Mode, OFlags, openat, statat, unlinkat};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::os::fd::AsFd;

/// What was done to bring a directory to a recorded state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciled {
    /// Files that the recorded state does not have yet, taken away.
    pub removed: u64,
    /// Files that were gone already, made again.
    pub restored: u64,
    /// Files of a wrong size, made again.
    pub repaired: u64,
}

/// Brings the directory of `backend` to exactly the live files of `planner`: after a kill it may be a window of operations ahead of
/// the record, with a file half-written. Only names which a plan could have made are taken away.
///
/// # Errors
/// As [`clear`] and [`Cleared::restore`]. The same call goes on from there.
pub fn reconcile(
    planner: &Planner,
    backend: &DirectoryTarget<'_>,
    shard: Option<Shard>,
) -> Result<Reconciled, AgingError> {
    clear(planner, backend, shard)?.restore(planner, backend)
}

/// A directory without the files that its recorded state does not have.
#[derive(Debug)]
pub struct Cleared {
    /// Places of the files in the namespace that are to be made.
    missing: Vec<u32>,
    done: Reconciled,
}

/// The first half of [`reconcile`]: makes the directories and takes away what should not be there, in all of them before any file is
/// made, so that it needs no more room than the plan.
///
/// # Errors
/// [`AgingError::Io`] when a directory cannot be made or listed, or a file not be looked at or deleted. The same call goes on from
/// there.
pub fn clear(planner: &Planner, backend: &DirectoryTarget<'_>, shard: Option<Shard>) -> Result<Cleared, AgingError> {
    backend.prepare()?;
    let mut hand = backend.hand(2)?;
    let mut descriptors = backend.descriptors(2)?;
    let namespace = planner.namespace();
    let mut cleared = Cleared { missing: Vec::new(), done: Reconciled::default() };
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
            let found = statat(descriptors.get(directory)?, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| explain("look at", descriptors.path(directory).join(&name), errno))?;
            if found.st_size as u64 != file.size {
                hand.delete(&file)?;
                cleared.missing.push(place as u32);
                cleared.done.repaired += 1;
            }
        }
    }
    Ok(cleared)
}

impl Cleared {
    /// The second half: makes the files that are missing. What other ranks clear should be cleared before.
    ///
    /// # Errors
    /// [`AgingError::Io`] when a file cannot be made, also once the file system has committed what was taken away.
    pub fn restore(self, planner: &Planner, backend: &DirectoryTarget<'_>) -> Result<Reconciled, AgingError> {
        if self.missing.is_empty() {
            return Ok(self.done);
        }
        let mut hand = backend.hand(1)?;
        let namespace = planner.namespace();
        for place in &self.missing {
            let file = namespace.file(*place as usize);
            with_room(backend, || hand.create(&file, false))?;
        }
        with_room(backend, || hand.finish())?;
        Ok(self.done)
    }
}

/// Does something, where there is no room for it once more after a commit.
fn with_room(backend: &impl PlanTarget, mut act: impl FnMut() -> Result<(), AgingError>) -> Result<(), AgingError> {
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
    // Cached descriptors only name a directory; to list it, it is opened once more.
    let opened = openat(descriptors.get(directory)?, ".", flags, Mode::empty())
        .map_err(|errno| AgingError::io("open directory", &path, errno))?;
    list(opened.as_fd(), &path, |name| find(namespace, places, name))
}
