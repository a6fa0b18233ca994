//! Counts changes of files between two snapshots of a tree, by class of size.
//!
//! Files of both snapshots are matched by inode and time of birth. If no file matches, the trees are copies, and files are
//! matched by path. Several changes of the same kind to a file count once.

use crate::profile::{ChangeRow, MOST_CHANGES};
use senesce_core::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    pub inode: u64,
    /// Time of birth: seconds and nanoseconds since 1970; `None` if the file system does not record it.
    pub born: Option<(i64, u32)>,
    /// Bytes.
    pub size: u64,
    /// Time of the last modification, likewise.
    pub modified: (i64, u32),
    /// Hash of the path below the top.
    pub path: u64,
}

impl FileState {
    /// Returns the later of birth and last modification.
    pub fn newest(&self) -> (i64, u32) {
        self.born.unwrap_or(self.modified).max(self.modified)
    }
}

/// How files of two snapshots are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatedBy {
    /// By inode number and time of birth.
    Inode,
    /// By path: a rename counts as a delete and a create, and a replaced file as overwritten.
    Path,
}

/// Changes of files in a class of sizes between two snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassChanges {
    /// Maximum size of the class, in bytes; the last class also holds larger files.
    pub bytes: u64,
    /// Files only in the later snapshot.
    pub created: u64,
    /// Files only in the earlier snapshot.
    pub deleted: u64,
    /// Files in both snapshots.
    pub kept: u64,
    /// Files that grew.
    pub appends: u64,
    /// Files that shrank.
    pub truncations: u64,
    /// Modified files of the same size.
    pub overwrites: u64,
    /// Files with a different path and no other change.
    pub renames: u64,
}

/// Changes between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedChanges {
    /// How files were matched.
    pub told_by: StatedBy,
    /// Files in both snapshots with a later modification time in the later one.
    #[serde(default)]
    pub newer: u64,
    /// Files in both snapshots with an earlier modification time in the later one.
    #[serde(default)]
    pub older: u64,
    /// Classes with files in either snapshot, ascending.
    pub classes: Vec<ClassChanges>,
}

const CLASSES: [u64; 5] = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20];

impl ClassChanges {
    fn changed(&self) -> u64 {
        self.appends + self.truncations + self.overwrites + self.renames
    }

    /// Returns whether more files were changed per created file than a profile allows, so that the rates are lower than
    /// observed.
    pub fn exceeds_churn(&self) -> bool {
        self.changed() > self.created * u64::from(MOST_CHANGES)
    }

    /// Changes per created file, scaled down to a sum of at most [`MOST_CHANGES`]; of 1 if no file was created.
    fn row(&self) -> ChangeRow {
        let of = match self.created {
            0 => self.changed().max(1) as f64,
            created => (created as f64).max(self.changed() as f64 / f64::from(MOST_CHANGES)),
        };
        // Rounds down, so that no sum of rounded rates is above the maximum.
        let rate = |count: u64| (count as f64 / of * 1e4).floor() / 1e4;
        ChangeRow {
            bytes: Bytes(self.bytes),
            appends: rate(self.appends),
            truncations: rate(self.truncations),
            overwrites: rate(self.overwrites),
            renames: rate(self.renames),
            punches: 0.0,
        }
    }
}

impl ObservedChanges {
    fn new(told_by: StatedBy, pairs: &[Pair]) -> Self {
        let of_both = |(was, is): &Pair| Some((was.as_ref()?.modified, is.as_ref()?.modified));
        let both = pairs.iter().filter_map(of_both);
        Self {
            told_by,
            newer: both.clone().filter(|(was, is)| is > was).count() as u64,
            older: both.filter(|(was, is)| is < was).count() as u64,
            classes: classes(pairs),
        }
    }

    /// Returns whether the snapshots seem to be swapped: most files of both are newer in the earlier one.
    pub(crate) fn is_reversed(&self) -> bool {
        self.older > self.newer
    }

    /// Returns the rates of a profile; empty without changes.
    pub(crate) fn rows(&self) -> Vec<ChangeRow> {
        let any = self.classes.iter().any(|class| class.changed() > 0);
        if any { self.classes.iter().map(ClassChanges::row).collect() } else { Vec::new() }
    }
}

pub fn compare(before: &[FileState], after: &[FileState]) -> ObservedChanges {
    let inode = |seen: &FileState| seen.born.map(|born| (seen.inode, born));
    let by_inode = pairs(before, after, inode);
    match by_inode.iter().any(|pair| matches!(pair, (Some(_), Some(_)))) {
        true => ObservedChanges::new(StatedBy::Inode, &by_inode),
        false => ObservedChanges::new(StatedBy::Path, &pairs(before, after, |seen: &FileState| Some(seen.path))),
    }
}

type Pair = (Option<FileState>, Option<FileState>);

