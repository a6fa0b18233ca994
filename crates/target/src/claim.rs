//! The guard: ownership is a question whose default answer is "not ours".

use senesce_core::failure::{Classify, ExitCode, errno_words};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// The marker of a directory of ours.
pub const MARKER: &str = ".senesce";

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It holds data or is in use.
    #[error("refused to use {target}: {found}; {remedy}")]
    Refused {
        /// The target.
        target: String,
        /// What was found there.
        found: String,
        /// The flag or step that would allow it.
        remedy: String,
    },
    /// An operation on it failed.
    #[error("{operation} {path}: {words}", words = errno_words(source))]
    Io {
        /// What was being done.
        operation: String,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// Something it needs is missing.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What is missing.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// The words that name it are wrong.
    #[error("{0}")]
    Usage(String),
}

impl Classify for TargetError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Refused { .. } => ExitCode::Refused,
            Self::Io { .. } => ExitCode::RunFailed,
            Self::Missing { .. } => ExitCode::Missing,
            Self::Usage(_) => ExitCode::Usage,
        }
    }
}

/// A directory that the guard found to be ours: new, empty, carrying our marker, or named in `--erase`.
#[derive(Debug)]
pub struct ClaimedDirectory {
    path: PathBuf,
    handle: File,
}

impl ClaimedDirectory {
    /// Claims `path`, making it if it does not exist. A non-empty directory without the marker is refused unless
    /// `erase` repeats its path exactly.
    pub fn claim(path: &Path, erase: Option<&str>) -> Result<Self, TargetError> {
        let io = |operation: &str, source| TargetError::Io { operation: operation.into(), path: path.into(), source };
        fs::create_dir_all(path).map_err(|source| io("make directory", source))?;
        let handle = File::open(path).map_err(|source| io("open directory", source))?;
        let marked = path.join(MARKER).exists();
        let foreign = fs::read_dir(path)
            .map_err(|source| io("list", source))?
            .flatten()
            .filter(|entry| entry.file_name() != MARKER && entry.file_name() != "lost+found")
            .count();
        if foreign > 0 && !marked && erase != Some(&*path.to_string_lossy()) {
            return Err(TargetError::Refused {
                target: path.display().to_string(),
                found: format!("the directory holds {foreign} entries and no marker {MARKER}"),
                remedy: format!("choose an empty directory, or allow it with --erase {}", path.display()),
            });
        }
        if !marked {
            fs::write(path.join(MARKER), "this directory belongs to senesce; its content may be deleted by it\n")
                .map_err(|source| io("write the marker into", source))?;
        }
        Ok(Self { path: path.into(), handle })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its descriptor, for `openat` and its relatives.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_directory_is_refused_until_its_path_is_repeated() {
        let room = tempfile::tempdir().unwrap();
        fs::write(room.path().join("thesis.txt"), "precious").unwrap();
        let error = ClaimedDirectory::claim(room.path(), None).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Refused);
        let path = room.path().to_string_lossy().into_owned();
        assert!(ClaimedDirectory::claim(room.path(), Some(&path)).is_ok());
        assert!(ClaimedDirectory::claim(room.path(), None).is_ok(), "now it carries the marker");
    }
}
