//! What a run directory says of itself without its events: enough for lists of thousands.

use super::error::{RecordError, io_error};
use super::{Environment, FORMAT, Plan};
use crate::input;
use std::io;
use std::path::{Path, PathBuf};

/// Plan, environment and result of a run.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Where it is.
    pub path: PathBuf,
    /// What was to be done.
    pub plan: Plan,
    /// Where it was done.
    pub environment: Environment,
    /// The text of the result (JSON), if the run is complete.
    pub summary: Option<Vec<u8>>,
}

impl Overview {
    /// Reads it.
    ///
    /// # Errors
    /// When `path` is no run directory, one of another format, or cannot be read.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let not_a_run = |missing: String| RecordError::NotARun { path: path.into(), missing };
        let format = input::regular_text(&path.join("format")).map_err(|_| not_a_run("file 'format'".into()))?;
        if format.trim() != FORMAT.to_string() {
            return Err(RecordError::OtherFormat { path: path.into(), found: format.trim().into() });
        }
        let text = input::regular_text(&path.join("plan.toml")).map_err(|_| not_a_run("plan.toml".into()))?;
        let plan = toml::from_str(&text).map_err(|error| not_a_run(format!("plan.toml ({})", error.message())))?;
        // Without it numbers of an emulator would pass for those of a machine.
        let text = input::regular(&path.join("env.json")).map_err(|_| not_a_run("env.json".into()))?;
        let environment = serde_json::from_slice(&text).map_err(|error| super::damaged_environment(path, &error))?;
        let file = path.join("summary.json");
        let summary = match input::regular(&file) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(io_error("read", &file)(error)),
        };
        Ok(Self { path: path.into(), plan, environment, summary })
    }

    /// Whether the run never completed.
    pub fn is_partial(&self) -> bool {
        self.summary.is_none()
    }

    /// A fact of its environment that is text.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.environment.0.get(name)?.as_str().filter(|text| !text.is_empty())
    }
}
