//! Tests how a guest ends with its program, its user or its reader.

use super::senesce;
use crate::common::{stderr, wait_until};
use std::path::Path;
use std::process::{Child, Stdio};

fn qemu_processes(scratch: &Path) -> usize {
    let wanted = scratch.to_string_lossy().into_owned();
    std::fs::read_dir("/proc")
        .expect("list /proc")
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| {
            let text = String::from_utf8_lossy(line);
            text.starts_with("qemu-system") && text.contains(&wanted)
        })
        .count()
}

/// A command in a guest of an emulated machine, with all its files in `folder`.
fn started(folder: &Path, command: &[&str]) -> Child {
    let mut program = senesce(folder);
    program.env("TMPDIR", folder).args(["vm", "run", "--accelerator", "tcg", "--"]).args(command);

    program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start senesce")
}

fn nothing_is_left(folder: &Path) {
    assert_eq!(qemu_processes(folder), 0, "the guest is gone");
    assert_eq!(std::fs::read_dir(folder).expect("list").count(), 0, "no folder is left");
}

#[test]
#[ignore = "needs the guest"]
fn ctrl_c_ends_the_guest() {
    let directory = tempfile::tempdir().expect("temporary folder");
    let mut child = started(directory.path(), &["sleep", "1000"]);
    wait_for_guest(directory.path());
    crate::common::interrupt(&child);
    assert_eq!(child.wait().expect("reap").code(), Some(130));
    nothing_is_left(directory.path());
}

#[test]
#[ignore = "needs the guest"]
fn closed_output_ends_the_guest_quietly() {
    use std::io::Read;
    let directory = tempfile::tempdir().expect("temporary folder");
    let mut child = started(directory.path(), &["sh", "-c", "while sleep 0.01; do echo line; done"]);
    let mut first = [0; 5];
    child.stdout.take().expect("pipe").read_exact(&mut first).expect("first line");
    let output = child.wait_with_output().expect("reap");
    assert_eq!(output.status.code(), Some(141), "the status of SIGPIPE in a shell");
    // A guest that was booted again reports it; nothing else is printed.
    let said = stderr(&output);
    assert!(said.lines().all(|line| line.ends_with("; booted again")), "{said}");
    nothing_is_left(directory.path());
}

fn wait_for_guest(scratch: &Path) {
    wait_until(|| qemu_processes(scratch) > 0);
    assert_eq!(qemu_processes(scratch), 1, "the guest runs");
}

#[test]
#[ignore = "needs the guest"]
fn killed_senesce_leaves_no_guest() {
    let directory = tempfile::tempdir().expect("temporary folder");
    let mut child = started(directory.path(), &["sleep", "1000"]);
    wait_for_guest(directory.path());
    child.kill().expect("kill -9");
    child.wait().expect("reap");
    wait_until(|| qemu_processes(directory.path()) == 0);
}
