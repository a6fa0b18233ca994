//! Summary of a layout, in the form of `--json`.

use crate::collect::Collected;
use crate::condition::Condition;
use crate::free::FreeSpace;
use crate::method::Method;
use crate::score::{Discontinuities, ExtentCount, SizeClass, Tally, tree_scores};
use crate::tree::Tree;
use serde::{Deserialize, Serialize};

/// The layout of the files below a directory, and the free space of their file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayoutSummary {
    /// Examined path.
    pub target: String,
    /// File system type.
    pub file_system: String,
    /// How the files were viewed: as mounted, or mounted read-only for the examination.
    pub view: String,
    /// Journal and damage; none in older records.
    #[serde(flatten)]
    pub condition: Option<Condition>,
    /// Method of reading extents.
    pub method: Method,
    /// Regular files; hard links count once.
    pub files: u64,
    /// Their extents, as `filefrag` counts them.
    pub extents: u64,
    /// Files with more than one extent.
    pub fragmented_files: u64,
    /// Share of blocks after a file's first that directly follow their predecessor (0..=1); none without a file of two blocks.
    pub static_layout_score: Option<f64>,
    /// 1 - discontinuities / blocks, with all files in `find` order read as one sequence; none without a block.
    pub tree_layout_score: Option<f64>,
    /// Jumps in that sequence.
    pub discontinuities: Discontinuities,
    /// Free extents; none if the file system does not report them, with the reason in `free_space_note`.
    pub free_space: Option<FreeSpace>,
    /// Reason for missing free space, otherwise empty.
    pub free_space_note: String,
    /// Seconds the examination took.
    pub elapsed_seconds: f64,
    /// Peak memory of the process so far, bytes.
    pub peak_rss_bytes: u64,
    /// 4 KiB blocks of file data on the device.
    pub blocks: u64,
    /// Jumps inside files.
    pub discontinuities_inside_files: Discontinuities,
    /// Static layout score by file size.
    pub size_classes: Vec<SizeClass>,
    /// Number of files by number of extents.
    pub extents_per_file: Vec<ExtentCount>,
    /// Allocated but unwritten.
    pub unwritten: Tally,
    /// Used by more than one file or offset.
    pub shared: Tally,
    /// Compressed or encrypted.
    pub encoded: Tally,
    /// Stored inside metadata; these count as extents and have no blocks.
    pub inline: Tally,
    /// Not allocated yet; these do not have blocks.
    pub delayed: Tally,
    /// Hard links beyond the first of each file.
    pub extra_links: u64,
    /// Files and directories deleted during the examination; they are not counted as files.
    pub vanished: u64,
    /// Mount points and subvolumes inside the target, which are skipped.
    pub other_file_systems: u64,
    /// Directories read, including the target.
    pub directories: u64,
    /// Directories and files that may not be opened; none unless the examination continues there.
    pub denied: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Circumstances {
    pub target: String,
    pub file_system: String,
    pub view: String,
    pub condition: Condition,
    pub method: Method,
    pub free_space: Result<FreeSpace, String>,
}

impl LayoutSummary {
    /// Reasons why numbers may not match the file system: unreplayed journal, damaged metadata.
    pub fn reservations(&self) -> Vec<String> {
        self.condition.as_ref().map_or_else(Vec::new, Condition::reservations)
    }

    pub fn is_sound(&self) -> bool {
        self.condition.as_ref().is_none_or(|condition| condition.damage.is_empty())
    }