/// Returns every file once, with its earlier and its later state. A file with several names counts once, with the path
/// whose hash is smallest. A file without a `key` does not match.
fn pairs<K: Eq + Hash>(before: &[FileState], after: &[FileState], key: impl Fn(&FileState) -> Option<K>) -> Vec<Pair> {
    let mut files: HashMap<K, Pair> = HashMap::new();
    let earlier =
        |known: Option<FileState>, seen: &FileState| known.filter(|known| known.path <= seen.path).or(Some(*seen));
    for seen in before {
        if let Some(key) = key(seen) {
            let pair = files.entry(key).or_default();
            pair.0 = earlier(pair.0, seen);
        }
    }
    for seen in after {
        if let Some(key) = key(seen) {
            let pair = files.entry(key).or_default();
            pair.1 = earlier(pair.1, seen);
        }
    }
    files.into_values().collect()
}

fn classes(pairs: &[Pair]) -> Vec<ClassChanges> {
    let mut classes = CLASSES.map(|bytes| ClassChanges { bytes, ..ClassChanges::default() });
    for (was, is) in pairs {
        let Some(size) = is.or(*was).map(|seen| seen.size) else { continue };
        let index = CLASSES.iter().position(|bytes| size <= *bytes).unwrap_or(CLASSES.len() - 1);
        let class = &mut classes[index];
        let (Some(was), Some(is)) = (was, is) else {
            class.created += u64::from(was.is_none());
            class.deleted += u64::from(is.is_none());
            continue;
        };
        class.kept += 1;
        if is.size != was.size {
            class.appends += u64::from(is.size > was.size);
            class.truncations += u64::from(is.size < was.size);
        } else if is.modified != was.modified {
            class.overwrites += 1;
        } else if is.path != was.path {
            class.renames += 1;
        }
    }
    classes.into_iter().filter(|class| class.created + class.deleted + class.kept > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_state(inode: u64, size: u64, modified: i64, path: u64) -> FileState {
        FileState { inode, born: Some((inode as i64, 7)), size, modified: (modified, 0), path }
    }

    #[test]
    fn kinds_of_changes_are_distinguished() {
        let before = [
            file_state(1, 100, 5, 1),
            file_state(2, 5000, 5, 2),
            file_state(3, 9000, 5, 3),
            file_state(4, 9000, 5, 4),
            file_state(5, 10, 5, 5),
            file_state(6, 10, 5, 6),
        ];
        let after = [
            file_state(1, 100, 5, 1),
            file_state(2, 6000, 9, 2),
            file_state(3, 8000, 9, 3),
            file_state(4, 9000, 9, 4),
            file_state(5, 10, 5, 50),
            file_state(7, 10, 9, 7),
            file_state(8, 70_000, 9, 8),
            // A reused inode is a different file.
            FileState { born: Some((99, 0)), ..file_state(6, 10, 9, 6) },
        ];
        let observed = compare(&before, &after);
        assert_eq!(observed.told_by, StatedBy::Inode);
        let small =
            ClassChanges { bytes: 4096, created: 2, deleted: 1, kept: 2, renames: 1, ..ClassChanges::default() };
        let middle = ClassChanges {
            bytes: 65536,
            kept: 3,
            appends: 1,
            truncations: 1,
            overwrites: 1,
            ..ClassChanges::default()
        };
        let large = ClassChanges { bytes: 1 << 20, created: 1, ..ClassChanges::default() };
        assert_eq!(observed.classes, [small, middle, large]);
        let rows = observed.rows();
        assert_eq!((rows[0].renames, rows[0].appends), (0.5, 0.0));
        // Three changes and no create.
        assert!(middle.exceeds_churn() && !small.exceeds_churn());
        assert_eq!((rows[1].appends, rows[1].truncations, rows[1].overwrites), (0.3333, 0.3333, 0.3333));
    }

    #[test]
    fn copies_are_matched_by_path_without_renames() {
        let before = [file_state(1, 100, 5, 1), file_state(2, 100, 5, 2)];
        let after = [file_state(11, 200, 9, 1), file_state(12, 100, 5, 3)];
        let observed = compare(&before, &after);
        assert_eq!(observed.told_by, StatedBy::Path);
        let class =
            ClassChanges { bytes: 4096, created: 1, deleted: 1, kept: 1, appends: 1, ..ClassChanges::default() };
        assert_eq!(observed.classes, [class]);
    }

    #[test]
    fn unchanged_trees_have_no_row_and_hard_links_are_one_file() {
        let linked = [file_state(1, 100, 5, 1), file_state(1, 100, 5, 2)];
        let reordered = [file_state(1, 100, 5, 2), file_state(1, 100, 5, 1)];
        let observed = compare(&linked, &reordered);
        assert_eq!((observed.classes[0].kept, observed.classes[0].renames), (1, 0));
        assert!(observed.rows().is_empty());
    }
}
