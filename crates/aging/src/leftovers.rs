//! Files of earlier plans in a directory.

use crate::error::AgingError;
use crate::execute::Name;
use crate::parts::part_of_name;
use senesce_volume::ClaimedDirectory;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Leftover(DirectoryEntry);

#[derive(Debug)]
struct DirectoryEntry {
    path: PathBuf,
    is_directory: bool,
    bears_our_name: bool,
}

/// Lists entries in the top of `directory` that earlier plans made. Files of other programs are skipped, also in directories
/// with a plan's name.
///
/// # Errors
/// [`AgingError::Io`] when it, or a directory in it with a plan's name, cannot be listed.
pub fn leftovers(directory: &ClaimedDirectory) -> Result<Vec<Leftover>, AgingError> {
    let mut found = Vec::new();
    for entry in entries(directory.path())? {
        if entry.is_of_a_plan()? {
            found.push(Leftover(entry));
        }
    }
    Ok(found)
}

fn entries(directory: &Path) -> Result<Vec<DirectoryEntry>, AgingError> {
    let failed = |error| AgingError::io("list", directory, error);
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        let is_directory = entry.file_type()?.is_dir();
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        let bears_our_name = if is_directory { names_directory(name) } else { Name::parse(name).is_some() };
        Ok(DirectoryEntry { path: entry.path(), is_directory, bears_our_name })
    };
    fs::read_dir(directory).map_err(failed)?.map(entry).collect::<io::Result<_>>().map_err(failed)
}

fn names_directory(name: &[u8]) -> bool {
    let number = name.strip_prefix(b"d").filter(|digits| !digits.is_empty());
    number.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) || part_of_name(name).is_some()
}

impl DirectoryEntry {
    /// Returns whether a plan made the entry: a file by its name, a directory if it is empty or holds a file of a plan.
    fn is_of_a_plan(&self) -> Result<bool, AgingError> {
        if !self.bears_our_name || !self.is_directory {
            return Ok(self.bears_our_name);
        }
        let inside = entries(&self.path)?;
        for entry in &inside {
            if entry.is_of_a_plan()? {
                return Ok(true);
            }
        }
        Ok(inside.is_empty())
    }

    /// Deletes files with our names, then empty directories. Returns whether nothing is left.
    fn remove(&self) -> Result<bool, AgingError> {
        let failed = |error| AgingError::io("delete", &self.path, error);
        if !self.bears_our_name {
            return Ok(false);
        }
        if !self.is_directory {
            return fs::remove_file(&self.path).map(|()| true).map_err(failed);
        }
        let mut is_empty = true;
        for entry in entries(&self.path)? {
            is_empty &= entry.remove()?;
        }
        if is_empty {
            fs::remove_dir(&self.path).map_err(failed)?;
        }
        Ok(is_empty)
    }
}

impl Leftover {
    /// Deletes what the plan made of it.
    ///
    /// # Errors
    /// [`AgingError::Io`] with the first entry that cannot be listed or deleted; earlier ones are gone.
    pub fn remove(&self) -> Result<(), AgingError> {
        self.0.remove().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_of_a_plan_are_found_and_removed() {
        let room = tempfile::tempdir().unwrap();
        for name in ["d0/d1", "d1f", "part-0003/d0", "data", "d", "f00000000000a.d", "dec/2024", "dead"] {
            fs::create_dir_all(room.path().join(name)).unwrap();
        }
        let files = ["f00000000000a", "d0/d1/f000000000001", "d1f/d2/f000000000002"];
        let others = ["f1", "thesis.txt", "dec/2024/letter", "dead/sea", "d1f/d2/note", "dec/d1/x"];
        fs::create_dir_all(room.path().join("d1f/d2")).unwrap();
        fs::create_dir_all(room.path().join("dec/d1")).unwrap();
        for name in files.iter().chain(&others) {
            fs::write(room.path().join(name), "x").unwrap();
        }
        let directory = ClaimedDirectory::claim(room.path(), room.path().to_str()).unwrap();
        let found = leftovers(&directory).unwrap();
        assert_eq!(found.len(), 4);
        found.iter().try_for_each(Leftover::remove).unwrap();
        assert!(leftovers(&directory).unwrap().is_empty());
        for kept in ["data", "d", "f00000000000a.d"].iter().chain(&others) {
            assert!(room.path().join(kept).exists(), "{kept}");
        }
        for gone in ["d0", "part-0003"].iter().chain(&files) {
            assert!(!room.path().join(gone).exists(), "{gone}");
        }
    }
}
