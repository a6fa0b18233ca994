//! Drives that are kept when the guest ends.

use crate::drive::{Drive, DriveKind};
use crate::error::GuestError;
use senesce_volume::KeptDrive;
use senesce_volume::kept_drive::{KeptDriveSpec, growth};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of kept conventional drives, in the order of these drives.
#[derive(Debug, Clone, Default)]
pub struct KeptFiles {
    pub files: Vec<PathBuf>,
    pub foreign: bool,
}

pub(crate) type KeptDrives = BTreeMap<usize, KeptDrive>;

impl KeptFiles {
    /// Opens or creates the files.
    ///
    /// # Errors
    /// A file has no conventional drive, its folder is missing, or its name is taken.
    pub(crate) fn open(&self, drives: &[Drive]) -> Result<KeptDrives, GuestError> {
        let open = |(number, path): (usize, &Path)| {
            let drive = &drives[number];
            let kind = format!("lba={}", drive.lba);
            let wanted = KeptDriveSpec { size: drive.size, kind: &kind, foreign: self.foreign };
            Ok((number, KeptDrive::open(path, wanted)?))
        };
        self.of(drives)?.into_iter().map(open).collect()
    }

    pub(crate) fn growth(&self, drives: &[Drive]) -> Result<Vec<(PathBuf, u64)>, GuestError> {
        let of = |(number, path): (usize, &Path)| (folder(path).to_path_buf(), growth(path, drives[number].size).0);
        Ok(self.of(drives)?.into_iter().map(of).collect())
    }

    fn of(&self, drives: &[Drive]) -> Result<Vec<(usize, &Path)>, GuestError> {
        let mut conventional = drives.iter().enumerate().filter(|(_, drive)| drive.kind == DriveKind::Nvme);
        let drive_of = |path: &PathBuf| match conventional.next() {
            None => Err(no_drive(path)),
            Some(_) if !folder(path).is_dir() => {
                let (file, folder) = (path.display(), folder(path).display());
                Err(GuestError::Usage(format!("--keep-drive {file}: folder {folder} not found; make it first")))
            }
            Some((number, _)) => Ok(number),
        };
        let numbers = self.files.iter().map(drive_of).collect::<Result<Vec<_>, _>>()?;
        Ok(numbers.into_iter().zip(self.files.iter().map(PathBuf::as_path)).collect())
    }
}

fn no_drive(path: &Path) -> GuestError {
    GuestError::Usage(format!(
        "--keep-drive {}: no conventional drive to keep; add one with --drive nvme,size=2G. A zoned drive cannot be \
         kept, because QEMU forgets the state of its zones when the guest ends; do all work on it in one run",
        path.display()
    ))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_the_conventional_drives() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let drives = ["zns,size=1G", "nvme,size=1M", "zns,size=1G", "nvme,size=2M,lba=512"];
        let drives = drives.map(|text| Drive::parse(text).unwrap());
        let keep = |names: &[&str]| KeptFiles { files: names.iter().map(|name| at(name)).collect(), foreign: false };
        assert_eq!(keep(&["a", "b"]).open(&drives).unwrap().into_keys().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(at("b").metadata().unwrap().len(), 2 << 20);
        let refused = |keep: KeptFiles, drives: &[Drive]| keep.open(drives).unwrap_err().to_string();
        assert!(refused(keep(&["a", "b", "c"]), &drives).contains("forgets the state of its zones"));
        assert!(refused(keep(&["c"]), &drives[..1]).contains("no conventional drive"));
        assert!(refused(keep(&["missing/c"]), &drives).contains("make it first"));
        assert!(refused(keep(&["c", "c"]), &drives).contains("c is another drive"), "one file for two drives");
        assert!(refused(keep(&["b"]), &drives).contains("it has 2 MiB, but the drive has 1 MiB"));
    }
}
