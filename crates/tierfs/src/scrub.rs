//! Scrub: checks a mounted file system, like `check`, under the usual locks.

use crate::check::{RUN, compare_blocks, damaged_block};
use crate::cold::AlignedBuffer;
use crate::format::{BLOCK, Identity, Pointer, superblock};
use crate::fs::TierFs;
use crate::heat::Leaf;
use crate::namespace::target_of;
use crate::record::scan_block;
use crate::region::byte;
use crate::survey::EvictedBlock;
use crate::table::{InodeSlot, inspect};
use crate::tree::Cursor;
use crate::xattr::read_chain;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Further findings are only counted.
const MOST_FINDINGS: usize = 100;

/// Progress and findings of a scrub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Whether a scrub is running or requested.
    pub running: bool,
    /// Scrubs that ended since the mount.
    pub ended: u64,
    /// Inodes checked.
    pub inodes: u64,
    /// Evicted blocks with a correct checksum.
    pub blocks: u64,
    /// Evicted blocks that were read and have no checksum.
    #[serde(default)]
    pub without_sum: u64,
    /// Damaged metadata structures.
    pub damaged_metadata: u64,
    /// Evicted blocks that are damaged or unreadable.
    pub damaged_blocks: u64,
    /// Damage found; the first hundred entries.
    pub findings: Vec<String>,
}

#[derive(Default)]
pub(crate) struct Scrubbed(Mutex<Progress>);

impl Scrubbed {
    pub(crate) fn begin(&self) {
        let mut progress = self.0.lock();
        *progress = Progress { running: true, ended: progress.ended, ..Progress::default() };
    }

    pub(crate) fn progress(&self, wanted: bool) -> Progress {
        let progress = self.0.lock().clone();
        Progress { running: progress.running || wanted, ..progress }
    }

    fn count(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.0.lock());
    }

    fn metadata(&self, finding: String) {
        self.count(|progress| {
            progress.damaged_metadata += 1;
            progress.keep(finding);
        });
    }
}

impl Progress {
    fn keep(&mut self, finding: String) {
        if self.findings.len() < MOST_FINDINGS {
            eprintln!("tier: scrub: {finding}");
            self.findings.push(finding);
        }
    }
}

impl TierFs {
    /// Verifies all checksums concurrently with users of the file system.
    pub(crate) fn scrub(&self) -> Progress {
        self.scrubbed.begin();
        self.scrub_superblock();
        let mut buffer = AlignedBuffer::new(RUN);
        for ino in 1..self.table.end() {
            if self.caretaker.ends() {
                break;
            }
            self.scrub_blocks(self.scrub_inode(ino), &mut buffer);
        }
        self.scrubbed.count(|progress| (progress.running, progress.ended) = (false, progress.ended + 1));
        self.scrubbed.progress(false)
    }

    fn scrub_superblock(&self) {
        let mut header = [0; BLOCK];
        // SAFETY: no thread writes the header of a mounted region.
        unsafe { self.region.read(0, &mut header[..superblock::STATE]) };
        if Identity::decode_region(&header, Path::new("region")).ok() != Some(self.identity) {
            self.scrubbed.metadata("the header of the region is damaged".into());
        }
        if self.region.load(superblock::STATE) != superblock::DIRTY {
            self.scrubbed.metadata("the state word is damaged".into());
        }
        let _growth = self.growth.lock();
        let pointers = [superblock::INODE_TREE, superblock::INODE_TREE_COPY];
        let [root, copy] = pointers.map(|at| Pointer::unseal(self.region.load(at)));
        for (pointer, name) in [(root, "pointer"), (copy, "copy of the pointer")] {
            if pointer.is_none() {
                self.scrubbed.metadata(format!("the {name} to the table of inodes is damaged"));
            }
        }
        if copy.is_some_and(|copy| root.is_some_and(|root| root != copy)) {
            self.scrubbed.metadata("the copy of the pointer to the table of inodes differs from it".into());
        }
        drop(root.map(|root| self.scrub_tree(0, root)));
    }

