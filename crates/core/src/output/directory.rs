//! A directory that a user named to be written into.

use super::{OutputError, io_error};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// What stands where a directory belongs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} is {found}, and a directory is wanted; choose another place")]
pub struct Obstacle {
    /// The directory itself, or one above it.
    pub path: PathBuf,
    /// What it is ("a file").
    pub found: &'static str,
}

/// What hinders a directory `path` from being used or made. A link to a directory is one. `None`: nothing does.
pub fn obstacle(path: &Path) -> Option<Obstacle> {
    let (at, found) = path.ancestors().find_map(|at| Some((at, at.symlink_metadata().ok()?)))?;
    if at.is_dir() {
        return None;
    }
    let kind = found.file_type();
    let found = match () {
        () if kind.is_symlink() && !at.exists() => "a symbolic link that leads nowhere",
        () if kind.is_symlink() => "a symbolic link to what is no directory",
        () if kind.is_file() => "a file",
        () if kind.is_block_device() || kind.is_char_device() => "a device",
        () if kind.is_fifo() => "a pipe",
        () => "a socket or of an unknown kind",
    };
    Some(Obstacle { path: at.into(), found })
}

/// Makes a directory with those above it, where it is not there.
///
/// # Errors
/// [`OutputError::NoDirectory`] where something else has its name.
pub fn directory(path: &Path) -> Result<(), OutputError> {
    if let Some(found) = obstacle(path) {
        return Err(OutputError::NoDirectory(found));
    }
    fs::create_dir_all(path).map_err(io_error("make directory", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Classify, ExitCode};
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_no_directory_is_named() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        fs::write(at("file"), "precious").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        for (name, found) in [
            ("file", "file is a file"),
            ("file/a/b", "file is a file"),
            ("link", "link is a symbolic link to what is no directory"),
            ("dangling", "dangling is a symbolic link that leads nowhere"),
            ("dangling/a", "dangling is a symbolic link that leads nowhere"),
        ] {
            let error = directory(&at(name)).unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::Usage, "{name}");
            assert!(error.to_string().contains(found), "{name}: {error}");
        }
        assert_eq!(obstacle(Path::new("/dev/null")).unwrap().found, "a device");
        assert_eq!(fs::read(at("file")).unwrap(), b"precious");
        symlink(temporary.path(), at("to-directory")).unwrap();
        directory(&at("to-directory/new/one")).unwrap();
        assert!(at("new/one").is_dir());
        assert_eq!((obstacle(Path::new("")), obstacle(Path::new("no-such-directory/x"))), (None, None));
    }
}
