//! Sparse files: data ranges (lseek(2), SEEK_DATA and SEEK_HOLE), copies and comparisons.

use crate::error::TargetError;
use crate::signature::is_zero;
use rustix::fs::{SeekFrom, copy_file_range, seek};
use rustix::io::Errno;
use senesce_sys::zeros;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const CHUNK: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Range {
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Range {
    pub fn length(self) -> u64 {
        self.end - self.start
    }
}

/// Returns the data ranges of the first `size` bytes, in order. A file system without holes gives one range.
pub fn data_ranges(file: &File, size: u64, path: &Path) -> Result<Vec<Range>, TargetError> {
    data_ranges_between(file, Range { start: 0, end: size }, path)
}

pub(crate) fn data_ranges_between(file: &File, within: Range, path: &Path) -> Result<Vec<Range>, TargetError> {
    let mut ranges = Vec::new();
    let mut offset = within.start;
    while offset < within.end {
        let start = match seek(file, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) => offset,
            Err(errno) => return Err(TargetError::errno("find data in", path)(errno)),
        };
        if start >= within.end {
            break;
        }
        let end = match seek(file, SeekFrom::Hole(start)) {
            Ok(end) => end.min(within.end),
            Err(Errno::INVAL) => within.end,
            Err(errno) => return Err(TargetError::errno("find holes in", path)(errno)),
        };
        ranges.push(Range { start, end });
        offset = end;
    }
    Ok(ranges)
}

pub(crate) fn is_all_zero(file: &File, size: u64, path: &Path) -> Result<bool, TargetError> {
    for range in data_ranges(file, size, path)? {
        if !is_zero(file, range.start, range.end, path)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[derive(Debug, Clone, Copy)]
pub struct NamedFile<'a> {
    pub file: &'a File,
    pub path: &'a Path,
}

pub(crate) fn gaps(ranges: &[Range], size: u64) -> Vec<Range> {
    let starts = std::iter::once(0).chain(ranges.iter().map(|range| range.end));
    let ends = ranges.iter().map(|range| range.start).chain([size]);
    starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| Range { start, end }).collect()
}

/// Zeroes a range of a block device: by its own command if it has one; partial blocks by writes.
pub(crate) fn zero_device(device: NamedFile, range: Range) -> Result<(), TargetError> {
    // No device has larger logical blocks.
    const BLOCK: u64 = 4096;
    let inner = Range { start: range.start.next_multiple_of(BLOCK), end: range.end / BLOCK * BLOCK };
    if inner.start >= inner.end {
        return write_zeroes(device, range);
    }
    write_zeroes(device, Range { start: range.start, end: inner.start })?;
    senesce_sys::block::zero_out(device.file, inner.start..inner.end)
        .map_err(TargetError::errno("write zeroes to", device.path))?;
    write_zeroes(device, Range { start: inner.end, end: range.end })
}

pub(crate) fn write_zeroes(to: NamedFile, range: Range) -> Result<(), TargetError> {
    let zeroes = vec![0u8; CHUNK.min(range.length() as usize)];
    let mut at = range.start;
    while at < range.end {
        let length = zeroes.len().min((range.end - at) as usize);
        to.file.write_all_at(&zeroes[..length], at).map_err(TargetError::io("write zeroes to", to.path))?;
        at += length as u64;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyBy {
    /// Inside the kernel (copy_file_range(2)); a file system with reflinks then shares the blocks.
    Kernel,
    /// Through memory: the copy shares nothing. Blocks of zeros are skipped, so the destination must be empty there.
    Memory,
}

pub(crate) fn copy_range(from: NamedFile, to: NamedFile, range: Range) -> Result<(), TargetError> {
    let (mut read_at, mut write_at) = (range.start, range.start);
    while read_at < range.end {
        let left = (range.end - read_at).min(1 << 30) as usize;
        match copy_file_range(from.file, Some(&mut read_at), to.file, Some(&mut write_at), left) {
            Ok(0) => return copy_through_memory(from, to, Range { start: read_at, end: range.end }, false),
            Ok(_) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::BADF) => {
                return copy_through_memory(from, to, Range { start: read_at, end: range.end }, false);
            }
            Err(errno) => return Err(TargetError::errno("copy into", to.path)(errno)),
        }
    }
    Ok(())
}

fn copy_through_memory(from: NamedFile, to: NamedFile, range: Range, skip_zeroes: bool) -> Result<(), TargetError> {
    let mut buffer = vec![0u8; CHUNK.min(range.length() as usize)];
    let mut offset = range.start;
    while offset < range.end {
        let length = buffer.len().min((range.end - offset) as usize);
        from.file.read_exact_at(&mut buffer[..length], offset).map_err(TargetError::io("read", from.path))?;
        for part in pieces(&buffer[..length], skip_zeroes) {
            let at = offset + part.start as u64;
            to.file.write_all_at(&buffer[part], at).map_err(TargetError::io("write", to.path))?;
        }
        offset += length as u64;
    }
    Ok(())
}

/// Returns the parts of a buffer to write: all of it, or the runs of 4 KiB blocks that are not all zero.
pub(crate) fn pieces(buffer: &[u8], skip_zeroes: bool) -> Vec<std::ops::Range<usize>> {
    if !skip_zeroes {
        return std::iter::once(0..buffer.len()).collect();
    }
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, block) in buffer.chunks(4096).enumerate().filter(|(_, block)| !zeros::is_zero(block)) {
        let (start, end) = (index * 4096, index * 4096 + block.len());
        match found.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => found.push(start..end),
        }
    }
    found
}

