//! Prepares a kernel's image for booting. QEMU starts an unpacked kernel at its PVH entry, so an emulated processor need not
//! unpack it at each boot. A kernel without that entry boots as with any boot loader.

use crate::payload;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadRef};

/// `XEN_ELFNOTE_PHYS32_ENTRY` (include/xen/interface/elfnote.h of the kernel).
const PVH_ENTRY: u32 = 18;

/// Earlier kernels have no CONFIG_PVH; their entry is for Xen only.
const FIRST_PVH_RELEASE: u64 = 5;

/// Returns the unpacked kernel if QEMU can boot it, otherwise the image as it is. `major` is the first number of its
/// release, if known.
///
/// # Errors
/// In words: not a kernel image, a damaged one, or one that QEMU cannot boot in either form.
pub(crate) fn bootable(image: Vec<u8>, major: Option<u64>) -> Result<Vec<u8>, String> {
    let unpacked = payload::extract(&image)?;
    if has_pvh_entry(&unpacked[..]) && major.is_none_or(|major| major >= FIRST_PVH_RELEASE) {
        return Ok(unpacked);
    }
    if unpacked == image {
        return Err(
            "QEMU cannot boot this ELF image: it has no PVH entry (CONFIG_PVH, since Linux 5.0); use its vmlinuz"
                .into(),
        );
    }
    Ok(image)
}

fn has_pvh_entry<'data>(elf: impl ReadRef<'data>) -> bool {
    let find = || -> object::Result<bool> {
        let header = FileHeader64::<Endianness>::parse(elf)?;
        let endian = header.endian()?;
        for segment in header.program_headers(endian, elf)? {
            let Some(mut notes) = segment.notes(endian, elf)? else { continue };
            while let Some(note) = notes.next()? {
                if note.n_type(endian) == PVH_ENTRY && note.name() == b"Xen" {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    };
    find().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::tests::{bz_image, packed_gzip};

    /// Builds an ELF file of one segment with one Xen note (elf(5)).
    fn elf(kind: u32) -> Vec<u8> {
        let (header, segment, note) = (64_u64, 56_u64, 20_u64);
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        bytes.extend([2_u16, 62].map(u16::to_le_bytes).concat());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend([0, header, 0].map(u64::to_le_bytes).concat());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend([header as u16, segment as u16, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
        bytes.extend([4_u32, 4].map(u32::to_le_bytes).concat());
        bytes.extend([header + segment, 0, 0, note, note, 4].map(u64::to_le_bytes).concat());
        bytes.extend([4_u32, 4, kind].map(u32::to_le_bytes).concat());
        bytes.extend(b"Xen\0\0\0\0\x01");
        bytes
    }

    #[test]
    fn kernel_is_unpacked_only_if_qemu_boots_it() {
        let (with, without) = (elf(PVH_ENTRY), elf(6));
        let image = bz_image(&packed_gzip(&with));
        assert_eq!(bootable(image.clone(), Some(6)).unwrap(), with);
        assert_eq!(bootable(image.clone(), None).unwrap(), with);
        assert_eq!(bootable(image.clone(), Some(4)).unwrap(), image, "its entry is for Xen");
        let image = bz_image(&packed_gzip(&without));
        assert_eq!(bootable(image.clone(), Some(6)).unwrap(), image);
        assert_eq!(bootable(with.clone(), Some(6)).unwrap(), with);
        assert!(bootable(without, Some(6)).unwrap_err().contains("use its vmlinuz"));
        assert!(bootable(with[..70].to_vec(), Some(6)).unwrap_err().contains("use its vmlinuz"), "it is truncated");
    }
}
