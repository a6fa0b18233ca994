//! Directories: entries in blocks of the region, an index of names in memory that is rebuilt at mount.

use crate::error::FsResult;
use crate::file::B;
use crate::format::{BLOCK, Pointer, entry};
use crate::fs::{Change, TierFs};
use crate::region::{Region, byte};
use crate::table;
use crate::tree::{Cursor, Edit, Visible, most_blocks};
use hashbrown::HashTable;
use parking_lot::RwLock;
use rustix::io::Errno;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// A record can start at every multiple of this many bytes.
const UNIT: usize = 8;
/// Bytes of the least record.
const LEAST_RECORD: usize = 16;

/// What is known of a directory in memory.
pub struct Directory {
    /// Its names.
    pub state: RwLock<Names>,
    /// Inode of the directory that holds it.
    pub parent: AtomicU32,
    /// Directories in it.
    pub subdirectories: AtomicU32,
}

/// The names of a directory.
pub struct Names {
    /// Tree of its blocks.
    pub root: Pointer,
    /// Blocks.
    pub blocks: u32,
    /// It was removed and takes no more entries.
    pub removed: bool,
    index: HashTable<Indexed>,
    /// Block in which the last entry found room.
    last: u32,
    /// Other blocks that may have room, each once.
    candidates: Vec<u32>,
    is_candidate: Vec<bool>,
}

#[derive(Clone, Copy)]
struct Indexed {
    hash: u32,
    position: u32,
}

/// An entry as it stands in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Inode.
    pub ino: u32,
    /// Type, `st_mode >> 12`.
    pub kind: u8,
    /// Where it is, in units of 8 bytes from the directory's start.
    pub position: u32,
}

impl Names {
    /// An empty directory.
    pub fn new(root: Pointer, blocks: u32) -> Self {
        Self {
            root,
            blocks,
            removed: false,
            index: HashTable::new(),
            last: 0,
            candidates: Vec::new(),
            is_candidate: Vec::new(),
        }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Adds a name that is known to be new.
    pub fn insert(&mut self, hash: u32, position: u32) {
        self.index.insert_unique(spread(hash), Indexed { hash, position }, |entry| spread(entry.hash));
    }

    /// Block `index` may have room for a new entry.
    pub fn offer(&mut self, index: u32) {
        self.is_candidate.resize(self.is_candidate.len().max(index as usize + 1), false);
        if !std::mem::replace(&mut self.is_candidate[index as usize], true) {
            self.candidates.push(index);
        }
    }

    fn next_candidate(&mut self) -> Option<u32> {
        let index = self.candidates.pop()?;
        self.is_candidate[index as usize] = false;
        Some(index)
    }
}

/// hashbrown takes the group from the low and the tag from the high bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

const SHARDS: usize = 64;

/// All directories.
pub struct Directories {
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

    /// The directory with inode `ino`.
    pub fn get(&self, ino: u32) -> Option<Arc<Directory>> {
        self.shard(ino).read().get(&ino).cloned()
    }

    /// Adds a directory.
    pub fn insert(&self, ino: u32, parent: u32, names: Names) -> Arc<Directory> {
        let directory = Arc::new(Directory {
            state: RwLock::new(names),
            parent: AtomicU32::new(parent),
            subdirectories: AtomicU32::new(0),
        });
        self.shard(ino).write().insert(ino, directory.clone());
        directory
    }

    /// Forgets a directory.
    pub fn remove(&self, ino: u32) {
        self.shard(ino).write().remove(&ino);
    }

    /// Hash of a name.
    pub fn hash(&self, name: &[u8]) -> u32 {
        self.hasher.hash_one(name) as u32
    }
}

/// Calls `visit(entry, name)` for every record with an inode in a directory's block, from byte `from` on, until it
/// returns `false`. A record that does not fit its block is an error.
pub fn scan_block(
    region: &Region,
    block: u32,
    first_position: u32,
    from: usize,
    visit: &mut dyn FnMut(Entry, &[u8]) -> bool,
) -> Result<bool, String> {
    let mut at = 0;
    let mut name = [0; crate::format::MAX_NAME];
    while at < BLOCK {
        let (ino, word) = (region.load(byte(block) + at), region.load(byte(block) + at + 8));
        let (record, length) = (entry::record(word), entry::name_length(word));
        let fits = record >= LEAST_RECORD && record.is_multiple_of(UNIT) && record <= BLOCK - at;
        if !fits || ino != 0 && (entry::bytes_for(length) > record || length == 0 || ino > u64::from(u32::MAX)) {
            return Err(format!("a directory record at byte {at} of block {block} is malformed"));
        }
        if ino != 0 && at >= from {
            // SAFETY: the caller has locked the directory, or the region is not mounted.
            unsafe { region.read(byte(block) + at + entry::HEADER, &mut name[..length]) };
            let position = first_position + (at / UNIT) as u32;
            if !visit(Entry { ino: ino as u32, kind: entry::kind(word), position }, &name[..length]) {
                return Ok(false);
            }
        }
        at += record;
    }
    Ok(true)
}

/// Position of the first record of a directory's block.
pub fn first_position(index: u32) -> u32 {
    index * (BLOCK / UNIT) as u32
}

impl TierFs {
    /// The directory `ino`; ENOTDIR if it is something else.
    pub(crate) fn directory(&self, ino: u32) -> FsResult<Arc<Directory>> {
        self.directories.get(ino).ok_or(Errno::NOTDIR)
    }

