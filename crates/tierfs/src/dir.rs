//! Directories: entries (see [`crate::record`]) in blocks of the region, with an index of names in memory that is rebuilt at
//! mount.

use crate::error::FsResult;
use crate::file::B;
use crate::format::{BLOCK, Pointer, entry, unsealed};
use crate::fs::{Change, TierFs};
use crate::record::{DirEntry, LEAST_RECORD, Record, UNIT, clear_directory_block, fits, inode_named, read_record};
use crate::region::{Unsynced, byte};
use crate::tree::{Cursor, Edit, Visible, most_blocks};
use hashbrown::HashTable;
use parking_lot::RwLock;
use rustix::io::Errno;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

pub(crate) struct Directory {
    pub state: RwLock<Names>,
    pub parent: AtomicU32,
    pub subdirectories: AtomicU32,
}

pub(crate) struct Names {
    pub root: Pointer,
    pub blocks: u32,
    pub removed: bool,
    index: HashTable<Indexed>,
    /// Block of the last inserted entry.
    last: u32,
    /// End of that entry in its block, where another record begins; 0 if unknown.
    behind_last: usize,
    /// Other blocks that may have space, without duplicates.
    candidates: Vec<u32>,
    is_candidate: Vec<bool>,
    live: Vec<u16>,
}

#[derive(Clone, Copy)]
struct Indexed {
    hash: u32,
    position: u32,
}

impl Names {
    pub(crate) fn new(root: Pointer, blocks: u32) -> Self {
        Self {
            root,
            blocks,
            removed: false,
            index: HashTable::new(),
            last: 0,
            behind_last: 0,
            candidates: Vec::new(),
            is_candidate: Vec::new(),
            live: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Adds a name. The caller has checked that the name is new.
    pub(crate) fn insert(&mut self, hash: u32, position: u32) {
        let block = (position / first_position(1)) as usize;
        self.live.resize(self.live.len().max(block + 1), 0);
        self.live[block] += 1;
        self.index.insert_unique(spread(hash), Indexed { hash, position }, |entry| spread(entry.hash));
    }

    /// Marks block `index` as possibly having space.
    pub(crate) fn offer(&mut self, index: u32) {
        self.is_candidate.resize(self.is_candidate.len().max(index as usize + 1), false);
        if !std::mem::replace(&mut self.is_candidate[index as usize], true) {
            self.candidates.push(index);
        }
    }

    /// Returns whether `is_same` accepts the position of a name with this hash.
    pub(crate) fn has(&self, hash: u32, mut is_same: impl FnMut(u32) -> bool) -> bool {
        self.index.find(spread(hash), |known| known.hash == hash && is_same(known.position)).is_some()
    }

    fn next_candidate(&mut self) -> Option<u32> {
        let index = self.candidates.pop()?;
        self.is_candidate[index as usize] = false;
        Some(index)
    }
}

/// Distributes a hash over all bits: hashbrown takes the group from the low bits and the tag from the high bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

const SHARDS: usize = 64;

pub(crate) struct Directories {
    shards: [RwLock<HashMap<u32, Arc<Directory>>>; SHARDS],
    hasher: RandomState,
}

impl Default for Directories {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| RwLock::default()), hasher: RandomState::new() }
    }
}

impl Directories {
    fn shard(&self, ino: u32) -> &RwLock<HashMap<u32, Arc<Directory>>> {
        &self.shards[ino as usize % SHARDS]
    }

    pub(crate) fn get(&self, ino: u32) -> Option<Arc<Directory>> {
        self.shard(ino).read().get(&ino).cloned()
    }

    pub(crate) fn insert(&self, ino: u32, parent: u32, names: Names) -> Arc<Directory> {
        let directory = Arc::new(Directory {
            state: RwLock::new(names),
            parent: AtomicU32::new(parent),
            subdirectories: AtomicU32::new(0),
        });
        self.shard(ino).write().insert(ino, directory.clone());
        directory
    }

    pub(crate) fn remove(&self, ino: u32) {
        self.shard(ino).write().remove(&ino);
    }

    pub(crate) fn hash(&self, name: &[u8]) -> u32 {
        self.hasher.hash_one(name) as u32
    }
}

/// Returns the position of the first record of a directory's block.
pub(crate) fn first_position(index: u32) -> u32 {
    index * (BLOCK / UNIT) as u32
}

