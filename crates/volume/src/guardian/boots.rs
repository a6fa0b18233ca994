//! What was left before the machine was booted.
//!
//! Another boot in the name of an owner has two meanings: the owner ended with an earlier boot, or it runs under another kernel
//! that shares the directory with this one (user-mode Linux by hostfs, a virtual machine by virtiofs). Nothing that may belong to
//! the second is removed.

use rustix::fs::FlockOperation;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// File systems on block devices of this machine (statfs(2), linux/magic.h). They outlive a boot, and one kernel at a time mounts
/// them. A tmpfs is not among them: what lies there was written since the boot, so another kernel wrote it.
const OUTLIVE_A_BOOT: [u32; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x3434];

/// Whether everything at `path` was written before this boot, on a file system that no other kernel shares, and no process
/// holds its lock.
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

/// A file system that knows no locks answers that it is not.
fn is_unlocked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets the time of the last change of content.
    fn written(path: &Path, seconds_before_boot: u64) {
        let booted = SystemTime::now() - senesce_sys::clock::since_boot();
        let time = booted - Duration::from_secs(seconds_before_boot);
        File::open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn only_what_was_written_before_the_boot_is_older() {
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
    fn memory_keeps_nothing_over_a_boot() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        written(directory.path(), 600);
        assert!(!is_older_than_this_boot(directory.path()));
    }
}
