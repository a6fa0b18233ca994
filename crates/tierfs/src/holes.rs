//! Holes of files: punching, preallocation, seeking.

use crate::error::FsResult;
use crate::file::{Attempt, B};
use crate::format::{BLOCK, Inode, MAX_FILE_BYTES, Pointer};
use crate::fs::{Change, TierFs, now};
use crate::heat::Leaf;
use crate::region::byte;
use crate::table;
use crate::tree::{Cursor, Edit, Visible, most_blocks, visit};
use rustix::io::Errno;
use std::ops::Range;

impl TierFs {
    /// Punches `start..start + len`; zeros the bytes of partly covered blocks.
    pub(crate) fn punch(&self, ino: u32, start: u64, len: u64) -> FsResult<()> {
        if len == 0 {
            return Err(Errno::INVAL);
        }
        let end = start.checked_add(len).ok_or(Errno::FBIG)?.min(MAX_FILE_BYTES);
        let (first, last) = (start.div_ceil(B), end / B);
        if first > last {
            return self.zero_part(ino, start..end);
        }
        self.zero_part(ino, start..first * B)?;
        self.zero_part(ino, last * B..end)?;
        if first == last {
            return Ok(());
        }
        self.with_file(ino, |file| {
            let needed = 2 * usize::from(file.inode.root.height());
            let Some(mut change) = self.try_begin(needed, true) else {
                return Ok(Attempt::NeedsBlocks(needed));
            };
            let mut inode = file.inode;
            inode.root = self.cut(&mut change, inode.root, first, last - 1, Visible::AtAncestor)?;
            let time = now();
            (inode.mtime, inode.ctime) = (time, time);
            change.commit_inode(file.offset, &inode);
            change.finish(file.slot);
            Ok(Attempt::Done(()))
        })
    }

    /// Zeros a part of one block, below the end of the file and only if the block is stored.
    fn zero_part(&self, ino: u32, part: Range<u64>) -> FsResult<()> {
        if part.start >= part.end {
            return Ok(());
        }
        self.with_file(ino, |file| {
            let end = part.end.min(file.inode.size);
            let stored = !Cursor::new(&self.region, file.inode.root).get(part.start / B).is_hole();
            if part.start >= end || !stored {
                return Ok(Attempt::Done(()));
            }
            let zeros = [0; BLOCK];
            let write = self.write_locked(file, part.start, &zeros[..(end - part.start) as usize], false)?;
            Ok(match write {
                Attempt::Done(_) => Attempt::Done(()),
                Attempt::NeedsBlocks(blocks) => Attempt::NeedsBlocks(blocks),
            })
        })
    }

    /// Stores zero blocks in the holes of `start..start + len`; grows the file unless `keep_size`.
    pub(crate) fn preallocate(&self, ino: u32, start: u64, len: u64, keep_size: bool) -> FsResult<()> {
        if len == 0 {
            return Err(Errno::INVAL);
        }
        let end = start.checked_add(len).filter(|end| *end <= MAX_FILE_BYTES).ok_or(Errno::FBIG)?;
        const CHUNK: u64 = 64;
        let (first, last) = (start / B, end.div_ceil(B));
        if self.holes(ino, first, last)? > self.available_blocks() {
            return Err(Errno::NOSPC);
        }
        for chunk in (first..last).step_by(CHUNK as usize) {
            self.preallocate_chunk(ino, chunk, (chunk + CHUNK).min(last) - 1)?;
        }
        self.with_file(ino, |file| {
            if keep_size || end <= file.inode.size {
                let inode = Inode { ctime: now(), ..file.inode };
                table::commit(&self.region, file.offset, &inode);
                return Ok(Attempt::Done(()));
            }
            let time = now();
            let inode = Inode { size: end, mtime: time, ctime: time, ..file.inode };
            Ok(match self.resize(file, inode)? {
                Attempt::Done(_) => Attempt::Done(()),
                Attempt::NeedsBlocks(blocks) => Attempt::NeedsBlocks(blocks),
            })
        })
    }

    fn holes(&self, ino: u32, first: u64, last: u64) -> FsResult<u64> {
        let (offset, slot) = self.find(ino)?;
        let _guard = slot.lock.read();
        let mut holes = last - first;
        visit(&self.region, self.load(offset)?.root, first, last - 1, &mut |_, _| {
            holes -= 1;
            true
        });
        Ok(holes)
    }

    fn preallocate_chunk(&self, ino: u32, first: u64, last: u64) -> FsResult<()> {
        self.with_file(ino, |file| {
            let needed = most_blocks(file.inode.root, first, last);
            let Some(mut change) = self.try_begin(needed, false) else {
                return Ok(Attempt::NeedsBlocks(needed));
            };
            let leaf = |change: &mut Change<'_>, index: u64, old: Pointer| {
                if !old.is_hole() {
                    return Ok(old);
                }
                let block = change.take()?;
                // SAFETY: the block is fresh.
                unsafe { self.region.zero(byte(block), BLOCK) };
                change.unsynced.add_block(block);
                self.adopt(block, Leaf { ino, index: index as u32 });
                Ok(Pointer::resident(block))
            };
            let edit = Edit::new(&self.region, &mut change, (first, last), Visible::InPlace, leaf);
            let root = edit.apply(file.inode.root)?;
            if root != file.inode.root {
                change.commit_inode(file.offset, &Inode { root, ..file.inode });
            }
            change.finish(file.slot);
            Ok(Attempt::Done(()))
        })
    }

    /// Returns the next byte at or after `start` that is stored (`data`) or in a hole; ENXIO if none exists.
    pub(crate) fn seek(&self, ino: u32, start: u64, data: bool) -> FsResult<u64> {
        let (offset, slot) = self.find(ino)?;
        let _guard = slot.lock.read();
        let inode = self.load(offset)?;
        if start >= inode.size {
            return Err(Errno::NXIO);
        }
        let mut candidate = start / B;
        let mut found = None;
        visit(&self.region, inode.root, start / B, (inode.size - 1) / B, &mut |index, _| {
            if data {
                found = Some(index);
                return false;
            }
            let contiguous = index == candidate;
            candidate += u64::from(contiguous);
            contiguous
        });
        match (data, found) {
            (true, Some(index)) => Ok(start.max(index * B)),
            (true, None) => Err(Errno::NXIO),
            (false, _) => Ok(start.max(candidate * B).min(inode.size)),
        }
    }
}
