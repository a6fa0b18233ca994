//! Exit codes, and the error type that all crates return to the command line.

pub use senesce_sys::errno::errno_message;
use std::error::Error;
use std::fmt;
use std::path::Path;

/// Exit status of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// The command completed, without a negative verdict.
    Done = 0,
    /// Completed with a negative verdict (a regression, a failed verification).
    Negative = 1,
    /// Invalid command line, specification or parameter.
    Usage = 2,
    /// Refused for safety: the target holds data or is in use.
    Refused = 3,
    /// A requirement is missing: a program, a permission, a kernel feature, memory, space.
    Missing = 4,
    /// I/O failed during the run; its record is kept.
    RunFailed = 5,
    /// Inconclusive: the gate is undecided, or the guest failed. `git bisect run` skips a commit with this code.
    CannotTell = 125,
    /// Interrupted; a partial record is kept.
    Interrupted = 130,
}

/// Maps a crate's error to an [`ExitCode`].
pub trait Classify {
    /// Returns the exit code of the process if this error ends it.
    fn exit_code(&self) -> ExitCode;
}

/// An error for the command line: any crate's error with its exit code.
pub struct Failure {
    code: ExitCode,
    source: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// Creates a failure with its own message, if no crate's error type fits.
    pub fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, source: message.into().into() }
    }

    /// Creates a failure caused by the command line or a parameter.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// Returns a copy: same message, same code.
    pub fn again(&self) -> Self {
        Self::new(self.code, self.chain())
    }

    /// Returns the exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        self.code
    }

    /// Returns the error that it was made from, if it is of this type.
    pub fn origin<E: Error + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }

    /// Joins the error and its causes with `: `, outermost first.
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
        shortened(text)
    }
}

/// Maximum bytes of a message. Messages may quote input, which may be of any length.
const MOST_BYTES: usize = 4000;

/// Removes the middle of a long message.
fn shortened(text: String) -> String {
    if text.len() <= MOST_BYTES {
        return text;
    }
    let boundary = |from: usize| (from..).find(|index| text.is_char_boundary(*index)).unwrap_or(text.len());
    let (head, tail) = (boundary(MOST_BYTES / 2), boundary(text.len() - MOST_BYTES / 2));
    format!("{}… ({} bytes omitted) …{}", &text[..head], tail - head, &text[tail..])
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

/// Adds operation and path to an I/O error, and a remedy for a full volume. For `map_err`.
pub fn failed(operation: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::StorageFull => "\nhint: free space there, or choose a larger --size",
            _ => "",
        };
        Failure::new(
            ExitCode::RunFailed,
            format!("cannot {operation} {}: {}{remedy}", path.display(), errno_message(&error)),
        )
    }
}

/// Works like [`failed`] for opening a path that the user named. If nothing has this name, it is a usage error.
pub fn failed_to_open(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| {
        let is_missing = matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory);
        let failure = failed("open", path)(error);
        if is_missing { Failure::usage(failure.to_string()) } else { failure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_named_path_is_a_usage_error() {
        use std::io::ErrorKind::{NotADirectory, NotFound, Other, PermissionDenied};
        let code = |kind: std::io::ErrorKind| failed_to_open(Path::new("x"))(kind.into()).exit_code();
        let codes = [NotFound, NotADirectory, PermissionDenied, Other].map(code);
        assert_eq!(codes, [ExitCode::Usage, ExitCode::Usage, ExitCode::RunFailed, ExitCode::RunFailed]);
    }

    #[test]
    fn long_messages_lose_their_middle() {
        let long = Failure::usage(format!("begin {}é{} end", "é".repeat(5 << 20), "x".repeat(3000))).to_string();
        assert!(long.len() < 2 * MOST_BYTES && long.starts_with("begin") && long.ends_with("end"));
        assert_eq!(Failure::usage("é".repeat(MOST_BYTES / 2)).to_string().len(), MOST_BYTES);
    }

    #[test]
    fn io_cause_is_not_repeated() {
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
