//! Location of each file's data in reading order, the input of device models.

use crate::extent::{Extent, ExtentKind};
use crate::indirect::map_blocks_before;
use crate::tree::Tree;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A contiguous range of the file system's address space that is read in one go, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    pub start: u64,
    pub length: u64,
}

impl Run {
    /// Returns the first byte after the run.
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Span {
    first: u32,
    count: u32,
    marks: ExtentKind,
}

/// Runs by file, files in any order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
    spans: Vec<(u32, Span)>,
    /// Block size if blocks of a file's map may lie between its data.
    mapped_between: Option<u64>,
}

impl Runs {
    /// Creates an empty list. `mapped_between`: block size. Data separated only by blocks of the file's own map are one
    /// run, because the kernel reads these too.
    pub(crate) fn new(mapped_between: Option<u64>) -> Self {
        Self { mapped_between, ..Self::default() }
    }

    /// Adds a file's mappings in file order, without data that a read does not fetch from the device (holes, unwritten and inline
    /// data, unallocated data).
    pub(crate) fn add(&mut self, file: u32, extents: &[Extent]) {
        let first = self.runs.len();
        let mut marks = ExtentKind::PLAIN;
        for extent in extents {
            marks = marks.with(extent.kind);
            if !extent.on_device() || extent.kind.has(ExtentKind::UNWRITTEN) || extent.physical_length == 0 {
                continue;
            }
            let map = self.map_before(extent);
            match self.runs[first..].last_mut() {
                Some(last) if last.end() == extent.physical => last.length += extent.physical_length,
                Some(last) if map > 0 && last.end().saturating_add(map) == extent.physical => {
                    last.length += map + extent.physical_length;
                }
                _ => self.runs.push(Run { start: extent.physical, length: extent.physical_length }),
            }
        }
        let span = Span { first: first as u32, count: (self.runs.len() - first) as u32, marks };
        self.spans.push((file, span));
    }

    /// Returns the bytes of the map before an extent in a sequential layout.
    fn map_before(&self, extent: &Extent) -> u64 {
        let block = self.mapped_between.filter(|block| *block > 0 && extent.kind.has(ExtentKind::BY_BLOCKS));
        block.map_or(0, |block| map_blocks_before(block, extent.logical / block) * block)
    }

    /// Adds the result of another thread.
    pub(crate) fn append(&mut self, other: Runs) {
        let shift = self.runs.len() as u32;
        self.runs.extend(other.runs);
        self.spans
            .extend(other.spans.into_iter().map(|(file, span)| (file, Span { first: span.first + shift, ..span })));
    }
}

/// All files of a tree in `find` order, with their runs.
#[derive(Debug, Clone, Default)]
pub struct FileRuns {
    tree: Tree,
    runs: Vec<Run>,
    spans: Vec<Span>,
    /// Files that were not examined, ascending.
    unknown: Vec<u32>,
}

impl FileRuns {
    /// Combines the tree with its runs. `unknown`: files that were deleted or may not be opened, ascending.
    pub(crate) fn new(tree: Tree, found: Runs, unknown: Vec<u32>) -> Self {
        let mut spans = vec![Span::default(); tree.files.len()];
        for (file, span) in found.spans {
            spans[file as usize] = span;
        }
        Self { tree, runs: found.runs, spans, unknown }
    }

    pub fn is_known(&self, file: usize) -> bool {
        self.unknown.binary_search(&(file as u32)).is_err()
    }

    pub fn len(&self) -> usize {
        self.spans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub fn of(&self, file: usize) -> &[Run] {
        let span = self.spans[file];
        &self.runs[span.first as usize..][..span.count as usize]
    }

    /// Returns the number of bytes that reading all files takes from the device.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.length).sum()
    }

    pub fn marks(&self, file: usize) -> ExtentKind {
        self.spans[file].marks
    }

