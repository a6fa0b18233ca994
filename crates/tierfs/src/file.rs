//! File content: write and truncate.
//!
//! Bytes past the end of a file are undefined on the medium. Extending a file defines all bytes in between.

use crate::attr::Attr;
use crate::error::FsResult;
use crate::format::{BLOCK, Inode, MAX_FILE_BYTES, Pointer};
use crate::fs::{Change, TierFs, now};
use crate::heat::Leaf;
use crate::region::{Unsynced, byte};
use crate::table::{self, Slot};
use crate::tree::{Cursor, Edit, PointerLocation, Visible, most_blocks, visit};
use rustix::io::Errno;
use std::ops::Range;

pub(crate) const B: u64 = BLOCK as u64;
/// Index past every leaf.
const END: u64 = u64::MAX / 2;

pub(crate) struct Open<'a> {
    pub ino: u32,
    pub offset: usize,
    pub slot: &'a Slot,
    pub inode: Inode,
}

struct Write<'a> {
    start: u64,
    data: &'a [u8],
    old_size: u64,
}

impl Write<'_> {
    fn end(&self) -> u64 {
        self.start + self.data.len() as u64
    }
}

/// Result of an attempt that may need more memory than is free.
pub(crate) enum Attempt<T> {
    Done(T),
    NeedsBlocks(usize),
}

/// Returns the end of a write; EFBIG beyond the maximum file size.
pub(crate) fn end_of_write(start: u64, data: &[u8]) -> FsResult<u64> {
    start.checked_add(data.len() as u64).filter(|end| *end <= MAX_FILE_BYTES).ok_or(Errno::FBIG)
}

impl TierFs {
    /// Runs `attempt` with the file locked for writing. If it needs more blocks than are free, evicts without the lock and
    /// retries.
    pub(crate) fn with_file<T>(
        &self,
        ino: u32,
        mut attempt: impl FnMut(&mut Open<'_>) -> FsResult<Attempt<T>>,
    ) -> FsResult<T> {
        let (offset, slot) = self.find(ino)?;
        loop {
            let needed = {
                let _guard = slot.lock.write();
                self.changeable()?;
                let inode = self.load(offset)?;
                if !inode.is_file() {
                    return Err(if inode.is_directory() { Errno::ISDIR } else { Errno::INVAL });
                }
                slot.change();
                match attempt(&mut Open { ino, offset, slot, inode })? {
                    Attempt::Done(value) => return self.settled().map(|()| value),
                    Attempt::NeedsBlocks(blocks) => blocks,
                }
            };
            self.make_space(needed)?;
        }
    }

    /// Writes `data` at `start`, atomically and durably. `clear_setid` clears set-user-ID and set-group-ID.
    pub fn write(&self, ino: u32, start: u64, data: &[u8], clear_setid: bool) -> FsResult<usize> {
        self.write_and(ino, start, data, clear_setid, |_| ())
    }

    /// Writes, and runs `afterwards` with the lock still held.
    pub(crate) fn write_and(
        &self,
        ino: u32,
        start: u64,
        data: &[u8],
        clear_setid: bool,
        afterwards: impl Fn(&Slot),
    ) -> FsResult<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        end_of_write(start, data)?;
        self.with_file(ino, |file| {
            let attempt = self.write_locked(file, start, data, clear_setid)?;
            if matches!(attempt, Attempt::Done(_)) {
                afterwards(file.slot);
            }
            Ok(attempt)
        })
    }

    pub(crate) fn write_locked(
        &self,
        file: &mut Open<'_>,
        start: u64,
        data: &[u8],
        clear_setid: bool,
    ) -> FsResult<Attempt<usize>> {
        let time = now();
        let write = Write { start, data, old_size: file.inode.size };
        let setid_goes = clear_setid && without_setid(file.inode.mode) != file.inode.mode;
        if !setid_goes && self.write_word(file, &write, time) {
            return Ok(Attempt::Done(data.len()));
        }
        let (first, last) = (start / B, (write.end() - 1) / B);
        let needed = most_blocks(file.inode.root, first, last) + 1;
        let Some(mut change) = self.try_begin(needed, false) else {
            return Ok(Attempt::NeedsBlocks(needed));
        };
        let visible = match write.old_size {
            size if start >= size.next_multiple_of(B) => Visible::PastEnd,
            size if start >= size => Visible::InPlace,
            _ if setid_goes => Visible::AtInode,
            size if write.end() > size => Visible::AtInode,
            _ => Visible::AtAncestor,
        };
        let mut root = file.inode.root;
        if start > write.old_size {
            root = self.define_gap(file, &mut change, root, write.old_size, start / B * B)?;
        }
        let ino = file.ino;
        let leaf = |change: &mut Change<'_>, index: u64, old: Pointer| self.write_leaf(change, ino, index, old, &write);
        root = Edit::new(&self.region, &mut change, (first, last), visible, leaf).apply(root)?;
        let mut inode = file.inode;
        (inode.root, inode.size) = (root, inode.size.max(write.end()));
        if setid_goes {
            inode.mode = without_setid(inode.mode);
        }
        (inode.mtime, inode.ctime) = (time, time);
        change.commit_inode(file.offset, &inode);
        change.finish(file.slot);
        Ok(Attempt::Done(data.len()))
    }

