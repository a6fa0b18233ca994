//! Errors of stores.

use senesce_core::IoFailure;
use senesce_core::environment::remedy_of_denied_access;
use senesce_core::failure::{Classify, ExitCode};
use senesce_core::output::OutputError;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Io(#[from] IoFailure),
    #[error("{0} is not empty and not an object store\nhint: choose a new or empty directory for the store")]
    Foreign(PathBuf),
    #[error("{path} is not an object store ({problem})\nhint: create one with `senesce objects commit STORE DIR`")]
    NotAStore { path: PathBuf, problem: String },
    #[error(
        "the store {path} has format {found}, but this program supports format {known}\nhint: commit its files into a new store"
    )]
    OtherFormat { path: PathBuf, found: u32, known: u32 },
    #[error("the store {path} is damaged: {problem}\nhint: restore it from a copy, or commit into a new store")]
    Damaged { path: PathBuf, problem: String },
    #[error("the store {path} uses {found}, not {wanted}\nhint: omit the option, or create another store")]
    OtherSettings { path: PathBuf, found: String, wanted: String },
    #[error("another process is committing to {0}\nhint: wait for it to end")]
    InUse(PathBuf),
    #[error("{0} is not a readable directory\nhint: name the directory to commit")]
    NoSource(PathBuf),
    #[error("{0} is not empty\nhint: check out into a new or empty directory")]
    DestinationNotEmpty(PathBuf),
    #[error("{path} has no snapshot {number}; it has {known}")]
    NoSnapshot { path: PathBuf, number: u64, known: String },
    /// The cleanup of another program's command could not be registered.
    #[error(transparent)]
    Target(#[from] senesce_volume::TargetError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("interrupted; the store keeps all earlier snapshots and no part of this one")]
    Interrupted,
}

impl StoreError {
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io(failure) if matches!(failure.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

fn remedy(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(28) => "free some space or some inodes there (`senesce objects advise` shows how many a store needs)",
        Some(13) => remedy_of_denied_access(),
        Some(24) => "raise the limit of open files (ulimit -n)",
        _ => "",
    }
}

impl Classify for StoreError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io(failure) => failure.exit_code(),
            Self::Foreign(_) | Self::InUse(_) | Self::DestinationNotEmpty(_) => ExitCode::Refused,
            Self::Damaged { .. } => ExitCode::Negative,
            Self::NotAStore { .. }
            | Self::OtherFormat { .. }
            | Self::OtherSettings { .. }
            | Self::NoSource(_)
            | Self::NoSnapshot { .. } => ExitCode::Usage,
            Self::Target(error) => error.exit_code(),
            Self::Output(error) => error.exit_code(),
            Self::Interrupted => ExitCode::Interrupted,
        }
    }
}

pub(crate) fn io<E: Into<io::Error>>(operation: &'static str, path: &Path) -> impl FnOnce(E) -> StoreError + use<E> {
    let path = path.to_path_buf();
    move |source| {
        let source = source.into();
        let remedy = remedy(&source);
        IoFailure::new(operation, path, source).with_remedy(remedy).into()
    }
}
