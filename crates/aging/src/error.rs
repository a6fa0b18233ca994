//! What can go wrong in aging, in words.

use senesce_core::IoFailure;
use senesce_core::{Bytes, Classify, ExitCode};
use std::io;
use std::path::PathBuf;

/// Why a profile, a plan or its execution failed.
#[derive(Debug, thiserror::Error)]
pub enum AgingError {
    /// A profile that cannot be read or makes no sense.
    #[error("profile {name}: {problem}")]
    Profile {
        name: String,
        /// What is wrong with it and how to put it right.
        problem: String,
    },
    #[error("cannot plan: {0}")]
    Plan(String),
    /// A volume that cannot hold the histograms of a profile.
    #[error("cannot plan: {problem}; the volume must have at least {} ({least})", least.0)]
    TooSmall {
        problem: String,
        /// What the volume must have.
        least: Bytes,
    },
    /// An operation on a path failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The target does not hold what the plan says.
    #[error("{0}")]
    Target(String),
}

impl AgingError {
    /// An I/O failure without a particular remedy.
    pub fn io(operation: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        IoFailure::new(operation, path, source).into()
    }

    /// Whether it says that the file system is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io(failure) if failure.source.raw_os_error() == Some(libc::ENOSPC))
    }

    /// What is wrong with the plan of one of `parts` of equal size, said of the whole.
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
        }
    }
}
