//! A directory that goes with this process.

use crate::error::TargetError;
use crate::guardian::Guardian;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory of this process alone, removed with everything in it when it is dropped or the process is killed. Images in
/// memory would hold it until the next boot otherwise.
#[derive(Debug)]
pub struct ScratchDirectory {
    path: PathBuf,
    guardian: Guardian,
}

impl ScratchDirectory {
    /// Makes `parent/senesce-PURPOSE-PID`; a directory of that name is left from a dead process and is emptied.
    pub fn create(parent: &Path, purpose: &str) -> Result<Self, TargetError> {
        let path = parent.join(format!("senesce-{purpose}-{}", std::process::id()));
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(TargetError::io("empty directory", &path)(error));
            }
            _ => {}
        }
        fs::create_dir_all(&path).map_err(TargetError::io("make directory", &path))?;
        let guardian = Guardian::of_tree(&path)?;
        Ok(Self { path, guardian })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        self.guardian.dismiss();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_everything_in_it() {
        let room = tempfile::tempdir().unwrap();
        let scratch = ScratchDirectory::create(room.path(), "test").unwrap();
        let path = scratch.path().to_path_buf();
        fs::write(path.join("image"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
