//! Volumes: fresh file systems in memory, on an image or on a device, or an existing directory.

use super::point::RealDrive;
use rand::Rng;
use senesce_core::failure::failed;
use senesce_core::{Bytes, Failure, Seed};
use senesce_devmodel::{Operation, Request};
use senesce_runner::{Context, Needs, Run};
use senesce_runs::tree::Tree;
use senesce_volume::{
    BlockDevice, FileSystem, MountedTarget, OpenOptions, Remounted, TargetSpec, TraceSession, guard, holds_only_ours,
    open,
};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const AS_FOUND: &str = "as found";

pub(crate) fn mounting() -> Needs {
    Needs::root("fresh volumes are mounted")
}

/// Folder of the files, separate from files of the file system and the guard in its root.
const FOLDER: &str = "data";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum VolumeSource {
    Made(TargetSpec),
    Directory(Option<PathBuf>),
}

impl VolumeSource {
    /// Returns the location of copies while the aging volume is in use; `run` is the run directory.
    pub(crate) fn second(&self, run: &Path) -> Result<Self, Failure> {
        match self {
            Self::Made(TargetSpec::Memory { .. }) => Ok(self.clone()),
            Self::Made(spec) => Err(Failure::usage(format!(
                "target: {spec} has space for one volume, and the copy needs a second; use memory or a directory"
            ))),
            Self::Directory(Some(path)) => {
                let mut name = path.clone().into_os_string();
                name.push("-copy");
                Ok(Self::Directory(Some(name.into())))
            }
            Self::Directory(None) => Ok(Self::Directory(Some(run.join("copy")))),
        }
    }

    pub(crate) fn text(&self, size: Bytes) -> String {
        match self {
            Self::Made(TargetSpec::Memory { .. }) => format!("images of {size} in memory"),
            Self::Made(spec) => spec.to_string(),
            Self::Directory(Some(path)) => format!("directory {}", path.display()),
            Self::Directory(None) => "a directory in the run directory".into(),
        }
    }
}

pub(crate) struct Volume {
    target: MountedTarget,
    folder: PathBuf,
    /// Requests to the device while files were written, or the reason why they were not traced.
    history: Result<Vec<Request>, String>,
}

