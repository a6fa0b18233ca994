//! Compares the content of files with that of the plan.

use crate::execute::{CHUNK, Content, Data};
use crate::planner::File;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use senesce_core::Seed;
use std::os::fd::{AsFd, OwnedFd};

/// The expected content follows from `data`: derived from seed and file, or zeros.
pub(super) struct ContentCheck {
    data: Data,
    content: Content,
}

#[derive(Default)]
pub(super) struct Buffers {
    found: Vec<u8>,
    expected: Vec<u8>,
}

/// Result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ComparedContent {
    /// Holes read as zeros and are skipped.
    pub bytes_read: u64,
    /// Offset of the first wrong byte.
    pub wrong_from: Option<u64>,
}

impl ContentCheck {
    pub(super) fn new(data: Data, seed: Seed) -> Self {
        Self { data, content: Content::new(seed) }
    }

    /// Compares the first `file.size` bytes of `opened`.
    ///
    /// # Errors
    /// Those of lseek(2) and pread(2).
    pub(super) fn compare(
        &self,
        opened: &OwnedFd,
        file: &File,
        buffers: &mut Buffers,
    ) -> Result<ComparedContent, Errno> {
        let (size, mut bytes_read) = (file.size, 0);
        buffers.found.resize(CHUNK, 0);
        buffers.expected.resize(CHUNK, 0);
        let mut done = self.content_from(opened, 0, size)?;
        while done < size {
            let length = (size - done).min(CHUNK as u64) as usize;
            let (found, expected) = (&mut buffers.found[..length], &mut buffers.expected[..length]);
            if self.data == Data::Write {
                self.content.fill(file.birth, done / crate::plan::BLOCK, expected);
            }
            let read = read_full(opened, found, done)?;
            bytes_read += read as u64;
            if let Some(equal) = equal_bytes(&found[..read], expected) {
                return Ok(ComparedContent { bytes_read, wrong_from: Some(done + equal as u64) });
            }
            done = self.content_from(opened, done + length as u64, size)?;
        }
        Ok(ComparedContent { bytes_read, wrong_from: None })
    }

    /// Returns the offset of the next data at or after `from` in a file of `size` bytes. Holes and preallocated blocks
    /// read as zeros, the expected content of files without data.
    fn content_from(&self, file: &OwnedFd, from: u64, size: u64) -> Result<u64, Errno> {
        if self.data == Data::Write || from >= size {
            return Ok(from);
        }
        match rustix::fs::seek(file, SeekFrom::Data(from)) {
            Ok(data) => Ok(data),
            Err(Errno::NXIO) => Ok(size),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(from),
            Err(errno) => Err(errno),
        }
    }
}

/// Returns the number of equal bytes before the first difference, or before the end of the shorter one; `None` if both
/// are equal.
fn equal_bytes(found: &[u8], expected: &[u8]) -> Option<usize> {
    (found != expected).then(|| found.iter().zip(expected).take_while(|(one, other)| one == other).count())
}

fn read_full(file: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut done = 0;
    while done < buffer.len() {
        match rustix::io::pread(file.as_fd(), &mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_difference_is_found_within_a_piece() {
        assert_eq!(equal_bytes(b"content", b"content"), None);
        assert_eq!(equal_bytes(b"conTEnt", b"content"), Some(3));
        assert_eq!(equal_bytes(b"con", b"content"), Some(3), "the file became shorter");
    }
}
