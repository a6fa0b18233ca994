//! Where a target's files can be seen: a directory as it is, an image or device where it is mounted already, or through a
//! read-only loop device and a mount that replays no journal.

use crate::error::LayoutError;
use senesce_volume::guard::mounts;
use senesce_volume::{
    BlockDevice, MountedTarget, OpenOptions, TargetError, TargetSpec, VisitedDirectory, loop_device, visit,
};
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A directory that shows the files of a target. What was mounted for it is unmounted when it is dropped.
pub enum ShownDirectory {
    /// It is a directory, or is mounted there.
    Directory(PathBuf),
    /// Mounted by us.
    Visited(Box<MountedTarget<VisitedDirectory>>),
}

impl ShownDirectory {
    /// Finds or makes it.
    ///
    /// # Errors
    /// [`LayoutError::Io`] when nothing has the name; [`LayoutError::Target`] for what is neither directory nor image nor block
    /// device, and as [`visit`].
    pub fn of(target: &Path) -> Result<Self, LayoutError> {
        let failed = |source| LayoutError::Target { path: target.into(), source };
        let found = target.metadata().map_err(|source| LayoutError::io("look at", target, source))?;
        let (spec, devices) = match found.file_type() {
            kind if kind.is_dir() => return Ok(Self::Directory(target.into())),
            kind if kind.is_block_device() => (TargetSpec::Device(target.into()), vec![target.to_path_buf()]),
            kind if kind.is_file() => {
                let file = File::open(target).map_err(|source| LayoutError::io("open", target, source))?;
                let devices = loop_device::attached_to(&file, target).map_err(failed)?;
                (TargetSpec::Image { path: target.into(), size: None }, devices)
            }
            _ => {
                return Err(failed(TargetError::Usage(
                    "it is neither a directory nor an image nor a block device".into(),
                )));
            }
        };
        if let Some(directory) = mounted(&devices).map_err(failed)? {
            return Ok(Self::Directory(directory));
        }
        Ok(Self::Visited(Box::new(visit(&spec, &OpenOptions::inspect()).map_err(failed)?)))
    }

    /// How the files are seen, in words.
    pub fn view(&self) -> &'static str {
        match self {
            Self::Directory(_) => "as mounted",
            Self::Visited(_) => "mounted read-only for this, without replaying the journal",
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        match self {
            Self::Directory(path) => path,
            Self::Visited(target) => target.mount_point(),
        }
    }
}

/// Where one of these devices is mounted: a second mount could not see what the first has not written yet.
fn mounted(devices: &[PathBuf]) -> Result<Option<PathBuf>, TargetError> {
    let numbers: Vec<_> = devices.iter().filter_map(|device| BlockDevice::number_of(device)).collect();
    let is_it = |line: &senesce_volume::guard::MountLine| {
        numbers.contains(&line.device) || BlockDevice::number_of(&line.source).is_some_and(|n| numbers.contains(&n))
    };
    Ok(mounts()?.into_iter().find(is_it).map(|line| line.mount_point))
}
