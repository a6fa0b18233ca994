//! Exit codes and the one error type that crosses from the crates to the command line.

pub use senesce_sys::errno::errno_message;
use std::error::Error;
use std::fmt;
use std::path::Path;

/// What the process tells its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done.
    Done = 0,
    /// It ran; the verdict is negative (a regression, a failed verification).
    Negative = 1,
    /// The words of the command, a specification or a parameter are wrong.
    Usage = 2,
    /// Refused for safety: the target holds data or is in use.
    Refused = 3,
    /// A requirement is missing: a program, a permission, a kernel feature, memory, space.
    Missing = 4,
    /// The run failed on I/O; its record is kept.
    RunFailed = 5,
    /// Nobody can tell: the gate is undecided, or the guest failed. `git bisect run` skips a commit with this code.
    CannotTell = 125,
    /// Interrupted; a partial record is kept.
    Interrupted = 130,
}

/// Says which [`ExitCode`] an error of a crate stands for.
pub trait Classify {
    /// The exit code of the process when this error ends it.
    fn exit_code(&self) -> ExitCode;
}

/// An error on its way to the command line: any crate's error with its exit code.
pub struct Failure {
    code: ExitCode,
    source: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// A failure of its own words, where no crate's error type fits.
    pub fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, source: message.into().into() }
    }

    /// Shorthand for a failure in the user's words or parameters.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// The same words with the same code.
    pub fn again(&self) -> Self {
        Self::new(self.code, self.chain())
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        self.code
    }

    /// The error and its causes, outermost first, joined by `: `.
    pub fn chain(&self) -> String {
        let mut text = self.source.to_string();
        let mut cause = self.source.source();
        while let Some(next) = cause {
            let message = next.downcast_ref().map_or_else(|| next.to_string(), errno_message);
            if !text.contains(&message) {
                text = format!("{text}: {message}");
            }
            cause = next.source();
        }
        text
    }
}

impl<E: Classify + Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: error.exit_code(), source: Box::new(error) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.chain())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Failure({:?}, {})", self.code, self.chain())
    }
}

/// An I/O error with what was being done and to what, for `map_err`. A full volume says what to do.
pub fn failed(operation: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::StorageFull => "; make space there, or choose a larger --size",
            _ => "",
        };
        Failure::new(ExitCode::RunFailed, format!("{operation} {}: {}{remedy}", path.display(), errno_message(&error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_cause_is_not_said_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("read x: {}", errno_message(.0))]
        struct Outer(#[source] std::io::Error);
        let outer = Outer(std::io::Error::from_raw_os_error(5));
        let failure = Failure { code: ExitCode::RunFailed, source: Box::new(outer) };
        assert_eq!(failure.to_string(), "read x: Input/output error (EIO)");
    }

    #[test]
    fn failure_keeps_the_code_and_chains_causes_once() {
        let failure = Failure::new(ExitCode::Missing, "mkfs.xfs is not installed");
        assert_eq!(failure.exit_code(), ExitCode::Missing);
        assert_eq!(failure.to_string(), "mkfs.xfs is not installed");
    }
}
