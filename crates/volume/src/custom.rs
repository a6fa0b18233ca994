//! A file system that the user defines by commands, such as bcachefs or ZFS.

use crate::MountedTarget;
use crate::claim::ClaimedDevice;
use crate::error::TargetError;
use crate::file_system::programs::{ProgramResult, run};
use crate::file_system::{CheckReport, FileSystem};
use rustix::io::Errno;
use std::path::Path;

/// Shell commands. `$DEVICE` is the device, `$MNT` the mount point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomFileSystem {
    pub mkfs: String,
    pub mount: String,
    /// Unmounts `$MNT` and releases `$DEVICE`; empty: umount(2).
    pub unmount: String,
    /// Checks the unmounted `$DEVICE` without changing it; empty: not checked.
    pub check: String,
}

impl CustomFileSystem {
    pub(crate) fn make(&self, device: &ClaimedDevice) -> Result<String, TargetError> {
        device.check_again()?;
        done(shell(&self.mkfs, device.path(), None)?)?;
        Ok(self.mkfs.clone())
    }

    /// Mounts it, checks that the mount exists, and returns the file system that was below the mount point before.
    pub(crate) fn mount(&self, device: &Path, point: &Path) -> Result<CoveredMount, TargetError> {
        let beneath = CoveredMount(device_of(point)?);
        done(shell(&self.mount, device, Some(point))?)?;
        match beneath.is_bare(point)? {
            false => Ok(beneath),
            true => Err(TargetError::Program {
                command: self.mount.clone(),
                status: "exit status: 0".into(),
                output: format!("$MNT ({}) is not mounted after it", point.display()),
            }),
        }
    }

    /// Unmounts it by its command. Returns `false` without such a command, or if something is still mounted, whatever
    /// its exit status.
    pub(crate) fn unmount(&self, device: &Path, point: &Path, beneath: CoveredMount) -> Result<bool, TargetError> {
        if self.unmount.trim().is_empty() {
            return Ok(false);
        }
        done(shell(&self.unmount, device, Some(point))?)?;
        beneath.is_bare(point)
    }

    /// Runs the check command; `None` without one.
    pub(crate) fn check(&self, device: &Path) -> Result<Option<CheckReport>, TargetError> {
        if self.check.trim().is_empty() {
            return Ok(None);
        }
        Ok(Some(shell(&self.check, device, None)?.report()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CoveredMount(u64);

impl CoveredMount {
    /// Returns whether nothing is mounted on the point any more. Some programs remove the directory when they unmount.
    fn is_bare(self, point: &Path) -> Result<bool, TargetError> {
        match rustix::fs::stat(point) {
            Ok(found) => Ok(found.st_dev == self.0),
            Err(Errno::NOENT) => Ok(true),
            Err(errno) => Err(TargetError::errno("inspect", point)(errno)),
        }
    }
}

/// Unmounts after the end of the process that mounted, within a minute: the clean-up must not wait for ever.
pub(crate) fn unmount_for(command: &str, device: &Path, point: &Path) -> Result<(), TargetError> {
    done(in_shell(&["timeout", "--kill-after=5", "60", "sh", "-c"], command, device, Some(point))?)
}

impl MountedTarget {
    /// Runs a shell command after the mount: `$MNT` is the mount point, `$DEVICE` the device, and `$SYSFS` the folder of settings of
    /// the file system (`/sys/fs/ext4/loop0`).
    ///
    /// # Errors
    /// It ends with a status other than 0; a target that is not mounted from a device.
    pub fn run_hook(&self, command: &str) -> Result<(), TargetError> {
        let device = self.block_device_info().ok_or_else(|| {
            TargetError::Usage(format!("cannot run '{command}' after the mount: the target has no block device"))
        })?;
        let kind = self.file_system().map_or("", FileSystem::name);
        let settings = format!("SYSFS=/sys/fs/{kind}/{}", device.name());
        done(in_shell(&[&settings, "sh", "-c"], command, device.path(), Some(self.mount_point()))?)
    }
}

fn shell(command: &str, device: &Path, point: Option<&Path>) -> Result<ProgramResult, TargetError> {
    in_shell(&["sh", "-c"], command, device, point)
}

fn in_shell(shell: &[&str], command: &str, device: &Path, point: Option<&Path>) -> Result<ProgramResult, TargetError> {
    let device = format!("DEVICE={}", device.display());
    let point = format!("MNT={}", point.unwrap_or(Path::new("")).display());
    let ended = run(&[&["env", &device, &point], shell, &[command]].concat(), &[], "coreutils")?;
    Ok(ProgramResult { command: command.to_string(), ..ended })
}

fn done(ended: ProgramResult) -> Result<(), TargetError> {
    if ended.success { Ok(()) } else { Err(ended.failure()) }
}

fn device_of(point: &Path) -> Result<u64, TargetError> {
    Ok(rustix::fs::stat(point).map_err(TargetError::errno("inspect", point))?.st_dev)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custom(mount: &str) -> CustomFileSystem {
        let (mkfs, unmount, check) = ("true".into(), String::new(), "echo \"$DEVICE is bad\"; false".into());
        CustomFileSystem { mkfs, mount: mount.into(), unmount, check }
    }

    #[test]
    fn mount_command_without_mount_fails() {
        let directory = tempfile::tempdir().unwrap();
        let refused =
            |mount: &str| custom(mount).mount(Path::new("/dev/null"), directory.path()).unwrap_err().to_string();
        assert!(refused("true").contains("is not mounted"), "{}", refused("true"));
        assert!(refused("echo no module >&2; exit 1").contains("no module"));
    }

    #[test]
    fn check_command_runs_if_given() {
        let report = custom("true").check(Path::new("/dev/x")).unwrap().unwrap();
        assert_eq!((report.clean, report.output.as_str()), (false, "/dev/x is bad"));
        let none = CustomFileSystem { check: String::new(), ..custom("true") };
        assert!(none.check(Path::new("/dev/x")).unwrap().is_none());
        for (check, output) in [("kill -9 $$", "killed by signal 9"), ("exit 3", "exit status: 3")] {
            let report = CustomFileSystem { check: check.into(), ..custom("true") }.check(Path::new("/dev/x"));
            let report = report.unwrap().unwrap();
            assert_eq!((report.clean, report.output.as_str()), (false, output));
        }
        assert!(!none.unmount(Path::new("/dev/x"), Path::new("/"), CoveredMount(0)).unwrap());
    }

    #[test]
    fn unmount_command_without_effect_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let lying = CustomFileSystem { unmount: "true".into(), ..custom("true") };
        let unmounted = |beneath| lying.unmount(Path::new("/dev/x"), directory.path(), beneath).unwrap();
        let here = device_of(directory.path()).unwrap();
        assert!(!unmounted(CoveredMount(here + 1)), "another file system is still on it");
        assert!(unmounted(CoveredMount(here)));
        let gone = CustomFileSystem { unmount: "rmdir $MNT".into(), ..custom("true") };
        assert!(
            gone.unmount(Path::new("/dev/x"), directory.path(), CoveredMount(here)).unwrap(),
            "the point went with it"
        );
    }
}
