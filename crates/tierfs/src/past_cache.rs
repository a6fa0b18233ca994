//! Protects data written past the kernel's cache from write-back of stale pages of a shared mapping.
//!
//! A write(2) past the cache drops the cached pages of its range twice, before and after (fuse_direct_io, fs/fuse/file.c). A page
//! that a mapping reads and changes in between is written back as a whole when it is dropped, including stale bytes of the range.
//! Those bytes are ignored: stores of the mapping during the write(2) count as earlier.

use crate::error::FsResult;
use crate::file::{Attempt, B, end_of_write};
use crate::fs::TierFs;
use crate::table::Slot;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum bytes of one write(2) (MAX_RW_COUNT, linux/fs.h), rounded up.
const MOST_OF_A_WRITE: u64 = 1 << 31;

/// The last write(2) past the cache of each file whose pages the kernel may hold.
#[derive(Default)]
pub(crate) struct PastCache {
    last: Mutex<HashMap<u32, LastWrite>>,
    files: AtomicUsize,
}

/// One write(2), which the kernel sends in pieces. Writes that follow without a gap are treated as one: no page of an earlier one
/// is in the cache unless it is filled again.
#[derive(Default)]
struct LastWrite {
    end: u64,
    /// Bytes that may be stale in cached pages: ascending and disjoint.
    older_in_cache: Vec<Range<u64>>,
}

impl PastCache {
    fn is_empty(&self) -> bool {
        self.files.load(Ordering::Relaxed) == 0
    }

    /// Records a piece. The kernel locks the inode until the pages of the whole write(2) are dropped, so a piece that does not
    /// follow the previous one belongs to another write. The caller has the file locked for writing.
    fn note(&self, ino: u32, piece: Range<u64>) {
        let mut last = self.last.lock();
        let write = last.entry(ino).or_default();
        if piece.start != write.end {
            write.older_in_cache.clear();
        }
        write.end = piece.end;
        write.older_in_cache.retain(|older| older.end + MOST_OF_A_WRITE > piece.end);
        match write.older_in_cache.last_mut() {
            Some(before) if before.end == piece.start => before.end = piece.end,
            _ => write.older_in_cache.push(piece),
        }
        self.files.store(last.len(), Ordering::Relaxed);
    }

    /// Records that the kernel fills the pages of these bytes, which are then current. The caller has the file locked
    /// for reading.
    fn filled(&self, ino: u32, bytes: &Range<u64>) {
        if self.is_empty() {
            return;
        }
        let mut last = self.last.lock();
        let Some(write) = last.get_mut(&ino) else { return };
        let pages = bytes.start / B * B..bytes.end.next_multiple_of(B);
        if write.older_in_cache.iter().all(|older| older.end <= pages.start || pages.end <= older.start) {
            return;
        }
        let rest = write.older_in_cache.iter().flat_map(|older| without(older, &pages));
        write.older_in_cache = rest.filter(|range| !range.is_empty()).collect();
        if write.older_in_cache.is_empty() {
            last.remove(&ino);
            self.files.store(last.len(), Ordering::Relaxed);
        }
    }

    pub(crate) fn clear(&self, ino: u32) {
        if !self.is_empty() {
            let mut last = self.last.lock();
            last.remove(&ino);
            self.files.store(last.len(), Ordering::Relaxed);
        }
    }

    /// Returns the first of these bytes that a page of the cache may replace, up to the next that it may not. Otherwise
    /// the range is empty, at their end.
    fn replaceable(&self, ino: u32, bytes: Range<u64>) -> Range<u64> {
        if self.is_empty() {
            return bytes;
        }
        let last = self.last.lock();
        let mut first = bytes.start;
        for older in last.get(&ino).iter().flat_map(|write| &write.older_in_cache) {
            if older.start > first {
                return first.min(bytes.end)..older.start.min(bytes.end);
            }
            first = first.max(older.end);
        }
        first.min(bytes.end)..bytes.end
    }
}

/// Returns the parts of a range before and after another.
fn without(range: &Range<u64>, gone: &Range<u64>) -> [Range<u64>; 2] {
    [range.start..range.end.min(gone.start), range.start.max(gone.end)..range.end]
}

