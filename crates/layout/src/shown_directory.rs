//! Makes a target's files accessible: a directory as it is, an image or device where it is mounted, or through a read-only loop
//! device and a mount without journal replay.

use crate::error::LayoutError;
use crate::method::Mounted;
use senesce_core::environment::remedy_of_right;
use senesce_volume::guard::{MountLine, mounts};
use senesce_volume::{
    BlockDevice, FileSystem, MountedTarget, OpenOptions, TargetError, TargetSpec, VisitedDirectory, loop_device, visit,
};
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

pub enum ShownDirectory {
    Directory(PathBuf),
    /// Only a directory or subvolume of it is mounted.
    Part {
        directory: PathBuf,
        root: String,
    },
    Visited(Box<MountedTarget<VisitedDirectory>>),
}

impl ShownDirectory {
    pub fn of(target: &Path) -> Result<Self, LayoutError> {
        let failed = |source| LayoutError::Target { path: target.into(), source };
        let found = target.metadata().map_err(|source| LayoutError::io("open", target, source))?;
        let (spec, devices) = match found.file_type() {
            kind if kind.is_dir() => return Ok(Self::Directory(target.into())),
            kind if kind.is_block_device() => (TargetSpec::Device(target.into()), vec![target.to_path_buf()]),
            kind if kind.is_file() => {
                let file = File::open(target).map_err(|source| LayoutError::io("open", target, source))?;
                let devices = loop_device::attached_to(&file, target).map_err(failed)?;
                (TargetSpec::Image { path: target.into(), size: None }, devices)
            }
            _ => {
                return Err(failed(TargetError::Usage(
                    "it is neither a directory nor an image nor a block device".into(),
                )));
            }
        };
        // A second mount would miss changes that the first has not written yet.
        if let Some(line) = visible_mounts(target, &devices).map_err(failed)?.into_iter().next() {
            return Ok(match line.root.as_str() {
                "/" => Self::Directory(line.mount_point),
                _ => Self::Part { directory: line.mount_point, root: line.root },
            });
        }
        Ok(Self::Visited(Box::new(visit(&spec, &OpenOptions::inspect()).map_err(failed)?)))
    }

    pub fn view(&self) -> String {
        match self {
            Self::Directory(_) => "as mounted".into(),
            Self::Part { directory, root } => {
                format!("as mounted at {}, which shows only {root} of the file system", directory.display())
            }
            Self::Visited(_) => "mounted read-only for this examination".into(),
        }
    }

    pub(crate) fn mount_line(&self) -> Option<MountLine> {
        let path = self.directory().canonicalize().ok()?;
        let found = DirectoryDevice::at(&path)?;
        let is_it = |line: &MountLine| match found.is_btrfs {
            true => line.file_system == "btrfs",
            false => line.device == found.device,
        };
        let over = mounts().ok()?.into_iter().filter(|line| is_it(line) && path.starts_with(&line.mount_point));
        over.max_by_key(|line| line.mount_point.components().count())
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        let Self::Visited(target) = self else { return Vec::new() };
        let is_error = |line: &String| ["error", "orrupt"].iter().any(|word| line.contains(word));
        target
            .kernel_warnings()
            .into_iter()
            .filter(is_error)
            .map(|line| format!("the kernel reports: {line}"))
            .collect()
    }

    /// Returns its block device; for btrfs one of them.
    pub(crate) fn device(&self) -> Option<PathBuf> {
        if let Self::Visited(target) = self {
            return target.block_device().map(Path::to_path_buf);
        }
        let line = self.mount_line()?;
        match BlockDevice::from_number(line.device) {
            Some(device) => Some(device.path().to_path_buf()),
            None => Some(line.source),
        }
    }

    pub fn directory(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::Part { directory: path, .. } => path,
            Self::Visited(target) => target.mount_point(),
        }
    }
}

/// Mounts of a target on one of these devices that show its files, whole ones first. Empty if it is not mounted.
pub fn visible_mounts(target: &Path, devices: &[PathBuf]) -> Result<Vec<MountLine>, TargetError> {
    let numbers: Vec<_> = devices.iter().filter_map(|device| BlockDevice::number_of(device)).collect();
    let is_it = |line: &MountLine| {
        numbers.contains(&line.device) || BlockDevice::number_of(&line.source).is_some_and(|n| numbers.contains(&n))
    };
    visible_directory(target, &mounts()?, is_it, DirectoryDevice::at)
}

#[derive(Clone, Copy)]
struct DirectoryDevice {
    device: (u32, u32),
    is_btrfs: bool,
}