/// Copies the data ranges of the first `size` bytes into an empty file, which becomes as sparse as its source. Returns
/// the bytes copied.
pub fn copy(from: NamedFile, to: NamedFile, size: u64, by: CopyBy) -> Result<u64, TargetError> {
    to.file.set_len(size).map_err(TargetError::io("set the size of", to.path))?;
    let mut copied = 0;
    for range in data_ranges(from.file, size, from.path)? {
        match by {
            CopyBy::Kernel => copy_range(from, to, range)?,
            CopyBy::Memory => copy_through_memory(from, to, range, true)?,
        }
        copied += range.length();
    }
    Ok(copied)
}

/// Returns the offset of the first difference within the first `size` bytes; holes read as zero. Fails if a file ends
/// inside the other's data.
#[cfg(test)]
pub(crate) fn first_difference(ours: NamedFile, theirs: NamedFile, size: u64) -> Result<Option<u64>, TargetError> {
    let mut ranges = data_ranges(ours.file, size, ours.path)?;
    ranges.extend(data_ranges(theirs.file, size, theirs.path)?);
    first_difference_in(ours, theirs, &merge(ranges))
}

pub(crate) fn first_difference_in(
    ours: NamedFile,
    theirs: NamedFile,
    ranges: &[Range],
) -> Result<Option<u64>, TargetError> {
    for range in ranges {
        if let Some(offset) = difference_in(ours, theirs, *range)? {
            return Ok(Some(offset));
        }
    }
    Ok(None)
}

fn difference_in(ours: NamedFile, theirs: NamedFile, range: Range) -> Result<Option<u64>, TargetError> {
    let (mut left, mut right) = (vec![0u8; CHUNK], vec![0u8; CHUNK]);
    let mut offset = range.start;
    while offset < range.end {
        let length = CHUNK.min((range.end - offset) as usize);
        ours.file.read_exact_at(&mut left[..length], offset).map_err(TargetError::io("read", ours.path))?;
        theirs.file.read_exact_at(&mut right[..length], offset).map_err(TargetError::io("read", theirs.path))?;
        if left[..length] != right[..length] {
            let at = left.iter().zip(&right).position(|(ours, theirs)| ours != theirs).unwrap_or(0);
            return Ok(Some(offset + at as u64));
        }
        offset += length as u64;
    }
    Ok(None)
}

pub(crate) fn merge(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(file: &File) -> NamedFile<'_> {
        NamedFile { file, path: Path::new("test file") }
    }

    #[test]
    fn a_copy_is_equal_and_stays_sparse() {
        copy_and_compare(CopyBy::Kernel);
        copy_and_compare(CopyBy::Memory);
    }

    fn copy_and_compare(by: CopyBy) {
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let size = 64 << 20;
        from.set_len(size).unwrap();
        from.write_all_at(b"first", 0).unwrap();
        from.write_all_at(&[7; 10_000], 40 << 20).unwrap();
        let copied = copy(named(&from), named(&to), size, by).unwrap();
        assert!(copied < 1 << 20, "{copied} bytes copied");
        assert_eq!(first_difference(named(&from), named(&to), size).unwrap(), None);
        to.write_all_at(b"x", (40 << 20) + 5).unwrap();
        assert_eq!(first_difference(named(&from), named(&to), size).unwrap(), Some((40 << 20) + 5));
    }

    proptest! {
        #[test]
        fn merged_ranges_cover_the_same_bytes_once(pairs in prop::collection::vec((0u64..200, 1u64..20), 0..40)) {
            let ranges: Vec<Range> = pairs.iter().map(|(start, length)| Range { start: *start, end: start + length }).collect();
            let merged = merge(ranges.clone());
            prop_assert!(merged.windows(2).all(|pair| pair[0].end < pair[1].start));
            let covered = |list: &[Range], byte: u64| list.iter().any(|range| range.start <= byte && byte < range.end);
            let between = gaps(&merged, 230);
            for byte in 0..230 {
                prop_assert_eq!(covered(&ranges, byte), covered(&merged, byte));
                prop_assert_eq!(covered(&ranges, byte), !covered(&between, byte));
            }
        }
    }
}
