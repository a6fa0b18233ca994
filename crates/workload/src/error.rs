//! Errors of this crate.

use crate::wml::Diagnostic;
use senesce_core::IoFailure;
use senesce_core::failure::{Classify, ExitCode};
use senesce_core::units::UnitError;
use senesce_volume::TargetError;
use std::io;
use std::path::PathBuf;

/// An error that prevents any result. A run that fails after its start is an invalid [`crate::Repetition`] with a reason.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    #[error("{0}")]
    Language(#[from] Box<Diagnostic>),
    #[error("{0}")]
    Usage(String),
    #[error("refused: file set '{fileset}' is at {path}, outside the target {target}\nhint: {remedy}")]
    Outside { fileset: String, path: PathBuf, target: PathBuf, remedy: String },
    #[error(transparent)]
    Io(#[from] IoFailure),
    #[error("{what} is missing: {remedy}")]
    Missing { what: String, remedy: String },
    /// The user requested a stop before anything was measured.
    #[error("interrupted while {0}; nothing was measured")]
    Interrupted(String),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Unit(#[from] UnitError),
}

fn remedy(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENOSPC) => {
            "the workload needs more space: make it smaller with --scale or --set, or use a larger target"
        }
        Some(libc::EMFILE) => "raise the limit of open files with `ulimit -n`",
        Some(libc::EROFS) => "remount the target read-write",
        Some(libc::EACCES | libc::EPERM) => "choose a directory that this user may write to",
        _ => "",
    }
}

impl WorkloadError {
    /// Returns a closure for `map_err`: `WorkloadError::io("create", path)`.
    pub(crate) fn io<E: Into<io::Error>>(
        operation: impl Into<String>,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let (operation, path) = (operation.into(), path.into());
        move |source| {
            let source = source.into();
            let remedy = remedy(&source);
            IoFailure::new(operation, path, source).with_remedy(remedy).into()
        }
    }
}

impl From<Diagnostic> for WorkloadError {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Language(Box::new(diagnostic))
    }
}

impl Classify for WorkloadError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Language(_) | Self::Usage(_) | Self::Unit(_) => ExitCode::Usage,
            Self::Outside { .. } => ExitCode::Refused,
            Self::Io(failure) => failure.exit_code(),
            Self::Missing { .. } => ExitCode::Missing,
            Self::Interrupted(_) => ExitCode::Interrupted,
            Self::Target(error) => error.exit_code(),
        }
    }
}