    /// Writes at most 8 bytes within one word of a block in memory: one atomic store, then the times.
    fn write_word(&self, file: &Open<'_>, write: &Write<'_>, time: i64) -> bool {
        let at = (write.start % 8) as usize;
        if at + write.data.len() > 8 || write.end() > write.old_size {
            return false;
        }
        let pointer = Cursor::new(&self.region, file.inode.root).get(write.start / B);
        if !pointer.is_resident() {
            return false;
        }
        let word = byte(pointer.address()) + (write.start % B) as usize - at;
        let mut bytes = self.region.load(word).to_le_bytes();
        bytes[at..at + write.data.len()].copy_from_slice(write.data);
        self.heat.change(pointer.address());
        let mut unsynced = Unsynced::default();
        self.region.store_unsynced(&mut unsynced, word, u64::from_le_bytes(bytes));
        let inode = Inode { mtime: time, ctime: time, ..file.inode };
        table::commit_after(&self.region, &mut unsynced, file.offset, &inode);
        true
    }

    /// Returns the new pointer of a written leaf: the same block if only bytes past the end change, otherwise a copy.
    fn write_leaf(
        &self,
        change: &mut Change<'_>,
        ino: u32,
        index: u64,
        old: Pointer,
        write: &Write<'_>,
    ) -> FsResult<Pointer> {
        let base = index * B;
        let from = write.start.max(base);
        let part = (from - base) as usize..(write.end().min(base + B) - base) as usize;
        let source = &write.data[(from - write.start) as usize..][..part.len()];
        if from >= write.old_size && old.is_resident() {
            let defined = (write.old_size.max(base) - base) as usize;
            let at = byte(old.address());
            self.heat.change(old.address());
            // SAFETY: the inode is locked for writing.
            unsafe { self.region.zero(at + defined, part.start - defined) };
            // SAFETY: the inode is locked for writing.
            unsafe { self.region.write(at + part.start, source) };
            change.unsynced.add(at + defined, part.end - defined);
            return Ok(old);
        }
        let valid = write.old_size.saturating_sub(base).min(B) as usize;
        let block = change.take()?;
        self.fill_around(block, old, valid, &part)?;
        // SAFETY: the block is fresh.
        unsafe { self.region.write(byte(block) + part.start, source) };
        change.unsynced.add_block(block);
        self.adopt(block, Leaf { ino, index: index as u32 });
        change.replace_leaf(old);
        Ok(Pointer::resident(block))
    }

    /// Fills a fresh block outside `part` with the first `valid` bytes of `old`, then zeros.
    fn fill_around(&self, block: u32, old: Pointer, valid: usize, part: &Range<usize>) -> FsResult<()> {
        let head = 0..part.start.min(valid);
        let tail = part.end..valid.max(part.end);
        if old.is_cold() && !(head.is_empty() && tail.is_empty()) {
            // SAFETY: the block is fresh.
            self.read_slots(old.address(), unsafe { self.region.fresh_block(block) })?;
        } else if old.is_resident() {
            // SAFETY: the block is fresh, and the inode of the old one locked for writing.
            unsafe { self.region.copy_within_blocks(old.address(), block, head.clone()) };
            // SAFETY: as above.
            unsafe { self.region.copy_within_blocks(old.address(), block, tail.clone()) };
        } else {
            // SAFETY: the block is fresh.
            unsafe { self.region.zero(byte(block), part.start) };
            // SAFETY: the block is fresh.
            unsafe { self.region.zero(byte(block) + part.end, BLOCK - part.end) };
            return Ok(());
        }
        // SAFETY: the block is fresh.
        unsafe { self.region.zero(byte(block) + head.end, part.start - head.end) };
        // SAFETY: the block is fresh.
        unsafe { self.region.zero(byte(block) + tail.end, BLOCK - tail.end) };
        Ok(())
    }

