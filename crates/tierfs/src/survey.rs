//! Walks everything that is referenced, on all processors. Rebuilds the in-memory state at mount, and implements `check`.

mod careful;
mod marking;
mod names;

use crate::dir::Directories;
use crate::format::{INODES_PER_BLOCK, Identity, Pointer, ROOT_INO, SUMS_FIRST, superblock};
use crate::heat::{Heat, Leaf};
use crate::problem::{Fix, Problem};
use crate::region::Region;
use crate::space::BlockMarks;
use crate::table::{self, InodeSlot, Table};
pub(crate) use careful::{CheckedWalk, VisitedBlock};
use marking::{PointerPosition, Tree};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) struct Survey {
    pub blocks: BlockMarks,
    pub slots: BlockMarks,
    pub cold: u64,
    pub heat: Heat,
    pub table: Table,
    pub directories: Directories,
    pub inodes: u64,
    pub lost: u64,
    pub findings: Findings,
}

#[derive(Default)]
pub struct Findings {
    /// Used inodes without a name: orphans of a crash.
    pub orphans: Vec<u32>,
    /// Inodes whose link count differs from the number of entries (inode, entries).
    pub miscounted: Vec<(u32, u32)>,
    pub free_inodes: Vec<u32>,
    /// At most [`MOST_PROBLEMS`].
    pub problems: Vec<Problem>,
    pub more_problems: u64,
    /// Inodes with a name but without a position in the table, and their types according to the names.
    pub astray: Vec<(u32, u8)>,
    /// Blocks in the cold store, if requested.
    pub evicted: Vec<EvictedBlock>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EvictedBlock {
    pub slot: u32,
    pub leaf: Leaf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Purpose {
    /// Keep inodes without a name and everything below.
    pub keep_orphans: bool,
    pub list_evicted: bool,
}

/// Further problems are only counted.
pub(crate) const MOST_PROBLEMS: usize = 1000;

struct Walker<'a> {
    region: &'a Region,
    identity: Identity,
    purpose: Purpose,
    blocks: BlockMarks,
    slots: BlockMarks,
    cold: AtomicU64,
    lost: AtomicU64,
    heat: Heat,
    table: Table,
    directories: Directories,
    careful: CheckedWalk<'a>,
    holes: AtomicU64,
    references: Vec<AtomicU32>,
    /// (Directory, its parent, byte of its name).
    parents: Mutex<Vec<(u32, u32, usize)>>,
    /// Directories, and the pointer in their trees to a block of another directory; already reported.
    given_up: Mutex<HashSet<(u32, Option<usize>)>>,
    found: Mutex<Findings>,
}

/// Walks the whole file system without changing it.
pub(crate) fn survey(region: &Region, identity: Identity, purpose: Purpose) -> Survey {
    let mut walker = Walker {
        region,
        identity,
        purpose,
        lost: AtomicU64::new(0),
        blocks: BlockMarks::new(region.blocks()),
        slots: BlockMarks::new(identity.slots),
        cold: AtomicU64::new(0),
        heat: Heat::new(region.blocks()),
        table: Table::new(region.blocks()),
        directories: Directories::default(),
        careful: CheckedWalk::new(region),
        holes: AtomicU64::new(0),
        references: Vec::new(),
        parents: Mutex::default(),
        given_up: Mutex::default(),
        found: Mutex::default(),
    };
    walker.blocks.set(0);
    for block in 0..identity.sum_blocks() as u32 {
        walker.blocks.set(SUMS_FIRST + block);
    }
    walker.slots.set(0);
    walker.inode_tree();
    walker.references = (0..walker.table.end()).map(|_| AtomicU32::new(0)).collect();
    if let Some(root) = walker.references.get(ROOT_INO as usize) {
        root.store(1, Ordering::Relaxed);
    }
    walker.each_inode(&|ino, inode| walker.names(ino, inode));
    walker.connect();
    walker.each_inode(&|ino, inode| walker.content(ino, inode));
    walker.finish()
}

impl Walker<'_> {
    fn problem(&self, ino: u32, fix: Fix, text: String) {
        let mut found = self.found.lock();
        if found.problems.len() < MOST_PROBLEMS {
            found.problems.push(Problem { text, ino, fix });
        } else {
            found.more_problems += 1;
        }
    }

    fn valid(&self, pointer: Pointer) -> bool {
        pointer.is_valid(self.region.blocks(), self.identity.slots)
    }

    /// Marks the tree of inode blocks and enters them into the table.
    fn inode_tree(&self) {
        match Pointer::unseal(self.region.load(superblock::INODE_TREE)) {
            Some(root) if !root.is_cold() && self.valid(root.plain()) => {
                let tree = Tree { ino: 0, is_file: false, is_directory: false };
                self.mark_tree(tree, PointerPosition::root(root), &mut |index, pointer| {
                    self.table.set_block(index as u32, pointer.address());
                });
            }
            _ => self.problem(0, Fix::InodeTree, "the pointer to the table of inodes is damaged".into()),
        }
        if !self.found.lock().problems.is_empty() {
            // The missing root may be in the unreadable part of the table.
            return;
        }
        let root = self.table.offset(ROOT_INO).map(|offset| table::inspect(self.region, offset));
        match root {
            Ok(InodeSlot::Used(inode)) if inode.is_directory() => {}
            Ok(InodeSlot::Damaged) => {}
            _ => self.problem(ROOT_INO, Fix::RootDirectory, "the root directory is missing".into()),
        }
    }

    /// Calls `visit` for every used inode, on all processors.
    fn each_inode(&self, visit: &(dyn Fn(u32, InodeSlot) + Sync)) {
        const CHUNK: u32 = 64;
        let next = AtomicU32::new(0);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let first = next.fetch_add(CHUNK, Ordering::Relaxed);
                        if first >= self.table.block_count() {
                            return;
                        }
                        let last = (first + CHUNK).min(self.table.block_count());
                        for ino in (first * INODES_PER_BLOCK).max(1)..last * INODES_PER_BLOCK {
                            if let Ok(offset) = self.table.offset(ino) {
                                visit(ino, table::inspect(self.region, offset));
                            }
                        }
                    }
                });
            }
        });
    }

    fn finish(self) -> Survey {
        let mut findings = self.found.into_inner();
        findings.free_inodes.sort_unstable_by(|a, b| b.cmp(a));
        findings.problems.sort_by(|a, b| a.text.cmp(&b.text));
        Survey {
            blocks: self.blocks,
            slots: self.slots,
            cold: self.cold.into_inner(),
            heat: self.heat,
            inodes: self.table.numbers().saturating_sub(1 + findings.free_inodes.len() as u64),
            table: self.table,
            directories: self.directories,
            lost: self.lost.into_inner(),
            findings,
        }
    }
}
