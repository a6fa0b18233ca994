//! What the first and last bytes of a device or image say about its content.

use crate::error::TargetError;
use crate::file_system::FileSystem;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Name, offset, bytes.
type Magic = (&'static str, u64, &'static [u8]);

/// The file systems of the table, and the others.
fn magics() -> impl Iterator<Item = Magic> {
    let known = FileSystem::ALL.into_iter().map(|known| {
        let signature = &known.entry().signature;
        (signature.held, signature.offset, signature.magic)
    });
    known.chain(OTHER_MAGICS.iter().copied())
}

/// A magic number of a volume, a partition table or a file system that is not in the table: name, offset from the start, bytes.
/// Offsets and bytes as in the kernel's `include/uapi/linux/magic.h`, the on-disk headers of each file system, and
/// util-linux `libblkid/src/superblocks`.
const OTHER_MAGICS: &[Magic] = &[
    ("bcachefs or bcache", 4120, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca]),
    ("bcachefs", 4120, &[0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9]),
    ("erofs", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    ("squashfs", 0, b"hsqs"),
    ("jfs", 32768, b"JFS1"),
    ("reiserfs", 65588, b"ReIsEr"),
    ("iso9660", 32769, b"CD001"),
    ("udf", 32769, b"BEA01"),
    ("ntfs", 3, b"NTFS    "),
    ("exfat", 3, b"EXFAT   "),
    ("vfat", 54, b"FAT1"),
    ("vfat", 82, b"FAT32   "),
    ("zonefs", 0, b"SFOZ"),
    ("zfs", 128 * 1024, &[0x0c, 0xb1, 0xba, 0x00]),
    ("ocfs2", 8192, b"OCFSV2"),
    ("gfs2", 65536, &[0x01, 0x16, 0x19, 0x70]),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("swap space", 65526, b"SWAPSPACE2"),
    ("swap space", 4086, b"SWAP-SPACE"),
    ("LUKS volume", 0, b"LUKS\xba\xbe"),
    ("LVM physical volume", 24, b"LVM2 001"),
    ("LVM physical volume", 512, b"LABELONE"),
    ("md RAID member", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("md RAID member", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("GUID partition table", 512, b"EFI PART"),
    ("GUID partition table", 4096, b"EFI PART"),
    ("a senesce tier region", 0, b"SNSCTIER"),
    ("a senesce cold store", 0, b"SNSCCOLD"),
];

/// A magic number counted back from the end of the device.
struct EndMagic {
    name: &'static str,
    /// The end counts in whole units of this; a power of two.
    unit: u64,
    from_end: u64,
    magic: &'static [u8],
}

impl EndMagic {
    /// Where it lies in `size` bytes; `None`: there is no space for it.
    fn place(&self, size: u64) -> Option<u64> {
        (size & !(self.unit - 1)).checked_sub(self.from_end)
    }
}

const fn at_end(name: &'static str, unit: u64, from_end: u64, magic: &'static [u8]) -> EndMagic {
    EndMagic { name, unit, from_end, magic }
}

/// The last logical block holds the copy of a GPT (UEFI 2.10, 5.3.2); md superblocks as in the kernel's `drivers/md/md.c`
/// (`super_1_load`) and `include/uapi/linux/raid/md_p.h` (`MD_NEW_SIZE_SECTORS`; 0.90 is in the byte order of its machine).
const END_MAGICS: &[EndMagic] = &[
    at_end("GUID partition table", 512, 512, b"EFI PART"),
    at_end("GUID partition table", 4096, 4096, b"EFI PART"),
    at_end("md RAID member", 4096, 8192, &[0xfc, 0x4e, 0x2b, 0xa9]),
    at_end("md RAID member (0.90)", 65536, 65536, &[0xfc, 0x4e, 0x2b, 0xa9]),
    at_end("md RAID member (0.90)", 65536, 65536, &[0xa9, 0x2b, 0x4e, 0xfc]),
];

const MIB: u64 = 1 << 20;

/// Where partitions begin on disks whose table is lost: behind 63 sectors, as up to 2009, and at whole MiB, as since then, with
/// the sizes that installers give to a first partition in front of them.
fn partition_starts() -> impl Iterator<Item = u64> {
    let first = (1..=64).map(|number| number * MIB);
    let behind = [100, 200, 256, 260, 300, 499, 500, 512, 513, 550, 600, 1000, 1024, 2048, 4096, 8192, 16384];
    [63 * 512].into_iter().chain(first).chain(behind.into_iter().flat_map(|mib| [mib * MIB, (mib + 1) * MIB]))
}

/// Copies of superblocks that outlive the loss of the beginning of a file system of `size` bytes.
fn copies(size: u64) -> impl Iterator<Item = Magic> {
    FileSystem::ALL.into_iter().flat_map(move |known| {
        let signature = &known.entry().signature;
        (signature.copies)(size).into_iter().map(|offset| (signature.held, offset, signature.magic))
    })
}

/// What a device of `size` bytes holds: the name of a known signature, also of a partition or of a superblock's copy, or "data
/// of an unknown kind" when its first or last MiB is not all zero. `None`: nothing was found.
///
/// # Errors
/// Those of read(2).
pub fn probe(file: &File, size: u64, path: &Path) -> Result<Option<String>, TargetError> {
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
    for start in partition_starts().filter(|start| start + MIB <= size) {
        if let Some(name) = magic_of_partition(file, start, path)? {
            return Ok(Some(format!("a signature of {name} at {start}, where a partition may have begun")));
        }
    }
    // Of the whole device, and of a partition from 1 MiB on to the end (DOS tables) or 1 MiB before it (GPT, aligned).
    for (base, behind) in [(0, 0), (MIB, 0), (MIB, MIB)] {
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

/// How much is read where a partition may begin: as far as the last of the magic numbers.
const PARTITION_HEAD: usize = 132 * 1024;

fn magic_of_partition(file: &File, start: u64, path: &Path) -> Result<Option<&'static str>, TargetError> {
    let mut head = vec![0u8; PARTITION_HEAD];
    let read = read_up_to(file, &mut head, start, path)?;
    if head[..read].iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let is_there = |(_, offset, magic): &Magic| {
        let at = *offset as usize;
        head[..read].get(at..at + magic.len()) == Some(*magic)
    };
    Ok(magics().find(is_there).map(|(name, ..)| name))
}

/// How many places of a device are looked at.
const SAMPLES: u64 = 512;

/// Up to this size every byte is looked at.
const WHOLLY: u64 = 64 * MIB;

/// Looks for data where nothing is known to be: in blocks of 4 KiB at equal distances over the whole device. A device of
/// which the share p is in use is missed with the probability (1 - p)^512: 0.6 % of one that is 1 % full.
///
/// # Errors
/// Those of read(2).
pub fn sample(file: &File, size: u64, path: &Path) -> Result<Option<String>, TargetError> {
    const BLOCK: u64 = 4096;
    if size <= WHOLLY {
        let is_empty = is_zero(file, 0, size, path)?;
        return Ok((!is_empty).then(|| "data of an unknown kind".into()));
    }
    for number in 0..SAMPLES {
        // In 128 bits: the product passes 64 on a large drive. The odd half keeps clear of round places.
        let place = (u128::from(size) * (2 * u128::from(number) + 1) / (2 * u128::from(SAMPLES))) as u64 & !(BLOCK - 1);
        if !is_zero(file, place, (place + BLOCK).min(size), path)? {
            return Ok(Some(format!("data of an unknown kind at {place}")));
        }
    }
    Ok(None)
}

fn read_up_to(file: &File, buffer: &mut [u8], offset: u64, path: &Path) -> Result<usize, TargetError> {
    let mut filled = 0;
    while filled < buffer.len() {
        let read =
            file.read_at(&mut buffer[filled..], offset + filled as u64).map_err(TargetError::io("read", path))?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    Ok(filled)
}

/// The file system whose superblock is there.
///
/// # Errors
/// Those of read(2).
pub fn file_system(file: &File, size: u64, path: &Path) -> Result<Option<FileSystem>, TargetError> {
    for known in FileSystem::ALL {
        let signature = &known.entry().signature;
        if matches(file, signature.offset, signature.magic, size, path)? {
            return Ok(Some(known));
        }
    }
    Ok(None)
}

/// Whether the bytes from `start` to `end` are all zero.
///
/// # Errors
/// Those of read(2).
pub fn is_zero(file: &File, start: u64, end: u64, path: &Path) -> Result<bool, TargetError> {
    let mut buffer = vec![0u8; (end - start).min(MIB) as usize];
    let mut offset = start;
    while offset < end {
        let length = (end - offset).min(MIB) as usize;
        let read = file.read_at(&mut buffer[..length], offset).map_err(TargetError::io("read", path))?;
        if read == 0 {
            break;
        }
        if buffer[..read].iter().any(|byte| *byte != 0) {
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
    let mut found = vec![0u8; magic.len()];
    Ok(read_up_to(file, &mut found, offset, path)? == magic.len() && found == magic)
}

/// A boot sector's 0x55AA alone is also in boot code; a partition table has a type and a length in one of four entries.
fn has_dos_partitions(file: &File, size: u64, path: &Path) -> Result<bool, TargetError> {
    if !matches(file, 510, &[0x55, 0xAA], size, path)? {
        return Ok(false);
    }
    let mut table = [0u8; 64];
    file.read_exact_at(&mut table, 446).map_err(TargetError::io("read the partition table of", path))?;
    Ok(table.chunks_exact(16).any(|entry| entry[4] != 0 && entry[12..16] != [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image_with(offset: u64, bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 * MIB).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        file
    }

    fn found(file: &File) -> Option<String> {
        probe(file, 8 * MIB, Path::new("image")).unwrap()
    }

    #[test]
    fn every_magic_is_found_and_an_empty_image_is_empty() {
        assert_eq!(found(&image_with(0, &[])), None);
        for (name, offset, magic) in magics() {
            assert!(found(&image_with(offset, magic)).unwrap().starts_with("a signature"), "{name}");
        }
        for end in END_MAGICS {
            let message = found(&image_with(8 * MIB - end.from_end, end.magic)).unwrap();
            assert!(message.contains("at its end"), "{}", end.name);
        }
    }

    #[test]
    fn the_end_of_a_device_that_is_no_whole_number_of_units_is_looked_at_where_it_lies() {
        const ODD: u64 = 100 * MIB + 5 * 65536 + 3 * 4096 + 512;
        let message = |at: u64, magic: &[u8]| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(ODD).unwrap();
            file.write_all_at(magic, at).unwrap();
            probe(&file, ODD, Path::new("image")).unwrap().unwrap_or_default()
        };
        let md = [0xfc, 0x4e, 0x2b, 0xa9];
        for (at, magic, name) in [
            (100 * MIB + 4 * 65536, &md[..], "md RAID member (0.90) at its end"),
            (100 * MIB + 4 * 65536, &[0xa9, 0x2b, 0x4e, 0xfc], "md RAID member (0.90) at its end"),
            (100 * MIB + 5 * 65536 + 4096, &md[..], "md RAID member at its end"),
            (100 * MIB + 5 * 65536 + 2 * 4096, b"EFI PART", "GUID partition table at its end"),
            (100 * MIB + 5 * 65536 + 3 * 4096, b"EFI PART", "GUID partition table at its end"),
        ] {
            assert_eq!(message(at, magic), format!("a signature of {name}"), "at {at}");
        }
    }

    const LARGE: u64 = 1 << 40;

    fn large_image_with(offset: u64, bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LARGE).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        file
    }

    #[test]
    fn what_is_behind_a_zeroed_beginning_is_found() {
        let found = |offset, bytes: &[u8]| probe(&large_image_with(offset, bytes), LARGE, Path::new("image")).unwrap();
        for (offset, bytes, name) in [
            (MIB + 1080, &[0x53, 0xEF][..], "ext4 at 1048576"),
            (63 * 512, b"XFSB", "xfs at 32256"),
            (513 * MIB + 0x10040, b"_BHRfS_M", "btrfs at 537919488"),
            (MIB, b"LUKS\xba\xbe", "LUKS"),
            (128 * MIB + 56, &[0x53, 0xEF], "a copy of a superblock of ext"),
            (129 * MIB + 56, &[0x53, 0xEF], "a copy of a superblock of ext"),
            // The same place as in a partition that begins at 8 MiB.
            (8193 * 1024 + 56, &[0x53, 0xEF], "ext2, ext3 or ext4 at"),
            (64 * MIB + 64, b"_BHRfS_M", "btrfs"),
            (LARGE / 4, b"XFSB", "a copy of a superblock of xfs"),
            (MIB + LARGE / 4 - MIB / 2, b"XFSB", "a copy of a superblock of xfs"),
            (MIB + LARGE / 4 - MIB / 4, b"XFSB", "a copy of a superblock of xfs"),
        ] {
            let message = found(offset, bytes).unwrap_or_default();
            assert!(message.contains(name), "{name} at {offset}: {message}");
        }
        assert_eq!(found(100 << 30, b"diary"), None, "it is what the samples are for");
    }

    #[test]
    fn data_anywhere_are_found_by_samples() {
        let all = |file: &File, size| sample(file, size, Path::new("image")).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(LARGE).unwrap();
        assert_eq!(all(&file, LARGE), None);
        let at = (LARGE / 1024 * 601) & !4095;
        file.write_all_at(b"diary", at).unwrap();
        assert_eq!(all(&file, LARGE).unwrap(), format!("data of an unknown kind at {at}"));
        assert_eq!(all(&image_with(5 * MIB, b"diary"), 8 * MIB).unwrap(), "data of an unknown kind");
        assert_eq!(all(&image_with(0, b""), 8 * MIB), None);
    }

    #[test]
    fn partitions_and_unknown_data_are_found() {
        let mut sector = [0u8; 512];
        sector[446 + 4] = 0x83;
        sector[446 + 12] = 1;
        sector[510] = 0x55;
        sector[511] = 0xAA;
        assert_eq!(found(&image_with(0, &sector)).unwrap(), "a DOS partition table");
        assert_eq!(found(&image_with(77, b"diary")).unwrap(), "data of an unknown kind");
        assert_eq!(found(&image_with(8 * MIB - 9, b"diary")).unwrap(), "data of an unknown kind");
    }
}
