//! Walks the trees of directories without trusting pointers.

use crate::format::{BLOCK, MAX_HEIGHT, Pointer};
use crate::region::{Region, byte};
use crate::space::BlockMarks;
use crate::tree::capacity;

/// Visits each block once, whatever the pointers of a region are, across all directories.
pub(crate) struct CheckedWalk<'a> {
    region: &'a Region,
    met: BlockMarks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VisitedBlock {
    Block(u32),
    /// Already visited; the pointer is at this byte (`None`: in the inode).
    Again(Option<usize>),
}

impl<'a> CheckedWalk<'a> {
    pub(crate) fn new(region: &'a Region) -> Self {
        Self { region, met: BlockMarks::new(region.blocks()) }
    }

    pub(crate) fn has_met(&self, block: u32) -> bool {
        self.met.is_set(block)
    }

    /// Calls `visit(index, what)` for the stored blocks among the first `blocks` of a tree, ascending. Skips pointers that are
    /// damaged or invalid.
    pub(crate) fn blocks(&self, root: Pointer, blocks: u32, visit: &mut dyn FnMut(u32, VisitedBlock)) {
        if root.height() <= MAX_HEIGHT {
            self.walk((root, None), root.height(), (0, u64::from(blocks)), visit);
        }
    }

    /// Walks a tree; `range` is the first block below `pointer`, and the end of the tree.
    fn walk(
        &self,
        (pointer, at): (Pointer, Option<usize>),
        height: u8,
        range: (u64, u64),
        visit: &mut dyn FnMut(u32, VisitedBlock),
    ) {
        let (first, end) = range;
        if first >= end || !pointer.is_resident() || u64::from(pointer.address()) >= self.region.blocks() {
            return;
        }
        if self.met.set(pointer.address()) {
            return visit(first as u32, VisitedBlock::Again(at));
        }
        if height == 0 {
            return visit(first as u32, VisitedBlock::Block(pointer.address()));
        }
        for child in 0..BLOCK / 8 {
            let at = byte(pointer.address()) + child * 8;
            let first = first + child as u64 * capacity(height - 1);
            if let Some(below) = Pointer::unseal(self.region.load(at)) {
                self.walk((below, Some(at)), height - 1, (first, end), visit);
            }
        }
    }
}
