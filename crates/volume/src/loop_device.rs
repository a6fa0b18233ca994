//! Loop devices (loop(4)), attached in one step and detached with their last user.

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::guardian::Guardian;
use crate::guest::Guest;
use crate::overlay::OverlayFile;
use crate::throttle;
use crate::witness::loops;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use senesce_core::environment::{is_root, remedy_of_right};
use senesce_sys::loop_device::{self as calls, Status};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An attached loop device. The autoclear flag detaches it when it is dropped and unmounted, even after a kill.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    handle: Option<File>,
    backing: Option<String>,
    direct_io: bool,
    guardian: Guardian,
}

const DETACH_LIMIT: Duration = Duration::from_secs(2);

impl LoopDevice {
    /// Attaches an open file, with direct I/O if the file allows it. `name` is the file name that `losetup` shows.
    /// [`TargetError::Missing`] without root, the kernel module, a free device or Linux 5.8, or if the size is not a
    /// multiple of 512 bytes.
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
                    let direct_io = opens_direct(file) && calls::set_direct_io(&handle, true).is_ok();
                    let backing = backing_file(&path);
                    let attached = Self { path, handle: Some(handle), backing, direct_io, guardian };
                    let device = BlockDevice::open(&attached.path)?;
                    throttle::lift_all(&device)?;
                    if Guest::is_user_mode() {
                        omit_flushes(&device)?;
                    }
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

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn direct_io(&self) -> bool {
        self.direct_io
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            let _ = calls::detach(&handle);
        }
        wait_while_held(&self.path, self.backing.as_deref());
        // Autoclear detaches it with its last user, even if that is another process.
        self.guardian.dismiss();
    }
}

/// Detaches the device if it is still attached to this file, and waits for the end of the detach.
pub(crate) fn detach(path: &Path, device: u64, inode: u64) -> io::Result<bool> {
    let held = backing_file(path);
    match status(path) {
        Some(info) if info.inode == inode && info.device == device => {
            calls::detach(File::open(path)?)?;
            wait_while_held(path, held.as_deref());
            Ok(true)
        }
        Some(_) => Ok(false),
        // The detach is pending: a file system or a process with the device open is just ending.
        None => {
            wait_while_held(path, held.as_deref());
            Ok(false)
        }
    }
}

/// Waits while the file is attached. The kernel detaches a device with the last descriptor, a moment after its owner
/// was killed.
fn wait_while_held(path: &Path, file: Option<&str>) {
    let deadline = Instant::now() + DETACH_LIMIT;
    while file.is_some() && backing_file(path).as_deref() == file && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns whether the file can be opened with O_DIRECT. An overlay accepts direct I/O of a loop device even if the
/// file system below has none, as that of user-mode Linux. All reads then fail (fs/overlayfs/file.c of the kernel).
fn opens_direct(file: &File) -> bool {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()).err() != Some(Errno::INVAL)
}

fn backing_file(path: &Path) -> Option<String> {
    fs::read_to_string(Path::new("/sys/block").join(path.file_name()?).join("loop/backing_file")).ok()
}

pub(crate) fn needs_root() -> TargetError {
    TargetError::missing(
        "the right to attach a loop device and to mount",
        remedy_of_right("run outside of this container, or name a directory of a mounted file system as the target"),
    )
}

/// Opens a device whose node may appear a moment after its number.
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

/// Makes the file system send no flushes.
fn omit_flushes(device: &BlockDevice) -> Result<(), TargetError> {
    let setting = Path::new("/sys/block").join(device.name()).join("queue/write_cache");
    fs::write(&setting, "write through").map_err(TargetError::io("write", &setting))
}

/// Lists the loop devices of a file. [`TargetError::Missing`] if a user without root cannot determine them.
pub fn attached_to(file: &File, path: &Path) -> Result<Vec<PathBuf>, TargetError> {
    let found = OverlayFile::of(file, path)?;
    loops::over_file(&found)
        .map_err(|silent| missing_right_first(silent.refusal(path, "it is attached to a loop device"), is_root()))
}

/// Returns the error for the missing right, whether or not another loop device is in use.
fn missing_right_first(error: TargetError, is_root: bool) -> TargetError {
    match error {
        TargetError::Refused { .. } if !is_root => needs_root(),
        error => error,
    }
}

/// Waits a moment for a loop device whose last user just ended. Returns whether it no longer has the file.
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

pub(crate) fn backing_file_of(device: &BlockDevice) -> Option<File> {
    let path = Path::new("/dev").join(device.name());
    let (info, name) = (status(&path)?, backing_file(&path)?);
    let file = File::open(name.strip_suffix('\n').unwrap_or(&name)).ok()?;
    let found = rustix::fs::fstat(&file).ok()?;
    (found.st_ino == info.inode && found.st_dev == info.device).then_some(file)
}

fn status(path: &Path) -> Option<Status> {
    calls::status(File::open(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn file_system_without_direct_io_is_recognised() {
        assert!(!opens_direct(&File::open("/proc/version").unwrap()));
        assert!(opens_direct(&File::open(std::env::current_exe().unwrap()).unwrap()));
    }

    #[test]
    #[ignore = "needs loop devices"]
    fn detach_waits_for_open_device() {
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
    fn only_root_is_refused_for_an_unknown_loop_device() {
        let refused = |is_root| {
            let unknown = TargetError::refused("x.img", "cannot determine whether it is attached", "use sudo");
            matches!(missing_right_first(unknown, is_root), TargetError::Refused { .. })
        };
        assert!(refused(true) && !refused(false));
    }

    #[test]
    #[ignore = "needs loop devices"]
    fn device_attaches_and_detaches() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let device = LoopDevice::attach(&file, "test", false).unwrap();
        let name = device.path().file_name().unwrap().to_owned();
        assert_eq!(attached_to(&file, Path::new("test")).unwrap(), [device.path().to_path_buf()]);
        drop(device);
        assert_eq!(attached_to(&file, Path::new("test")).unwrap(), Vec::<PathBuf>::new(), "{name:?}");
    }
}
