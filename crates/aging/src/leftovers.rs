//! What an earlier plan left in a directory.

use crate::error::AgingError;
use crate::execute::Name;
use crate::parts::part_of_name;
use senesce_target::ClaimedDirectory;
use std::fs;
use std::path::PathBuf;

/// A file, or a directory with everything in it, in the top of an aged directory.
#[derive(Debug)]
pub struct Leftover {
    path: PathBuf,
    is_directory: bool,
}

/// Everything in the top of `directory` that bears a name of a plan's: other programs' files are passed over.
pub fn leftovers(directory: &ClaimedDirectory) -> Result<Vec<Leftover>, AgingError> {
    let failed = |error| AgingError::io("list", directory.path(), error);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory.path()).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_directory = entry.file_type().map_err(failed)?.is_dir();
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if if is_directory { names_directory(name) } else { Name::parse(name).is_some() } {
            found.push(Leftover { path: entry.path(), is_directory });
        }
    }
    Ok(found)
}

/// Whether a plan, or a part of one, calls a directory in the top so.
fn names_directory(name: &[u8]) -> bool {
    let number = name.strip_prefix(b"d").filter(|digits| !digits.is_empty());
    number.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) || part_of_name(name).is_some()
}

impl Leftover {
    /// Deletes it.
    pub fn remove(&self) -> Result<(), AgingError> {
        let removed = if self.is_directory { fs::remove_dir_all(&self.path) } else { fs::remove_file(&self.path) };
        removed.map_err(|error| AgingError::io("delete", &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_plan_made_is_found_and_removed() {
        let room = tempfile::tempdir().unwrap();
        for name in ["d0/d1", "d1f", "part-0003/d0", "data", "d", "f00000000000a.d"] {
            fs::create_dir_all(room.path().join(name)).unwrap();
        }
        for name in ["f00000000000a", "d0/d1/f000000000001", "f1", "thesis.txt"] {
            fs::write(room.path().join(name), "x").unwrap();
        }
        let directory = ClaimedDirectory::claim(room.path(), room.path().to_str()).unwrap();
        let found = leftovers(&directory).unwrap();
        assert_eq!(found.len(), 4);
        found.iter().try_for_each(Leftover::remove).unwrap();
        assert!(leftovers(&directory).unwrap().is_empty());
        for kept in ["data", "d", "f00000000000a.d", "f1", "thesis.txt"] {
            assert!(room.path().join(kept).exists(), "{kept}");
        }
    }
}
