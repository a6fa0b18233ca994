//! Files of the study, many small ones or one large: generates, edits, compares and counts them.

use crate::error::{StoreError, io};
use crate::versions::files_below;
use rand::{Rng, RngExt};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

pub const SMALL_BYTES: u64 = 1024;

/// Writes `count` files of 1 KiB below `folder`. The first two digits of the zero-padded index are the directory. Indices with
/// fewer than three digits do not use directories.
pub fn generate_many(folder: &Path, count: u64, random: &mut impl Rng) -> Result<(), StoreError> {
    let width = count.saturating_sub(1).to_string().len();
    make_directory(folder)?;
    let mut data = [0; SMALL_BYTES as usize];
    for index in 0..count {
        let name = format!("{index:0width$}");
        let path = if width < 3 {
            folder.join(&name)
        } else {
            let below = folder.join(&name[..2]);
            if name[2..].bytes().all(|digit| digit == b'0') {
                make_directory(&below)?;
            }
            below.join(&name[2..])
        };
        random.fill_bytes(&mut data);
        fs::write(&path, data).map_err(io("write", &path))?;
    }
    Ok(())
}

pub fn generate_large(path: &Path, size: u64, random: &mut impl Rng) -> Result<(), StoreError> {
    let mut file = File::create(path).map_err(io("create", path))?;
    let mut block = vec![0; 1 << 20];
    let mut rest = size;
    while rest > 0 {
        let part = rest.min(block.len() as u64) as usize;
        random.fill_bytes(&mut block[..part]);
        file.write_all(&block[..part]).map_err(io("write", path))?;
        rest -= part as u64;
    }
    Ok(())
}

/// Edits generated files: every 16th, or the only one. Replaces a run of bytes at a quarter of the file's size, a 1024th of it
/// long. Returns the number of edited files.
pub fn edit(tree: &Path, random: &mut impl Rng) -> Result<u64, StoreError> {
    if tree.is_file() {
        edit_file(tree, random)?;
        return Ok(1);
    }
    let mut edited = 0;
    for path in files_below(tree)?.iter().step_by(16) {
        edit_file(path, random)?;
        edited += 1;
    }
    Ok(edited)
}

fn edit_file(path: &Path, random: &mut impl Rng) -> Result<(), StoreError> {
    let file = File::options().read(true).write(true).open(path).map_err(io("open", path))?;
    let size = file.metadata().map_err(io("read the size of", path))?.len();
    let length = (size / 1024).clamp(1, 1 << 30) as usize;
    let mut old = vec![0; length.min(256)];
    file.read_exact_at(&mut old, size / 4).map_err(io("read", path))?;
    let mut new = vec![0; length];
    random.fill_bytes(&mut new);
    if new[..old.len()] == old[..] {
        new[0] ^= random.random_range(1..=255u8);
    }
    file.write_all_at(&new, size / 4).map_err(io("write", path))
}

/// Returns the bytes of all blocks of a tree, as `du` counts them.
pub fn disk_usage(tree: &Path) -> Result<u64, StoreError> {
    let data = fs::symlink_metadata(tree).map_err(io("read the size of", tree))?;
    let mut bytes = data.blocks() * 512;
    if data.is_dir() {
        for entry in fs::read_dir(tree).map_err(io("list", tree))? {
            bytes += disk_usage(&entry.map_err(io("list", tree))?.path())?;
        }
    }
    Ok(bytes)
}

/// Returns the first difference of two trees (or files) in paths or contents, or `None`.
pub fn difference(first: &Path, second: &Path) -> Result<Option<String>, StoreError> {
    let listed = |root: &Path| -> Result<Vec<std::path::PathBuf>, StoreError> {
        if root.is_file() { Ok(vec![root.to_path_buf()]) } else { files_below(root) }
    };
    if !second.exists() {
        return Ok(Some(format!("{} does not exist", second.display())));
    }
    let (ours, theirs) = (listed(first)?, listed(second)?);
    if ours.len() != theirs.len() {
        return Ok(Some(format!("{} files against {}", ours.len(), theirs.len())));
    }
    for (our, their) in ours.iter().zip(&theirs) {
        let same_name = our.strip_prefix(first).ok() == their.strip_prefix(second).ok();
        if !same_name || hash(our)? != hash(their)? {
            return Ok(Some(format!("{} differs", our.display())));
        }
    }
    Ok(None)
}

fn hash(path: &Path) -> Result<blake3::Hash, StoreError> {
    let mut hasher = blake3::Hasher::new();
    let mut file = File::open(path).map_err(io("open", path))?;
    std::io::copy(&mut file, &mut hasher).map_err(io("read", path))?;
    Ok(hasher.finalize())
}

fn make_directory(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(io("make directory", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Seed;

    #[test]
    fn many_files_are_laid_out_as_in_the_study() {
        let directory = tempfile::tempdir().unwrap();
        let mut random = Seed(1).stream("objstore/files-test");
        for (count, example) in [(25u64, "07"), (250, "01/7"), (2500, "12/34")] {
            let (tree, copy) = (directory.path().join(format!("a{count}")), directory.path().join(format!("b{count}")));
            generate_many(&tree, count, &mut random).unwrap();
            assert!(tree.join(example).is_file(), "{example}");
            assert_eq!(files_below(&tree).unwrap().len() as u64, count);
            assert!(std::process::Command::new("cp").arg("-r").args([&tree, &copy]).status().unwrap().success());
            assert_eq!(difference(&tree, &copy).unwrap(), None);
            assert_eq!(edit(&tree, &mut random).unwrap(), count.div_ceil(16));
            assert!(difference(&tree, &copy).unwrap().is_some());
        }
    }

    #[test]
    fn large_file_is_edited_in_one_range() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large_file");
        let mut random = Seed(1).stream("objstore/files-test");
        generate_large(&path, 1 << 20, &mut random).unwrap();
        let before = fs::read(&path).unwrap();
        edit(&path, &mut random).unwrap();
        let after = fs::read(&path).unwrap();
        let changed: Vec<usize> = (0..before.len()).filter(|index| before[*index] != after[*index]).collect();
        assert!(changed[0] >= 1 << 18 && changed[changed.len() - 1] < (1 << 18) + 1024 && changed.len() > 900);
    }
}
