//! Mounting, and unmounting whatever happens: on return, on error, on panic, on a signal, on `kill -9`.

use crate::error::TargetError;
use crate::file_system::FileSystem;
use crate::guard;
use crate::guardian::Guardian;
use crate::loop_device::needs_root;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Where mount points are made.
pub const MOUNT_ROOT: &str = "/run/senesce/mnt";

/// How long an unmount may be busy, for programs that look at every new mount.
const BUSY_LIMIT: Duration = Duration::from_secs(10);

/// A file system mounted by this process.
#[derive(Debug)]
pub struct Mount {
    device: PathBuf,
    point: PathBuf,
    file_system: FileSystem,
    options: String,
    mounted: bool,
    guardian: Guardian,
}

impl Mount {
    /// Mounts `device` on a new mount point. `lock` stays locked until the unmount is complete, even after `kill -9`.
    pub fn new(device: &Path, file_system: FileSystem, options: &str, lock: Option<File>) -> Result<Self, TargetError> {
        let point = make_mount_point(device)?;
        let guardian = Guardian::of_mount(&point, lock);
        if guardian.is_err() {
            let _ = fs::remove_dir(&point);
        }
        let mut mount = Self {
            device: device.into(),
            point,
            file_system,
            options: options.into(),
            mounted: false,
            guardian: guardian?,
        };
        mount.mount()?;
        Ok(mount)
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// The options it was mounted with.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// What is mounted.
    pub fn file_system(&self) -> FileSystem {
        self.file_system
    }

    /// Mounts it (again).
    pub fn mount(&mut self) -> Result<(), TargetError> {
        let (flags, data) = parse_options(&self.options)?;
        let name = self.file_system.name();
        rustix::mount::mount(&self.device, &self.point, name, flags, data.as_deref()).map_err(|errno| match errno {
            Errno::NODEV => TargetError::missing(
                format!("the file system {name} in this kernel"),
                format!("load its module (modprobe {name}), use another file system or run in the lab"),
            ),
            Errno::PERM => needs_root(),
            Errno::INVAL => TargetError::Program {
                command: format!("mount -t {name} -o '{}' {}", self.options, self.device.display()),
                status: "Invalid argument (EINVAL)".into(),
                output: "an option is unknown or the file system is damaged; see the kernel log (dmesg)".into(),
            },
            errno => TargetError::errno("mount", &self.device)(errno),
        })?;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts it; waits a moment for programs that look around in it.
    pub fn unmount(&mut self) -> Result<(), TargetError> {
        if !self.mounted {
            return Ok(());
        }
        let deadline = Instant::now() + BUSY_LIMIT;
        loop {
            match rustix::mount::unmount(&self.point, UnmountFlags::empty()) {
                Ok(()) => break,
                Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
                // Somebody else unmounted it: that is what was wanted.
                Err(Errno::INVAL) => break,
                Err(errno) => return Err(TargetError::errno("unmount", &self.point)(errno)),
            }
        }
        self.mounted = false;
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.mounted && self.unmount().is_err() {
            let _ = rustix::mount::unmount(&self.point, UnmountFlags::DETACH);
        }
        let _ = fs::remove_dir(&self.point);
        self.guardian.dismiss();
    }
}

fn make_mount_point(device: &Path) -> Result<PathBuf, TargetError> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let root = Path::new(MOUNT_ROOT);
    fs::create_dir_all(root).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => needs_root(),
        _ => TargetError::io("make directory", root)(error),
    })?;
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let point = root.join(format!("{name}-{}-{number}", std::process::id()));
    fs::create_dir_all(&point).map_err(TargetError::io("make directory", &point))?;
    Ok(point)
}

/// Unmounts what an earlier, killed process left mounted of this device under [`MOUNT_ROOT`]. Returns whether the device is
/// then free.
pub(crate) fn clean_up(device: &Path) -> Result<bool, TargetError> {
    let number = crate::block_device::BlockDevice::number_of(device);
    for line in guard::mounts()? {
        let same = Some(line.device) == number || crate::block_device::BlockDevice::number_of(&line.source) == number;
        if !same {
            continue;
        }
        if !line.mount_point.starts_with(MOUNT_ROOT) {
            return Ok(false);
        }
        tracing::warn!("unmounting {} left by a killed process", line.mount_point.display());
        rustix::mount::unmount(&line.mount_point, UnmountFlags::DETACH)
            .map_err(TargetError::errno("unmount", &line.mount_point))?;
        let _ = fs::remove_dir(&line.mount_point);
    }
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
];

/// Splits options into those of the mount(2) flags and those that the file system reads itself.
fn parse_options(options: &str) -> Result<(MountFlags, Option<CString>), TargetError> {
    let mut flags = MountFlags::empty();
    let mut data = Vec::new();
    for word in options.split(',').map(str::trim).filter(|word| !matches!(*word, "" | "rw" | "defaults")) {
        match FLAGS.iter().find(|(name, _)| *name == word) {
            Some((_, flag)) => flags |= *flag,
            None => data.push(word),
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
    fn options_are_split_into_flags_and_data() {
        let (flags, data) = parse_options("rw,noatime, data=writeback,ro,discard").unwrap();
        assert_eq!(flags, MountFlags::NOATIME | MountFlags::RDONLY);
        assert_eq!(data.unwrap().to_str().unwrap(), "data=writeback,discard");
        assert_eq!(parse_options("").unwrap(), (MountFlags::empty(), None));
    }
}
