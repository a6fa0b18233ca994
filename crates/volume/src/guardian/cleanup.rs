//! Kinds of clean-up, and how each is done.

use super::owner::stat_of;
use crate::command_group::Members;
use crate::mount::FILE_SYSTEM;
use crate::runtime::is_own;
use crate::{custom, guard, loop_device};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const BUSY_LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Cleanup {
    /// Everything mounted on and below a directory of ours; the directory is removed too.
    Mount {
        point: PathBuf,
    },
    /// The same, with an unmount command for a file system below it.
    CustomMount {
        point: PathBuf,
        device: PathBuf,
        command: String,
    },
    /// A FUSE mount on a user's directory. It is unusable once its server is dead.
    FuseMount {
        point: PathBuf,
    },
    /// A directory with a random name, with everything in it.
    Tree {
        path: PathBuf,
    },
    /// A kernel directory (an instance of tracefs) that rmdir removes.
    Directory {
        path: PathBuf,
    },
    /// A control group; its processes go to the group `before`.
    ControlGroup {
        path: PathBuf,
        before: PathBuf,
    },
    /// A value for a kernel file. With `ours`: unless another program has changed it since.
    Value {
        path: PathBuf,
        value: String,
        ours: Option<String>,
    },
    /// Commands of the user and of file systems, with their children.
    Commands(Members),
    /// A child process that serves this one.
    Process {
        process: u32,
        start_ticks: u64,
    },
    /// A child process that ends its own children when it is asked to end.
    Supervisor {
        process: u32,
        start_ticks: u64,
    },
    /// A loop device, while it has this file.
    Loop {
        path: PathBuf,
        device: u64,
        inode: u64,
    },
    Mapping {
        name: String,
    },
    Frozen {
        point: PathBuf,
    },
}

impl fmt::Display for Cleanup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount { point } | Self::CustomMount { point, .. } => write!(f, "mount {}", point.display()),
            Self::FuseMount { point } => write!(f, "FUSE mount {}", point.display()),
            Self::Tree { path } | Self::Directory { path } => write!(f, "directory {}", path.display()),
            Self::ControlGroup { path, .. } => write!(f, "control group {}", path.display()),
            Self::Value { path, value, .. } => write!(f, "setting {} (back to {value})", path.display()),
            Self::Commands(members) => write!(f, "{members}"),
            Self::Process { process, .. } | Self::Supervisor { process, .. } => write!(f, "process {process}"),
            Self::Loop { path, .. } => write!(f, "loop device {}", path.display()),
            Self::Mapping { name } => write!(f, "mapped device {name}"),
            Self::Frozen { point } => write!(f, "frozen file system {}", point.display()),
        }
    }
}

impl Cleanup {
    pub(super) fn is_of_a_mount_namespace(&self) -> bool {
        matches!(
            self,
            Self::Mount { .. }
                | Self::CustomMount { .. }
                | Self::FuseMount { .. }
                | Self::Frozen { .. }
                | Self::Tree { .. }
        )
    }

    /// Releases a killed process that waits for a FUSE server in the same process: only closing the connection lets it
    /// end.
    pub(super) fn let_go(&self) {
        let (Self::FuseMount { point } | Self::Mount { point } | Self::CustomMount { point, .. }) = self else {
            return;
        };
        let Some(line) = guard::mounts()
            .ok()
            .and_then(|mounts| mounts.into_iter().rfind(|line| line.mount_point.starts_with(point)))
        else {
            return;
        };
        if line.file_system.starts_with("fuse") {
            // Documentation/filesystems/fuse.rst, "Control filesystem"; if that is not mounted, umount2(2) with
            // MNT_FORCE.
            let abort = format!("/sys/fs/fuse/connections/{}/abort", line.device.1);
            if fs::write(abort, "1").is_err() {
                let _ = rustix::mount::unmount(point, UnmountFlags::FORCE | UnmountFlags::DETACH);
            }
        }
    }

    /// Returns `false` if there was nothing left to undo.
    pub(super) fn undo(&self) -> io::Result<bool> {
        match self {
            Self::Mount { point } => remove_mount_point(point),
            Self::CustomMount { point, device, command } => {
                let mounted = unmount_custom(&point.join(FILE_SYSTEM), device, command)?;
                Ok(remove_mount_point(point)? || mounted)
            }
            Self::FuseMount { point } => match is_dead_fuse(point) {
                true => unmount_all(point),
                false => Ok(false),
            },
            Self::Tree { path } => remove_tree(path, mounts),
            Self::Directory { path } => remove_directory(path),
            Self::ControlGroup { path, before } => remove_group(path, before),
            Self::Value { path, value, ours } => put_back(path, value, ours.as_deref()),
            Self::Commands(members) => members.end(),
            Self::Process { process, start_ticks } => end(*process, *start_ticks, Signal::KILL),
            Self::Supervisor { process, start_ticks } => end(*process, *start_ticks, Signal::TERM),
            Self::Loop { path, device, inode } => loop_device::detach(path, *device, *inode),
            Self::Mapping { name } => remove_mapping(name),
            Self::Frozen { point } => thaw(point),
        }
    }
}

/// Retries for a while, because other programs may scan it.
fn patiently(mut attempt: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    let deadline = Instant::now() + BUSY_LIMIT;
    loop {
        match attempt() {
            Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            result => return result,
        }
    }
}

