//! Exclusive use of a target by one run: flock(2) on the image, device or directory itself.

use crate::error::TargetError;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Limit for the clean-up after a killed process, which flushes and unmounts a file system.
const CLEAN_UP_LIMIT: Duration = Duration::from_secs(60);

/// A child that is just starting holds every descriptor for a moment, also those being closed.
const START_LIMIT: Duration = Duration::from_secs(1);

/// Locks `file` while it or a duplicate stays open. Refuses if a live process holds the lock. If its owner was killed,
/// waits for the pending unmount.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), TargetError> {
    let begin = Instant::now();
    loop {
        match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(TargetError::errno("lock", path)(errno)),
        }
        let owner = owner(file);
        let alive = owner.is_none_or(|pid| Path::new(&format!("/proc/{pid}")).exists());
        if begin.elapsed() > if alive { START_LIMIT } else { CLEAN_UP_LIMIT } {
            let who = owner.map_or("another process".to_string(), |pid| format!("process {pid}"));
            return Err(TargetError::refused(
                path.display(),
                format!("{who} is using it"),
                "wait until that run has ended, or choose another target",
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn lock_waiting(file: &File) -> std::io::Result<()> {
    rustix::fs::flock(file, rustix::fs::FlockOperation::LockExclusive).map_err(Into::into)
}

/// Finds the process that holds the lock, from /proc/locks (proc(5): `1: FLOCK ADVISORY WRITE 826 fd:01:1567 0 EOF`).
fn owner(file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let inode = format!(":{}", found.ino());
    let text = fs::read_to_string("/proc/locks").ok()?;
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(1) == Some(&"FLOCK") && words.get(5)?.ends_with(&inode)).then(|| words[4].parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_is_refused_with_the_owners_number() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (first, second) = (File::open(file.path()).unwrap(), File::open(file.path()).unwrap());
        lock(&first, file.path()).unwrap();
        let error = lock(&second, file.path()).unwrap_err();
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        lock(&second, file.path()).unwrap();
    }
}
