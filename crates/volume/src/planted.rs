//! Files that another user may have placed under a name that this user chose. Writing into such a file would give away
//! its content.

use crate::error::TargetError;
use rustix::fs::{FileType, Stat};
use senesce_core::machine::owner_here;
use senesce_core::output::{Folder, UntrustedLink};
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

const MOST_LINKS: usize = 40;

/// Refuses an open file in a folder where others create files, if it belongs to them, has several names, or was reached
/// by their link at any level. Root also uses files of a user in that user's own folder.
pub(crate) fn check(file: &File, path: &Path) -> Result<(), TargetError> {
    let found = rustix::fs::fstat(file).map_err(TargetError::errno("inspect", path))?;
    let me = rustix::process::geteuid().as_raw();
    let mut at = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let (folder, name) = place(&at)?;
        let there = rustix::fs::statat(&folder, &name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
            .map_err(TargetError::errno("inspect", &at))?;
        if FileType::from_raw_mode(there.st_mode) != FileType::Symlink {
            return check_place(&found, &there, &folder, path);
        }
        if let Some(problem) = FileOwnership::of(&there, &folder, &at)?.problem(me) {
            return Err(refused(path, format!("the link {} leads to it, and the link {problem}", at.display())));
        }
        UntrustedLink::refuse(&at, &there, &found).map_err(|planted| TargetError::io("use", path)(planted.into()))?;
        let to = at.read_link().map_err(TargetError::io("read link", &at))?;
        at = at.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(TargetError::errno("inspect", path)(rustix::io::Errno::LOOP))
}

fn place(path: &Path) -> Result<(Folder, OsString), TargetError> {
    let open = |path: &Path| Folder::open(path).map_err(TargetError::io("inspect", path));
    match path.file_name() {
        Some(name) => {
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            Ok((open(above.unwrap_or(Path::new(".")))?, name.into()))
        }
        None => Ok((open(path)?, ".".into())),
    }
}

fn check_place(found: &Stat, there: &Stat, folder: &Folder, path: &Path) -> Result<(), TargetError> {
    if (found.st_dev, found.st_ino) != (there.st_dev, there.st_ino) {
        return Err(refused(path, "another file took its name meanwhile".into()));
    }
    match FileOwnership::of(found, folder, path)?.problem(rustix::process::geteuid().as_raw()) {
        Some(problem) => Err(refused(path, format!("it {problem}"))),
        None => Ok(()),
    }
}

fn refused(path: &Path, found: String) -> TargetError {
    let remedy = "remove it, or choose a folder in which only you make files; no flag allows it";
    TargetError::refused(path.display(), format!("{found}: others may read or change it"), remedy)
}

struct FileOwnership {
    owner: u32,
    names: u64,
    folder_owner: u32,
    folder_mode: u32,
}

impl FileOwnership {
    fn of(found: &Stat, folder: &Folder, path: &Path) -> Result<Self, TargetError> {
        let around = rustix::fs::fstat(folder).map_err(TargetError::errno("check the folder of ", path))?;
        #[allow(clippy::unnecessary_cast, reason = "its width depends on the processor")]
        let names = match FileType::from_raw_mode(found.st_mode) {
            // The other links of a directory are `.` and its children's `..`.
            FileType::Directory => 1,
            _ => found.st_nlink as u64,
        };
        let (owner, folder_owner) = (owner_here(found.st_uid), owner_here(around.st_uid));
        Ok(Self { owner, names, folder_owner, folder_mode: around.st_mode })
    }

    fn problem(&self, me: u32) -> Option<String> {
        let theirs = || Some(format!("belongs to user {}, and others may create files in its folder", self.owner));
        let is_own = self.owner == 0 || self.owner == me;
        match me {
            // Members of a group that shares a folder may use each other's files.
            user if user != 0 && (is_own || self.folder_mode & 0o002 == 0) => None,
            user if user != 0 => theirs(),
            _ if !self.others_make_files() => None,
            _ if is_own && self.names > 1 => {
                Some("has several names, and others may create files in its folder".into())
            }
            _ if is_own || self.folder_owner == self.owner && self.folder_mode & 0o002 == 0 => None,
            _ => theirs(),
        }
    }

    fn others_make_files(&self) -> bool {
        self.folder_owner != 0 || self.folder_mode & 0o022 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(me: u32, owner: u32, folder: (u32, u32)) -> bool {
        FileOwnership { owner, names: 1, folder_owner: folder.0, folder_mode: folder.1 }.problem(me).is_some()
    }

    #[test]
    fn root_accepts_users_files_only_in_their_own_folders() {
        let (shared, system, home) = ((0, 0o1777), (0, 0o755), (1000, 0o775));
        for (owner, folder) in
            [(0, shared), (0, home), (0, system), (1000, system), (1000, home), (1000, (1000, 0o700))]
        {
            assert!(!is_refused(0, owner, folder), "{owner} {folder:?}");
        }
        let refused = [shared, (0, 0o775), (2000, 0o755), (1000, 0o1777), (1000, 0o777)];
        assert!(refused.into_iter().all(|folder| is_refused(0, 1000, folder)));
        assert!(!is_refused(1000, 1000, shared) && !is_refused(1000, 0, shared) && is_refused(1000, 2000, shared));
        assert!(!is_refused(1000, 2000, (2000, 0o2775)), "a folder of a group");
    }

    #[test]
    fn hard_links_are_refused_in_shared_folders() {
        let refused = |owner, folder: (u32, u32)| {
            FileOwnership { owner, names: 2, folder_owner: folder.0, folder_mode: folder.1 }.problem(0).is_some()
        };
        assert!(refused(0, (0, 0o1777)) && refused(0, (1000, 0o755)));
        assert!(!refused(0, (0, 0o755)) && !refused(1000, (1000, 0o755)));
    }
}