impl TierFs {
    /// Fails with ENOTDIR if `ino` is not a directory.
    pub(crate) fn directory(&self, ino: u32) -> FsResult<Arc<Directory>> {
        self.directories.get(ino).ok_or(Errno::NOTDIR)
    }

    /// Returns the byte offset in the region of the record at a position; EIO if its block is lost.
    pub(crate) fn record_at(&self, names: &Names, position: u32) -> FsResult<usize> {
        let at = position as usize * UNIT;
        let block = Cursor::new(&self.region, names.root).get((at / BLOCK) as u64);
        if block.is_resident() { Ok(byte(block.address()) + at % BLOCK) } else { Err(Errno::IO) }
    }

    /// Reads the record at a byte offset; EIO if it is damaged. The caller has the directory locked.
    pub(crate) fn intact_record(&self, at: usize) -> FsResult<Record> {
        read_record(&self.region, at).ok_or_else(|| {
            self.region.note_damage();
            Errno::IO
        })
    }

    /// Finds a name; EIO if it is not found but a damaged record may have had it.
    pub(crate) fn find_entry(&self, names: &Names, name: &[u8]) -> FsResult<Option<DirEntry>> {
        let hash = self.directories.hash(name);
        let (mut found, mut damaged) = (None, None);
        names.index.find(spread(hash), |indexed| {
            if indexed.hash != hash {
                return false;
            }
            let position = indexed.position;
            let at = self.record_at(names, position);
            let named = at.ok().and_then(|at| inode_named(&self.region, at, name));
            found = named.map(|(ino, kind)| DirEntry { ino, kind, position });
            if found.is_none() {
                // Another name with the same hash, or damage.
                damaged = at.and_then(|at| self.intact_record(at)).err().or(damaged);
            }
            found.is_some()
        });
        match (found, damaged) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }

    /// Writes a record for `name` without an inode; returns its position. Invisible until its first word is stored.
    pub(crate) fn prepare_entry(&self, ino: u32, names: &mut Names, name: &[u8], kind: u8) -> FsResult<u32> {
        let needed = entry::bytes_for(name.len());
        let mut index = names.last;
        loop {
            if index < names.blocks && Cursor::new(&self.region, names.root).get(u64::from(index)).is_hole() {
                self.add_block(ino, names, index)?;
            }
            if index < names.blocks
                && let Some((at, length)) = self.space_in(names, index, needed)?
            {
                names.last = index;
                let start = self.record_at(names, first_position(index))? + at;
                names.behind_last = (at + self.write_record(start, length, name, kind)) % BLOCK;
                return Ok(first_position(index) + (at / UNIT) as u32);
            }
            index = match names.next_candidate() {
                Some(candidate) => candidate,
                None => self.add_block(ino, names, names.blocks)?,
            };
        }
    }

    /// Returns offset and size of free bytes in a block. Consecutive names skip the records before them.
    fn space_in(&self, names: &mut Names, index: u32, needed: usize) -> FsResult<Option<(usize, usize)>> {
        let base = self.record_at(names, first_position(index))?;
        let behind = std::mem::take(&mut names.behind_last);
        if index == names.last
            && behind > 0
            && let Some(space) = self.space_from(base, behind, needed)?
        {
            return Ok(Some(space));
        }
        self.space_from(base, 0, needed)
    }

    /// Searches the block at byte `base` for free bytes, starting at byte `at`. Merges free neighbours, one word each.
    fn space_from(&self, base: usize, mut at: usize, needed: usize) -> FsResult<Option<(usize, usize)>> {
        while at < BLOCK {
            let mut length = self.shape_of(base + at)?;
            if self.region.load(base + at) == entry::FREE {
                let alone = length;
                while at + length < BLOCK && self.region.load(base + at + length) == entry::FREE {
                    length += self.shape_of(base + at + length)?;
                }
                if length != alone {
                    self.region.commit(base + at + 8, entry::encode(length, 0, 0));
                }
                if length >= needed {
                    return Ok(Some((at, length)));
                }
            }
            at += length;
        }
        Ok(None)
    }

    /// Returns the length of the record at a byte offset; EIO if it is damaged.
    fn shape_of(&self, at: usize) -> FsResult<usize> {
        let length = unsealed(self.region.load(at + 8)).map(|shape| entry::record(u64::from(shape)));
        length.filter(|length| fits(at, *length)).ok_or_else(|| {
            self.region.note_damage();
            Errno::IO
        })
    }

