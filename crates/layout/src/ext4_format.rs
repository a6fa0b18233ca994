//! On-disk structures of ext4 that locate file data (kernel documentation, filesystems/ext4/: "Super Block", "Block Group
//! Descriptors", "Index Nodes", "The Contents of inode.i_block"). All numbers are little-endian. No I/O, and no trust in the
//! input.

use crate::extent::{Extent, ExtentKind};

pub(crate) const SUPERBLOCK_OFFSET: u64 = 1024;
pub(crate) const SUPERBLOCK_BYTES: usize = 1024;

const MAGIC: u16 = 0xEF53;
const INCOMPAT_64BIT: u32 = 0x80;
/// Features that do not affect the structures read here: filetype, recover, extents, 64bit, mmp, flex_bg, ea_inode, csum_seed,
/// largedir, inline_data, encrypt, casefold. Others (meta_bg, journal devices, new ones) do or may.
const INCOMPAT_KNOWN: u32 =
    0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x2000 | 0x4000 | 0x8000 | 0x10000 | 0x20000;

const MODE_KIND: u16 = 0xF000;
const MODE_REGULAR: u16 = 0x8000;
const FLAG_ENCRYPTED: u32 = 0x800;
const FLAG_EXTENTS: u32 = 0x8_0000;
const FLAG_INLINE_DATA: u32 = 0x1000_0000;

const EXTENT_MAGIC: u16 = 0xF30A;
const EXTENT_BYTES: usize = 12;
/// Maximum length of a written extent; a larger count is an unwritten extent of the excess length.
const WRITTEN_LIMIT: u32 = 32768;
/// EXT4_MAX_EXTENT_DEPTH.
const MAX_DEPTH: u16 = 5;

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes)
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Bytes per block: 1024 to 65536.
    pub block_size: u64,
    pub blocks: u64,
    /// Inodes per group, at least 1.
    pub inodes_per_group: u64,
    /// Bytes per inode: 128 to the block size.
    pub inode_size: u64,
    pub inodes: u64,
    /// Byte offset of the group descriptors.
    pub descriptors_offset: u64,
    /// Bytes per group descriptor: 32 to 1024.
    pub descriptor_size: u64,
}

impl Geometry {
    /// Parses a superblock; `None` for other file systems and unsupported features.
    pub(crate) fn parse(superblock: &[u8]) -> Option<Self> {
        let word = |at| u32_at(superblock, at).map(u64::from);
        if u16_at(superblock, 0x38)? != MAGIC {
            return None;
        }
        let features = u32_at(superblock, 0x60)?;
        let block_size = 1024u64.checked_shl(u32_at(superblock, 0x18)?).filter(|size| (1024..=65536).contains(size))?;
        let wide = features & INCOMPAT_64BIT != 0;
        let revision = word(0x4C)?;
        let geometry = Self {
            block_size,
            blocks: word(0x4)? | if wide { word(0x150)? << 32 } else { 0 },
            inodes_per_group: word(0x28)?,
            inode_size: if revision == 0 { 128 } else { u64::from(u16_at(superblock, 0x58)?) },
            inodes: word(0x0)?,
            // In the block after the superblock's (fs/ext4/super.c, descriptor_loc). s_first_data_block does not help: with
            // bigalloc it is 0 for blocks of 1 KiB too.
            descriptors_offset: (SUPERBLOCK_OFFSET / block_size + 1) * block_size,
            descriptor_size: if wide { u64::from(u16_at(superblock, 0xFE)?) } else { 32 },
        };
        let sound = features & !INCOMPAT_KNOWN == 0
            && geometry.inodes_per_group > 0
            && (128..=block_size).contains(&geometry.inode_size)
            && (32..=1024).contains(&geometry.descriptor_size)
            && geometry.blocks.checked_mul(block_size).is_some();
        sound.then_some(geometry)
    }

    pub(crate) fn groups(&self) -> u64 {
        self.inodes.div_ceil(self.inodes_per_group)
    }

