//! The runtime folder: mount points, small scratch directories, and the ledger of pending clean-up. Root uses
//! `/run/senesce`, a user `$XDG_RUNTIME_DIR/senesce` (XDG base directory specification), else `senesce-UID` in the
//! temporary directory. Its mode is 0700, and it is checked through its descriptor before use.

use crate::error::TargetError;
use rustix::fs::{Access, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use senesce_core::machine::owner_here;
use std::fs::File;
use std::path::{Path, PathBuf};

pub(crate) const OF_ROOT: &str = "/run/senesce";

/// Creates the folder if it is missing. Refuses one of another user.
pub(crate) fn folder() -> Result<PathBuf, TargetError> {
    let user = rustix::process::geteuid();
    let preferred = match user.is_root() {
        true => Some(PathBuf::from(OF_ROOT)),
        false => std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| is_runtime_of_user(path)),
    };
    if let Some(path) = preferred {
        let path = if user.is_root() { path } else { path.join("senesce") };
        // In some containers /run is not writable.
        if private(&path).is_ok() {
            return Ok(path);
        }
    }
    let base = std::env::temp_dir();
    check_shared(&base)?;
    let path = base.join(format!("senesce-{}", user.as_raw()));
    private(&path)?;
    Ok(path)
}

/// Refuses a folder that cannot be written, as below a read-only root: no mount could be undone.
pub(crate) fn check_writable() -> Result<(), TargetError> {
    let path = folder()?;
    rustix::fs::access(&path, Access::WRITE_OK).map_err(TargetError::errno("write to", &path))
}

pub fn subfolder(name: &str) -> Result<PathBuf, TargetError> {
    let path = folder()?.join(name);
    private(&path)?;
    Ok(path)
}

/// In a guest, shares may show the owners of the host.
pub(crate) fn is_own(owner: u32) -> bool {
    owner_here(owner) == rustix::process::geteuid().as_raw()
}

fn is_runtime_of_user(path: &Path) -> bool {
    let found = rustix::fs::stat(path);
    path.is_absolute() && found.is_ok_and(|found| is_own(found.st_uid) && found.st_mode & 0o022 == 0)
}

/// Opens a folder that only this user may enter, and creates it if it is missing. Never follows a link.
pub(crate) fn private(path: &Path) -> Result<File, TargetError> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(TargetError::errno("make directory", path)(errno)),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let foreign = |found: &str| {
        TargetError::refused(
            path.display(),
            found,
            "it must belong to this user only; remove it, or set XDG_RUNTIME_DIR or TMPDIR",
        )
    };
    let folder = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(foreign("it is a link or a file, not a directory")),
        Err(Errno::ACCESS) => return Err(foreign("another user's directory has this name")),
        Err(errno) => return Err(TargetError::errno("open directory", path)(errno)),
    };
    let found = rustix::fs::fstat(&folder).map_err(TargetError::errno("inspect", path))?;
    if !is_own(found.st_uid) {
        return Err(foreign(&format!("it belongs to user {}", found.st_uid)));
    }
    if found.st_mode & 0o777 != 0o700 {
        rustix::fs::fchmod(&folder, Mode::RWXU).map_err(TargetError::errno("set the mode of", path))?;
    }
    Ok(folder.into())
}

/// Refuses a world-writable folder without the sticky bit, as only that bit prevents others from replacing our files
/// (inode(7)).
pub(crate) fn check_shared(path: &Path) -> Result<(), TargetError> {
    let found = rustix::fs::stat(path).map_err(TargetError::errno("inspect", path))?;
    let own = is_own(found.st_uid) || found.st_uid == 0;
    let sticky = found.st_mode & 0o1000 != 0;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Err(TargetError::refused(path.display(), "it is not a directory", "set TMPDIR to one"));
    }
    if !sticky && (found.st_mode & 0o002 != 0 || !own) {
        return Err(TargetError::refused(
            path.display(),
            "others may replace files in it (no sticky bit)",
            "set its mode to 1777, or name another directory in TMPDIR",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn runtime_folder_is_private_and_planted_link_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own");
        private(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        private(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700, "made tight again");
        let link = directory.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(matches!(private(&link), Err(TargetError::Refused { .. })));
        std::fs::write(directory.path().join("file"), "").unwrap();
        assert!(matches!(private(&directory.path().join("file")), Err(TargetError::Refused { .. })));
    }

    #[test]
    #[ignore = "needs root"]
    fn folder_of_another_user_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("planted");
        std::fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
        let error = private(&path).unwrap_err();
        assert!(error.to_string().contains("belongs to user 1234"), "{error}");
    }

    #[test]
    fn a_shared_folder_needs_the_sticky_bit() {
        let directory = tempfile::tempdir().unwrap();
        let mode = |mode| std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o777);
        assert!(check_shared(directory.path()).is_err());
        mode(0o1777);
        check_shared(directory.path()).unwrap();
        mode(0o700);
        check_shared(directory.path()).unwrap();
    }
}
