//! A setting of the kernel's that comes back: at the end, and by the guardian when the process is killed.

use crate::block_device;
use crate::error::TargetError;
use crate::guardian::Guardian;
use std::path::PathBuf;

/// A file of the kernel's that has another value while this lives.
#[derive(Debug)]
pub struct ChangedSetting {
    file: PathBuf,
    before: String,
    guardian: Guardian,
}

impl ChangedSetting {
    /// Sets `file` to `value`; what it was is written down before.
    ///
    /// # Errors
    /// When the file cannot be read or written, or the ledger not be written.
    pub fn set(file: PathBuf, value: &str) -> Result<Self, TargetError> {
        let before = std::fs::read_to_string(&file).map_err(TargetError::io("read", &file))?;
        let before = block_device::chosen(&before).to_string();
        let guardian = Guardian::of_setting(&file, value, &before)?;
        block_device::exchange(&file, value)?;
        Ok(Self { file, before, guardian })
    }
}

impl Drop for ChangedSetting {
    fn drop(&mut self) {
        // The settings of a mount are gone with it.
        if let Err(error) = std::fs::write(&self.file, &self.before)
            && self.file.exists()
        {
            tracing::warn!("{} does not go back to {}: {error}", self.file.display(), self.before);
        }
        self.guardian.dismiss();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_the_ledger_before_it_is_set_and_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("scheduler");
        std::fs::write(&file, "none [bfq]\n").unwrap();
        let own = crate::runtime::subfolder("owners").unwrap().join(crate::guardian::Owner::current().to_string());
        let owed = || {
            let entries = std::fs::read_dir(&own).into_iter().flatten().flatten();
            let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
            texts.into_iter().any(|text| text.contains(&*file.to_string_lossy()))
        };
        let setting = ChangedSetting::set(file.clone(), "none").unwrap();
        assert!(owed(), "a killed process would leave it");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "none");
        drop(setting);
        assert!(!owed());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "bfq");
    }
}