    /// Turns `length` free bytes at `start` into a free record with shape and name, and a second free record for the rest. The
    /// name is persisted before the word that makes it valid. Returns the length of the record.
    fn write_record(&self, start: usize, length: usize, name: &[u8], kind: u8) -> usize {
        let needed = entry::bytes_for(name.len());
        let record = if length - needed >= LEAST_RECORD { needed } else { length };
        let mut unsynced = Unsynced::default();
        if record < length {
            self.region.store(start + record, entry::FREE);
            self.region.store(start + record + 8, entry::encode(length - record, 0, 0));
            unsynced.add(start + record, LEAST_RECORD);
        }
        // SAFETY: the record is free, and the directory locked for writing.
        unsafe { self.region.write(start + entry::HEADER, name) };
        unsynced.add(start + entry::HEADER, name.len());
        self.region.sync(&mut unsynced);
        self.region.commit(start + 8, entry::encode(record, name.len(), kind));
        record
    }

    pub(crate) fn commit_entry(&self, names: &mut Names, position: u32, name: &[u8], ino: u32) -> FsResult<()> {
        let at = self.record_at(names, position)?;
        self.region.commit(at, entry::name_inode(at, ino, self.region.load(at + 8), name));
        names.insert(self.directories.hash(name), position);
        Ok(())
    }

    pub(crate) fn remove_entry(&self, names: &mut Names, position: u32, name: &[u8]) -> FsResult<()> {
        self.region.commit(self.record_at(names, position)?, entry::FREE);
        self.settled()?;
        self.forget_entry(names, position, name);
        Ok(())
    }

    /// Removes an entry from the index; its record is already free.
    pub(crate) fn forget_entry(&self, names: &mut Names, position: u32, name: &[u8]) {
        let hash = self.directories.hash(name);
        if let Ok(found) = names.index.find_entry(spread(hash), |entry| entry.position == position) {
            found.remove();
            let block = position / first_position(1);
            names.live[block as usize] -= 1;
            names.offer(block);
        }
    }

    /// Adds an empty block to a directory, at its end or in a hole; returns its index.
    fn add_block(&self, ino: u32, names: &mut Names, index: u32) -> FsResult<u32> {
        let index = u64::from(index);
        let mut change = self.begin(most_blocks(names.root, index, index), false)?;
        let leaf = |change: &mut Change<'_>, _: u64, old: Pointer| {
            let block = if old.is_resident() { old.address() } else { change.take()? };
            clear_directory_block(&self.region, block);
            change.unsynced.add_block(block);
            Ok(Pointer::resident(block))
        };
        let edit = Edit::new(&self.region, &mut change, (index, index), Visible::InPlace, leaf);
        let root = edit.apply(names.root)?;
        let (offset, slot) = self.find(ino)?;
        let _guard = slot.lock.write();
        let mut inode = self.load(offset)?;
        (inode.root, inode.size) = (root, inode.size.max((index + 1) * B));
        change.commit_inode(offset, &inode);
        change.finish(slot);
        names.root = root;
        names.blocks = names.blocks.max(index as u32 + 1);
        Ok(index as u32)
    }

    /// Frees the block of a removed entry if no other entry is in it. Keeps the block that takes the next entries. Frees all
    /// blocks but one of an empty directory.
    pub(crate) fn return_directory_blocks(&self, ino: u32, names: &mut Names, position: u32) -> FsResult<()> {
        let index = position / first_position(1);
        let is_last = names.blocks == 1 || index == names.last;
        if names.live[index as usize] > 0 || names.root.height() == 0 || is_last && !names.is_empty() {
            return Ok(());
        }
        let Some(mut change) = self.try_begin(0, true) else { return Ok(()) };
        let (offset, slot) = self.find(ino)?;
        if !names.is_empty() {
            let (first, visible) = (u64::from(index), Visible::InPlace);
            self.cut(&mut change, names.root, first, first, visible)?;
            change.finish(slot);
            return Ok(());
        }
        let _guard = slot.lock.write();
        let mut inode = self.load(offset)?;
        change.drop_tree(names.root, names.root.height());
        (inode.root, inode.size) = (Pointer::HOLE, 0);
        change.commit_inode(offset, &inode);
        change.finish(slot);
        *names = Names::new(Pointer::HOLE, 0);
        Ok(())
    }
}