    /// Checks an inode and its blocks; returns its evicted blocks.
    fn scrub_inode(&self, ino: u32) -> Vec<EvictedBlock> {
        let guard = self.table.slot(ino).lock.read();
        let Ok(offset) = self.table.offset(ino) else { return Vec::new() };
        let inode = match inspect(&self.region, offset) {
            InodeSlot::Free => return Vec::new(),
            InodeSlot::Used(inode) => inode,
            InodeSlot::Damaged => {
                self.scrubbed.metadata(format!("inode {ino} is damaged"));
                return Vec::new();
            }
        };
        self.scrubbed.count(|progress| progress.inodes += 1);
        if read_chain(&self.region, inode.xattr).is_none() {
            self.scrubbed.metadata(format!("the extended attributes of inode {ino} are damaged"));
        }
        if inode.is_link() && target_of(&self.region, &inode).is_none() {
            self.scrubbed.metadata(format!("the target of the symbolic link in inode {ino} is damaged"));
        }
        if inode.is_directory() {
            drop(guard);
            self.scrub_directory(ino);
            return Vec::new();
        }
        if inode.is_file() { self.scrub_tree(ino, inode.root) } else { Vec::new() }
    }

    fn scrub_directory(&self, ino: u32) {
        let Ok(directory) = self.directory(ino) else { return };
        let names = directory.state.read();
        drop(self.scrub_tree(ino, names.root));
        let mut cursor = Cursor::new(&self.region, names.root);
        for index in 0..u64::from(names.blocks) {
            let block = cursor.get(index);
            if block.is_resident()
                && let Err(problem) = scan_block(&self.region, block.address(), 0, 0, &mut |_, _| true)
            {
                self.scrubbed.metadata(format!("directory {ino}: {problem}"));
            }
        }
    }

    /// Checks the nodes of a tree under the inode's lock; returns its evicted blocks.
    fn scrub_tree(&self, ino: u32, root: Pointer) -> Vec<EvictedBlock> {
        let mut evicted = Vec::new();
        self.scrub_node(ino, root.plain(), root.height(), 0, &mut evicted);
        evicted
    }

    fn scrub_node(&self, ino: u32, pointer: Pointer, height: u8, base: u64, evicted: &mut Vec<EvictedBlock>) {
        if pointer.is_hole() || pointer.is_lost() {
            return;
        }
        if height == 0 {
            if pointer.is_cold() {
                evicted.push(EvictedBlock { slot: pointer.address(), leaf: Leaf { ino, index: base as u32 } });
            }
            return;
        }
        let span = crate::tree::capacity(height - 1);
        for child in 0..BLOCK as u64 / 8 {
            let first = base + child * span;
            match Pointer::unseal(self.region.load(byte(pointer.address()) + child as usize * 8)) {
                Some(below) => self.scrub_node(ino, below, height - 1, first, evicted),
                None if ino == 0 => {
                    self.scrubbed.metadata(format!("a pointer to inodes from {} on is damaged", first * 32))
                }
                None => self.scrubbed.metadata(format!("the pointer to block {first} of inode {ino} is damaged")),
            }
        }
    }

    /// Verifies evicted blocks without a lock; those that differ are compared again with the lock of their file, unless they moved.
    fn scrub_blocks(&self, evicted: Vec<EvictedBlock>, buffer: &mut [u8]) {
        let mut compared = compare_blocks(&self.region, &*self.cold, evicted, buffer);
        let mut damaged = Vec::new();
        for (here, _) in compared.damaged {
            let Leaf { ino, index } = here.leaf;
            let _guard = self.table.slot(ino).lock.read();
            let file = self.find(ino).and_then(|(offset, _)| self.load(offset)).unwrap_or_default();
            if Cursor::new(&self.region, file.root).get(u64::from(index)) == Pointer::cold(here.slot) {
                let again = compare_blocks(&self.region, &*self.cold, vec![here], buffer);
                compared.verified += again.verified;
                compared.without_sum += again.without_sum;
                damaged.extend(again.damaged);
            }
        }
        self.scrubbed.count(|progress| {
            progress.blocks += compared.verified;
            progress.without_sum += compared.without_sum;
            progress.damaged_blocks += damaged.len() as u64;
            damaged.iter().for_each(|(bad, why)| progress.keep(damaged_block(bad, why, &BTreeMap::new())));
        });
    }
}
