//! The small files of a run directory: enough for lists of thousands of runs, and the first part of a whole record.

use super::error::{RecordError, read_error};
use super::files::{self, ENVIRONMENT, PLAN, SUMMARY};
use super::identity::{FileSums, sum};
use super::{Environment, FORMAT, Plan, limits};
use crate::failure::errno_message;
use crate::input::InputFolder;
use std::io;
use std::path::{Path, PathBuf};

/// Plan, environment and result of a run.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Path of the directory, as the caller named it.
    pub path: PathBuf,
    /// Content of `plan.toml`.
    pub plan: Plan,
    /// Content of `env.json`.
    pub environment: Environment,
    /// JSON text of the result, if the run is complete.
    pub summary: Option<Vec<u8>>,
}

impl Overview {
    /// Reads an untrusted run directory: `path` may be a link, its files may not.
    ///
    /// # Errors
    /// If `path` is not a run directory, has another format, or is unreadable.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        Ok(Self::read_in(&open(path)?, path)?.0)
    }

    /// Also returns the checksums of its files.
    pub(super) fn read_in(folder: &InputFolder, path: &Path) -> Result<(Self, FileSums), RecordError> {
        let not_a_run = |missing: String| RecordError::NotARun { path: path.into(), missing };
        let read = |name: &str| read_file(folder, path, name);
        let altered = |name: &str| RecordError::Altered { path: path.join(name) };
        let unreadable = |name: &str, called: &str, error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => read_error("read", &path.join(name))(error),
            // A run writes it before its plan.
            io::ErrorKind::NotFound if name == ENVIRONMENT => altered(name),
            _ => not_a_run(unread(called, &error)),
        };
        let needed = |name: &str, called: &str| read(name)?.map_err(|error| unreadable(name, called, error));
        let format = String::from_utf8(needed(files::FORMAT, FIRST)?).map_err(|_| not_a_run(FIRST.into()))?;
        if format.trim() != FORMAT.to_string() {
            return Err(RecordError::OtherFormat { path: path.into(), found: format.trim().into() });
        }
        let words = needed(PLAN, PLAN)?;
        let plan = toml::from_slice(&words).map_err(|_| altered(PLAN))?;
        // Without it, times of an emulator would pass as those of a machine.
        let text = needed(ENVIRONMENT, ENVIRONMENT)?;
        let files = FileSums { plan: sum(&words), environment: sum(&text) };
        let environment = serde_json::from_slice(&text).map_err(|_| altered(ENVIRONMENT))?;
        let summary = match read(SUMMARY)? {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(read_error("read", &path.join(SUMMARY))(error)),
        };
        Ok((Self { path: path.into(), plan, environment, summary }, files))
    }

    /// Returns whether the run is incomplete.
    pub fn is_partial(&self) -> bool {
        self.summary.is_none()
    }

    /// Returns a text fact of its environment.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.environment.0.get(name)?.as_str().filter(|text| !text.is_empty())
    }
}

/// Missing part reported for directories that are not runs.
const FIRST: &str = "file 'format'";

/// Reads a small file of the run directory `path`, or returns the reason why it cannot be read.
///
/// # Errors
/// [`RecordError::TooLarge`] for a file beyond its limit.
pub(super) fn read_file(folder: &InputFolder, path: &Path, name: &str) -> Result<io::Result<Vec<u8>>, RecordError> {
    let most = limits::of_file(name);
    match folder.read_at_most(Path::new(name), most) {
        Ok(Some(bytes)) => Ok(Ok(bytes)),
        Ok(None) => Err(RecordError::TooLarge { path: path.join(name), most }),
        Err(error) => Ok(Err(error)),
    }
}

pub(super) fn open(path: &Path) -> Result<InputFolder, RecordError> {
    InputFolder::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => read_error("read", path)(error),
        _ => not_a_run(path, &error),
    })
}

/// Returns the error for an unreadable directory, which is not a run directory.
pub(super) fn not_a_run(path: &Path, error: &io::Error) -> RecordError {
    RecordError::NotARun { path: path.into(), missing: unread(FIRST, error) }
}

/// Returns the missing file, and the reason if it exists but is unreadable.
fn unread(called: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => called.into(),
        _ => format!("{called} ({})", errno_message(error)),
    }
}