    /// Byte offset in the region of the record at a position.
    pub(crate) fn record_at(&self, names: &Names, position: u32) -> usize {
        let at = position as usize * UNIT;
        let block = Cursor::new(&self.region, names.root).get((at / BLOCK) as u64);
        byte(block.address()) + at % BLOCK
    }

    fn entry_at(&self, names: &Names, position: u32) -> Entry {
        let at = self.record_at(names, position);
        Entry { ino: self.region.load(at) as u32, kind: entry::kind(self.region.load(at + 8)), position }
    }

    fn name_matches(&self, names: &Names, position: u32, name: &[u8]) -> bool {
        let at = self.record_at(names, position);
        let length = entry::name_length(self.region.load(at + 8));
        let mut found = [0; crate::format::MAX_NAME];
        // SAFETY: who has its names has the directory locked.
        unsafe { self.region.read(at + entry::HEADER, &mut found[..length]) };
        &found[..length] == name
    }

    /// Finds a name.
    pub(crate) fn find_entry(&self, names: &Names, name: &[u8]) -> Option<Entry> {
        let hash = self.directories.hash(name);
        let same = |entry: &Indexed| entry.hash == hash && self.name_matches(names, entry.position, name);
        let found = names.index.find(spread(hash), same)?;
        Some(self.entry_at(names, found.position))
    }

    /// Writes a record for `name` that names no inode yet; returns its position. Invisible until its first word is
    /// stored.
    pub(crate) fn prepare_entry(&self, ino: u32, names: &mut Names, name: &[u8], kind: u8) -> FsResult<u32> {
        let needed = entry::bytes_for(name.len());
        let mut index = names.last;
        loop {
            if index < names.blocks
                && let Some((at, length)) = self.room_in(names, index, needed)?
            {
                names.last = index;
                self.write_record(names, first_position(index), at, length, name, kind);
                return Ok(first_position(index) + (at / UNIT) as u32);
            }
            index = match names.next_candidate() {
                Some(candidate) => candidate,
                None => self.append_block(ino, names)?,
            };
        }
    }

    /// Free bytes in a block: where and how many. Free neighbours are joined on the way, one word each.
    fn room_in(&self, names: &Names, index: u32, needed: usize) -> FsResult<Option<(usize, usize)>> {
        let base = self.record_at(names, first_position(index));
        let mut at = 0;
        while at < BLOCK {
            let mut length = entry::record(self.region.load(base + at + 8));
            if length < LEAST_RECORD {
                return Err(Errno::IO);
            }
            if self.region.load(base + at) == 0 {
                let alone = length;
                while at + length < BLOCK && self.region.load(base + at + length) == 0 {
                    length += entry::record(self.region.load(base + at + length + 8)).max(LEAST_RECORD);
                }
                if length != alone {
                    self.region.commit(base + at + 8, entry::encode(length, b"", 0));
                }
                if length >= needed {
                    return Ok(Some((at, length)));
                }
            }
            at += length;
        }
        Ok(None)
    }

    /// Turns `length` free bytes into a record for `name`; the rest stays a free record. What follows the second word
    /// is persisted before that word makes it count.
    fn write_record(&self, names: &Names, first: u32, at: usize, length: usize, name: &[u8], kind: u8) {
        let start = self.record_at(names, first) + at;
        let needed = entry::bytes_for(name.len());
        let record = if length - needed >= LEAST_RECORD { needed } else { length };
        if record < length {
            self.region.store(start + record, 0);
            self.region.store(start + record + 8, entry::encode(length - record, b"", 0));
            self.region.persist(start + record, LEAST_RECORD);
        }
        if name.len() > 4 {
            // SAFETY: the record is free, and the directory locked for writing.
            unsafe { self.region.write(start + 16, &name[4..]) };
            self.region.persist(start + 16, name.len() - 4);
        }
        self.region.commit(start + 8, entry::encode(record, name, kind));
    }

