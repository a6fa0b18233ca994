//! The order in which files of a tree were created, for its temporal locality.

use crate::plan::Births;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum number of files whose births are kept, 24 bytes each. Larger trees have no locality.
const MOST_FILES: usize = 20_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Birth {
    /// Any unit; 0 if unknown.
    time: u64,
    /// Order of births with equal times: the inode number, which file systems mostly assign in this order.
    tie: u64,
    directory: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct BirthOrder {
    births: Vec<Birth>,
    files: usize,
    some_unknown: bool,
}

/// Locality and the order that it is based on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MeasuredLocality {
    pub locality: Option<f64>,
    pub by_inode: bool,
}

impl BirthOrder {
    /// Adds a file in a directory; `time` is that of its birth, `None` if unknown.
    pub(super) fn add(&mut self, time: Option<u64>, tie: u64, directory: impl Hash) {
        let mut hasher = DefaultHasher::new();
        directory.hash(&mut hasher);
        self.files += 1;
        self.some_unknown |= time.is_none();
        if self.births.len() < MOST_FILES {
            self.births.push(Birth { time: time.unwrap_or(0), tie, directory: hasher.finish() });
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.files += other.files;
        self.some_unknown |= other.some_unknown;
        let room = MOST_FILES - self.births.len();
        self.births.extend(other.births.iter().take(room));
    }

    /// Returns the locality in the order of births, or of inodes if some births are unknown.
    pub(super) fn locate(&self) -> MeasuredLocality {
        let by_inode = self.some_unknown;
        if self.files > self.births.len() {
            return MeasuredLocality { locality: None, by_inode };
        }
        let mut order = self.births.clone();
        if by_inode {
            order.iter_mut().for_each(|birth| birth.time = 0);
        }
        order.sort_unstable();
        let births = Births::of_hashes(order.into_iter().map(|birth| birth.directory));
        // The range of profiles: less than chance counts as none.
        MeasuredLocality {
            locality: births.locality().map(|value| (value.clamp(0.0, 1.0) * 1e4).round() / 1e4),
            by_inode,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn births_order_files_and_inodes_replace_unknown_births() {
        // By birth the directories alternate, by inode each is filled in one run.
        let files = [(1, 10, "a"), (2, 20, "b"), (3, 11, "a"), (4, 21, "b")];
        let mut known = BirthOrder::default();
        let mut unknown = BirthOrder::default();
        for (time, inode, directory) in files {
            known.add(Some(time), inode, directory);
            unknown.add((inode != 20).then_some(time), inode, directory);
        }
        assert_eq!(known.locate(), MeasuredLocality { locality: Some(0.0), by_inode: false });
        assert_eq!(unknown.locate(), MeasuredLocality { locality: Some(0.5), by_inode: true });
        let mut whole = BirthOrder::default();
        whole.merge(&known);
        whole.merge(&unknown);
        assert!(whole.locate().by_inode && whole.files == 8);
    }
}
