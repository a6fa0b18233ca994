//! Checks whether the file system's defragmentation tool works here, and which files the kernel lets it move.
//!
//! ext4: fs/ext4/move_extent.c, mext_check_validity, and fs/ext4/ioctl.c. XFS: xfsprogs, fsr/xfs_fsr.c, packfile.
//! btrfs: fs/btrfs/defrag.c, defrag_collect_targets, which leaves compressed extents of full length.

use super::{CostedLayout, headroom};
use rayon::prelude::*;
use rustix::fs::{CWD, IFlags, Mode, OFlags};
use senesce_layout::space::FileSystemDetails;
use senesce_layout::{ExtentKind, FileSystemSpace, ShownDirectory, journals_data};
use senesce_volume::FileSystem;
use senesce_volume::file_system::Defragmenter;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

const ASKED: usize = 10_000;
/// Attributes of files on ext4 (include/uapi/linux/fs.h) that are not in [`IFlags`].
const VERITY: u32 = 0x10_0000;
const EXTENTS: u32 = 0x8_0000;

/// The tool that defragments, with the reason if it is not advised.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Advice {
    /// The tool; none: no tool is known for this file system.
    pub tool: Option<String>,
    /// Why it is not advised; none: it is.
    pub refused: Option<String>,
    /// Fragmented files that it cannot move, by reason.
    pub immovable: BTreeMap<&'static str, u64>,
    #[serde(skip)]
    defragmenter: Option<Defragmenter>,
    /// By index of file.
    #[serde(skip)]
    fixed: Vec<bool>,
}

impl Advice {
    pub(super) fn of(
        place: &ShownDirectory,
        known: Option<FileSystem>,
        costed: &CostedLayout,
        space: &FileSystemSpace,
    ) -> Self {
        let Some((known, tool)) = known.and_then(|known| Some((known, known.entry().defragmenter?))) else {
            return Self::default();
        };
        let mut advice = Self {
            tool: Some(tool.command.join(" ")),
            refused: by_file_system(place, costed, space),
            fixed: vec![false; costed.files.len()],
            defragmenter: Some(tool),
            ..Self::default()
        };
        if advice.refused.is_none() {
            advice.ask_files(place.directory(), known, costed);
            advice.refused = advice.by_files(costed, space);
        }
        advice
    }

    pub(crate) fn advised(&self) -> Option<Defragmenter> {
        self.defragmenter.filter(|_| self.refused.is_none())
    }

    pub(super) fn moves(&self, file: usize) -> bool {
        !self.fixed.get(file).copied().unwrap_or(false)
    }

    fn ask_files(&mut self, directory: &Path, known: FileSystem, costed: &CostedLayout) {
        let moves = costed.ideal_moves(|_| true);
        let one = |file: u32| {
            let encoded = costed.files.marks(file as usize).has(ExtentKind::ENCODED);
            let path = directory.join(costed.files.path(file as usize));
            Some((file, reason(known, encoded, || attributes(&path))?))
        };
        let found: Vec<(u32, &'static str)> =
            moves.par_iter().take(ASKED).filter_map(|candidate| one(candidate.file)).collect();
        for (file, reason) in found {
            self.fixed[file as usize] = true;
            *self.immovable.entry(reason).or_default() += 1;
        }
    }

    /// Returns the reason if no file can be moved, or no space is left for it.
    fn by_files(&self, costed: &CostedLayout, space: &FileSystemSpace) -> Option<String> {
        let moves = costed.ideal_moves(|file| self.moves(file));
        if moves.is_empty() && !self.immovable.is_empty() {
            let reasons: Vec<&str> = self.immovable.keys().copied().collect();
            return Some(format!("the files in pieces cannot be moved: {}", reasons.join(", ")));
        }
        let is_shared = |file: u32| costed.files.marks(file as usize).has(ExtentKind::SHARED);
        let copied: u64 = moves.iter().filter(|one| is_shared(one.file)).map(|one| one.bytes).sum();
        let free = space.free_blocks * space.block_size;
        (copied > free).then(|| {
            format!("files that share extents would take {} of their own, and {} is free", bytes(copied), bytes(free))
        })
    }
}

fn bytes(count: u64) -> senesce_core::Bytes {
    senesce_core::Bytes(count)
}

fn by_file_system(place: &ShownDirectory, costed: &CostedLayout, space: &FileSystemSpace) -> Option<String> {
    let FileSystemDetails::Ext(ext) = &space.kind else { return None };
    let refused = [
        (!headroom::can_preallocate(space), "files are mapped block by block"),
        (ext.cluster_blocks > 1, "the kernel moves no extents on a file system with bigalloc"),
        (journals_data(place), "the kernel moves no extents of a mount with data=journal"),
        (costed.summary.inline.extents > 0, "e4defrag crashes at files with inline data (e2fsprogs 1.47.0)"),
    ];
    refused.into_iter().find(|(is_so, _)| *is_so).map(|(_, reason)| reason.into())
}

fn reason(known: FileSystem, encoded: bool, attributes: impl FnOnce() -> Option<u32>) -> Option<&'static str> {
    match (known, encoded) {
        (FileSystem::Ext4, true) => return Some("encrypted"),
        (FileSystem::Btrfs, true) => return Some("compressed, in extents of up to 128 KiB"),
        _ => {}
    }
    let attributes = attributes()?;
    let has = |flag: u32| attributes & flag != 0;
    let on_ext = known == FileSystem::Ext4;
    [
        (has(IFlags::IMMUTABLE.bits() | IFlags::APPEND.bits()), "immutable or append-only"),
        (on_ext && has(VERITY), "protected by fs-verity"),
        (on_ext && has(IFlags::JOURNALING.bits()), "with journalled data (chattr +j)"),
        (on_ext && !has(EXTENTS), "mapped block by block"),
    ]
    .into_iter()
    .find(|(is_so, _)| *is_so)
    .map(|(_, reason)| reason)
}

/// Reads the attributes with `FS_IOC_GETFLAGS`; `None` if it fails.
fn attributes(path: &Path) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    Some(rustix::fs::ioctl_getflags(&file).ok()?.bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_the_kernel_does_not_move_have_a_reason() {
        let with = |known, flags| reason(known, false, || Some(flags));
        assert_eq!(with(FileSystem::Ext4, EXTENTS), None);
        for flags in [VERITY, IFlags::JOURNALING.bits(), IFlags::IMMUTABLE.bits(), IFlags::APPEND.bits()] {
            assert!(with(FileSystem::Ext4, EXTENTS | flags).is_some(), "{flags:#x}");
        }
        assert!(with(FileSystem::Ext4, 0).is_some());
        assert_eq!(with(FileSystem::Xfs, 0), None);
        assert!(with(FileSystem::Xfs, IFlags::IMMUTABLE.bits()).is_some());
        assert!(reason(FileSystem::Btrfs, true, || None).is_some());
        assert_eq!(reason(FileSystem::Xfs, false, || None), None);
    }
}
