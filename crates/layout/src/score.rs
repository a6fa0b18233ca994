//! Scores and counts: pure functions of extents.
//!
//! * Static layout score (Smith and Seltzer, "File System Aging", SIGMETRICS 1997): the share of a file's 4 KiB blocks after its
//!   first that directly follow their predecessor. Files of one block have none. A set of files is pooled over its blocks.
//! * Tree layout score: all files in `find` order are read as one sequence of blocks. The score is 1 - discontinuities / blocks,
//!   like the dynamic layout score for the requests of a trace (Conway et al., FAST 2017).
//!
//! Holes have no blocks, so the blocks on both sides of a hole are neighbours in the sequence.

use crate::extent::{Extent, ExtentKind, SCORE_BLOCK};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FileShape {
    pub first: u64,
    /// First address after the last block.
    pub end: u64,
    /// Number of 4 KiB blocks; each contiguous run is rounded up to whole blocks.
    pub blocks: u64,
    /// Number of blocks that do not directly follow their predecessor.
    pub breaks: u32,
    /// Extents as counted by `filefrag`; see [`count_extents`].
    pub extents: u32,
}

impl FileShape {
    /// Returns the number of blocks that directly follow their predecessor, and of blocks that could. `None` for files
    /// of less than two blocks.
    pub(crate) fn static_parts(&self) -> Option<(u64, u64)> {
        (self.blocks >= 2).then(|| (self.blocks - 1 - u64::from(self.breaks), self.blocks - 1))
    }
}

/// Counts extents by `filefrag`'s rule (e2fsprogs, misc/filefrag.c): a mapping continues the previous extent if it begins at its
/// end, or if file and device advance by the same distance (a file with space reserved for its holes). Inline data count as one
/// extent.
pub(crate) fn count_extents(extents: &[Extent]) -> u32 {
    let continues = |before: &Extent, next: &Extent| {
        let dense = before.physical_end();
        let parallel = before.physical.wrapping_add(next.logical.wrapping_sub(before.logical));
        next.physical == dense || next.physical == parallel
    };
    let breaks = extents.windows(2).filter(|pair| !continues(&pair[0], &pair[1])).count();
    u32::try_from(breaks).unwrap_or(u32::MAX).saturating_add(u32::from(!extents.is_empty()))
}

/// Number and lengths of jumps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Discontinuities {
    /// Number of jumps.
    pub count: u64,
    /// `log2_blocks[k]`: jumps of at least 2^k and less than 2^(k+1) 4 KiB blocks; shorter ones are in the first.
    pub log2_blocks: Vec<u64>,
}

impl Discontinuities {
    pub(crate) fn add(&mut self, from: u64, to: u64) {
        let bucket = (from.abs_diff(to) / SCORE_BLOCK).max(1).ilog2() as usize;
        if self.log2_blocks.len() <= bucket {
            self.log2_blocks.resize(bucket + 1, 0);
        }
        self.log2_blocks[bucket] += 1;
        self.count += 1;
    }

    pub(crate) fn merge(&mut self, other: &Discontinuities) {
        if self.log2_blocks.len() < other.log2_blocks.len() {
            self.log2_blocks.resize(other.log2_blocks.len(), 0);
        }
        for (mine, theirs) in self.log2_blocks.iter_mut().zip(&other.log2_blocks) {
            *mine += theirs;
        }
        self.count += other.count;
    }
}

/// Extents of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Number of extents; adjacent mappings of the same kind are one.
    pub extents: u64,
    /// Bytes of file data in them.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u64, new_extent: bool) {
        self.extents += u64::from(new_extent);
        self.bytes += bytes;
    }

    fn merge(&mut self, other: &Tally) {
        self.extents += other.extents;
        self.bytes += other.bytes;
    }
}

/// Totals over files in any order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    pub inside: Discontinuities,
    pub unwritten: Tally,
    /// Used more than once.
    pub shared: Tally,
    pub encoded: Tally,
    pub inline: Tally,
    pub delayed: Tally,
}

impl Totals {
    /// Adds the mappings of one file in file order; returns the file's shape.
    pub(crate) fn file(&mut self, extents: &[Extent]) -> FileShape {
        let mut shape = FileShape { extents: count_extents(extents), ..FileShape::default() };
        let mut run_start = 0;
        let mut before: Option<&Extent> = None;
        for extent in extents {
            self.tally(extent, before);
            before = Some(extent);
            if !extent.on_device() || extent.physical_length == 0 {
                continue;
            }
            if shape.end == 0 {
                (shape.first, run_start) = (extent.physical, extent.physical);
            } else if extent.physical != shape.end {
                shape.blocks += (shape.end - run_start).div_ceil(SCORE_BLOCK);
                shape.breaks = shape.breaks.saturating_add(1);
                self.inside.add(shape.end, extent.physical);
                run_start = extent.physical;
            }
            shape.end = extent.physical_end();
        }
        shape.blocks += (shape.end - run_start).div_ceil(SCORE_BLOCK);
        shape
    }

