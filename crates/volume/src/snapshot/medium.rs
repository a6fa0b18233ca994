//! The image or device whose content is saved and restored: locked, and not in use.

use super::manifest::Stamp;
use crate::claim::ClaimedDevice;
use crate::error::TargetError;
use crate::sparse::NamedFile;
use crate::{TargetSpec, cold, guard, guardian, lock};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) enum Medium {
    Image { file: File, path: PathBuf, size: u64 },
    Device(ClaimedDevice),
}

impl Medium {
    pub(super) fn open(spec: &TargetSpec) -> Result<Self, TargetError> {
        match spec {
            TargetSpec::Image { path, .. } => {
                // Clean up after killed processes first.
                guardian::sweep();
                let (file, size) = guard::open_image(path, true)?;
                guard::check_not_planted(&file, path)?;
                lock::lock(&file, path)?;
                guard::check_image_unused(&file, path)?;
                let path = path.canonicalize().map_err(TargetError::io("resolve", path))?;
                Ok(Self::Image { file, path, size })
            }
            TargetSpec::Device(path) => Ok(Self::Device(ClaimedDevice::claim_unused(path)?)),
            TargetSpec::Directory(path) if matches!(path.try_exists(), Ok(false)) => {
                Err(TargetError::Usage(format!("{} does not exist", path.display())))
            }
            TargetSpec::Directory(_) | TargetSpec::Memory { .. } => Err(TargetError::Usage(format!(
                "{spec} cannot have snapshots: name an image (image:FILE) or a block device"
            ))),
        }
    }

    pub(super) fn default_folder(&self) -> PathBuf {
        match self {
            Self::Image { path, .. } => {
                let mut name = path.as_os_str().to_owned();
                name.push(".snapshots");
                name.into()
            }
            Self::Device(claimed) => {
                let plain = claimed.device().word().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
                crate::images::cache_folder().join("snapshots").join(plain)
            }
        }
    }

    /// Returns text that distinguishes targets with a common folder of snapshots. For a device it is its word. For an image
    /// next to its snapshots it is the same text everywhere, so that both can be moved together. For any other image it is
    /// the path: it stays the same after a replacement or a reboot, while the inode may be reused.
    pub(super) fn identity(&self, folder: &Path) -> String {
        match self {
            Self::Image { .. } if self.is_own(folder) => "the image next to its folder".into(),
            // Quoted as a word, so that it is one line whatever the name.
            Self::Image { path, .. } => format!("image {path:?}"),
            Self::Device(claimed) => claimed.device().word(),
        }
    }

    pub(super) fn is_own(&self, folder: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
        real(folder) == real(&self.default_folder())
    }

    /// Returns whether it is a device without a serial number, known only by its appearance in this boot.
    pub(super) fn is_nameless(&self) -> bool {
        self.claimed().is_some_and(|claimed| claimed.device().serial().is_none())
    }

    pub(super) fn file(&self) -> &File {
        match self {
            Self::Image { file, .. } => file,
            Self::Device(claimed) => claimed.file(),
        }
    }

    pub(super) fn owner(&self) -> Option<u32> {
        match self {
            Self::Image { file, .. } => file.metadata().ok().map(|found| found.uid()),
            Self::Device(_) => None,
        }
    }

    pub(super) fn group(&self) -> Option<u32> {
        match self {
            Self::Image { file, .. } => {
                file.metadata().ok().filter(|found| found.mode() & 0o020 != 0).map(|found| found.gid())
            }
            Self::Device(_) => None,
        }
    }

    /// Opens it again for a loop device, which must not keep the lock.
    pub(super) fn open_again(&self) -> Result<File, TargetError> {
        crate::image_file::reopen(self.file(), self.path(), false)
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Image { path, .. } => path,
            Self::Device(claimed) => claimed.path(),
        }
    }

    pub(super) fn named(&self) -> NamedFile<'_> {
        NamedFile { file: self.file(), path: self.path() }
    }

    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Image { size, .. } => *size,
            Self::Device(claimed) => claimed.size().0,
        }
    }

    pub(super) fn is_device(&self) -> bool {
        matches!(self, Self::Device(_))
    }

    pub(super) fn claimed(&self) -> Option<&ClaimedDevice> {
        match self {
            Self::Image { .. } => None,
            Self::Device(claimed) => Some(claimed),
        }
    }

    pub(super) fn is_named(&self, word: Option<&str>) -> bool {
        let is_path = |word: &str| Path::new(word).canonicalize().is_ok_and(|real| real == self.path());
        word.is_some_and(|word| is_path(word) || self.claimed().is_some_and(|claimed| claimed.device().word() == word))
    }

    pub(super) fn serial(&self) -> Option<String> {
        self.claimed().and_then(|claimed| claimed.device().serial())
    }

    pub(super) fn lock_handle(&self) -> Option<File> {
        match self {
            Self::Image { file, .. } => file.try_clone().ok(),
            Self::Device(claimed) => claimed.lock_handle(),
        }
    }

    /// Refuses a target in use: a file system that outlived its unmount would write over the restored data.
    pub(super) fn check_unused(&self) -> Result<(), TargetError> {
        match self {
            Self::Image { file, path, .. } => guard::check_image_unused(file, path),
            Self::Device(claimed) => {
                claimed.check_unused_again()?;
                match cold::has_ended(claimed.path())? {
                    true => Ok(()),
                    false => Err(TargetError::refused(
                        claimed.path().display(),
                        "a file system on it stays alive after the unmount",
                        "end the programs that were started while it was mounted, then restore with senesce snapshot \
                         restore",
                    )),
                }
            }
        }
    }

    pub(super) fn stamp(&self) -> Result<Stamp, TargetError> {
        match self {
            Self::Image { file, path, .. } => {
                let found = file.metadata().map_err(TargetError::io("inspect", path))?;
                let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
                let modified_ns = nanoseconds(found.mtime(), found.mtime_nsec());
                let changed_ns = nanoseconds(found.ctime(), found.ctime_nsec());
                Ok(Stamp::Image { inode: found.ino(), modified_ns, changed_ns })
            }
            Self::Device(claimed) => {
                // Fields 7 and 14 are sectors written and discarded (Documentation/block/stat.rst).
                let text = claimed.device().attribute("stat").unwrap_or_default();
                let number =
                    |field: usize| text.split_whitespace().nth(field).and_then(|word| word.parse().ok()).unwrap_or(0);
                let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
                Ok(Stamp::Device {
                    boot_id: boot_id.trim().into(),
                    disk_sequence: claimed.device().disk().attribute("diskseq").unwrap_or_default(),
                    sectors: [number(6), number(13)],
                    start: claimed.device().start(),
                })
            }
        }
    }
}

/// Clones the file. `false`: the host's file system has no reflinks.
pub(super) fn clone_to(from: NamedFile, path: &Path) -> Result<bool, TargetError> {
    use rustix::io::Errno;
    crate::image_file::replace(path, |to| match rustix::fs::ioctl_ficlone(to.file, from.file) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::XDEV | Errno::NOTTY | Errno::NOSYS) => Ok(false),
        Err(errno) => Err(TargetError::errno("clone into", to.path)(errno)),
    })
}
