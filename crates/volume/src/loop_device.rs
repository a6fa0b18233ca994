//! Loop devices (loop(4)), attached in one step and gone with their last user.

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::guardian::Guardian;
use crate::overlay::Known;
use crate::throttle;
use rustix::io::Errno;
use senesce_sys::loop_device::{self as calls, Status};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An attached loop device. It detaches when it is dropped and nothing is mounted on it; also when the process is killed,
/// because it is attached with the autoclear flag.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    handle: Option<File>,
    backing: Option<String>,
    direct_io: bool,
    guardian: Guardian,
}

/// How long a detach may be held up by others who look at the device, or by children that are just being started.
const DETACH_LIMIT: Duration = Duration::from_secs(2);

impl LoopDevice {
    /// Attaches an open file. `name` is what `losetup` shows. Direct I/O to the file is turned on where the file allows it.
    ///
    /// # Errors
    /// [`TargetError::Missing`] without the right to attach, the kernel module, a free device or Linux 5.8, and for an image
    /// whose size is no multiple of 512 bytes; where the device cannot be written into the ledger or not be opened.
    pub fn attach(file: &File, name: &str, read_only: bool) -> Result<Self, TargetError> {
        let control_path = Path::new("/dev/loop-control");
        let control =
            File::options().read(true).write(true).open(control_path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => TargetError::missing(
                    "/dev/loop-control",
                    "load the kernel module loop (modprobe loop), or use a directory",
                ),
                io::ErrorKind::PermissionDenied => needs_root(),
                _ => TargetError::io("open", control_path)(error),
            })?;
        // Another process may take the free device first: ask again.
        for _ in 0..256 {
            let number = calls::free_number(&control)
                .map_err(TargetError::errno("ask for a free loop device at", control_path))?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let mut guardian = Guardian::of_loop(&path, file)?;
            let handle = open_when_there(&path, read_only)?;
            match calls::configure(&handle, file, name, read_only) {
                Ok(()) => {
                    let direct_io = calls::set_direct_io(&handle, true).is_ok();
                    let backing = backing_file(&path);
                    let attached = Self { path, handle: Some(handle), backing, direct_io, guardian };
                    throttle::lift_all(&BlockDevice::open(&attached.path)?)?;
                    return Ok(attached);
                }
                Err(Errno::BUSY) => guardian.dismiss(),
                Err(Errno::INVAL) => {
                    return Err(TargetError::missing(
                        format!("LOOP_CONFIGURE for {name}"),
                        "Linux 5.8 or newer is needed, and an image whose size is a multiple of 512 bytes",
                    ));
                }
                Err(errno) => return Err(TargetError::errno("attach the image to", &path)(errno)),
            }
        }
        Err(TargetError::missing("a free loop device", "detach unused ones with losetup -d"))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it reads and writes its file with direct I/O, past the host's page cache.
    pub fn direct_io(&self) -> bool {
        self.direct_io
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            let _ = calls::detach(&handle);
        }
        wait_while_held(&self.path, self.backing.as_deref());
        // It goes with its last user, also when that is somebody else.
        self.guardian.dismiss();
    }
}

/// Detaches a device if it still has the file with these numbers, and waits until it has let go of it.
pub(crate) fn detach(path: &Path, device: u64, inode: u64) -> io::Result<bool> {
    let held = backing_file(path);
    match status(path) {
        Some(info) if info.inode == inode && info.device == device => {
            calls::detach(File::open(path)?)?;
            wait_while_held(path, held.as_deref());
            Ok(true)
        }
        Some(_) => Ok(false),
        // It is being detached: a file system on it, or a process that had it open, is just ending.
        None => {
            wait_while_held(path, held.as_deref());
            Ok(false)
        }
    }
}

