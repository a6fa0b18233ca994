//! `auto`: the only zoned drive of this machine.

use crate::error::ZonedError;
use std::path::{Path, PathBuf};

/// Returns the block device of the only zoned drive of this machine.
pub(crate) fn only_zoned_drive() -> Result<PathBuf, ZonedError> {
    let found = zoned_drives(Path::new("/sys/block"));
    let names = || found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    match found.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(ZonedError::Missing {
            what: "this machine has no zoned drive".into(),
            remedy: "name a device, for example sim:zn540; `senesce vm run --drive zns` starts a guest with one".into(),
        }),
        _ => {
            Err(ZonedError::Usage(format!("'auto' selects the only zoned drive, but there are {}; name one", names())))
        }
    }
}

/// Finds zoned disks below a folder such as /sys/block, without stacked ones (device mapper).
fn zoned_drives(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let is_zoned = |entry: &Path| {
        let kind = std::fs::read_to_string(entry.join("queue/zoned")).unwrap_or_default();
        let stacked = entry.join("slaves").read_dir().is_ok_and(|mut below| below.next().is_some());
        matches!(kind.trim(), "host-managed" | "host-aware") && !stacked
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| is_zoned(&entry.path()))
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zoned_disks_are_found() {
        let room = tempfile::tempdir().unwrap();
        let disk = |name: &str, kind: &str| {
            std::fs::create_dir_all(room.path().join(name).join("queue")).unwrap();
            std::fs::write(room.path().join(name).join("queue/zoned"), format!("{kind}\n")).unwrap();
        };
        disk("nvme0n1", "host-managed");
        disk("sda", "none");
        disk("dm-0", "host-managed");
        std::fs::create_dir_all(room.path().join("dm-0/slaves/nvme0n1")).unwrap();
        std::fs::create_dir_all(room.path().join("nvme0n1/slaves")).unwrap();
        assert_eq!(zoned_drives(room.path()), [Path::new("/dev/nvme0n1")]);
        assert!(zoned_drives(&room.path().join("nowhere")).is_empty());
    }
}
