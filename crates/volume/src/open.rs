//! From a specification to a mounted target: guard, lock, image, loop device, mkfs, mount.

use crate::block_device::BlockDevice;
use crate::claim::{ClaimedDevice, ClaimedDirectory, Rooted, VisitedDirectory};
use crate::custom::CustomFileSystem;
use crate::error::TargetError;
use crate::file_system::FileSystem;
use crate::holders::{Identity, holders};
use crate::image_file::{ImageFile, ImageOptions};
use crate::kernel_log::KernelLog;
use crate::loop_device::{self, LoopDevice};
use crate::mount::{self, Mount};
use crate::mounted::{Backing, MountedTarget};
use crate::overlay::Known;
use crate::spec::TargetSpec;
use crate::witness::{Testimony, loops};
use crate::{guard, guardian, lock, signature};
use senesce_core::Bytes;
use std::fs::File;
use std::path::Path;

#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The file system to make; `None`: ext4. With `keep_existing` the one that is there if a zoned device does not tell.
    /// Ignored for a directory.
    pub file_system: Option<FileSystem>,
    /// A file system that is not known, in its place. Its commands say all: other options of mkfs and mount are ignored.
    pub custom: Option<CustomFileSystem>,
    /// More options for its mkfs, split at blanks.
    pub mkfs_options: String,
    pub mount_options: String,
    /// Bytes that will be written to an image that is made, at most; `None`: all of it. An image of which only a part will be
    /// written needs no space for the rest, and its file system is made without writing tables that read as zeros anyway.
    pub writes: Option<Bytes>,
    /// Hold an image in memory while it is used; [`MountedTarget::close`] writes it into its file.
    pub in_memory: bool,
    /// Size of an image to be made (where the specification has none), declared size of a directory.
    pub size: Option<Bytes>,
    /// The identity (path or serial number) whose content may be lost.
    pub erase: Option<String>,
    /// Mount what is there instead of making a file system. It must carry our marker, or be named in `erase`.
    pub keep_existing: bool,
    /// Attach and mount for reading only, without replaying a journal: nothing is altered. Only for [`visit`].
    pub read_only: bool,
}

impl OpenOptions {
    pub fn fresh(file_system: FileSystem) -> Self {
        Self { file_system: Some(file_system), ..Self::default() }
    }

    /// For going on with what an earlier run made.
    pub fn existing() -> Self {
        Self { keep_existing: true, ..Self::default() }
    }

    /// For looking at a target without altering it.
    pub fn inspect() -> Self {
        Self { keep_existing: true, read_only: true, ..Self::default() }
    }
}

/// Opens a target that is ours: claimed by the guard, made anew (or kept with `keep_existing`), mounted.
///
/// # Errors
/// [`TargetError::Refused`] by the guard; [`TargetError::Usage`] for options that do not fit the target, such as a size below
/// the least of the file system; [`TargetError::Missing`] without root, or what mkfs and mount need; [`TargetError::Program`]
/// when mkfs fails; as [`Mount::new`].
pub fn open(spec: &TargetSpec, options: &OpenOptions) -> Result<MountedTarget, TargetError> {
    if options.read_only {
        return Err(TargetError::Usage("a target that is only read is visited, not claimed".into()));
    }
    stage::<ClaimedDirectory>(spec, options)
}

/// Mounts a target of somebody else's, with what it holds: to look at it (`read_only`) or to run a command on it. It gives
/// no right to destroy anything.
///
/// # Errors
/// As [`open()`], without mkfs; [`TargetError::Refused`] only when it is in use, or for a file system by commands that `erase`
/// does not name.
pub fn visit(spec: &TargetSpec, options: &OpenOptions) -> Result<MountedTarget<VisitedDirectory>, TargetError> {
    stage::<VisitedDirectory>(spec, &OpenOptions { keep_existing: true, ..options.clone() })
}

fn stage<D: Rooted>(spec: &TargetSpec, options: &OpenOptions) -> Result<MountedTarget<D>, TargetError> {
    if spec.needs_root() && !rustix::process::geteuid().is_root() {
        return Err(loop_device::needs_root());
    }
    check_word(spec, options.erase.as_deref())?;
    // What killed processes left goes first.
    guardian::sweep();
    match spec {
        TargetSpec::Directory(path) => stage_directory(spec, path, options),
        TargetSpec::Image { path, size } => {
            let (erase, size) = (options.erase.as_deref(), size.or(options.size));
            let (keep, read_only, in_memory) = (options.keep_existing, options.read_only, options.in_memory);
            check_least_size(spec, size, options)?;
            let existed = path.symlink_metadata().is_ok();
            let writes = options.writes;
            let image = ImageFile::open(path, ImageOptions { size, writes, erase, keep, read_only, in_memory })?;
            let staged = stage_image(spec, image, &path.to_string_lossy(), options);
            if staged.is_err() && !existed {
                let _ = std::fs::remove_file(path);
            }
            staged
        }
        TargetSpec::Memory { size } => {
            if options.keep_existing {
                return Err(TargetError::Usage(format!("{spec} holds nothing that could be kept")));
            }
            check_least_size(spec, Some(*size), options)?;
            stage_image(spec, ImageFile::scratch(*size, options.writes)?, "senesce memory image", options)
        }
        TargetSpec::Device(path) => {
            if options.in_memory {
                return Err(TargetError::Usage(format!("--in-memory is for images; {spec} is a device")));
            }
            let keep = options.keep_existing;
            let claimed = match keep {
                true => ClaimedDevice::claim_unused(path)?,
                false => ClaimedDevice::claim(path, options.erase.as_deref())?,
            };
            let made = make_and_mount::<D>(spec, &claimed, claimed.lock_handle(), false, options)?;
            finish(spec, made, Backing::Device(claimed))
        }
    }
}

