//! The walk over everything that is referenced: rebuilds at mount what is known in memory only, and is the heart of
//! `check`. Runs on all processors.

mod careful;
mod marking;

use crate::dir::{Directories, Names, first_position};
use crate::file::B;
use crate::format::{
    BLOCK, INODES_PER_BLOCK, Identity, MAX_HEIGHT, Pointer, ROOT_INO, SUMS_FIRST, entry, entry_kind, superblock,
};
use crate::heat::{Heat, Leaf};
use crate::problem::{Fix, Problem};
use crate::record::{Entry, scan_block};
use crate::region::{Region, byte};
use crate::space::Marks;
use crate::table::{self, Found as AtPlace, Table};
pub(crate) use careful::{Careful, Met};
use marking::{Place, Tree};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What the walk found.
pub struct Survey {
    /// Blocks in use.
    pub blocks: Marks,
    /// Slots in use.
    pub slots: Marks,
    /// How many slots are in use.
    pub cold: u64,
    /// The evictor's view of the blocks.
    pub heat: Heat,
    /// The inodes, with blocks counted.
    pub table: Table,
    /// The directories, indexed.
    pub directories: Directories,
    /// Inodes in use that nothing names: left by a crash.
    pub orphans: Vec<u32>,
    /// Inodes whose stored links differ from the entries that name them (inode, entries).
    pub miscounted: Vec<(u32, u32)>,
    /// Free inode numbers, descending.
    pub free_inodes: Vec<u32>,
    /// Inodes in use.
    pub inodes: u64,
    /// What is wrong; at most [`MOST_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// The blocks in the cold store, if they were asked for.
    pub evicted: Vec<Evicted>,
    /// Blocks of files that an earlier repair gave up.
    pub lost: u64,
}

/// A block in the cold store, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evicted {
    /// Where it is.
    pub slot: u32,
    /// Of which file.
    pub leaf: Leaf,
}

/// What a walk is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Purpose {
    /// Inodes without a name are kept with all they have.
    pub keep_orphans: bool,
    /// The blocks in the cold store are listed.
    pub list_evicted: bool,
}

/// More problems are counted, not kept.
pub const MOST_PROBLEMS: usize = 1000;

struct Walker<'a> {
    region: &'a Region,
    identity: Identity,
    purpose: Purpose,
    blocks: Marks,
    slots: Marks,
    cold: AtomicU64,
    lost: AtomicU64,
    heat: Heat,
    table: Table,
    directories: Directories,
    careful: Careful<'a>,
    /// Blocks that directories claim and do not have.
    holes: AtomicU64,
    references: Vec<AtomicU32>,
    /// Directory, the one that has its name, where the name is.
    parents: Mutex<Vec<(u32, u32, usize)>>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    orphans: Vec<u32>,
    miscounted: Vec<(u32, u32)>,
    free: Vec<u32>,
    problems: Vec<Problem>,
    evicted: Vec<Evicted>,
}

