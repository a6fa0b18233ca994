//! The tree of directories: the profile's number on each level, spread evenly over the level above.

use crate::profile::Profile;
use std::cmp::Ordering;

/// A tree of numbered directories, level by level; 0 is the top. A file of depth `d` is in a directory of level `d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryTree {
    first: Vec<u32>,
}

impl DirectoryTree {
    /// Creates the tree for a profile, down to its deepest file; a level without a listed directory gets one.
    pub(crate) fn new(profile: &Profile) -> Self {
        let deepest = profile.depths.iter().filter(|row| row.weight > 0.0).map(|row| row.depth).max().unwrap_or(0);
        let mut first = vec![0, 1];
        for level in 1..=deepest {
            let listed = profile.depths.iter().find(|row| row.depth + 1 == level).map_or(0, |row| row.subdirectories);
            first.push(first[level as usize] + listed.max(1));
        }
        Self { first }
    }

    pub fn count(&self) -> u32 {
        self.first[self.first.len() - 1]
    }

    pub fn levels(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    pub fn level(&self, level: u32) -> (u32, u32) {
        let first = self.first[level as usize];
        (first, self.first[level as usize + 1] - first)
    }

    /// Returns the level of a directory (0: the top).
    pub fn level_of(&self, directory: u32) -> u32 {
        self.first.partition_point(|first| *first <= directory) as u32 - 1
    }

    /// Returns the directory above; `None` for the top.
    pub(crate) fn parent(&self, directory: u32) -> Option<u32> {
        let level = self.level_of(directory);
        let (above, width) = self.level(level.checked_sub(1)?);
        let (first, _) = self.level(level);
        Some(above + (directory - first) % width)
    }

    pub(crate) fn name(&self, directory: u32) -> String {
        let (first, _) = self.level(self.level_of(directory));
        format!("d{:x}", directory - first)
    }

    /// Returns the path relative to the top, each component followed by `/`; empty for the top.
    pub fn path(&self, directory: u32) -> String {
        let mut names = Vec::new();
        let mut at = directory;
        while let Some(parent) = self.parent(at) {
            names.push(self.name(at));
            at = parent;
        }
        names.iter().rev().map(|name| format!("{name}/")).collect()
    }

    pub(crate) fn has_below(&self, directory: u32, name: &[u8]) -> bool {
        let level = self.level_of(directory);
        if level + 1 >= self.levels() {
            return false;
        }
        let ((above, width), (first, count)) = (self.level(level), self.level(level + 1));
        let digits = name.strip_prefix(b"d").and_then(|digits| std::str::from_utf8(digits).ok());
        let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).filter(|number| *number < count);
        number.is_some_and(|number| above + number % width == directory && self.name(first + number).as_bytes() == name)
    }

    /// Returns the rank of every directory when all paths of files are sorted bytewise.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        let paths: Vec<String> = (0..self.count()).map(|directory| self.path(directory) + "f").collect();
        let mut order: Vec<u32> = (0..self.count()).collect();
        order.sort_unstable_by(|a, b| -> Ordering { paths[*a as usize].cmp(&paths[*b as usize]) });
        let mut ranks = vec![0; order.len()];
        for (rank, directory) in order.iter().enumerate() {
            ranks[*directory as usize] = rank as u32;
        }
        ranks
    }
}

/// Returns the name of a file, from the operation that created it, without padding. All names have the same length, so
/// they sort by birth.
pub fn file_name(birth: u64) -> String {
    format!("f{birth:012x}")
}

/// Suffix of renamed files, which keeps names sorted by birth.
pub(crate) const RENAMED: &str = ".r";
/// Length of a name without padding.
pub(crate) const NAME_BYTES: usize = 13;
/// Maximum length of a name with padding: the limit of Linux without the suffix of renamed files.
pub(crate) const MOST_NAME_BYTES: usize = 255 - RENAMED.len();
/// Fills names up to the mean length of a profile.
pub(crate) const PADDING: u8 = b'_';

/// Returns the number of bytes of [`PADDING`] in each name of a plan.
pub(crate) fn padding(profile: &Profile) -> u8 {
    let bytes = usize::from(profile.name_bytes.unwrap_or(0)).min(MOST_NAME_BYTES);
    bytes.saturating_sub(NAME_BYTES) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_knows_its_descendants() {
        // Levels of 1, 3 and 20: the names of the last are d0 to d13.
        let tree = DirectoryTree { first: vec![0, 1, 4, 24] };
        for directory in 0..tree.count() {
            let below = (0..tree.count()).filter(|other| tree.parent(*other) == Some(directory));
            let names: Vec<String> = below.map(|other| tree.name(other)).collect();
            for name in (0..40).map(|number| format!("d{number:x}")) {
                assert_eq!(tree.has_below(directory, name.as_bytes()), names.contains(&name), "{directory} {name}");
            }
            for odd in ["", "d", "d00", "dA", "d+1", "x0", "lost+found"] {
                assert!(!tree.has_below(directory, odd.as_bytes()), "{odd}");
            }
        }
    }
}
