//! Clean-up of scratch data from earlier boots.
//!
//! An owner with another boot ID ended before this boot, or runs under another kernel that shares the directory.
//! Examples are user-mode Linux with hostfs and a virtual machine with virtiofs. Data that may belong to such a kernel
//! stays.

use rustix::fs::FlockOperation;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// File systems on block devices of this machine (statfs(2), linux/magic.h). They outlive a boot, and one kernel at a
/// time mounts them. A tmpfs is not in the list: its files were written since the boot, so another kernel wrote them.
const OUTLIVE_A_BOOT: [u32; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x3434];

/// Returns whether everything at `path` was written before this boot, on a file system that no other kernel shares, and
/// no process holds its lock.
pub(super) fn is_older_than_this_boot(path: &Path) -> bool {
    let booted = SystemTime::now() - senesce_sys::clock::since_boot();
    outlives_a_boot(path) && was_written_before(path, booted - CLOCK_MARGIN) && is_unlocked(path)
}

/// The clock at boot may have been wrong by less than a second.
const CLOCK_MARGIN: Duration = Duration::from_secs(1);

pub(super) fn outlives_a_boot(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| OUTLIVE_A_BOOT.contains(&(found.f_type as u32)))
}

fn was_written_before(path: &Path, time: SystemTime) -> bool {
    let Ok(found) = path.symlink_metadata() else { return false };
    if found.modified().map_or(true, |modified| modified >= time) {
        return false;
    }
    if !found.is_dir() {
        return true;
    }
    let Ok(mut entries) = fs::read_dir(path) else { return false };
    entries.all(|entry| entry.is_ok_and(|entry| was_written_before(&entry.path(), time)))
}

/// Returns whether no process holds a lock. A file system without locks counts as locked.
fn is_unlocked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(path: &Path, seconds_before_boot: u64) {
        let booted = SystemTime::now() - senesce_sys::clock::since_boot();
        let time = booted - Duration::from_secs(seconds_before_boot);
        File::open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn only_files_written_before_boot_are_older() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (tree, file) = (directory.path().join("tree"), directory.path().join("tree/file"));
        fs::create_dir(&tree).unwrap();
        fs::write(&file, "content").unwrap();
        assert!(!is_older_than_this_boot(&tree), "both are new");
        written(&tree, 600);
        assert!(!is_older_than_this_boot(&tree), "a file in it is new");
        written(&file, 600);
        assert_eq!(is_older_than_this_boot(&tree), outlives_a_boot(&tree));
        let lock = File::open(&tree).unwrap();
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(!is_older_than_this_boot(&tree), "a process has it");
    }

    #[test]
    fn tmpfs_files_are_never_older_than_boot() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        written(directory.path(), 600);
        assert!(!is_older_than_this_boot(directory.path()));
    }
}
