//! Writes that reach a device in the order in which they are made.

use crate::error::TargetError;
use crate::sparse::{NamedFile, Range};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Alignment of direct writes: no device has larger logical blocks.
const ALIGNMENT: usize = 4096;

struct Direct<'a> {
    file: &'a File,
    before: OFlags,
}

impl<'a> Direct<'a> {
    fn on(to: NamedFile<'a>) -> Result<Option<Self>, TargetError> {
        let failed = |errno| TargetError::errno("set direct writes of", to.path)(errno);
        let before = fcntl_getfl(to.file).map_err(failed)?;
        match fcntl_setfl(to.file, before | OFlags::DIRECT) {
            Ok(()) => Ok(Some(Self { file: to.file, before })),
            Err(Errno::INVAL) => Ok(None),
            Err(errno) => Err(failed(errno)),
        }
    }
}

impl Drop for Direct<'_> {
    fn drop(&mut self) {
        let _ = fcntl_setfl(self.file, self.before);
    }
}

/// Copies pieces one after the other. Without direct writes, syncs each before the next.
pub(super) fn write(from: NamedFile, to: NamedFile, pieces: &[Range]) -> Result<(), TargetError> {
    let is_whole = |piece: &Range| [piece.start, piece.end].iter().all(|at| at.is_multiple_of(ALIGNMENT as u64));
    let mut buffer = Vec::new();
    let mut direct = Direct::on(to)?;
    for piece in pieces {
        // The end of an image whose size is not a multiple of a block.
        if !is_whole(piece) {
            direct = None;
        } else if direct.is_none() {
            direct = Direct::on(to)?;
        }
        let length = piece.length() as usize;
        if buffer.len() < length + ALIGNMENT {
            buffer.resize(length + ALIGNMENT, 0);
        }
        let skip = buffer.as_ptr().align_offset(ALIGNMENT);
        let content = &mut buffer[skip..skip + length];
        from.file.read_exact_at(content, piece.start).map_err(TargetError::io("read", from.path))?;
        to.file.write_all_at(content, piece.start).map_err(TargetError::io("write", to.path))?;
        if direct.is_none() {
            to.file.sync_data().map_err(TargetError::io("write back", to.path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn copied(directory: &Path, pieces: &[Range]) -> (Vec<u8>, Vec<u8>) {
        let content: Vec<u8> = (0..5 * ALIGNMENT + 100).map(|at| (at % 251) as u8).collect();
        let (source, target) = (directory.join("source"), directory.join("target"));
        std::fs::write(&source, &content).unwrap();
        let from = File::open(&source).unwrap();
        let to = File::options().read(true).write(true).create(true).truncate(true).open(&target).unwrap();
        to.set_len(content.len() as u64).unwrap();
        let named = |file, path| NamedFile { file, path };
        write(named(&from, &source), named(&to, &target), pieces).unwrap();
        (content, std::fs::read(&target).unwrap())
    }

    #[test]
    fn unordered_pieces_with_odd_end_complete_the_copy() {
        let directory = tempfile::tempdir().unwrap();
        let blocks = |start: u64, end: u64| Range { start: start * ALIGNMENT as u64, end: end * ALIGNMENT as u64 };
        let end = Range { start: 5 * ALIGNMENT as u64, end: 5 * ALIGNMENT as u64 + 100 };
        let (source, target) = copied(directory.path(), &[blocks(3, 5), end, blocks(0, 1), blocks(1, 3), blocks(0, 2)]);
        assert_eq!(source, target);
        let (source, target) = copied(directory.path(), &[blocks(1, 2)]);
        assert_eq!(source[ALIGNMENT..2 * ALIGNMENT], target[ALIGNMENT..2 * ALIGNMENT]);
        assert!(target[..ALIGNMENT].iter().all(|byte| *byte == 0));
    }
}
