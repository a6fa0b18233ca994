//! The objects of a kernel build, which are kept between builds. One build uses them at a time.

use crate::error::{GuestError, io_error};
use crate::fetch::run_watched;
use senesce_core::Progress;
use senesce_sys::lock::Locked;
use senesce_volume::TargetError;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The folder of the objects, created if needed.
#[derive(Debug)]
pub(super) struct Objects {
    folder: PathBuf,
    _lock: Locked,
}

impl Objects {
    /// Makes and locks the folder of a build.
    ///
    /// # Errors
    /// [`TargetError::Refused`] if another build uses the folder.
    pub(super) fn lock(folder: PathBuf) -> Result<Self, GuestError> {
        fs::create_dir_all(&folder).map_err(io_error("make folder", &folder))?;
        let open = File::open(&folder).map_err(io_error("open", &folder))?;
        let locked = Locked::within(open, Duration::ZERO).map_err(|errno| io_error("lock", &folder)(errno.into()))?;
        match locked {
            Some(lock) => Ok(Self { folder, _lock: lock }),
            None => {
                let remedy = "wait until it has ended";
                Err(TargetError::refused(folder.display(), "another kernel build is using it", remedy).into())
            }
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Runs make, and shows the number of compiled files.
pub(super) fn compile(make: &mut Command, progress: &dyn Progress) -> Result<(), GuestError> {
    progress.phase("compile the kernel", 0, "files");
    let mut compiled = 0;
    run_watched(make, |line| {
        if is_compilation(line) {
            compiled += 1;
            progress.position(compiled, "");
        }
    })
}

/// Returns whether a line of make names a file that it compiles (scripts/Makefile.build of the kernel).
fn is_compilation(line: &str) -> bool {
    line.starts_with("  CC ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::failure::{Classify, ExitCode};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn second_build_of_the_same_objects_is_refused() {
        let builds = tempfile::tempdir().unwrap();
        let folder = builds.path().join("objects");
        let first = Objects::lock(folder.clone()).unwrap();
        assert_eq!(Objects::lock(folder.clone()).unwrap_err().exit_code(), ExitCode::Refused);
        assert!(Objects::lock(builds.path().join("others")).is_ok());
        drop(first);
        assert_eq!(Objects::lock(folder.clone()).unwrap().folder(), folder);
    }

    #[test]
    fn progress_counts_compiled_files() {
        #[derive(Default)]
        struct Last(AtomicU64);
        impl Progress for Last {
            fn position(&self, done: u64, _note: &str) {
                self.0.store(done, Ordering::Relaxed);
            }
        }
        let last = Last::default();
        let script = "echo '  CC      init/main.o'; echo '  AR      init/built-in.a'; echo '  CC      init/version.o'";
        compile(Command::new("sh").args(["-c", script]), &last).unwrap();
        assert_eq!(last.0.load(Ordering::Relaxed), 2);
    }
}
