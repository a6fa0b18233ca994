//! The mount namespace in which something was set up (mount_namespaces(7)): a path and a mount mean something there only.

use crate::holders;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The first namespace of process numbers (include/linux/proc_ns.h, PROC_PID_INIT_INO): all processes are found there.
const ALL_PROCESSES: u64 = 0xEFFF_FFFC;

/// The number of this thread's; 0: it is unknown.
pub(super) fn own() -> u64 {
    number_of("/proc/thread-self/ns/mnt")
}

fn number_of(file: &str) -> u64 {
    fs::metadata(file).map_or(0, |found| found.ino())
}

/// Does something in a mount namespace. What was set up in one that has ended went with it, and the rest is done here. `None`:
/// it cannot be entered, or may still be there unseen.
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