/// The kernel detaches a device with the last of all descriptors, which is a moment after whoever had it was killed.
fn wait_while_held(path: &Path, file: Option<&str>) {
    let deadline = Instant::now() + DETACH_LIMIT;
    while file.is_some() && backing_file(path).as_deref() == file && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What sysfs says is attached. It does not open the device.
fn backing_file(path: &Path) -> Option<String> {
    fs::read_to_string(Path::new("/sys/block").join(path.file_name()?).join("loop/backing_file")).ok()
}

/// The same as a name; a line ends it.
fn backing_path(path: &Path) -> Option<PathBuf> {
    let name = backing_file(path)?;
    Some(name.strip_suffix('\n').unwrap_or(&name).into())
}

pub(crate) fn needs_root() -> TargetError {
    TargetError::missing(
        "the right to attach a loop device and to mount",
        "run as root, or name a directory of a mounted file system as the target instead",
    )
}

/// The node of a new device may appear a moment after its number.
fn open_when_there(path: &Path, read_only: bool) -> Result<File, TargetError> {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        match File::options().read(true).write(!read_only).open(path) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(needs_root()),
            Err(error) if error.kind() != io::ErrorKind::NotFound || Instant::now() > deadline => {
                return Err(TargetError::io("open", path)(error));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The loop devices to which this file is attached.
///
/// # Errors
/// Those of fstat(2).
pub fn attached_to(file: &File, path: &Path) -> Result<Vec<PathBuf>, TargetError> {
    Ok(over_file(&Known::of(file).map_err(TargetError::io("look at", path))?))
}

/// The loop devices over a file, by whatever name it was attached.
pub(crate) fn over_file(known: &Known) -> Vec<PathBuf> {
    let is_over = |path: &PathBuf| {
        let by_number = status(path).is_some_and(|info| known.numbers.contains(&(info.device, info.inode)));
        by_number || backing_path(path).is_some_and(|name| known.hidden.contains(&name))
    };
    attached().into_iter().filter(is_over).collect()
}

/// The names of the loop devices over a block device, whatever node of it was attached.
pub(crate) fn over_device(device: &BlockDevice) -> Vec<String> {
    let is_over = |path: &PathBuf| backing_device(path).is_some_and(|under| under.number() == device.number());
    let name = |path: PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    attached().into_iter().filter(is_over).filter_map(name).collect()
}

/// What a loop device lies on.
#[derive(Debug)]
pub(crate) enum Backing {
    /// A file.
    File(Known),
    /// Another block device.
    Device(BlockDevice),
}

/// What a device lies on; `None`: it is no loop device, or nothing is attached.
pub(crate) fn backing_of(device: &BlockDevice) -> Option<Backing> {
    let path = Path::new("/dev").join(device.name());
    backing_file(&path)?;
    if let Some(under) = backing_device(&path) {
        return Some(Backing::Device(under));
    }
    let info = status(&path)?;
    Some(Backing::File(Known::by((info.device, info.inode), &backing_path(&path)?)))
}

/// The block device below a loop device. Its node is found by name, or, where that is of another mount namespace, by the
/// number that the kernel tells (loop(4), lo_rdevice).
fn backing_device(path: &Path) -> Option<BlockDevice> {
    let name = backing_file(path)?;
    if let Ok(device) = BlockDevice::open(Path::new(name.trim_end())) {
        return Some(device);
    }
    let info = status(path)?;
    let number = (rustix::fs::major(info.attached_device), rustix::fs::minor(info.attached_device));
    // Kernels before 5.11 tell the device of the file system for a file.
    (info.attached_device != 0 && info.attached_device != info.device).then(|| BlockDevice::from_number(number))?
}

/// The loop devices that have something attached.
fn attached() -> Vec<PathBuf> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let busy = entries.filter(|entry| entry.path().join("loop/backing_file").exists());
    busy.map(|entry| Path::new("/dev").join(entry.file_name())).collect()
}

/// Waits a moment for a loop device whose last user has just gone. Returns whether it no longer has the file.
pub(crate) fn wait_until_detached(file: &File, device: &Path, path: &Path) -> Result<bool, TargetError> {
    let deadline = Instant::now() + Duration::from_secs(2);
    while attached_to(file, path)?.iter().any(|attached| attached == device) {
        if Instant::now() > deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(true)
}

fn status(path: &Path) -> Option<Status> {
    calls::status(File::open(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    #[ignore = "needs loop devices"]
    fn a_device_that_somebody_still_has_open_is_waited_for() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let found = file.metadata().unwrap();
        for _ in 0..5 {
            let device = LoopDevice::attach(&file, "test", false).unwrap();
            let path = device.path().to_path_buf();
            let user = File::open(&path).unwrap();
            let (begun, wait) = std::sync::mpsc::channel();
            let ending = std::thread::spawn(move || {
                wait.recv().unwrap();
                (0..20).for_each(|_| std::thread::yield_now());
                drop((user, device));
            });
            begun.send(()).unwrap();
            let begin = Instant::now();
            detach(&path, found.dev(), found.ino()).unwrap();
            let is_gone = attached_to(&file, Path::new("test")).unwrap().is_empty();
            assert!(is_gone || begin.elapsed() >= DETACH_LIMIT, "it did not wait");
            ending.join().unwrap();
        }
    }

    #[test]
    #[ignore = "needs loop devices"]
    fn attached_and_gone_again() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let device = LoopDevice::attach(&file, "test", false).unwrap();
        let name = device.path().file_name().unwrap().to_owned();
        assert_eq!(attached_to(&file, Path::new("test")).unwrap(), [device.path().to_path_buf()]);
        drop(device);
        assert_eq!(attached_to(&file, Path::new("test")).unwrap(), Vec::<PathBuf>::new(), "{name:?}");
    }
}