    /// Returns the path of a file relative to the target.
    pub fn path(&self, file: usize) -> PathBuf {
        self.tree.path(&self.tree.files[file])
    }

    /// Returns the files by directory, then by name, as read by a program that sorts its listing.
    pub fn by_path(&self) -> Vec<u32> {
        use rayon::prelude::*;
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.par_sort_by_cached_key(|file| path_key(self.path(*file as usize)));
        order
    }

    /// Returns the first component of a file's path; empty for files in the target itself.
    pub fn top_directory(&self, file: usize) -> &Path {
        let path = self.tree.directory_path(self.tree.files[file].directory);
        let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
        Path::new(OsStr::from_bytes(&path[..end]))
    }
}

/// Returns bytes that compare like the components of a normalised path, but faster.
fn path_key(path: PathBuf) -> Vec<u8> {
    let mut bytes = path.into_os_string().into_vec();
    bytes.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_keys_compare_like_paths() {
        let paths = ["a", "a b", "a/b", "a/b/c", "a.b", "a0", "b", "\u{1}", "a/\u{1}", "ä/ö"];
        for (one, other) in paths.iter().flat_map(|one| paths.iter().map(move |other| (one, other))) {
            let keys = [one, other].map(|path| path_key(PathBuf::from(path)));
            assert_eq!(keys[0].cmp(&keys[1]), Path::new(one).cmp(Path::new(other)), "{one:?} {other:?}");
        }
    }

    #[test]
    fn runs_join_contiguous_data_and_omit_unread_data() {
        let mut runs = Runs::default();
        let unwritten = Extent::plain(12288, 12288, 4096).marked(ExtentKind::UNWRITTEN);
        let shared = Extent::plain(16384, 65536, 4096).marked(ExtentKind::SHARED);
        runs.add(1, &[Extent::plain(0, 4096, 4096), Extent::plain(8192, 8192, 4096), unwritten, shared]);
        let mut other = Runs::default();
        other.add(0, &[Extent::plain(0, 1 << 20, 512)]);
        runs.append(other);
        let tree = Tree::default();
        let mut files = FileRuns::new(tree, Runs::default(), vec![1]);
        assert_eq!([0, 1].map(|file| files.is_known(file)), [true, false]);
        files.spans = vec![Span::default(); 2];
        for (file, span) in &runs.spans {
            files.spans[*file as usize] = *span;
        }
        files.runs = runs.runs;
        assert_eq!(files.of(0), [Run { start: 1 << 20, length: 512 }]);
        assert_eq!(files.of(1), [Run { start: 4096, length: 8192 }, Run { start: 65536, length: 4096 }]);
        assert!(files.marks(1).has(ExtentKind::SHARED) && !files.marks(0).has(ExtentKind::SHARED));
    }

    /// Covers a file of 1 MiB as created by mke2fs -d on ext3: the block of its map follows the first twelve.
    #[test]
    fn map_blocks_between_data_do_not_split_runs() {
        const B: u64 = 4096;
        let blocks = |logical: u64, physical: u64, count: u64| Extent::plain(logical * B, physical * B, count * B);
        let runs = |kind: ExtentKind, mapped_between: Option<u64>, second: u64| {
            let mut runs = Runs::new(mapped_between);
            runs.add(0, &[blocks(0, 2319, 12).marked(kind), blocks(12, second, 244).marked(kind)]);
            runs.runs
        };
        assert_eq!(runs(ExtentKind::BY_BLOCKS, Some(B), 2332), [Run { start: 2319 * B, length: 257 * B }]);
        assert_eq!(runs(ExtentKind::BY_BLOCKS, Some(B), 2333).len(), 2, "another gap is one");
        assert_eq!(runs(ExtentKind::BY_BLOCKS, None, 2332).len(), 2, "another file system has no such map");
        assert_eq!(runs(ExtentKind::PLAIN, Some(B), 2332).len(), 2, "neither has a file with extents");
    }
}
