//! Who uses a block device: upwards (mounts, swap, holders, loop devices over it), sideways (its partitions and its disk) and
//! downwards (the file or device that a loop device or a mapped device lies on).

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::guard::{MountLine, mounts, unescape};
use crate::holders::{Identity, holders};
use crate::loop_device::{self, Backing};
use crate::overlay::Known;
use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Loop devices over loop devices are followed so far down.
const DEPTH: u32 = 16;

/// Why a block device is in use: it, a partition of it, the disk it is a part of, or what it lies on is mounted, swapped to,
/// held by another device or attached to a loop device. `None`: nobody uses it.
///
/// # Errors
/// Where the mounts cannot be read, or the partitions of one of the devices not be listed, or the device not be opened.
pub fn use_of(device: &BlockDevice) -> Result<Option<String>, TargetError> {
    let tables = Tables { mounts: mounts()?, swaps: swaps() };
    match tables.use_of(device, None, DEPTH)? {
        Some(found) => Ok(Some(found)),
        None => exclusive_use(device.path()),
    }
}

/// What the kernel says is mounted and swapped to.
struct Tables {
    mounts: Vec<MountLine>,
    swaps: Vec<PathBuf>,
}

impl Tables {
    /// `above`: the loop device from which the way downwards came here.
    fn use_of(&self, device: &BlockDevice, above: Option<&str>, depth: u32) -> Result<Option<String>, TargetError> {
        for relative in device.relatives()? {
            let name = relative.name();
            let what = match relative.number() == device.number() {
                true => "it".to_string(),
                false => format!("its relative {name}"),
            };
            if let Some(use_) = self.direct_use(&relative, above) {
                return Ok(Some(format!("{what} {use_}")));
            }
            if let Some(found) = self.below(&relative, depth)? {
                return Ok(Some(format!("{what} {found}")));
            }
        }
        Ok(None)
    }

    fn direct_use(&self, device: &BlockDevice, above: Option<&str>) -> Option<String> {
        let is_it = |path: &Path| BlockDevice::number_of(path) == Some(device.number());
        let mounted = self.mounts.iter().find(|line| line.device == device.number() || is_it(&line.source));
        if let Some(line) = mounted {
            return Some(format!("is mounted on {}", line.mount_point.display()));
        }
        if let Some(swap) = self.swaps.iter().find(|path| is_it(path)) {
            return Some(format!("is swap space ({})", swap.display()));
        }
        if let Some(holder) = device.holders().first() {
            return Some(format!("is held by {holder}"));
        }
        if let Some(member) = btrfs_member(device.name()) {
            return Some(format!("belongs to the mounted btrfs {member}"));
        }
        let over = loop_device::over_device(device).into_iter().find(|name| Some(name.as_str()) != above);
        over.map(|name| format!("is attached to /dev/{name}"))
    }

    /// Follows a loop device to its file or device, and a mapped device to what it is made of.
    fn below(&self, device: &BlockDevice, depth: u32) -> Result<Option<String>, TargetError> {
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(Some("lies on too many loop devices, one over the other".into()));
        };
        for part in device.made_of() {
            let mounted = self.mounts.iter().find(|line| line.device == part.number());
            if let Some(line) = mounted {
                return Ok(Some(format!(
                    "lies on {}, which is mounted on {}",
                    part.name(),
                    line.mount_point.display()
                )));
            }
            if let Some(found) = self.below(&part, depth)? {
                return Ok(Some(format!("lies on {}, which {found}", part.name())));
            }
        }
        match loop_device::backing_of(device) {
            None => Ok(None),
            Some(Backing::Device(under)) => {
                let found = match self.use_of(&under, Some(device.name()), depth)? {
                    // Its file system may be mounted where that cannot be seen.
                    None if under.path().exists() => exclusive_use(under.path())?,
                    found => found,
                };
                Ok(found.map(|found| format!("lies on {}: {found}", under.name())))
            }
            Some(Backing::File(known)) => Ok(self.use_of_file(device, &known)),
        }
    }

    /// The file of a loop device may be attached a second time, with another offset, or be swap space.
    fn use_of_file(&self, device: &BlockDevice, known: &Known) -> Option<String> {
        if let Some(swap) = self.swaps.iter().find(|path| is_known(path, known)) {
            return Some(format!("lies in the swap file {}", swap.display()));
        }
        let mut others = loop_device::over_file(known);
        others.retain(|path| path.file_name().is_some_and(|name| name != device.name()));
        let use_of = |path: &PathBuf| self.direct_use(&BlockDevice::open(path).ok()?, None);
        let used = others.iter().find_map(|path| Some((path, format!(", which {}", use_of(path)?))));
        let (other, used) = used.or_else(|| Some((others.first()?, String::new())))?;
        Some(format!("lies in a file that is attached to {} too{used}", other.display()))
    }
}

/// The kernel's own answer: an exclusive open fails while a file system, dm, md or swap holds the device or a part of it.
fn exclusive_use(path: &Path) -> Result<Option<String>, TargetError> {
    match fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL | libc::O_NONBLOCK).open(path) {
        Ok(_) => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            let who: Vec<String> = holders(&Identity::of_device(path)).iter().map(ToString::to_string).collect();
            Ok(Some(format!("the kernel says that it is in use {}", who.join("; ")).trim_end().into()))
        }
        Err(error) => Err(TargetError::io("open", path)(error)),
    }
}

/// Partitions and files that are swapped to (proc_swaps(5)).
fn swaps() -> Vec<PathBuf> {
    parse_swaps(&fs::read_to_string("/proc/swaps").unwrap_or_default())
}

fn parse_swaps(text: &str) -> Vec<PathBuf> {
    let names = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    names.map(|name| unescape(name).trim_end_matches(" (deleted)").into()).collect()
}

/// The swap file that this is.
pub(crate) fn swap_file(known: &Known) -> Option<PathBuf> {
    swaps().into_iter().find(|path| is_known(path, known))
}

fn is_known(path: &Path, known: &Known) -> bool {
    fs::metadata(path).is_ok_and(|found| known.numbers.contains(&(found.dev(), found.ino())))
}

fn btrfs_member(name: &str) -> Option<String> {
    let volumes = fs::read_dir("/sys/fs/btrfs").ok()?.flatten();
    let volume = volumes.into_iter().find(|volume| volume.path().join("devices").join(name).exists())?;
    Some(volume.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_files_are_read_with_escapes() {
        let text = "Filename\t\t\tType\t\tSize\tUsed\tPriority\n/dev/sda2  partition 1 0 -2\n/my\\040swap file 1 0 -3\n\
                    /gone\\040(deleted) file 1 0 -4\n";
        let found = parse_swaps(text);
        assert_eq!(found, ["/dev/sda2", "/my swap", "/gone"].map(PathBuf::from));
    }
}
