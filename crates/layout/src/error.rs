//! Errors of layout examinations.

use senesce_core::IoFailure;
use senesce_core::environment::remedy_of_denied_access;
use senesce_core::failure::{Classify, ExitCode};
use senesce_volume::TargetError;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    #[error(transparent)]
    Io(#[from] IoFailure),
    #[error("cannot {operation} {path}: permission denied\nhint: {}", remedy_of_denied_access())]
    Permission { operation: &'static str, path: PathBuf },
    /// The file system does not report extents on a block device.
    #[error(
        "{path}: {filesystem} does not report the location of data\nhint: use a directory on ext4, xfs, btrfs, f2fs or nilfs2, \
         or an image or device that holds one"
    )]
    NoExtents { path: PathBuf, filesystem: String },
    /// The selected method does not support the target.
    #[error("{method} cannot be used on {path}: {reason}")]
    Method { method: &'static str, path: PathBuf, reason: String },
    #[error("{structure}: {problem}\nhint: check the file system with its fsck")]
    Malformed { structure: &'static str, problem: String },
    #[error("{}; {source}", reasons.join("; "))]
    Unsound { reasons: Vec<String>, source: Box<LayoutError> },
    /// The image or device could not be examined.
    #[error("cannot read {path}: {}", without_name(path, source))]
    Target { path: PathBuf, source: TargetError },
}

impl LayoutError {
    pub(crate) fn io(operation: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.as_ref().to_path_buf(), source.into());
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { operation, path },
            _ => IoFailure::new(operation, path, source).into(),
        }
    }
}

impl Classify for LayoutError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io(failure) if failure.kind() == io::ErrorKind::NotFound => ExitCode::Usage,
            Self::Io(failure) => failure.exit_code(),
            Self::Malformed { .. } => ExitCode::RunFailed,
            Self::Permission { .. } | Self::NoExtents { .. } => ExitCode::Missing,
            Self::Method { .. } => ExitCode::Usage,
            Self::Unsound { source, .. } => source.exit_code(),
            // The kernel does not mount it, so it is a wrong file, as one without a file system.
            Self::Target { source: TargetError::Program { .. }, .. } => ExitCode::Usage,
            Self::Target { source, .. } => source.exit_code(),
        }
    }
}

/// Returns the text of an error without the name of the target, if it begins with it.
fn without_name(path: &Path, source: &TargetError) -> String {
    match source {
        TargetError::Damaged { path: named, problem } if named == path => problem.clone(),
        other => other.to_string(),
    }
}
