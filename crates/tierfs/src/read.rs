//! Reading, and fetching evicted blocks.

use crate::cold::AlignedBuffer;
use crate::error::FsResult;
use crate::file::B;
use crate::format::{BLOCK, Inode, Pointer};
use crate::fs::{Mode, Promotion, TierFs, now};
use crate::heat::Leaf;
use crate::region::{Unsynced, byte, sum_of_block};
use crate::table::{self, Slot};
use crate::tree::{Cursor, PointerLocation};
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// Consecutive cold blocks in consecutive slots, read by one request.
struct Run {
    index: u64,
    slot: u32,
    blocks: usize,
}

const MOST_BLOCKS_PER_FETCH: usize = 256;
const DAY_NS: i64 = 86_400 * 1_000_000_000;

impl TierFs {
    /// Returns the number of bytes before the end of the file.
    pub fn read(&self, ino: u32, start: u64, out: &mut [u8]) -> FsResult<usize> {
        self.read_and(ino, start, out, |_| ())
    }

    /// Reads after running `before` with the file locked.
    pub(crate) fn read_and(&self, ino: u32, start: u64, out: &mut [u8], before: impl FnOnce(&Slot)) -> FsResult<usize> {
        let (offset, slot) = self.find(ino)?;
        let guard = slot.lock.read();
        before(slot);
        let file = self.load(offset)?;
        if !file.is_file() {
            return Err(if file.is_directory() { Errno::ISDIR } else { Errno::INVAL });
        }
        let len = file.size.saturating_sub(start).min(out.len() as u64) as usize;
        if len == 0 {
            return Ok(0);
        }
        let runs = self.copy_resident(file.root, start, &mut out[..len]);
        let access = access_to_mark(&file);
        if runs.is_empty() {
            drop(guard);
            self.mark_access(slot, offset, access);
            return Ok(len);
        }
        let version = slot.version();
        let mut fetched = Vec::with_capacity(runs.len());
        for run in runs {
            let mut data = AlignedBuffer::new(run.blocks);
            self.read_slots(run.slot, &mut data)?;
            copy_overlap(&data, run.index * B, start, &mut out[..len]);
            fetched.push((run, data));
        }
        drop(guard);
        self.mark_access(slot, offset, access);
        for (run, data) in fetched {
            self.promote(ino, slot, offset, version, &run, &data);
        }
        Ok(len)
    }

    /// Returns for every block of a file whether it is in the cold store.
    pub fn cold_blocks_of(&self, ino: u32) -> FsResult<Vec<bool>> {
        let (offset, slot) = self.find(ino)?;
        let _guard = slot.lock.read();
        let file = self.load(offset)?;
        let mut cold = vec![false; file.size.div_ceil(B) as usize];
        crate::tree::visit(&self.region, file.root, 0, u64::MAX / 2, &mut |index, pointer| {
            if let Some(block) = cold.get_mut(index as usize) {
                *block = pointer.is_cold();
            }
            true
        });
        Ok(cold)
    }

    /// Copies resident blocks, zeros holes, and returns the cold runs.
    fn copy_resident(&self, root: Pointer, start: u64, out: &mut [u8]) -> Vec<Run> {
        let mut cursor = Cursor::new(&self.region, root);
        let mut runs: Vec<Run> = Vec::new();
        let mut done = 0;
        while done < out.len() {
            let at = start + done as u64;
            let within = (at % B) as usize;
            let len = (BLOCK - within).min(out.len() - done);
            let pointer = cursor.get(at / B);
            if pointer.is_resident() {
                self.heat.touch(pointer.address());
                // SAFETY: the caller has locked the inode.
                unsafe { self.region.read(byte(pointer.address()) + within, &mut out[done..done + len]) };
            } else if pointer.is_cold() {
                add_to_runs(&mut runs, at / B, pointer.address());
            } else {
                out[done..done + len].fill(0);
            }
            done += len;
        }
        runs
    }

    pub(crate) fn read_slots(&self, slot: u32, into: &mut [u8]) -> FsResult<()> {
        // Slot 0 marks lost content.
        if slot == 0 {
            return Err(Errno::IO);
        }
        self.cold.read(slot, into).map_err(|error| {
            self.counters.complain("read from the cold store", &error);
            Errno::IO
        })?;
        self.counters.fetched.fetch_add((into.len() / BLOCK) as u64, Ordering::Relaxed);
        let slots = into.chunks(BLOCK).zip(slot..);
        let damaged = slots.filter(|(block, slot)| !self.is_as_evicted(*slot, block)).map(|(_, slot)| slot);
        let damaged: Vec<u32> = damaged.collect();
        for slot in &damaged {
            self.counters.damaged_block(*slot);
        }
        if damaged.is_empty() { Ok(()) } else { Err(Errno::IO) }
    }

    pub(crate) fn is_as_evicted(&self, slot: u32, content: &[u8]) -> bool {
        let sum = if self.block_sums { self.region.block_sum(slot) } else { 0 };
        sum == 0 || sum == sum_of_block(slot, content)
    }

