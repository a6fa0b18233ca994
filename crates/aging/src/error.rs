//! Errors of profiles, plans and executions.

use senesce_core::IoFailure;
use senesce_core::{Bytes, Classify, ExitCode};
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum AgingError {
    #[error("profile {name}: {problem}")]
    Profile { name: String, problem: String },
    #[error("cannot plan: {0}")]
    Plan(String),
    #[error("cannot plan: {problem}; the volume must have at least {} ({least})", least.0)]
    TooSmall { problem: String, least: Bytes },
    #[error(transparent)]
    Io(#[from] IoFailure),
    #[error("{0}")]
    Target(String),
    #[error("interrupted while comparing files with the record")]
    Interrupted,
}

impl AgingError {
    pub fn io(operation: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        IoFailure::new(operation, path, source).into()
    }

    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io(failure) if failure.source.raw_os_error() == Some(libc::ENOSPC))
    }

    /// Restates an error about one of `parts` equal parts for the whole plan.
    pub fn of_parts(self, parts: u32) -> Self {
        let each = |problem| format!("each of {parts} parts: {problem}");
        match self {
            Self::TooSmall { problem, least } if parts > 1 => {
                Self::TooSmall { problem: each(problem), least: Bytes(least.0.saturating_mul(u64::from(parts))) }
            }
            Self::Plan(problem) if parts > 1 => Self::Plan(each(problem)),
            other => other,
        }
    }

    pub(crate) fn profile(name: &str, problem: impl Into<String>) -> Self {
        Self::Profile { name: name.into(), problem: problem.into() }
    }
}

impl Classify for AgingError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Profile { .. } | Self::Plan(_) | Self::TooSmall { .. } => ExitCode::Usage,
            Self::Io(_) | Self::Target(_) => ExitCode::RunFailed,
            Self::Interrupted => ExitCode::Interrupted,
        }
    }
}
