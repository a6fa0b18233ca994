//! The I/O error type: operation, path, cause and remedy.

use crate::environment::remedy_of_denied_access;
use crate::failure::{ExitCode, errno_message};
use crate::machine::is_own;
use crate::output::UntrustedLink;
use crate::users::user_words;
use std::borrow::Cow;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An operation on a path that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {path}: {message}{remedy}", message = errno_message(source), remedy = behind(remedy))]
pub struct IoFailure {
    /// Operation, such as "read".
    pub operation: Cow<'static, str>,
    /// Path of the operation.
    pub path: PathBuf,
    /// Remedy, such as "use sudo"; may be empty.
    pub remedy: Cow<'static, str>,
    /// Error of the system call.
    #[source]
    pub source: io::Error,
}

impl IoFailure {
    /// Adds the usual remedy for this kind of error.
    pub fn new(
        operation: impl Into<Cow<'static, str>>,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        let source = source.into();
        Self { operation: operation.into(), path: path.into(), remedy: usual_remedy(source.kind()).into(), source }
    }

    /// Replaces the remedy, unless the new one is empty.
    pub fn with_remedy(mut self, remedy: impl Into<Cow<'static, str>>) -> Self {
        let remedy = remedy.into();
        if !remedy.is_empty() {
            self.remedy = remedy;
        }
        self
    }

    /// Returns the kind of the cause.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// Returns [`ExitCode::Refused`] for a link that root does not follow, otherwise [`ExitCode::RunFailed`].
    pub fn exit_code(&self) -> ExitCode {
        match UntrustedLink::in_error(&self.source) {
            Some(_) => ExitCode::Refused,
            None => ExitCode::RunFailed,
        }
    }
}

fn usual_remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there or choose another path",
        io::ErrorKind::PermissionDenied => remedy_of_denied_access(),
        io::ErrorKind::ReadOnlyFilesystem => "remount it read-write or choose another path",
        _ => "",
    }
}

/// Returns the remedy for a denied access: who owns the file or folder that denies it, what to type, and `otherwise`, which may be
/// empty.
pub(crate) fn remedy_of_denial(path: &Path, otherwise: &str) -> String {
    let remedy = match foreign_owner(path) {
        Some((at, 0)) => format!("{} belongs to root: repeat the command with sudo", at.display()),
        Some((at, owner)) => {
            format!("{} belongs to {}: repeat the command as this user", at.display(), user_words(owner))
        }
        None => "check the permissions".into(),
    };
    if otherwise.is_empty() { remedy } else { format!("{remedy}, or {otherwise}") }
}

/// Returns the innermost existing file or folder of a path, and its owner if that is another user.
fn foreign_owner(path: &Path) -> Option<(&Path, u32)> {
    let here = |at: &Path| if at.as_os_str().is_empty() { PathBuf::from(".") } else { at.into() };
    let (at, owner) = path.ancestors().find_map(|at| Some((at, here(at).metadata().ok()?.uid())))?;
    let at = if at.as_os_str().is_empty() { Path::new(".") } else { at };
    (!is_own(owner)).then_some((at, owner))
}

fn behind(remedy: &str) -> String {
    if remedy.is_empty() { String::new() } else { format!("\nhint: {remedy}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_operation_path_cause_and_remedy() {
        let full = || IoFailure::new("write", "/mnt/a", io::Error::from_raw_os_error(28));
        assert_eq!(
            full().to_string(),
            "cannot write /mnt/a: No space left on device (ENOSPC)\nhint: free some space there or choose another path"
        );
        let other = full().with_remedy("choose a larger --size").to_string();
        assert_eq!(other, "cannot write /mnt/a: No space left on device (ENOSPC)\nhint: choose a larger --size");
        let busy = IoFailure::new(format!("open {}", 1), "/dev/x", io::Error::from_raw_os_error(16)).with_remedy("");
        assert_eq!(busy.to_string(), "cannot open 1 /dev/x: Device or resource busy (EBUSY)");
    }

    #[test]
    fn owner_of_a_denied_path_is_named() {
        let room = tempfile::tempdir().unwrap();
        let (run, missing) = (room.path().join("run"), room.path().join("run/a/b"));
        std::fs::create_dir(&run).unwrap();
        assert_eq!((foreign_owner(&run), foreign_owner(&missing)), (None, None));
        assert_eq!(remedy_of_denial(&run, ""), "check the permissions");
        if !rustix::process::geteuid().is_root() || std::os::unix::fs::chown(&run, Some(65534), None).is_err() {
            return eprintln!("files cannot be given away here");
        }
        assert_eq!(foreign_owner(&missing), Some((run.as_path(), 65534)));
        let remedy = remedy_of_denial(&missing, "choose another path");
        assert!(remedy.contains("belongs to user 65534") && remedy.ends_with(", or choose another path"), "{remedy}");
    }
}
