//! Detects the content of a device or image by signatures and samples.

mod magics;
mod zfs;

use crate::error::TargetError;
use crate::file_system::FileSystem;
use magics::{END_MAGICS, Magic, magics};
use senesce_sys::zeros;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// Returns usual starts of partitions on disks whose table is lost. They are after 63 sectors (until 2009), at 1 MiB
/// (since then), and after first partitions of sizes that installers choose.
fn partition_starts() -> impl Iterator<Item = u64> {
    let first = (1..=64).map(|number| number * MIB);
    let behind = [100, 200, 256, 260, 300, 499, 500, 512, 513, 550, 600, 1000, 1024, 2048, 4096, 8192, 16384];
    [63 * 512].into_iter().chain(first).chain(behind.into_iter().flat_map(|mib| [mib * MIB, (mib + 1) * MIB]))
}

fn copies(size: u64) -> impl Iterator<Item = Magic> {
    FileSystem::ALL.into_iter().flat_map(move |known| {
        let signature = &known.entry().signature;
        (signature.copies)(size).into_iter().map(|offset| (signature.held, offset, signature.magic))
    })
}

/// Bytes before and after a file system: the whole device, a partition from 1 MiB to the end (DOS tables), and one that
/// ends 1 MiB before the end (GPT, aligned).
const EXTENTS: [(u64, u64); 3] = [(0, 0), (MIB, 0), (MIB, MIB)];

/// Identifies the content of a device of `size` bytes. It returns the name of a known signature, also in a partition or
/// a superblock copy. Without a signature, it returns "data of an unknown kind" if the first or last MiB is not all
/// zero. `None`: nothing found.
pub(crate) fn probe(file: &File, size: u64, path: &Path) -> Result<Option<String>, TargetError> {
    for (name, offset, magic) in magics() {
        if matches(file, offset, magic, size, path)? {
            return Ok(Some(format!("a signature of {name}")));
        }
    }
    for end in END_MAGICS {
        if let Some(place) = end.place(size)
            && matches(file, place, end.magic, size, path)?
        {
            return Ok(Some(format!("a signature of {} at its end", end.name)));
        }
    }
    if has_dos_partitions(file, size, path)? {
        return Ok(Some("a DOS partition table".into()));
    }
    for (base, behind) in EXTENTS {
        for label in zfs::labels(size.saturating_sub(base + behind)).map(|label| base + label) {
            if zfs::is_label(&read_at(file, label, zfs::LABEL as usize, path)?) {
                return Ok(Some(format!("a signature of zfs at {label}")));
            }
        }
    }
    for start in partition_starts().filter(|start| start + MIB <= size) {
        if let Some(name) = magic_of_partition(file, start, path)? {
            return Ok(Some(format!("a signature of {name} at {start}, where a partition may have begun")));
        }
    }
    for (base, behind) in EXTENTS {
        for (name, offset, magic) in copies(size.saturating_sub(base + behind)) {
            if matches(file, base + offset, magic, size, path)? {
                return Ok(Some(format!("a copy of a superblock of {name} at {}", base + offset)));
            }
        }
    }
    let unknown = !is_zero(file, 0, size.min(MIB), path)?
        || size > MIB && !is_zero(file, (size - MIB.min(size)) & !4095, size, path)?;
    Ok(unknown.then(|| "data of an unknown kind".into()))
}

/// Bytes read at a possible partition start: the first label of ZFS, and the magic numbers except LUKS headers of 512
/// KiB and more.
const PARTITION_HEAD: usize = 260 * 1024;

fn magic_of_partition(file: &File, start: u64, path: &Path) -> Result<Option<&'static str>, TargetError> {
    let head = read_at(file, start, PARTITION_HEAD, path)?;
    if zeros::is_zero(&head) {
        return Ok(None);
    }
    let is_there = |(_, offset, magic): &Magic| {
        let at = *offset as usize;
        head.get(at..at + magic.len()) == Some(*magic)
    };
    let found = magics().find(is_there).map(|(name, ..)| name);
    Ok(found.or_else(|| zfs::is_label(&head).then_some("zfs")))
}

const SAMPLES: u64 = 512;

const WHOLLY: u64 = 64 * MIB;

/// Caveat for a device that [`sample`] found empty.
pub(crate) const SAMPLED: &str = "found empty by a sample of 512 blocks of 4 KiB, its first and last MiB, and known signatures; not all of it was read";

/// Returns whether [`sample`] reads only a part of a device of `size` bytes.
pub(crate) fn is_sampled(size: u64) -> bool {
    size > WHOLLY
}

