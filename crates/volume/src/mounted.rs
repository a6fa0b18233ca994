//! A target in use: mounted, locked, and undone in the right order however it ends.

use crate::block_device::{self, BlockDevice};
use crate::claim::{ClaimedDevice, ClaimedDirectory, Rooted};
use crate::cold;
use crate::environment;
use crate::error::TargetError;
use crate::file_system::{CheckReport, FileSystem};
use crate::image_file::ImageFile;
use crate::kernel_log::KernelLog;
use crate::loop_device::LoopDevice;
use crate::mount::Mount;
use crate::setting::ChangedSetting;
use crate::spec::TargetSpec;
use senesce_core::{Bytes, Environment};
use std::fs::File;
use std::path::{Path, PathBuf};

/// What lies below the mounted file system.
#[derive(Debug)]
pub(crate) enum Backing {
    Image {
        device: LoopDevice,
        image: ImageFile,
    },
    Device(ClaimedDevice),
    /// A directory: its lock, and the device below it where there is one.
    Directory {
        _lock: File,
        device: Option<BlockDevice>,
    },
}

/// How a target was brought into a cold state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remounted {
    /// Unmounted and mounted again: nothing is cached.
    Yes,
    /// A directory cannot be unmounted by us: it was synced and the machine's caches were dropped.
    CachesDropped,
}

/// A target that is mounted and ready. `D` is what we hold of its root: a [`ClaimedDirectory`] or, after
/// [`crate::visit`], a [`crate::VisitedDirectory`]. The order of the fields is the order in which they are undone.
#[derive(Debug)]
pub struct MountedTarget<D: Rooted = ClaimedDirectory> {
    directory: D,
    settings: ChangedSettings,
    mount: Option<Mount>,
    backing: Backing,
    log: KernelLog,
    spec: TargetSpec,
    capacity: Bytes,
    mkfs_command: Option<String>,
}

/// Settings of the kernel, which come back in the opposite order.
#[derive(Debug, Default)]
struct ChangedSettings(Vec<ChangedSetting>);

impl ChangedSettings {
    fn set(&mut self, file: PathBuf, value: &str) -> Result<(), TargetError> {
        self.0.push(ChangedSetting::set(file, value)?);
        Ok(())
    }
}

impl Drop for ChangedSettings {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

impl<D: Rooted> MountedTarget<D> {
    pub(crate) fn new(
        spec: &TargetSpec,
        directory: D,
        mount: Option<Mount>,
        backing: Backing,
        log: KernelLog,
        capacity: Bytes,
        mkfs_command: Option<String>,
    ) -> Self {
        let settings = ChangedSettings::default();
        Self { directory, settings, mount, backing, log, spec: spec.clone(), capacity, mkfs_command }
    }

    pub fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    pub fn directory(&self) -> &D {
        &self.directory
    }

    /// Where it is mounted (for a directory: the directory).
    pub fn mount_point(&self) -> &Path {
        self.directory.path()
    }

    /// The raw size: of the image, of the device, for a directory the declared size or else the size of its file system.
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// The file system. `None` for a directory on one that senesce cannot make.
    pub fn file_system(&self) -> Option<FileSystem> {
        self.mount.as_ref().and_then(Mount::file_system).or_else(|| environment::file_system_of(self.mount_point()))
    }

    /// The device below. `None`: a directory on a file system without a single block device (tmpfs).
    pub fn block_device(&self) -> Option<&Path> {
        match &self.backing {
            Backing::Image { device, .. } => Some(device.path()),
            Backing::Device(device) => Some(device.path()),
            Backing::Directory { device, .. } => device.as_ref().map(BlockDevice::path),
        }
    }

    fn device(&self) -> Result<BlockDevice, TargetError> {
        let path = self.block_device().ok_or_else(|| {
            TargetError::missing(
                format!("a block device below {}", self.mount_point().display()),
                "use an image or a device as the target",
            )
        })?;
        BlockDevice::open(path)
    }

    /// The device below as sysfs shows it.
    pub fn block_device_info(&self) -> Option<BlockDevice> {
        self.device().ok()
    }

    /// Writes everything back (syncfs(2)).
    ///
    /// # Errors
    /// Those of open(2) and syncfs(2): EIO or ENOSPC when something could not be written back.
    pub fn sync(&self) -> Result<(), TargetError> {
        let path = self.mount_point();
        let root = File::open(path).map_err(TargetError::io("open", path))?;
        rustix::fs::syncfs(&root).map_err(TargetError::errno("sync", path))
    }