    pub(crate) fn new(circumstances: Circumstances, tree: &Tree, collected: &Collected) -> Self {
        let totals = &collected.totals;
        let unknown = (0..tree.files.len()).filter(|index| collected.is_unknown(*index)).count() as u64;
        let scores = match unknown == 0 {
            true => tree_scores(&collected.shapes, &totals.inside),
            false => {
                let all = collected.shapes.iter().enumerate();
                let present: Vec<_> =
                    all.filter(|(index, _)| !collected.is_unknown(*index)).map(|(_, shape)| *shape).collect();
                tree_scores(&present, &totals.inside)
            }
        };
        let vanished = collected.vanished.len() as u64;
        let (free_space, free_space_note) = match circumstances.free_space {
            Ok(free) => (Some(free), String::new()),
            Err(note) => (None, note),
        };
        Self {
            target: circumstances.target,
            file_system: circumstances.file_system,
            view: circumstances.view,
            condition: Some(circumstances.condition),
            method: circumstances.method,
            files: tree.files.len() as u64 - unknown,
            extents: scores.extents,
            fragmented_files: scores.fragmented_files,
            static_layout_score: scores.static_layout_score,
            tree_layout_score: scores.tree_layout_score,
            discontinuities: scores.discontinuities,
            free_space,
            free_space_note,
            elapsed_seconds: 0.0,
            peak_rss_bytes: 0,
            blocks: scores.blocks,
            discontinuities_inside_files: totals.inside.clone(),
            size_classes: scores.size_classes,
            extents_per_file: scores.extents_per_file,
            unwritten: totals.unwritten,
            shared: totals.shared,
            encoded: totals.encoded,
            inline: totals.inline,
            delayed: totals.delayed,
            extra_links: tree.extra_links,
            vanished: vanished + tree.vanished_directories,
            other_file_systems: tree.other_file_systems,
            directories: tree.directories() - tree.denied_directories,
            denied: collected.denied.len() as u64 + tree.denied_directories,
        }
    }
}

impl LayoutSummary {
    /// Returns the first contradiction in the summary, which may come from an altered file.
    pub fn contradiction(&self) -> Option<String> {
        let sum = |parts: &mut dyn Iterator<Item = (u64, u64)>| {
            parts.map(|(one, other)| u128::from(one) * u128::from(other)).sum::<u128>()
        };
        let of = |name: &str, stated: u64, sum: u128| {
            (u128::from(stated) != sum).then(|| format!("{name} is {stated}, but its parts give {sum}"))
        };
        let counts = || self.extents_per_file.iter();
        let jumps = |name: &str, jumps: &Discontinuities| {
            of(name, jumps.count, sum(&mut jumps.log2_blocks.iter().map(|count| (*count, 1))))
        };
        let of_space = |space: &FreeSpace| {
            let extents = sum(&mut space.buckets.iter().map(|bucket| (bucket.extents, 1)));
            let blocks = sum(&mut space.buckets.iter().map(|bucket| (bucket.blocks, 1)));
            of("free_space.extents", space.extents, extents)
                .or_else(|| of("free_space.free_blocks", space.free_blocks, blocks))
        };
        of("extents", self.extents, sum(&mut counts().map(|one| (u64::from(one.extents), one.files))))
            .or_else(|| of("files", self.files, sum(&mut counts().map(|one| (one.files, 1)))))
            .or_else(|| jumps("discontinuities", &self.discontinuities))
            .or_else(|| self.free_space.as_ref().and_then(of_space))
    }
}

/// One file, for `--per-file`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileLayout {
    /// Path below the target, quoted as by [`crate::names::shown`].
    pub path: String,
    pub inode: u64,
    /// As counted by `filefrag`.
    pub extents: u32,
    /// 4 KiB blocks on the device.
    pub blocks: u64,
    /// Static layout score; none for less than two blocks.
    pub static_layout_score: Option<f64>,
}

pub(crate) fn per_file(tree: &Tree, collected: &Collected) -> Vec<FileLayout> {
    let files = tree.files.iter().zip(&collected.shapes).enumerate();
    files
        .filter(|(index, _)| !collected.is_unknown(*index))
        .map(|(_, (file, shape))| FileLayout {
            path: crate::names::shown(&tree.path(file)),
            inode: file.inode,
            extents: shape.extents,
            blocks: shape.blocks,
            static_layout_score: shape.static_parts().and_then(|(part, whole)| crate::score::share(part, whole)),
        })
        .collect()
}
