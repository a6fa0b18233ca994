//! What can go wrong in the guest itself.

use senesce_core::IoFailure;
use senesce_core::failure::{Classify, ExitCode};
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A word of the command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// Something is not installed or not permitted.
    #[error("{what}: {remedy}")]
    Missing { what: String, remedy: String },
    /// An operation on a path failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// A program that the guest uses failed.
    #[error("{program} failed ({status}): {output}")]
    Program { program: String, status: String, output: String },
    /// A kernel image or module could not be read.
    #[error(
        "{path}: {problem}; `senesce vm setup --again` fetches it anew, or name another with --kernel and --modules"
    )]
    Kernel { path: PathBuf, problem: String },
    /// The guest ended without the command's exit status.
    #[error("the guest {what}; the last lines of its console:\n{console}\n{remedy}")]
    Guest { end: GuestEnd, what: String, console: String, remedy: String },
    /// A scratch directory cannot be made, or what must be undone cannot be written down.
    #[error(transparent)]
    Target(#[from] senesce_volume::TargetError),
    #[error("interrupted; the guest was ended")]
    Interrupted,
}

/// How a guest ended that gave no exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestEnd {
    Panic,
    /// It was still booting when a boot must be over.
    SlowBoot,
    /// The user's time limit came.
    TimeLimit,
    /// Its kernel killed for want of memory.
    OutOfMemory,
    /// It ended by itself, or never began.
    Other,
}

impl Classify for GuestError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::Usage,
            Self::Missing { .. } => ExitCode::Missing,
            Self::Target(error) => error.exit_code(),
            Self::Interrupted => ExitCode::Interrupted,
            Self::Io(_) | Self::Program { .. } | Self::Kernel { .. } | Self::Guest { .. } => ExitCode::CannotTell,
        }
    }
}

/// Names the operation and the path of a failed host file operation.
pub fn io_error(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> GuestError {
    let path = path.into();
    move |source| IoFailure::new(operation, path, source).into()
}

/// The same for files of a run, which lie in `$TMPDIR`.
pub fn scratch_error(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> GuestError {
    let path = path.into();
    move |source| {
        let is_full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let remedy = if is_full { "free some space there, or set TMPDIR to a larger place" } else { "" };
        IoFailure::new(operation, path, source).with_remedy(remedy).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_place_of_a_run_is_named_with_the_way_out() {
        let said = |kind: io::ErrorKind| scratch_error("write", "/tmp/x")(kind.into()).to_string();
        assert!(
            said(io::ErrorKind::StorageFull).contains("/tmp/x") && said(io::ErrorKind::StorageFull).contains("TMPDIR")
        );
        assert!(!said(io::ErrorKind::NotFound).contains("TMPDIR"));
    }
}