    fn mark_access(&self, slot: &Slot, offset: usize, access: Option<i64>) {
        let Some(atime) = access.filter(|_| self.changeable().is_ok()) else { return };
        let _guard = slot.lock.write();
        if let Ok(mut inode) = self.load(offset) {
            inode.atime = atime;
            table::commit(&self.region, offset, &inode);
        }
    }

    /// Moves fetched blocks back to memory if the policy allows it, memory has space, and the file is unchanged.
    fn promote(&self, ino: u32, slot: &Slot, offset: usize, version: u32, run: &Run, data: &[u8]) {
        if self.mode == Mode::Bpfs || self.promotion == Promotion::Never {
            return;
        }
        let wanted: Vec<usize> = (0..run.blocks)
            .filter(|block| self.promotion == Promotion::Always || self.evictor.used_before(run.slot + *block as u32))
            .collect();
        let Some(mut change) = self.try_begin(wanted.len(), false) else { return };
        let _guard = slot.lock.write();
        if slot.version() != version {
            return;
        }
        let Ok(file) = self.load(offset) else { return };
        let (mut cursor, mut swings) = (Cursor::new(&self.region, file.root), Vec::with_capacity(wanted.len()));
        for block in wanted {
            let (index, cold) = (run.index + block as u64, Pointer::cold(run.slot + block as u32));
            if cursor.get(index) != cold {
                continue;
            }
            let Ok(fresh) = change.take() else { break };
            // SAFETY: the block is fresh.
            unsafe { self.region.write(byte(fresh), &data[block * BLOCK..][..BLOCK]) };
            change.unsynced.add_block(fresh);
            self.adopt(fresh, Leaf { ino, index: index as u32 });
            change.replace_leaf(cold);
            swings.push((index, fresh));
        }
        change.sync();
        for (index, fresh) in &swings {
            self.swing(offset, &mut cursor, *index, Pointer::resident(*fresh), &mut change.unsynced);
        }
        self.counters.promoted.fetch_add(swings.len() as u64, Ordering::Relaxed);
        change.finish(slot);
    }

    /// Stores a leaf's pointer in place; the caller makes it durable.
    pub(crate) fn swing(
        &self,
        offset: usize,
        cursor: &mut Cursor<'_>,
        index: u64,
        to: Pointer,
        unsynced: &mut Unsynced,
    ) {
        match cursor.slot(index) {
            PointerLocation::Node(at) => self.region.store_unsynced(unsynced, at, to.seal()),
            PointerLocation::Root => self.commit_root(offset, to),
            PointerLocation::Nowhere | PointerLocation::Lost => debug_assert!(false, "the pointer was just read"),
        }
    }
}

/// Returns the new access time, if it must be stored. Like relatime: only if the last one is older than the last
/// change, or than a day.
fn access_to_mark(file: &Inode) -> Option<i64> {
    let time = now();
    (file.atime <= file.mtime || time.saturating_sub(file.atime) > DAY_NS).then_some(time)
}

fn add_to_runs(runs: &mut Vec<Run>, index: u64, slot: u32) {
    match runs.last_mut() {
        Some(run)
            if run.blocks < MOST_BLOCKS_PER_FETCH
                && index == run.index + run.blocks as u64
                && slot == run.slot + run.blocks as u32 =>
        {
            run.blocks += 1;
        }
        _ => runs.push(Run { index, slot, blocks: 1 }),
    }
}

/// Copies the common part of `data` (bytes of the file from `data_start`) and `out` (from `out_start`) to `out`.
fn copy_overlap(data: &[u8], data_start: u64, out_start: u64, out: &mut [u8]) {
    let from = data_start.max(out_start);
    let to = (data_start + data.len() as u64).min(out_start + out.len() as u64);
    if from < to {
        let source = &data[(from - data_start) as usize..(to - data_start) as usize];
        out[(from - out_start) as usize..(to - out_start) as usize].copy_from_slice(source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_overlap_is_copied() {
        let data: Vec<u8> = (0..10).collect();
        let mut out = [99; 6];
        copy_overlap(&data, 100, 97, &mut out);
        assert_eq!(out, [99, 99, 99, 0, 1, 2]);
        copy_overlap(&data, 100, 104, &mut out);
        assert_eq!(out, [4, 5, 6, 7, 8, 9]);
        copy_overlap(&data, 200, 104, &mut out);
        assert_eq!(out, [4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn runs_join_neighbours() {
        let mut runs = Vec::new();
        for (index, slot) in [(0, 5), (1, 6), (2, 9), (4, 10)] {
            add_to_runs(&mut runs, index, slot);
        }
        let shapes: Vec<_> = runs.iter().map(|run| (run.index, run.slot, run.blocks)).collect();
        assert_eq!(shapes, [(0, 5, 2), (2, 9, 1), (4, 10, 1)]);
    }
}
