//! Device nodes of a drive, independent of the name that the user gave: the passthrough character device and the block
//! device.

use crate::error::ZonedError;
use senesce_volume::BlockDevice;
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

fn is_character_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_char_device())
}

/// Returns /dev/ngXnY of /dev/nvmeXnY, or the device itself if it is a character device. Resolves links first, because
/// files next to a link are unrelated to the drive.
pub(super) fn passthrough_path(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    if is_character_device(&real) {
        return Some(real);
    }
    let name = real.file_name()?.to_str()?.strip_prefix("nvme")?.to_string();
    let found = real.with_file_name(format!("ng{name}"));
    is_character_device(&found).then_some(found)
}

pub(crate) fn has_passthrough(path: &Path) -> bool {
    passthrough_path(path).is_some()
}

/// Returns /dev/nvmeXnY of /dev/ngXnY, or the path itself if it is a block device. Resolves links.
pub(super) fn block_path(path: &Path) -> Option<PathBuf> {
    if BlockDevice::number_of(path).is_some() {
        return Some(path.into());
    }
    let real = path.canonicalize().ok()?;
    let found = real.with_file_name(block_name(&real)?);
    BlockDevice::number_of(&found).is_some().then_some(found)
}

fn block_name(real: &Path) -> Option<String> {
    Some(format!("nvme{}", real.file_name()?.to_str()?.strip_prefix("ng")?))
}

/// Returns the block device of a character device according to the kernel's list in `class`.
fn hidden_block_device(path: &Path, class: &Path) -> Option<String> {
    let name = block_name(&path.canonicalize().ok()?)?;
    class.join(&name).exists().then_some(name)
}

pub(crate) fn has_block_device(path: &Path) -> bool {
    block_path(path).is_some()
}

/// Returns the drive's model; the kernel name for devices without one, such as null_blk or loop.
pub(crate) fn model_of(path: &Path) -> Option<String> {
    let identified = passthrough_path(path).and_then(|character| {
        let file = File::open(&character).ok()?;
        super::nvme_commands::Identity::read(&file, &character.display().to_string()).ok()
    });
    if let Some(identity) = identified {
        return Some(identity.model);
    }
    let device = BlockDevice::open(&block_path(path)?).ok()?.disk();
    device.attribute("device/model").filter(|model| !model.is_empty()).or_else(|| Some(device.name().into()))
}

/// Returns the serial number of a drive, or its path if it has none.
pub(super) fn identity_of(path: &Path) -> String {
    let block = block_path(path);
    let serial = block.as_deref().and_then(|block| BlockDevice::open(block).ok()?.serial());
    serial.unwrap_or_else(|| block.as_deref().unwrap_or(path).display().to_string())
}

/// Refuses a drive whose block device is listed in `class` but has no node here: its users cannot be determined. An
/// empty list counts as unknown, because every machine has block devices.
pub(super) fn check_visible(path: &Path, class: &Path, target: &str) -> Result<(), ZonedError> {
    let is_listing = class.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if block_name(&path.canonicalize().unwrap_or_default()).is_some() && !is_listing {
        return Err(ZonedError::Refused {
            target: target.into(),
            found: format!(
                "{} lists no block device, so senesce cannot determine whether the drive is in use",
                class.display()
            ),
            remedy: "mount it (mount -t sysfs sysfs /sys), or name the block device".into(),
        });
    }
    match hidden_block_device(path, class) {
        None => Ok(()),
        Some(name) => Err(ZonedError::Refused {
            target: target.into(),
            found: format!(
                "its block device {name} is not in the same folder, so senesce cannot determine whether it is in use"
            ),
            remedy: format!("make /dev/{name} visible here; no option allows using a drive that may be in use"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    use std::os::unix::fs::symlink;

    /// Ensures that the name of a link and its neighbours do not decide which drive is inspected.
    #[test]
    #[ignore = "needs root"]
    fn links_resolve_to_the_drives_block_device() {
        let room = tempfile::tempdir().unwrap();
        let real = room.path().canonicalize().unwrap();
        let (dev, planted) = (real.join("dev"), real.join("planted"));
        [&dev, &planted].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let node = |path: &Path, kind, number| mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, number).is_ok();
        // Devices without effect: an unused loop device and /dev/null.
        let made = node(&dev.join("nvme7n1"), FileType::BlockDevice, makedev(7, 250))
            && node(&planted.join("nvme0n1"), FileType::BlockDevice, makedev(7, 251))
            && node(&dev.join("ng7n1"), FileType::CharacterDevice, makedev(1, 3));
        assert!(made, "device nodes can be made");
        for link in ["drive", "ng0n1"] {
            symlink(dev.join("ng7n1"), planted.join(link)).unwrap();
            assert_eq!(block_path(&planted.join(link)).unwrap(), dev.join("nvme7n1"), "{link}");
            assert_eq!(passthrough_path(&planted.join(link)).unwrap(), dev.join("ng7n1"), "{link}");
        }
        symlink(dev.join("nvme7n1"), planted.join("disk")).unwrap();
        assert_eq!(passthrough_path(&planted.join("disk")).unwrap(), dev.join("ng7n1"));
    }

    #[test]
    fn hidden_block_device_is_detected() {
        let room = tempfile::tempdir().unwrap();
        let class = room.path().join("class");
        std::fs::create_dir_all(class.join("nvme9n1")).unwrap();
        for (drive, hidden) in [("ng9n1", Some("nvme9n1")), ("ng8n1", None), ("other", None)] {
            std::fs::write(room.path().join(drive), "").unwrap();
            symlink(drive, room.path().join(format!("link-{drive}"))).unwrap();
            for path in [drive.to_string(), format!("link-{drive}")] {
                let path = room.path().join(path);
                assert_eq!(hidden_block_device(&path, &class).as_deref(), hidden);
                assert_eq!(check_visible(&path, &class, "drive").is_err(), hidden.is_some());
            }
        }
        let nothing = room.path().join("nothing");
        assert!(check_visible(&room.path().join("ng8n1"), &nothing, "drive").is_err(), "no list is not an answer");
    }
}
