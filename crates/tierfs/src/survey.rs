//! The walk over everything that is referenced: rebuilds at mount what is known in memory only, and is the heart of
//! `check`. Runs on all processors.

use crate::dir::{Directories, Names, first_position, scan_block};
use crate::file::B;
use crate::format::{
    BLOCK, INODES_PER_BLOCK, Identity, Inode, MAX_FILE_BYTES, MAX_HEIGHT, Pointer, ROOT_INO, entry, entry_kind,
    superblock,
};
use crate::heat::{Heat, Leaf};
use crate::region::{Region, byte};
use crate::space::Marks;
use crate::table::{self, Table};
use crate::tree::capacity;
use crate::xattr;
use parking_lot::Mutex;
use std::collections::HashMap;
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
    pub problems: Vec<String>,
}

/// More problems are counted, not kept.
pub const MOST_PROBLEMS: usize = 1000;

struct Walker<'a> {
    region: &'a Region,
    identity: Identity,
    blocks: Marks,
    slots: Marks,
    cold: AtomicU64,
    heat: Heat,
    table: Table,
    directories: Directories,
    references: Vec<AtomicU32>,
    parents: Mutex<Vec<(u32, u32)>>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    orphans: Vec<u32>,
    miscounted: Vec<(u32, u32)>,
    free: Vec<u32>,
    problems: Vec<String>,
}

