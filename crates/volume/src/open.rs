//! Opens a target: guard, lock, image, loop device, mkfs, mount.

use crate::block_device::BlockDevice;
use crate::claim::{ClaimedDevice, ClaimedDirectory, TargetDirectory, VisitedDirectory};
use crate::custom::CustomFileSystem;
use crate::error::TargetError;
use crate::file_system::FileSystem;
use crate::holders::{Identity, holders};
use crate::image_file::{CreatedFile, ImageFile, ImageOptions};
use crate::kernel_log::KernelLog;
use crate::loop_device::{self, LoopDevice};
use crate::mount::{self, Mount};
use crate::mounted::{Backing, MountedTarget};
use crate::overlay::OverlayFile;
use crate::spec::TargetSpec;
use crate::witness::{WitnessResult, loops};
use crate::{guard, guardian, lock, runtime, signature};
use senesce_core::Bytes;
use std::fs::File;
use std::path::Path;

#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The file system to make; `None`: ext4. With `keep_existing` the fallback if a zoned device cannot be identified.
    /// Ignored for a directory.
    pub file_system: Option<FileSystem>,
    /// A custom file system instead. Its commands are complete: other options of mkfs and mount are ignored.
    pub custom: Option<CustomFileSystem>,
    pub mkfs_options: String,
    pub mount_options: String,
    /// Upper limit of the bytes that will be written to a new image, for which the host needs space; `None`: its size.
    pub writes: Option<Bytes>,
    /// mkfs of an image skips tables that read as zeros anyway.
    pub skips_tables: bool,
    pub in_memory: bool,
    /// Size of a new image (if the specification has none), or declared size of a directory.
    pub size: Option<Bytes>,
    pub erase: Option<String>,
    /// Identity of the aging, for a new marker; at most 29 characters.
    pub identity: Option<String>,
    /// Mount the existing file system. It must have our marker, or be named in `erase`.
    pub keep_existing: bool,
    /// Attach and mount read-only, without replaying a journal. Only for [`visit`].
    pub read_only: bool,
}

impl OpenOptions {
    pub fn fresh(file_system: FileSystem) -> Self {
        Self { file_system: Some(file_system), ..Self::default() }
    }

    pub fn existing() -> Self {
        Self { keep_existing: true, ..Self::default() }
    }

    pub fn inspect() -> Self {
        Self { keep_existing: true, read_only: true, ..Self::default() }
    }
}

/// Claims, formats and mounts a target (`keep_existing`: without mkfs). The guard may refuse it. [`TargetError::Usage`]
/// for options that do not fit, such as a size below the file system's minimum. [`TargetError::Missing`] without root,
/// mkfs or kernel support.
pub fn open(spec: &TargetSpec, options: &OpenOptions) -> Result<MountedTarget, TargetError> {
    if options.read_only {
        return Err(TargetError::Usage("a read-only target is visited, not claimed".into()));
    }
    stage::<ClaimedDirectory>(spec, options)
}

/// Mounts an existing target without claiming it, to inspect it (`read_only`) or to run a command on it. It gives no
/// permission to erase. Refuses a target in use, and a custom file system that `erase` does not name.
pub fn visit(spec: &TargetSpec, options: &OpenOptions) -> Result<MountedTarget<VisitedDirectory>, TargetError> {
    stage::<VisitedDirectory>(spec, &OpenOptions { keep_existing: true, ..options.clone() })
}

fn stage<D: TargetDirectory>(spec: &TargetSpec, options: &OpenOptions) -> Result<MountedTarget<D>, TargetError> {
    if spec.needs_root() && !rustix::process::geteuid().is_root() {
        return Err(loop_device::needs_root());
    }
    check_word(spec, options.erase.as_deref())?;
    // Clean up after killed processes first.
    guardian::sweep();
    if spec.needs_root() {
        // Before anything is written to the target.
        runtime::check_writable()?;
    }
    match spec {
        TargetSpec::Directory(path) => stage_directory(spec, path, options),
        TargetSpec::Image { path, size } => {
            let (erase, size) = (options.erase.as_deref(), size.or(options.size));
            let (keep, read_only, in_memory) = (options.keep_existing, options.read_only, options.in_memory);
            check_minimum_size(spec, size, options)?;
            let writes = options.writes;
            let mut image = ImageFile::open(path, ImageOptions { size, writes, erase, keep, read_only, in_memory })?;
            let created = image.take_created();
            stage_image(spec, image, &path.to_string_lossy(), options).inspect_err(|_| {
                created.iter().for_each(CreatedFile::remove);
            })
        }
        TargetSpec::Memory { size } => {
            if options.keep_existing {
                return Err(TargetError::Usage(format!("{spec} is empty: there is nothing to keep")));
            }
            check_minimum_size(spec, Some(*size), options)?;
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
            finish(spec, made, Backing::Device(claimed), options)
        }
    }
}

/// Refuses a word of `--erase` that names anything but the target, even if nothing would be lost.
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
            "repeat the target's path or serial number, or leave out --erase",
        )),
    }
}

