//! Helpers of the integration tests.

pub mod tracers;

use senesce_volume::{MountedTarget, OpenOptions, TargetSpec, open};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub fn temporary_directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

pub fn image(path: &Path, size: &str) -> TargetSpec {
    format!("image:{},size={size}", path.display()).parse().unwrap()
}

pub fn open_image(path: &Path, size: &str) -> MountedTarget {
    open(&image(path, size), &OpenOptions::default()).unwrap()
}

pub fn left_over(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if backing.starts_with(&*folder.to_string_lossy()) {
            found.push(format!("{} on {backing}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

pub fn child(test: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--include-ignored"]).env("SENESCE_TEST_CHILD", path);
    command.stdin(Stdio::piped());
    command
}

pub fn until_killed() {
    let _ = std::io::stdin().read(&mut [0]);
}

pub fn is_child() -> Option<PathBuf> {
    std::env::var_os("SENESCE_TEST_CHILD").map(PathBuf::from)
}
