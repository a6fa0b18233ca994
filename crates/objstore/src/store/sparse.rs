//! Reads a file sequentially without reading its holes (lseek(2), SEEK_DATA).

use rustix::fs::{SeekFrom, Stat, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Offset and length.
pub(crate) type Hole = (u64, u64);

pub(super) struct Source<'a> {
    file: &'a File,
    position: u64,
    part_end: u64,
    in_hole: bool,
    pub holes: Vec<Hole>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &'a File, stat: &Stat) -> Self {
        // st_blocks counts units of 512 bytes (stat(2)). A file with all its blocks has no holes, so no lseek calls are needed.
        let may_have_holes = (stat.st_blocks as u64).saturating_mul(512) < stat.st_size as u64;
        let part_end = if may_have_holes { 0 } else { u64::MAX };
        Self { file, position: 0, part_end, in_hole: false, holes: Vec::new() }
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the remaining bytes of the current hole.
    pub(crate) fn hole_left(&self) -> u64 {
        if self.in_hole { self.part_end - self.position } else { 0 }
    }

    pub(crate) fn skip(&mut self, bytes: u64) {
        self.position += bytes.min(self.hole_left());
    }

    /// Reads the next bytes into `buffer`; returns their number (0 at the end of the file), and whether they are a hole.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
        if self.position == self.part_end {
            self.next_part()?;
        }
        let most = (self.part_end - self.position).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..most];
        let read = if self.in_hole {
            buffer.fill(0);
            most
        } else {
            self.read(buffer)?
        };
        self.position += read as u64;
        Ok((read, self.in_hole))
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read_at(buffer, self.position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn next_part(&mut self) -> io::Result<()> {
        let data = match seek(self.file, SeekFrom::Data(self.position)) {
            // The rest is a hole, or the file ends here.
            Err(Errno::NXIO) => self.file.metadata()?.len().max(self.position),
            // Its file system does not support it.
            Err(_) => self.position,
            Ok(data) => data,
        };
        self.in_hole = data > self.position;
        if self.in_hole {
            self.holes.push((self.position, data - self.position));
            self.part_end = data;
        } else {
            let hole = seek(self.file, SeekFrom::Hole(self.position)).unwrap_or(u64::MAX);
            self.part_end = if hole > self.position { hole } else { u64::MAX };
        }
        Ok(())
    }
}
