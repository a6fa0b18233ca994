//! Mounts that are undone on return, error, panic, signal and `kill -9`.

mod refusal;

use crate::block_device::BlockDevice;
use crate::cold;
use crate::custom::{CoveredMount, CustomFileSystem};
use crate::error::TargetError;
use crate::file_system::{CheckReport, FileSystem};
use crate::guardian::{self, Guardian, unmount_tree};
use crate::holders::{Identity, release_copies, users};
use crate::kernel_log::KernelLog;
use crate::loop_device::needs_root;
use crate::{guard, runtime, scratch_directory};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The mount point. It is in a read-only, empty file system, so that a program which stays after the unmount cannot
/// fill the host's disk.
pub(crate) const FILE_SYSTEM: &str = "fs";

/// Retry time for a busy unmount: some programs scan every new mount.
const BUSY_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Mount {
    device: PathBuf,
    point: PathBuf,
    file_system: MountedKind,
    options: String,
    mounted: Option<Identity>,
    beneath: Option<CoveredMount>,
    ending: Option<Identity>,
    _guardian: Guardian,
    _lock: Option<File>,
}

#[derive(Debug)]
enum MountedKind {
    Known(FileSystem),
    Custom(CustomFileSystem),
}

impl Mount {
    /// Mounts `device` on a new mount point. `lock` stays locked until the unmount is complete; after `kill -9` the
    /// next user waits for it in [`crate::guardian::sweep`]. [`TargetError::Missing`] without root or kernel support,
    /// [`TargetError::Program`] for an unknown option or a damaged file system.
    pub fn new(device: &Path, file_system: FileSystem, options: &str, lock: Option<File>) -> Result<Self, TargetError> {
        Self::of(device, MountedKind::Known(file_system), options, lock)
    }

    /// Mounts `device` by the commands of a custom file system. [`TargetError::Program`] if the command fails or leaves
    /// nothing mounted.
    pub(crate) fn custom(
        device: &Path,
        file_system: CustomFileSystem,
        lock: Option<File>,
    ) -> Result<Self, TargetError> {
        Self::of(device, MountedKind::Custom(file_system), "", lock)
    }

    fn of(device: &Path, file_system: MountedKind, options: &str, lock: Option<File>) -> Result<Self, TargetError> {
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        let (directory, guardian) = scratch_directory::mount_point(&name, |point| match &file_system {
            MountedKind::Custom(custom) if !custom.unmount.trim().is_empty() => {
                Guardian::of_custom_mount(point, device, &custom.unmount)
            }
            _ => Guardian::of_mount(point),
        })?;
        let mut mount = Self {
            device: device.into(),
            point: unwritable_point(&directory)?,
            file_system,
            options: options.into(),
            mounted: None,
            beneath: None,
            ending: None,
            _guardian: guardian,
            _lock: lock,
        };
        mount.mount()?;
        Ok(mount)
    }

    pub fn point(&self) -> &Path {
        &self.point
    }

    pub(crate) fn file_system(&self) -> Option<FileSystem> {
        match &self.file_system {
            MountedKind::Known(file_system) => Some(*file_system),
            MountedKind::Custom(_) => None,
        }
    }

    pub fn check(&self, device: &Path) -> Result<Option<CheckReport>, TargetError> {
        match &self.file_system {
            MountedKind::Known(file_system) => file_system.check(device),
            MountedKind::Custom(custom) => custom.check(device),
        }
    }

    pub fn mount(&mut self) -> Result<(), TargetError> {
        match &self.file_system {
            MountedKind::Known(file_system) => self.mount_known(*file_system)?,
            MountedKind::Custom(custom) => self.beneath = Some(custom.mount(&self.device, &self.point)?),
        }
        self.mounted = Some(Identity::of(&self.device, &self.point));
        self.ending = None;
        Ok(())
    }

