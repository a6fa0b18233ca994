//! btrfs: extents of files from the subvolume's tree, sharing from the extent tree, without opening files. Addresses are btrfs
//! logical addresses, as in FIEMAP.

use crate::btrfs_search::{Item, kind, node_size, search, tree, u64_at};
use crate::collect::{Collected, Collector, KeptDetails};
use crate::error::LayoutError;
use crate::extent::{Extent, ExtentKind};
use crate::tree::Tree;
use rayon::prelude::*;
use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Offsets in struct btrfs_file_extent_item.
mod file_extent {
    pub(crate) const RAM_BYTES: usize = 8;
    pub(crate) const COMPRESSION: usize = 16;
    pub(crate) const TYPE: usize = 20;
    pub(crate) const DISK_BYTENR: usize = 21;
    pub(crate) const DISK_NUM_BYTES: usize = 29;
    pub(crate) const OFFSET: usize = 37;
    pub(crate) const NUM_BYTES: usize = 45;
    pub(crate) const INLINE: u8 = 0;
    pub(crate) const PREALLOC: u8 = 2;
    /// Bytes of a file extent item that is not inline.
    pub(crate) const REGULAR_LENGTH: usize = 53;
}

/// struct btrfs_extent_item, and its flag for data.
const EXTENT_ITEM_BYTES: usize = 24;
const EXTENT_FLAG_DATA: u64 = 1;
/// `BTRFS_TREE_BLOCK_REF_KEY`, `BTRFS_EXTENT_OWNER_REF_KEY`: inline references of 8 bytes.
const TREE_BLOCK_REF: u32 = 176;
const OWNER_REF: u32 = 172;

#[derive(Debug, Default)]
pub(crate) struct ExtentTree {
    /// Addresses and lengths of all allocated extents, ascending.
    pub allocated: Vec<(u64, u64)>,
    shared: HashSet<u64>,
    /// Whether a tree block has several owners (snapshots): then shared extents cannot be identified by their references.
    pub has_shared_tree_blocks: bool,
    current: References,
}

/// References to one data extent. References from one position of a file count once: the offset of a reference is where the
/// extent would begin in the file (struct btrfs_extent_data_ref), so it is equal for all remaining parts of the extent there.
#[derive(Debug, Default)]
struct References {
    extent: u64,
    /// Root, inode and offset.
    first_owner: Option<(u64, u64, u64)>,
}

impl ExtentTree {
    pub(crate) fn read(root: BorrowedFd<'_>, shown: &Path) -> Result<Self, LayoutError> {
        let mut found = Self::default();
        node_size(root)
            .and_then(|node_size| search(root, tree::EXTENT, 0..=u64::MAX, |item| found.add(item, node_size)))
            .map_err(|source| LayoutError::io("search the btrfs extent tree of", shown, source))?;
        Ok(found)
    }

    fn add(&mut self, item: Item<'_>, node_size: u64) {
        match item.kind {
            kind::EXTENT_ITEM => {
                self.allocated.push((item.object, item.offset));
                self.current = References { extent: item.object, first_owner: None };
                if item.u64_at(16) & EXTENT_FLAG_DATA != 0 {
                    self.inline_references(&item.data[EXTENT_ITEM_BYTES.min(item.data.len())..]);
                } else {
                    self.tree_block(&item);
                }
            }
            kind::METADATA_ITEM => {
                self.allocated.push((item.object, node_size));
                self.tree_block(&item);
            }
            kind::EXTENT_DATA_REF if item.object == self.current.extent => {
                self.data_reference((item.u64_at(0), item.u64_at(8), item.u64_at(16)));
            }
            kind::SHARED_DATA_REF | kind::SHARED_BLOCK_REF => self.has_shared_tree_blocks = true,
            _ => {}
        }
    }

    fn tree_block(&mut self, item: &Item<'_>) {
        self.has_shared_tree_blocks |= item.u64_at(0) > 1;
    }

    /// Parses struct btrfs_extent_inline_ref: a type byte and a body whose length depends on the type.
    fn inline_references(&mut self, mut data: &[u8]) {
        while let Some((&reference, body)) = data.split_first() {
            let length = match u32::from(reference) {
                kind::EXTENT_DATA_REF => {
                    self.data_reference((u64_at(body, 0), u64_at(body, 8), u64_at(body, 16)));
                    28
                }
                kind::SHARED_DATA_REF => {
                    self.has_shared_tree_blocks = true;
                    12
                }
                TREE_BLOCK_REF | OWNER_REF | kind::SHARED_BLOCK_REF => 8,
                _ => return,
            };
            data = body.get(length..).unwrap_or_default();
        }
    }

    fn data_reference(&mut self, owner: (u64, u64, u64)) {
        match self.current.first_owner {
            None => self.current.first_owner = Some(owner),
            Some(first) if first == owner => {}
            Some(_) => {
                self.shared.insert(self.current.extent);
            }
        }
    }
}

