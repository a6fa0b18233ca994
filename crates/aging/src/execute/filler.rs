//! Writes the content of files.

use super::Data;
use super::content::{CHUNK, Content};
use crate::planner::File;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use senesce_core::Seed;
use std::os::fd::{AsFd, OwnedFd};

pub(crate) type FailedCall = (&'static str, Errno);

#[derive(Debug)]
pub(crate) struct Filler {
    data: Data,
    content: Content,
    buffer: Vec<u8>,
}

impl Filler {
    pub(crate) fn new(data: Data, seed: Seed) -> Self {
        Self { data, content: Content::new(seed), buffer: vec![0; CHUNK] }
    }

    pub(crate) fn extend(&mut self, opened: &OwnedFd, birth: u64, from: u64, to: u64) -> Result<(), FailedCall> {
        // fallocate of length 0 fails with EINVAL.
        if from == to {
            return Ok(());
        }
        match self.data {
            Data::Fallocate => {
                allocate(opened, FallocateFlags::empty(), from, to - from).map_err(|errno| ("allocate", errno))
            }
            Data::Sparse => cut(opened, to),
            Data::Write => self.write(opened, birth, from, to),
        }
    }

    /// Rewrites a part of a file with the same content; preallocated blocks read as zeros.
    pub(crate) fn overwrite(&mut self, opened: &OwnedFd, file: &File, from: u64, bytes: u64) -> Result<(), FailedCall> {
        self.write(opened, file.birth, from, from + bytes)
    }

    /// Frees the blocks of a part of a file, and fills the part again.
    pub(crate) fn punch(&mut self, opened: &OwnedFd, file: &File, from: u64, bytes: u64) -> Result<(), FailedCall> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        allocate(opened, hole, from, bytes).map_err(|errno| ("punch a hole into", errno))?;
        self.extend(opened, file.birth, from, from + bytes)
    }

    fn write(&mut self, opened: &OwnedFd, birth: u64, from: u64, to: u64) -> Result<(), FailedCall> {
        let mut done = from;
        while done < to {
            let length = (to - done).min(CHUNK as u64) as usize;
            if self.data == Data::Write {
                self.content.fill(birth, done / crate::plan::BLOCK, &mut self.buffer[..length]);
            }
            write_at(opened, &self.buffer[..length], done).map_err(|errno| ("write", errno))?;
            done += length as u64;
        }
        Ok(())
    }
}

/// Truncates a file, or extends it without blocks.
pub(crate) fn cut(opened: &OwnedFd, size: u64) -> Result<(), FailedCall> {
    rustix::fs::ftruncate(opened, size).map_err(|errno| ("set the size of", errno))
}

fn write_at(opened: &OwnedFd, mut rest: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !rest.is_empty() {
        match rustix::io::pwrite(opened, rest, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => (rest, offset) = (&rest[count..], offset + count as u64),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Makes the plain system call: the C library's posix_fallocate writes zeros if the file system cannot allocate.
fn allocate(opened: &OwnedFd, mode: FallocateFlags, from: u64, bytes: u64) -> Result<(), Errno> {
    loop {
        match rustix::fs::fallocate(opened.as_fd(), mode, from, bytes) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
