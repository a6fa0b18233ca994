//! Searches for unreferenced parts of the table of inodes. Checksums of a block of inodes show its position, names of its inodes
//! its index.

use crate::format::{
    BLOCK, FIRST_INODES, INODE_BYTES, INODES_PER_BLOCK, MAX_HEIGHT, NODE_BITS, Pointer, entry_kind, superblock,
};
use crate::problem::Fix;
use crate::region::{Region, byte};
use crate::survey::Survey;
use crate::table::{InodeSlot, inspect};

/// Target of a pointer of the table: the blocks of inodes from `first` on, and their tree height.
#[derive(Clone, Copy)]
struct Part {
    first: u32,
    height: u8,
}

/// Restores a pointer of the table of inodes if its target is unambiguous; returns whether.
pub(super) fn restore(region: &Region, fix: Fix, found: &Survey) -> bool {
    let restored = match fix {
        Fix::InodeTree => root(region, found).map(|root| set_root(region, root)),
        Fix::InodeBlocks { at, first, height } => search(region, found, Part { first, height })
            .filter(|pointer| Pointer::unseal(region.load(at)) != Some(*pointer))
            .map(|pointer| region.commit_pointer(at, pointer)),
        _ => None,
    };
    restored.is_some()
}

/// Discards the target of a pointer of the table of inodes, except the first block, which every table has.
pub(super) fn give_up(region: &Region, found: &Survey, at: usize, first: u32, height: u8) {
    let rest = if first == 0 { path_to_first(region, found, height) } else { None };
    region.commit_pointer(at, rest.unwrap_or(Pointer::HOLE));
}

pub(super) fn set_root(region: &Region, root: Pointer) {
    region.commit_pointer(superblock::INODE_TREE, root);
    region.commit_pointer(superblock::INODE_TREE_COPY, root);
}

/// Returns the root from its copy, or else the largest tree found.
fn root(region: &Region, found: &Survey) -> Option<Pointer> {
    let wrong = Pointer::unseal(region.load(superblock::INODE_TREE));
    let copy = Pointer::unseal(region.load(superblock::INODE_TREE_COPY));
    let is_other = |root: &Pointer| Some(*root) != wrong;
    copy.filter(|copy| is_inside(region, *copy)).filter(is_other).or_else(|| {
        let mut trees = (1..=MAX_HEIGHT)
            .rev()
            .filter_map(|height| search(region, found, Part { first: 0, height }).map(|tree| tree.with_height(height)));
        trees.find(is_other)
    })
}

/// Returns the only candidate block of a part: unreferenced, well-formed, and consistent with the names.
fn search(region: &Region, found: &Survey, part: Part) -> Option<Pointer> {
    if part.first == 0 && part.height == 0 {
        return Some(Pointer::resident(FIRST_INODES));
    }
    let unused = (0..region.blocks() as u32).filter(|block| !found.blocks.is_set(*block)).map(Pointer::resident);
    let mut fitting =
        unused.filter(|block| holds_inodes(region, *block, part.height) && fits(region, found, part, *block));
    let only = fitting.next()?;
    fitting.next().is_none().then_some(only)
}

fn is_inside(region: &Region, pointer: Pointer) -> bool {
    pointer.is_resident() && u64::from(pointer.address()) < region.blocks()
}

fn children(region: &Region, node: Pointer) -> impl Iterator<Item = Option<Pointer>> {
    (0..BLOCK / 8).map(move |child| Pointer::unseal(region.load(byte(node.address()) + child * 8)))
}

fn inodes_in(region: &Region, block: Pointer) -> impl Iterator<Item = InodeSlot> {
    (0..INODES_PER_BLOCK as usize).map(move |inode| inspect(region, byte(block.address()) + inode * INODE_BYTES))
}

/// Returns whether a block holds inodes of which some are in use or, for `height` > 0, is a node above such blocks.
fn holds_inodes(region: &Region, block: Pointer, height: u8) -> bool {
    if height == 0 {
        return inodes_in(region, block).all(|inode| inode != InodeSlot::Damaged)
            && inodes_in(region, block).any(|inode| inode != InodeSlot::Free);
    }
    let is_node = |child: Option<Pointer>| child.is_some_and(|child| child.is_hole() || is_inside(region, child));
    children(region, block).all(is_node)
        && children(region, block).flatten().any(|child| !child.is_hole() && holds_inodes(region, child, height - 1))
}

/// Returns whether names agree with the inodes of a candidate part at `block`.
fn fits(region: &Region, found: &Survey, part: Part, block: Pointer) -> bool {
    if part.first == 0 {
        return inodes(region, part.height, block, 0) == Some(FIRST_INODES);
    }
    let end = u64::from(part.first) + crate::tree::capacity(part.height);
    let named = found
        .findings
        .astray
        .iter()
        .filter(|(ino, _)| (u64::from(part.first)..end).contains(&u64::from(ino / INODES_PER_BLOCK)));
    let mut agreeing = 0;
    for (ino, kind) in named {
        let at = inodes(region, part.height, block, ino / INODES_PER_BLOCK - part.first);
        let at = at.map(|at| byte(at) + (ino % INODES_PER_BLOCK) as usize * INODE_BYTES);
        match at.map(|at| inspect(region, at)) {
            Some(InodeSlot::Used(inode)) if entry_kind(inode.mode) == *kind => agreeing += 1,
            Some(InodeSlot::Damaged) => {}
            _ => return false,
        }
    }
    agreeing > 0
}

fn inodes(region: &Region, height: u8, node: Pointer, index: u32) -> Option<u32> {
    let mut here = node;
    for level in (0..u32::from(height)).rev() {
        let child = (index >> (NODE_BITS * level)) as usize % (1 << NODE_BITS);
        here =
            Pointer::unseal(region.load(byte(here.address()) + child * 8)).filter(|below| is_inside(region, *below))?;
    }
    Some(here.address())
}

/// Creates nodes above the first block of inodes, in unreferenced blocks.
fn path_to_first(region: &Region, found: &Survey, height: u8) -> Option<Pointer> {
    let mut below = Pointer::resident(FIRST_INODES);
    for _ in 0..height {
        let node = (0..region.blocks() as u32).rev().find(|block| !found.blocks.set(*block))?;
        region.clear_node(node);
        region.store_pointer(byte(node), below);
        region.persist_block(node);
        below = Pointer::resident(node);
    }
    Some(below)
}
