//! Kernel settings that are restored at the end, and by the guardian if the process is killed.

use crate::block_device;
use crate::error::TargetError;
use crate::guardian::Guardian;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct ChangedSetting {
    file: PathBuf,
    before: String,
    guardian: Guardian,
}

impl ChangedSetting {
    /// Sets `file` to `value` and records the previous value first. [`TargetError::Usage`] if the kernel changes the
    /// value, because the guardian could not recognise it after `kill -9`; the previous value is then restored.
    pub fn set(file: PathBuf, value: &str) -> Result<Self, TargetError> {
        let before = now(&file)?;
        let guardian = Guardian::of_setting(&file, value, &before)?;
        block_device::exchange(&file, value)?;
        let setting = Self { file, before, guardian };
        match now(&setting.file)? {
            made if made == value => Ok(setting),
            made => Err(TargetError::Usage(format!(
                "the kernel does not accept {value} for {}: it sets {made}; choose a value that it accepts",
                setting.file.display()
            ))),
        }
    }
}

fn now(file: &Path) -> Result<String, TargetError> {
    let text = std::fs::read_to_string(file).map_err(TargetError::io("read", file))?;
    Ok(block_device::chosen(&text).to_string())
}

impl Drop for ChangedSetting {
    fn drop(&mut self) {
        // The settings of a mount are gone with it.
        if let Err(error) = std::fs::write(&self.file, &self.before)
            && self.file.exists()
        {
            tracing::warn!("{} cannot be restored to {}: {error}", self.file.display(), self.before);
        }
        self.guardian.dismiss();
    }
}

#[cfg(test)]
pub(crate) fn is_in_ledger(file: &Path) -> bool {
    let own = crate::runtime::subfolder("owners").unwrap().join(crate::guardian::Owner::current().to_string());
    let entries = std::fs::read_dir(&own).into_iter().flatten().flatten();
    let mut texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    texts.any(|text| text.contains(&*file.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_is_recorded_before_change_and_restored() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("scheduler");
        std::fs::write(&file, "none [bfq]\n").unwrap();
        let owed = || is_in_ledger(&file);
        let setting = ChangedSetting::set(file.clone(), "none").unwrap();
        assert!(owed(), "a killed process would leave it");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "none");
        drop(setting);
        assert!(!owed());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "bfq");
    }
}