/// Checks that a new image is large enough for mkfs. With extra options, mkfs decides.
fn check_minimum_size(spec: &TargetSpec, size: Option<Bytes>, options: &OpenOptions) -> Result<(), TargetError> {
    let file_system = options.file_system.unwrap_or(FileSystem::Ext4);
    let least = file_system.minimum_size();
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

fn stage_directory<D: TargetDirectory>(
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
    let directory = D::take(path, options.erase.as_deref(), options.identity.as_deref())?;
    let handle = File::open(path).map_err(TargetError::named("open directory", path))?;
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

fn stage_image<D: TargetDirectory>(
    spec: &TargetSpec,
    image: ImageFile,
    name: &str,
    options: &OpenOptions,
) -> Result<MountedTarget<D>, TargetError> {
    let device = LoopDevice::attach(image.active(), name, options.read_only)?;
    let claimed = ClaimedDevice::claim_own(&device)?;
    let made = make_and_mount::<D>(spec, &claimed, image.lock_handle(), options.skips_tables, options)?;
    drop(claimed);
    finish(spec, made, Backing::Image { device, image }, options)
}

struct PreparedMount {
    mount: Mount,
    log: KernelLog,
    capacity: Bytes,
    mkfs_command: Option<String>,
    /// Whether the root may be used without a marker: it is new, or named in `erase`.
    is_allowed: bool,
}

fn make_and_mount<D: TargetDirectory>(
    spec: &TargetSpec,
    device: &ClaimedDevice,
    lock: Option<File>,
    skips_tables: bool,
    options: &OpenOptions,
) -> Result<PreparedMount, TargetError> {
    let log = KernelLog::since_now(Some(device.device()));
    let is_allowed = !options.keep_existing || names_target(spec, device.device(), options.erase.as_deref());
    if let Some(custom) = &options.custom {
        // A custom file system cannot be mounted read-only to check the marker.
        if !is_allowed {
            return Err(TargetError::refused(
                spec,
                "senesce cannot check whether it made this file system: it is not a known one",
                format!("allow changes to it with --erase {}", spec.path().unwrap_or(device.path()).display()),
            ));
        }
        let mkfs_command = if options.keep_existing { None } else { Some(custom.make(device)?) };
        let mount = Mount::custom(device.path(), custom.clone(), lock)?;
        return Ok(PreparedMount { mount, log, capacity: device.size(), mkfs_command, is_allowed });
    }
    let (file_system, mkfs_command) = if options.keep_existing {
        (existing_file_system(device, spec.path().unwrap_or(device.path()), options.file_system)?, None)
    } else {
        let file_system = options.file_system.unwrap_or(FileSystem::Ext4);
        let unwritten = if skips_tables { file_system.entry().unwritten_options } else { "" };
        (file_system, Some(file_system.make(device, &format!("{unwritten} {}", options.mkfs_options))?))
    };
    if D::OURS && !is_allowed {
        check_marker(spec, device.path(), file_system, lock.as_ref())?;
    }
    let inspect = if options.read_only { file_system.entry().inspect_options } else { "" };
    let unwritten = if skips_tables && !options.read_only { file_system.entry().unwritten_mount_options } else { "" };
    // The content may be foreign: a link in it must not redirect our writes. A user's commands, which get a visited
    // target, may need links.
    let links = if D::OURS && options.keep_existing { "nosymfollow" } else { "" };
    let mount_options = [inspect, unwritten, links, &options.mount_options].into_iter().filter(|text| !text.is_empty());
    let mount = Mount::new(device.path(), file_system, &mount_options.collect::<Vec<_>>().join(","), lock)?;
    Ok(PreparedMount { mount, log, capacity: device.size(), mkfs_command, is_allowed })
}

/// Checks the marker before a mount for writing, which would replay the journal and write the superblock.
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

/// Returns the file system on a device; `expected` if a zoned device cannot be identified. An error has the `name` that the
/// user gave the device or its image.
pub(crate) fn existing_file_system(
    device: &ClaimedDevice,
    name: &Path,
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
        (None, _) => Err(TargetError::damaged(name, "it has no file system that senesce can mount")),
    }
}

fn finish<D: TargetDirectory>(
    spec: &TargetSpec,
    made: PreparedMount,
    backing: Backing,
    options: &OpenOptions,
) -> Result<MountedTarget<D>, TargetError> {
    let point = made.mount.point().to_path_buf();
    let allowed = made.is_allowed.then(|| point.to_string_lossy().into_owned());
    let directory = D::take(&point, allowed.as_deref(), options.identity.as_deref());
    let directory = directory.map_err(|error| not_ours(error, spec, &point))?;
    Ok(MountedTarget::new(spec, directory, Some(made.mount), backing, made.log, made.capacity, made.mkfs_command))
}

/// Returns whether `erase` names the target. `device` is mounted; for an image it is a loop device whose name the user
/// does not know.
fn names_target(spec: &TargetSpec, device: &BlockDevice, erase: Option<&str>) -> bool {
    let Some(word) = erase else { return false };
    let serial = matches!(spec, TargetSpec::Device(_)) && device.identities().iter().any(|known| known == word);
    let real = |path: &Path| path.canonicalize().is_ok_and(|real| real == Path::new(word));
    serial || spec.path().is_some_and(|path| path == Path::new(word) || real(path))
}

/// Releases loop devices that have the image and belong to a killed process; refuses those of another program.
pub(crate) fn release_stale_loops(
    image: &File,
    known: &OverlayFile,
    path: &Path,
) -> Result<WitnessResult, TargetError> {
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