    fn mount_known(&self, file_system: FileSystem) -> Result<(), TargetError> {
        let name = file_system.name();
        let log = KernelLog::briefly(BlockDevice::open(&self.device).ok().as_ref());
        let tried = |options: &str| {
            let (flags, data) = parse_options(options)?;
            Ok::<_, TargetError>(rustix::mount::mount(&self.device, &self.point, name, flags, data.as_deref()))
        };
        let mut mounted = tried(&self.options)?;
        if let (Err(Errno::INVAL), Some(options)) = (mounted, file_system.options_next_to_a_copy(&self.options)) {
            // Without a better result the first one stands.
            mounted = tried(&options)?.or(mounted);
        }
        mounted.map_err(|errno| {
            let command = format!("mount -t {name} -o '{}' {}", self.options, self.device.display());
            refusal::of(errno, file_system, &self.device, command, log.warnings())
        })
    }

    /// Unmounts it and waits until the file system has ended. Retries for a moment while other programs scan it.
    /// Refuses with the holders that keep it busy or alive.
    pub fn unmount(&mut self) -> Result<(), TargetError> {
        if let Some(identity) = self.mounted.clone() {
            self.detach(&identity)?;
            self.ending = Some(identity);
        }
        if let Some(identity) = &self.ending {
            cold::wait_for_end(identity)?;
        }
        self.ending = None;
        Ok(())
    }

    /// Makes a file system that is still in use elsewhere read-only, so that the content of its device is complete. It
    /// is unmounted even if that fails.
    pub(crate) fn finish_in_use(&mut self) -> Result<(), TargetError> {
        self.mount()?;
        let read_only = rustix::mount::mount_remount(&self.point, MountFlags::RDONLY, "");
        let read_only = read_only.map_err(TargetError::errno("make read-only", &self.point));
        let unmounted = rustix::mount::unmount(&self.point, UnmountFlags::DETACH);
        self.mounted = None;
        read_only?;
        unmounted.map_err(TargetError::errno("unmount", &self.point))
    }

    fn detach(&mut self, identity: &Identity) -> Result<(), TargetError> {
        self.unmount_below()?;
        // If its command left it mounted, umount(2) follows.
        if let (MountedKind::Custom(custom), Some(beneath)) = (&self.file_system, self.beneath)
            && custom.unmount(&self.device, &self.point, beneath)?
        {
            self.mounted = None;
            return Ok(());
        }
        let deadline = Instant::now() + BUSY_LIMIT;
        loop {
            match rustix::mount::unmount(&self.point, UnmountFlags::empty()) {
                Ok(()) => break,
                Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
                // Another process unmounted it, which is the desired state.
                Err(Errno::INVAL) => break,
                Err(Errno::BUSY) => return Err(cold::in_use(identity, "it cannot be unmounted", &users(identity))),
                Err(errno) => return Err(TargetError::errno("unmount", &self.point)(errno)),
            }
        }
        self.mounted = None;
        Ok(())
    }
}

impl Mount {
    /// Unmounts what a command mounted below, which would keep the file system busy.
    fn unmount_below(&self) -> Result<(), TargetError> {
        let below = || {
            let mut mounts = guardian::mounts()?;
            mounts.retain(|line| line.mount_point != self.point);
            Ok(mounts)
        };
        unmount_tree(&self.point, below).map(drop).map_err(TargetError::io("unmount everything below", &self.point))
    }
}

/// Makes the mount point in an empty read-only ramfs, which is in every kernel.
fn unwritable_point(directory: &Path) -> Result<PathBuf, TargetError> {
    let point = directory.join(FILE_SYSTEM);
    let failed = |errno: Errno| match errno {
        Errno::PERM => needs_root(),
        errno => TargetError::errno("make a mount point in", directory)(errno),
    };
    let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
    rustix::mount::mount("senesce", directory, "ramfs", flags, None).map_err(failed)?;
    rustix::fs::mkdir(&point, rustix::fs::Mode::RWXU).map_err(failed)?;
    rustix::mount::mount_remount(directory, flags | MountFlags::RDONLY, "").map_err(failed)?;
    Ok(point)
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(identity) = self.mounted.clone()
            && self.detach(&identity).is_err()
        {
            let _ = rustix::mount::unmount(&self.point, UnmountFlags::DETACH);
        }
        // The guardian, dropped next, unmounts and removes the directories below.
    }
}