impl Volume {
    /// Makes an empty volume; `draw` replaces the random seed of mkfs.
    pub(crate) fn fresh<R: Run>(
        place: &VolumeSource,
        fs: &str,
        draw: Seed,
        context: &mut Context<'_, R>,
    ) -> Result<Self, Failure> {
        let (spec, options) = match place {
            VolumeSource::Made(spec) => {
                let fs = fs.parse::<FileSystem>()?;
                let mkfs_options = if fs == FileSystem::Ext4 { directory_hash(draw) } else { String::new() };
                let erase = context.may_erase(spec.image(), holds_only_ours)?;
                (spec.clone(), OpenOptions { erase, mkfs_options, ..OpenOptions::fresh(fs) })
            }
            VolumeSource::Directory(path) => {
                let path = path.clone().unwrap_or_else(|| context.path().join("volume"));
                guard::create_directory(&path)?;
                (TargetSpec::Directory(path), OpenOptions::default())
            }
        };
        let target = open(&spec, &options)?;
        let folder = target.directory().path().join(FOLDER);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed("empty", &folder))?;
        }
        fs::create_dir(&folder).map_err(failed("create directory", &folder))?;
        Ok(Self { target, folder, history: Ok(Vec::new()) })
    }

    /// Writes with traced requests, which are added to the history, and syncs.
    pub(crate) fn write(&mut self, writing: impl FnOnce(&Path) -> Result<(), Failure>) -> Result<(), Failure> {
        let session = match (&self.history, self.device()) {
            (Err(_), _) => None,
            (Ok(_), None) => {
                self.history = Err("no block device below".into());
                None
            }
            (Ok(_), Some(device)) => match TraceSession::start(&device) {
                Ok(session) => Some(session),
                Err(error) => {
                    self.history = Err(error.to_string());
                    None
                }
            },
        };
        writing(&self.folder)?;
        self.sync()?;
        let Some(session) = session else { return Ok(()) };
        let written = session.stop().and_then(|trace| {
            let requests = trace.valid()?.for_models();
            Ok(requests.into_iter().filter(|request| !matches!(request.operation, Operation::Read | Operation::Flush)))
        });
        match (written, &mut self.history) {
            (Ok(written), Ok(history)) => history.extend(written),
            (Err(error), _) => self.history = Err(error.to_string()),
            (Ok(_), Err(_)) => {}
        }
        Ok(())
    }

    pub(crate) fn history(&self) -> Result<&[Request], &str> {
        self.history.as_deref().map_err(String::as_str)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn target(&self) -> &MountedTarget {
        &self.target
    }

    /// Returns whether its file system was made for it, so that no other program uses the device.
    pub(crate) fn is_made(&self) -> bool {
        !matches!(self.target.spec(), TargetSpec::Directory(_))
    }

    pub(crate) fn device(&self) -> Option<BlockDevice> {
        self.target.block_device_info()
    }

    /// Returns the kind of a device given by the user, if it is a physical drive. Seconds of memory, files and
    /// drives of virtual machines are not comparable.
    pub(crate) fn real_drive(&self) -> Option<RealDrive> {
        const VIRTUAL: [&str; 4] = ["qemu", "scsi_debug", "vbox", "virtual"];
        let disk = self.device().filter(|_| matches!(self.target.spec(), TargetSpec::Device { .. }))?.disk();
        let model = disk.attribute("device/model").or_else(|| disk.attribute("device/name"))?.to_lowercase();
        let is_physical = ["sd", "nvme", "mmcblk"].iter().any(|kind| disk.name().starts_with(kind))
            && !VIRTUAL.iter().any(|word| model.contains(word));
        let rotational = disk.queue("rotational").filter(|_| is_physical)?;
        Some(if rotational == "1" { RealDrive::Hdd } else { RealDrive::Ssd })
    }

    pub(crate) fn file_system(&self) -> String {
        self.target.file_system().map_or_else(|| "another file system".into(), |fs| fs.name().to_string())
    }

    pub(crate) fn environment(&self) -> senesce_core::Environment {
        self.target.environment()
    }

    pub(crate) fn sync(&self) -> Result<(), Failure> {
        Ok(self.target.sync()?)
    }

    /// Makes the volume cold; returns a note about caches that stayed warm.
    pub(crate) fn make_cold(&mut self) -> Result<Option<&'static str>, Failure> {
        if !mounting().are_met() {
            self.target.sync()?;
            Tree::below(&self.folder)?.forget(&self.folder)?;
            return Ok(Some("measured without dropping the caches of directories and metadata: that needs root"));
        }
        Ok(match self.target.remount()? {
            Remounted::Yes => None,
            Remounted::CachesDropped => {
                Some("measured without remounting: senesce cannot unmount a directory, so its caches were dropped")
            }
        })
    }

    /// Sets read-ahead; a remount resets it.
    ///
    /// # Errors
    /// The volume has no device of its own, or the device refuses the value.
    pub(crate) fn set_read_ahead(&mut self, kib: u64) -> Result<(), Failure> {
        self.target.set_read_ahead(kib)?;
        Ok(())
    }

    /// Unmounts it; a warning of the kernel is an error.
    pub(crate) fn close(self) -> Result<(), Failure> {
        senesce_runs::kernel_log::fail_on(self.target.kernel_warnings())?;
        Ok(self.target.close()?)
    }
}

/// Returns the mkfs options that fix the order of directories. ext4 lists a directory in the order of a hash of the
/// names, with a seed drawn by mkfs. Here the seed follows from the run's seed. The extended option is given once and
/// replaces the one that disables lazy initialization.
fn directory_hash(draw: Seed) -> String {
    let mut bytes = [0; 16];
    draw.stream("ext4/directory-hash").fill_bytes(&mut bytes);
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    format!("-E lazy_itable_init=0,lazy_journal_init=0,hash_seed={}", parts.join("-"))
}