/// Walks the whole file system; changes nothing.
pub fn survey(region: &Region, identity: Identity, purpose: Purpose) -> Survey {
    let mut walker = Walker {
        region,
        identity,
        purpose,
        lost: AtomicU64::new(0),
        blocks: Marks::new(region.blocks()),
        slots: Marks::new(identity.slots),
        cold: AtomicU64::new(0),
        heat: Heat::new(region.blocks()),
        table: Table::new(region.blocks()),
        directories: Directories::default(),
        careful: Careful::new(region),
        holes: AtomicU64::new(0),
        references: Vec::new(),
        parents: Mutex::new(Vec::new()),
        found: Mutex::new(Found::default()),
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
        let problems = &mut self.found.lock().problems;
        if problems.len() < MOST_PROBLEMS {
            problems.push(Problem { text, ino, fix });
        }
    }

    fn valid(&self, pointer: Pointer) -> bool {
        pointer.is_valid(self.region.blocks(), self.identity.slots)
    }

    /// Marks the tree of inode blocks and enters them into the table.
    fn inode_tree(&self) {
        match Pointer::unseal(self.region.load(superblock::INODE_TREE)) {
            Some(root) if !root.is_cold() && self.valid(root.plain()) => {
                let tree = Tree { ino: 0, is_file: false };
                self.mark_tree(tree, Place::root(root), &mut |index, pointer| {
                    self.table.set_block(index as u32, pointer.address());
                });
            }
            _ => self.problem(0, Fix::InodeTree, "the pointer to the table of inodes is damaged".into()),
        }
        let root = self.table.offset(ROOT_INO).map(|offset| table::inspect(self.region, offset));
        match root {
            Ok(AtPlace::Used(inode)) if inode.is_directory() => {}
            Ok(AtPlace::Damaged) => {}
            _ => self.problem(ROOT_INO, Fix::RootDirectory, "there is no root directory".into()),
        }
    }

    /// Calls `visit` for every inode in use, on all processors.
    fn each_inode(&self, visit: &(dyn Fn(u32, AtPlace) + Sync)) {
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

    /// Indexes a directory and counts what its entries name.
    fn names(&self, ino: u32, found: AtPlace) {
        let AtPlace::Used(inode) = found else { return };
        if !inode.is_directory() {
            return;
        }
        if inode.root.height() > MAX_HEIGHT || inode.root.is_cold() || !self.valid(inode.root.plain()) {
            return self.problem(ino, Fix::Tree(ino), format!("directory {ino} has a malformed root"));
        }
        let blocks = inode.size / B;
        if blocks > self.region.blocks() {
            let text = format!("directory {ino} has {blocks} blocks, more than the memory that holds it");
            return self.problem(ino, Fix::Tree(ino), text);
        }
        let blocks = blocks as u32;
        let mut names = Names::new(inode.root, blocks);
        let (mut subdirectories, mut next) = (0, 0);
        self.careful.blocks(inode.root, blocks, &mut |index, met| {
            self.offer_holes(&mut names, next..index);
            next = index + 1;
            match met {
                Met::Block(block) => subdirectories += self.names_in(ino, (index, block), &mut names),
                Met::Again(at) => {
                    let fix = at.map_or(Fix::Tree(ino), |at| Fix::Word(at, Pointer::HOLE));
                    self.problem(
                        ino,
                        fix,
                        format!("the pointer to block {index} of directory {ino} is referenced twice"),
                    );
                }
            }
        });
        // What is damaged is reported when the tree is marked.
        self.offer_holes(&mut names, next..blocks);
        self.directories.insert(ino, ROOT_INO, names).subdirectories.store(subdirectories, Ordering::Relaxed);
    }

    /// Lets new names fill the holes of a directory; of all directories together not more than there is memory.
    fn offer_holes(&self, names: &mut Names, holes: Range<u32>) {
        let before = self.holes.fetch_add(holes.len() as u64, Ordering::Relaxed);
        if before + holes.len() as u64 <= self.region.blocks() {
            holes.for_each(|index| names.offer(index));
        }
    }

    /// Indexes the names in one block; returns how many of them are directories.
    fn names_in(&self, ino: u32, (index, block): (u32, u32), names: &mut Names) -> u32 {
        let (mut used, mut subdirectories) = (0, 0);
        let scanned = scan_block(self.region, block, first_position(index), 0, &mut |entry, name| {
            used += entry::bytes_for(name.len());
            names.insert(self.directories.hash(name), entry.position);
            let at = byte(block) + (entry.position - first_position(index)) as usize * 8;
            subdirectories += u32::from(self.entry(ino, entry, name, at));
            true
        });
        if let Err(problem) = scanned {
            self.problem(ino, Fix::DirectoryBlock(block), format!("directory {ino}: {problem}"));
        }
        if BLOCK - used.min(BLOCK) >= 64 {
            names.offer(index);
        }
        subdirectories
    }

    /// Counts one entry; says whether it names a directory.
    fn entry(&self, directory: u32, entry: Entry, name: &[u8], at: usize) -> bool {
        let found = self.table.offset(entry.ino).map_or(AtPlace::Free, |offset| table::inspect(self.region, offset));
        let is_directory = entry.kind == entry_kind(libc::S_IFDIR);
        let wrong = match found {
            AtPlace::Used(inode) if entry_kind(inode.mode) == entry.kind => {
                self.references[entry.ino as usize].fetch_add(1, Ordering::Relaxed);
                if is_directory {
                    self.parents.lock().push((entry.ino, directory, at));
                }
                return is_directory;
            }
            AtPlace::Used(_) => "of another type",
            AtPlace::Free => "not in use",
            AtPlace::Damaged => "damaged",
        };
        let (name, ino) = (String::from_utf8_lossy(name), entry.ino);
        let text = format!("entry '{name}' of directory {directory} names inode {ino}, which is {wrong}");
        self.problem(directory, Fix::Entry(at), text);
        is_directory
    }

    /// Sets the parents of directories and finds those which the root does not reach.
    fn connect(&self) {
        let parents = std::mem::take(&mut *self.parents.lock());
        let by_child: HashMap<u32, (u32, usize)> =
            parents.iter().map(|(child, parent, at)| (*child, (*parent, *at))).collect();
        for (child, parent, at) in &parents {
            match self.directories.get(*child) {
                Some(directory) => directory.parent.store(*parent, Ordering::Relaxed),
                None => continue,
            }
            if by_child[child].1 != *at || *child == ROOT_INO {
                self.problem(*child, Fix::Entry(*at), format!("directory {child} has more than one name"));
            }
        }
        let mut reached: HashMap<u32, bool> = HashMap::from([(ROOT_INO, true)]);
        for child in by_child.keys() {
            let mut path = vec![*child];
            let answer = loop {
                let here = path[path.len() - 1];
                match (reached.get(&here), by_child.get(&here)) {
                    (Some(answer), _) => break *answer,
                    (None, Some((parent, _))) if path.len() <= by_child.len() => path.push(*parent),
                    // The top of the chain is a directory without a name: an orphan with content.
                    (None, None) => break self.purpose.keep_orphans,
                    _ => break false,
                }
            };
            for directory in path {
                if !*reached.entry(directory).or_insert(answer) && !answer {
                    let fix = by_child.get(&directory).map_or(Fix::State, |(_, at)| Fix::Entry(*at));
                    self.problem(directory, fix, format!("directory {directory} cannot be reached from the root"));
                }
            }
        }
    }

    fn finish(self) -> Survey {
        let mut found = self.found.into_inner();
        found.free.sort_unstable_by(|a, b| b.cmp(a));
        found.problems.sort_by(|a, b| a.text.cmp(&b.text));
        let in_use = self.table.numbers().saturating_sub(1 + found.free.len() as u64);
        Survey {
            blocks: self.blocks,
            slots: self.slots,
            cold: self.cold.into_inner(),
            heat: self.heat,
            table: self.table,
            directories: self.directories,
            orphans: found.orphans,
            miscounted: found.miscounted,
            free_inodes: found.free,
            inodes: in_use,
            problems: found.problems,
            evicted: found.evicted,
            lost: self.lost.into_inner(),
        }
    }
}
