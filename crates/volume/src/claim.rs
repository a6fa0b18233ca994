//! Claims: proof that the guard checked a directory or device. Destructive functions require one.

mod beneath;
mod marker;

pub use marker::{MarkedAs, marked_as};

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::loop_device::LoopDevice;
use crate::{guard, guardian, lock};
use marker::{Marker, write_marker};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use senesce_core::Bytes;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub const MARKER: &str = ".senesce";

pub trait TargetDirectory: Sized {
    const OURS: bool;

    /// `identity`: of the aging, for a new marker.
    fn take(path: &Path, erase: Option<&str>, identity: Option<&str>) -> Result<Self, TargetError>;

    fn path(&self) -> &Path;

    fn release(&mut self) -> Result<(), TargetError>;

    fn retake(&mut self) -> Result<(), TargetError>;
}

/// A directory that senesce may write: new, empty, with our marker, or named in `--erase`.
#[derive(Debug)]
pub struct ClaimedDirectory {
    path: PathBuf,
    handle: File,
}

impl ClaimedDirectory {
    /// Claims `path` and creates it if it does not exist. Refuses these directories:
    /// * non-empty without the marker, unless `erase` repeats its path exactly;
    /// * with another file system mounted inside;
    /// * with a marker that is a link, not a regular file, or owned by another user.
    pub fn claim(path: &Path, erase: Option<&str>) -> Result<Self, TargetError> {
        Self::claim_for(path, erase, None)
    }

    /// Claims `path` as [`Self::claim`] does. A new marker identifies the aging `identity`; an existing one is kept.
    pub fn claim_for(path: &Path, erase: Option<&str>, identity: Option<&str>) -> Result<Self, TargetError> {
        guard::create_directory(path)?;
        let (handle, marked) = Self::inspect(path, erase)?;
        if !marked {
            write_marker(&handle, identity).map_err(TargetError::io("write the marker into", path))?;
        }
        Ok(Self { path: path.into(), handle })
    }

    /// Makes the marker identify the aging `identity`. The old marker is replaced, not written: it may have other names.
    pub fn mark(&self, identity: &str) -> Result<(), TargetError> {
        if marked_as(&self.path)? == MarkedAs::Aging(identity.into()) {
            return Ok(());
        }
        match rustix::fs::unlinkat(&self.handle, MARKER, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(TargetError::errno("remove the marker in", &self.path)(errno)),
        }
        write_marker(&self.handle, Some(identity)).map_err(TargetError::io("write the marker into", &self.path))
    }

    pub(crate) fn check(path: &Path, erase: Option<&str>) -> Result<(), TargetError> {
        Self::inspect(path, erase).map(|_| ())
    }

