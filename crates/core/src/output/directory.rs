//! Output directories that a user named.

use super::folder::{Folder, UntrustedLink};
use super::{OutputError, io_error};
use crate::failure::ExitCode;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// An existing file in place of a directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} is {found}, but a directory is required\nhint: choose another path")]
pub struct Obstacle {
    /// The path itself, or a parent.
    pub path: PathBuf,
    /// Description ("a file").
    pub found: String,
    /// Whether it is a link to a directory that root does not follow.
    pub planted: bool,
}

impl Obstacle {
    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.planted { ExitCode::Refused } else { ExitCode::Usage }
    }
}

impl From<&UntrustedLink> for Obstacle {
    fn from(planted: &UntrustedLink) -> Self {
        let UntrustedLink { link, owner, behind } = planted;
        let found =
            format!("a symbolic link of user {owner} to a directory of user {behind}, which root does not follow");
        Self { path: link.clone(), found, planted: true }
    }
}

/// Returns an obstacle to using or creating directory `path`. A link to a directory is an obstacle for root unless the owner of
/// the link may write there too.
pub fn obstacle(path: &Path) -> Option<Obstacle> {
    if let Err(error) = Folder::open(path)
        && let Some(planted) = UntrustedLink::in_error(&error)
    {
        return Some(planted.into());
    }
    let (at, found) = path.ancestors().find_map(|at| Some((at, at.symlink_metadata().ok()?)))?;
    if at.is_dir() {
        return None;
    }
    let kind = found.file_type();
    let found = match () {
        () if kind.is_symlink() && !at.exists() => "a dangling symbolic link",
        () if kind.is_symlink() => "a symbolic link to a file that is not a directory",
        () if kind.is_file() => "a file",
        () if kind.is_block_device() || kind.is_char_device() => "a device",
        () if kind.is_fifo() => "a pipe",
        () => "a socket or a file of an unknown type",
    };
    Some(Obstacle { path: at.into(), found: found.into(), planted: false })
}

/// Creates a directory and its parents if they are missing.
///
/// # Errors
/// [`OutputError::NoDirectory`] if another kind of file has its name.
pub fn directory(path: &Path) -> Result<(), OutputError> {
    // Parent of a plain name.
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    if let Some(found) = obstacle(path) {
        return Err(OutputError::NoDirectory(found));
    }
    Folder::make(path).map(drop).map_err(io_error("make directory", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Classify;
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};

    #[test]
    fn obstacles_are_described() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        fs::write(at("file"), "precious").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        for (name, found) in [
            ("file", "file is a file"),
            ("file/a/b", "file is a file"),
            ("link", "link is a symbolic link to a file that is not a directory"),
            ("dangling", "dangling is a dangling symbolic link"),
            ("dangling/a", "dangling is a dangling symbolic link"),
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
        directory(Path::new("")).unwrap();
        assert_eq!((obstacle(Path::new("")), obstacle(Path::new("no-such-directory/x"))), (None, None));
    }

    #[test]
    fn planted_link_is_refused_and_nothing_is_created_behind_it() {
        let room = tempfile::tempdir().unwrap();
        let at = |name: &str| room.path().join(name);
        [at("theirs"), at("ours")].iter().for_each(|path| fs::create_dir(path).unwrap());
        symlink(at("ours"), at("theirs/link")).unwrap();
        if !rustix::process::geteuid().is_root() || lchown(at("theirs/link"), Some(65534), None).is_err() {
            return eprintln!("files cannot be given away here");
        }
        for name in ["theirs/link", "theirs/link/new/one"] {
            let error = directory(&at(name)).unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::Refused, "{error}");
            assert!(error.to_string().contains("link of user 65534 to a directory of user 0"), "{error}");
        }
        assert_eq!(fs::read_dir(at("ours")).unwrap().count(), 0);
    }
}
