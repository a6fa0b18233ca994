//! flock(2) with explicit release.
//!
//! Closing a file is not enough: a child that another thread is starting holds every descriptor until exec, and with it the lock.

use crate::Result;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::time::{Duration, Instant};

const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// An open file with an exclusive lock. Dropping this releases the lock for all duplicates of the descriptor.
#[derive(Debug)]
pub struct Locked(File);

impl Locked {
    /// Locks `file`; `None` if another open file holds the lock for all of `patience`.
    pub fn within(file: File, patience: Duration) -> Result<Option<Self>> {
        let begun = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Self(file))),
                Err(Errno::WOULDBLOCK) if begun.elapsed() < patience => std::thread::sleep(BETWEEN_TRIES),
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_releases_the_lock_of_all_duplicates() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::open(file.path()).unwrap();
        let first = open();
        let copy = first.try_clone().unwrap();
        let locked = Locked::within(first, Duration::ZERO).unwrap().unwrap();
        assert!(Locked::within(open(), Duration::ZERO).unwrap().is_none());
        drop(locked);
        assert!(Locked::within(open(), Duration::ZERO).unwrap().is_some());
        drop(copy);
    }
}