fn thaw(point: &Path) -> io::Result<bool> {
    match fs::File::open(point) {
        Ok(directory) => Ok(senesce_sys::mounted::thaw(directory)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns all mounts. Without the mount table nothing is removed: a mount would be taken for a directory of ours.
pub(crate) fn mounts() -> io::Result<Vec<guard::MountLine>> {
    guard::mounts().map_err(io::Error::other)
}

fn is_mounted(point: &Path) -> io::Result<bool> {
    Ok(mounts()?.iter().any(|line| line.mount_point == point))
}

/// Returns whether a FUSE mount has lost its server: it answers only ENOTCONN.
fn is_dead_fuse(point: &Path) -> bool {
    rustix::fs::stat(point).is_err_and(|errno| errno == Errno::NOTCONN || errno == Errno::CONNABORTED)
}

fn unmount_all(point: &Path) -> io::Result<bool> {
    let mut found = false;
    while is_mounted(point)? {
        found = true;
        let plain = patiently(|| rustix::mount::unmount(point, UnmountFlags::NOFOLLOW));
        match plain.or_else(|_| rustix::mount::unmount(point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)) {
            Ok(()) => {}
            Err(Errno::PERM) if ask_helper(point) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(found)
}

/// Runs the custom unmount command first, but only while the mount is on our mount point: without it, the device may
/// belong to another program by now.
fn unmount_custom(point: &Path, device: &Path, command: &str) -> io::Result<bool> {
    if !is_mounted(point)? {
        return Ok(false);
    }
    if let Err(error) = custom::unmount_for(command, device, point) {
        tracing::warn!("{error}; unmounting {} without it", point.display());
    }
    unmount_all(point)?;
    Ok(true)
}

fn remove_mount_point(point: &Path) -> io::Result<bool> {
    let mounted = unmount_tree(point, mounts)?;
    Ok(remove_directory(point)? || mounted)
}

pub(crate) fn unmount_tree(path: &Path, mounts: impl Fn() -> io::Result<Vec<guard::MountLine>>) -> io::Result<bool> {
    let mut found = false;
    while let Some(line) = mounts()?.into_iter().rfind(|line| line.mount_point.starts_with(path)) {
        unmount_all(&line.mount_point)?;
        found = true;
    }
    Ok(found)
}

/// Unmounts an ordinary user's FUSE mount, which needs fusermount.
fn ask_helper(point: &Path) -> bool {
    let helper = |name| {
        let mut command = Command::new(name);
        command.args(["-u", "-q", "-z", "--"]).arg(point).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    helper("fusermount3").or_else(|_| helper("fusermount")).is_ok_and(|status| status.success())
}

fn remove_directory(path: &Path) -> io::Result<bool> {
    match patiently(|| rustix::fs::rmdir(path)) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a directory of ours. Unmounts everything below it first, so that only files of the directory itself are
/// deleted.
fn remove_tree(path: &Path, mounts: impl Fn() -> io::Result<Vec<guard::MountLine>>) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() && is_own(found.uid()) => {}
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    unmount_tree(path, mounts)?;
    fs::remove_dir_all(path).map(|()| true)
}

pub(crate) fn remove_group(path: &Path, before: &Path) -> io::Result<bool> {
    let deadline = Instant::now() + BUSY_LIMIT;
    loop {
        let members = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        for process in members.lines() {
            let _ = fs::write(before.join("cgroup.procs"), process);
        }
        match rustix::fs::rmdir(path) {
            Ok(()) => return Ok(true),
            Err(Errno::NOENT) => return Ok(false),
            Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn put_back(path: &Path, value: &str, ours: Option<&str>) -> io::Result<bool> {
    let now = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        now => now.unwrap_or_default(),
    };
    if ours.is_some_and(|ours| crate::block_device::chosen(&now) != ours) {
        return Ok(false);
    }
    match fs::write(path, value) {
        // The device is gone, and its rule or setting with it.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(false),
        result => result.map(|()| true),
    }
}

fn end(process: u32, start_ticks: u64, signal: Signal) -> io::Result<bool> {
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return Ok(false) };
    let descriptor = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(false),
        opened => opened?,
    };
    // Checked with the pidfd open, which refers to one process.
    let is_it = || stat_of(process).is_some_and(|(state, start)| start == start_ticks && !matches!(state, 'Z' | 'X'));
    if !is_it() {
        return Ok(false);
    }
    match rustix::process::pidfd_send_signal(&descriptor, signal) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(errno) => return Err(errno.into()),
    }
    let deadline = Instant::now() + BUSY_LIMIT;
    while is_it() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}

/// Returns after the removal; a device that is still open is removed with its last user.
fn remove_mapping(name: &str) -> io::Result<bool> {
    let gone = || crate::stitch::node(name).is_none();
    if gone() {
        return Ok(false);
    }
    // The kernel's own removal at the last close comes a little later; this call waits for it.
    if dmsetup_remove(&[name])?.success() || gone() {
        return Ok(true);
    }
    match dmsetup_remove(&["--deferred", name])? {
        status if status.success() || gone() => Ok(true),
        status => Err(io::Error::other(format!("dmsetup remove {name}: {status}"))),
    }
}

fn dmsetup_remove(words: &[&str]) -> io::Result<ExitStatus> {
    Command::new("dmsetup").arg("remove").args(words).stdout(Stdio::null()).stderr(Stdio::null()).status()
}

#[cfg(test)]
mod tests;
