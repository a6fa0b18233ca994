//! An image that a guest of this process writes. The guest cannot see who uses the file on the host.

use crate::error::TargetError;
use crate::{guard, lock};
use rustix::fs::Access;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

/// Keeps other runs from using an image until it is dropped.
#[derive(Debug)]
pub struct HeldImage {
    _locked: File,
}

impl HeldImage {
    /// Locks an image; `None`: it does not exist.
    ///
    /// # Errors
    /// A refusal if the file is in use, or cannot be opened.
    pub fn hold(path: &Path) -> Result<Option<Self>, TargetError> {
        if path.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(None);
        }
        // Reading verbs need no more.
        let may_write = rustix::fs::access(path, Access::WRITE_OK).is_ok();
        let (file, _) = guard::open_image(path, may_write)?;
        lock::lock(&file, path)?;
        guard::check_image_unused(&file, path)?;
        Ok(Some(Self { _locked: file }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_that_another_process_has_open_is_not_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.img");
        assert!(HeldImage::hold(&path).unwrap().is_none());
        std::fs::write(&path, "data").unwrap();
        let held = HeldImage::hold(&path).unwrap();
        assert!(matches!(HeldImage::hold(&path), Err(TargetError::Refused { .. })), "another run");
        drop(held);
        let mut user =
            std::process::Command::new("sleep").arg("600").stdin(File::open(&path).unwrap()).spawn().unwrap();
        let while_used = HeldImage::hold(&path);
        user.kill().unwrap();
        user.wait().unwrap();
        assert!(matches!(while_used, Err(TargetError::Refused { .. })), "{while_used:?}");
        assert!(HeldImage::hold(&path).unwrap().is_some());
    }
}