/// Refuses a word of `--erase` that names something else than the target, also where nothing would be lost.
fn check_word(spec: &TargetSpec, erase: Option<&str>) -> Result<(), TargetError> {
    let Some(word) = erase else { return Ok(()) };
    let names = match spec {
        TargetSpec::Memory { .. } => false,
        TargetSpec::Directory(path) | TargetSpec::Image { path, .. } | TargetSpec::Device(path) => {
            guard::names(word, path)
        }
    };
    match names {
        true => Ok(()),
        false => Err(TargetError::refused(
            spec,
            format!("--erase {word} does not name it"),
            "repeat the path or serial number of what may be lost, or leave out --erase",
        )),
    }
}

/// A new image must be large enough for its mkfs. With options of its own, mkfs decides.
fn check_least_size(spec: &TargetSpec, size: Option<Bytes>, options: &OpenOptions) -> Result<(), TargetError> {
    let file_system = options.file_system.unwrap_or(FileSystem::Ext4);
    let least = file_system.least_size();
    match size {
        Some(size)
            if options.custom.is_none()
                && !options.keep_existing
                && options.mkfs_options.trim().is_empty()
                && size < least =>
        {
            let name = spec.path().map_or("an image in memory".into(), |path| path.display().to_string());
            Err(TargetError::Usage(format!("{name}: {size} is too small for {file_system}, which needs {least}")))
        }
        _ => Ok(()),
    }
}

fn stage_directory<D: Rooted>(
    spec: &TargetSpec,
    path: &Path,
    options: &OpenOptions,
) -> Result<MountedTarget<D>, TargetError> {
    if options.in_memory {
        return Err(TargetError::Usage(format!("--in-memory is for images; {spec} is a directory")));
    }
    if D::OURS {
        guard::check_directory(path)?;
    }
    let directory = D::take(path, options.erase.as_deref())?;
    let handle = File::open(path).map_err(TargetError::io("open directory", path))?;
    if D::OURS {
        lock::lock(&handle, path)?;
    }
    let found = rustix::fs::statvfs(path).map_err(TargetError::errno("ask for the size of", path))?;
    let capacity = options.size.unwrap_or(Bytes(found.f_blocks * found.f_frsize));
    let device = BlockDevice::below(path);
    let log = KernelLog::since_now(device.as_ref());
    let backing = Backing::Directory { _lock: handle, device };
    Ok(MountedTarget::new(spec, directory, None, backing, log, capacity, None))
}

fn stage_image<D: Rooted>(
    spec: &TargetSpec,
    image: ImageFile,
    name: &str,
    options: &OpenOptions,
) -> Result<MountedTarget<D>, TargetError> {
    let device = LoopDevice::attach(image.active(), name, options.read_only)?;
    let claimed = ClaimedDevice::claim_own(&device)?;
    let sparse = options.writes.is_some();
    let made = make_and_mount::<D>(spec, &claimed, image.lock_handle(), sparse, options)?;
    drop(claimed);
    finish(spec, made, Backing::Image { device, image })
}

struct Made {
    mount: Mount,
    log: KernelLog,
    capacity: Bytes,
    mkfs_command: Option<String>,
    /// Whether the root may be ours without a marker: it is new, or was named in `erase`.
    is_allowed: bool,
}

