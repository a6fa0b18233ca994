//! The mount namespace of a ledger entry (mount_namespaces(7)). Paths and mounts are valid only there.

use crate::holders;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The first namespace of process numbers (include/linux/proc_ns.h, PROC_PID_INIT_INO), in which all processes are
/// visible.
const ALL_PROCESSES: u64 = 0xEFFF_FFFC;

/// Returns the mount namespace of this thread; 0 if unknown.
pub(super) fn own() -> u64 {
    number_of("/proc/thread-self/ns/mnt")
}

fn number_of(file: &str) -> u64 {
    fs::metadata(file).map_or(0, |found| found.ino())
}

/// Runs `action` in a mount namespace. If that has ended, its mounts ended with it, and `action` runs here. `None`: it
/// cannot be entered, or may still exist unseen.
pub(super) fn within(namespace: u64, action: impl Fn() -> io::Result<bool> + Sync) -> Option<io::Result<bool>> {
    if namespace == 0 || namespace == own() {
        return Some(action());
    }
    match holders::file_of_namespace(namespace) {
        Some(file) => holders::inside(&file, None, &action),
        None => {
            let sees_all = rustix::process::geteuid().is_root() && number_of("/proc/self/ns/pid") == ALL_PROCESSES;
            sees_all.then(action)
        }
    }
}
