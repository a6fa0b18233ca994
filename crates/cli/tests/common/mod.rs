//! What the tests of the command line share.
#![allow(dead_code)]

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output};

/// The program, in a folder.
pub fn senesce(folder: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("senesce"));
    command.current_dir(folder).env("XDG_CACHE_HOME", folder.join(".cache"));
    command
}

/// Runs the program to its end.
pub fn run(folder: &Path, words: &[&str]) -> Output {
    senesce(folder).args(words).output().expect("run senesce")
}

/// Standard output as JSON; a failure shows what was said.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    })
}

/// Whether loop devices and mounts can be tried.
pub fn is_root() -> bool {
    senesce_core::environment::is_root()
}

/// Ctrl-C for one process.
pub fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(status.success());
}

/// Loop devices and mounts that still use something below `folder`.
pub fn leftovers(folder: &Path) -> Vec<String> {
    let name = folder.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if backing.contains(&name) {
            found.push(format!("{}: {backing}", entry.file_name().to_string_lossy()));
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    found.extend(mounts.lines().filter(|line| line.contains(&name)).map(str::to_string));
    found
}
