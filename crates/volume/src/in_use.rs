//! Users of a block device: above (mounts, swap, holders, loop devices), next to it (its partitions and disk) and below
//! (the file or device that a loop or mapped device uses).

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::guard::{MountLine, mounts, unescape};
use crate::holders::{Identity, holders};
use crate::overlay::OverlayFile;
use crate::witness::UnavailableWitness;
use crate::witness::kernel_files::Tree;
use crate::witness::loops::{self, Backing};
use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const DEPTH: u32 = 16;

/// Explains why a block device is in use. It, its partitions, its disk or anything below it is mounted, swap space,
/// held by another device or attached to a loop device. `None`: unused. Fails if any of these cannot be determined.
pub fn use_of(device: &BlockDevice) -> Result<Option<String>, TargetError> {
    let tables = Tables { target: device.path(), mounts: mounts()?, swaps: swaps().unwrap_or_default() };
    match tables.use_of(device, None, DEPTH)? {
        Some(found) => Ok(Some(found)),
        None => exclusive_use(device.path()),
    }
}

struct Tables<'a> {
    target: &'a Path,
    mounts: Vec<MountLine>,
    /// Used for names only: the kernel's own answer is an exclusive open.
    swaps: Vec<Swap>,
}

impl Tables<'_> {
    /// Explains the use of `device`. `above`: the loop device whose backing device this is.
    fn use_of(&self, device: &BlockDevice, above: Option<&Path>, depth: u32) -> Result<Option<String>, TargetError> {
        for relative in device.relatives()? {
            let name = relative.name();
            let what = match relative.number() == device.number() {
                true => "it".to_string(),
                false => format!("its relative {name}"),
            };
            if let Some(use_) = self.direct_use(&relative, above)? {
                return Ok(Some(format!("{what} {use_}")));
            }
            if let Some(found) = self.below(&relative, depth)? {
                return Ok(Some(format!("{what} {found}")));
            }
        }
        Ok(None)
    }

    fn direct_use(&self, device: &BlockDevice, above: Option<&Path>) -> Result<Option<String>, TargetError> {
        let is_it = |path: &Path| BlockDevice::number_of(path) == Some(device.number());
        let mounted = self.mounts.iter().find(|line| line.device == device.number() || is_it(&line.source));
        if let Some(line) = mounted {
            return Ok(Some(format!("is mounted on {}", line.mount_point.display())));
        }
        if let Some(swap) = self.swaps.iter().find(|swap| is_it(&swap.path)) {
            return Ok(Some(format!("is swap space ({})", swap.path.display())));
        }
        if let Some(holder) = device.holders().first() {
            return Ok(Some(format!("is held by {holder}")));
        }
        if let Some(member) = btrfs_member(device.name()) {
            return Ok(Some(format!("belongs to the mounted btrfs {member}")));
        }
        let over = loops::over_device(device).map_err(|silent| self.unknown(&silent, "a loop device uses it"))?;
        let over = over.into_iter().find(|path| Some(path.as_path()) != above);
        Ok(over.map(|path| format!("is attached to {}", path.display())))
    }

    fn unknown(&self, silent: &UnavailableWitness, whether: &str) -> TargetError {
        silent.refusal(self.target, whether)
    }

    fn below(&self, device: &BlockDevice, depth: u32) -> Result<Option<String>, TargetError> {
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(Some("is on too many nested loop devices".into()));
        };
        for part in device.made_of() {
            let mounted = self.mounts.iter().find(|line| line.device == part.number());
            if let Some(line) = mounted {
                return Ok(Some(format!("is on {}, which is mounted on {}", part.name(), line.mount_point.display())));
            }
            if let Some(found) = self.below(&part, depth)? {
                return Ok(Some(format!("is on {}, which {found}", part.name())));
            }
        }
        let backing = loops::backing_of(device)
            .map_err(|silent| self.unknown(&silent, "the device or file below it is in use"))?;
        match backing {
            None => Ok(None),
            Some(Backing::Device(under)) => {
                let found = match self.use_of(&under, Some(device.path()), depth)? {
                    // Its file system may be mounted in an invisible namespace.
                    None => exclusive_use(under.path())?,
                    found => found,
                };
                Ok(found.map(|found| format!("is on {}: {found}", under.name())))
            }
            Some(Backing::File(known)) => self.use_of_file(device, &known),
        }
    }

    /// Explains the use of a loop device's file. It may be attached a second time with another offset, or be swap
    /// space.
    fn use_of_file(&self, device: &BlockDevice, known: &OverlayFile) -> Result<Option<String>, TargetError> {
        // A write lease is not possible: the loop device itself has the file open.
        let swap = swap_file(known).map_err(|silent| self.unknown(&silent, "its file is swap space"))?;
        if let Some(swap) = swap {
            return Ok(Some(format!("is in the swap file {}", swap.display())));
        }
        let over = loops::over_file(known);
        let mut others = over.map_err(|silent| self.unknown(&silent, "its file is attached to another loop device"))?;
        others.retain(|path| path.file_name().is_some_and(|name| name != device.name()));
        for path in &others {
            if let Some(used) = self.direct_use(&BlockDevice::open(path)?, None)? {
                return Ok(Some(format!(
                    "is in a file that is attached to {} as well, and that device {used}",
                    path.display()
                )));
            }
        }
        Ok(others.first().map(|path| format!("is in a file that is attached to {} as well", path.display())))
    }
}