/// Reads the extents of all files of the tree from its subvolume.
pub(crate) fn walk(
    root: BorrowedFd<'_>,
    shown: &Path,
    files: &Tree,
    extent_tree: &ExtentTree,
    keep: KeptDetails,
) -> Result<Collected, LayoutError> {
    let order = files.by_inode();
    let part = order.len().div_ceil(4 * rayon::current_num_threads()).max(1024);
    let parts = order
        .par_chunks(part)
        .map(|part| {
            let mut reader = Reader::new(files, part, &extent_tree.shared, keep);
            let inode = |index: u32| files.files[index as usize].inode;
            let objects = inode(part[0])..=inode(part[part.len() - 1]);
            search(root, tree::OWN, objects, |item| reader.item(item))
                .map_err(|source| LayoutError::io("search the btrfs file tree of", shown, source))?;
            Ok(reader.finish())
        })
        .collect::<Result<Vec<_>, LayoutError>>()?;
    Ok(Collector::merge(parts, files.files.len()))
}

struct Reader<'a> {
    files: &'a Tree,
    wanted: &'a [u32],
    shared: &'a HashSet<u64>,
    collector: Collector,
    extents: Vec<Extent>,
}

impl<'a> Reader<'a> {
    fn new(files: &'a Tree, wanted: &'a [u32], shared: &'a HashSet<u64>, keep: KeptDetails) -> Self {
        Self { files, wanted, shared, collector: Collector::new(keep), extents: Vec::new() }
    }

    fn item(&mut self, item: Item<'_>) {
        if item.kind != kind::EXTENT_DATA {
            return;
        }
        while self.current().is_some_and(|inode| inode < item.object) {
            self.close_file();
        }
        if self.current() == Some(item.object)
            && let Some(extent) = file_extent(&item)
        {
            let shared = extent.on_device() && self.shared.contains(&item.u64_at(file_extent::DISK_BYTENR));
            self.extents.push(if shared { extent.marked(ExtentKind::SHARED) } else { extent });
        }
    }

    fn current(&self) -> Option<u64> {
        self.wanted.first().map(|index| self.files.files[*index as usize].inode)
    }

    fn close_file(&mut self) {
        if let Some((file, rest)) = self.wanted.split_first() {
            self.collector.file(*file, &self.extents);
            self.extents.clear();
            self.wanted = rest;
        }
    }

    fn finish(mut self) -> Collector {
        self.close_file();
        self.collector
    }
}

/// Returns the mapping of a file extent item; `None` for holes and truncated items.
pub(crate) fn file_extent(item: &Item<'_>) -> Option<Extent> {
    use file_extent::*;
    let kind_of_extent = *item.data.get(TYPE)?;
    let mut kind = if *item.data.get(COMPRESSION)? != 0 { ExtentKind::ENCODED } else { ExtentKind::PLAIN };
    if kind_of_extent == INLINE {
        let length = item.u64_at(RAM_BYTES);
        return Some(Extent { logical: item.offset, length, kind: kind.with(ExtentKind::INLINE), ..Extent::default() });
    }
    let start = item.u64_at(DISK_BYTENR);
    if item.data.len() < REGULAR_LENGTH || start == 0 {
        return None;
    }
    if kind_of_extent == PREALLOC {
        kind = kind.with(ExtentKind::UNWRITTEN);
    }
    let length = item.u64_at(NUM_BYTES);
    // A compressed extent is read as a whole, even if the file uses only a part.
    let (physical, physical_length) = match kind.has(ExtentKind::ENCODED) {
        true => (start, item.u64_at(DISK_NUM_BYTES)),
        false => (start.saturating_add(item.u64_at(OFFSET)), length),
    };
    Some(Extent { logical: item.offset, physical, length, physical_length, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a data extent with these inline references (root, inode, offset) counts as shared.
    fn shared(references: &[(u64, u64, u64)]) -> bool {
        let mut data = Vec::new();
        for word in [references.len() as u64, 7, EXTENT_FLAG_DATA] {
            data.extend(word.to_le_bytes());
        }
        for (root, inode, offset) in references {
            data.push(kind::EXTENT_DATA_REF as u8);
            for word in [root, inode, offset] {
                data.extend(word.to_le_bytes());
            }
            data.extend(1u32.to_le_bytes());
        }
        let mut found = ExtentTree::default();
        found.add(Item { object: 1 << 20, kind: kind::EXTENT_ITEM, offset: 8192, data: &data }, 16384);
        found.shared.contains(&(1 << 20))
    }

    #[test]
    fn extent_at_two_offsets_of_a_file_is_shared() {
        assert!(shared(&[(5, 257, 0), (5, 257, 65536)]));
        assert!(shared(&[(5, 257, 0), (5, 258, 0)]));
        assert!(!shared(&[(5, 257, 0)]) && !shared(&[(5, 257, 4096), (5, 257, 4096)]));
    }
}
