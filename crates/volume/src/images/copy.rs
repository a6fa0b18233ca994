//! Copies an image to a file or device, with verification.

use super::in_order;
use crate::claim::ClaimedDevice;
use crate::error::TargetError;
use crate::image_file::{make_new, refuse_other_kinds, replace};
use crate::sparse::{self, CopyBy, NamedFile, Range};
use crate::{guard, lock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Copies data ranges; the gaps become holes in a new file and are zeroed on a device.
    Used,
    Full,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyReport {
    pub size_bytes: u64,
    pub copied_bytes: u64,
    /// Bytes that were written; more if blocks are written several times.
    #[serde(default)]
    pub written_bytes: u64,
    pub extents: u64,
    /// Bytes of a device that were zeroed because the image has holes there.
    #[serde(default)]
    pub zeroed_bytes: u64,
    /// Whether the whole image was read back and compared.
    pub verified: bool,
    /// Seconds without the verification and the zeroing.
    pub elapsed_seconds: f64,
}

/// Copies the image at `from` to a file or block device at `to` and verifies it. Refuses a device or a file with data
/// unless `erase` repeats its identity. Bytes of a device after the image's size stay. The image must not be in use.
///
/// [`TargetError::Damaged`] if the copy differs, [`TargetError::Usage`] if the device is too small.
pub fn copy(from: &Path, to: &Path, extent: Extent, erase: Option<&str>) -> Result<CopyReport, TargetError> {
    copy_by(from, to, erase, |source, size| {
        Ok(match extent {
            Extent::Used => {
                CopyPlan { ranges: sparse::data_ranges(source.file, size, from)?, way: CopyMethod::AsTheyLie }
            }
            Extent::Full => CopyPlan { ranges: vec![Range { start: 0, end: size }], way: CopyMethod::EveryBlock },
        })
    })
}

/// Copies and verifies like [`copy`], with direct writes in a given order, each complete before the next. `order`
/// receives the data ranges and the size of the image. Its pieces must cover these ranges, may overlap, and consist of
/// whole 4 KiB blocks except at the end of the image.
pub fn copy_in_order(
    from: &Path,
    to: &Path,
    erase: Option<&str>,
    order: impl FnOnce(&[Range], u64) -> Result<Vec<Range>, TargetError>,
) -> Result<CopyReport, TargetError> {
    copy_by(from, to, erase, |source, size| {
        let ranges = sparse::data_ranges(source.file, size, from)?;
        let pieces = order(&ranges, size)?;
        Ok(CopyPlan { ranges, way: CopyMethod::Pieces(pieces) })
    })
}

struct CopyPlan {
    /// Data ranges; everything else reads as zero.
    ranges: Vec<Range>,
    way: CopyMethod,
}

enum CopyMethod {
    AsTheyLie,
    EveryBlock,
    Pieces(Vec<Range>),
}

impl CopyPlan {
    fn unwritten(&self, size: u64) -> Vec<Range> {
        match &self.way {
            CopyMethod::Pieces(pieces) => sparse::gaps(&sparse::merge(pieces.clone()), size),
            CopyMethod::AsTheyLie | CopyMethod::EveryBlock => sparse::gaps(&self.ranges, size),
        }
    }

    fn written_bytes(&self) -> u64 {
        let of = |ranges: &[Range]| ranges.iter().map(|range| range.length()).sum();
        match &self.way {
            CopyMethod::Pieces(pieces) => of(pieces),
            CopyMethod::AsTheyLie | CopyMethod::EveryBlock => of(&self.ranges),
        }
    }
}

fn copy_by(
    from: &Path,
    to: &Path,
    erase: Option<&str>,
    course: impl FnOnce(NamedFile, u64) -> Result<CopyPlan, TargetError>,
) -> Result<CopyReport, TargetError> {
    let (source, size) = guard::open_image(from, true).or_else(|_| guard::open_image(from, false))?;
    lock::lock(&source, from)?;
    let source = NamedFile { file: &source, path: from };
    let course = course(source, size)?;
    let whole = [Range { start: 0, end: size }];
    let mut zeroed_bytes = 0;
    let mut begin = Instant::now();
    if to.is_symlink() && to.exists() {
        let flags = rustix::fs::OFlags::PATH.bits() as i32;
        let there = File::options().read(true).custom_flags(flags).open(to).map_err(TargetError::io("inspect", to))?;
        guard::check_not_planted(&there, to)?;
    }
    let is_device = to.metadata().is_ok_and(|found| found.file_type().is_block_device());
    let elapsed_seconds = if is_device {
        let device = ClaimedDevice::claim(to, erase)?;
        check_size(size, device.size().0, to)?;
        device.check_again()?;
        let named = NamedFile { file: device.file(), path: to };
        // Old bytes would replace the image's holes: zeroed inode tables, a superblock's second copy.
        for gap in course.unwritten(size) {
            sparse::zero_device(named, gap)?;
            zeroed_bytes += gap.length();
        }
        begin = Instant::now();
        fill(source, named, &course)?;
        device.file().sync_all().map_err(TargetError::io("sync", to))?;
        let elapsed = begin.elapsed().as_secs_f64();
        device.device().flush_buffers()?;
        verify(source, named, &whole)?;
        elapsed
    } else {
        put(to, erase, |part| {
            part.file.set_len(size).map_err(TargetError::io("set the size of", part.path))?;
            fill(source, part, &course)?;
            part.file.sync_all().map_err(TargetError::io("sync", part.path))?;
            let elapsed = begin.elapsed().as_secs_f64();
            forget(part.file);
            // Holes of a file read as zero; a device has none.
            let mut holding = sparse::data_ranges(source.file, size, from)?;
            holding.extend(sparse::data_ranges(part.file, size, part.path)?);
            verify(source, part, &sparse::merge(holding))?;
            Ok(elapsed)
        })?
    };
    Ok(CopyReport {
        size_bytes: size,
        copied_bytes: course.ranges.iter().map(|range| range.length()).sum(),
        written_bytes: course.written_bytes(),
        extents: course.ranges.len() as u64,
        zeroed_bytes,
        verified: true,
        elapsed_seconds,
    })
}

fn put<T>(
    to: &Path,
    erase: Option<&str>,
    fill: impl FnOnce(NamedFile) -> Result<T, TargetError>,
) -> Result<T, TargetError> {
    // Its lock is held until the end.
    let Some(existing) = guard_file(to, erase)? else { return make_new(to, fill) };
    replace(to, |part| {
        let result = fill(part)?;
        let (was, is) = (existing.metadata(), to.symlink_metadata());
        let number = |found: std::fs::Metadata| (found.dev(), found.ino());
        match is.map(number).ok() == was.map(number).ok() {
            true => Ok(result),
            false => Err(TargetError::refused(
                to.display(),
                "another file took its name during the copy",
                "check which file it is now, and copy again",
            )),
        }
    })
}

fn guard_file(to: &Path, erase: Option<&str>) -> Result<Option<File>, TargetError> {
    refuse_other_kinds(to)?;
    match File::open(to) {
        Ok(existing) => {
            lock::lock(&existing, to)?;
            guard::check_image(&existing, to, erase)?;
            Ok(Some(existing))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(TargetError::io("open", to)(error)),
    }
}

fn check_size(needed: u64, there: u64, to: &Path) -> Result<(), TargetError> {
    if needed <= there {
        return Ok(());
    }
    Err(TargetError::Usage(format!("{} has {there} bytes, but the image needs {needed}", to.display())))
}

fn fill(from: NamedFile, to: NamedFile, course: &CopyPlan) -> Result<(), TargetError> {
    match &course.way {
        CopyMethod::AsTheyLie => course.ranges.iter().try_for_each(|range| sparse::copy_range(from, to, *range)),
        // The kernel's copy would keep holes, but every block must be written.
        CopyMethod::EveryBlock => course.ranges.iter().try_for_each(|range| write_all(from, to, *range)),
        CopyMethod::Pieces(pieces) => in_order::write(from, to, pieces),
    }
}

fn write_all(from: NamedFile, to: NamedFile, range: Range) -> Result<(), TargetError> {
    let mut buffer = vec![0u8; 1 << 20];
    let mut at = range.start;
    while at < range.end {
        let length = buffer.len().min((range.end - at) as usize);
        from.file.read_exact_at(&mut buffer[..length], at).map_err(TargetError::io("read", from.path))?;
        to.file.write_all_at(&buffer[..length], at).map_err(TargetError::io("write", to.path))?;
        at += length as u64;
    }
    Ok(())
}

fn verify(from: NamedFile, to: NamedFile, ranges: &[Range]) -> Result<(), TargetError> {
    match sparse::first_difference_in(from, to, ranges)? {
        None => Ok(()),
        Some(at) => Err(TargetError::damaged(
            to.path,
            format!("the copy differs from {} at byte {at}; the medium may be failing", from.path.display()),
        )),
    }
}

/// Drops the cached pages of a file, so that the verification reads the medium.
fn forget(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

pub(crate) fn copy_quietly(from: NamedFile, to: &Path, size: u64) -> Result<u64, TargetError> {
    crate::image_file::write_to(from, to, size, CopyBy::Kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn file_created_during_copy_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let to = directory.path().join("copy.img");
        let come = |_: NamedFile| {
            let _ = fs::remove_file(&to);
            fs::write(&to, "precious").map_err(TargetError::io("write", &to))
        };
        // A new file, then a replaceable file.
        assert!(matches!(put(&to, None, come), Err(TargetError::Refused { .. })));
        assert_eq!(fs::read(&to).unwrap(), b"precious");
        fs::write(&to, [0; 4096]).unwrap();
        assert!(matches!(put(&to, None, come), Err(TargetError::Refused { .. })));
        assert_eq!(fs::read(&to).unwrap(), b"precious");
        fs::write(&to, [0; 4096]).unwrap();
        let other = |_: NamedFile| {
            let lock = File::open(&to).map_err(TargetError::io("open", &to))?;
            assert!(lock::lock(&lock, &to).is_err(), "it is locked during the copy");
            Ok(())
        };
        put(&to, None, other).unwrap();
    }
}
