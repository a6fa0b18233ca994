//! Storage of the database: a file system made for the run, or the drive itself through ZenFS.

use super::Spec;
use crate::on_model::Role;
use senesce_core::{ExitCode, Failure};
use senesce_volume::guest::{DriveChoice, find};
use senesce_volume::{
    BlockDevice, ClaimedDevice, FileSystem, MountedTarget, OpenOptions, ScratchDirectory, TargetSpec, guardian, open,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The setups without ZenFS, which is added by `db-bench`.
pub(crate) const SETUPS: [&str; 4] = ["xfs-conventional", "f2fs-conventional", "f2fs-zns", "btrfs-zns"];

/// The setup of a db_bench that has the ZenFS plugin.
pub(crate) const ZENFS: &str = "zenfs-zns";

pub(crate) struct Database {
    kind: Store,
    drives: Vec<BlockDevice>,
    used_when_new: u64,
}

enum Store {
    Mounted(Box<MountedTarget>),
    ZenFs { claimed: Box<ClaimedDevice>, _auxiliary: ScratchDirectory },
}

impl Database {
    /// Makes the setup on its drives. They must be empty or listed in `ours`, the drives that this process claimed
    /// before. Adds newly claimed drives to `ours`.
    ///
    /// # Errors
    /// A drive is not empty, or its file system cannot be made or mounted.
    pub(crate) fn make(setup: &str, spec: &Spec, ours: &mut Vec<PathBuf>) -> Result<Self, Failure> {
        let zoned = || find(&spec.zoned, DriveChoice::Zoned);
        let conventional = || find(&spec.conventional, DriveChoice::Largest);
        match setup {
            "xfs-conventional" => mounted(FileSystem::Xfs, &[conventional()?], "", ours),
            "f2fs-conventional" => mounted(FileSystem::F2fs, &[conventional()?], "", ours),
            "f2fs-zns" => {
                let (zoned, metadata) = (zoned()?, find(&spec.metadata, DriveChoice::Smallest)?);
                let words = format!("-m -c {}", zoned.display());
                mounted(FileSystem::F2fs, &[metadata, zoned], &words, ours)
            }
            "btrfs-zns" => mounted(FileSystem::Btrfs, &[zoned()?], "-O zoned -m single -d single", ours),
            _ => zenfs(&zoned()?, &spec.db_bench, ours),
        }
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        match &self.kind {
            Store::Mounted(target) => vec![format!("--db={}", target.mount_point().join("db").display())],
            Store::ZenFs { claimed, .. } => {
                vec![format!("--fs_uri=zenfs://dev:{}", claimed.device().name())]
            }
        }
    }

    pub(crate) fn roles(&self) -> Vec<(Role, PathBuf)> {
        let is_zoned = |drive: &BlockDevice| drive.queue("zoned").is_some_and(|model| model != "none");
        let has_zoned = self.drives.iter().any(is_zoned);
        let role = |drive: &BlockDevice| match (is_zoned(drive), has_zoned) {
            (true, _) => Role::Zoned,
            (false, true) => Role::Metadata,
            (false, false) => Role::Conventional,
        };
        self.drives.iter().map(|drive| (role(drive), drive.path().to_path_buf())).collect()
    }

    /// Returns the bytes written to its drives since they appeared: sectors written in `/sys/block/*/stat`
    /// (Documentation/block/stat.rst of the kernel).
    pub(crate) fn bytes_written(&self) -> Result<u64, Failure> {
        self.drives.iter().map(sectors_written).sum::<Option<u64>>().map(|sectors| sectors * 512).ok_or_else(|| {
            Failure::new(ExitCode::RunFailed, "the kernel does not count writes to the drive (/sys/block/*/stat)")
        })
    }

    /// Returns the bytes in use beyond those of the empty file system, after write-back. `None` for ZenFS, which does
    /// not report them.
    ///
    /// # Errors
    /// Write-back fails, or the file system does not report its use.
    pub(crate) fn bytes_used(&self) -> Result<Option<u64>, Failure> {
        let Store::Mounted(target) = &self.kind else { return Ok(None) };
        target.sync()?;
        Ok(Some(used(target.mount_point())?.saturating_sub(self.used_when_new)))
    }

    pub(crate) fn drop_caches(&self) -> Result<(), Failure> {
        match &self.kind {
            Store::Mounted(target) => Ok(target.drop_caches()?),
            Store::ZenFs { .. } => Ok(()),
        }
    }

    pub(crate) fn close(self) -> Result<(), Failure> {
        match self.kind {
            Store::Mounted(target) => Ok(target.close()?),
            Store::ZenFs { .. } => Ok(()),
        }
    }
}

/// Claims a drive that is empty or listed in `ours`, and adds it to `ours`.
fn claim(drive: &Path, ours: &mut Vec<PathBuf>) -> Result<ClaimedDevice, Failure> {
    let known = ours.iter().any(|path| path == drive);
    let claimed = ClaimedDevice::claim(drive, known.then(|| drive.to_string_lossy()).as_deref())?;
    if !known {
        ours.push(drive.into());
    }
    Ok(claimed)
}

fn mounted(kind: FileSystem, devices: &[PathBuf], words: &str, ours: &mut Vec<PathBuf>) -> Result<Database, Failure> {
    let drives = devices.iter().map(|path| BlockDevice::open(path)).collect::<Result<_, _>>()?;
    // mkfs and mount open the drives exclusively. All drives are checked before the first write, and the first one
    // again when it is opened.
    let known = ours.contains(&devices[0]);
    for device in devices {
        claim(device, ours)?;
    }
    let erase = known.then(|| devices[0].display().to_string());
    let options = OpenOptions { mkfs_options: words.into(), erase, ..OpenOptions::fresh(kind) };
    let target = open(&TargetSpec::Device(devices[0].clone()), &options)?;
    target.sync()?;
    let used_when_new = used(target.mount_point())?;
    Ok(Database { kind: Store::Mounted(Box::new(target)), drives, used_when_new })
}

/// Prepares the drive with the `zenfs` program that the plugin installs next to db_bench.
fn zenfs(device: &Path, db_bench: &str, ours: &mut Vec<PathBuf>) -> Result<Database, Failure> {
    let claimed = claim(device, ours)?;
    let program = Path::new(db_bench).parent().unwrap_or(Path::new("")).join("zenfs");
    let auxiliary = ScratchDirectory::large("zenfs")?;
    let words = [
        "mkfs".to_string(),
        format!("--zbd={}", claimed.device().name()),
        format!("--aux_path={}", auxiliary.path().join("aux").display()),
        "--finish_threshold=20".into(),
        "--force".into(),
    ];
    let mut command = Command::new(&program);
    command.args(&words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = guardian::output(&mut command).map_err(|error| {
        let words = senesce_core::failure::errno_message(&error);
        let remedy = "ZenFS's program zenfs must be in the directory of the db_bench given with --db-bench";
        Failure::new(ExitCode::Missing, format!("run {}: {words}; {remedy}", program.display()))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
        return Err(Failure::new(ExitCode::RunFailed, format!("{} mkfs: {said}", program.display())));
    }
    let drives = vec![claimed.device().clone()];
    Ok(Database { kind: Store::ZenFs { claimed: Box::new(claimed), _auxiliary: auxiliary }, drives, used_when_new: 0 })
}

fn sectors_written(device: &BlockDevice) -> Option<u64> {
    device.attribute("stat")?.split_whitespace().nth(6)?.parse().ok()
}

fn used(path: &Path) -> Result<u64, Failure> {
    let stat = rustix::fs::statvfs(path).map_err(|errno| {
        let words = senesce_core::failure::errno_message(&errno.into());
        Failure::new(ExitCode::RunFailed, format!("inspect {}: {words}", path.display()))
    })?;
    Ok((stat.f_blocks - stat.f_bfree) * stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_volume::LoopDevice;
    use std::os::unix::fs::FileExt;

    #[test]
    #[ignore = "needs loop devices"]
    fn refused_drive_is_refused_again() {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(64 << 20).unwrap();
        let drive = LoopDevice::attach(image.as_file(), "precious", false).unwrap();
        let devices = [drive.path().to_path_buf()];
        let mut ours = Vec::new();
        let content = std::fs::File::options().write(true).open(drive.path()).unwrap();
        content.write_all_at(b"diary", 4096).unwrap();
        for _ in 0..2 {
            let refused = mounted(FileSystem::Ext4, &devices, "", &mut ours).err().unwrap();
            assert_eq!(refused.exit_code(), ExitCode::Refused, "{refused}");
        }
        assert!(ours.is_empty());
        content.write_all_at(&[0; 5], 4096).unwrap();
        drop(content);
        // A failed mkfs leaves a drive that was empty before.
        mounted(FileSystem::Ext4, &devices, "-O no_such_feature", &mut ours).err().unwrap();
        mounted(FileSystem::Ext4, &devices, "", &mut ours).unwrap().close().unwrap();
        mounted(FileSystem::Ext4, &devices, "", &mut ours).unwrap().close().unwrap();
        assert_eq!(ours, devices);
    }
}
