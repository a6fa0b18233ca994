//! Errors before or around commands. Errors that a zone returns for a command are [`crate::ZoneFault`]s.

use senesce_core::IoFailure;
use senesce_core::failure::{Classify, ExitCode};

#[derive(Debug, thiserror::Error)]
pub enum ZonedError {
    #[error("{0}")]
    Usage(String),
    /// The job cannot run on this device; detected before the first command.
    #[error("{place}: {problem}\nhint: {remedy}")]
    Job { place: String, problem: String, remedy: String },
    #[error("refused to use {target}: {found}\nhint: {remedy}")]
    Refused { target: String, found: String, remedy: String },
    #[error("{what}\nhint: {remedy}")]
    Missing { what: String, remedy: String },
    #[error(transparent)]
    Io(#[from] IoFailure),
    #[error("{operation} of zone {zone}: {fault}\nhint: {remedy}")]
    Zone { operation: &'static str, zone: u32, fault: crate::ZoneFault, remedy: &'static str },
    #[error(
        "zone {zone} is written up to block {found}, but this run wrote {ours} there{}: another program used the drive, so all \
         measurements are invalid\nhint: stop that program, check the zones with `senesce zoned list DEVICE`, and repeat the command",
        others(*.more)
    )]
    Disturbed {
        zone: u32,
        /// Blocks that the run wrote since the last reset.
        ours: u64,
        /// Blocks according to the drive's report.
        found: u64,
        more: usize,
    },
    #[error("{place}: {problem}")]
    Import { place: String, problem: String },
    #[error(transparent)]
    Target(#[from] senesce_volume::TargetError),
}

fn others(more: usize) -> String {
    if more > 0 { format!(" ({more} more zones differ)") } else { String::new() }
}

impl Classify for ZonedError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) | Self::Job { .. } | Self::Import { .. } => ExitCode::Usage,
            Self::Refused { .. } => ExitCode::Refused,
            Self::Missing { .. } => ExitCode::Missing,
            Self::Io(failure) => failure.exit_code(),
            Self::Zone { .. } | Self::Disturbed { .. } => ExitCode::RunFailed,
            Self::Target(error) => error.exit_code(),
        }
    }
}