impl DirectoryDevice {
    /// Identifies a directory; `None` for other files, because single files can be mounted too.
    fn at(path: &Path) -> Option<Self> {
        let number = path.metadata().ok().filter(|found| found.is_dir())?.dev();
        let magic = rustix::fs::statfs(path).ok()?.f_type as u64 & 0xFFFF_FFFF;
        Some(Self {
            device: (rustix::fs::major(number), rustix::fs::minor(number)),
            is_btrfs: matches!(Mounted::new(magic, true), Mounted::Known(FileSystem::Btrfs)),
        })
    }
}

fn visible_directory(
    target: &Path,
    all: &[MountLine],
    is_it: impl Fn(&MountLine) -> bool,
    at: impl Fn(&Path) -> Option<DirectoryDevice>,
) -> Result<Vec<MountLine>, TargetError> {
    let mut found = Vec::new();
    let mut hidden = None;
    for (index, line) in all.iter().enumerate().filter(|(_, line)| is_it(line)) {
        if shows(line, &all[index + 1..], at(&line.mount_point)) {
            found.push(line.clone());
        } else {
            hidden = Some(line);
        }
    }
    match hidden {
        Some(line) if found.is_empty() => Err(TargetError::refused(
            target.display(),
            format!(
                "it is mounted at {}, but its files are not visible there: something else is mounted over it, or it is not \
                 accessible",
                line.mount_point.display()
            ),
            remedy_of_right("unmount the file system that hides it, or unmount the target"),
        )),
        _ => {
            found.sort_by_key(|line| line.root != "/");
            Ok(found)
        }
    }
}

/// Returns whether the mount is visible at its mount point: not hidden by a later mount there or above. Compares device
/// numbers, except for btrfs, where every subvolume has its own, which mountinfo does not list (fs/btrfs/inode.c,
/// btrfs_getattr).
fn shows(line: &MountLine, later: &[MountLine], found: Option<DirectoryDevice>) -> bool {
    let is_btrfs = line.file_system == "btrfs";
    let hides = |other: &MountLine| other.mount_point == line.mount_point && (is_btrfs || other.device == line.device);
    let is_there = |found: DirectoryDevice| if is_btrfs { found.is_btrfs } else { found.device == line.device };
    found.is_some_and(is_there) && !later.iter().any(hides)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: (u32, u32), root: &str, point: &str, file_system: &str) -> MountLine {
        MountLine {
            device: number,
            root: root.into(),
            mount_point: point.into(),
            options: "rw,rw".into(),
            file_system: file_system.into(),
            source: "/dev/example".into(),
        }
    }

    fn points(all: &[MountLine], number: (u32, u32), at: fn(&Path) -> Option<DirectoryDevice>) -> Option<Vec<String>> {
        let found = visible_directory(Path::new("image"), all, |line| line.device == number, at).ok()?;
        Some(found.into_iter().map(|line| format!("{}:{}", line.mount_point.display(), line.root)).collect())
    }

    #[test]
    fn visible_and_whole_mounts_are_preferred() {
        let ext4 = line((7, 0), "/", "/a", "ext4");
        let over = line((0, 50), "/", "/a", "tmpfs");
        let part = line((7, 0), "/sub", "/b", "ext4");
        let at = |path: &Path| {
            let device = if path == Path::new("/a") { (0, 50) } else { (7, 0) };
            Some(DirectoryDevice { device, is_btrfs: false })
        };
        assert_eq!(points(&[ext4.clone(), over.clone(), part.clone()], (7, 0), at).unwrap(), ["/b:/sub"]);
        assert_eq!(points(&[ext4.clone(), over], (7, 0), at), None, "hidden everywhere");
        let here = |_: &Path| Some(DirectoryDevice { device: (7, 0), is_btrfs: false });
        assert_eq!(points(&[part.clone(), ext4.clone()], (7, 0), here).unwrap(), ["/a:/", "/b:/sub"]);
        let part_over = line((7, 0), "/sub", "/a", "ext4");
        assert_eq!(points(&[ext4, part_over], (7, 0), here).unwrap(), ["/a:/sub"]);
        assert_eq!(points(&[part], (7, 1), here).unwrap(), Vec::<String>::new(), "not mounted");
    }

    #[test]
    fn btrfs_subvolumes_are_found_despite_their_device_numbers() {
        let at = |_: &Path| Some(DirectoryDevice { device: (0, 99), is_btrfs: true });
        let all = [line((0, 40), "/@", "/", "btrfs"), line((0, 40), "/", "/top", "btrfs")];
        assert_eq!(points(&all, (0, 40), at).unwrap(), ["/top:/", "/:/@"]);
        let over = [line((0, 40), "/", "/top", "btrfs"), line((0, 41), "/", "/top", "btrfs")];
        assert_eq!(points(&over, (0, 40), at), None, "another one of btrfs hides it");
    }
}