    /// Writes everything back and drops the machine's caches and those of the device.
    pub fn drop_caches(&self) -> Result<(), TargetError> {
        self.sync()?;
        block_device::drop_caches()?;
        match (self.device(), self.mount.is_some()) {
            (Ok(device), true) => device.flush_buffers(),
            _ => Ok(()),
        }
    }

    /// Bytes of the image file that are in the page cache of the file system it lies in, from where reads of the loop device would be
    /// served. `None`: no image file, one in memory, or a kernel before 6.5, which does not count them.
    pub fn cached_of_image(&self) -> Option<Bytes> {
        cold::cached_of_backing(&self.block_device_info()?)
    }

    /// Discards the free space of the file system. Returns the bytes discarded.
    ///
    /// # Errors
    /// EOPNOTSUPP where the file system or its device cannot discard, EPERM without root; those of open(2).
    pub fn discard_free_space(&self) -> Result<Bytes, TargetError> {
        let path = self.mount_point();
        let root = File::open(path).map_err(TargetError::io("open", path))?;
        senesce_sys::mounted::trim(&root).map(Bytes).map_err(TargetError::errno("discard the free space of", path))
    }

    /// Makes the target cold: unmounts, proves that the file system has ended and that nothing of its device is cached, mounts
    /// again. Refused with who keeps the file system alive where that cannot be had. Descriptors below the root must be closed.
    /// A directory's file system cannot be unmounted by us: there only what is read can prove how cold it was.
    ///
    /// # Errors
    /// [`TargetError::Refused`] with who keeps the file system alive or its device cached; as [`Self::drop_caches`],
    /// [`Mount::unmount`] and [`Mount::mount`].
    pub fn remount(&mut self) -> Result<Remounted, TargetError> {
        if self.mount.is_none() {
            self.drop_caches()?;
            return Ok(Remounted::CachesDropped);
        }
        let in_memory = matches!(&self.backing, Backing::Image { image, .. } if image.is_in_memory());
        self.while_unmounted(|device| {
            // The file of an image may be cached by the file system that it lies in.
            if !in_memory {
                block_device::drop_caches()?;
            }
            cold::drop_device_cache(device)
        })?;
        Ok(Remounted::Yes)
    }

    /// Unmounts, lets the file system's own checker look at the device (it writes nothing), mounts again.
    /// `None`: the file system has no checker.
    ///
    /// # Errors
    /// [`TargetError::Missing`] for a directory, or when the checker is not installed; as [`Mount::unmount`] and
    /// [`Mount::mount`].
    pub fn check_file_system(&mut self) -> Result<Option<CheckReport>, TargetError> {
        if self.mount.is_none() {
            return Err(TargetError::missing(
                "a device that can be unmounted",
                "a directory's file system cannot be checked while others use it; check an image or a device",
            ));
        }
        self.unmounted(|mount, device| mount.check(device.path()))
    }

    /// Runs `action` on the device of the unmounted target and mounts it again.
    ///
    /// # Errors
    /// [`TargetError::Missing`] for a directory; as [`Mount::unmount`] and [`Mount::mount`]; those of `action`, after which it
    /// is mounted again.
    pub fn while_unmounted<T>(
        &mut self,
        action: impl FnOnce(&BlockDevice) -> Result<T, TargetError>,
    ) -> Result<T, TargetError> {
        self.unmounted(|_, device| action(device))
    }

    fn unmounted<T>(
        &mut self,
        action: impl FnOnce(&Mount, &BlockDevice) -> Result<T, TargetError>,
    ) -> Result<T, TargetError> {
        let device = self.device()?;
        let Some(mount) = &mut self.mount else {
            return Err(TargetError::missing("a target that can be unmounted", "use an image or a device"));
        };
        self.directory.release()?;
        mount.unmount()?;
        let result = action(mount, &device);
        mount.mount()?;
        self.directory.retake()?;
        result
    }

    /// Chooses the I/O scheduler ("none", "mq-deadline", "kyber", "bfq"); the former one comes back at the end.
    ///
    /// # Errors
    /// As [`Self::set_queue`]: EINVAL for a scheduler that the kernel does not have.
    pub fn set_scheduler(&mut self, name: &str) -> Result<(), TargetError> {
        self.set_queue("scheduler", name)
    }

