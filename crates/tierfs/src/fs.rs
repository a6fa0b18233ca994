//! The mounted file system: its parts and shared operations.

use crate::caretaker::Caretaker;
use crate::cold::ColdStore;
use crate::dir::Directories;
use crate::error::FsResult;
use crate::evict::Evictor;
use crate::format::{BLOCK, Identity, Inode, Pointer};
use crate::heat::Heat;
use crate::past_cache::PastCache;
use crate::region::{Region, Unsynced};
use crate::released::ReleasedSlots;
use crate::scrub::Scrubbed;
use crate::space::Space;
use crate::stats::Counters;
use crate::table::{self, Slot, Table};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// Whether cold blocks are evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Memory only, without eviction. The baseline of comparisons.
    Bpfs,
    /// Cold blocks move to the cold store.
    Anticache,
}

/// When reading moves a cold block back to memory. Writing always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promotion {
    /// At the first use.
    Always,
    /// At the second use after eviction or mount.
    Second,
    /// Never by reading.
    Never,
}

/// A mounted file system, without FUSE. Every operation is atomic and durable when it returns.
pub struct TierFs {
    pub(crate) region: Region,
    pub(crate) cold: Box<dyn ColdStore>,
    pub(crate) identity: Identity,
    pub(crate) mode: Mode,
    pub(crate) promotion: Promotion,
    pub(crate) block_sums: bool,
    pub(crate) blocks: Space,
    pub(crate) slots: Space,
    pub(crate) heat: Heat,
    pub(crate) table: Table,
    pub(crate) directories: Directories,
    /// Held by threads that lock more than one directory, to avoid deadlocks.
    pub(crate) topology: Mutex<()>,
    pub(crate) growth: Mutex<()>,
    pub(crate) evictor: Evictor,
    pub(crate) released: ReleasedSlots,
    pub(crate) caretaker: Caretaker,
    pub(crate) scrubbed: Scrubbed,
    pub(crate) past_cache: PastCache,
    pub(crate) counters: Counters,
}

/// Nanoseconds since the epoch.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

impl TierFs {
    /// Returns the byte offset and the volatile part of an inode; ESTALE if it does not exist.
    pub(crate) fn find(&self, ino: u32) -> FsResult<(usize, &Slot)> {
        let offset = self.table.offset(ino)?;
        Ok((offset, self.table.slot(ino)))
    }

    /// Reads an inode. The caller holds its lock.
    pub(crate) fn load(&self, offset: usize) -> FsResult<Inode> {
        table::load(&self.region, offset)
    }

    /// Stores the root of a file's tree; the caller has locked the inode for writing.
    pub(crate) fn commit_root(&self, offset: usize, root: Pointer) {
        if let Ok(mut inode) = self.load(offset) {
            inode.root = root;
            table::commit(&self.region, offset, &inode);
        }
    }

    /// Fails with EIO after a failed persist.
    pub(crate) fn settled(&self) -> FsResult<()> {
        if self.region.nvm().failed() { Err(Errno::IO) } else { Ok(()) }
    }

    /// Fails with EROFS after a failed persist: it is unknown which stores are durable, so nothing may change.
    pub(crate) fn changeable(&self) -> FsResult<()> {
        self.settled().map_err(|_| Errno::ROFS)
    }

    /// Begins a change with at most `blocks` fresh blocks if memory has them; never waits. `freeing` changes may use the reserve,
    /// so that a full file system can be emptied. `None` after a failed persist.
    pub(crate) fn try_begin(&self, blocks: usize, freeing: bool) -> Option<Change<'_>> {
        self.changeable().ok()?;
        let mut reserved = Vec::with_capacity(blocks);
        let taken = self.blocks.take(blocks, freeing, &mut reserved);
        taken.then(|| Change {
            fs: self,
            reserved,
            fresh: Vec::new(),
            dropped: Vec::new(),
            replaced: Vec::new(),
            unsynced: Unsynced::default(),
            exposed: false,
            done: false,
        })
    }

    /// Evicts until there may be space for `blocks` more. The caller must not hold the lock of a regular file.
    pub(crate) fn make_space(&self, blocks: usize) -> FsResult<()> {
        self.changeable()?;
        if self.mode == Mode::Anticache && self.evict_under_pressure(blocks) > 0 {
            return Ok(());
        }
        // Other threads may have freed some.
        if self.blocks.available() >= blocks as u64 { Ok(()) } else { Err(Errno::NOSPC) }
    }

    /// Begins a change like [`try_begin`](Self::try_begin), but evicts if memory is full. For callers without the lock
    /// of a file.
    pub(crate) fn begin(&self, blocks: usize, freeing: bool) -> FsResult<Change<'_>> {
        loop {
            match self.try_begin(blocks, freeing) {
                Some(change) => return Ok(change),
                None => self.make_space(blocks)?,
            }
        }
    }

    /// Frees the blocks and slots of an unreferenced tree; returns their number.
    pub(crate) fn free_tree(&self, root: Pointer, height: u8) -> u32 {
        let mut gone = FreedSpace::default();
        self.collect(root, height, &mut gone);
        self.give(&gone)
    }

    pub(crate) fn collect(&self, pointer: Pointer, height: u8, gone: &mut FreedSpace) {
        if pointer.is_hole() || pointer.is_lost() {
            return;
        }
        if height > 0 {
            for child in 0..BLOCK / 8 {
                let below = self.region.pointer(crate::region::byte(pointer.address()) + child * 8);
                self.collect(below, height - 1, gone);
            }
        }
        let list = if pointer.is_cold() { &mut gone.slots } else { &mut gone.blocks };
        list.push(pointer.address());
    }

    /// Frees removed blocks, unless the removal is not durable: a crash may restore a pointer to them.
    pub(crate) fn give(&self, gone: &FreedSpace) -> u32 {
        if self.changeable().is_ok() {
            for block in &gone.blocks {
                self.heat.release(*block);
            }
            self.blocks.give(&gone.blocks);
            self.release_slots(&gone.slots);
            self.recycle_slots(&gone.recycled);
        }
        (gone.blocks.len() + gone.slots.len() + gone.recycled.len()) as u32
    }
}

