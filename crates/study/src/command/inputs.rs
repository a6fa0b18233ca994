//! The inputs of a program that ages an image: they belong to the identity of the image.

use super::{installed, ready_job};
use senesce_core::failure::failed;
use senesce_core::{ExitCode, Failure};
use senesce_volume::images::content_hash;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Describes a command for the identity of its image: the words, and the bytes of the program, of built-in jobs and of
/// named files. A named folder counts by the names, sizes and times in it.
pub(crate) fn of_command(words: &[String]) -> Result<String, Failure> {
    let mut text = format!("command {words:?}\n");
    let program = words.first().and_then(|name| installed(name));
    for path in program.into_iter().chain(words.iter().flat_map(|word| named(word))) {
        text += &match path.is_dir() {
            true => format!("folder {} {}\n", path.display(), hash_of_folder(&path)?),
            false => format!("file {} {}\n", path.display(), hash_of_file(&path)?),
        };
    }
    for job in words.iter().filter_map(|word| ready_job::text_of(words, word)) {
        text += &format!("job {}\n", blake3::hash(job.as_bytes()).to_hex());
    }
    Ok(text)
}

/// Returns the files and folders that a word names by an absolute path: as a whole, or as a part of a shell script.
fn named(word: &str) -> Vec<PathBuf> {
    let is_input = |path: &&str| path.starts_with('/') && !path.starts_with("/dev/") && !path.starts_with("/proc/");
    // Opening a pipe would block.
    let is_read = |path: &Path| path.is_file() || path.is_dir();
    if is_input(&word) && is_read(Path::new(word)) {
        return vec![word.into()];
    }
    let parts = word.split(|c: char| c.is_whitespace() || "'\"`;|&<>()=:,".contains(c));
    parts.filter(is_input).map(PathBuf::from).filter(|path| is_read(path)).collect()
}

fn hash_of_file(path: &Path) -> Result<String, Failure> {
    content_hash(path).map_err(|error| Failure::new(ExitCode::Usage, error.to_string()))
}

fn hash_of_folder(folder: &Path) -> Result<String, Failure> {
    /// More entries are a folder that was hardly meant as an input, such as `/usr`.
    const MOST: usize = 100_000;
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(&folder).map_err(failed("list", &folder))? {
            let path = entry.map_err(failed("list", &folder))?.path();
            let metadata = path.symlink_metadata().map_err(failed("inspect", &path))?;
            if metadata.is_dir() {
                left.push(path.clone());
            }
            let changed = (metadata.mtime(), metadata.mtime_nsec());
            found.insert(path, (metadata.mode(), metadata.len(), changed));
            if found.len() > MOST {
                let words = format!("{} has more than {MOST} entries\nhint: name a smaller folder", folder.display());
                return Err(Failure::usage(words));
            }
        }
    }
    Ok(blake3::hash(format!("{found:?}").as_bytes()).to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> String {
        of_command(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn identity_changes_with_words_and_inputs() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("age.sh");
        let folder = directory.path().join("tree");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&script, "touch a").unwrap();
        let command = format!(". '{}'; cp -r {}/. .", script.display(), folder.display());
        let before = of(&["sh", "-c", &command]);
        assert_eq!(of(&["sh", "-c", &command]), before);
        assert_ne!(of(&["dash", "-c", &command]), before);
        std::fs::write(&script, "touch b").unwrap();
        let edited = of(&["sh", "-c", &command]);
        assert_ne!(edited, before, "another script of the same length");
        std::fs::write(folder.join("more"), "").unwrap();
        assert_ne!(of(&["sh", "-c", &command]), edited, "one more file in the folder");
    }

    #[test]
    fn program_and_built_in_job_are_inputs() {
        assert!(of(&["sh", "-c", "true >/dev/null"]).contains("/sh "));
        assert!(!of(&["sh", "-c", "true >/dev/null"]).contains("/dev/null "));
        assert!(of(&["fio", "fsperf/four-sizes.fio"]).contains("\njob "));
    }
}
