//! Whose a folder of snapshots is. What lies there becomes the content of a target: nobody else may have put it there.

use super::medium::Medium;
use crate::error::TargetError;
use rustix::fs::{FileType, Stat};
use senesce_core::input::Within;
use std::path::Path;

/// Refuses a folder that belongs to, or may be written by, somebody who could not write the target anyway. One that is not
/// there yet is made for its owner alone.
pub(super) fn check(folder: &Path, medium: &Medium) -> Result<(), TargetError> {
    let Ok(own) = rustix::fs::lstat(folder) else { return Ok(()) };
    let found = rustix::fs::stat(folder).map_err(TargetError::errno("look at", folder))?;
    let ours = Ours {
        users: [Some(0), Some(rustix::process::geteuid().as_raw()), medium.owner()],
        groups: [Some(rustix::process::getegid().as_raw()), medium.group()],
    };
    let is_link = FileType::from_raw_mode(own.st_mode) == FileType::Symlink;
    let problem = if is_link { ours.foreign_owner(&own) } else { None };
    match problem.or_else(|| ours.problem(&found)) {
        None => Ok(()),
        Some(problem) => Err(TargetError::refused(
            folder.display(),
            format!(
                "{problem}: what lies there may be put there by somebody else, and would become the content of the target"
            ),
            "name another folder with --store, or make it yours alone (chown, chmod go-w) once you know what is in it",
        )),
    }
}

/// Opens a file of a folder of snapshots, never through a link: the folder may be that of the image's owner, who may not read
/// all that root may.
pub(super) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let name = path.file_name().unwrap_or_default();
    Within::open(path.parent().unwrap_or(Path::new(".")))?.file(Path::new(name))
}

pub(super) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let name = path.file_name().unwrap_or_default();
    Within::open(path.parent().unwrap_or(Path::new(".")))?.read(Path::new(name))
}

/// Who is trusted with the content of the target.
struct Ours {
    users: [Option<u32>; 3],
    groups: [Option<u32>; 2],
}

impl Ours {
    fn problem(&self, folder: &Stat) -> Option<String> {
        self.foreign_owner(folder).or_else(|| match folder.st_mode {
            mode if mode & 0o002 != 0 => Some("everybody may write there".into()),
            // Made with a umask of 002, in the group of the user; that of the image may as well write the image.
            mode if mode & 0o020 != 0 && !self.groups.contains(&Some(folder.st_gid)) => {
                Some(format!("group {} may write there", folder.st_gid))
            }
            _ => None,
        })
    }

    fn foreign_owner(&self, found: &Stat) -> Option<String> {
        (!self.users.contains(&Some(found.st_uid))).then(|| format!("it belongs to user {}", found.st_uid))
    }
}
