//! Errors of making, mounting and checking a file system. Operations on a mounted one return `Errno`, as the kernel requires.

use senesce_core::environment::remedy_of_denied_access;
use senesce_core::failure::{Classify, ExitCode, errno_message};
use std::io;
use std::path::{Path, PathBuf};

/// Result of a file system operation.
///
/// Every change may fail with ESTALE (inode not in use), EIO (damage, or stores that did not become durable), or ENOSPC (no
/// free blocks in either tier). After a failed persist it fails with EROFS.
pub(crate) type FsResult<T> = Result<T, rustix::io::Errno>;

/// Why a region, a cold store or a mount point cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TierError {
    #[error("cannot {operation} {path}: {words}{before}{remedy}", words = errno_message(source), before = before(remedy))]
    Io {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
        /// May be empty.
        remedy: &'static str,
    },
    #[error(transparent)]
    Output(#[from] senesce_core::output::OutputError),
    #[error("{path} is not the {role} of a tier file system: {found}\nhint: make one with `senesce tier mkfs`")]
    Foreign { path: PathBuf, role: &'static str, found: String },
    #[error(
        "{path} has format version {found}, this program supports version {}\nhint: use the program version that created it",
        crate::format::FORMAT_VERSION
    )]
    Version { path: PathBuf, found: u32 },
    #[error(
        "{nvm} and {cold} belong to two different file systems\nhint: name the cold store that was made with this region"
    )]
    NotAPair { nvm: PathBuf, cold: PathBuf },
    #[error("{path} is truncated: {found} bytes, but its header states {expected}\nhint: restore the whole file")]
    Truncated { path: PathBuf, found: u64, expected: u64 },
    #[error("{path} is damaged: {problem}\nhint: `senesce tier check` lists all problems")]
    Damaged { path: PathBuf, problem: String },
    #[error("{path} is in use by another mount or check\nhint: unmount that first")]
    InUse { path: PathBuf },
    #[error("mount point {path}: {problem}")]
    MountPoint { path: PathBuf, problem: String },
    #[error("{what} is missing: {remedy}")]
    Missing { what: String, remedy: String },
    #[error("interrupted; the server continues the scrub, and `senesce tier stats` shows its counters")]
    Interrupted,
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Target(#[from] senesce_volume::TargetError),
}

impl Classify for TierError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io { .. } => ExitCode::RunFailed,
            Self::Damaged { .. } => ExitCode::Negative,
            Self::Foreign { .. }
            | Self::Version { .. }
            | Self::NotAPair { .. }
            | Self::Truncated { .. }
            | Self::InUse { .. }
            | Self::MountPoint { .. } => ExitCode::Refused,
            Self::Missing { .. } => ExitCode::Missing,
            Self::Interrupted => ExitCode::Interrupted,
            Self::Usage(_) => ExitCode::Usage,
            Self::Target(error) => error.exit_code(),
            Self::Output(error) => error.exit_code(),
        }
    }
}

fn before(remedy: &str) -> &'static str {
    if remedy.is_empty() { "" } else { "\nhint: " }
}

/// Creates [`TierError::Io`] with the usual remedy.
pub(crate) fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TierError {
    let path = path.to_path_buf();
    move |source| {
        let remedy = match source.raw_os_error() {
            Some(libc::ENOSPC) => "free some space there or choose a smaller size",
            Some(libc::EACCES | libc::EPERM) => remedy_of_denied_access(),
            Some(libc::ENOENT) => "check the path, or make it with `senesce tier mkfs` or mkdir",
            Some(libc::ENOTCONN) => "its server has died: umount it, then mount it again",
            _ => "",
        };
        TierError::Io { operation, path, source, remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_access_has_the_usual_remedy() {
        for number in [libc::EACCES, libc::EPERM] {
            let error = io_error("open", Path::new("region"))(io::Error::from_raw_os_error(number));
            assert!(error.to_string().ends_with(remedy_of_denied_access()), "{error}");
        }
    }
}
