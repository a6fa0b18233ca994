//! The journal of ext3 and ext4 (kernel documentation, filesystems/ext4/: "Journal (jbd2)"). Its numbers are big-endian. An
//! external journal is not read.

use super::super::bytes::{be32, crc32c, le32, read};
use crate::ext4_format::{self, Content, Geometry};
use crate::extent::Extent;
use std::fs::File;

const COMPAT_FAST_COMMIT: u32 = 0x400;
const INODE_HAS_EXTENTS: u32 = 0x8_0000;
const MAGIC: u32 = 0xC03B_3998;
const SUPERBLOCK_V1: u32 = 3;
const SUPERBLOCK_V2: u32 = 4;
/// The journal has checksums: versions 2 and 3.
const INCOMPAT_CHECKSUMS: u32 = 0x8 | 0x10;
const BYTES: usize = 1024;
const CHECKSUM: usize = 0xFC;

/// Returns whether the journal is empty according to its superblock. Does not cover fast commits, which follow the log.
pub(super) fn is_empty(device: &File, superblock: &[u8]) -> bool {
    /// `s_start`: the first block of the log, 0 if empty.
    const START: usize = 0x1C;
    le32(superblock, 0x5C) & COMPAT_FAST_COMMIT == 0
        && problem(device, superblock).is_none()
        && load(device, superblock).is_some_and(|found| be32(&found, START) == 0)
}

/// Returns the damage that a mount which loads the journal would find in its superblock (fs/jbd2/journal.c,
/// journal_get_superblock).
pub(super) fn problem(device: &File, superblock: &[u8]) -> Option<String> {
    let geometry = Geometry::parse(superblock).filter(|_| inode_number(superblock) != 0)?;
    let Some(found) = load(device, superblock) else { return Some("its inode is damaged".into()) };
    let word = |at| be32(&found, at);
    let (version, length, first) = (word(0x4), word(0x10), word(0x14));
    let text = match () {
        () if word(0) != MAGIC => "its superblock has no magic number",
        () if ![SUPERBLOCK_V1, SUPERBLOCK_V2].contains(&version) => "its superblock has an unknown version",
        () if version == SUPERBLOCK_V2 && !is_sum_right(&found) => "the checksum of its superblock is wrong",
        () if u64::from(word(0xC)) != geometry.block_size => "its superblock has a wrong block size",
        () if first == 0 || first >= length => "its superblock has a wrong length",
        () if word(0x20) != 0 => "an error aborted it",
        () => return None,
    };
    Some(text.into())
}

fn is_sum_right(found: &[u8]) -> bool {
    let sum = [&found[..CHECKSUM], &[0; 4], &found[CHECKSUM + 4..]].iter().fold(!0, |sum, part| crc32c(sum, part));
    be32(found, 0x28) & INCOMPAT_CHECKSUMS == 0 || sum == be32(found, CHECKSUM)
}

/// Returns the inode number of the journal; 0: no journal, or an external one.
fn inode_number(superblock: &[u8]) -> u32 {
    le32(superblock, 0xE0)
}

/// Loads the superblock in the first block of the journal's inode.
fn load(device: &File, superblock: &[u8]) -> Option<Vec<u8>> {
    let journal = u64::from(inode_number(superblock)).checked_sub(1)?;
    let geometry = Geometry::parse(superblock)?;
    let group = journal / geometry.inodes_per_group;
    let descriptor_at = geometry.descriptors_offset + group * geometry.descriptor_size;
    let descriptor = read(device, descriptor_at, geometry.descriptor_size as usize).ok()?;
    let inode_at = geometry.inode_table(&descriptor)? + journal % geometry.inodes_per_group * geometry.inode_size;
    let inode = read(device, inode_at, geometry.inode_size as usize).ok()?;
    let mut extents: Vec<Extent> = Vec::new();
    let mut content = ext4_format::inode(&geometry, &inode, &mut extents);
    while let Content::Nodes(nodes, depth) = content {
        let node = read(device, *nodes.first()?, geometry.block_size as usize).ok()?;
        content = ext4_format::node(&geometry, &node, depth, &mut extents);
    }
    let first = match content {
        Content::Mapped => extents.iter().find(|extent| extent.logical == 0)?.physical,
        // ext3: the first block of the map.
        Content::Unknown if le32(&inode, 0x20) & INODE_HAS_EXTENTS == 0 => {
            u64::from(le32(&inode, 0x28)) * geometry.block_size
        }
        _ => return None,
    };
    read(device, first, BYTES).ok()
}
