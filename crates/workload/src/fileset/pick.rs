//! Selects a file for a flowop: in rotation by index, by a given index, or randomly; never a busy one.
//!
//! The rules are Filebench's (`fileset_pick`). In rotation, the candidate is the first existing entry at or after the rotor,
//! which then moves past it; busy candidates are skipped without moving the rotor again. Creation has its own rotor over missing
//! entries. An entry is busy while a thread opens, closes, deletes or stats it, not while it is merely open. All state is atomic:
//! two non-blocking compare-and-swap operations per pick.
//!
//! One rule differs from Filebench: deletion skips open files. Filebench then deletes nothing, so that the file set fills up
//! until creation finds no missing file.

use super::states::{CachePadded, States};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const EXISTS: u32 = 1 << 31;
const BUSY: u32 = 1 << 30;
const OPEN_COUNT: u32 = BUSY - 1;

/// Existing or missing entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PickFrom {
    Existing,
    /// Existing entries that are not open; if all are open, any existing one.
    Closed,
    Missing,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum PickOrder<'a> {
    Rotation(&'a AtomicU32),
    Index(u64),
    /// Uniformly by these random bits.
    Random(u64),
}

/// Entries of one kind (files, directories, leaf directories) of a file set in use.
#[derive(Debug)]
pub(crate) struct EntryTable {
    states: States,
    existing: Bitmap,
    missing: Bitmap,
    /// Rotor over existing entries, shared by all threads.
    pub rotor: CachePadded<AtomicU32>,
    pub missing_rotor: CachePadded<AtomicU32>,
}

