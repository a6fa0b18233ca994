//! xfs with rmapbt=1: the reverse map contains the owner of every extent, so no file needs to be opened.

use crate::collect::{Collected, Collector, KeptDetails};
use crate::error::LayoutError;
use crate::extent::{Extent, ExtentKind};
use crate::free::{FreeSpace, Histogram};
use crate::tree::Tree;
use rayon::prelude::*;
use senesce_sys::fsmap::{self, Record};
use senesce_sys::xfs as kernel;
use std::os::fd::BorrowedFd;
use std::path::Path;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub block_size: u32,
    group_bytes: u64,
    groups: u64,
    pub has_realtime: bool,
    rmapbt: bool,
    pub inode_size: u32,
    pub directory_block: u32,
    /// Maximum share of the space for inodes, in percent; 0: no limit.
    pub inode_percent: u32,
    /// Whether a chunk of inodes may be partly filled (sparse inodes).
    pub sparse_inodes: bool,
    pub reflink: bool,
    pub free_inode_tree: bool,
    /// Blocks of the data device, including the log.
    pub data_blocks: u64,
    /// Blocks of an internal log, otherwise 0.
    pub log_blocks: u64,
}

impl Geometry {
    pub(crate) fn read(root: BorrowedFd<'_>, shown: &Path) -> Result<Self, LayoutError> {
        let found =
            kernel::geometry(root).map_err(|source| LayoutError::io("read the xfs geometry of", shown, source))?;
        let has = |flag: u32| found.flags & flag != 0;
        Ok(Self {
            block_size: found.block_size,
            group_bytes: u64::from(found.group_blocks) * u64::from(found.block_size),
            groups: u64::from(found.groups),
            has_realtime: found.realtime_blocks != 0,
            rmapbt: has(kernel::Geometry::RMAPBT),
            inode_size: found.inode_size,
            directory_block: found.directory_block_size,
            inode_percent: found.inode_percent,
            sparse_inodes: has(kernel::Geometry::SPINODES),
            reflink: has(kernel::Geometry::REFLINK),
            free_inode_tree: has(kernel::Geometry::FINOBT),
            data_blocks: found.data_blocks,
            log_blocks: if found.log_start != 0 { u64::from(found.log_blocks) } else { 0 },
        })
    }

    pub(crate) fn groups(&self) -> u64 {
        self.groups
    }

    /// Returns the number of blocks of an allocation group; the last one may have fewer.
    pub(crate) fn group_blocks(&self) -> u64 {
        self.group_bytes / u64::from(self.block_size)
    }

    pub(crate) fn reverse_map(&self) -> bool {
        self.rmapbt
    }

    /// Returns whether GETFSMAP reports the owner of every file extent.
    pub(crate) fn reports_owners(&self) -> bool {
        self.rmapbt && !self.has_realtime
    }
}

/// A mapping with its owner: 32 bytes, with the kind in the lowest bits of the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OwnedMapping {
    inode: u64,
    logical: u64,
    physical: u64,
    length_and_kind: u64,
}

const UNWRITTEN: u64 = 1;
const SHARED: u64 = 2;

impl OwnedMapping {
    fn new(record: &Record) -> Self {
        let mark = |flag: u32, bit: u64| if record.flags & flag != 0 { bit } else { 0 };
        let kind = mark(Record::PREALLOC, UNWRITTEN) | mark(Record::SHARED, SHARED);
        Self {
            inode: record.owner,
            logical: record.offset,
            physical: record.physical,
            length_and_kind: record.length & !3 | kind,
        }
    }

    fn length(&self) -> u64 {
        self.length_and_kind & !3
    }

    fn extent(&self) -> Extent {
        let mark = |bit: u64, kind: ExtentKind| if self.length_and_kind & bit != 0 { kind } else { ExtentKind::PLAIN };
        Extent::plain(self.logical, self.physical, self.length())
            .marked(mark(UNWRITTEN, ExtentKind::UNWRITTEN))
            .marked(mark(SHARED, ExtentKind::SHARED))
    }
}

/// The reverse map, sorted by owner and offset.
#[derive(Debug)]
pub(crate) struct ReverseMap {
    owned: Vec<OwnedMapping>,
    pub free: FreeSpace,
}

impl ReverseMap {
    /// Reads all records, allocation groups in parallel: records never cross groups.
    pub(crate) fn read(
        root: BorrowedFd<'_>,
        shown: &Path,
        device: u32,
        geometry: &Geometry,
        threads: usize,
    ) -> Result<Self, LayoutError> {
        let step = geometry.groups.div_ceil(threads as u64).max(1);
        let starts: Vec<u64> = (0..geometry.groups).step_by(step as usize).collect();
        let parts = starts.into_par_iter().map(|first| {
            let end = if first + step >= geometry.groups { u64::MAX } else { (first + step) * geometry.group_bytes };
            read_groups(root, device, first * geometry.group_bytes..end, geometry.block_size)
        });
        let mut histogram = Histogram::new(u64::from(geometry.block_size));
        let mut owned = Vec::new();
        for part in parts.collect::<Vec<_>>() {
            let (free, records) =
                part.map_err(|source| LayoutError::io("read the reverse map (GETFSMAP) of", shown, source))?;
            histogram = histogram.merge(&free);
            if owned.is_empty() { owned = records } else { owned.extend(records) }
        }
        split_at_shared_ranges(&mut owned);
        owned.par_sort_unstable();
        Ok(Self { owned, free: histogram.finish() })
    }

