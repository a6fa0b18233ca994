//! Errors of run directories.

use super::FORMAT;
use crate::failure::{Classify, ExitCode};
use crate::io_failure::{IoFailure, remedy_of_denial};
use crate::output::Obstacle;
use crate::units::Bytes;
use crate::users::user_words;
use std::io;
use std::path::{Path, PathBuf};

/// Error of a run directory.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// I/O error.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The directory is not a run directory.
    #[error("{path} is not a run directory: it has no readable {missing}; `senesce runs list` lists runs")]
    NotARun {
        /// The directory.
        path: PathBuf,
        /// Missing or invalid file.
        missing: String,
    },
    /// The directory holds a run of another plan.
    #[error(
        "{path} contains another run ({differences})\nhint: choose another directory with --out, or repeat exactly the same command"
    )]
    OtherPlan {
        /// The directory.
        path: PathBuf,
        /// Plan entries that differ, with both values.
        differences: String,
    },
    /// Created by another version.
    #[error("{path}: {}", other_format(found))]
    OtherFormat {
        /// The directory.
        path: PathBuf,
        /// Its format version.
        found: String,
    },
    /// A damaged line before the end.
    #[error("{path}, line {line}: {problem}; the record is damaged before its end and cannot be trusted")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Description.
        problem: String,
    },
    /// A file is not the one that the run wrote.
    #[error(
        "{path} was altered or removed after the run wrote it; the record is damaged and cannot be trusted\nhint: restore the file, or run again"
    )]
    Altered {
        /// The file.
        path: PathBuf,
    },
    /// The events of a record, or one of its lines, exceed their limit.
    #[error("{path}, line {line}: it exceeds the limit of {most}; the record cannot be read or continued")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Line from 1 that exceeds the limit.
        line: usize,
        /// The limit.
        most: Bytes,
    },
    /// Another file of a record exceeds its limit.
    #[error("{path}: it is larger than {most}, the maximum of this file of a record")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        most: Bytes,
    },
    /// Another process has the lock.
    #[error(
        "{path} is in use: a process, probably senesce, has locked its file 'lock'\nhint: wait for it (`fuser {path}/lock` shows the process) or choose another directory with --out"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Another user could have written data that the run would trust.
    #[error(
        "{path}: {found}, and a resumed run trusts the data there (permission to erase, measurements)\nhint: {remedy}"
    )]
    Foreign {
        /// The directory or file.
        path: PathBuf,
        /// Description of the owner.
        found: String,
        /// What to type.
        remedy: String,
    },
    /// Another kind of file has its name.
    #[error("{} is {}, and a run needs its own directory\nhint: choose another one with --out", .0.path.display(), .0.found)]
    NoDirectory(Obstacle),
    /// The directory holds other files.
    #[error("{path} is not empty and not a run directory\nhint: choose another directory with --out")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
}

impl RecordError {
    /// Returns whether the record itself is damaged or altered, and not only unreadable here.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Altered { .. })
    }
}

fn other_format(found: &str) -> String {
    match found {
        "1" => "created by senesce 0.1, cannot be read; run again".into(),
        _ => format!(
            "created by another version of senesce (run-directory format {found}; this version reads {FORMAT}), cannot be read; run again"
        ),
    }
}

/// Returns the remedy for this user if a run belongs to another user.
pub(super) fn remedy_of_owner(owner: u32) -> String {
    match rustix::process::geteuid().is_root() {
        true => format!(
            "`senesce report` shows this run, and {} can continue it; to start another, add --out DIR",
            user_words(owner)
        ),
        false => "to start another run, add --out DIR".into(),
    }
}

fn remedy(source: &io::Error, path: &Path) -> String {
    match source.raw_os_error() {
        Some(28) => "free some space there or choose another path with --out".into(),
        Some(30) => "choose a writable path with --out".into(),
        Some(13) => remedy_of_denial(path, "choose another path with --out"),
        _ => String::new(),
    }
}

impl Classify for RecordError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io(failure) => failure.exit_code(),
            Self::NoDirectory(found) => found.exit_code(),
            Self::Damaged { .. } | Self::Altered { .. } | Self::TooLong { .. } | Self::TooLarge { .. } => {
                ExitCode::RunFailed
            }
            Self::InUse { .. } | Self::NotEmpty { .. } | Self::Foreign { .. } => ExitCode::Refused,
            Self::NotARun { .. } | Self::OtherPlan { .. } | Self::OtherFormat { .. } => ExitCode::Usage,
        }
    }
}

pub(super) fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    let path = path.to_path_buf();
    move |source| {
        let remedy = remedy(&source, &path);
        IoFailure::new(operation, path, source).with_remedy(remedy).into()
    }
}

/// Adds operation and path to an error of reading, for which no other output helps.
pub(super) fn read_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    let path = path.to_path_buf();
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => {
            let remedy = remedy_of_denial(&path, "");
            IoFailure::new(operation, path, source).with_remedy(remedy).into()
        }
        _ => io_error(operation, &path)(source),
    }
}
