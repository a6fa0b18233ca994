//! Syncs before the kernel begins to write back by its limits, which count the pages of all programs.

use senesce_core::Failure;
use senesce_core::failure::failed;
use std::fs::File;
use std::path::Path;

/// A third of the limit in the smallest guest of these experiments.
const MOST: u64 = 32 << 20;

/// Bytes written to a file system since its last sync.
#[derive(Debug, Default)]
pub(crate) struct Unsynced(u64);

impl Unsynced {
    /// Counts written bytes, and syncs the file system when they reach `MOST`.
    ///
    /// # Errors
    /// The folder cannot be opened, or the data cannot be written back.
    pub(crate) fn wrote(&mut self, bytes: u64, folder: &Path) -> Result<(), Failure> {
        self.0 += bytes;
        if self.0 < MOST {
            return Ok(());
        }
        self.0 = 0;
        let folder_file = File::open(folder).map_err(failed("open", folder))?;
        rustix::fs::syncfs(&folder_file).map_err(|errno| failed("sync", folder)(errno.into()))
    }
}