impl TierFs {
    /// Reads like [`read`](Self::read), for pages that the kernel keeps.
    pub(crate) fn read_into_cache(&self, ino: u32, start: u64, out: &mut [u8]) -> FsResult<usize> {
        let bytes = start..start.saturating_add(out.len() as u64);
        self.read_and(ino, start, out, |slot| {
            slot.keep_in_cache();
            self.past_cache.filled(ino, &bytes);
        })
    }

    /// Forgets the cache state of a file that the kernel has forgotten.
    pub(crate) fn forget_cached(&self, ino: u32, slot: &Slot) {
        if !self.past_cache.is_empty() {
            // The lock prevents a concurrent lookup from recording state that is then lost.
            let _guard = slot.lock.write();
            if slot.lookups.load(Ordering::Acquire) == 0 {
                self.past_cache.clear(ino);
            }
        }
    }

    /// Writes like [`write`](Self::write), for data that are also in the kernel's cache.
    pub(crate) fn write_through_cache(&self, ino: u32, start: u64, data: &[u8], clear_setid: bool) -> FsResult<usize> {
        self.find(ino)?.1.keep_in_cache();
        self.past_cache.clear(ino);
        self.write(ino, start, data, clear_setid)
    }

    /// Writes like [`write`](Self::write), for data that bypass the kernel's cache.
    pub(crate) fn write_past_cache(&self, ino: u32, start: u64, data: &[u8], clear_setid: bool) -> FsResult<usize> {
        self.write_and(ino, start, data, clear_setid, |slot| {
            if slot.is_in_cache() {
                self.past_cache.note(ino, start..start + data.len() as u64);
            }
        })
    }

    /// Writes back pages changed through a shared mapping, except bytes that were written past the cache since the kernel filled
    /// them. The parts around such bytes are written separately.
    pub(crate) fn write_back(&self, ino: u32, start: u64, data: &[u8], clear_setid: bool) -> FsResult<usize> {
        let end = end_of_write(start, data)?;
        let mut done = start;
        while done < end {
            done = self.with_file(ino, |file| {
                let part = self.past_cache.replaceable(ino, done..end);
                let bytes = &data[(part.start - start) as usize..(part.end - start) as usize];
                if bytes.is_empty() {
                    return Ok(Attempt::Done(part.end));
                }
                Ok(match self.write_locked(file, part.start, bytes, clear_setid)? {
                    Attempt::Done(_) => Attempt::Done(part.end),
                    Attempt::NeedsBlocks(blocks) => Attempt::NeedsBlocks(blocks),
                })
            })?;
        }
        Ok(data.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(past: &PastCache, bytes: Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let mut done = bytes.start;
        while done < bytes.end {
            let part = past.replaceable(1, done..bytes.end);
            done = part.end;
            parts.extend((!part.is_empty()).then_some(part));
        }
        parts
    }

    #[test]
    fn pieces_of_one_write_are_merged_and_other_writes_replace_them() {
        let past = PastCache::default();
        past.note(1, 100..2 * B);
        past.note(1, 2 * B..3 * B);
        assert_eq!(parts(&past, 0..4 * B), [0..100, 3 * B..4 * B]);
        past.note(1, 10..20);
        assert_eq!(parts(&past, 0..B), [0..10, 20..B]);
        assert_eq!(parts(&past, 15..18), []);
        past.clear(1);
        assert_eq!(parts(&past, 0..B), vec![0..B; 1]);
        past.note(1, 0..4 * B);
        past.note(1, 4 * B..MOST_OF_A_WRITE + 4 * B);
        past.filled(1, &(B..MOST_OF_A_WRITE));
        past.note(1, MOST_OF_A_WRITE + 4 * B..MOST_OF_A_WRITE + 5 * B);
        assert_eq!(parts(&past, 0..B), vec![0..B; 1], "no write(2) is that long");
    }

    #[test]
    fn filled_pages_are_current() {
        let past = PastCache::default();
        past.note(1, 0..4 * B);
        past.filled(1, &(B + 7..B + 8));
        assert_eq!(parts(&past, 0..5 * B), [B..2 * B, 4 * B..5 * B]);
        assert_eq!(past.replaceable(1, 0..8), 8..8, "nothing of it, and the next that may be replaced lies behind it");
        past.filled(1, &(3 * B..4 * B));
        past.note(1, 4 * B..4 * B + 8);
        assert_eq!(
            parts(&past, 0..5 * B),
            [B..2 * B, 3 * B..4 * B, 4 * B + 8..5 * B],
            "the next piece of the same write"
        );
    }
}
