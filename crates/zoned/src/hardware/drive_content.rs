//! Inspects a drive's content through its block device.

use super::leftover::{self, Leftover};
use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::geometry::ZoneInfo;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

/// Reads the content of these zones; `block` is the block device, without which content cannot be read.
pub(super) fn leftover_on(zones: &[ZoneInfo], block_bytes: u32, block: Option<PathBuf>, identity: &str) -> Leftover {
    Leftover::of(identity, zones, reader(block, block_bytes))
}

/// Returns whether the zones hold only this program's noise; false if they cannot be read.
pub(super) fn holds_only_noise(device: &mut dyn ZonedDevice, block: Option<PathBuf>) -> Result<bool, ZonedError> {
    let zones = device.report(0, device.geometry().zones)?;
    Ok(leftover::holds_only_noise(&zones, reader(block, device.geometry().block_bytes)).unwrap_or(false))
}

/// Reads logical blocks with O_DIRECT, because the page cache misses passthrough writes.
fn reader(block: Option<PathBuf>, block_bytes: u32) -> impl FnMut(u64) -> io::Result<Vec<u8>> {
    let direct = |path: &PathBuf| File::options().read(true).custom_flags(libc::O_DIRECT).open(path);
    let mut opened = None;
    move |number| {
        let file = match &opened {
            Some(file) => file,
            None => opened.insert(direct(block.as_ref().ok_or(io::ErrorKind::NotFound)?)?),
        };
        read_block(file, number, block_bytes as usize)
    }
}

fn read_block(file: &File, number: u64, block_bytes: usize) -> io::Result<Vec<u8>> {
    let mut memory = vec![0; 2 * block_bytes];
    let skip = memory.as_ptr().align_offset(block_bytes);
    let content = &mut memory[skip..skip + block_bytes];
    file.read_exact_at(content, number * block_bytes as u64)?;
    Ok(content.to_vec())
}
