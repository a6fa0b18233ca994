//! Errors of the guest.

use senesce_core::IoFailure;
use senesce_core::failure::{Classify, ExitCode};
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    #[error("{0}")]
    Usage(String),
    #[error("{what}: {remedy}")]
    Missing { what: String, remedy: String },
    #[error(transparent)]
    Io(#[from] IoFailure),
    #[error("{program} failed ({status}){}{output}", if output.is_empty() { "" } else { ": " })]
    Program { program: String, status: String, output: String },
    #[error(
        "{path}: {problem}; delete its folder and repeat `senesce vm setup --engine qemu`, or name another with \
         --kernel and --modules"
    )]
    Kernel { path: PathBuf, problem: String },
    #[error("the guest {what}; the last lines of its console:\n{console}\n{remedy}")]
    Guest { end: GuestEnd, what: String, console: String, remedy: String },
    /// A scratch directory cannot be created, or its cleanup cannot be registered.
    #[error(transparent)]
    Target(#[from] senesce_volume::TargetError),
    /// The kernel was not started: one method of confinement is not available here.
    #[error("cannot confine the user-mode kernel: {0}")]
    NotConfined(String),
    #[error("interrupted; the guest was ended")]
    Interrupted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestEnd {
    Panic,
    /// It did not boot in time.
    SlowBoot,
    TimeLimit,
    OutOfMemory,
    /// It ended by itself, or never started.
    Other,
}

impl Classify for GuestError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::Usage,
            Self::Missing { .. } | Self::NotConfined(_) => ExitCode::Missing,
            Self::Target(error) => error.exit_code(),
            Self::Interrupted => ExitCode::Interrupted,
            Self::Io(_) | Self::Program { .. } | Self::Kernel { .. } | Self::Guest { .. } => ExitCode::CannotTell,
        }
    }
}

/// Adds the operation and the path to the error of a host file operation.
pub(crate) fn io_error(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> GuestError {
    let path = path.into();
    move |source| IoFailure::new(operation, path, source).into()
}

/// Adds the operation and the path to an error, like [`io_error`], for files of a run, which are in `$TMPDIR`.
pub(crate) fn scratch_error(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> GuestError {
    let path = path.into();
    move |source| {
        let is_full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let remedy = if is_full { "free some space there, or set TMPDIR to a directory with more space" } else { "" };
        IoFailure::new(operation, path, source).with_remedy(remedy).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_scratch_directory_is_named_with_a_remedy() {
        let said = |kind: io::ErrorKind| scratch_error("write", "/tmp/x")(kind.into()).to_string();
        assert!(
            said(io::ErrorKind::StorageFull).contains("/tmp/x") && said(io::ErrorKind::StorageFull).contains("TMPDIR")
        );
        assert!(!said(io::ErrorKind::NotFound).contains("TMPDIR"));
    }
}