impl EntryTable {
    /// Creates a table of `count` entries of which those in `existing` exist.
    pub(crate) fn new(count: usize, existing: impl IntoIterator<Item = u32>) -> Self {
        let table = Self {
            states: States::new(count),
            existing: Bitmap::new(count),
            missing: Bitmap::new(count),
            rotor: CachePadded::default(),
            missing_rotor: CachePadded::default(),
        };
        for index in existing {
            table.states.of(index).store(EXISTS, Ordering::Relaxed);
            table.existing.set(index);
        }
        for index in 0..count as u32 {
            if table.states.of(index).load(Ordering::Relaxed) & EXISTS == 0 {
                table.missing.set(index);
            }
        }
        table
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn existing(&self) -> usize {
        self.existing.count()
    }

    /// Selects an entry, which is busy until [`Self::release`]. `None`: no entry of that kind is left, or `stop` was set while
    /// all of them were busy.
    pub(crate) fn pick(&self, mut which: PickFrom, how: PickOrder<'_>, stop: &AtomicBool) -> Option<u32> {
        let mut wait = Wait::default();
        loop {
            match self.try_pick(which, how) {
                Attempt::Obtained(index) => return Some(index),
                Attempt::NoneLeft => return None,
                Attempt::AllBusy if which == PickFrom::Closed => which = PickFrom::Existing,
                Attempt::AllBusy if stop.load(Ordering::Relaxed) => return None,
                Attempt::AllBusy => wait.a_little(),
            }
        }
    }

    /// Makes one given entry busy, waiting for its current user. `false`: `stop` was set.
    pub(crate) fn acquire(&self, index: u32, stop: &AtomicBool) -> bool {
        let state = self.states.of(index);
        let mut wait = Wait::default();
        loop {
            let seen = state.load(Ordering::Relaxed);
            if seen & BUSY == 0 && exchange(state, seen, seen | BUSY) {
                return true;
            }
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            wait.a_little();
        }
    }

    /// Ends the busy state of an entry of this thread. `opened` is added to the count of open descriptors.
    pub(crate) fn release(&self, index: u32, opened: i32) {
        let state = self.states.of(index);
        let seen = state.load(Ordering::Relaxed);
        let count = (seen & OPEN_COUNT).saturating_add_signed(opened);
        state.store((seen & EXISTS) | count, Ordering::Release);
    }

    /// Ends the busy state; the entry now exists.
    pub(crate) fn release_existing(&self, index: u32, opened: i32) {
        self.missing.clear(index);
        self.existing.set(index);
        let state = self.states.of(index);
        let count = (state.load(Ordering::Relaxed) & OPEN_COUNT).saturating_add_signed(opened);
        state.store(EXISTS | count, Ordering::Release);
    }

    /// Ends the busy state; the entry no longer exists and is not open.
    pub(crate) fn release_missing(&self, index: u32) {
        self.existing.clear(index);
        self.missing.set(index);
        self.states.of(index).store(0, Ordering::Release);
    }

    pub(crate) fn open_count(&self, index: u32) -> u32 {
        self.states.of(index).load(Ordering::Relaxed) & OPEN_COUNT
    }

    fn try_pick(&self, which: PickFrom, how: PickOrder<'_>) -> Attempt {
        let bitmap = match which {
            PickFrom::Existing | PickFrom::Closed => &self.existing,
            PickFrom::Missing => &self.missing,
        };
        let first = match how {
            PickOrder::Rotation(rotor) => advance(rotor, bitmap),
            PickOrder::Index(index) => bitmap.next(index.min(u64::from(u32::MAX)) as u32),
            PickOrder::Random(bits) => bitmap.next(((u128::from(bits) * self.len() as u128) >> 64) as u32),
        };
        let Some(first) = first else { return Attempt::NoneLeft };
        let length = self.len() as u32;
        let mut candidate = first;
        let mut distance = 0;
        loop {
            if self.claim(candidate, which) {
                return Attempt::Obtained(candidate);
            }
            let Some(next) = bitmap.next(candidate + 1) else { return Attempt::NoneLeft };
            let next_distance = (next + length - first) % length;
            if next_distance <= distance {
                return Attempt::AllBusy;
            }
            (candidate, distance) = (next, next_distance);
        }
    }

    fn claim(&self, index: u32, which: PickFrom) -> bool {
        let state = self.states.of(index);
        let seen = state.load(Ordering::Relaxed);
        let fits = match which {
            PickFrom::Existing => seen & (EXISTS | BUSY) == EXISTS,
            PickFrom::Closed => seen == EXISTS,
            PickFrom::Missing => seen & (EXISTS | BUSY) == 0,
        };
        fits && exchange(state, seen, seen | BUSY)
    }
}

enum Attempt {
    Obtained(u32),
    AllBusy,
    NoneLeft,
}

fn exchange(state: &AtomicU32, seen: u32, new: u32) -> bool {
    state.compare_exchange(seen, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Finds the candidate in rotation and moves the rotor past it atomically.
fn advance(rotor: &AtomicU32, bitmap: &Bitmap) -> Option<u32> {
    loop {
        let seen = rotor.load(Ordering::Relaxed);
        let candidate = bitmap.next(seen)?;
        if rotor.compare_exchange_weak(seen, candidate + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Some(candidate);
        }
    }
}

/// Wait for an entry that another thread holds during a system call.
#[derive(Default)]
struct Wait(u32);

impl Wait {
    fn a_little(&mut self) {
        self.0 += 1;
        if self.0 < 16 {
            std::thread::yield_now();
        } else {
            // Increasing, up to 2 ms: the holder may be one of thousands of runnable threads.
            std::thread::sleep(Duration::from_micros(20) * self.0.min(100));
        }
    }
}

#[derive(Debug)]
struct Bitmap {
    words: Vec<AtomicU64>,
}

impl Bitmap {
    fn new(bits: usize) -> Self {
        Self { words: (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    fn set(&self, index: u32) {
        self.words[index as usize / 64].fetch_or(1 << (index % 64), Ordering::Relaxed);
    }

    fn clear(&self, index: u32) {
        self.words[index as usize / 64].fetch_and(!(1 << (index % 64)), Ordering::Relaxed);
    }

    fn count(&self) -> usize {
        self.words.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// Returns the first set bit at or after `from`, wrapping around.
    fn next(&self, from: u32) -> Option<u32> {
        let from = if from as usize / 64 < self.words.len() { from } else { 0 };
        let start = from as usize / 64;
        let word = self.words.get(start)?.load(Ordering::Relaxed) & (u64::MAX << (from % 64));
        if word != 0 {
            return Some(start as u32 * 64 + word.trailing_zeros());
        }
        let after = (start + 1..self.words.len()).chain(0..=start);
        after.into_iter().find_map(|index| {
            let word = self.words[index].load(Ordering::Relaxed);
            (word != 0).then(|| index as u32 * 64 + word.trailing_zeros())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn never() -> AtomicBool {
        AtomicBool::new(false)
    }

    fn rotate(table: &EntryTable) -> Option<u32> {
        table.pick(PickFrom::Existing, PickOrder::Rotation(&table.rotor), &never())
    }

    #[test]
    fn existing_entries_are_picked_in_rotation() {
        let table = EntryTable::new(200, [3, 70, 150]);
        let picked: Vec<u32> = (0..5)
            .map(|_| {
                let index = rotate(&table).unwrap();
                table.release(index, 0);
                index
            })
            .collect();
        assert_eq!(picked, [3, 70, 150, 3, 70]);
    }

    #[test]
    fn busy_entry_is_skipped_and_the_rotor_moves_past_the_candidate() {
        let table = EntryTable::new(10, 0..10);
        assert_eq!(rotate(&table), Some(0));
        table.rotor.store(0, Ordering::Relaxed);
        assert_eq!(rotate(&table), Some(1), "0 is busy");
        assert_eq!(table.rotor.load(Ordering::Relaxed), 1, "behind the busy candidate 0, not behind 1");
        assert_eq!(rotate(&table), Some(2), "1 is busy");
    }

    #[test]
    fn a_closed_entry_is_preferred_and_an_open_one_is_the_last_resort() {
        let table = EntryTable::new(4, 0..3);
        let closed = || table.pick(PickFrom::Closed, PickOrder::Rotation(&table.rotor), &never());
        assert_eq!(rotate(&table), Some(0));
        table.release(0, 1);
        table.rotor.store(0, Ordering::Relaxed);
        assert_eq!(closed(), Some(1), "0 is open");
        table.release_missing(1);
        assert_eq!(closed(), Some(2));
        table.release_missing(2);
        assert_eq!(closed(), Some(0), "only the open one is left");
        assert_eq!(table.open_count(0), 1);
        table.release(0, -1);
        assert_eq!(closed(), Some(0));
    }

    #[test]
    fn creation_has_its_own_rotor_and_deletion_moves_the_entry_back() {
        let table = EntryTable::new(4, [0, 2]);
        let missing = || table.pick(PickFrom::Missing, PickOrder::Rotation(&table.missing_rotor), &never());
        assert_eq!(missing(), Some(1));
        table.release_existing(1, 1);
        assert_eq!(table.open_count(1), 1);
        assert_eq!(missing(), Some(3));
        table.release_existing(3, 0);
        assert_eq!(missing(), None, "every entry exists");
        assert_eq!(rotate(&table), Some(0));
        table.release_missing(0);
        assert_eq!(missing(), Some(0));
        assert_eq!(table.existing(), 3);
    }

    #[test]
    fn a_wait_for_busy_entries_ends_with_the_run() {
        let table = EntryTable::new(1, [0]);
        assert_eq!(rotate(&table), Some(0));
        assert_eq!(table.pick(PickFrom::Existing, PickOrder::Index(0), &AtomicBool::new(true)), None);
        assert!(!table.acquire(0, &AtomicBool::new(true)));
    }

    #[test]
    fn concurrent_threads_never_share_a_busy_entry() {
        let table = EntryTable::new(64, 0..32);
        let holders: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (table, holders) = (&table, &holders);
                scope.spawn(move || {
                    for round in 0..5000 {
                        let which = if (round + thread) % 2 == 0 { PickFrom::Existing } else { PickFrom::Missing };
                        let rotor = if which == PickFrom::Existing { &table.rotor } else { &table.missing_rotor };
                        let index = table.pick(which, PickOrder::Rotation(rotor), &never()).unwrap();
                        assert_eq!(holders[index as usize].fetch_add(1, Ordering::SeqCst), 0);
                        holders[index as usize].fetch_sub(1, Ordering::SeqCst);
                        match which {
                            PickFrom::Existing if table.existing() > 8 => table.release_missing(index),
                            PickFrom::Missing if table.existing() < 56 => table.release_existing(index, 0),
                            _ => table.release(index, 0),
                        }
                    }
                });
            }
        });
    }

    proptest! {
        #[test]
        fn the_next_bit_is_the_first_in_cyclic_order(bits in prop::collection::btree_set(0u32..300, 0..40), from in 0u32..400) {
            let bitmap = Bitmap::new(300);
            bits.iter().for_each(|bit| bitmap.set(*bit));
            let from_here = if from / 64 < 5 { from } else { 0 };
            let expected = bits.range(from_here..).next().or_else(|| bits.iter().next()).copied();
            prop_assert_eq!(bitmap.next(from), expected);
        }
    }
}