/// Searches for unknown data in blocks of 4 KiB at equal distances over the whole device. The probability to miss data
/// in a device with a used share p is (1 - p)^512: 0.6 % if it is 1 % full.
pub(crate) fn sample(file: &File, size: u64, path: &Path) -> Result<Option<String>, TargetError> {
    const BLOCK: u64 = 4096;
    if size <= WHOLLY {
        let is_empty = is_zero(file, 0, size, path)?;
        return Ok((!is_empty).then(|| "data of an unknown kind".into()));
    }
    for number in 0..SAMPLES {
        // In 128 bits: the product exceeds 64 on a large drive. The odd half avoids round offsets.
        let place = (u128::from(size) * (2 * u128::from(number) + 1) / (2 * u128::from(SAMPLES))) as u64 & !(BLOCK - 1);
        if !is_zero(file, place, (place + BLOCK).min(size), path)? {
            return Ok(Some(format!("data of an unknown kind at {place}")));
        }
    }
    Ok(None)
}

/// Reads `length` bytes, or fewer at the end of the device.
fn read_at(file: &File, offset: u64, length: usize, path: &Path) -> Result<Vec<u8>, TargetError> {
    let mut bytes = vec![0u8; length];
    let mut filled = 0;
    while filled < length {
        let read = file.read_at(&mut bytes[filled..], offset + filled as u64).map_err(TargetError::io("read", path))?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    bytes.truncate(filled);
    Ok(bytes)
}

pub fn file_system(file: &File, size: u64, path: &Path) -> Result<Option<FileSystem>, TargetError> {
    for known in FileSystem::ALL {
        let signature = &known.entry().signature;
        if matches(file, signature.offset, signature.magic, size, path)? {
            return Ok(Some(known));
        }
    }
    Ok(None)
}

/// Returns the name and the UUID of the file system, such as `ext4 3f2a…`.
pub(crate) fn name_and_uuid(file: &File, size: u64, path: &Path) -> Result<Option<String>, TargetError> {
    let Some(known) = file_system(file, size, path)? else { return Ok(None) };
    let mut uuid = [0; 16];
    file.read_exact_at(&mut uuid, known.entry().signature.uuid).map_err(TargetError::io("read", path))?;
    Ok(Some(format!("{known} {:032x}", u128::from_be_bytes(uuid))))
}

/// Returns whether a zoned device holds btrfs. Its superblocks follow one another in the first two zones. The zone to
/// be written next may be empty (fs/btrfs/zoned.c of the kernel, `sb_write_pointer`).
pub(crate) fn is_zoned_btrfs(file: &File, zone_bytes: u64, size: u64, path: &Path) -> Result<bool, TargetError> {
    let magic = FileSystem::Btrfs.entry().signature.magic;
    let begins = |zone: u64| matches(file, zone * zone_bytes + BTRFS_MAGIC, magic, size, path);
    Ok(begins(0)? || begins(1)?)
}

const BTRFS_MAGIC: u64 = 64;

pub(crate) fn is_zero(file: &File, start: u64, end: u64, path: &Path) -> Result<bool, TargetError> {
    let mut buffer = vec![0u8; (end - start).min(MIB) as usize];
    let mut offset = start;
    while offset < end {
        let length = (end - offset).min(MIB) as usize;
        let read = file.read_at(&mut buffer[..length], offset).map_err(TargetError::io("read", path))?;
        if read == 0 {
            break;
        }
        if !zeros::is_zero(&buffer[..read]) {
            return Ok(false);
        }
        offset += read as u64;
    }
    Ok(true)
}

fn matches(file: &File, offset: u64, magic: &[u8], size: u64, path: &Path) -> Result<bool, TargetError> {
    if offset + magic.len() as u64 > size {
        return Ok(false);
    }
    Ok(read_at(file, offset, magic.len(), path)? == magic)
}

/// Returns whether the device has a DOS partition table, with a type and a length in one of four entries. The mark
/// 0x55AA is also in boot code.
fn has_dos_partitions(file: &File, size: u64, path: &Path) -> Result<bool, TargetError> {
    if !matches(file, 510, &[0x55, 0xAA], size, path)? {
        return Ok(false);
    }
    let mut table = [0u8; 64];
    file.read_exact_at(&mut table, 446).map_err(TargetError::io("read the partition table of", path))?;
    Ok(table.chunks_exact(16).any(|entry| entry[4] != 0 && entry[12..16] != [0; 4]))
}

#[cfg(test)]
mod tests;
