//! Writes the objects of a file and preserves its holes.

use super::snapshot::{Hole, data_bytes};
use senesce_core::failure::errno_message;
use senesce_sys::zeros::is_zero;
use std::fs::File;
use std::os::unix::fs::FileExt;

pub(super) struct SparseWriter<'a> {
    file: &'a File,
    size: u64,
    written: u64,
    /// Holes that end after the current position.
    holes: &'a [Hole],
}

impl<'a> SparseWriter<'a> {
    pub(crate) fn new(file: &'a File, size: u64, holes: &'a [Hole]) -> Result<Self, String> {
        data_bytes(size, holes).ok_or("its holes exceed its size or overlap")?;
        Ok(Self { file, size, written: 0, holes })
    }

    /// Writes an object `times` times, unless `stop` returns true.
    pub(crate) fn write(&mut self, data: &[u8], times: u64, stop: impl Fn() -> bool) -> Result<(), String> {
        let (length, size) = (data.len() as u64, self.size);
        let fits = length.checked_mul(times).is_some_and(|bytes| bytes <= size - self.written);
        if !fits {
            return Err(format!("its objects exceed its {size} bytes"));
        }
        let mut left = if length == 0 { 0 } else { times };
        while left > 0 {
            if stop() {
                return Err("interrupted".into());
            }
            let in_hole = (self.hole_end().saturating_sub(self.written) / length).min(left);
            if in_hole > 0 && is_zero(data) {
                self.written += in_hole * length;
                left -= in_hole;
            } else {
                self.write_once(data)?;
                left -= 1;
            }
        }
        Ok(())
    }

    /// Returns the end of the hole that contains the next byte; 0 outside holes.
    fn hole_end(&mut self) -> u64 {
        while let Some((offset, length)) = self.holes.first()
            && offset + length <= self.written
        {
            self.holes = &self.holes[1..];
        }
        self.holes.first().filter(|(offset, _)| *offset <= self.written).map_or(0, |(offset, length)| offset + length)
    }

    fn write_once(&mut self, data: &[u8]) -> Result<(), String> {
        let mut rest = data;
        while !rest.is_empty() {
            let hole_end = self.hole_end();
            let next = if hole_end > 0 { hole_end } else { self.holes.first().map_or(u64::MAX, |(offset, _)| *offset) };
            let (part, after) = rest.split_at((next - self.written).min(rest.len() as u64) as usize);
            if hole_end == 0 {
                self.file.write_all_at(part, self.written).map_err(|error| errno_message(&error))?;
            } else if !is_zero(part) {
                return Err("its holes contain data".into());
            }
            self.written += part.len() as u64;
            rest = after;
        }
        Ok(())
    }

    /// Sets the file's size, as it may end in a hole; returns it.
    pub(crate) fn finish(self) -> Result<u64, String> {
        let Self { file, size, written, holes: _ } = self;
        if written != size {
            return Err(format!("its objects have {written} bytes instead of {size}"));
        }
        file.set_len(size).map_err(|error| errno_message(&error))?;
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn written(size: u64, holes: &[Hole], objects: &[(&[u8], u64)]) -> Result<(Vec<u8>, u64), String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = SparseWriter::new(file.as_file(), size, holes)?;
        for (data, times) in objects {
            writer.write(data, *times, || false)?;
        }
        writer.finish()?;
        Ok((std::fs::read(file.path()).unwrap(), file.as_file().metadata().unwrap().blocks()))
    }

    #[test]
    fn holes_are_preserved_at_any_object_boundary() {
        let zeros = [0; 3000];
        let data = [7; 5000];
        let (found, blocks) =
            written(1_308_000, &[(8192, 1_296_000)], &[(&data, 1), (&zeros, 433), (&zeros, 1), (&[1], 1000)]).unwrap();
        assert!(found[..5000] == data && found[1_307_000..] == [1; 1000]);
        assert!(found[5000..1_307_000].iter().all(|byte| *byte == 0));
        assert!(blocks * 512 < 100_000, "{blocks}");
        let (found, blocks) = written(1 << 20, &[(0, 1 << 20)], &[(&[0; 4096], 256)]).unwrap();
        assert_eq!((found.len(), blocks), (1 << 20, 0));
        // Zeros that were not a hole do not become one.
        let (_, blocks) = written(1 << 20, &[], &[(&[0; 4096], 256)]).unwrap();
        assert_eq!(blocks * 512, 1 << 20);
    }

    #[test]
    fn file_size_and_holes_are_enforced() {
        let is_refused = |size, holes: &[Hole], objects: &[(&[u8], u64)]| written(size, holes, objects).is_err();
        assert!(is_refused(10, &[], &[(&[0; 4], 3)]));
        assert!(is_refused(10, &[], &[(&[0; 4], u64::MAX)]));
        assert!(is_refused(10, &[], &[(&[0; 4], 2)]));
        assert!(is_refused(12, &[(4, 9)], &[(&[0; 4], 3)]));
        assert!(is_refused(12, &[(2, 4)], &[(&[1; 4], 3)]));
        assert!(!is_refused(0, &[], &[(&[], u64::MAX)]));
    }

    #[test]
    fn writing_can_be_stopped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = SparseWriter::new(file.as_file(), u64::MAX, &[]).unwrap();
        let asked = std::cell::Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) == 3;
        assert!(writer.write(&[0; 4096], 1 << 40, stop).is_err());
        assert_eq!(file.as_file().metadata().unwrap().len(), 3 * 4096);
    }
}
