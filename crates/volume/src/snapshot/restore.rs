//! Restores bytes.

use super::medium::Medium;
use crate::error::TargetError;
use crate::sparse::{NamedFile, Range, copy_range, data_ranges_between, merge, write_zeroes, zero_device};
use crate::trace::ValidTrace;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

pub(super) fn ranges(medium: &Medium, snapshot: NamedFile, ranges: &[Range]) -> Result<(), TargetError> {
    for range in ranges {
        restore_range(medium, snapshot, *range)?;
    }
    sync(medium)
}

/// Restores everything, by sharing blocks if the host can. Returns the method and the data ranges.
pub(super) fn everything(medium: &Medium, snapshot: NamedFile) -> Result<(&'static str, Vec<Range>), TargetError> {
    let whole = Range { start: 0, end: medium.size() };
    if !medium.is_device() && rustix::fs::ioctl_ficlone(medium.file(), snapshot.file).is_ok() {
        sync(medium)?;
        return Ok(("reflink", vec![whole]));
    }
    restore_range(medium, snapshot, whole)?;
    sync(medium)?;
    Ok(("copy", data_ranges_between(snapshot.file, whole, snapshot.path)?))
}

/// Copies data; the gaps in the snapshot become holes or zeros.
fn restore_range(medium: &Medium, snapshot: NamedFile, range: Range) -> Result<(), TargetError> {
    let mut at = range.start;
    for data in data_ranges_between(snapshot.file, range, snapshot.path)? {
        clear(medium, Range { start: at, end: data.start })?;
        copy_range(snapshot, medium.named(), data)?;
        at = data.end;
    }
    clear(medium, Range { start: at, end: range.end })
}

fn clear(medium: &Medium, range: Range) -> Result<(), TargetError> {
    if range.length() == 0 {
        return Ok(());
    }
    match medium {
        Medium::Device(_) => zero_device(medium.named(), range),
        Medium::Image { file, path, .. } => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match fallocate(file, flags, range.start, range.length()) {
                Ok(()) => Ok(()),
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeroes(medium.named(), range),
                Err(errno) => Err(TargetError::errno("free a range of", path)(errno)),
            }
        }
    }
}

/// Writes everything back and drops a device's cache, so that reads show the medium.
pub(super) fn sync(medium: &Medium) -> Result<(), TargetError> {
    medium.file().sync_all().map_err(TargetError::io("sync", medium.path()))?;
    match medium {
        Medium::Device(claimed) => claimed.device().flush_buffers(),
        Medium::Image { .. } => Ok(()),
    }
}

pub(super) fn altered_ranges(trace: ValidTrace<'_>, size: u64) -> Vec<Range> {
    let altering = trace.iter().filter(|request| request.operation.alters() && request.sectors > 0);
    let ranges = altering.map(|request| Range {
        start: (request.sector.saturating_mul(512)).min(size),
        end: (request.end_sector().saturating_mul(512)).min(size),
    });
    merge(ranges.filter(|range| range.start < range.end).collect())
}
