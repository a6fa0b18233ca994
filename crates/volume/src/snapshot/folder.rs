//! Ownership of a folder of snapshots. Its files become the content of a target, so no other user may have put them
//! there.

use super::medium::Medium;
use crate::error::TargetError;
use rustix::fs::{FileType, Stat};
use senesce_core::input::InputFolder;
use senesce_core::machine::owner_here;
use std::path::Path;

/// Refuses a folder whose owner or writers could not write the target anyway. A new folder is created for its owner
/// only.
pub(super) fn check(folder: &Path, medium: &Medium) -> Result<(), TargetError> {
    let Ok(own) = rustix::fs::lstat(folder) else { return Ok(()) };
    let found = rustix::fs::stat(folder).map_err(TargetError::errno("inspect", folder))?;
    let ours = PackageOwners {
        users: [Some(0), Some(rustix::process::geteuid().as_raw()), medium.owner()],
        groups: [Some(rustix::process::getegid().as_raw()), medium.group()],
    };
    let is_link = FileType::from_raw_mode(own.st_mode) == FileType::Symlink;
    let problem = if is_link { ours.foreign_owner(&own) } else { None };
    match problem.or_else(|| ours.problem(&found)) {
        None => Ok(()),
        Some(problem) => Err(TargetError::refused(
            folder.display(),
            format!("{problem}: other users may put files there, which a restore would write to the target"),
            "name another folder with --store, or check its content and make it private (chown, chmod go-w)",
        )),
    }
}

/// Opens a file of a folder of snapshots, never through a link: the folder may belong to the image's owner, who may not
/// read all files that root may.
pub(super) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let name = path.file_name().unwrap_or_default();
    InputFolder::open(path.parent().unwrap_or(Path::new(".")))?.file(Path::new(name))
}

pub(super) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let name = path.file_name().unwrap_or_default();
    InputFolder::open(path.parent().unwrap_or(Path::new(".")))?.read(Path::new(name))
}

struct PackageOwners {
    users: [Option<u32>; 3],
    groups: [Option<u32>; 2],
}

impl PackageOwners {
    fn problem(&self, folder: &Stat) -> Option<String> {
        self.foreign_owner(folder).or_else(|| match folder.st_mode {
            mode if mode & 0o002 != 0 => Some("all users may write there".into()),
            // Created with umask 002, in the user's group; the group of the image may write the image anyway.
            mode if mode & 0o020 != 0 && !self.groups.contains(&Some(folder.st_gid)) => {
                Some(format!("group {} may write there", folder.st_gid))
            }
            _ => None,
        })
    }

    fn foreign_owner(&self, found: &Stat) -> Option<String> {
        (!self.users.contains(&Some(owner_here(found.st_uid)))).then(|| format!("it belongs to user {}", found.st_uid))
    }
}
