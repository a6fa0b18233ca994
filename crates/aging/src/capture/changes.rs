//! How often files were changed between two snapshots of a tree, by class of size.
//!
//! A file of both is told by inode and time of birth. Trees none of whose files agree in these are copies, and files are told by
//! their paths. What happened to a file between the snapshots shows once, however often it happened.

use crate::profile::ChangeRow;
use senesce_core::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    pub inode: u64,
    /// Time of its birth: seconds and nanoseconds since 1970; `None` where the file system does not know it.
    pub born: Option<(i64, u32)>,
    /// Bytes.
    pub size: u64,
    /// Time of its last modification.
    pub modified: (i64, u32),
    /// Hash of its path below the top.
    pub path: u64,
}

impl FileState {
    /// When it was born or modified last.
    pub fn newest(&self) -> (i64, u32) {
        self.born.unwrap_or(self.modified).max(self.modified)
    }
}

/// How files of two snapshots are told to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToldBy {
    /// By number of the inode and time of birth.
    Inode,
    /// By path: renames are seen as a delete and a create, and so are files that were replaced as overwritten.
    Path,
}

/// What happened to the files of a class of sizes between two snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassChanges {
    /// Largest size of the class, in bytes; the last class holds larger files too.
    pub bytes: u64,
    /// Files of the later snapshot alone.
    pub created: u64,
    /// Files of the earlier snapshot alone.
    pub deleted: u64,
    /// Files of both.
    pub kept: u64,
    /// Files that are larger.
    pub appends: u64,
    /// Files that are smaller.
    pub truncations: u64,
    /// Files of the same size that were modified.
    pub overwrites: u64,
    /// Files with another path and otherwise unchanged.
    pub renames: u64,
}

/// What happened between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// How files were told.
    pub told_by: ToldBy,
    /// Files of both that were modified last at a later time in the later snapshot.
    #[serde(default)]
    pub newer: u64,
    /// Files of both that were modified last at an earlier time in the later snapshot.
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

    /// Whether more files were changed than were created, so that the rates are less than what was seen.
    pub fn exceeds_churn(&self) -> bool {
        self.changed() > self.created
    }

    /// Changes for each created file; where there are more than created files, as many as there can be, in proportion.
    fn row(&self) -> ChangeRow {
        let of = self.created.max(self.changed()).max(1) as f64;
        // Down, so that no sum of rounded rates is above 1.
        let rate = |count: u64| (count as f64 / of * 1e4).floor() / 1e4;
        ChangeRow {
            bytes: Bytes(self.bytes),
            appends: rate(self.appends),
            truncations: rate(self.truncations),
            overwrites: rate(self.overwrites),
            renames: rate(self.renames),
        }
    }
}

impl Observed {
    fn new(told_by: ToldBy, pairs: &[Pair]) -> Self {
        let of_both = |(was, is): &Pair| Some((was.as_ref()?.modified, is.as_ref()?.modified));
        let both = pairs.iter().filter_map(of_both);
        Self {
            told_by,
            newer: both.clone().filter(|(was, is)| is > was).count() as u64,
            older: both.filter(|(was, is)| is < was).count() as u64,
            classes: classes(pairs),
        }
    }

    /// Whether what is called the earlier snapshot seems to be the later one: more of the files of both are newer in it.
    pub fn is_reversed(&self) -> bool {
        self.older > self.newer
    }

    /// The rates of a profile; none where nothing was changed.
    pub fn rows(&self) -> Vec<ChangeRow> {
        let any = self.classes.iter().any(|class| class.changed() > 0);
        if any { self.classes.iter().map(ClassChanges::row).collect() } else { Vec::new() }
    }
}

/// Compares the files of an earlier snapshot with those of a later one.
pub fn compare(before: &[FileState], after: &[FileState]) -> Observed {
    let inode = |seen: &FileState| seen.born.map(|born| (seen.inode, born));
    let by_inode = pairs(before, after, inode);
    match by_inode.iter().any(|pair| matches!(pair, (Some(_), Some(_)))) {
        true => Observed::new(ToldBy::Inode, &by_inode),
        false => Observed::new(ToldBy::Path, &pairs(before, after, |seen: &FileState| Some(seen.path))),
    }
}

type Pair = (Option<FileState>, Option<FileState>);

/// Every file once, as it was and as it is. A file with several names counts once, with the first of them by hash; without a `key` it
/// is known in neither.
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

    fn seen(inode: u64, size: u64, modified: i64, path: u64) -> FileState {
        FileState { inode, born: Some((inode as i64, 7)), size, modified: (modified, 0), path }
    }

    #[test]
    fn each_kind_of_change_is_told_from_the_others() {
        let before = [
            seen(1, 100, 5, 1),
            seen(2, 5000, 5, 2),
            seen(3, 9000, 5, 3),
            seen(4, 9000, 5, 4),
            seen(5, 10, 5, 5),
            seen(6, 10, 5, 6),
        ];
        let after = [
            seen(1, 100, 5, 1),
            seen(2, 6000, 9, 2),
            seen(3, 8000, 9, 3),
            seen(4, 9000, 9, 4),
            seen(5, 10, 5, 50),
            seen(7, 10, 9, 7),
            seen(8, 70_000, 9, 8),
            // An inode that was used again is another file.
            FileState { born: Some((99, 0)), ..seen(6, 10, 9, 6) },
        ];
        let observed = compare(&before, &after);
        assert_eq!(observed.told_by, ToldBy::Inode);
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
        // Three changes and no create: more than can be played.
        assert!(middle.exceeds_churn() && !small.exceeds_churn());
        assert_eq!((rows[1].appends, rows[1].truncations, rows[1].overwrites), (0.3333, 0.3333, 0.3333));
    }

    #[test]
    fn copies_are_told_by_path_and_have_no_renames() {
        let before = [seen(1, 100, 5, 1), seen(2, 100, 5, 2)];
        let after = [seen(11, 200, 9, 1), seen(12, 100, 5, 3)];
        let observed = compare(&before, &after);
        assert_eq!(observed.told_by, ToldBy::Path);
        let class =
            ClassChanges { bytes: 4096, created: 1, deleted: 1, kept: 1, appends: 1, ..ClassChanges::default() };
        assert_eq!(observed.classes, [class]);
    }

    #[test]
    fn nothing_changed_is_no_row_and_hard_links_are_one_file() {
        let linked = [seen(1, 100, 5, 1), seen(1, 100, 5, 2)];
        let reordered = [seen(1, 100, 5, 2), seen(1, 100, 5, 1)];
        let observed = compare(&linked, &reordered);
        assert_eq!((observed.classes[0].kept, observed.classes[0].renames), (1, 0));
        assert!(observed.rows().is_empty());
    }
}
