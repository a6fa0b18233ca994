//! Reads the names of directories and counts links.

use super::{VisitedBlock, Walker};
use crate::dir::{Names, first_position};
use crate::file::B;
use crate::format::{BLOCK, MAX_HEIGHT, Pointer, ROOT_INO, entry, entry_kind};
use crate::namespace::check_name;
use crate::problem::Fix;
use crate::record::{DirEntry, UNIT, read_record, scan_block};
use crate::region::byte;
use crate::table::{self, InodeSlot};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// A directory's name: parent directory, and byte of the region.
type NameOf = (u32, usize);

impl Walker<'_> {
    pub(super) fn names(&self, ino: u32, found: InodeSlot) {
        let InodeSlot::Used(inode) = found else { return };
        if !inode.is_directory() {
            return;
        }
        if inode.root.height() > MAX_HEIGHT || inode.root.is_cold() || !self.valid(inode.root.plain()) {
            return self.problem(ino, Fix::Tree(ino), format!("directory {ino} has a malformed root"));
        }
        let blocks = inode.size / B;
        if blocks > self.region.blocks() {
            let text = format!("directory {ino} has {blocks} blocks, more than its memory holds");
            return self.problem(ino, Fix::Tree(ino), text);
        }
        let blocks = blocks as u32;
        let mut names = Names::new(inode.root, blocks);
        let (mut subdirectories, mut next) = (0, 0);
        let mut walked = Vec::new();
        self.careful.blocks(inode.root, blocks, &mut |index, met| {
            self.offer_holes(&mut names, next..index);
            next = index + 1;
            match met {
                // It belongs to the table of inodes, or to no tree; reported when the tree is marked.
                VisitedBlock::Block(block) if self.blocks.is_set(block) => {}
                VisitedBlock::Block(block) => {
                    walked.push((index, block));
                    subdirectories += self.names_in(ino, &walked, &mut names);
                }
                VisitedBlock::Again(at) => {
                    self.given_up.lock().insert((ino, at));
                    let fix = at.map_or(Fix::Tree(ino), |at| Fix::Word(at, Pointer::HOLE));
                    self.problem(
                        ino,
                        fix,
                        format!("the pointer to block {index} of directory {ino} is referenced twice"),
                    );
                }
            }
        });
        // Damage is reported when the tree is marked.
        self.offer_holes(&mut names, next..blocks);
        self.directories.insert(ino, ROOT_INO, names).subdirectories.store(subdirectories, Ordering::Relaxed);
    }

    /// Offers the holes of a directory for new names; limited across all directories by the memory size.
    fn offer_holes(&self, names: &mut Names, holes: Range<u32>) {
        let before = self.holes.fetch_add(holes.len() as u64, Ordering::Relaxed);
        if before + holes.len() as u64 <= self.region.blocks() {
            holes.for_each(|index| names.offer(index));
        }
    }

    /// Indexes the names in the last of the walked blocks (index, block); returns the number of directories.
    fn names_in(&self, ino: u32, walked: &[(u32, u32)], names: &mut Names) -> u32 {
        let Some(&(index, block)) = walked.last() else { return 0 };
        let (mut used, mut subdirectories) = (0, 0);
        let scanned = scan_block(self.region, block, first_position(index), 0, &mut |entry, name| {
            used += entry::bytes_for(name.len());
            let (hash, at) = (self.directories.hash(name), record_at(block, entry.position));
            let is_same = |position| self.is_named(walked, position, name);
            let wrong = match check_name(name) {
                Err(_) => Some("is not a name"),
                Ok(()) if names.has(hash, is_same) => Some("occurs twice"),
                Ok(()) => None,
            };
            if let Some(wrong) = wrong {
                let text = format!("entry '{}' of directory {ino} {wrong}", name.escape_ascii());
                self.problem(ino, Fix::Entry(at), text);
            } else {
                names.insert(hash, entry.position);
                subdirectories += u32::from(self.entry(ino, entry, name, at));
            }
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

    /// Returns whether the record at a position has this name, in a directory whose blocks (index, block) up to it were
    /// walked.
    fn is_named(&self, walked: &[(u32, u32)], position: u32, name: &[u8]) -> bool {
        let block = walked.binary_search_by_key(&(position / first_position(1)), |(index, _)| *index);
        let record = block.ok().and_then(|found| read_record(self.region, record_at(walked[found].1, position)));
        record.is_some_and(|record| record.name() == name)
    }

    /// Counts one entry; returns whether it names a directory.
    fn entry(&self, directory: u32, entry: DirEntry, name: &[u8], at: usize) -> bool {
        let found = self.table.offset(entry.ino).map_or(InodeSlot::Free, |offset| table::inspect(self.region, offset));
        let is_directory = entry.kind == entry_kind(libc::S_IFDIR);
        let wrong = match found {
            InodeSlot::Used(inode) if entry_kind(inode.mode) == entry.kind => {
                self.references[entry.ino as usize].fetch_add(1, Ordering::Relaxed);
                if is_directory {
                    self.parents.lock().push((entry.ino, directory, at));
                }
                return is_directory;
            }
            InodeSlot::Used(_) => "of another type",
            InodeSlot::Free => "not in use",
            InodeSlot::Damaged => "damaged",
        };
        let (name, ino) = (String::from_utf8_lossy(name), entry.ino);
        let text = format!("entry '{name}' of directory {directory} names inode {ino}, which is {wrong}");
        self.problem(directory, Fix::Entry(at), text);
        if self.table.offset(ino).is_err() {
            self.found.lock().astray.push((ino, entry.kind));
        }
        is_directory
    }

    /// Sets the parents of directories and finds those that the root does not reach.
    pub(super) fn connect(&self) {
        let mut parents = std::mem::take(&mut *self.parents.lock());
        parents.sort_unstable();
        let mut name_of: HashMap<u32, NameOf> = HashMap::new();
        for (child, parent, at) in parents {
            let Some(directory) = self.directories.get(child) else { continue };
            if child == ROOT_INO || name_of.contains_key(&child) {
                self.problem(child, Fix::Entry(at), format!("directory {child} has more than one name"));
            } else {
                directory.parent.store(parent, Ordering::Relaxed);
                name_of.insert(child, (parent, at));
            }
        }
        self.reach(&name_of);
    }

    /// Reports unreachable directories: one per cycle, so that the others keep their names.
    fn reach(&self, name_of: &HashMap<u32, NameOf>) {
        // `None` while it is on the current path.
        let mut reached: HashMap<u32, Option<bool>> = HashMap::from([(ROOT_INO, Some(true))]);
        let mut children: Vec<u32> = name_of.keys().copied().collect();
        children.sort_unstable();
        for child in children {
            let (mut path, mut here) = (Vec::new(), child);
            let answer = loop {
                match (reached.get(&here), name_of.get(&here)) {
                    (Some(Some(answer)), _) => break *answer,
                    (Some(None), _) => {
                        let circle = path.iter().position(|above| *above == here).map_or(&path[..], |at| &path[at..]);
                        self.circle(circle, name_of);
                        break true;
                    }
                    (None, Some((parent, _))) => {
                        reached.insert(here, None);
                        path.push(here);
                        here = *parent;
                    }
                    // The top of the chain is a directory without a name: an orphan with content.
                    (None, None) => break self.purpose.keep_orphans,
                }
            };
            for directory in path {
                reached.insert(directory, Some(answer));
                if !answer {
                    let fix = Fix::Entry(name_of[&directory].1);
                    self.problem(directory, fix, format!("directory {directory} is not reachable from the root"));
                }
            }
        }
    }

    fn circle(&self, directories: &[u32], name_of: &HashMap<u32, NameOf>) {
        if let Some(least) = directories.iter().min() {
            let text = format!("directory {least} is inside itself, through {} names", directories.len());
            self.problem(*least, Fix::Entry(name_of[least].1), text);
        }
    }
}

/// Returns the byte of the region of the record at a position, if it is in `block`.
fn record_at(block: u32, position: u32) -> usize {
    byte(block) + position as usize * UNIT % BLOCK
}
