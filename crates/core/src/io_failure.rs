//! The I/O error type: operation, path, cause and remedy.

use crate::failure::{ExitCode, errno_message};
use crate::output::UntrustedLink;
use std::borrow::Cow;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An operation on a path that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {path}: {message}{remedy}", message = errno_message(source), remedy = behind(remedy))]
pub struct IoFailure {
    /// Operation, such as "read".
    pub operation: Cow<'static, str>,
    /// Path of the operation.
    pub path: PathBuf,
    /// Remedy, such as "run as root"; may be empty.
    pub remedy: Cow<'static, str>,
    /// Error of the system call.
    #[source]
    pub source: io::Error,
}

impl IoFailure {
    /// Adds the usual remedy for this kind of error.
    pub fn new(
        operation: impl Into<Cow<'static, str>>,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        let source = source.into();
        Self { operation: operation.into(), path: path.into(), remedy: usual_remedy(source.kind()).into(), source }
    }

    /// Replaces the remedy, unless the new one is empty.
    pub fn with_remedy(mut self, remedy: impl Into<Cow<'static, str>>) -> Self {
        let remedy = remedy.into();
        if !remedy.is_empty() {
            self.remedy = remedy;
        }
        self
    }

    /// Returns the kind of the cause.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// Returns [`ExitCode::Refused`] for a link that root does not follow, otherwise [`ExitCode::RunFailed`].
    pub fn exit_code(&self) -> ExitCode {
        match UntrustedLink::in_error(&self.source) {
            Some(_) => ExitCode::Refused,
            None => ExitCode::RunFailed,
        }
    }
}

fn usual_remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there or choose another path",
        io::ErrorKind::PermissionDenied => "check the permissions; root may be needed",
        io::ErrorKind::ReadOnlyFilesystem => "remount it read-write or choose another path",
        _ => "",
    }
}

/// Names the folder that denies access because it belongs to another user, as the beginning of a remedy.
pub(crate) fn remedy_of_denial(path: &Path) -> String {
    let own = rustix::process::geteuid().as_raw();
    let owner_of = |at: &Path| Some((at.to_path_buf(), at.metadata().ok()?.uid()));
    match path.ancestors().find_map(owner_of) {
        Some((at, 0)) if own != 0 => format!("{} belongs to root: repeat the command with sudo, or ", at.display()),
        Some((at, owner)) if owner != own => format!("{} belongs to user {owner}; ", at.display()),
        _ => "check the permissions or ".into(),
    }
}

fn behind(remedy: &str) -> String {
    if remedy.is_empty() { String::new() } else { format!("\nhint: {remedy}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_operation_path_cause_and_remedy() {
        let full = || IoFailure::new("write", "/mnt/a", io::Error::from_raw_os_error(28));
        assert_eq!(
            full().to_string(),
            "cannot write /mnt/a: No space left on device (ENOSPC)\nhint: free some space there or choose another path"
        );
        let other = full().with_remedy("choose a larger --size").to_string();
        assert_eq!(other, "cannot write /mnt/a: No space left on device (ENOSPC)\nhint: choose a larger --size");
        let busy = IoFailure::new(format!("open {}", 1), "/dev/x", io::Error::from_raw_os_error(16)).with_remedy("");
        assert_eq!(busy.to_string(), "cannot open 1 /dev/x: Device or resource busy (EBUSY)");
    }
}
