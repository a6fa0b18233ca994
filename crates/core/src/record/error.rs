//! What can go wrong with a run directory, in words.

use super::FORMAT;
use super::lines::MOST_EVENTS;
use crate::failure::{Classify, ExitCode};
use crate::io_failure::IoFailure;
use crate::output::Obstacle;
use crate::units::Bytes;
use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong with a run directory.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// An operation on a path failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The directory is not a run directory.
    #[error("{path} is not a run directory: it has no readable {missing}; `senesce runs list` lists runs")]
    NotARun {
        /// The directory.
        path: PathBuf,
        /// The file that is missing or wrong.
        missing: String,
    },
    /// Another plan was run there.
    #[error(
        "{path} holds another run ({differences}); choose another directory with --out, or repeat exactly the same command"
    )]
    OtherPlan {
        /// The directory.
        path: PathBuf,
        /// What differs.
        differences: String,
    },
    /// Another version wrote it.
    #[error("{path}: {}", other_format(found))]
    OtherFormat {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: String,
    },
    /// A line in the middle is damaged.
    #[error("{path}, line {line}: {problem}; the record is damaged before its end and cannot be trusted")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// More events than a run has.
    #[error("{path}: it has {size}, and the events of a run have at most {MOST_EVENTS}")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its size, or that which it would have.
        size: Bytes,
    },
    /// A process holds its lock.
    #[error(
        "{path} is in use: a process, most likely a senesce that runs it, holds the lock of its file 'lock'; wait for it (`fuser {path}/lock` tells who it is) or choose another directory with --out"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Somebody else could have written what a run would believe.
    #[error(
        "{path}: {found}, and a run that goes on believes what is there (what it may erase, what it measured); choose another directory with --out"
    )]
    Foreign {
        /// The directory or file.
        path: PathBuf,
        /// Whose it is.
        found: String,
    },
    /// Something that is no directory has its name.
    #[error("{} is {}, and a run is a directory of its own; choose another one with --out", .0.path.display(), .0.found)]
    NoDirectory(Obstacle),
    /// The directory holds other things.
    #[error("{path} is not empty and not a run directory; choose another directory with --out")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
}

fn other_format(found: &str) -> String {
    match found {
        "1" => "made by senesce 0.1, cannot be read; run again".into(),
        _ => format!(
            "made by another senesce (run-directory format {found}; this one reads {FORMAT}), cannot be read; run again"
        ),
    }
}

fn remedy(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(28) => "free some space there or choose another place with --out",
        Some(30) => "choose a place that can be written with --out",
        Some(13) => "check the permissions or choose another place with --out",
        _ => "",
    }
}

impl Classify for RecordError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io(failure) => failure.exit_code(),
            Self::NoDirectory(found) => found.exit_code(),
            Self::Damaged { .. } | Self::TooLong { .. } => ExitCode::RunFailed,
            Self::InUse { .. } | Self::NotEmpty { .. } | Self::Foreign { .. } => ExitCode::Refused,
            Self::NotARun { .. } | Self::OtherPlan { .. } | Self::OtherFormat { .. } => ExitCode::Usage,
        }
    }
}

pub(super) fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    let path = path.to_path_buf();
    move |source| {
        let remedy = remedy(&source);
        IoFailure::new(operation, path, source).with_remedy(remedy).into()
    }
}