    fn inspect(path: &Path, erase: Option<&str>) -> Result<(File, bool), TargetError> {
        let handle = File::open(path).map_err(TargetError::io("open directory", path))?;
        check_nothing_mounted_inside(path)?;
        let marker = Marker::of(&handle, path)?;
        let marked = marker == Marker::Ours;
        let foreign = count_foreign(&handle, path)?;
        if let Marker::Foreign(found) = marker {
            return Err(TargetError::refused(
                path.display(),
                format!("its marker {MARKER} {found}"),
                format!("check who created it and remove {}; no flag allows it", path.join(MARKER).display()),
            ));
        }
        let own = path.to_string_lossy();
        let is_named = |word: &str| word == own || guard::is_same_path(&own, word);
        if let Some(word) = erase.filter(|word| !is_named(word)) {
            return Err(TargetError::refused(
                path.display(),
                format!("--erase {word} does not name it"),
                format!("repeat its path: --erase {}", path.display()),
            ));
        }
        if foreign > 0 && !marked && erase.is_none() {
            return Err(TargetError::refused(
                path.display(),
                format!("the directory is not empty ({foreign} found) and has no marker {MARKER}"),
                format!("choose an empty directory, or allow it with --erase {}", path.display()),
            ));
        }
        Ok((handle, marked))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses `path` unless it resolves inside the directory, without links and without crossing into another file
    /// system.
    pub fn check_beneath(&self, path: &Path) -> Result<(), TargetError> {
        let below = path.strip_prefix(&self.path).unwrap_or(path);
        match beneath::above(&self.handle, below) {
            Ok(()) => Ok(()),
            Err((above, Errno::LOOP | Errno::XDEV)) => {
                let reason = format!("{} leaves it, through a link or to another file system", above.display());
                let remedy = "name that directory as the target; no flag allows it";
                Err(TargetError::refused(self.path.display(), reason, remedy))
            }
            Err((above, errno)) => Err(TargetError::errno("inspect", &self.path.join(above))(errno)),
        }
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl TargetDirectory for ClaimedDirectory {
    const OURS: bool = true;

    fn take(path: &Path, erase: Option<&str>, identity: Option<&str>) -> Result<Self, TargetError> {
        Self::claim_for(path, erase, identity)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the descriptor by /dev/null while unmounted, so that a relative operation fails with ENOTDIR.
    fn release(&mut self) -> Result<(), TargetError> {
        let null = Path::new("/dev/null");
        self.handle = File::open(null).map_err(TargetError::io("open", null))?;
        Ok(())
    }

    fn retake(&mut self) -> Result<(), TargetError> {
        self.handle = File::open(&self.path).map_err(TargetError::io("open directory", &self.path))?;
        Ok(())
    }
}

/// Refuses a file system mounted inside: the marker does not cover it, and removing an old tree would empty it.
fn check_nothing_mounted_inside(path: &Path) -> Result<(), TargetError> {
    let whole = path.canonicalize().map_err(TargetError::io("resolve", path))?;
    let is_inside = |point: &Path| point != whole && point.starts_with(&whole);
    // A mount that is hidden below a later one has no name.
    let is_seen = |point: &Path| point.symlink_metadata().is_ok();
    match guard::mounts()?.into_iter().find(|mount| is_inside(&mount.mount_point) && is_seen(&mount.mount_point)) {
        None => Ok(()),
        Some(mount) => Err(TargetError::refused(
            path.display(),
            format!("something is mounted inside, at {}", mount.mount_point.display()),
            "unmount it first, or name it as the target; no flag allows it",
        )),
    }
}

/// Counts the entries of an open directory that are neither the marker nor created by mkfs. A listing that fails is an
/// error, never an empty directory.
fn count_foreign(directory: &File, path: &Path) -> Result<usize, TargetError> {
    let failed = |errno| TargetError::errno("list", path)(errno);
    let own = [".", "..", MARKER, "lost+found"];
    let mut count = 0;
    for entry in rustix::fs::Dir::read_from(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        count += usize::from(!own.iter().any(|name| name.as_bytes() == entry.file_name().to_bytes()));
    }
    Ok(count)
}

/// A directory owned by others: to read, or to pass to a user's command.
#[derive(Debug)]
pub struct VisitedDirectory(PathBuf);

impl TargetDirectory for VisitedDirectory {
    const OURS: bool = false;

    fn take(path: &Path, _erase: Option<&str>, _identity: Option<&str>) -> Result<Self, TargetError> {
        Ok(Self(path.into()))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn release(&mut self) -> Result<(), TargetError> {
        Ok(())
    }

    fn retake(&mut self) -> Result<(), TargetError> {
        Ok(())
    }
}

/// A block device that is unused and either empty or allowed to be erased. It is locked against other runs while the
/// claim lives.
#[derive(Debug)]
pub struct ClaimedDevice {
    device: BlockDevice,
    handle: File,
    lock: File,
    erase: Option<String>,
    is_own: bool,
}

impl ClaimedDevice {
    /// Claims a block device. Refuses a device that is in use, locked by another run, whose node others may replace, or
    /// that holds data unless `erase` repeats its path or serial number.
    pub fn claim(path: &Path, erase: Option<&str>) -> Result<Self, TargetError> {
        Self::take(path, |file, device| guard::check_content(file, device, erase), erase, false)
    }

    /// Claims a device as [`Self::claim`] does, but one that may hold data that the caller wrote. `is_ours` inspects it
    /// with the lock held; content it recognises is not refused.
    pub fn claim_again<E: From<TargetError>>(
        path: &Path,
        erase: Option<&str>,
        is_ours: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Self, E> {
        let look = |file: &File, device: &BlockDevice| match is_ours()? {
            true => Ok(()),
            false => Ok(guard::check_content(file, device, erase)?),
        };
        Self::take(path, look, erase, false)
    }

    /// Claims a device whose content is kept, or was guarded as an image file. Refuses only a device that is in use or
    /// locked.
    pub fn claim_unused(path: &Path) -> Result<Self, TargetError> {
        Self::take(path, |_, _| Ok(()), None, false)
    }

    pub(crate) fn claim_own(device: &LoopDevice) -> Result<Self, TargetError> {
        Self::take(device.path(), |_, _| Ok(()), None, true)
    }

    fn take<E: From<TargetError>>(
        path: &Path,
        check: impl FnOnce(&File, &BlockDevice) -> Result<(), E>,
        erase: Option<&str>,
        is_own: bool,
    ) -> Result<Self, E> {
        // Clean up after killed processes first.
        guardian::sweep();
        let device = BlockDevice::open(path)?;
        guard::check_node(&device)?;
        check_device(&device, is_own)?;
        let mut options = File::options();
        let reader = options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let reader = reader.map_err(TargetError::io("open", path))?;
        lock::lock(&reader, path)?;
        check(&reader, &device)?;
        let handle = options.write(true).open(path).map_err(TargetError::io("open", path))?;
        let claimed = Self { device, handle, lock: reader, erase: erase.map(str::to_string), is_own };
        claimed.is_still_it()?;
        Ok(claimed)
    }

    /// Checks that the opened device is the one that was checked: its node can be replaced between two system calls.
    fn is_still_it(&self) -> Result<(), TargetError> {
        let by_name = BlockDevice::number_of(self.path()) == Some(self.device.number());
        match by_name && self.device.is(&self.lock) && self.device.is(&self.handle) {
            true => Ok(()),
            false => Err(TargetError::refused(
                self.path().display(),
                "another device took its name during the check",
                "check which device it is now, and run again",
            )),
        }
    }

    /// Checks once more, on the open descriptor just before the first destructive write, that the device is unused and
    /// holds only what the claim allowed.
    pub fn check_again(&self) -> Result<(), TargetError> {
        self.check_unused_again()?;
        guard::check_signatures(&self.handle, &self.device, self.erase.as_deref())
    }

    /// Checks as [`Self::check_again`] does, except the content.
    pub fn check_unused_again(&self) -> Result<(), TargetError> {
        self.is_still_it()?;
        check_device(&self.device, self.is_own)
    }

    pub fn path(&self) -> &Path {
        self.device.path()
    }

    pub fn device(&self) -> &BlockDevice {
        &self.device
    }

    pub fn size(&self) -> Bytes {
        self.device.size()
    }

    pub(crate) fn lock_handle(&self) -> Option<File> {
        self.lock.try_clone().ok()
    }

    pub fn file(&self) -> &File {
        &self.handle
    }
}

fn check_device(device: &BlockDevice, is_own: bool) -> Result<(), TargetError> {
    if is_own { guard::check_own_unused(device) } else { guard::check_unused(device) }
}

#[cfg(test)]
mod tests;
