//! The tree of blocks of a file: lookup, and changes by short-circuit shadow paging.
//!
//! Condit et al., "Better I/O through byte-addressable, persistent memory", SOSP 2009, section 3: a write that one atomic store
//! can make visible is done in place. Any other write copies the changed nodes up to their lowest common ancestor, where one
//! pointer is replaced.

use crate::error::FsResult;
use crate::format::{BLOCK, MAX_HEIGHT, NODE_BITS, Pointer};
use crate::fs::Change;
use crate::region::{Region, byte};
use rustix::io::Errno;

const FANOUT: u64 = 1 << NODE_BITS;

/// Returns the number of blocks that a tree of `height` can index.
pub(crate) fn capacity(height: u8) -> u64 {
    1 << (NODE_BITS * u32::from(height))
}

/// Returns the minimum height that can index block `index`.
pub(crate) fn height_for(index: u64) -> u8 {
    (0..=MAX_HEIGHT).find(|height| index < capacity(*height)).unwrap_or(MAX_HEIGHT)
}

/// Returns the maximum number of fresh blocks for an edit of blocks `first..=last` of the tree of `root`: leaves, nodes
/// above them, and new roots.
pub(crate) fn most_blocks(root: Pointer, first: u64, last: u64) -> usize {
    let leaves = last - first + 1;
    let height = u32::from(root.height().max(height_for(last)));
    let nodes: u64 = (1..=height).map(|level| (last >> (NODE_BITS * level)) - (first >> (NODE_BITS * level)) + 1).sum();
    (leaves + nodes) as usize + usize::from(height_for(last).saturating_sub(root.height()))
}

fn child_at(node: Pointer, child: u64) -> usize {
    byte(node.address()) + child as usize * 8
}

