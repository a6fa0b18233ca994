//! Mounts a file system until it is unmounted or a signal arrives.

use crate::cold::{ColdStore, Latency, LatencyCold};
use crate::error::{TierError, io_error};
use crate::format::{BLOCK, Identity};
use crate::fs::{Mode, TierFs};
use crate::fuse::{Adapter, Linger, SCRUB_XATTR, STATS_XATTR};
use crate::nvm::{MappedNvm, Nvm};
use crate::open::{Options, format_region};
use crate::pair;
use crate::scrub::Progress;
use crate::stats::Stats;
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::mount::UnmountFlags;
use senesce_core::Bytes;
use senesce_core::failure::errno_message;
use senesce_core::interrupt::Interrupt;
use senesce_volume::Guardian;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Device number of /dev/fuse: misc, 229 (kernel: Documentation/admin-guide/devices.txt).
const FUSE_DEVICE: u64 = libc::makedev(10, 229);

#[derive(Debug, Clone)]
pub enum Memory {
    File(PathBuf),
    /// Anonymous memory of this size: an empty file system that is discarded at the end, with a new cold store.
    Anonymous(Bytes),
}

#[derive(Debug, Clone)]
pub struct MountRequest {
    pub memory: Memory,
    pub cold: PathBuf,
    pub mount_point: PathBuf,
    pub options: Options,
    pub threads: usize,
    pub cold_latency: Option<Latency>,
}

/// Features of a root mount that are off by default, because a region may come from an untrusted source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AllowedFeatures {
    pub devices: bool,
    pub setuid: bool,
}

/// Returns the default: one thread per processor, at least 2, so that one slow fetch does not block everything.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).max(2)
}

/// Mounts and serves until the file system is unmounted or `interrupt` is set; then everything is durable. Calls `ready` once it
/// is mounted.
pub(crate) fn serve(
    request: &MountRequest,
    interrupt: &Interrupt,
    ready: impl FnOnce(&Arc<TierFs>) -> Result<(), TierError>,
) -> Result<(), TierError> {
    serve_with(request, AllowedFeatures::default(), interrupt, ready)
}

/// Mounts and serves the file system like `serve`, with additional permissions.
pub fn serve_with(
    request: &MountRequest,
    allow: AllowedFeatures,
    interrupt: &Interrupt,
    ready: impl FnOnce(&Arc<TierFs>) -> Result<(), TierError>,
) -> Result<(), TierError> {
    if request.options.period.is_zero() {
        return Err(TierError::Usage(
            "an interval of 0 ms is not possible for the evictor; set a longer --period".into(),
        ));
    }
    // Clean up after killed processes first: a dead mount may cover the mount point.
    senesce_volume::guardian::sweep();
    check_mount_point(&request.mount_point)?;
    check_fuse()?;
    let fs = Arc::new(open(request)?);
    let _guardian = Guardian::of_fuse_mount(&request.mount_point)?;
    let session = match mount(&fs, request, allow) {
        Ok(session) => session,
        Err(error) => {
            fs.close();
            return Err(io_error("mount on", &request.mount_point)(error));
        }
    };
    if let Err(error) = ready(&fs) {
        drop(session);
        fs.close();
        return Err(error);
    }
    let ended = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        if request.options.mode == Mode::Anticache {
            scope.spawn(|| fs.run_evictor());
        }
        scope.spawn(|| fs.run_caretaker());
        scope.spawn(|| unmount_on(interrupt, &request.mount_point, &ended));
        let served = session.run();
        ended.store(true, Ordering::Relaxed);
        fs.evictor().shut_down();
        fs.caretaker().shut_down();
        served
    });
    fs.close();
    served.map_err(io_error("serve", &request.mount_point))?;
    fs.settled().map_err(|error| io_error("sync the content of", &request.mount_point)(error.into()))
}

