//! Free blocks of the region and free slots of the cold store. In memory only: rebuilt by the walk at mount.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One bit per block, set concurrently by the walk at mount.
pub(crate) struct BlockMarks(Box<[AtomicU64]>);

impl BlockMarks {
    pub(crate) fn new(count: u64) -> Self {
        Self((0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets a bit; returns whether it was set before.
    pub(crate) fn set(&self, index: u32) -> bool {
        let bit = 1 << (index % 64);
        self.0[index as usize / 64].fetch_or(bit, Ordering::Relaxed) & bit != 0
    }

    pub(crate) fn is_set(&self, index: u32) -> bool {
        self.word(index as usize / 64) & 1 << (index % 64) != 0
    }

    pub(crate) fn clear(&self, index: u32) {
        self.0[index as usize / 64].fetch_and(!(1 << (index % 64)), Ordering::Relaxed);
    }

    fn word(&self, index: usize) -> u64 {
        self.0[index].load(Ordering::Relaxed)
    }
}

/// A set of free numbers in shards, to reduce contention.
pub(crate) struct Space {
    shards: Box<[Mutex<Shard>]>,
    words_per_shard: usize,
    free: AtomicU64,
    total: u64,
    reserve: u64,
}

struct Shard {
    first_word: usize,
    /// A set bit is a free number.
    words: Vec<u64>,
    cursor: usize,
}

impl Space {
    /// Manages the unmarked numbers below `count`; `reserve` of them are kept for changes that free space.
    pub(crate) fn new(count: u64, used: &BlockMarks, shards: usize, reserve: u64) -> Self {
        let words = count.div_ceil(64) as usize;
        let words_per_shard = words.div_ceil(shards).max(1);
        let mut free = 0;
        let shards = (0..words)
            .step_by(words_per_shard)
            .map(|first_word| {
                let last = (first_word + words_per_shard).min(words);
                let words: Vec<u64> = (first_word..last).map(|index| !used.word(index) & below(count, index)).collect();
                free += words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
                Mutex::new(Shard { first_word, words, cursor: 0 })
            })
            .collect();
        Self { shards, words_per_shard, free: AtomicU64::new(free), total: count, reserve }
    }

    pub(crate) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    pub(crate) fn available(&self) -> u64 {
        self.free().saturating_sub(self.reserve)
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Adds `count` free numbers to `out`, ascending if possible, or none. `privileged` may use the reserve.
    pub(crate) fn take(&self, count: usize, privileged: bool, out: &mut Vec<u32>) -> bool {
        let keep = if privileged { 0 } else { self.reserve };
        let claimed = self.free.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |free| {
            (free >= count as u64 + keep).then(|| free - count as u64)
        });
        if claimed.is_err() {
            return false;
        }
        let mut missing = count;
        let mut shard = thread_number() % self.shards.len();
        while missing > 0 {
            missing -= self.shards[shard].lock().take(missing, out);
            shard = (shard + 1) % self.shards.len();
        }
        true
    }

    pub(crate) fn give(&self, numbers: &[u32]) {
        let mut rest = numbers;
        while let Some(first) = rest.first() {
            let index = *first as usize / 64 / self.words_per_shard;
            let same = |number: &u32| *number as usize / 64 / self.words_per_shard == index;
            let run = rest.iter().take_while(|number| same(number)).count();
            self.shards[index].lock().give(&rest[..run]);
            rest = &rest[run..];
        }
        self.free.fetch_add(numbers.len() as u64, Ordering::AcqRel);
    }
}

fn below(count: u64, word: usize) -> u64 {
    match count.saturating_sub(word as u64 * 64) {
        0 => 0,
        left if left >= 64 => u64::MAX,
        left => (1 << left) - 1,
    }
}

impl Shard {
    fn take(&mut self, count: usize, out: &mut Vec<u32>) -> usize {
        let mut taken = 0;
        for _ in 0..=self.words.len() {
            let word = &mut self.words[self.cursor];
            while *word != 0 && taken < count {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                out.push(((self.first_word + self.cursor) * 64) as u32 + bit);
                taken += 1;
            }
            if taken == count {
                break;
            }
            self.cursor = (self.cursor + 1) % self.words.len();
        }
        taken
    }

    fn give(&mut self, numbers: &[u32]) {
        for number in numbers {
            let word = &mut self.words[*number as usize / 64 - self.first_word];
            debug_assert_eq!(*word & 1 << (number % 64), 0, "{number} freed twice");
            *word |= 1 << (number % 64);
        }
    }
}

/// Returns a small number per thread, to choose shards.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unmarked_numbers_are_taken() {
        let used = BlockMarks::new(200);
        for number in 0..100 {
            assert!(!used.set(number));
        }
        assert!(used.set(99));
        let space = Space::new(200, &used, 3, 10);
        assert_eq!((space.free(), space.available()), (100, 90));
        let mut out = Vec::new();
        assert!(!space.take(91, false, &mut out) && out.is_empty());
        assert!(space.take(90, false, &mut out));
        assert!(!space.take(1, false, &mut out));
        assert!(space.take(10, true, &mut out));
        out.sort_unstable();
        assert_eq!(out, (100..200).collect::<Vec<_>>());
        space.give(&out);
        assert_eq!(space.free(), 100);
    }

    #[test]
    fn threads_never_share_a_number() {
        let space = Space::new(10_000, &BlockMarks::new(10_000), 8, 0);
        let lists: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut mine = Vec::new();
                        for round in 0..500 {
                            space.take(5, false, &mut mine);
                            if round % 3 == 0 {
                                let back = mine.split_off(mine.len() - 2);
                                space.give(&back);
                            }
                        }
                        mine
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        let mut all: Vec<u32> = lists.concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(space.free() as usize, 10_000 - count);
    }
}