    /// Zeros the bytes `old_size..end`, where `end` is the start of a block or the new end of the file. Takes at most one fresh
    /// block. Existing blocks there are past the end and change in place.
    fn define_gap(
        &self,
        file: &Open<'_>,
        change: &mut Change<'_>,
        root: Pointer,
        old_size: u64,
        end: u64,
    ) -> FsResult<Pointer> {
        let mut root = root;
        if !old_size.is_multiple_of(B) {
            root = self.define_tail(file, change, root, old_size)?;
        }
        let mut stale = Vec::new();
        let first = old_size.div_ceil(B);
        if first < end.div_ceil(B) {
            visit(&self.region, root, first, end.div_ceil(B) - 1, &mut |index, pointer| {
                if pointer.is_cold() {
                    stale.push(index);
                } else {
                    self.heat.change(pointer.address());
                    // SAFETY: the inode is locked for writing.
                    unsafe { self.region.zero(byte(pointer.address()), BLOCK) };
                    change.unsynced.add_block(pointer.address());
                }
                true
            });
        }
        for index in stale {
            let mut cursor = Cursor::new(&self.region, root);
            change.drop_tree(cursor.get(index), 0);
            match cursor.slot(index) {
                PointerLocation::Node(offset) => {
                    self.region.store_unsynced(&mut change.unsynced, offset, Pointer::HOLE.seal());
                }
                PointerLocation::Lost => return Err(Errno::IO),
                PointerLocation::Root | PointerLocation::Nowhere => root = Pointer::HOLE,
            }
        }
        Ok(root)
    }

    /// Zeros the rest of the last block; a cold one is fetched first.
    fn define_tail(&self, file: &Open<'_>, change: &mut Change<'_>, root: Pointer, size: u64) -> FsResult<Pointer> {
        let (index, tail) = (size / B, (size % B) as usize);
        let old = Cursor::new(&self.region, root).get(index);
        if old.is_resident() {
            self.heat.change(old.address());
            // SAFETY: the inode is locked for writing.
            unsafe { self.region.zero(byte(old.address()) + tail, BLOCK - tail) };
            change.unsynced.add(byte(old.address()) + tail, BLOCK - tail);
        }
        if !old.is_cold() {
            return Ok(root);
        }
        let ino = file.ino;
        let leaf = |change: &mut Change<'_>, index: u64, old: Pointer| {
            let block = change.take()?;
            self.fill_around(block, old, tail, &(tail..tail))?;
            change.unsynced.add_block(block);
            self.adopt(block, Leaf { ino, index: index as u32 });
            change.replace_leaf(old);
            Ok(Pointer::resident(block))
        };
        Edit::new(&self.region, change, (index, index), Visible::InPlace, leaf).apply(root)
    }

    /// Gives a locked file the size and other fields of `inode`, except its root. Returns the inode, or the required free blocks
    /// for [`TierFs::with_file`].
    pub(crate) fn resize(&self, file: &mut Open<'_>, mut inode: Inode) -> FsResult<Attempt<Inode>> {
        let size = inode.size;
        let shrinks = size < file.inode.size;
        let keep = size.div_ceil(B);
        let needed = if shrinks { usize::from(file.inode.root.height()) } else { 1 };
        let Some(mut change) = self.try_begin(needed, shrinks) else {
            return Ok(Attempt::NeedsBlocks(needed));
        };
        inode.root = if shrinks {
            self.cut(&mut change, inode.root, keep, END, Visible::AtInode)?
        } else {
            self.define_gap(file, &mut change, inode.root, file.inode.size, size)?
        };
        change.commit_inode(file.offset, &inode);
        change.finish(file.slot);
        Ok(Attempt::Done(inode))
    }

    /// Removes the leaves `first..=last`.
    pub(crate) fn cut(
        &self,
        change: &mut Change<'_>,
        root: Pointer,
        first: u64,
        last: u64,
        visible: Visible,
    ) -> FsResult<Pointer> {
        let leaf = |_: &mut Change<'_>, _: u64, _: Pointer| Ok(Pointer::HOLE);
        Edit { punch: true, ..Edit::new(&self.region, change, (first, last), visible, leaf) }.apply(root)
    }

    /// Sets the size, together with changes of other fields by `adjust`, which may set times.
    pub(crate) fn truncate(&self, ino: u32, size: u64, adjust: impl Fn(&mut Inode)) -> FsResult<Attr> {
        if size > MAX_FILE_BYTES {
            return Err(Errno::FBIG);
        }
        self.with_file(ino, |file| {
            let time = now();
            let mut inode = Inode { size, mtime: time, ctime: time, ..file.inode };
            adjust(&mut inode);
            // No write(2) is in progress, and the kernel may create zero pages past the end without a request.
            self.past_cache.clear(ino);
            Ok(match self.resize(file, inode)? {
                Attempt::Done(inode) => Attempt::Done(self.attr_of(ino, file.offset, &inode)),
                Attempt::NeedsBlocks(blocks) => Attempt::NeedsBlocks(blocks),
            })
        })
    }
}

/// Clears the set-ID bits. Set-group-ID without group execution means mandatory locking and is kept (chmod(2)).
pub(crate) fn without_setid(mode: u32) -> u32 {
    let group = if mode & libc::S_IXGRP != 0 { libc::S_ISGID } else { 0 };
    mode & !(libc::S_ISUID | group)
}
