//! Maps bytes of a region to inodes and names.

use crate::TierFs;
use crate::format::{BLOCK, INODE_BYTES, Pointer};
use crate::record::{UNIT, read_record, scan_block};
use crate::region::byte;
use std::ops::Range;

pub(crate) fn bytes_of_inodes(fs: &TierFs) -> Vec<(Range<usize>, u32)> {
    let mut bytes = Vec::new();
    for ino in 1..fs.table.end() {
        let Ok(offset) = fs.table.offset(ino) else { continue };
        let Ok(inode) = fs.load(offset) else { continue };
        bytes.push((offset..offset + INODE_BYTES, ino));
        if inode.is_link() {
            let target = byte(inode.root.address());
            bytes.push((target..target + BLOCK, ino));
        }
    }
    bytes
}

pub(crate) type BytesOfName = (Range<usize>, (u32, Vec<u8>));

/// The records of all directory entries, and the pointers to their blocks.
pub(crate) fn bytes_of_names(fs: &TierFs) -> Vec<BytesOfName> {
    let mut bytes = Vec::new();
    for ino in 1..fs.table.end() {
        let Ok(directory) = fs.directory(ino) else { continue };
        let root = directory.state.read().root;
        assert!(root.height() < 2);
        let pointers: Vec<(Range<usize>, Pointer)> = match root.height() {
            0 => vec![(0..0, root)],
            _ => (0..BLOCK / 8)
                .map(|child| byte(root.address()) + child * 8)
                .map(|at| (at..at + 8, fs.region.pointer(at)))
                .collect(),
        };
        for (pointer, block) in pointers.into_iter().filter(|(_, block)| block.is_resident()) {
            scan_block(&fs.region, block.address(), 0, 0, &mut |entry, name| {
                let at = byte(block.address()) + entry.position as usize * UNIT;
                let length = read_record(&fs.region, at).unwrap().length;
                bytes.extend([at..at + length, pointer.clone()].map(|bytes| (bytes, (ino, name.to_vec()))));
                true
            })
            .unwrap();
        }
    }
    bytes
}
