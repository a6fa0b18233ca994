//! A target in use: mounted, locked, and undone in the right order however it ends.

use crate::block_device::{self, BlockDevice};
use crate::claim::{ClaimedDevice, ClaimedDirectory, TargetDirectory};
use crate::cold;
use crate::environment;
use crate::error::TargetError;
use crate::file_system::{CheckReport, FileSystem};
use crate::growth::GrowthSpace;
use crate::image_file::ImageFile;
use crate::kernel_log::KernelLog;
use crate::loop_device::LoopDevice;
use crate::mount::Mount;
use crate::setting::ChangedSetting;
use crate::spec::TargetSpec;
use senesce_core::virtual_time::await_work_after_mount;
use senesce_core::{Bytes, Environment, number_of};
use std::fs::File;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) enum Backing {
    Image { device: LoopDevice, image: ImageFile },
    Device(ClaimedDevice),
    Directory { _lock: File, device: Option<BlockDevice> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remounted {
    Yes,
    /// A directory cannot be unmounted: it was synced and the machine's caches were dropped.
    CachesDropped,
}

/// A mounted target. `D` holds its root: a [`ClaimedDirectory`] or, after [`crate::visit`], a
/// [`crate::VisitedDirectory`]. The fields are dropped in the order of undoing.
#[derive(Debug)]
pub struct MountedTarget<D: TargetDirectory = ClaimedDirectory> {
    directory: D,
    settings: ChangedSettings,
    mount: Option<Mount>,
    backing: Backing,
    log: KernelLog,
    spec: TargetSpec,
    capacity: Bytes,
    mkfs_command: Option<String>,
}

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

impl<D: TargetDirectory> MountedTarget<D> {
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

    pub fn mount_point(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the raw size of the image or device; for a directory the declared size, else the size of its file
    /// system.
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Returns `None` for a directory on a file system that senesce cannot make.
    pub fn file_system(&self) -> Option<FileSystem> {
        self.mount.as_ref().and_then(Mount::file_system).or_else(|| environment::file_system_of(self.mount_point()))
    }

    /// Returns `None` for a directory on a file system without a single block device (tmpfs).
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

    pub fn block_device_info(&self) -> Option<BlockDevice> {
        self.device().ok()
    }

    /// Writes everything back (syncfs(2)): EIO or ENOSPC if that failed.
    pub fn sync(&self) -> Result<(), TargetError> {
        let path = self.mount_point();
        let root = File::open(path).map_err(TargetError::io("open", path))?;
        rustix::fs::syncfs(&root).map_err(TargetError::errno("sync", path))
    }

    pub fn drop_caches(&self) -> Result<(), TargetError> {
        self.sync()?;
        block_device::drop_caches()?;
        match (self.device(), self.mount.is_some()) {
            (Ok(device), true) => device.flush_buffers(),
            _ => Ok(()),
        }
    }

    /// Returns the bytes of the image file in the host's page cache, which would serve reads of the loop device.
    /// `None`: not an image file, or a kernel before 6.5, which cannot count them.
    pub fn cached_of_image(&self) -> Option<Bytes> {
        cold::cached_of_backing(&self.block_device_info()?)
    }

    /// Discards the free space of the file system and returns the bytes. EOPNOTSUPP if the file system or its device
    /// cannot discard, EPERM without root.
    pub fn discard_free_space(&self) -> Result<Bytes, TargetError> {
        let path = self.mount_point();
        let root = File::open(path).map_err(TargetError::io("open", path))?;
        senesce_sys::mounted::trim(&root).map(Bytes).map_err(TargetError::errno("discard the free space of", path))
    }

    /// Makes the target cold: unmounts, proves that the file system has ended and that its device has no cached pages,
    /// and mounts again. Refuses with the holders if that is not possible. Descriptors below the root must be closed. A
    /// directory cannot be unmounted; only the reads themselves can prove that it was cold.
    pub fn remount(&mut self) -> Result<Remounted, TargetError> {
        if self.mount.is_none() {
            self.drop_caches()?;
            return Ok(Remounted::CachesDropped);
        }
        let in_memory = matches!(&self.backing, Backing::Image { image, .. } if image.is_in_memory());
        self.while_unmounted(|device| {
            // The host's file system may cache the image file.
            if !in_memory {
                block_device::drop_caches()?;
            }
            cold::drop_device_cache(device)
        })?;
        Ok(Remounted::Yes)
    }

    /// Unmounts and mounts again, so that the file system releases its reservations for open files. A directory stays as it is.
    pub fn settle(&mut self) -> Result<(), TargetError> {
        if self.mount.is_some() {
            self.while_unmounted(|_| Ok(()))?;
            await_work_after_mount();
        }
        Ok(())
    }

    /// Unmounts, runs the file system's read-only checker, and mounts again. `None` without a checker.
    /// [`TargetError::Missing`] for a directory, or if the checker is not installed.
    pub fn check_file_system(&mut self) -> Result<Option<CheckReport>, TargetError> {
        if self.mount.is_none() {
            return Err(TargetError::missing(
                "a device that can be unmounted",
                "a directory's file system cannot be checked while others use it; check an image or a device",
            ));
        }
        self.unmounted(|mount, device| mount.check(device.path()))
    }

    /// Runs `action` on the device of the unmounted target and mounts it again, even after an error.
    /// [`TargetError::Missing`] for a directory.
    pub(crate) fn while_unmounted<T>(
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

    /// Sets the I/O scheduler until the target is closed. EINVAL if the kernel does not have it.
    pub fn set_scheduler(&mut self, name: &str) -> Result<(), TargetError> {
        self.set_queue("scheduler", name)
    }

    /// Sets read-ahead in KiB until the target is closed: in the device's queue and, for btrfs, in the mount, which
    /// loses it with a remount. Returns the files that were set. [`TargetError::Usage`] unless it is a multiple of the
    /// page size.
    pub fn set_read_ahead(&mut self, kib: u64) -> Result<Vec<PathBuf>, TargetError> {
        let device = self.device()?;
        let mut files = vec![device.queue_file("read_ahead_kb")];
        files.extend(device.btrfs_read_ahead());
        for file in &files {
            self.settings.set(file.clone(), &kib.to_string())?;
        }
        Ok(files)
    }

    /// Sets a file of the device's queue folder in sysfs until the target is closed. [`TargetError::Missing`] without a
    /// block device.
    pub(crate) fn set_queue(&mut self, name: &str, value: &str) -> Result<(), TargetError> {
        let file = self.device()?.queue_file(name);
        self.settings.set(file, value)
    }

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

    /// Returns kernel warnings and errors about this device since the target was opened. They make a run fail.
    pub fn kernel_warnings(&self) -> Vec<String> {
        self.log.warnings()
    }

    pub fn kernel_log_caveat(&self) -> Option<String> {
        match self.log.gaps() {
            0 => None,
            gaps => Some(format!(
                "the kernel log overflowed {} while it was read: messages may be lost, including warnings about this \
                 target",
                number_of(gaps, "time")
            )),
        }
    }

    /// Returns the space into which an image can grow, if at most `writes` are written to it (`None`: all of it).
    /// `None`: the target is not an image.
    pub fn growth_space(&self, writes: Option<Bytes>) -> Option<GrowthSpace> {
        match &self.backing {
            Backing::Image { image, .. } => image.growth_space(writes),
            _ => None,
        }
    }

    /// Unmounts, detaches and writes an image held in memory into its file. A drop without this call undoes everything,
    /// but loses an image in memory. A target that is still in use becomes read-only, and its image is kept.
    pub fn close(self) -> Result<(), TargetError> {
        self.close_with(|_| Ok(()))
    }

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
