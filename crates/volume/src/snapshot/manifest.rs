//! The description of a snapshot.

use super::medium::Medium;
use crate::error::TargetError;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

const FORMAT: u32 = 2;
const WITHOUT_DIGESTS: u32 = 1;

/// The state of a target's content. Different stamps mean that it may have been written in between; equal stamps prove
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Stamp {
    /// Of an image: its inode and the times of its last modification and change.
    Image {
        inode: u64,
        /// Nanoseconds since 1970.
        modified_ns: i128,
        /// Nanoseconds since 1970 of the inode's last change, which no program can set.
        #[serde(default)]
        changed_ns: i128,
    },
    /// Of a device: sectors written and discarded since it appeared in this boot.
    Device {
        /// The kernel's identity of this boot.
        boot_id: String,
        /// The kernel's number of this appearance of the device.
        disk_sequence: String,
        /// Sectors written and discarded.
        sectors: [u64; 2],
        /// First sector of a partition, in units of 512 bytes.
        #[serde(default)]
        start: Option<u64>,
    },
}

impl Stamp {
    /// Returns whether both are of one appearance of one device. The kernel numbers the appearances of disks since
    /// Linux 5.15 (diskseq); before, nothing is proven.
    fn is_same_device(&self, now: &Self) -> bool {
        match (self, now) {
            (
                Self::Device { boot_id: boot, disk_sequence: sequence, start: first, .. },
                Self::Device { boot_id, disk_sequence, start, .. },
            ) => {
                let same = (boot, sequence, first) == (boot_id, disk_sequence, start);
                same && !boot.is_empty() && !sequence.is_empty()
            }
            _ => false,
        }
    }
}

/// Stored as `NAME.json` next to the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub format: u32,
    pub size: u64,
    /// Serial number of the device, if it has one.
    pub serial: Option<String>,
    /// Distinguishes the target from others of its size: `SERIAL[-nsN][-atSECTOR]` of a device, `the image beside its
    /// folder` for snapshots in an image's own folder, else the image's path. `None`: made by an old version.
    #[serde(default)]
    pub identity: Option<String>,
    /// How the snapshot was made: `copy` or `reflink`.
    pub method: String,
    /// When the target was known to have this content.
    pub stamp: Stamp,
    /// BLAKE3 of the file of digests, in hexadecimal. `None`: made by an old version without digests.
    #[serde(default)]
    pub digests: Option<String>,
}

impl Manifest {
    pub(super) fn new(medium: &Medium, identity: String, method: &str, stamp: Stamp, digests: String) -> Self {
        let (size, serial, identity, digests) = (medium.size(), medium.serial(), Some(identity), Some(digests));
        Self { format: FORMAT, size, serial, identity, method: method.into(), stamp, digests }
    }

    pub(super) fn set_digests(&mut self, digests: String) {
        (self.format, self.digests) = (FORMAT, Some(digests));
    }

    pub(super) fn save(&self, path: &Path) -> Result<(), TargetError> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        crate::image_file::replace(path, |to| {
            use std::os::unix::fs::FileExt;
            to.file.write_all_at(&text, 0).map_err(TargetError::io("write", to.path))
        })
    }

    pub(super) fn load(path: &Path) -> Result<Self, TargetError> {
        let text = super::folder::read(path).map_err(TargetError::io("read", path))?;
        let manifest: Self = serde_json::from_slice(&text)
            .map_err(|error| TargetError::damaged(path, format!("it is not a snapshot description ({error})")))?;
        match manifest.format {
            FORMAT | WITHOUT_DIGESTS => Ok(manifest),
            other => Err(TargetError::damaged(path, format!("it has format {other}, this program reads {FORMAT}"))),
        }
    }

    /// Refuses a snapshot of another size or of another target before any write. A device without a serial number must
    /// have been attached all the time, and an image must have the same path, unless `erase` names it.
    pub(super) fn check(&self, medium: &Medium, image: &Path, erase: Option<&str>) -> Result<(), TargetError> {
        let found = super::folder::open(image).and_then(|file| file.metadata());
        let bytes = found.map_err(TargetError::io("check the snapshot", image))?.len();
        let differs = |what: &str, theirs: String, ours: String| {
            Err(TargetError::refused(
                medium.path().display(),
                format!("the snapshot is of another {what}: {theirs}, the target has {ours}"),
                "name the target of the snapshot",
            ))
        };
        if self.size != medium.size() || bytes != medium.size() {
            return differs("size", format!("{} bytes", self.size.min(bytes)), format!("{} bytes", medium.size()));
        }
        if self.serial != medium.serial() {
            let show = |serial: &Option<String>| serial.clone().unwrap_or_else(|| "none".into());
            return differs("serial number", show(&self.serial), show(&medium.serial()));
        }
        if medium.is_named(erase) {
            return Ok(());
        }
        let refused = |found: String| {
            let (path, journal) = (medium.path().display(), image.with_file_name("journal"));
            let ways = format!(
                "check whether it is the same target; if so: senesce snapshot restore {path} SNAPSHOT --erase {path}; \
                 otherwise name the target of the snapshot"
            );
            let remedy = if journal.exists() { format!("{ways}, or remove {}", journal.display()) } else { ways };
            Err(TargetError::refused(path, found, remedy))
        };
        if medium.is_nameless() {
            return match self.stamp.is_same_device(&medium.stamp()?) {
                true => Ok(()),
                false => refused(
                    "the snapshot is of a device without a serial number; after a reboot or a change of devices, \
                     another device may have its name"
                        .into(),
                ),
            };
        }
        let ours = medium.identity(image.parent().unwrap_or(Path::new(".")));
        match &self.identity {
            Some(theirs) if *theirs != ours => refused(format!("the snapshot is of another target, {theirs}")),
            _ => Ok(()),
        }
    }
}

pub(super) fn check_name(name: &str) -> Result<(), TargetError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(TargetError::Usage(format!(
            "'{name}' is not a valid snapshot name: use letters, digits, '-', '_', '.'"
        )));
    }
    Ok(())
}

/// Lists the valid names only: the folder may belong to another user, and a file name may contain terminal escapes.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_string())).collect();
    names.retain(|name| check_name(name).is_ok());
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_same_only_while_attached() {
        let stamp = |boot: &str, sequence: &str, written| Stamp::Device {
            boot_id: boot.into(),
            disk_sequence: sequence.into(),
            sectors: [written, 0],
            start: None,
        };
        let taken = stamp("b1", "7", 5);
        assert!(taken.is_same_device(&stamp("b1", "7", 900)), "writes keep the identity");
        assert!(!taken.is_same_device(&stamp("b1", "8", 5)), "another device of that name");
        assert!(!taken.is_same_device(&stamp("b2", "7", 5)), "another boot");
        assert!(!stamp("b1", "", 5).is_same_device(&stamp("b1", "", 5)), "no number from the kernel");
        let part = |start| match stamp("b1", "7", 5) {
            Stamp::Device { boot_id, disk_sequence, sectors, .. } => {
                Stamp::Device { boot_id, disk_sequence, sectors, start }
            }
            image => image,
        };
        assert!(part(Some(2048)).is_same_device(&part(Some(2048))));
        assert!(!part(Some(2048)).is_same_device(&part(Some(10_240))), "another part of the disk");
        assert!(!taken.is_same_device(&part(Some(2048))), "a stamp of an old version without the partition");
    }
}
