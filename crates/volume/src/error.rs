use senesce_core::IoFailure;
use senesce_core::failure::{Classify, ExitCode};
use senesce_core::output::Obstacle;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("refused to use {target}: {found}; {remedy}")]
    Refused { target: String, found: String, remedy: String },
    #[error(transparent)]
    Io(#[from] IoFailure),
    #[error("{command} failed ({status}){}{output}", if output.is_empty() { "" } else { ": " })]
    Program { command: String, status: String, output: String },
    #[error("{what} is missing: {remedy}")]
    Missing { what: String, remedy: String },
    /// A block trace with missing requests, from which nothing may be computed.
    #[error("the block trace of {device} is not valid: {problems}; trace again, if possible without other tracers")]
    InvalidTrace { device: String, problems: String },
    #[error("{0}")]
    Usage(String),
    /// A file that is damaged or in an unexpected format, such as a foreign trace or a snapshot.
    #[error("{path}: {problem}")]
    Damaged { path: PathBuf, problem: String },
}

impl TargetError {
    pub fn io(operation: &str, path: &Path) -> impl FnOnce(io::Error) -> TargetError {
        let (operation, path) = (operation.to_string(), path.to_path_buf());
        move |source| IoFailure::new(operation, path, source).into()
    }

    /// Wraps the failure to open a path that the user named. If nothing has this name, it is a usage error.
    pub(crate) fn named(operation: &str, path: &Path) -> impl FnOnce(io::Error) -> TargetError {
        let wrap = Self::io(operation, path);
        move |source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Usage(wrap(source).to_string()),
            _ => wrap(source),
        }
    }

    pub(crate) fn errno(operation: &str, path: &Path) -> impl FnOnce(rustix::io::Errno) -> TargetError {
        let wrap = Self::io(operation, path);
        move |errno| wrap(errno.into())
    }

    pub fn refused(target: impl ToString, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Refused { target: target.to_string(), found: found.into(), remedy: remedy.into() }
    }

    pub(crate) fn of_obstacle(found: &Obstacle) -> Self {
        match found.planted {
            true => Self::refused(found.path.display(), format!("it is {}", found.found), "name the directory itself"),
            false => Self::Usage(found.to_string()),
        }
    }

    pub fn missing(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Missing { what: what.into(), remedy: remedy.into() }
    }

    pub(crate) fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.into(), problem: problem.into() }
    }
}

impl Classify for TargetError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Refused { .. } => ExitCode::Refused,
            Self::Io(failure) => failure.exit_code(),
            Self::Program { .. } | Self::InvalidTrace { .. } => ExitCode::RunFailed,
            Self::Missing { .. } => ExitCode::Missing,
            Self::Usage(_) | Self::Damaged { .. } => ExitCode::Usage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::{content_hash, unpack};
    use crate::trace::blkparse;
    use crate::{BlockDevice, BlockTrace, OpenOptions, TargetSpec, guard, visit};
    use senesce_core::environment::remedy_of_denied_access;

    #[test]
    fn missing_path_that_the_user_named_is_a_usage_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        for name in ["none", "file/none"] {
            let path = folder.path().join(name);
            let directory = TargetSpec::Directory(path.clone());
            let errors = [
                visit(&directory, &OpenOptions::inspect()).err(),
                guard::open_image(&path, false).err(),
                BlockDevice::open(&path).err(),
                content_hash(&path).err(),
                unpack(&path, &folder.path().join("made")).err(),
                blkparse::import(&path, None).err(),
                BlockTrace::load(&path).err(),
            ];
            let codes = errors.map(|error| error.map(|error| error.exit_code()));
            assert_eq!(codes, [Some(ExitCode::Usage); 7], "{name}");
        }
    }

    #[test]
    fn denied_access_has_the_usual_remedy() {
        for number in [libc::EACCES, libc::EPERM] {
            let error = TargetError::io("open", Path::new("image"))(io::Error::from_raw_os_error(number));
            assert!(error.to_string().ends_with(remedy_of_denied_access()), "{error}");
        }
    }
}
