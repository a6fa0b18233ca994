//! The user's files that serve as drives of the guest and stay when it ends.

use crate::error::TargetError;
use crate::{guard, guardian, lock};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use senesce_core::Bytes;
use senesce_core::output::NewFile;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Extended attribute of files that the guest created; its value is the kind of drive.
const MARK: &str = "user.senesce.drive";

#[derive(Debug, Clone, Copy)]
pub struct KeptDriveSpec<'a> {
    pub size: Bytes,
    /// Distinguishes drives of equal size, for example `lba=4096`.
    pub kind: &'a str,
    pub foreign: bool,
}

#[derive(Debug)]
pub struct KeptDrive {
    file: File,
    path: PathBuf,
}

impl KeptDrive {
    /// Opens the drive at `path`, or creates it if the name is free. An existing file must be a drive that the guest
    /// created, of the given size and kind; its content stays.
    ///
    /// Refuses a file without our mark (unless `foreign`), one in use, and one that another user may have placed.
    /// [`TargetError::Usage`] for another size or kind.
    pub fn open(path: &Path, wanted: KeptDriveSpec) -> Result<Self, TargetError> {
        // Clean up after killed processes first.
        guardian::sweep();
        let file = match path.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => make(path, wanted)?,
            _ => existing(path, wanted)?,
        };
        Ok(Self { file, path: path.into() })
    }

    pub fn sync(&self) -> Result<(), TargetError> {
        self.file.sync_all().map_err(TargetError::io("sync", &self.path))
    }
}

impl AsFd for KeptDrive {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn make(path: &Path, wanted: KeptDriveSpec) -> Result<File, TargetError> {
    let failed = |error| TargetError::io("make the drive", path)(error);
    let new = NewFile::private(path).map_err(failed)?;
    new.file().set_len(wanted.size.0).map_err(failed)?;
    let file = new.file().try_clone().map_err(failed)?;
    lock::lock(&file, path)?;
    match rustix::fs::fsetxattr(&file, MARK, wanted.kind.as_bytes(), XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) if !wanted.foreign => {
            return Err(TargetError::refused(
                path.display(),
                "the file system there has no extended attributes, which the next run needs to recognise the drive",
                "choose another path, or create the drive without them: --force",
            ));
        }
        Err(Errno::OPNOTSUPP) | Ok(()) => {}
        Err(errno) => return Err(TargetError::errno("mark the drive", path)(errno)),
    }
    new.put().map_err(failed)?;
    Ok(file)
}

fn existing(path: &Path, wanted: KeptDriveSpec) -> Result<File, TargetError> {
    let (file, size) = guard::open_image(path, true)?;
    if size != wanted.size.0 {
        return Err(other_drive(path, format!("it has {}, but the drive has {}", Bytes(size), wanted.size)));
    }
    lock::lock(&file, path)?;
    guard::check_not_planted(&file, path)?;
    guard::check_image_unused(&file, path)?;
    match mark(&file, path)? {
        Some(kind) if kind == wanted.kind => Ok(file),
        Some(kind) => Err(other_drive(path, format!("it is a drive with {kind}, but {} is given", wanted.kind))),
        None if wanted.foreign => Ok(file),
        None => Err(TargetError::refused(
            path.display(),
            "--keep-drive did not make it, or a copy lost its mark, and the guest may overwrite its content",
            "name a new file, or allow it: --force",
        )),
    }
}

fn other_drive(path: &Path, difference: String) -> TargetError {
    TargetError::Usage(format!(
        "{} is another drive: {difference}; change --drive, or name another file",
        path.display()
    ))
}

fn mark(file: &File, path: &Path) -> Result<Option<String>, TargetError> {
    let mut value = [0; 256];
    match rustix::fs::fgetxattr(file, MARK, &mut value[..]) {
        Ok(length) => Ok(Some(String::from_utf8_lossy(&value[..length]).into_owned())),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(TargetError::errno("check the mark of ", path)(errno)),
    }
}

pub fn growth(path: &Path, size: Bytes) -> Bytes {
    Bytes(size.0.saturating_sub(path.metadata().map_or(0, |found| found.blocks() * 512)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{FileExt, PermissionsExt};

    const WANTED: KeptDriveSpec = KeptDriveSpec { size: Bytes(1 << 20), kind: "lba=4096", foreign: false };

    fn refusal(path: &Path, wanted: KeptDriveSpec) -> String {
        KeptDrive::open(path, wanted).unwrap_err().to_string()
    }

    #[test]
    fn kept_drive_is_created_once_and_reused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let drive = KeptDrive::open(&path, WANTED).unwrap();
        drive.file.write_at(b"kept", 4096).unwrap();
        assert!(refusal(&path, WANTED).contains("is using it"), "it is locked");
        drop(drive);
        let again = KeptDrive::open(&path, WANTED).unwrap();
        let mut found = [0; 4];
        again.file.read_at(&mut found, 4096).unwrap();
        assert_eq!(&found, b"kept");
        let metadata = path.metadata().unwrap();
        assert_eq!((metadata.len(), metadata.permissions().mode() & 0o777), (1 << 20, 0o600));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(growth(&path, WANTED.size).0 + metadata.blocks() * 512, 1 << 20);
    }

    #[test]
    fn other_file_is_refused_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        KeptDrive::open(&at("ours"), WANTED).unwrap();
        let larger = KeptDriveSpec { size: Bytes(2 << 20), ..WANTED };
        assert!(
            refusal(&at("ours"), KeptDriveSpec { foreign: true, ..larger }).contains("1 MiB, but the drive has 2 MiB")
        );
        let blocks = KeptDriveSpec { kind: "lba=512", ..WANTED };
        assert!(
            refusal(&at("ours"), KeptDriveSpec { foreign: true, ..blocks }).contains("it is a drive with lba=4096")
        );
        fs::write(at("precious"), vec![7; 1 << 20]).unwrap();
        assert!(refusal(&at("precious"), WANTED).contains("--force"));
        KeptDrive::open(&at("precious"), KeptDriveSpec { foreign: true, ..WANTED }).unwrap();
        assert_eq!(fs::read(at("precious")).unwrap(), vec![7; 1 << 20]);
        fs::write(at("empty"), "").unwrap();
        assert!(refusal(&at("empty"), WANTED).contains("it has 0 B"));
        assert!(refusal(folder.path(), WANTED).contains("not a regular file"));
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        for name in ["dangling", "missing/disk"] {
            assert!(refusal(&at(name), WANTED).contains("No such file or directory"), "{name}");
        }
        assert!(!at("nowhere").exists());
    }

    #[test]
    #[ignore = "needs loop devices"]
    fn drive_in_use_by_host_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        KeptDrive::open(&path, WANTED).unwrap();
        let losetup = |words: &[&str]| {
            let output = std::process::Command::new("losetup").args(words).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_string()
        };
        let device = losetup(&["--find", "--show", path.to_str().unwrap()]);
        let said = refusal(&path, KeptDriveSpec { foreign: true, ..WANTED });
        losetup(&["-d", &device]);
        assert!(said.contains(&format!("it is attached to {device}")), "{said}");
        KeptDrive::open(&path, WANTED).unwrap();
    }
}
