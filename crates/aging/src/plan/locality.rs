//! Temporal locality: how often successive births are in the same directory.
//!
//! With S the share of successive births in the same directory and C that share in random order, the locality is
//! (S - C) / (1 - C). It is 0 if births do not depend on directories, and undefined in a single directory.

use super::DirectoryTree;
use serde::{Deserialize, Serialize};

/// Counts of successive births that add up over the parts of a divided plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Births {
    /// Successive births.
    pub pairs: u64,
    /// Those in the same directory.
    pub same: u64,
    /// Ordered pairs of any two files, and those in the same directory.
    pub any_pairs: u64,
    pub any_same: u64,
}

impl Births {
    /// Counts the directories of files in the order of their births. Directory numbers are below `count`.
    pub(crate) fn of(directories: impl Iterator<Item = u32>, count: u32) -> Self {
        let mut births = Self::default();
        let mut files = vec![0u64; count as usize];
        let mut before = None;
        for directory in directories {
            births.follow(before == Some(directory));
            files[directory as usize] += 1;
            before = Some(directory);
        }
        births.pairs = births.pairs.saturating_sub(1);
        births.count_pairs(files.into_iter());
        births
    }

    /// Counts like [`Self::of`] for directories named by hashes.
    pub(crate) fn of_hashes(directories: impl Iterator<Item = u64>) -> Self {
        let mut numbers = std::collections::HashMap::new();
        let sequence: Vec<u32> = directories
            .map(|directory| {
                let next = numbers.len() as u32;
                *numbers.entry(directory).or_insert(next)
            })
            .collect();
        Self::of(sequence.into_iter(), numbers.len() as u32)
    }

    fn follow(&mut self, is_same: bool) {
        self.pairs += 1;
        self.same += u64::from(is_same);
    }

    fn count_pairs(&mut self, files: impl Iterator<Item = u64>) {
        let mut total = 0;
        for files in files {
            total += files;
            self.any_same += files * files.saturating_sub(1);
        }
        self.any_pairs = total * total.saturating_sub(1);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.same += other.same;
        self.any_pairs += other.any_pairs;
        self.any_same += other.any_same;
    }

    /// Returns the locality; `None` if it is undefined.
    pub fn locality(&self) -> Option<f64> {
        if self.any_same == self.any_pairs || self.pairs == 0 {
            return None;
        }
        let chance = self.any_same as f64 / self.any_pairs as f64;
        let share = self.same as f64 / self.pairs as f64;
        Some((share - chance) / (1.0 - chance))
    }
}

/// Bounds for files that are spread evenly over the directories of each depth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounds {
    /// Share of successive births in the same directory, in random order.
    chance: f64,
    /// The same if every directory is filled before the next.
    most: f64,
}

impl Bounds {
    /// Computes the bounds for `files` of each of the `depths`; returns `None` in a single directory.
    pub(crate) fn new(tree: &DirectoryTree, depths: &[(u32, f64)], files: &[u64]) -> Option<Self> {
        let (mut same, mut used) = (0, 0);
        for ((depth, _), files) in depths.iter().zip(files) {
            let width = u64::from(tree.level(*depth).1);
            let (each, more) = (files / width, files % width);
            same += more * (each + 1) * each + (width - more) * each * each.saturating_sub(1);
            used += width.min(*files);
        }
        let all: u64 = files.iter().sum();
        if used < 2 {
            return None;
        }
        let chance = same as f64 / (all * (all - 1)) as f64;
        Some(Self { chance, most: (all - used) as f64 / (all - 1) as f64 })
    }

    /// Returns the maximum locality.
    pub(crate) fn most(&self) -> f64 {
        (self.most - self.chance) / (1.0 - self.chance)
    }

    /// Returns the share of successive births in the same directory at a locality, at most [`Self::most`].
    pub(crate) fn share(&self, locality: f64) -> f64 {
        self.chance + locality.min(self.most()) * (1.0 - self.chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locality_is_zero_for_random_order_and_one_for_runs() {
        let locality = |directories: &[u32]| Births::of(directories.iter().copied(), 3).locality();
        // S = 1/3, C = 4/12.
        assert_eq!(locality(&[0, 0, 1, 1]).map(|value| (value * 1e9).round()), Some(500_000_000.0));
        let alternating = locality(&[0, 1, 0, 1]).unwrap();
        assert!((alternating + 0.5).abs() < 1e-12, "{alternating}");
        assert_eq!(locality(&[2, 2, 2]), None);
        assert_eq!(locality(&[1]), None);
        assert_eq!(Births::of_hashes([9, 9, 7, 7].into_iter()), Births::of([0, 0, 1, 1].into_iter(), 2));
    }
}