fn make_and_mount<D: Rooted>(
    spec: &TargetSpec,
    device: &ClaimedDevice,
    lock: Option<File>,
    sparse: bool,
    options: &OpenOptions,
) -> Result<Made, TargetError> {
    let log = KernelLog::since_now(Some(device.device()));
    let is_allowed = !options.keep_existing || names_target(spec, device.device(), options.erase.as_deref());
    if let Some(custom) = &options.custom {
        // Nothing mounts one that is not known without altering it, to look for the marker.
        if !is_allowed {
            return Err(TargetError::refused(
                spec,
                "whether its file system was made by senesce cannot be looked at: it is not known",
                format!("allow changes to it with --erase {}", spec.path().unwrap_or(device.path()).display()),
            ));
        }
        let mkfs_command = if options.keep_existing { None } else { Some(custom.make(device)?) };
        let mount = Mount::custom(device.path(), custom.clone(), lock)?;
        return Ok(Made { mount, log, capacity: device.size(), mkfs_command, is_allowed });
    }
    let (file_system, mkfs_command) = if options.keep_existing {
        (existing_file_system(device, options.file_system)?, None)
    } else {
        let file_system = options.file_system.unwrap_or(FileSystem::Ext4);
        let unwritten = if sparse { file_system.entry().unwritten_options } else { "" };
        (file_system, Some(file_system.make(device, &format!("{unwritten} {}", options.mkfs_options))?))
    };
    if D::OURS && !is_allowed {
        check_marker(spec, device.path(), file_system, lock.as_ref())?;
    }
    let inspect = if options.read_only { file_system.entry().inspect_options } else { "" };
    let unwritten = if sparse && !options.read_only { file_system.entry().unwritten_mount_options } else { "" };
    // What is kept may be somebody else's work: a link in it must not lead our own writing out of it. Commands of the user's, which
    // get a visited target, may need links.
    let links = if D::OURS && options.keep_existing { "nosymfollow" } else { "" };
    let mount_options = [inspect, unwritten, links, &options.mount_options].into_iter().filter(|text| !text.is_empty());
    let mount = Mount::new(device.path(), file_system, &mount_options.collect::<Vec<_>>().join(","), lock)?;
    Ok(Made { mount, log, capacity: device.size(), mkfs_command, is_allowed })
}

/// Refuses a file system of somebody else's before it is mounted for writing, which would replay its journal and write its
/// superblock.
fn check_marker(
    spec: &TargetSpec,
    device: &Path,
    file_system: FileSystem,
    lock: Option<&File>,
) -> Result<(), TargetError> {
    let lock = lock.and_then(|lock| lock.try_clone().ok());
    let mut mount = Mount::new(device, file_system, file_system.entry().inspect_options, lock)?;
    let checked = ClaimedDirectory::check(mount.point(), None).map_err(|error| not_ours(error, spec, mount.point()));
    mount.unmount()?;
    checked
}

fn not_ours(error: TargetError, spec: &TargetSpec, point: &Path) -> TargetError {
    match error {
        TargetError::Refused { .. } => TargetError::refused(
            spec,
            "its file system was not made by senesce (no marker .senesce in its root)",
            format!("allow changes to it with --erase {}", spec.path().unwrap_or(point).display()),
        ),
        other => other,
    }
}

/// The file system that a device holds; where a zoned one does not tell, the `expected` one.
pub(crate) fn existing_file_system(
    device: &ClaimedDevice,
    expected: Option<FileSystem>,
) -> Result<FileSystem, TargetError> {
    let (file, size, path) = (device.file(), device.size().0, device.path());
    let mut found = signature::file_system(file, size, path)?;
    if let (None, Some(zone_bytes)) = (found, device.device().zone_bytes()) {
        found = signature::is_zoned_btrfs(file, zone_bytes, size, path)?.then_some(FileSystem::Btrfs);
    }
    match (found, expected) {
        (Some(known), _) => Ok(known),
        (None, Some(expected)) if device.device().is_zoned() => Ok(expected),
        (None, _) => Err(TargetError::damaged(device.path(), "no file system that senesce can mount was found on it")),
    }
}

fn finish<D: Rooted>(spec: &TargetSpec, made: Made, backing: Backing) -> Result<MountedTarget<D>, TargetError> {
    let point = made.mount.point().to_path_buf();
    let allowed = made.is_allowed.then(|| point.to_string_lossy().into_owned());
    let directory = D::take(&point, allowed.as_deref()).map_err(|error| not_ours(error, spec, &point))?;
    Ok(MountedTarget::new(spec, directory, Some(made.mount), backing, made.log, made.capacity, made.mkfs_command))
}

/// `device`: what is mounted, which of an image is a loop device that has no name to the user.
fn names_target(spec: &TargetSpec, device: &BlockDevice, erase: Option<&str>) -> bool {
    let Some(word) = erase else { return false };
    let serial = matches!(spec, TargetSpec::Device(_)) && device.identities().iter().any(|known| known == word);
    let real = |path: &Path| path.canonicalize().is_ok_and(|real| real == Path::new(word));
    serial || spec.path().is_some_and(|path| path == Path::new(word) || real(path))
}

/// A loop device that still has the image belongs to a killed process (then it is released) or to somebody else.
pub(crate) fn release_stale_loops(image: &File, known: &Known, path: &Path) -> Result<Testimony, TargetError> {
    let attached = match loops::over_file(known) {
        Ok(attached) => attached,
        Err(silent) => return Ok(Err(silent)),
    };
    for device in attached {
        let free = mount::clean_up(&device)?;
        if !free || !loop_device::wait_until_detached(image, &device, path)? {
            let holders: Vec<String> = holders(&Identity::of_device(&device)).iter().map(ToString::to_string).collect();
            return Err(TargetError::refused(
                path.display(),
                match holders.is_empty() {
                    true => format!("it is attached to {}", device.display()),
                    false => format!("it is attached to {}; {}", device.display(), holders.join("; ")),
                },
                format!("unmount it and detach it first (losetup -d {})", device.display()),
            ));
        }
    }
    Ok(Ok(()))
}