fn mount(fs: &Arc<TierFs>, request: &MountRequest, allow: AllowedFeatures) -> std::io::Result<Session<Adapter>> {
    let linger = Arc::new(Linger::default());
    let session =
        Session::new(Adapter::new(fs.clone(), linger.clone()), &request.mount_point, &config(request, allow))?;
    linger.at(session.as_fd().try_clone_to_owned()?, request.threads);
    Ok(session)
}

pub struct Server {
    fs: Arc<TierFs>,
    interrupt: Interrupt,
    thread: Option<JoinHandle<Result<(), TierError>>>,
}

impl Server {
    /// Returns once it is mounted.
    pub fn start(request: MountRequest) -> Result<Self, TierError> {
        let interrupt = Interrupt::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        let flag = interrupt.clone();
        let thread = std::thread::spawn(move || {
            serve(&request, &flag, |fs| {
                // The receiver is only gone if the starter is, and then the flag is set.
                let _ = sender.send(fs.clone());
                Ok(())
            })
        });
        match receiver.recv() {
            Ok(fs) => Ok(Self { fs, interrupt, thread: Some(thread) }),
            Err(_) => Err(join(thread).err().unwrap_or_else(died)),
        }
    }

    pub fn fs(&self) -> &Arc<TierFs> {
        &self.fs
    }

    /// Unmounts and waits until everything is durable.
    pub fn stop(mut self) -> Result<(), TierError> {
        self.interrupt.request();
        self.thread.take().map_or(Ok(()), join)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.interrupt.request();
        if let Some(Err(error)) = self.thread.take().map(join) {
            tracing::warn!("{error}");
        }
    }
}

fn join(thread: JoinHandle<Result<(), TierError>>) -> Result<(), TierError> {
    thread.join().unwrap_or_else(|_| Err(died()))
}

fn died() -> TierError {
    let source = std::io::Error::other("its thread ended unexpectedly");
    TierError::Io { operation: "serve", path: "the file system".into(), source, remedy: "" }
}

fn config(request: &MountRequest, allow: AllowedFeatures) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source(&request.memory)),
        MountOption::Subtype("tier".into()),
        MountOption::DefaultPermissions,
    ];
    if rustix::process::geteuid().is_root() {
        config.acl = SessionACL::All;
        // Without these options a mount has nodev and nosuid.
        config.mount_options.extend(allow.devices.then_some(MountOption::Dev));
        config.mount_options.extend(allow.setuid.then_some(MountOption::Suid));
    }
    config.n_threads = Some(request.threads.max(1));
    config.clone_fd = request.threads > 1;
    config
}

/// Returns the source shown for the mount: the region.
fn source(memory: &Memory) -> String {
    match memory {
        // A comma would end the option for the helper program.
        Memory::File(path) if !path.to_string_lossy().contains([',', '\\']) => path.display().to_string(),
        _ => "senesce-tier".into(),
    }
}

fn open(request: &MountRequest) -> Result<TierFs, TierError> {
    let (nvm, cold, path): (Box<dyn Nvm>, Box<dyn ColdStore>, &Path) = match &request.memory {
        Memory::File(path) => {
            let pair = pair::open(path, &request.cold, false)?;
            (Box::new(pair.nvm), Box::new(pair.cold), path)
        }
        Memory::Anonymous(size) => {
            let bytes = size.0 / BLOCK as u64 * BLOCK as u64;
            let cold = pair::fresh_cold(&request.cold, bytes)?;
            let identity = Identity { blocks: bytes / BLOCK as u64, ..cold.1 };
            let nvm = format_region(Box::new(MappedNvm::anonymous(bytes)?), &identity)?;
            (nvm, Box::new(cold.0), Path::new("anonymous memory"))
        }
    };
    let cold = match request.cold_latency {
        Some(model) => Box::new(LatencyCold::new(cold, model)),
        None => cold,
    };
    TierFs::open(nvm, cold, path, &request.options)
}

