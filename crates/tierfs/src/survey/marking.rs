//! Marks the blocks that inodes refer to.

use super::{EvictedBlock, Walker};
use crate::format::{BLOCK, FIRST_INODES, Inode, MAX_FILE_BYTES, MAX_HEIGHT, Pointer};
use crate::heat::Leaf;
use crate::namespace::target_of;
use crate::problem::Fix;
use crate::region::byte;
use crate::table::InodeSlot;
use crate::tree::capacity;
use crate::xattr;
use std::sync::atomic::Ordering;

/// A tree: of an inode, or (0) of the table of inodes.
#[derive(Clone, Copy)]
pub(super) struct Tree {
    pub ino: u32,
    pub is_file: bool,
    pub is_directory: bool,
}

impl Tree {
    fn is_table(self) -> bool {
        self.ino == 0
    }

    fn is_other(self) -> bool {
        !self.is_table() && !self.is_directory
    }

    fn name(self) -> String {
        if self.is_table() { "the table of inodes".into() } else { format!("inode {}", self.ino) }
    }
}

/// A pointer during a walk: its value, its location (`None`: in the inode), the height below it, the first block.
#[derive(Clone, Copy)]
pub(super) struct PointerPosition {
    pointer: Pointer,
    at: Option<usize>,
    height: u8,
    base: u64,
}

impl PointerPosition {
    /// Returns whether the pointer to the first block of inodes is elsewhere, or another pointer is in its place.
    fn is_misplaced(self) -> bool {
        self.base == 0 && (self.height == 0) != (self.pointer.address() == FIRST_INODES)
    }

    pub(crate) fn root(root: Pointer) -> Self {
        Self { pointer: root.plain(), at: None, height: root.height(), base: 0 }
    }
}

impl Walker<'_> {
    pub(super) fn content(&self, ino: u32, found: InodeSlot) {
        let inode = match found {
            InodeSlot::Free => return self.found.lock().free_inodes.push(ino),
            InodeSlot::Damaged => return self.problem(ino, Fix::Inode(ino), format!("inode {ino} is damaged")),
            InodeSlot::Used(inode) => inode,
        };
        let references = self.references[ino as usize].load(Ordering::Relaxed);
        if references == 0 {
            self.found.lock().orphans.push(ino);
            if !self.purpose.keep_orphans || inode.links == 0 {
                return;
            }
        }
        let expected = if inode.is_directory() { 2 } else { references };
        if inode.links != expected && references > 0 {
            self.found.lock().miscounted.push((ino, expected));
        }
        if inode.length() > MAX_FILE_BYTES {
            self.problem(ino, Fix::Inode(ino), format!("inode {ino} claims {} bytes", inode.size));
        }
        let mut count = 0;
        if !inode.is_device() {
            count += self.mark_content(ino, &inode);
        }
        if inode.is_link() && target_of(self.region, &inode).is_none() {
            self.problem(ino, Fix::Inode(ino), format!("the target of the symbolic link in inode {ino} is damaged"));
        }
        count += self.mark_attributes(ino, &inode);
        self.table.slot(ino).blocks.store(count, Ordering::Relaxed);
    }

    fn mark_content(&self, ino: u32, inode: &Inode) -> u32 {
        let tree = Tree { ino, is_file: inode.is_file(), is_directory: inode.is_directory() };
        self.mark_tree(tree, PointerPosition::root(inode.root), &mut |index, pointer| {
            let leaf = Leaf { ino, index: index as u32 };
            if inode.is_file() && pointer.is_resident() {
                self.heat.adopt(pointer.address(), leaf);
            } else if pointer.is_cold() && self.purpose.list_evicted {
                self.found.lock().evicted.push(EvictedBlock { slot: pointer.address(), leaf });
            }
        })
    }

    /// Marks the chain of an inode's attributes; returns its number of blocks.
    fn mark_attributes(&self, ino: u32, inode: &Inode) -> u32 {
        let chain = xattr::read_chain(self.region, inode.xattr);
        let blocks = chain.as_ref().map_or(&[][..], |chain| &chain.blocks);
        let twice = blocks.iter().filter(|block| self.blocks.set(**block)).count();
        if chain.is_none() || twice > 0 {
            let text = format!("the extended attributes of inode {ino} are damaged");
            self.problem(ino, Fix::Attributes(ino), text);
        }
        blocks.len() as u32
    }

    /// Marks a tree and calls `leaf` for each leaf, ascending; returns its number of blocks.
    pub(super) fn mark_tree(&self, tree: Tree, place: PointerPosition, leaf: &mut dyn FnMut(u64, Pointer)) -> u32 {
        let PointerPosition { pointer, height, base, .. } = place;
        if pointer.is_hole() {
            if tree.is_table() && base == 0 {
                self.give_up(tree, place, "is missing");
            }
            return 0;
        }
        if tree.is_directory && self.given_up.lock().contains(&(tree.ino, place.at)) {
            return 0;
        }
        if pointer.is_lost() && tree.is_file {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return 0;
        }
        let cold_node = pointer.is_cold() && (height > 0 || !tree.is_file);
        let misplaced = cold_node || tree.is_table() && place.is_misplaced();
        if !self.valid(pointer) || height > MAX_HEIGHT || misplaced || base > u64::from(u32::MAX) {
            self.give_up(tree, place, "is malformed");
            return 0;
        }
        let marks = if pointer.is_cold() { &self.slots } else { &self.blocks };
        // If a file shares a block with a directory, the file is discarded and the names are kept.
        let has_names = tree.is_other() && pointer.is_resident() && self.careful.has_met(pointer.address());
        if has_names || marks.set(pointer.address()) {
            self.give_up(tree, place, "is referenced twice");
            return 0;
        }
        self.cold.fetch_add(u64::from(pointer.is_cold()), Ordering::Relaxed);
        if height == 0 {
            leaf(base, pointer);
            return 1;
        }
        let span = capacity(height - 1);
        let children = (0..BLOCK as u64 / 8).map(|child| {
            let at = byte(pointer.address()) + child as usize * 8;
            let below =
                PointerPosition { pointer: Pointer::HOLE, at: Some(at), height: height - 1, base: base + child * span };
            match Pointer::unseal(self.region.load(at)) {
                Some(pointer) => self.mark_tree(tree, PointerPosition { pointer, ..below }, leaf),
                None => {
                    self.give_up(tree, below, "is damaged");
                    0
                }
            }
        });
        1 + children.sum::<u32>()
    }

    fn give_up(&self, tree: Tree, place: PointerPosition, wrong: &str) {
        let nothing = if tree.is_file { Pointer::LOST } else { Pointer::HOLE };
        let fix = match place.at {
            Some(at) if tree.is_table() => {
                Fix::InodeBlocks { at, first: u32::try_from(place.base).unwrap_or(u32::MAX), height: place.height }
            }
            None if tree.is_table() => Fix::InodeTree,
            Some(at) => Fix::Word(at, nothing),
            None => Fix::Tree(tree.ino),
        };
        let blocks = match (place.base, place.base + capacity(place.height.min(MAX_HEIGHT)) - 1) {
            (first, last) if first == last => format!("block {first}"),
            (first, last) => format!("blocks {first} to {last}"),
        };
        self.problem(tree.ino, fix, format!("the pointer to {blocks} of {} {wrong}", tree.name()));
    }
}
