//! Errors of a prognosis.

use senesce_core::IoFailure;
use senesce_core::failure::{Classify, ExitCode};
use senesce_core::output::OutputError;
use senesce_devmodel::ModelError;
use senesce_layout::LayoutError;
use senesce_volume::TargetError;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum PrognosisError {
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model needs data that a tree of files does not have.
    #[error(
        "the speed of reads on {name} depends on the order of earlier writes, which file systems do not record; name \
         a model without that dependency (850-evo, 970-evo-plus, st500dm002), or time a trace with `senesce trace \
         --model {name}`"
    )]
    NeedsHistory { name: String },
    #[error(transparent)]
    Io(#[from] IoFailure),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("cannot make a twin of {target}: {reason}")]
    NoTwin { target: String, reason: String },
    #[error("the twin of {target} fails its check ({command}): {output}; the original was not touched")]
    Unsound { target: String, command: String, output: String },
    #[error("{command} ended with {status}{}{output}", if output.is_empty() { "" } else { ": " })]
    Ended { command: String, status: std::process::ExitStatus, output: String },
    /// No space is left for the twin or for what a trial writes.
    #[error("{} is full\nhint: free some space there, or set TMPDIR to a directory with more space", directory.display())]
    Full { directory: PathBuf },
    #[error("interrupted; the original was not touched")]
    Interrupted,
}

impl PrognosisError {
    pub(crate) fn io(operation: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| IoFailure::new(operation, path, source).into()
    }
}

impl Classify for PrognosisError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Layout(error) => error.exit_code(),
            Self::Target(error) => error.exit_code(),
            Self::Model(error) => error.exit_code(),
            Self::Output(error) => error.exit_code(),
            Self::Io(failure) if failure.kind() == io::ErrorKind::NotFound => ExitCode::Usage,
            // An existing file is never replaced.
            Self::Io(failure) if failure.kind() == io::ErrorKind::AlreadyExists => ExitCode::Refused,
            Self::Io(failure) => failure.exit_code(),
            Self::Unsound { .. } | Self::Ended { .. } | Self::Full { .. } => ExitCode::RunFailed,
            Self::NeedsHistory { .. } => ExitCode::Usage,
            Self::NoTwin { .. } => ExitCode::Missing,
            Self::Interrupted => ExitCode::Interrupted,
        }
    }
}
