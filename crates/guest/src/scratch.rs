//! The host's folder of one run: initramfs, drives, console, control share.

use crate::error::GuestError;
use senesce_volume::ScratchDirectory;
use std::path::{Path, PathBuf};

/// A private folder for one run, removed at its end, or after the end of a killed process.
pub(crate) struct Scratch {
    folder: ScratchDirectory,
    console: PathBuf,
}

impl Scratch {
    /// Creates it in `$TMPDIR`, because drives are large.
    pub(crate) fn new() -> Result<Self, GuestError> {
        let folder = ScratchDirectory::large("vm")?;
        let console = folder.path().join("console");
        Ok(Self { folder, console })
    }

    pub(crate) fn console(&self) -> &Path {
        &self.console
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}