    /// Sets read-ahead in KiB: that of the device's queue and, where the file system keeps its own (btrfs), that of the
    /// mount, which a remount forgets. Returns the files that were set; the former values come back at the end.
    ///
    /// # Errors
    /// As [`Self::set_queue`]: [`TargetError::Usage`] for what is no multiple of the page size.
    pub fn set_read_ahead(&mut self, kib: u64) -> Result<Vec<PathBuf>, TargetError> {
        let device = self.device()?;
        let mut files = vec![device.queue_file("read_ahead_kb")];
        files.extend(device.btrfs_read_ahead());
        for file in &files {
            self.settings.set(file.clone(), &kib.to_string())?;
        }
        Ok(files)
    }

    /// Sets a file of the device's queue folder in sysfs; the former value comes back at the end.
    ///
    /// # Errors
    /// [`TargetError::Missing`] for a target without a block device; as [`ChangedSetting::set`].
    pub fn set_queue(&mut self, name: &str, value: &str) -> Result<(), TargetError> {
        let file = self.device()?.queue_file(name);
        self.settings.set(file, value)
    }

    /// Everything about the target that a result depends on.
    pub fn environment(&self) -> Environment {
        let mut facts = Environment::default();
        facts.put("target.name", self.spec.to_string());
        facts.put("target.capacity_bytes", self.capacity.0.to_string());
        if let Some(command) = &self.mkfs_command {
            facts.put("mkfs.command", command);
        }
        if let Backing::Image { device, image } = &self.backing {
            facts.put("image.in_memory", image.is_in_memory().to_string());
            facts.put("image.direct_io", device.direct_io().to_string());
            if let Some(path) = image.path() {
                facts.put("image.host_file_system", environment::file_system_name(path));
            }
        }
        environment::mounted(&mut facts, self.mount_point(), self.file_system(), self.block_device());
        if let Some(device) = self.block_device_info() {
            environment::device(&mut facts, &device);
        }
        facts
    }

    /// Warnings and errors of the kernel about this device since the target was opened. A run with any has failed.
    pub fn kernel_warnings(&self) -> Vec<String> {
        self.log.warnings()
    }

    /// What a reader of the results must know of the kernel log: `None` where all of it was read.
    pub fn kernel_log_caveat(&self) -> Option<String> {
        match self.log.gaps() {
            0 => None,
            gaps => Some(format!(
                "the kernel log ran over {gaps} times while it was read: what the kernel said meanwhile is not known, warnings about \
                 this target included"
            )),
        }
    }

    /// What an image can still grow by: memory, or space on the file system that its file lies in. `None`: no image.
    pub fn space_left(&self) -> Option<Bytes> {
        match &self.backing {
            Backing::Image { image, .. } => image.space_left(),
            _ => None,
        }
    }

    /// Whether the kernel log can be read here; when not, results are "measured without the kernel log".
    pub fn kernel_log_is_readable(&self) -> bool {
        self.log.is_readable()
    }

    /// Unmounts, detaches and writes an image held in memory into its file. Without this call (after an error or a
    /// panic) everything is undone too, but what was in memory only is lost.
    ///
    /// # Errors
    /// As [`Mount::unmount`]: a target that is still in use is made read-only, and its image kept; those of writing an image
    /// held in memory into its file.
    pub fn close(self) -> Result<(), TargetError> {
        self.close_with(|_| Ok(()))
    }

    /// Like [`Self::close`]; `last` sees the device after the unmount, before it is detached.
    pub fn close_with<T>(
        mut self,
        last: impl FnOnce(Option<&Path>) -> Result<T, TargetError>,
    ) -> Result<T, TargetError> {
        self.directory.release()?;
        if let Some(mount) = &mut self.mount
            && let Err(error) = mount.unmount()
        {
            if let Backing::Image { image, .. } = &self.backing {
                // An image in memory would be lost.
                mount.finish_in_use()?;
                image.keep_result()?;
            }
            return Err(error);
        }
        let result = last(self.block_device().filter(|_| self.mount.is_some()))?;
        drop(self.settings);
        if let Backing::Image { device, image } = self.backing {
            drop(device);
            image.keep_result()?;
        }
        Ok(result)
    }
}
