//! A twin, mounted for one trial and discarded afterwards.

use super::sink::{self, Sink, Store};
use crate::error::PrognosisError;
use fuser::{BackgroundSession, Config, MountOption, Session};
use senesce_volume::mount::Mount;
use senesce_volume::{FileSystem, Guardian, LoopDevice, ScratchDirectory};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The fields are dropped in the order of undoing.
pub struct Trial {
    mount: Mount,
    device: LoopDevice,
    session: Option<BackgroundSession>,
    store: Arc<Store>,
    _fuse: Guardian,
    _scratch: ScratchDirectory,
}

impl Trial {
    /// Mounts a twin for reading and writing, with these options; the image itself is only read. Needs root, /dev/fuse
    /// and a loop device.
    pub fn begin(twin: &Path, file_system: FileSystem, options: &str) -> Result<Self, PrognosisError> {
        let below = File::open(twin).map_err(PrognosisError::io("open", twin))?;
        let size = below.metadata().map_err(PrognosisError::io("inspect", twin))?.len();
        let scratch = ScratchDirectory::large("trial")?;
        let above = new_private(&scratch.path().join("above"))?;
        above.set_len(size).map_err(PrognosisError::io("set the size of", scratch.path()))?;
        let point = scratch.path().join("sink");
        std::fs::create_dir(&point).map_err(PrognosisError::io("make directory", &point))?;
        let fuse = Guardian::of_fuse_mount(&point)?;
        let store = Arc::new(Store::new(below, above, size));
        let session = serve(store.clone(), &point)?;
        let image = point.join(sink::NAME);
        let file =
            OpenOptions::new().read(true).write(true).open(&image).map_err(PrognosisError::io("open", &image))?;
        let device = LoopDevice::attach(&file, "senesce image twin", false)?;
        drop(file);
        let copy_options = file_system.entry().copy_options;
        let options = [copy_options, options].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(",");
        let mount =
            Mount::new(device.path(), file_system, &options, None).map_err(|error| of_full(&store, error.into()))?;
        Ok(Self { mount, device, session: Some(session), store, _fuse: fuse, _scratch: scratch })
    }

    /// Replaces an error if the scratch directory was full, because the kernel then reports other errors.
    pub(crate) fn explain(&self, error: PrognosisError) -> PrognosisError {
        of_full(&self.store, error)
    }

    pub fn directory(&self) -> &Path {
        self.mount.point()
    }

    /// Makes btrfs recompute its checksums from the data as they are read here.
    pub(crate) fn forget_checksums(&mut self) -> Result<(), PrognosisError> {
        self.mount.unmount()?;
        let device = self.device.path().to_string_lossy().into_owned();
        super::make::program("btrfs", &["check", "--force", "--init-csum-tree", &device], FileSystem::Btrfs)?;
        Ok(self.mount.mount()?)
    }

    pub(crate) fn check(mut self) -> Result<Option<senesce_volume::CheckReport>, PrognosisError> {
        self.mount.unmount().map_err(|error| of_full(&self.store, error.into()))?;
        let report = self.mount.check(self.device.path()).map_err(|error| of_full(&self.store, error.into()))?;
        self.end()?;
        Ok(report)
    }

    /// Unmounts it and discards the writes. [`PrognosisError::Full`]: they did not fit, so the trial has no result.
    pub fn end(mut self) -> Result<(), PrognosisError> {
        self.mount.unmount().map_err(|error| of_full(&self.store, error.into()))?;
        let Self { mount, device, session, store, .. } = self;
        drop(mount);
        drop(device);
        drop(session);
        match store.is_full() {
            true => Err(full(&std::env::temp_dir())),
            false => Ok(()),
        }
    }
}

fn of_full(store: &Store, error: PrognosisError) -> PrognosisError {
    match store.is_full() {
        true => full(&std::env::temp_dir()),
        false => error,
    }
}

/// Reports that no space is left in a directory.
pub(super) fn full(directory: &Path) -> PrognosisError {
    PrognosisError::Full { directory: directory.into() }
}

/// Creates a file for its owner only; EEXIST if the name is taken.
pub(crate) fn new_private(path: &Path) -> Result<File, PrognosisError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(PrognosisError::io("make", path))
}

fn serve(store: Arc<Store>, point: &PathBuf) -> Result<BackgroundSession, PrognosisError> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("senesce-twin".into()), MountOption::Subtype("twin".into())];
    config.n_threads = Some(2);
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => senesce_volume::TargetError::missing(
            "/dev/fuse",
            "load the kernel module fuse (modprobe fuse): trials are mounted through it",
        )
        .into(),
        _ => PrognosisError::io("mount the sink of the twin on", point)(error),
    };
    Session::new(Sink(store), point, &config).and_then(Session::spawn).map_err(failed)
}