/// Unmounts mounts of this device that a killed process left below our runtime folder, according to the ledger. Returns
/// whether the device is then free.
pub(crate) fn clean_up(device: &Path) -> Result<bool, TargetError> {
    let root = runtime::subfolder("mnt")?;
    let number = BlockDevice::number_of(device);
    let is_of_it =
        |line: &guard::MountLine| Some(line.device) == number || BlockDevice::number_of(&line.source) == number;
    // The ledger handles custom unmount commands: unmounting alone would keep the device held.
    if guard::mounts()?.iter().any(|line| is_of_it(line) && line.mount_point.starts_with(&root)) {
        guardian::sweep();
    }
    for line in guard::mounts()?.into_iter().filter(|line| is_of_it(line)) {
        // A run on the loop device itself has that device's lock, not the lock of its file.
        if !line.mount_point.starts_with(&root) || !guardian::is_left_mount(&line.mount_point) {
            return Ok(false);
        }
        let identity = Identity::of(device, &line.mount_point);
        tracing::warn!("unmounting {} left by a killed process", line.mount_point.display());
        match rustix::mount::unmount(&line.mount_point, UnmountFlags::DETACH) {
            // EINVAL: its guardian has already unmounted it.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(TargetError::errno("unmount", &line.mount_point)(errno)),
        }
        release_copies(&identity);
    }
    // Its guardian may have unmounted it here, but not in other mount namespaces.
    release_copies(&Identity::of_device(device));
    Ok(true)
}

const FLAGS: &[(&str, MountFlags)] = &[
    ("ro", MountFlags::RDONLY),
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("relatime", MountFlags::RELATIME),
    ("strictatime", MountFlags::STRICTATIME),
    ("lazytime", MountFlags::LAZYTIME),
    ("sync", MountFlags::SYNCHRONOUS),
    ("dirsync", MountFlags::DIRSYNC),
    ("nodev", MountFlags::NODEV),
    ("nosuid", MountFlags::NOSUID),
    ("noexec", MountFlags::NOEXEC),
    // Linux 5.10.
    ("nosymfollow", MountFlags::NOSYMFOLLOW),
];

/// Splits options into mount(2) flags and options of the file system.
fn parse_options(options: &str) -> Result<(MountFlags, Option<CString>), TargetError> {
    // The content may be foreign: device nodes and setuid programs work only on request.
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID;
    let mut data = Vec::new();
    for word in options.split(',').map(str::trim).filter(|word| !matches!(*word, "" | "rw" | "defaults")) {
        match (word, FLAGS.iter().find(|(name, _)| *name == word)) {
            ("dev", _) => flags -= MountFlags::NODEV,
            ("suid", _) => flags -= MountFlags::NOSUID,
            ("symfollow", _) => flags -= MountFlags::NOSYMFOLLOW,
            (_, Some((_, flag))) => flags |= *flag,
            (_, None) => data.push(word),
        }
    }
    let data = (!data.is_empty()).then(|| CString::new(data.join(",")));
    let data = data.transpose().map_err(|_| TargetError::Usage("mount options with a zero byte".into()))?;
    Ok((flags, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn nothing_can_be_written_below_a_mount() {
        let (directory, guardian) = scratch_directory::mount_point("test", Guardian::of_mount).unwrap();
        let point = unwritable_point(&directory).unwrap();
        rustix::mount::mount("test", &point, "tmpfs", MountFlags::empty(), None).unwrap();
        std::fs::write(point.join("file"), "above").unwrap();
        rustix::mount::unmount(&point, UnmountFlags::DETACH).unwrap();
        for path in [point.join("file"), directory.join("file")] {
            let refused = std::fs::write(path, "below").unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        }
        drop(guardian);
        assert!(!directory.exists());
    }

    #[test]
    fn options_are_split_into_flags_and_data() {
        let (flags, data) = parse_options("rw,noatime, data=writeback,ro,discard").unwrap();
        let careful = MountFlags::NODEV | MountFlags::NOSUID;
        assert_eq!(flags, MountFlags::NOATIME | MountFlags::RDONLY | careful);
        assert_eq!(data.unwrap().to_str().unwrap(), "data=writeback,discard");
        assert_eq!(parse_options("").unwrap(), (careful, None));
        assert_eq!(parse_options("dev,suid").unwrap(), (MountFlags::empty(), None));
        assert_eq!(parse_options("nosymfollow").unwrap(), (careful | MountFlags::NOSYMFOLLOW, None));
        assert_eq!(parse_options("nosymfollow,symfollow").unwrap(), (careful, None));
    }
}