    /// Makes a prepared entry visible.
    pub(crate) fn commit_entry(&self, names: &mut Names, position: u32, name: &[u8], ino: u32) {
        self.region.commit(self.record_at(names, position), u64::from(ino));
        names.insert(self.directories.hash(name), position);
    }

    /// Removes an entry.
    pub(crate) fn remove_entry(&self, names: &mut Names, position: u32, name: &[u8]) {
        self.region.commit(self.record_at(names, position), 0);
        self.forget_entry(names, position, name);
    }

    /// Removes an entry from the index; its record is free already.
    pub(crate) fn forget_entry(&self, names: &mut Names, position: u32, name: &[u8]) {
        let hash = self.directories.hash(name);
        if let Ok(found) = names.index.find_entry(spread(hash), |entry| entry.position == position) {
            found.remove();
        }
        names.offer(position / first_position(1));
    }

    /// Adds an empty block to a directory; returns its index.
    fn append_block(&self, ino: u32, names: &mut Names) -> FsResult<u32> {
        let index = u64::from(names.blocks);
        let mut change = self.begin(most_blocks(names.root, index, index), false)?;
        let leaf = |change: &mut Change<'_>, _: u64, old: Pointer| {
            let block = if old.is_resident() { old.address() } else { change.take()? };
            // SAFETY: the block is fresh, or one behind the end of the locked directory.
            unsafe { self.region.zero(byte(block), BLOCK) };
            self.region.store(byte(block) + 8, entry::encode(BLOCK, b"", 0));
            self.region.persist_block(block);
            Ok(Pointer::resident(block))
        };
        let visible = Visible::InPlace;
        let edit =
            Edit { region: &self.region, change: &mut change, first: index, last: index, visible, punch: false, leaf };
        let root = edit.apply(names.root)?;
        let (offset, slot) = self.find(ino)?;
        let _guard = slot.lock.write();
        let mut inode = self.load(offset)?;
        (inode.root, inode.size) = (root, (index + 1) * B);
        table::commit(&self.region, offset, &inode);
        change.finish(slot);
        names.root = root;
        names.blocks += 1;
        Ok(index as u32)
    }

    /// Calls `visit(entry, name, next)` for the entries from `cookie` on until it returns `false`; `next` is the cookie
    /// of what follows. Cookies stay good while entries come and go; 0 is the start, `.` and `..` come first.
    pub fn read_directory(
        &self,
        ino: u32,
        cookie: u64,
        visit: &mut dyn FnMut(Entry, &[u8], u64) -> bool,
    ) -> FsResult<()> {
        let directory = self.directory(ino)?;
        let names = directory.state.read();
        let parent = directory.parent.load(std::sync::atomic::Ordering::Relaxed);
        let kind = crate::format::entry_kind(libc::S_IFDIR);
        for (at, (target, name)) in [(ino, &b"."[..]), (parent, &b".."[..])].into_iter().enumerate() {
            let entry = Entry { ino: target, kind, position: 0 };
            if cookie <= at as u64 && !visit(entry, name, at as u64 + 1) {
                return Ok(());
            }
        }
        let from = cookie.saturating_sub(2);
        let first_block = from / u64::from(first_position(1));
        let mut cursor = Cursor::new(&self.region, names.root);
        for index in first_block..u64::from(names.blocks) {
            let block = cursor.get(index).address();
            let skip = from.saturating_sub(u64::from(first_position(index as u32))) as usize * UNIT;
            let mut pass = |entry: Entry, name: &[u8]| visit(entry, name, u64::from(entry.position) + 3);
            match scan_block(&self.region, block, first_position(index as u32), skip, &mut pass) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(_) => return Err(Errno::IO),
            }
        }
        Ok(())
    }

    /// Like [`read_directory`](Self::read_directory), with attributes and one reference taken of everything that is
    /// passed on, as by a lookup; `.` and `..` take none.
    pub fn read_directory_plus(
        &self,
        ino: u32,
        cookie: u64,
        visit: &mut dyn FnMut(&crate::Attr, &[u8], u64) -> bool,
    ) -> FsResult<()> {
        let mut failed = None;
        self.read_directory(ino, cookie, &mut |entry, name, next| {
            let attr = match self.get_attr(entry.ino) {
                Ok(attr) => attr,
                Err(error) => {
                    failed = Some(error);
                    return false;
                }
            };
            let passed = visit(&attr, name, next);
            if passed && name != b"." && name != b".." {
                self.table.slot(entry.ino).lookups.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            passed
        })?;
        failed.map_or(Ok(()), Err)
    }
}