    fn tally(&mut self, extent: &Extent, before: Option<&Extent>) {
        let adjacent = before.is_some_and(|before| before.physical_end() == extent.physical);
        let kinds = [
            (ExtentKind::UNWRITTEN, &mut self.unwritten),
            (ExtentKind::SHARED, &mut self.shared),
            (ExtentKind::ENCODED, &mut self.encoded),
            (ExtentKind::INLINE, &mut self.inline),
            (ExtentKind::DELAYED, &mut self.delayed),
        ];
        for (kind, tally) in kinds {
            if extent.kind.has(kind) {
                tally.add(extent.length, !(adjacent && before.is_some_and(|before| before.kind.has(kind))));
            }
        }
    }

    /// Adds the result of another thread.
    pub(crate) fn merge(&mut self, other: &Totals) {
        self.inside.merge(&other.inside);
        self.unwritten.merge(&other.unwritten);
        self.shared.merge(&other.shared);
        self.encoded.merge(&other.encoded);
        self.inline.merge(&other.inline);
        self.delayed.merge(&other.delayed);
    }
}

/// Files of one size class, by the blocks they have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeClass {
    /// Minimum size, bytes of allocated blocks.
    pub from_bytes: u64,
    /// Exclusive maximum size.
    pub to_bytes: u64,
    /// Files in the class.
    pub files: u64,
    /// Blocks of these files.
    pub blocks: u64,
    /// Static layout score of the class; none for files of one block.
    pub static_layout_score: Option<f64>,
}

/// Number of files by number of extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentCount {
    /// Extents per file.
    pub extents: u32,
    /// Files with this number.
    pub files: u64,
}

/// Scores of a sequence of files in `find` order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct TreeScores {
    pub extents: u64,
    pub fragmented_files: u64,
    /// 4 KiB blocks of file data on the device.
    pub blocks: u64,
    /// Pooled static layout score; none without a file of two blocks.
    pub static_layout_score: Option<f64>,
    /// Tree layout score; none without a block.
    pub tree_layout_score: Option<f64>,
    /// Jumps of the sequence: inside files and from file to file.
    pub discontinuities: Discontinuities,
    /// Per size class, ascending, without empty ones.
    pub size_classes: Vec<SizeClass>,
    pub extents_per_file: Vec<ExtentCount>,
}

/// Computes the scores. `shapes` must be in `find` order; `inside` holds the jumps inside the files.
pub(crate) fn tree_scores(shapes: &[FileShape], inside: &Discontinuities) -> TreeScores {
    let mut scores = TreeScores { discontinuities: inside.clone(), ..TreeScores::default() };
    let mut per_count = std::collections::BTreeMap::<u32, u64>::new();
    let mut classes = [(0u64, 0u64, 0u64, 0u64); 64];
    let (mut following, mut possible) = (0, 0);
    let mut previous_end = None;
    for shape in shapes {
        scores.extents += u64::from(shape.extents);
        scores.fragmented_files += u64::from(shape.extents > 1);
        *per_count.entry(shape.extents).or_default() += 1;
        if shape.blocks == 0 {
            continue;
        }
        if let Some(end) = previous_end.filter(|end| *end != shape.first) {
            scores.discontinuities.add(end, shape.first);
        }
        previous_end = Some(shape.end);
        scores.blocks += shape.blocks;
        let (follows, could) = shape.static_parts().unwrap_or_default();
        following += follows;
        possible += could;
        let class = &mut classes[shape.blocks.ilog2() as usize];
        *class = (class.0 + 1, class.1 + shape.blocks, class.2 + follows, class.3 + could);
    }
    scores.static_layout_score = share(following, possible);
    scores.tree_layout_score =
        share(scores.discontinuities.count, scores.blocks).map(|discontinuous| 1.0 - discontinuous);
    scores.size_classes = size_classes(&classes);
    scores.extents_per_file = per_count.into_iter().map(|(extents, files)| ExtentCount { extents, files }).collect();
    scores
}

fn size_classes(classes: &[(u64, u64, u64, u64)]) -> Vec<SizeClass> {
    let occupied = classes.iter().enumerate().filter(|(_, class)| class.0 > 0);
    occupied
        .map(|(power, &(files, blocks, following, possible))| SizeClass {
            from_bytes: SCORE_BLOCK << power,
            to_bytes: SCORE_BLOCK << (power + 1),
            files,
            blocks,
            static_layout_score: share(following, possible),
        })
        .collect()
}

/// Returns `part / whole`; `None` for an empty whole.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
#[path = "score_tests.rs"]
mod tests;
