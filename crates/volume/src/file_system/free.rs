//! The free space that a mounted file system has for the files of this process.

use super::{FileSystem, offered};
use crate::error::TargetError;
use rustix::fs::StatVfs;
use senesce_core::Bytes;
use senesce_core::environment::is_root;
use std::fs::File;
use std::path::Path;

/// Free space for files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeForFiles {
    pub bytes: Bytes,
    /// `None`: unlimited, or unknown.
    pub inodes: Option<u64>,
    /// `None`: not in the table of file systems.
    pub file_system: Option<FileSystem>,
}

impl FreeForFiles {
    /// Reads the free space of the file system that contains `root`.
    pub fn below(root: &Path) -> Result<Self, TargetError> {
        let failed = |errno| TargetError::errno("read the free space in", root)(errno);
        let file = File::open(root).map_err(TargetError::io("open", root))?;
        let file_system = FileSystem::of(&file).map_err(failed)?;
        Ok(Self::of(&rustix::fs::fstatvfs(&file).map_err(failed)?, file_system, is_root()))
    }

    fn of(stat: &StatVfs, file_system: Option<FileSystem>, is_root: bool) -> Self {
        let blocks = match file_system {
            // Root may use the blocks kept for it. Other file systems count space there that only their metadata can use.
            Some(known) if is_root && known.entry().keeps_space_for_root => {
                stat.f_bfree.saturating_sub(offered::held_back_by_ext4(stat.f_blocks))
            }
            _ => stat.f_bavail,
        };
        Self { bytes: Bytes(blocks * stat.f_frsize), inodes: (stat.f_files > 0).then_some(stat.f_ffree), file_system }
    }
}