/// Walks the whole file system; changes nothing.
pub fn survey(region: &Region, identity: Identity) -> Survey {
    let mut walker = Walker {
        region,
        identity,
        blocks: Marks::new(region.blocks()),
        slots: Marks::new(identity.slots),
        cold: AtomicU64::new(0),
        heat: Heat::new(region.blocks()),
        table: Table::new(region.blocks()),
        directories: Directories::default(),
        references: Vec::new(),
        parents: Mutex::new(Vec::new()),
        found: Mutex::new(Found::default()),
    };
    walker.blocks.set(0);
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
    fn problem(&self, text: String) {
        let problems = &mut self.found.lock().problems;
        if problems.len() < MOST_PROBLEMS {
            problems.push(text);
        }
    }

    fn valid(&self, pointer: Pointer) -> bool {
        pointer.is_valid(self.region.blocks(), self.identity.slots)
    }

    /// Marks the tree of inode blocks and enters them into the table.
    fn inode_tree(&self) {
        let root = Pointer(self.region.load(superblock::INODE_TREE));
        let mut next = 0;
        self.mark_tree(root.plain(), root.height(), 0, "the table of inodes", &mut |index, pointer| {
            if index != next || !pointer.is_resident() {
                self.problem(format!("block {index} of the table of inodes is missing or cold"));
            } else {
                self.table.add_block(pointer.address());
                next += 1;
            }
        });
        let root_inode = self.table.offset(ROOT_INO).ok().and_then(|offset| table::load(self.region, offset));
        if !root_inode.is_some_and(|inode| inode.is_directory()) {
            self.problem("there is no root directory".into());
        }
    }

    /// Calls `visit` for every inode in use, on all processors.
    fn each_inode(&self, visit: &(dyn Fn(u32, Option<Inode>) + Sync)) {
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
                            let offset = self.table.offset(ino).unwrap_or(0);
                            visit(ino, table::load(self.region, offset));
                        }
                    }
                });
            }
        });
    }

    /// Indexes a directory and counts what its entries name.
    fn names(&self, ino: u32, inode: Option<Inode>) {
        let Some(inode) = inode.filter(Inode::is_directory) else { return };
        if inode.root.height() > MAX_HEIGHT || !self.valid(inode.root) {
            return self.problem(format!("directory {ino} has a malformed root"));
        }
        let blocks = (inode.size / B) as u32;
        let mut names = Names::new(inode.root, blocks);
        let mut subdirectories = 0;
        for index in 0..blocks {
            let Some(pointer) = self.careful_get(inode.root, u64::from(index)) else {
                self.problem(format!("block {index} of directory {ino} is missing"));
                continue;
            };
            let mut used = 0;
            let scanned = scan_block(self.region, pointer, first_position(index), 0, &mut |entry, name| {
                used += entry::bytes_for(name.len());
                names.insert(self.directories.hash(name), entry.position);
                subdirectories += u32::from(self.entry(ino, entry, name));
                true
            });
            if let Err(problem) = scanned {
                self.problem(format!("directory {ino}: {problem}"));
            }
            if BLOCK - used.min(BLOCK) >= 64 {
                names.offer(index);
            }
        }
        self.directories.insert(ino, ROOT_INO, names).subdirectories.store(subdirectories, Ordering::Relaxed);
    }

    /// Counts one entry; says whether it names a directory.
    fn entry(&self, directory: u32, entry: crate::dir::Entry, name: &[u8]) -> bool {
        let inode = self.table.offset(entry.ino).ok().and_then(|offset| table::load(self.region, offset));
        let is_directory = entry.kind == entry_kind(libc::S_IFDIR);
        match inode {
            Some(inode) if entry_kind(inode.mode) == entry.kind => {
                self.references[entry.ino as usize].fetch_add(1, Ordering::Relaxed);
                if is_directory {
                    self.parents.lock().push((entry.ino, directory));
                }
            }
            _ => self.problem(format!(
                "entry '{}' of directory {directory} names inode {}, which is {}",
                String::from_utf8_lossy(name),
                entry.ino,
                if inode.is_some() { "of another type" } else { "not in use" }
            )),
        }
        is_directory
    }

    /// Looks a block of a tree up, believing no pointer.
    fn careful_get(&self, root: Pointer, index: u64) -> Option<u32> {
        let mut node = root.plain();
        if index >= capacity(root.height()) {
            return None;
        }
        for level in (0..root.height()).rev() {
            if !node.is_resident() || !self.valid(node) {
                return None;
            }
            let child = index >> (9 * u32::from(level)) & 511;
            node = Pointer(self.region.load(byte(node.address()) + child as usize * 8));
        }
        (node.is_resident() && self.valid(node)).then(|| node.address())
    }

    /// Sets the parents of directories and finds those which the root does not reach.
    fn connect(&self) {
        let parents = std::mem::take(&mut *self.parents.lock());
        let by_child: HashMap<u32, u32> = parents.iter().copied().collect();
        for (child, parent) in &parents {
            match self.directories.get(*child) {
                Some(directory) => directory.parent.store(*parent, Ordering::Relaxed),
                None => continue,
            }
            if by_child[child] != *parent || *child == ROOT_INO {
                self.problem(format!("directory {child} has more than one name"));
            }
        }
        let mut reached: HashMap<u32, bool> = HashMap::from([(ROOT_INO, true)]);
        for child in by_child.keys() {
            let mut path = vec![*child];
            let answer = loop {
                let here = path[path.len() - 1];
                match (reached.get(&here), by_child.get(&here)) {
                    (Some(answer), _) => break *answer,
                    (None, Some(parent)) if path.len() <= by_child.len() => path.push(*parent),
                    // The top of the chain is a directory without a name: it counts as an orphan with content.
                    _ => break false,
                }
            };
            for directory in path {
                if !*reached.entry(directory).or_insert(answer) && !answer {
                    self.problem(format!("directory {directory} cannot be reached from the root"));
                }
            }
        }
    }

    /// Marks the blocks of an inode, or notes that it is free or an orphan.
    fn content(&self, ino: u32, inode: Option<Inode>) {
        let Some(inode) = inode else {
            return self.found.lock().free.push(ino);
        };
        let references = self.references[ino as usize].load(Ordering::Relaxed);
        if references == 0 {
            return self.found.lock().orphans.push(ino);
        }
        let expected = if inode.is_directory() { 2 } else { references };
        if inode.links != expected {
            self.found.lock().miscounted.push((ino, expected));
        }
        if !inode.is_device() && inode.size > MAX_FILE_BYTES {
            self.problem(format!("inode {ino} claims {} bytes", inode.size));
        }
        let what = format!("inode {ino}");
        let mut count = 0;
        if !inode.is_device() {
            count += self.mark_tree(inode.root.plain(), inode.root.height(), 0, &what, &mut |index, pointer| {
                if inode.is_file() && pointer.is_resident() {
                    self.heat.adopt(pointer.address(), Leaf { ino, index: index as u32 });
                } else if !inode.is_file() && pointer.is_cold() {
                    self.problem(format!("{what} is no file but has a cold block"));
                }
            });
        }
        if !inode.xattr.is_hole() {
            count += self.mark_tree(inode.xattr, 0, 0, &what, &mut |_, pointer| {
                let mut block = [0; BLOCK];
                if pointer.is_resident() {
                    // SAFETY: nothing is written while the region is surveyed.
                    unsafe { self.region.read(byte(pointer.address()), &mut block) };
                }
                if pointer.is_cold() || xattr::decode(&block).is_none() {
                    self.problem(format!("the extended attributes of {what} are malformed"));
                }
            });
        }
        self.table.slot(ino).blocks.store(count, Ordering::Relaxed);
    }

    /// Marks a tree and calls `leaf` for each leaf, ascending; returns the number of its blocks.
    fn mark_tree(
        &self,
        pointer: Pointer,
        height: u8,
        base: u64,
        what: &str,
        leaf: &mut dyn FnMut(u64, Pointer),
    ) -> u32 {
        if pointer.is_hole() {
            return 0;
        }
        if !self.valid(pointer) || height > MAX_HEIGHT || pointer.is_cold() && height > 0 || base > u64::from(u32::MAX)
        {
            self.problem(format!("{what} has a malformed pointer {:#x} at block {base}", pointer.0));
            return 0;
        }
        let (marks, tier) = if pointer.is_cold() { (&self.slots, "slot") } else { (&self.blocks, "block") };
        if marks.set(pointer.address()) {
            self.problem(format!("{tier} {} of {what} is referenced twice", pointer.address()));
            return 0;
        }
        self.cold.fetch_add(u64::from(pointer.is_cold()), Ordering::Relaxed);
        if height == 0 {
            leaf(base, pointer);
            return 1;
        }
        let span = capacity(height - 1);
        let children = (0..BLOCK as u64 / 8).map(|child| {
            let below = Pointer(self.region.load(byte(pointer.address()) + child as usize * 8));
            self.mark_tree(below, height - 1, base + child * span, what, leaf)
        });
        1 + children.sum::<u32>()
    }

    fn finish(self) -> Survey {
        let mut found = self.found.into_inner();
        found.free.sort_unstable_by(|a, b| b.cmp(a));
        found.problems.sort();
        let in_use = u64::from(self.table.end()).saturating_sub(1 + found.free.len() as u64);
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
        }
    }
}
