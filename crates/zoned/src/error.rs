//! What can go wrong before or around commands. What a zone answers to a command is a [`crate::ZoneFault`].

use senesce_core::IoFailure;
use senesce_core::failure::{Classify, ExitCode};

#[derive(Debug, thiserror::Error)]
pub enum ZonedError {
    /// A device, model or job was described wrongly.
    #[error("{0}")]
    Usage(String),
    /// A job cannot run on this device; found before the first command.
    #[error("{place}: {problem}; {remedy}")]
    Job {
        /// Actor, step or parameter.
        place: String,
        problem: String,
        remedy: String,
    },
    #[error("refused to use {target}: {found}; {remedy}")]
    Refused { target: String, found: String, remedy: String },
    /// A permission or kernel feature is missing.
    #[error("{what}; {remedy}")]
    Missing { what: String, remedy: String },
    /// An operation on a path failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// A zone objected where the run could not go on.
    #[error("{operation} of zone {zone}: {fault}; {remedy}")]
    Zone { operation: &'static str, zone: u32, fault: crate::ZoneFault, remedy: &'static str },
    #[error(
        "zone {zone} is written up to block {found}, and this run wrote {ours} there{}: another program used the drive meanwhile, so that \
         nothing that was measured with it counts; end that, look at the zones with `senesce zoned list DEVICE`, and give the same \
         command again",
        others(*.more)
    )]
    Disturbed {
        zone: u32,
        /// Blocks that the run wrote there since its last reset.
        ours: u64,
        /// Blocks by the report of the drive.
        found: u64,
        more: usize,
    },
    /// Foreign data could not be read.
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