/// Finds pointers of adjacent blocks without a walk from the root each time.
pub(crate) struct Cursor<'a> {
    region: &'a Region,
    root: Pointer,
    /// The last used node above the leaves, and the index of its first leaf.
    node: Option<(Pointer, u64)>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(region: &'a Region, root: Pointer) -> Self {
        Self { region, root, node: None }
    }

    pub(crate) fn get(&mut self, index: u64) -> Pointer {
        match self.slot(index) {
            PointerLocation::Root => self.root.plain(),
            PointerLocation::Node(offset) => self.region.pointer(offset),
            PointerLocation::Nowhere => Pointer::HOLE,
            PointerLocation::Lost => Pointer::LOST,
        }
    }

    pub(crate) fn slot(&mut self, index: u64) -> PointerLocation {
        let height = self.root.height();
        if self.root.is_hole() || index >= capacity(height) {
            return PointerLocation::Nowhere;
        }
        if height == 0 {
            return PointerLocation::Root;
        }
        if self.root.is_cold() {
            return PointerLocation::Lost;
        }
        let first = index & !(FANOUT - 1);
        match self.node {
            Some((node, start)) if start == first => PointerLocation::Node(child_at(node, index - first)),
            _ => {
                let mut node = self.root.plain();
                for level in (1..height).rev() {
                    let child = index >> (NODE_BITS * u32::from(level)) & (FANOUT - 1);
                    node = self.region.pointer(child_at(node, child));
                    if node.is_hole() {
                        return PointerLocation::Nowhere;
                    }
                    if node.is_cold() {
                        return PointerLocation::Lost;
                    }
                }
                self.node = Some((node, first));
                PointerLocation::Node(child_at(node, index - first))
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointerLocation {
    Root,
    /// In a node, at this byte offset.
    Node(usize),
    Nowhere,
    Lost,
}

/// Calls `visit(index, pointer)` for every existing leaf in `first..=last`, ascending, until it returns `false`. A lost node is
/// passed as the first of its leaves.
pub(crate) fn visit(
    region: &Region,
    root: Pointer,
    first: u64,
    last: u64,
    visit: &mut dyn FnMut(u64, Pointer) -> bool,
) {
    walk(region, root.plain(), root.height(), 0, (first, last), visit);
}

fn walk(
    region: &Region,
    pointer: Pointer,
    height: u8,
    base: u64,
    range: (u64, u64),
    visit: &mut dyn FnMut(u64, Pointer) -> bool,
) -> bool {
    if pointer.is_hole() || range.1 < base || range.0 >= base + capacity(height) {
        return true;
    }
    if height == 0 || pointer.is_cold() {
        return visit(base, pointer);
    }
    let span = capacity(height - 1);
    let (low, high) = children(base, span, range);
    (low..=high).all(|child| {
        let below = region.pointer(child_at(pointer, child));
        walk(region, below, height - 1, base + child * span, range, visit)
    })
}

/// Returns the children of a node at `base` that overlap `range`.
fn children(base: u64, span: u64, range: (u64, u64)) -> (u64, u64) {
    let low = range.0.saturating_sub(base) / span;
    let high = (range.1.saturating_sub(base) / span).min(FANOUT - 1);
    (low, high)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visible {
    /// Stores each pointer in place, after its target is durable: each one is valid independently.
    InPlace,
    /// Stores pointers in place: all leaves are past the end, where content is invalid until the file's size changes.
    PastEnd,
    /// At the lowest common ancestor of all changes, by one store.
    AtAncestor,
    /// At the inode, together with its other fields: copies every node on the path.
    AtInode,
}

/// Pointers that an edit stores in place once their targets are durable.
#[derive(Default)]
pub(crate) struct PointerStores {
    pointers: Vec<(usize, Pointer)>,
    of_nodes: bool,
}

/// A change of the leaves `first..=last` of a tree. Its stores are durable after the commit of the inode, or [`Change::sync`].
pub(crate) struct Edit<'c, 'fs, Leaf> {
    pub region: &'c Region,
    pub change: &'c mut Change<'fs>,
    pub first: u64,
    pub last: u64,
    pub visible: Visible,
    /// Whether leaves become holes: drops subtrees within the range, keeps holes.
    pub punch: bool,
    /// Creates the new pointer of a leaf; adds its stores in fresh blocks to the unsynced ones.
    pub leaf: Leaf,
    pub swings: PointerStores,
}

impl<'c, 'fs, Leaf> Edit<'c, 'fs, Leaf>
where
    Leaf: FnMut(&mut Change<'_>, u64, Pointer) -> FsResult<Pointer>,
{
    pub(crate) fn new(
        region: &'c Region,
        change: &'c mut Change<'fs>,
        (first, last): (u64, u64),
        visible: Visible,
        leaf: Leaf,
    ) -> Self {
        Self { region, change, first, last, visible, punch: false, leaf, swings: PointerStores::default() }
    }

    /// Applies the edit. If the returned root differs from `root`, the caller commits it in the inode.
    pub(crate) fn apply(mut self, root: Pointer) -> FsResult<Pointer> {
        let mut root = root;
        let needed = height_for(self.last);
        if self.punch && (root.is_hole() || self.first >= capacity(root.height())) {
            return Ok(root);
        }
        if root.is_hole() {
            root = Pointer::HOLE.with_height(needed);
        }
        while root.height() < needed && !self.punch {
            root = self.grow(root)?;
        }
        let height = root.height();
        let copying = self.visible == Visible::AtInode;
        let edited = self.edit(root.plain(), height, 0, copying)?;
        self.swing();
        Ok(if edited.is_hole() { Pointer::HOLE } else { edited.with_height(height) })
    }

    fn swing(&mut self) {
        let PointerStores { pointers, of_nodes } = std::mem::take(&mut self.swings);
        if pointers.is_empty() {
            return;
        }
        if of_nodes || self.visible != Visible::PastEnd {
            self.change.sync();
        }
        self.change.expose();
        for (at, pointer) in pointers {
            self.region.store_unsynced(&mut self.change.unsynced, at, pointer.seal());
        }
    }

    fn grow(&mut self, root: Pointer) -> FsResult<Pointer> {
        let node = self.change.take()?;
        self.region.clear_node(node);
        self.region.store_pointer(byte(node), root.plain());
        self.change.unsynced.add_block(node);
        Ok(Pointer::resident(node).with_height(root.height() + 1))
    }

    fn edit(&mut self, old: Pointer, height: u8, base: u64, copying: bool) -> FsResult<Pointer> {
        if self.punch && (old.is_hole() || self.covers(base, height)) {
            self.change.drop_tree(old, height);
            return Ok(Pointer::HOLE);
        }
        if height == 0 {
            return (self.leaf)(self.change, base, old);
        }
        if old.is_cold() && !old.is_lost() {
            return Err(Errno::IO);
        }
        let span = capacity(height - 1);
        let (low, high) = children(base, span, (self.first, self.last));
        let in_place = old.is_resident()
            && match self.visible {
                Visible::InPlace | Visible::PastEnd => true,
                Visible::AtAncestor => !copying && low == high,
                Visible::AtInode => false,
            };
        let node = if in_place { old } else { self.fresh_node(old)? };
        for child in low..=high {
            let at = child_at(node, child);
            let before = self.region.pointer(at);
            let first = base + child * span;
            // Discarded parts can be overwritten; damaged ones are left to a repair.
            let is_damaged = before.is_lost() && self.region.load(at) != before.seal();
            if is_damaged && height > 1 && !(self.punch && self.covers(first, height - 1)) {
                return Err(Errno::IO);
            }
            let after = self.edit(before, height - 1, first, !in_place)?;
            if after != before && in_place {
                self.swings.pointers.push((at, after));
                self.swings.of_nodes |= height > 1;
            } else if after != before {
                self.region.store_pointer(at, after);
            }
        }
        if !in_place {
            self.change.unsynced.add_block(node.address());
        }
        Ok(node)
    }

    /// Returns whether all blocks of a tree of `height` from block `base` on are to be changed.
    fn covers(&self, base: u64, height: u8) -> bool {
        self.first <= base && base + capacity(height) - 1 <= self.last
    }

    /// Copies a node; for a hole a node without children, for a lost node one with lost children.
    fn fresh_node(&mut self, old: Pointer) -> FsResult<Pointer> {
        let node = self.change.take()?;
        if old.is_hole() {
            self.region.clear_node(node);
        } else if old.is_lost() {
            (0..FANOUT).for_each(|child| {
                self.region.store_pointer(child_at(Pointer::resident(node), child), Pointer::LOST);
            });
        } else {
            // SAFETY: the node is fresh, and the inode of the old one locked for writing.
            unsafe { self.region.copy_within_blocks(old.address(), node, 0..BLOCK) };
            self.change.drop_tree(old, 0);
        }
        Ok(Pointer::resident(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_heights_and_block_counts_match_the_size() {
        assert_eq!([0, 1, 511, 512, 262_143, 262_144].map(height_for), [0, 1, 1, 2, 2, 3]);
        assert_eq!(height_for(u64::from(u32::MAX)), 4);
        assert_eq!(most_blocks(Pointer::HOLE, 0, 0), 1);
        assert_eq!(most_blocks(Pointer::resident(1), 511, 512), 2 + 2 + 1 + 2);
        assert_eq!(children(512, 1, (0, 600)), (0, 88));
        assert_eq!(children(0, 512, (513, u64::MAX)), (1, 511));
    }
}