pub(crate) fn files_below(device: &BlockDevice) -> Result<Vec<(u64, u64)>, UnavailableWitness> {
    match loops::backing_of(&device.disk())? {
        None => Ok(Vec::new()),
        Some(Backing::File(known)) => known.unseen.map_or(Ok(known.numbers), Err),
        Some(Backing::Device(under)) => files_below(&under),
    }
}

/// Asks the kernel itself: an exclusive open fails while a file system, dm, md or swap holds the device or a part of
/// it.
fn exclusive_use(path: &Path) -> Result<Option<String>, TargetError> {
    match fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL | libc::O_NONBLOCK).open(path) {
        Ok(_) => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            let who: Vec<String> = holders(&Identity::of_device(path)).iter().map(ToString::to_string).collect();
            Ok(Some(format!("the kernel reports that it is in use {}", who.join("; ")).trim_end().into()))
        }
        Err(error) => Err(TargetError::io("open", path)(error)),
    }
}

#[derive(Debug, PartialEq)]
struct Swap {
    path: PathBuf,
    is_file: bool,
}

fn swaps() -> Result<Vec<Swap>, UnavailableWitness> {
    let proc = Tree::proc()?;
    match proc.read("swaps") {
        Ok(text) if text.starts_with("Filename") => Ok(parse_swaps(&text)),
        Ok(_) => Err(UnavailableWitness("/proc/swaps: it is empty".into())),
        // A kernel without swap space does not have this file; neither does a /proc with subset=pid.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => proc.certain("partitions").map(|_| Vec::new()),
        Err(error) => Err(proc.silent("swaps", &error)),
    }
}

fn parse_swaps(text: &str) -> Vec<Swap> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let path = unescape(words.next()?).trim_end_matches(" (deleted)").into();
        Some(Swap { path, is_file: words.next() == Some("file") })
    };
    text.lines().skip(1).filter_map(of_line).collect()
}

pub(crate) fn swap_file(known: &OverlayFile) -> Result<Option<PathBuf>, UnavailableWitness> {
    let swaps = swaps()?;
    if let Some(found) = swaps.iter().find(|swap| is_known(&swap.path, known)) {
        return Ok(Some(found.path.clone()));
    }
    let elsewhere = swaps.iter().find(|swap| swap.is_file && !swap.path.exists());
    match (elsewhere, &known.unseen) {
        (Some(swap), _) => {
            Err(UnavailableWitness(format!("the swap file {} has another name here", swap.path.display())))
        }
        (None, Some(silent)) => Err(silent.clone()),
        (None, None) => Ok(None),
    }
}

fn is_known(path: &Path, known: &OverlayFile) -> bool {
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
        let swap = |path: &str, is_file| Swap { path: path.into(), is_file };
        assert_eq!(parse_swaps(text), [swap("/dev/sda2", false), swap("/my swap", true), swap("/gone", true)]);
    }
}
