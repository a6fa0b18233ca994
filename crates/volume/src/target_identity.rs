//! Which target a run measures, found without a change to the target.

use crate::block_device::BlockDevice;
use crate::open::OpenOptions;
use crate::spec::TargetSpec;
use crate::{environment, signature};
use senesce_core::Bytes;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;

/// What distinguishes a target from others. Unknown values are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetIdentity {
    /// Serial number of the device, or of the one that holds the image or the directory.
    pub device: Option<String>,
    /// Size of the image or the device, also of the one that holds the directory.
    pub size: Option<Bytes>,
    /// Name of the file system of a directory; name and UUID of one that is kept in an image or a device.
    pub file_system: Option<String>,
}

impl TargetIdentity {
    /// Inspects a target that is not open yet.
    pub fn of(spec: &TargetSpec, options: &OpenOptions) -> Self {
        let kept = |path: &Path, size: Bytes| {
            let kept = options.keep_existing.then(|| File::open(path).ok()).flatten()?;
            signature::name_and_uuid(&kept, size.0, path).ok().flatten()
        };
        match spec {
            TargetSpec::Memory { size } => Self { size: Some(*size), ..Self::default() },
            TargetSpec::Image { path, size } => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let device = BlockDevice::below(folder).as_ref().and_then(serial);
                let found = path.metadata().ok().map(|found| Bytes(found.len()));
                let size = size.or(options.size).filter(|_| !options.keep_existing).or(found);
                Self { device, size, file_system: size.and_then(|size| kept(path, size)) }
            }
            TargetSpec::Device(path) => BlockDevice::open(path).ok().map_or_else(Self::default, |device| {
                let size = device.size();
                Self { device: serial(&device), size: Some(size), file_system: kept(path, size) }
            }),
            TargetSpec::Directory(path) => {
                let device = BlockDevice::below(path);
                Self {
                    size: device.as_ref().map(BlockDevice::size),
                    device: device.as_ref().and_then(serial),
                    file_system: path.exists().then(|| environment::file_system_name(path)),
                }
            }
        }
    }

    /// Returns the first difference between values that both have.
    pub fn difference(&self, later: &Self) -> Option<String> {
        let text = |size: &Option<Bytes>| size.map(|size| format!("{} bytes", size.0));
        let values = [
            ("device", self.device.clone(), later.device.clone()),
            ("size", text(&self.size), text(&later.size)),
            ("file system", self.file_system.clone(), later.file_system.clone()),
        ];
        values.into_iter().find_map(|(name, then, now)| {
            let (then, now) = then.zip(now)?;
            (then != now).then(|| format!("its {name} was {then} in earlier repetitions, and is {now}"))
        })
    }
}

/// Returns the serial number. The name of a device without one can change.
fn serial(device: &BlockDevice) -> Option<String> {
    device.serial().map(|_| device.word())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn image(path: &Path, size: Option<Bytes>) -> TargetSpec {
        TargetSpec::Image { path: path.into(), size }
    }

    /// Writes a superblock of ext4 with a UUID.
    fn ext4(path: &Path, mib: usize, uuid: u8) {
        let mut bytes = vec![0; mib << 20];
        bytes[1080..1082].copy_from_slice(&[0x53, 0xEF]);
        bytes[1128..1144].fill(uuid);
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn kept_image_is_another_one_with_another_size_or_uuid() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.img");
        let now = || TargetIdentity::of(&image(&path, None), &OpenOptions::existing());
        ext4(&path, 1, 7);
        let first = now();
        assert_eq!(first.file_system.as_deref(), Some(&*format!("ext4 {}", "07".repeat(16))));
        assert_eq!(first.difference(&now()), None);
        for (mib, uuid) in [(2, 7), (1, 8)] {
            ext4(&path, mib, uuid);
            assert!(first.difference(&now()).is_some(), "{mib} MiB, UUID {uuid}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(first.difference(&now()), None, "opening it reports that it is missing");
    }

    #[test]
    fn content_of_an_image_to_format_does_not_matter() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.img");
        let of = |size| TargetIdentity::of(&image(&path, size), &OpenOptions::default());
        let first = of(Some(Bytes::mib(1)));
        ext4(&path, 1, 7);
        assert_eq!(first, of(None));
        ext4(&path, 2, 7);
        assert_eq!(first, of(Some(Bytes::mib(1))));
        assert!(first.difference(&of(None)).is_some());
    }
}
