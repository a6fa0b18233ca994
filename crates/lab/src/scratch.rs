//! The folder of one run on the host: initramfs, drives, console, control share.

use crate::error::{LabError, io_error};
use std::fs;
use std::path::{Path, PathBuf};

/// A private folder for one run, removed at its end; those of processes that are gone are removed at the next start.
pub struct Scratch {
    folder: PathBuf,
    console: PathBuf,
}

const PREFIX: &str = "senesce-lab-";

impl Scratch {
    /// Makes it in `$TMPDIR`.
    pub fn new() -> Result<Self, LabError> {
        let base = std::env::temp_dir();
        sweep(&base);
        let folder = base.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(io_error("make folder", &folder))?;
        let console = folder.join("console");
        Ok(Self { folder, console })
    }

    /// Where the guest's console is written.
    pub fn console(&self) -> &Path {
        &self.console
    }

    /// The share through which guest and host speak.
    pub fn control(&self) -> PathBuf {
        self.folder.join("control")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.strip_prefix(PREFIX).and_then(|text| text.parse::<u32>().ok()) else { continue };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