#[derive(Default)]
pub(crate) struct FreedSpace {
    pub blocks: Vec<u32>,
    pub slots: Vec<u32>,
    pub recycled: Vec<u32>,
}

/// A change of one tree before its commit: reserved blocks, and blocks to free afterwards. If dropped without
/// [`finish`](Self::finish), it returns its fresh blocks and frees nothing.
pub(crate) struct Change<'a> {
    fs: &'a TierFs,
    reserved: Vec<u32>,
    fresh: Vec<u32>,
    dropped: Vec<(Pointer, u8)>,
    replaced: Vec<u32>,
    /// Stores that are not durable yet.
    pub unsynced: Unsynced,
    /// A fresh block may already be referenced, so it is not returned if the change fails.
    exposed: bool,
    done: bool,
}

impl Change<'_> {
    /// Returns a fresh block with undefined content.
    pub(crate) fn take(&mut self) -> FsResult<u32> {
        let block = self.reserved.pop().ok_or(Errno::NOSPC)?;
        self.fresh.push(block);
        Ok(block)
    }

    /// Frees `pointer` and everything below it (for `height` > 0) after the commit.
    pub(crate) fn drop_tree(&mut self, pointer: Pointer, height: u8) {
        if !pointer.is_hole() {
            self.dropped.push((pointer.plain(), height));
        }
    }

    /// Frees a replaced leaf after the commit.
    pub(crate) fn replace_leaf(&mut self, pointer: Pointer) {
        if pointer.is_cold() && !pointer.is_lost() {
            self.replaced.push(pointer.address());
        } else {
            self.drop_tree(pointer, 0);
        }
    }

    /// Makes all stores so far durable, before any later ones.
    pub(crate) fn sync(&mut self) {
        self.fs.region.sync(&mut self.unsynced);
    }

    /// Commits an inode together with all stores so far.
    pub(crate) fn commit_inode(&mut self, offset: usize, inode: &Inode) {
        table::commit_after(&self.fs.region, &mut self.unsynced, offset, inode);
    }

    pub(crate) fn expose(&mut self) {
        self.exposed = true;
    }

    /// Ends a change that is committed, now or by the next commit, and dropped nothing. Its blocks are not counted.
    pub(crate) fn keep(mut self) {
        self.sync();
        self.done = true;
    }

    /// Ends a committed change: frees dropped blocks and updates the inode's block count.
    pub(crate) fn finish(self, slot: &Slot) {
        let added = self.fresh.len() as u32;
        let freed = self.free_dropped();
        slot.blocks.fetch_add(added.wrapping_sub(freed), Ordering::Relaxed);
    }

    /// Ends a committed change: frees dropped blocks and returns their number.
    pub(crate) fn free_dropped(mut self) -> u32 {
        self.sync();
        self.done = true;
        let mut gone = FreedSpace { recycled: std::mem::take(&mut self.replaced), ..FreedSpace::default() };
        for (pointer, height) in std::mem::take(&mut self.dropped) {
            self.fs.collect(pointer, height, &mut gone);
        }
        self.fs.give(&gone)
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.fs.blocks.give(&self.reserved);
        if !self.done && !self.exposed {
            for block in &self.fresh {
                self.fs.heat.release(*block);
            }
            self.fs.blocks.give(&self.fresh);
        }
    }
}
