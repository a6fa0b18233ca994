//! The mounted file system: its parts and what all operations share.

use crate::caretaker::Caretaker;
use crate::cold::ColdStore;
use crate::dir::Directories;
use crate::error::FsResult;
use crate::evict::Evictor;
use crate::format::{BLOCK, Identity, Inode, Pointer};
use crate::heat::Heat;
use crate::past_cache::PastCache;
use crate::region::{Region, Unsynced};
use crate::released::Released;
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
    /// Memory only: nothing is evicted. The baseline of comparisons.
    Bpfs,
    /// Cold blocks move to the cold store.
    Anticache,
}

/// When a cold block that is read comes back to memory. A block that is written always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promotion {
    /// At its first use.
    Always,
    /// At its second use since it was evicted or the file system was mounted.
    Second,
    /// Never by reading.
    Never,
}

/// A mounted file system, without FUSE. Every operation is durable and visible as a whole when it returns.
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
    /// Held by whoever holds more than one directory, so that they cannot wait for each other.
    pub(crate) topology: Mutex<()>,
    pub(crate) growth: Mutex<()>,
    pub(crate) evictor: Evictor,
    pub(crate) released: Released,
    pub(crate) caretaker: Caretaker,
    pub(crate) scrubbed: Scrubbed,
    pub(crate) past_cache: PastCache,
    pub(crate) counters: Counters,
}

/// Nanoseconds since the epoch.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

impl TierFs {
    /// The byte offset and the volatile part of an inode that the caller names; ESTALE if there is none.
    pub(crate) fn find(&self, ino: u32) -> FsResult<(usize, &Slot)> {
        let offset = self.table.offset(ino)?;
        Ok((offset, self.table.slot(ino)))
    }

    /// Reads an inode; the caller holds its lock.
    pub(crate) fn load(&self, offset: usize) -> FsResult<Inode> {
        table::load(&self.region, offset)
    }

    /// Stores the root of a file's tree; the caller has its inode locked for writing.
    pub(crate) fn commit_root(&self, offset: usize, root: Pointer) {
        if let Ok(mut inode) = self.load(offset) {
            inode.root = root;
            table::commit(&self.region, offset, &inode);
        }
    }

    /// Whether everything that was stored is durable.
    pub fn settled(&self) -> FsResult<()> {
        if self.region.nvm().failed() { Err(Errno::IO) } else { Ok(()) }
    }

    /// EROFS once persisting has failed: nobody knows which stores are durable, so that nothing may be changed or used again.
    pub(crate) fn changeable(&self) -> FsResult<()> {
        self.settled().map_err(|_| Errno::ROFS)
    }

    /// A change with at most `blocks` fresh blocks, if memory has them; never waits. `freeing` changes may use the
    /// reserve, so that a full file system can be emptied. No change begins once persisting has failed.
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
        // Others may have freed some meanwhile.
        if self.blocks.available() >= blocks as u64 { Ok(()) } else { Err(Errno::NOSPC) }
    }

    /// Like [`try_begin`](Self::try_begin), evicting where memory is full; for callers without the lock of a file.
    pub(crate) fn begin(&self, blocks: usize, freeing: bool) -> FsResult<Change<'_>> {
        loop {
            match self.try_begin(blocks, freeing) {
                Some(change) => return Ok(change),
                None => self.make_space(blocks)?,
            }
        }
    }

    /// Gives the blocks and slots of a tree back; returns how many there were. The tree is no longer referenced.
    pub(crate) fn free_tree(&self, root: Pointer, height: u8) -> u32 {
        let mut gone = Freed::default();
        self.collect(root, height, &mut gone);
        self.give(&gone)
    }

    pub(crate) fn collect(&self, pointer: Pointer, height: u8, gone: &mut Freed) {
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

    /// Makes what left the trees free, unless what let it leave is not durable: a pointer to it may be what comes back.
    pub(crate) fn give(&self, gone: &Freed) -> u32 {
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
pub(crate) struct Freed {
    pub blocks: Vec<u32>,
    /// Slots whose content is gone for good.
    pub slots: Vec<u32>,
    /// Slots whose content moved or was replaced.
    pub recycled: Vec<u32>,
}

/// A change of one tree on its way to its commit: blocks set aside for it, and what it will free. Dropped without
/// [`finish`](Self::finish), it gives its fresh blocks back and frees nothing.
pub(crate) struct Change<'a> {
    fs: &'a TierFs,
    reserved: Vec<u32>,
    fresh: Vec<u32>,
    dropped: Vec<(Pointer, u8)>,
    replaced: Vec<u32>,
    /// What was stored and is not durable yet.
    pub unsynced: Unsynced,
    /// A fresh block may be referenced already: it is not given back if the change fails.
    exposed: bool,
    done: bool,
}

impl Change<'_> {
    /// A fresh block; its content is undefined.
    pub fn take(&mut self) -> FsResult<u32> {
        let block = self.reserved.pop().ok_or(Errno::NOSPC)?;
        self.fresh.push(block);
        Ok(block)
    }

    /// After the commit `pointer` and what hangs below it (for `height` > 0) is free.
    pub fn drop_tree(&mut self, pointer: Pointer, height: u8) {
        if !pointer.is_hole() {
            self.dropped.push((pointer.plain(), height));
        }
    }

    /// After the commit a leaf that another replaces is free.
    pub fn replace_leaf(&mut self, pointer: Pointer) {
        if pointer.is_cold() && !pointer.is_lost() {
            self.replaced.push(pointer.address());
        } else {
            self.drop_tree(pointer, 0);
        }
    }

    /// Makes what was stored so far durable, before anything that is stored later.
    pub fn sync(&mut self) {
        self.fs.region.sync(&mut self.unsynced);
    }

    /// Commits an inode together with what was stored so far.
    pub fn commit_inode(&mut self, offset: usize, inode: &Inode) {
        table::commit_after(&self.fs.region, &mut self.unsynced, offset, inode);
    }

    /// A part of the change was stored in place.
    pub fn expose(&mut self) {
        self.exposed = true;
    }

    /// The change is committed, or will be by what comes next, and dropped nothing; nobody counts its blocks.
    pub fn keep(mut self) {
        self.sync();
        self.done = true;
    }

    /// The change is committed: frees what it dropped and counts the blocks of the inode.
    pub fn finish(self, slot: &Slot) {
        let added = self.fresh.len() as u32;
        let freed = self.free_dropped();
        slot.blocks.fetch_add(added.wrapping_sub(freed), Ordering::Relaxed);
    }

    /// The change is committed: frees what it dropped; returns how many blocks that were.
    pub fn free_dropped(mut self) -> u32 {
        self.sync();
        self.done = true;
        let mut gone = Freed { recycled: std::mem::take(&mut self.replaced), ..Freed::default() };
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
