//! Who uses a block device and what lies on it: the questions whose default answer refuses.

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::{signature, zones};
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A line of `/proc/self/mountinfo` (proc(5)), as far as it is needed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountLine {
    /// Major and minor number of the file system's device (anonymous for btrfs and others).
    pub device: (u32, u32),
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Options of the mount and of the file system.
    pub options: String,
    /// Its type.
    pub file_system: String,
    /// What was mounted.
    pub source: PathBuf,
}

/// All mounts that this process sees.
pub fn mounts() -> Result<Vec<MountLine>, TargetError> {
    let path = Path::new("/proc/self/mountinfo");
    let text = fs::read_to_string(path).map_err(TargetError::io("read", path))?;
    Ok(text.lines().filter_map(parse_mount_line).collect())
}

fn parse_mount_line(line: &str) -> Option<MountLine> {
    let (head, tail) = line.split_once(" - ")?;
    let head: Vec<&str> = head.split(' ').collect();
    let tail: Vec<&str> = tail.split(' ').collect();
    let (major, minor) = head.get(2)?.split_once(':')?;
    Some(MountLine {
        device: (major.parse().ok()?, minor.parse().ok()?),
        mount_point: unescape(head.get(4)?).into(),
        options: format!("{},{}", head.get(5)?, tail.get(2)?),
        file_system: (*tail.first()?).to_string(),
        source: unescape(tail.get(1)?).into(),
    })
}

/// Blanks, tabs, newlines and backslashes are written as three octal digits there.
fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match (bytes[at], code.and_then(|digits| u8::from_str_radix(digits, 8).ok())) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                at += 4;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Why a block device is in use: it, a partition of it or the disk it is a part of is mounted, swapped to, held by
/// another device or attached to a loop device. `None`: nobody uses it.
pub fn use_of(device: &BlockDevice) -> Result<Option<String>, TargetError> {
    let mounts = mounts()?;
    let swaps = swap_areas();
    for relative in device.relatives()? {
        let name = relative.name().to_string();
        let what = if relative.number() == device.number() { "it".to_string() } else { format!("its relative {name}") };
        let is_it = |path: &Path| BlockDevice::number_of(path) == Some(relative.number());
        let mounted = mounts.iter().find(|line| line.device == relative.number() || is_it(&line.source));
        if let Some(line) = mounted {
            return Ok(Some(format!("{what} is mounted on {}", line.mount_point.display())));
        }
        if let Some(swap) = swaps.iter().find(|path| is_it(path)) {
            return Ok(Some(format!("{what} is swap space ({})", swap.display())));
        }
        if let Some(holder) = relative.holders().first() {
            return Ok(Some(format!("{what} is held by {holder}")));
        }
        if let Some(member) = btrfs_member(&name) {
            return Ok(Some(format!("{what} belongs to the mounted btrfs {member}")));
        }
        if let Some(loop_name) = loop_over(relative.path()) {
            return Ok(Some(format!("{what} is attached to {loop_name}")));
        }
    }
    exclusive_use(device.path())
}

/// The kernel's own answer: an exclusive open fails while a file system, dm, md or swap holds the device or a part of it.
fn exclusive_use(path: &Path) -> Result<Option<String>, TargetError> {
    match fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(path) {
        Ok(_) => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(Some("the kernel says that it is in use".into())),
        Err(error) => Err(TargetError::io("open", path)(error)),
    }
}

fn swap_areas() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(PathBuf::from).collect()
}

fn btrfs_member(name: &str) -> Option<String> {
    let volumes = fs::read_dir("/sys/fs/btrfs").ok()?.flatten();
    let volume = volumes.into_iter().find(|volume| volume.path().join("devices").join(name).exists())?;
    Some(volume.file_name().to_string_lossy().into_owned())
}

fn loop_over(path: &Path) -> Option<String> {
    let entries = fs::read_dir("/sys/block").ok()?.flatten();
    let found = entries.into_iter().find(|entry| {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        !backing.is_empty() && Path::new(backing.trim_end()) == path
    })?;
    Some(format!("/dev/{}", found.file_name().to_string_lossy()))
}

/// Refuses a block device in use (always), or one that holds something unless `erase` repeats its identity.
pub fn check_device(device: &BlockDevice, erase: Option<&str>) -> Result<(), TargetError> {
    check_unused(device)?;
    let path = device.path();
    let file = File::open(path).map_err(TargetError::io("open", path))?;
    let mut found = signature::probe(&file, device.size().0, path)?;
    if found.is_none() && device.is_zoned() {
        found = zones::probe(&file, path)?;
    }
    let Some(found) = found else { return Ok(()) };
    allow_erase(&device.identities(), &found, erase)
}

/// Refuses a block device in use; no flag allows it.
pub fn check_unused(device: &BlockDevice) -> Result<(), TargetError> {
    match use_of(device)? {
        Some(found) => Err(TargetError::refused(
            device.path().display(),
            found,
            "unmount or release it first; no flag allows using a device that is in use",
        )),
        None => Ok(()),
    }
}

/// Refuses an image file that holds something unless `erase` repeats its path.
pub fn check_image(file: &File, path: &Path, erase: Option<&str>) -> Result<(), TargetError> {
    let metadata = file.metadata().map_err(TargetError::io("look at", path))?;
    if !metadata.is_file() {
        let kind = if metadata.file_type().is_block_device() { "a block device" } else { "not a regular file" };
        return Err(TargetError::Usage(format!("{} is {kind}: an image must be a regular file", path.display())));
    }
    if crate::sparse::is_all_zero(file, metadata.size(), path)? {
        return Ok(());
    }
    let known = signature::probe(file, metadata.size(), path)?;
    let found = known.unwrap_or_else(|| "data".into());
    let real = path.canonicalize().unwrap_or_else(|_| path.into());
    let mut identities = vec![path.display().to_string(), real.display().to_string()];
    identities.dedup();
    allow_erase(&identities, &found, erase)
}

fn allow_erase(identities: &[String], found: &str, erase: Option<&str>) -> Result<(), TargetError> {
    match erase {
        Some(word) if identities.iter().any(|identity| identity == word) => Ok(()),
        Some(word) => Err(TargetError::refused(
            &identities[0],
            format!("it holds {found}, and --erase {word} does not name it"),
            format!("repeat its identity: --erase {}", identities.join(" or --erase ")),
        )),
        None => Err(TargetError::refused(
            &identities[0],
            format!("it holds {found}"),
            format!("choose another, or allow its loss with --erase {}", identities[0]),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn mount_lines_are_read_with_escapes() {
        let line = r"36 35 98:0 /mnt1 /mnt/my\040disk rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let parsed = parse_mount_line(line).unwrap();
        assert_eq!(parsed.device, (98, 0));
        assert_eq!(parsed.mount_point, Path::new("/mnt/my disk"));
        assert_eq!(parsed.options, "rw,noatime,rw,errors=continue");
        assert_eq!((parsed.file_system.as_str(), parsed.source.as_path()), ("ext3", Path::new("/dev/root")));
    }

    #[test]
    fn an_image_that_holds_something_is_refused_until_its_path_is_repeated() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4 << 20).unwrap();
        assert!(check_image(file.as_file(), file.path(), None).is_ok(), "all zero");
        file.as_file().write_all_at(b"x", 3 << 20).unwrap();
        let refused =
            |erase| matches!(check_image(file.as_file(), file.path(), erase), Err(TargetError::Refused { .. }));
        assert!(refused(None));
        assert!(refused(Some("/another/file")));
        assert!(!refused(Some(&file.path().to_string_lossy())));
    }
}
