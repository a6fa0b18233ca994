//! Whether an image that a run created still holds only what senesce wrote.

use crate::claim::MarkedAs;
use crate::{OpenOptions, TargetError, TargetSpec, marked_as, visit};
use std::path::Path;
use std::time::Duration;

/// A kill within mkfs leaves a file system that cannot be mounted. Only a file that was last written this soon after its
/// creation can be one.
const MKFS_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// The directory that mkfs makes in the root of a file system.
const OF_MKFS: &str = "lost+found";

/// Returns whether the image `path`, created by an earlier part of the run with the identity `run`, holds only what this run
/// wrote: a file system with a marker that does not name another aging, or without files, or what mkfs left when it was
/// killed. Another program may have written into the same file since then. An image that cannot be examined counts as
/// written by others.
pub fn holds_only_ours(path: &Path, run: &str) -> bool {
    is_just_made(path) || has_our_file_system(path, run).unwrap_or(false)
}

fn is_just_made(path: &Path) -> bool {
    let Ok(found) = path.symlink_metadata() else { return false };
    let times = found.created().ok().zip(found.modified().ok());
    let lasted = times.and_then(|(created, modified)| modified.duration_since(created).ok());
    lasted.is_some_and(|lasted| lasted < MKFS_ENDS_WITHIN)
}

fn has_our_file_system(path: &Path, run: &str) -> Result<bool, TargetError> {
    let image = TargetSpec::Image { path: path.into(), size: None };
    let mounted = visit(&image, &OpenOptions::inspect())?;
    let root = mounted.mount_point();
    let is_ours = match marked_as(root)? {
        // The marker has the first digits of the identity.
        MarkedAs::Aging(named) => run.starts_with(&named),
        MarkedAs::Unnamed | MarkedAs::Unwritten => true,
        MarkedAs::Missing => is_empty(root)?,
    };
    mounted.close()?;
    Ok(is_ours)
}

fn is_empty(root: &Path) -> Result<bool, TargetError> {
    let failed = |error| TargetError::io("list", root)(error);
    for entry in root.read_dir().map_err(failed)? {
        if entry.map_err(failed)?.file_name() != OF_MKFS {
            return Ok(false);
        }
    }
    Ok(true)
}