fn check_mount_point(path: &Path) -> Result<(), TierError> {
    let refuse = |problem: &str| TierError::MountPoint { path: path.into(), problem: problem.into() };
    let found = match std::fs::metadata(path) {
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => {
            return Err(refuse("a file system whose server has died is still mounted there; umount it first"));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(refuse("it does not exist; make it with mkdir"));
        }
        other => other.map_err(io_error("read the mount point", path))?,
    };
    if !found.is_dir() {
        return Err(refuse("it is not a directory; make one with mkdir"));
    }
    let above = std::fs::metadata(path.join("..")).map_err(io_error("search above the mount point", path))?;
    if above.dev() != found.dev() || above.ino() == found.ino() {
        return Err(refuse("another file system is mounted there; umount it or choose another directory"));
    }
    Ok(())
}

fn check_fuse() -> Result<(), TierError> {
    let path = Path::new("/dev/fuse");
    match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_char_device() && found.rdev() == FUSE_DEVICE => Ok(()),
        _ => Err(TierError::Missing {
            what: "/dev/fuse".into(),
            remedy: "load it with `modprobe fuse`; in a container, pass --device /dev/fuse".into(),
        }),
    }
}

/// Unmounts once `interrupt` is set. Programs that still use the file system get errors; their writes are durable.
fn unmount_on(interrupt: &Interrupt, mount_point: &Path, ended: &AtomicBool) {
    while !interrupt.requested() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // Pages changed through mmap are still in the kernel.
    let flushed = std::fs::File::open(mount_point).map(|directory| rustix::fs::syncfs(&directory));
    if let Ok(Err(errno)) = flushed {
        let why = errno_message(&errno.into());
        eprintln!("tier: some pages changed through mmap could not be written: {why}; the last changes are lost");
    }
    if unmount(mount_point, UnmountFlags::empty()) || ended.load(Ordering::Relaxed) {
        return;
    }
    let path = mount_point.display();
    if unmount(mount_point, UnmountFlags::FORCE | UnmountFlags::DETACH) {
        eprintln!("tier: {path} is in use; it was detached, and its users get errors");
    } else {
        eprintln!(
            "tier: {path} cannot be unmounted; serving until `umount {path}` or `fusermount3 -u {path}` succeeds"
        );
    }
}

/// Unmounts; for an ordinary user through the helper program that mounted it. Returns whether that worked.
fn unmount(mount_point: &Path, flags: UnmountFlags) -> bool {
    match rustix::mount::unmount(mount_point, flags) {
        Err(rustix::io::Errno::PERM) => {
            let lazy: &[&str] = if flags.contains(UnmountFlags::DETACH) { &["-z"] } else { &[] };
            let helper = |name| Command::new(name).args(["-u", "-q"]).args(lazy).arg("--").arg(mount_point).status();
            helper("fusermount3").or_else(|_| helper("fusermount")).is_ok_and(|status| status.success())
        }
        result => result.is_ok(),
    }
}

pub fn stats(mount_point: &Path) -> Result<Stats, TierError> {
    let mut buffer = vec![0; 1 << 16];
    let foreign = |found: String| TierError::MountPoint { path: mount_point.into(), problem: found };
    let len = rustix::fs::getxattr(mount_point, STATS_XATTR, &mut buffer).map_err(|error| match error {
        rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP => {
            foreign("it is not a mounted tier file system; mount one with `senesce tier mount`".into())
        }
        other => io_error("request the counters of", mount_point)(other.into()),
    })?;
    serde_json::from_slice(&buffer[..len]).map_err(|error| foreign(format!("its counters are invalid: {error}")))
}

/// Scrubs a mounted file system; returns the findings.
pub fn scrub(mount_point: &Path, interrupt: &Interrupt) -> Result<Progress, TierError> {
    let before = stats(mount_point)?.scrub.ended;
    rustix::fs::setxattr(mount_point, SCRUB_XATTR, b"start", rustix::fs::XattrFlags::empty())
        .map_err(|error| io_error("start a scrub of", mount_point)(error.into()))?;
    loop {
        let progress = stats(mount_point)?.scrub;
        if progress.ended > before && !progress.running {
            return Ok(progress);
        }
        if interrupt.requested() {
            return Err(TierError::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