    /// Returns the byte offset of the inode table in a group descriptor; `None` if it is outside.
    pub(crate) fn inode_table(&self, descriptor: &[u8]) -> Option<u64> {
        let low = u64::from(u32_at(descriptor, 0x8)?);
        let high = if self.descriptor_size >= 64 { u64::from(u32_at(descriptor, 0x28)?) } else { 0 };
        let block = low | high << 32;
        (block > 0 && block < self.blocks).then(|| block * self.block_size)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Features {
    pub blocks: u64,
    /// Blocks per cluster: 1 without bigalloc.
    pub cluster_blocks: u64,
    pub extents: bool,
    pub inline_data: bool,
    pub dir_index: bool,
    /// Whether the directory index may have a third level.
    pub large_dir: bool,
    pub metadata_checksums: bool,
    /// Whether names of new directories are hashed uniformly; the hash `legacy` does not do so.
    pub uniform_hash: bool,
}

const COMPAT_DIR_INDEX: u32 = 0x20;
const INCOMPAT_EXTENTS: u32 = 0x40;
const INCOMPAT_LARGE_DIR: u32 = 0x4000;
const INCOMPAT_INLINE_DATA: u32 = 0x8000;
const RO_COMPAT_BIGALLOC: u32 = 0x200;
const RO_COMPAT_METADATA_CSUM: u32 = 0x400;

impl Features {
    /// Parses a superblock; `None` for other file systems.
    pub(crate) fn parse(superblock: &[u8]) -> Option<Self> {
        if u16_at(superblock, 0x38)? != MAGIC {
            return None;
        }
        let incompat = u32_at(superblock, 0x60)?;
        let high = if incompat & INCOMPAT_64BIT != 0 { u64::from(u32_at(superblock, 0x150)?) } else { 0 };
        let ro_compat = u32_at(superblock, 0x64)?;
        let bigalloc = ro_compat & RO_COMPAT_BIGALLOC != 0;
        let shift = u32_at(superblock, 0x1C)?.checked_sub(u32_at(superblock, 0x18)?).filter(|shift| *shift < 32)?;
        Some(Self {
            blocks: u64::from(u32_at(superblock, 0x4)?) | high << 32,
            cluster_blocks: if bigalloc { 1 << shift } else { 1 },
            extents: incompat & INCOMPAT_EXTENTS != 0,
            inline_data: incompat & INCOMPAT_INLINE_DATA != 0,
            dir_index: u32_at(superblock, 0x5C)? & COMPAT_DIR_INDEX != 0,
            large_dir: incompat & INCOMPAT_LARGE_DIR != 0,
            metadata_checksums: ro_compat & RO_COMPAT_METADATA_CSUM != 0,
            uniform_hash: *superblock.get(0xFC)? != 0,
        })
    }
}

/// Content of a file according to its inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Not a regular file (any more).
    Gone,
    Mapped,
    /// Further mappings are in these extent tree nodes: byte offsets in order, and maximum depth.
    Nodes(Vec<u64>, u16),
    /// The mapping is unsupported (indirect blocks) or damaged.
    Unknown,
}

/// Reads an inode. Appends mappings in the inode itself to `extents`.
pub(crate) fn inode(geometry: &Geometry, inode: &[u8], extents: &mut Vec<Extent>) -> Content {
    parse_inode(geometry, inode, extents).unwrap_or(Content::Unknown)
}

fn parse_inode(geometry: &Geometry, inode: &[u8], extents: &mut Vec<Extent>) -> Option<Content> {
    let (mode, links, flags) = (u16_at(inode, 0x0)?, u16_at(inode, 0x1A)?, u32_at(inode, 0x20)?);
    if mode & MODE_KIND != MODE_REGULAR || links == 0 {
        return Some(Content::Gone);
    }
    let size = u64::from(u32_at(inode, 0x4)?) | u64::from(u32_at(inode, 0x6C)?) << 32;
    let map = inode.get(0x28..0x28 + 60)?;
    let kind = if flags & FLAG_ENCRYPTED != 0 { ExtentKind::ENCODED } else { ExtentKind::PLAIN };
    if flags & FLAG_INLINE_DATA != 0 {
        if size > 0 {
            extents.push(Extent { length: size, kind: kind.with(ExtentKind::INLINE), ..Extent::default() });
        }
        return Some(Content::Mapped);
    }
    if flags & FLAG_EXTENTS == 0 {
        return Some(if map.iter().all(|byte| *byte == 0) { Content::Mapped } else { Content::Unknown });
    }
    let first = extents.len();
    let content = node(geometry, map, MAX_DEPTH, extents);
    extents[first..].iter_mut().for_each(|extent| *extent = extent.marked(kind));
    Some(content)
}

/// Reads a node of an extent tree: mappings from a leaf, offsets of further nodes from an inner node. `depth` is the maximum.
pub(crate) fn node(geometry: &Geometry, node: &[u8], depth: u16, extents: &mut Vec<Extent>) -> Content {
    parse_node(geometry, node, depth, extents).unwrap_or(Content::Unknown)
}

fn parse_node(geometry: &Geometry, node: &[u8], most: u16, extents: &mut Vec<Extent>) -> Option<Content> {
    let (magic, entries, depth) = (u16_at(node, 0)?, usize::from(u16_at(node, 2)?), u16_at(node, 6)?);
    if magic != EXTENT_MAGIC || depth > most {
        return None;
    }
    let entries = node.get(EXTENT_BYTES..EXTENT_BYTES + entries * EXTENT_BYTES)?.chunks_exact(EXTENT_BYTES);
    if depth == 0 {
        for entry in entries {
            extents.push(leaf_entry(geometry, entry)?);
        }
        return Some(Content::Mapped);
    }
    let child = |entry: &[u8]| {
        let block = u64::from(u32_at(entry, 4)?) | u64::from(u16_at(entry, 8)?) << 32;
        (block > 0 && block < geometry.blocks).then(|| block * geometry.block_size)
    };
    entries.map(child).collect::<Option<Vec<u64>>>().map(|children| Content::Nodes(children, depth - 1))
}

fn leaf_entry(geometry: &Geometry, entry: &[u8]) -> Option<Extent> {
    let logical = u64::from(u32_at(entry, 0)?);
    let count = u32::from(u16_at(entry, 4)?);
    let start = u64::from(u32_at(entry, 8)?) | u64::from(u16_at(entry, 6)?) << 32;
    let (blocks, kind) = match count > WRITTEN_LIMIT {
        true => (count - WRITTEN_LIMIT, ExtentKind::UNWRITTEN),
        false => (count, ExtentKind::PLAIN),
    };
    let size = geometry.block_size;
    let inside = blocks > 0 && start > 0 && start + u64::from(blocks) <= geometry.blocks;
    inside.then(|| Extent::plain(logical * size, start * size, u64::from(blocks) * size).marked(kind))
}

/// Runs every reader on the same bytes; for the fuzzer.
pub fn exercise(bytes: &[u8]) {
    const SMALL: Geometry = Geometry {
        block_size: 1024,
        blocks: 8192,
        inodes_per_group: 2048,
        inode_size: 256,
        inodes: 2048,
        descriptors_offset: 2048,
        descriptor_size: 64,
    };
    let geometry = Geometry::parse(bytes).unwrap_or(SMALL);
    geometry.inode_table(bytes);
    let mut extents = Vec::new();
    inode(&geometry, bytes, &mut extents);
    node(&geometry, bytes, MAX_DEPTH, &mut extents);
    crate::score::Totals::default().file(&extents);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GEOMETRY: Geometry = Geometry {
        block_size: 4096,
        blocks: 1000,
        inodes_per_group: 8192,
        inode_size: 256,
        inodes: 8192,
        descriptors_offset: 4096,
        descriptor_size: 64,
    };

    fn leaf(entries: &[(u32, u16, u32)]) -> Vec<u8> {
        let mut node = Vec::new();
        for word in [EXTENT_MAGIC, entries.len() as u16, 4, 0, 0, 0] {
            node.extend(word.to_le_bytes());
        }
        for (logical, count, start) in entries {
            node.extend(logical.to_le_bytes());
            node.extend(count.to_le_bytes());
            node.extend(0u16.to_le_bytes());
            node.extend(start.to_le_bytes());
        }
        node
    }

    fn corpus() -> Vec<Vec<u8>> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ext4");
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| std::fs::read(file).unwrap()).collect()
    }

    #[test]
    fn corpus_is_parsed() {
        let [whole_inode, superblock, truncated] = &corpus()[..3] else { panic!("three files") };
        let geometry = Geometry::parse(superblock).unwrap();
        assert_eq!((geometry.block_size, geometry.blocks, geometry.inode_size), (1024, 8192, 256));
        let mut extents = Vec::new();
        assert_eq!(inode(&geometry, whole_inode, &mut extents), Content::Mapped);
        assert_eq!(extents.iter().map(|extent| extent.length).sum::<u64>(), 30 << 10);
        assert_eq!(Geometry::parse(truncated), None);
        corpus().iter().for_each(|bytes| exercise(bytes));
    }

    /// Covers mke2fs -b 1024 -O bigalloc, which writes 0 there, although the descriptors follow the superblock.
    #[test]
    fn descriptors_follow_the_superblock_for_any_first_data_block() {
        let mut superblock = corpus()[1].clone();
        for first_data_block in [1u32, 0] {
            superblock[0x14..0x18].copy_from_slice(&first_data_block.to_le_bytes());
            assert_eq!(Geometry::parse(&superblock).unwrap().descriptors_offset, 2048);
        }
        superblock[0x18..0x1C].copy_from_slice(&2u32.to_le_bytes());
        assert_eq!(Geometry::parse(&superblock).unwrap().descriptors_offset, 4096);
    }

    #[test]
    fn leaf_contains_mappings() {
        let mut extents = Vec::new();
        let content = node(&GEOMETRY, &leaf(&[(0, 2, 100), (5, 32768 + 3, 200)]), 5, &mut extents);
        assert_eq!(content, Content::Mapped);
        let unwritten = Extent::plain(5 * 4096, 200 * 4096, 3 * 4096).marked(ExtentKind::UNWRITTEN);
        assert_eq!(extents, vec![Extent::plain(0, 100 * 4096, 2 * 4096), unwritten]);
    }

    #[test]
    fn addresses_outside_the_file_system_are_rejected() {
        for entries in [[(0, 2, 999)], [(0, 0, 5)], [(0, 1, 0)]] {
            assert_eq!(node(&GEOMETRY, &leaf(&entries), 5, &mut Vec::new()), Content::Unknown);
        }
        let mut inner = leaf(&[(0, 1, 7)]);
        inner[6] = 1;
        assert_eq!(node(&GEOMETRY, &inner, 0, &mut Vec::new()), Content::Unknown, "deeper than its parent allows");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_crash_the_readers(bytes in proptest::collection::vec(any::<u8>(), 0..1100)) {
            exercise(&bytes);
        }

        #[test]
        fn changed_structures_do_not_crash_the_readers(at in 0usize..1024, value: u8, which in 0usize..3) {
            let mut bytes = corpus()[which].clone();
            let at = at % bytes.len();
            bytes[at] = value;
            exercise(&bytes);
        }
    }
}
