//! Reads a file chunk by chunk and notices when it changes meanwhile.

use crate::chunker::ChunkerSpec;
use crate::error::{StoreError, io};
use rustix::fs::Stat;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// How often a file that changes is read again before its last state is taken as it is.
const ATTEMPTS: usize = 3;

/// What was read.
pub(super) struct Reading {
    /// The file as it was after reading.
    pub stat: Stat,
    /// Bytes read.
    pub size: u64,
    /// It changed during every attempt.
    pub changed: bool,
}

/// Reads files of a commit; keeps its buffer between files.
pub(super) struct FileReader {
    chunker: ChunkerSpec,
    buffer: Vec<u8>,
}

impl FileReader {
    pub fn new(chunker: ChunkerSpec) -> Self {
        Self { chunker, buffer: vec![0; 1 << 20] }
    }

    /// Reads the file at `path` and hands its chunks to `put`; `restart` is called when the file changed and its chunks
    /// come again from the first.
    ///
    /// # Errors
    /// Those of opening and reading the file, and those of `put`.
    pub fn read(
        &mut self,
        path: &Path,
        mut restart: impl FnMut(),
        mut put: impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<Reading, StoreError> {
        let mut attempt = 1;
        loop {
            restart();
            let mut file = File::open(path).map_err(io("open", path))?;
            let before = rustix::fs::fstat(&file).map_err(io("read the state of", path))?;
            let size = self.chunks(&mut file, path, &mut put)?;
            let after = rustix::fs::fstat(&file).map_err(io("read the state of", path))?;
            let changed = state(&before) != state(&after) || size != after.st_size as u64;
            if !changed || attempt == ATTEMPTS {
                return Ok(Reading { stat: after, size, changed });
            }
            attempt += 1;
        }
    }

    fn chunks(
        &mut self,
        file: &mut impl Read,
        path: &Path,
        put: &mut impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        let mut chunker = self.chunker.build();
        let (mut start, mut end, mut size) = (0, 0, 0);
        loop {
            if end == self.buffer.len() {
                if start > 0 {
                    self.buffer.copy_within(start..end, 0);
                } else {
                    self.buffer.resize(end * 2, 0);
                }
                end -= start;
                start = 0;
            }
            let read = match file.read(&mut self.buffer[end..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other.map_err(io("read", path))?,
            };
            end += read;
            size += read as u64;
            while let Some(length) = chunker.cut(&self.buffer[start..end], read == 0) {
                put(&self.buffer[start..start + length])?;
                start += length;
            }
            if read == 0 {
                return Ok(size);
            }
        }
    }
}

fn state(stat: &Stat) -> [i64; 5] {
    [stat.st_size, stat.st_mtime, stat.st_mtime_nsec as i64, stat.st_ctime, stat.st_ctime_nsec as i64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn reader() -> FileReader {
        FileReader::new("fixed:1000".parse().unwrap())
    }

    #[test]
    fn chunks_are_the_file_whatever_its_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for size in [0usize, 1, 999, 1000, 1001, 3_500_000] {
            let data: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            std::fs::write(&path, &data).unwrap();
            let mut joined = Vec::new();
            let reading = reader()
                .read(
                    &path,
                    || (),
                    |chunk| {
                        joined.extend_from_slice(chunk);
                        Ok(())
                    },
                )
                .unwrap();
            assert!(joined == data && reading.size == size as u64 && !reading.changed, "{size}");
        }
    }

    #[test]
    fn a_file_that_always_changes_is_said_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 5000]).unwrap();
        let mut attempts = 0;
        let grow = |path: &Path| std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"x").unwrap();
        let reading = reader()
            .read(
                &path,
                || attempts += 1,
                |_| {
                    grow(&path);
                    Ok(())
                },
            )
            .unwrap();
        assert!(reading.changed);
        assert_eq!(attempts, ATTEMPTS);
    }

    #[test]
    fn a_file_that_changes_once_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 5000]).unwrap();
        let (mut grown, joined) = (false, std::cell::RefCell::new(Vec::new()));
        let reading = reader()
            .read(
                &path,
                || joined.borrow_mut().clear(),
                |chunk| {
                    if !std::mem::replace(&mut grown, true) {
                        std::fs::write(&path, vec![2; 4000]).unwrap();
                    }
                    joined.borrow_mut().extend_from_slice(chunk);
                    Ok(())
                },
            )
            .unwrap();
        assert!(!reading.changed);
        assert_eq!(joined.into_inner(), vec![2; 4000]);
    }
}
