//! A file system that senesce does not know, by the commands of whoever does: bcachefs, ZFS, one that is being written.

use crate::claim::ClaimedDevice;
use crate::error::TargetError;
use crate::file_system::CheckReport;
use crate::file_system::programs::{Ended, run};
use std::path::Path;

/// Commands for the shell. `$DEVICE` is the device, `$MNT` the directory on which it is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomFileSystem {
    /// Makes it on `$DEVICE`.
    pub mkfs: String,
    /// Mounts `$DEVICE` on `$MNT`.
    pub mount: String,
    /// Unmounts `$MNT`, so that `$DEVICE` is free; empty: umount(2) does.
    pub unmount: String,
    /// Checks `$DEVICE`, which is not mounted, and changes nothing; empty: there is no checker.
    pub check: String,
}

impl CustomFileSystem {
    /// Makes it on a claimed device. Returns the command.
    ///
    /// # Errors
    /// When the device is no longer ours, or the command fails.
    pub fn make(&self, device: &ClaimedDevice) -> Result<String, TargetError> {
        device.check_again()?;
        done(shell(&self.mkfs, device.path(), None)?)?;
        Ok(self.mkfs.clone())
    }

    /// Mounts it; that something is mounted then is looked at, and not believed.
    pub(crate) fn mount(&self, device: &Path, point: &Path) -> Result<(), TargetError> {
        let before = device_of(point)?;
        done(shell(&self.mount, device, Some(point))?)?;
        match device_of(point)? == before {
            false => Ok(()),
            true => Err(TargetError::Program {
                command: self.mount.clone(),
                status: "exit status: 0".into(),
                output: format!("nothing is mounted on $MNT ({}) after it", point.display()),
            }),
        }
    }

    /// Unmounts it by its command. `false`: it has none.
    pub(crate) fn unmount(&self, device: &Path, point: &Path) -> Result<bool, TargetError> {
        if self.unmount.trim().is_empty() {
            return Ok(false);
        }
        done(shell(&self.unmount, device, Some(point))?)?;
        Ok(true)
    }

    /// Runs its checker. `None`: it has none.
    pub(crate) fn check(&self, device: &Path) -> Result<Option<CheckReport>, TargetError> {
        if self.check.trim().is_empty() {
            return Ok(None);
        }
        let ended = shell(&self.check, device, None)?;
        Ok(Some(CheckReport { command: self.check.clone(), clean: ended.success, output: ended.text }))
    }
}

fn shell(command: &str, device: &Path, point: Option<&Path>) -> Result<Ended, TargetError> {
    let device = format!("DEVICE={}", device.display());
    let point = format!("MNT={}", point.unwrap_or(Path::new("")).display());
    let ended = run(&["env", &device, &point, "sh", "-c", command], &[], "coreutils")?;
    Ok(Ended { command: command.to_string(), ..ended })
}

fn done(ended: Ended) -> Result<(), TargetError> {
    if ended.success { Ok(()) } else { Err(ended.failure()) }
}

fn device_of(point: &Path) -> Result<u64, TargetError> {
    Ok(rustix::fs::stat(point).map_err(TargetError::errno("look at", point))?.st_dev)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custom(mount: &str) -> CustomFileSystem {
        let (mkfs, unmount, check) = ("true".into(), String::new(), "echo \"$DEVICE is bad\"; false".into());
        CustomFileSystem { mkfs, mount: mount.into(), unmount, check }
    }

    #[test]
    fn a_mount_that_mounts_nothing_is_not_believed() {
        let room = tempfile::tempdir().unwrap();
        let refused = |mount: &str| custom(mount).mount(Path::new("/dev/null"), room.path()).unwrap_err().to_string();
        assert!(refused("true").contains("nothing is mounted"), "{}", refused("true"));
        assert!(refused("echo no module >&2; exit 1").contains("no module"));
    }

    #[test]
    fn a_checker_is_asked_where_there_is_one() {
        let report = custom("true").check(Path::new("/dev/x")).unwrap().unwrap();
        assert_eq!((report.clean, report.output.as_str()), (false, "/dev/x is bad"));
        let none = CustomFileSystem { check: String::new(), ..custom("true") };
        assert!(none.check(Path::new("/dev/x")).unwrap().is_none());
        assert!(!none.unmount(Path::new("/dev/x"), Path::new("/")).unwrap());
    }
}
