//! Finds run directories.

use senesce_core::Failure;
use senesce_core::failure::failed;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const DEEPEST: usize = 8;

type Runs = BTreeMap<PathBuf, PathBuf>;

/// Finds the run directories below or at some directories, each once, even if several names lead to it. Skips links,
/// hidden folders and the inside of runs.
pub(crate) fn run_directories(below: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Runs::new();
    for directory in below {
        if !directory.is_dir() {
            return Err(Failure::usage(format!(
                "{} is not a directory; name one that holds runs",
                directory.display()
            )));
        }
        if is_run(directory) {
            keep(directory.clone(), &mut found);
        } else {
            fs::read_dir(directory).map_err(failed("list", directory))?;
            find_below(directory, DEEPEST, &mut found);
        }
    }
    let mut runs: Vec<PathBuf> = found.into_values().collect();
    runs.sort();
    Ok(runs)
}

fn keep(run: PathBuf, found: &mut Runs) {
    let full = run.canonicalize().unwrap_or_else(|_| run.clone());
    found.entry(full).or_insert(run);
}

pub fn is_run(path: &Path) -> bool {
    path.join("plan.toml").symlink_metadata().is_ok_and(|found| found.is_file())
}

fn find_below(directory: &Path, deeper: usize, found: &mut Runs) {
    // An unreadable folder of another user holds no runs of ours.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_directory || entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let path = entry.path();
        if is_run(&path) {
            keep(path, found);
        } else if deeper > 0 {
            find_below(&path, deeper - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_in_folders_and_not_through_links_or_in_runs() {
        let directory = tempfile::tempdir().unwrap();
        let run = |path: &str| {
            fs::create_dir_all(directory.path().join(path)).unwrap();
            fs::write(directory.path().join(path).join("plan.toml"), "").unwrap();
        };
        ["a", "deep/er/b", "a/inside", ".hidden/c"].iter().for_each(|path| run(path));
        std::os::unix::fs::symlink(directory.path().join("a"), directory.path().join("link")).unwrap();
        fs::create_dir(directory.path().join("of-a-link")).unwrap();
        let plan = directory.path().join("of-a-link/plan.toml");
        std::os::unix::fs::symlink(directory.path().join("a/plan.toml"), plan).unwrap();
        let names = |below: &[PathBuf]| {
            let found = run_directories(below).unwrap();
            let name = |path: &PathBuf| path.strip_prefix(directory.path()).unwrap().display().to_string();
            found.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[directory.path().into()]), ["a", "deep/er/b"]);
        assert_eq!(names(&[directory.path().join("a"), directory.path().into()]), ["a", "deep/er/b"], "each once");
        let (turned, linked) = (directory.path().join("deep/../a"), directory.path().join("link"));
        assert_eq!(names(&[directory.path().into(), turned, linked]), ["a", "deep/er/b"], "by any path");
        assert!(
            run_directories(&[directory.path().join("none")]).unwrap_err().to_string().contains("is not a directory")
        );
    }
}
