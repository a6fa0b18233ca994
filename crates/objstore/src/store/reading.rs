//! Reads a file chunk by chunk, skips its holes, and detects concurrent changes.

use super::sparse::{Hole, Source};
use crate::chunker::{ChunkerSpec, ZeroChunks};
use crate::error::{StoreError, io};
use rustix::fs::Stat;
use senesce_core::input::open_regular;
use std::path::Path;

/// Maximum number of attempts to read a changing file; the last one is used.
const ATTEMPTS: usize = 3;

pub(super) struct Reading {
    pub stat: Stat,
    pub size: u64,
    pub holes: Vec<Hole>,
    pub changed: bool,
}

/// Reads files of a commit; reuses its buffer.
pub(super) struct FileReader {
    chunker: ChunkerSpec,
    buffer: Vec<u8>,
    zeros: Vec<u8>,
}

impl FileReader {
    pub(crate) fn new(chunker: ChunkerSpec) -> Self {
        Self { chunker, buffer: vec![0; 1 << 20], zeros: Vec::new() }
    }

    /// Reads the file at `path` and passes its chunks to `put`, each with its number of consecutive occurrences. Calls `restart`
    /// if the file changed and its chunks start again, and `stop` before every read.
    pub(crate) fn read(
        &mut self,
        path: &Path,
        mut restart: impl FnMut(),
        mut put: impl FnMut(&[u8], u64) -> Result<(), StoreError>,
        stop: impl Fn() -> Result<(), StoreError>,
    ) -> Result<Reading, StoreError> {
        let mut attempt = 1;
        loop {
            restart();
            let file = open_regular(path).map_err(io("open", path))?;
            let before = rustix::fs::fstat(&file).map_err(io("read the state of", path))?;
            let mut source = Source::new(&file, &before);
            self.chunks(&mut source, path, &mut put, &stop)?;
            let size = source.position();
            let after = rustix::fs::fstat(&file).map_err(io("read the state of", path))?;
            let changed = state(&before) != state(&after) || size != after.st_size as u64;
            if !changed || attempt == ATTEMPTS {
                return Ok(Reading { stat: after, size, holes: source.holes, changed });
            }
            attempt += 1;
        }
    }

    fn chunks(
        &mut self,
        source: &mut Source<'_>,
        path: &Path,
        put: &mut impl FnMut(&[u8], u64) -> Result<(), StoreError>,
        stop: &impl Fn() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut chunker = self.chunker.build();
        let (mut start, mut end) = (0, 0);
        // From here to `end` all bytes belong to the current hole.
        let mut hole_from = 0usize;
        loop {
            stop()?;
            if end == self.buffer.len() {
                if start > 0 {
                    self.buffer.copy_within(start..end, 0);
                } else {
                    self.buffer.resize(end * 2, 0);
                }
                (hole_from, end) = (hole_from.saturating_sub(start), end - start);
                start = 0;
            }
            let (read, in_hole) = source.fill(&mut self.buffer[end..]).map_err(io("read", path))?;
            end += read;
            if !in_hole {
                hole_from = end;
            }
            loop {
                if start >= hole_from
                    && let Some(chunks) = chunker.zeros((end - start) as u64 + source.hole_left())
                {
                    start += self.skip(source, chunks, end - start, put)?;
                }
                let Some(length) = chunker.cut(&self.buffer[start..end], read == 0) else { break };
                put(&self.buffer[start..start + length], 1)?;
                start += length;
            }
            if read == 0 {
                return Ok(());
            }
        }
    }

    /// Emits chunks of zeros, of which `pending` bytes are in the buffer and the rest in the hole; returns how many chunks the
    /// buffered bytes cover.
    fn skip(
        &mut self,
        source: &mut Source<'_>,
        ZeroChunks { bytes, count }: ZeroChunks,
        pending: usize,
        put: &mut impl FnMut(&[u8], u64) -> Result<(), StoreError>,
    ) -> Result<usize, StoreError> {
        if self.zeros.len() < bytes {
            self.zeros.resize(bytes, 0);
        }
        put(&self.zeros[..bytes], count)?;
        let all = bytes as u64 * count;
        source.skip(all.saturating_sub(pending as u64));
        Ok(all.min(pending as u64) as usize)
    }
}

