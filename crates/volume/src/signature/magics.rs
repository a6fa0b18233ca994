//! Magic numbers and their offsets.

use crate::file_system::FileSystem;

pub(super) type Magic = (&'static str, u64, &'static [u8]);

pub(super) fn magics() -> impl Iterator<Item = Magic> {
    let known = FileSystem::ALL.into_iter().map(|known| {
        let signature = &known.entry().signature;
        (signature.held, signature.offset, signature.magic)
    });
    let second = SECOND_HEADERS.into_iter().map(|offset| ("LUKS volume", offset, b"SKUL\xba\xbe" as &[u8]));
    known.chain(OTHER_MAGICS.iter().copied()).chain(second)
}

/// Magic numbers of volumes, partition tables and file systems that are not in the table: name, offset from the start,
/// bytes. Sources: the kernel's `include/uapi/linux/magic.h`, the on-disk headers of each file system, and util-linux
/// `libblkid/src/superblocks`.
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
    ("ocfs2", 8192, b"OCFSV2"),
    ("gfs2", 65536, &[0x01, 0x16, 0x19, 0x70]),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("swap space", 65526, b"SWAPSPACE2"),
    ("swap space", 4086, b"SWAP-SPACE"),
    ("LUKS volume", 0, b"LUKS\xba\xbe"),
    ("LVM physical volume", 24, b"LVM2 001"),
    ("LVM physical volume", 0, b"LABELONE"),
    ("LVM physical volume", 512, b"LABELONE"),
    ("LVM physical volume", 1024, b"LABELONE"),
    ("LVM physical volume", 1536, b"LABELONE"),
    ("md RAID member", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("md RAID member", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("GUID partition table", 512, b"EFI PART"),
    ("GUID partition table", 4096, b"EFI PART"),
    ("a senesce tier region", 0, b"SNSCTIER"),
    ("a senesce cold store", 0, b"SNSCCOLD"),
];

/// Offsets of the second LUKS2 header, after the first, which has one of these sizes (LUKS2 On-Disk Format
/// Specification).
const SECOND_HEADERS: [u64; 9] =
    [0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];

pub(super) struct EndMagic {
    pub(super) name: &'static str,
    /// The end is rounded down to this unit; a power of two.
    unit: u64,
    pub(super) from_end: u64,
    pub(super) magic: &'static [u8],
}

impl EndMagic {
    /// Returns its offset in `size` bytes; `None` if it does not fit.
    pub(super) fn place(&self, size: u64) -> Option<u64> {
        (size & !(self.unit - 1)).checked_sub(self.from_end)
    }
}

const fn at_end(name: &'static str, unit: u64, from_end: u64, magic: &'static [u8]) -> EndMagic {
    EndMagic { name, unit, from_end, magic }
}

/// The last logical block holds the copy of a GPT (UEFI 2.10, 5.3.2); md superblocks as in the kernel's
/// `drivers/md/md.c` (`super_1_load`) and `include/uapi/linux/raid/md_p.h` (`MD_NEW_SIZE_SECTORS`; 0.90 is in the byte
/// order of its machine).
pub(super) const END_MAGICS: &[EndMagic] = &[
    at_end("GUID partition table", 512, 512, b"EFI PART"),
    at_end("GUID partition table", 4096, 4096, b"EFI PART"),
    at_end("md RAID member", 4096, 8192, &[0xfc, 0x4e, 0x2b, 0xa9]),
    at_end("md RAID member (0.90)", 65536, 65536, &[0xfc, 0x4e, 0x2b, 0xa9]),
    at_end("md RAID member (0.90)", 65536, 65536, &[0xa9, 0x2b, 0x4e, 0xfc]),
];