    /// Assigns mappings to every file of the tree.
    pub(crate) fn assign(&self, tree: &Tree, keep: KeptDetails) -> Collected {
        let mut collector = Collector::new(keep);
        let mut groups = self.owned.chunk_by(|one, next| one.inode == next.inode).peekable();
        let mut extents = Vec::new();
        for index in tree.by_inode() {
            let inode = tree.files[index as usize].inode;
            while groups.next_if(|group| group[0].inode < inode).is_some() {}
            if let Some(group) = groups.next_if(|group| group[0].inode == inode) {
                extents.clear();
                extents.extend(group.iter().map(OwnedMapping::extent));
                collector.file(index, &extents);
            }
        }
        Collector::merge(vec![collector], tree.files.len())
    }
}

fn read_groups(
    root: BorrowedFd<'_>,
    device: u32,
    range: std::ops::Range<u64>,
    block_size: u32,
) -> std::io::Result<(Histogram, Vec<OwnedMapping>)> {
    let mut histogram = Histogram::new(u64::from(block_size));
    let mut owned = Vec::new();
    let start = range.start;
    fsmap::query(root, device, range, |record| {
        if record.physical < start {
            // Belongs to the previous group.
        } else if record.is_free() {
            histogram.add(record.physical, record.length);
        } else if record.is_file_data() {
            owned.push(OwnedMapping::new(record));
        }
    })?;
    Ok((histogram, owned))
}

/// Splits records, because the kernel marks a whole record as shared if any block of it is.
fn split_at_shared_ranges(owned: &mut Vec<OwnedMapping>) {
    let is_marked = |record: &OwnedMapping| record.length_and_kind & SHARED != 0;
    let (mut marked, plain): (Vec<OwnedMapping>, Vec<OwnedMapping>) = owned.iter().copied().partition(is_marked);
    if marked.is_empty() {
        return;
    }
    marked.sort_unstable_by_key(|record| record.physical);
    let ranges = shared_ranges(&marked);
    *owned = plain;
    for record in marked {
        let end = record.physical + record.length();
        let first = ranges.partition_point(|range| range.1 <= record.physical);
        let mut at = record.physical;
        for &(from, to) in ranges[first..].iter().take_while(|range| range.0 < end) {
            owned.extend(piece(&record, at, from.max(at), false));
            owned.extend(piece(&record, from.max(at), to.min(end), true));
            at = to.min(end);
        }
        owned.extend(piece(&record, at, end, false));
    }
}

fn piece(record: &OwnedMapping, from: u64, to: u64, shared: bool) -> Option<OwnedMapping> {
    let kind = record.length_and_kind & UNWRITTEN | if shared { SHARED } else { 0 };
    (from < to).then(|| OwnedMapping {
        inode: record.inode,
        logical: record.logical + (from - record.physical),
        physical: from,
        length_and_kind: (to - from) | kind,
    })
}

/// Ranges that at least two records cover, ascending and disjoint; `records` ascend by address.
fn shared_ranges(records: &[OwnedMapping]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut covered_to = 0;
    for record in records {
        let end = record.physical + record.length();
        let overlap = (record.physical, end.min(covered_to));
        if overlap.0 < overlap.1 {
            match ranges.last_mut() {
                Some(last) if last.1 >= overlap.0 => last.1 = last.1.max(overlap.1),
                _ => ranges.push(overlap),
            }
        }
        covered_to = covered_to.max(end);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(inode: u64, physical: u64, length: u64) -> OwnedMapping {
        OwnedMapping { inode, logical: 0, physical, length_and_kind: length | SHARED }
    }

    #[test]
    fn only_the_blocks_with_two_owners_are_shared() {
        let mut records = vec![owned(1, 4096, 16384), owned(2, 8192, 4096), owned(3, 16384, 16384)];
        split_at_shared_ranges(&mut records);
        records.sort_unstable();
        let of = |inode: u64| -> Vec<(u64, u64, bool)> {
            let mine = records.iter().filter(|record| record.inode == inode);
            mine.map(|r| (r.physical, r.length(), r.length_and_kind & SHARED != 0)).collect()
        };
        assert_eq!(of(1), vec![(4096, 4096, false), (8192, 4096, true), (12288, 4096, false), (16384, 4096, true)]);
        assert_eq!(of(2), vec![(8192, 4096, true)]);
        assert_eq!(of(3), vec![(16384, 4096, true), (20480, 12288, false)]);
        assert_eq!(records.iter().find(|r| r.physical == 12288).unwrap().logical, 8192);
    }
}
