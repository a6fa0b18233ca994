//! Volumes: fresh file systems in memory, on an image or on a device, or a directory as it is.

use super::tree::Tree;
use crate::own_image;
use rand::Rng;
use senesce_core::failure::errno_words;
use senesce_core::{Bytes, ExitCode, Failure, RunDirectory, Seed, Settings};
use senesce_target::{BlockDevice, FileSystem, MountedTarget, OpenOptions, Remounted, TargetSpec, open};
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the file system of a directory that is used as it is.
pub const AS_FOUND: &str = "as found";

/// The files lie in this folder of a volume, apart from what the file system and the guard keep in its root.
const FOLDER: &str = "data";

/// Where volumes are made.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// A file system is made for every volume.
    Made {
        /// On what.
        spec: TargetSpec,
        /// What may be lost.
        erase: Option<String>,
    },
    /// A directory that is emptied for every volume.
    Directory(Option<PathBuf>),
}

impl Place {
    /// From the parameters. Without root nothing can be mounted: then it is a directory in the run directory.
    pub fn of(settings: &Settings) -> Result<Self, Failure> {
        let erase = Some(settings.text("erase").to_string()).filter(|text| !text.is_empty());
        let spec = match settings.text("target") {
            "memory" if !senesce_core::environment::is_root() => return Ok(Self::Directory(None)),
            "memory" => TargetSpec::Memory { size: settings.size("size")? },
            text => text.parse()?,
        };
        Ok(match spec {
            // A path that is not there is more likely a slip than a wish to fill the file system above it.
            TargetSpec::Directory(path) if !path.is_dir() => {
                return Err(Failure::usage(format!(
                    "target: there is no directory {}; make it first, or write memory, image:FILE or a block device",
                    path.display()
                )));
            }
            TargetSpec::Directory(path) => Self::Directory(Some(path)),
            TargetSpec::Image { path, size } => {
                let size = Some(size.map_or_else(|| settings.size("size"), Ok)?);
                Self::Made { spec: TargetSpec::Image { path, size }, erase }
            }
            spec => Self::Made { spec, erase },
        })
    }

    /// The same with leave to make an image anew that the run itself made.
    pub fn own(&self, directory: &mut RunDirectory) -> Result<Self, Failure> {
        Ok(match self {
            Self::Made { spec, erase } => {
                let erase = own_image::erase(spec, erase.as_deref().unwrap_or_default(), directory)?;
                Self::Made { spec: spec.clone(), erase }
            }
            Self::Directory(_) => self.clone(),
        })
    }

    /// Words for reports.
    pub fn words(&self, size: Bytes) -> String {
        match self {
            Self::Made { spec: TargetSpec::Memory { .. }, .. } => format!("images of {size} in memory"),
            Self::Made { spec, .. } => spec.to_string(),
            Self::Directory(Some(path)) => format!("directory {}", path.display()),
            Self::Directory(None) => "a directory in the run directory".into(),
        }
    }
}

/// A volume in use.
pub struct Volume {
    target: MountedTarget,
    folder: PathBuf,
    in_memory: bool,
}

impl Volume {
    /// A volume without files. `room` is where a directory is made when none was named. `draw` stands for what mkfs draws.
    pub fn fresh(place: &Place, fs: &str, room: &Path, draw: Seed) -> Result<Self, Failure> {
        let (spec, options) = match place {
            Place::Made { spec, erase } => {
                let fs = fs.parse::<FileSystem>()?;
                let mkfs_options = if fs == FileSystem::Ext4 { directory_hash(draw) } else { String::new() };
                (spec.clone(), OpenOptions { erase: erase.clone(), mkfs_options, ..OpenOptions::fresh(fs) })
            }
            Place::Directory(path) => {
                let path = path.clone().unwrap_or_else(|| room.join("volume"));
                (TargetSpec::Directory(path), OpenOptions::default())
            }
        };
        let target = open(&spec, &options)?;
        let folder = target.directory().path().join(FOLDER);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed("empty", &folder))?;
        }
        fs::create_dir(&folder).map_err(failed("make folder", &folder))?;
        let in_memory = matches!(place, Place::Made { spec: TargetSpec::Memory { .. }, .. });
        Ok(Self { target, folder, in_memory })
    }

    /// Where the files lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The device below, if there is one.
    pub fn device(&self) -> Option<BlockDevice> {
        self.target.block_device_info()
    }

    /// Its file system's own name.
    pub fn file_system(&self) -> String {
        self.target.file_system().map_or_else(|| "another file system".into(), |fs| fs.name().to_string())
    }

    /// Everything a result depends on.
    pub fn environment(&self) -> senesce_core::Environment {
        self.target.environment()
    }

    /// Writes everything back.
    pub fn sync(&self) -> Result<(), Failure> {
        Ok(self.target.sync()?)
    }

    /// Makes it cold; the words say what stayed warm.
    pub fn make_cold(&mut self) -> Result<Option<&'static str>, Failure> {
        if !senesce_core::environment::is_root() {
            self.target.sync()?;
            Tree::below(&self.folder)?.forget(&self.folder)?;
            return Ok(Some("measured without dropping the caches of directories and metadata: that needs root"));
        }
        if self.in_memory {
            // An unmounted file system has no caches but those of its device, and nothing below them forgets anything.
            self.target.while_unmounted(BlockDevice::flush_buffers)?;
            return Ok(None);
        }
        Ok(match self.target.remount()? {
            Remounted::Yes => None,
            Remounted::CachesDropped => {
                Some("measured without remounting: a directory cannot be unmounted by us, its caches were dropped")
            }
        })
    }

    /// Sets read-ahead; after a remount it must be set again.
    pub fn set_read_ahead(&mut self, kib: u64) -> Result<(), Failure> {
        self.target.set_read_ahead(kib)?;
        Ok(())
    }

    /// Undoes the mount; a warning of the kernel is an error.
    pub fn close(mut self) -> Result<(), Failure> {
        crate::study::images::fail_on(self.target.kernel_warnings())?;
        Ok(self.target.close()?)
    }
}

/// Ext4 lists a directory in the order of a hash of the names, whose seed mkfs draws: here it follows from the run's seed. The
/// option is given once and replaces the one of the same name that keeps mkfs from leaving work to the kernel.
fn directory_hash(draw: Seed) -> String {
    let mut bytes = [0; 16];
    draw.stream("ext4/directory-hash").fill_bytes(&mut bytes);
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    format!("-E lazy_itable_init=0,lazy_journal_init=0,hash_seed={}", parts.join("-"))
}

/// An I/O error with operation and path. A full volume says what to do.
pub fn failed(operation: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::StorageFull => "; choose a larger --size",
            _ => "",
        };
        Failure::new(ExitCode::RunFailed, format!("{operation} {}: {}{remedy}", path.display(), errno_words(&error)))
    }
}