fn state(stat: &Stat) -> [i64; 5] {
    [stat.st_size, stat.st_mtime, stat.st_mtime_nsec as i64, stat.st_ctime, stat.st_ctime_nsec as i64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn never_stop() -> Result<(), StoreError> {
        Ok(())
    }

    fn reader() -> FileReader {
        FileReader::new("fixed:1000".parse().unwrap())
    }

    #[test]
    fn chunks_reproduce_files_of_any_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for size in [0usize, 1, 999, 1000, 1001, 3_500_000] {
            let data: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            std::fs::write(&path, &data).unwrap();
            let mut joined = Vec::new();
            let put = |chunk: &[u8], times| {
                (0..times).for_each(|_| joined.extend_from_slice(chunk));
                Ok(())
            };
            let reading = reader().read(&path, || (), put, never_stop).unwrap();
            assert!(joined == data && reading.size == size as u64 && !reading.changed, "{size}");
        }
    }

    #[test]
    fn constantly_changing_file_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 5000]).unwrap();
        let mut attempts = 0;
        let grow = |path: &Path| std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"x").unwrap();
        let put = |_: &[u8], _| {
            grow(&path);
            Ok(())
        };
        let reading = reader().read(&path, || attempts += 1, put, never_stop).unwrap();
        assert!(reading.changed);
        assert_eq!(attempts, ATTEMPTS);
    }

    #[test]
    fn a_file_that_changes_once_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 5000]).unwrap();
        let (mut grown, joined) = (false, std::cell::RefCell::new(Vec::new()));
        let put = |chunk: &[u8], _| {
            if !std::mem::replace(&mut grown, true) {
                std::fs::write(&path, vec![2; 4000]).unwrap();
            }
            joined.borrow_mut().extend_from_slice(chunk);
            Ok(())
        };
        let reading = reader().read(&path, || joined.borrow_mut().clear(), put, never_stop).unwrap();
        assert!(!reading.changed);
        assert_eq!(joined.into_inner(), vec![2; 4000]);
    }

    /// Chunks in order, with repetitions.
    fn chunks_of(spec: &str, path: &Path) -> (Vec<Vec<u8>>, Reading) {
        let mut chunks = Vec::new();
        let mut put = |chunk: &[u8], times: u64| {
            chunks.extend(std::iter::repeat_n(chunk.to_vec(), times as usize));
            Ok(())
        };
        let reading = FileReader::new(spec.parse().unwrap()).read(path, || (), &mut put, never_stop).unwrap();
        (chunks, reading)
    }

    #[test]
    fn sparse_file_has_the_same_chunks() {
        use std::os::unix::fs::FileExt;
        let directory = tempfile::tempdir().unwrap();
        let (sparse, dense) = (directory.path().join("sparse"), directory.path().join("dense"));
        let data: Vec<u8> = (0..200_000u32).map(|index| (index.wrapping_mul(index) % 251) as u8 + 1).collect();
        const SIZE: u64 = 20_000_000;
        for parts in
            [vec![], vec![0], vec![3_000_000], vec![0, 4_500_007, 9_000_000, SIZE - 200_000], vec![1, 19_000_001]]
        {
            let file = std::fs::File::create(&sparse).unwrap();
            file.set_len(SIZE).unwrap();
            parts.iter().for_each(|at| file.write_all_at(&data, *at).unwrap());
            std::fs::write(&dense, std::fs::read(&sparse).unwrap()).unwrap();
            for spec in ["fixed:1000", "fixed:65536", "fastcdc:16K", "fastcdc:1M", "rolling-sum:4096:1024:reset"] {
                let (found, reading) = chunks_of(spec, &sparse);
                assert!(found == chunks_of(spec, &dense).0, "{spec} {parts:?}");
                assert_eq!(reading.size, SIZE);
                let holes: u64 = reading.holes.iter().map(|(_, length)| length).sum();
                assert!(holes + parts.len() as u64 * 280_000 >= SIZE, "{spec} {parts:?}: {:?}", reading.holes);
            }
        }
    }

    #[test]
    fn huge_holes_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hole");
        // ext4 supports up to 16 TiB.
        const SIZE: u64 = 4 << 40;
        std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
        for spec in ["fixed:4K", "fastcdc:16K", "rolling-sum:4096:1024", "rolling-sum:4096:1024:reset"] {
            let (mut bytes, mut calls) = (0, 0);
            let put = |chunk: &[u8], times: u64| {
                (bytes, calls) = (bytes + chunk.len() as u64 * times, calls + 1);
                Ok(())
            };
            let reading = FileReader::new(spec.parse().unwrap()).read(&path, || (), put, never_stop).unwrap();
            assert_eq!((bytes, reading.size, reading.holes), (SIZE, SIZE, vec![(0, SIZE)]), "{spec}");
            assert!(calls < 10, "{spec}: {calls}");
        }
    }

    #[test]
    fn reading_can_stop_within_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 5 << 20]).unwrap();
        let reads = std::cell::Cell::new(0);
        let stop = || {
            reads.set(reads.get() + 1);
            if reads.get() > 2 { Err(StoreError::Interrupted) } else { Ok(()) }
        };
        let stopped = reader().read(&path, || (), |_, _| Ok(()), stop);
        assert!(matches!(stopped, Err(StoreError::Interrupted)) && reads.get() == 3);
    }
}
