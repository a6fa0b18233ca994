//! Extracts the bootable ELF image from a bzImage: found by the header of the boot protocol, unpacked by the magic of its
//! compression.

use std::io::Read;

/// Offsets in the setup header (Documentation/arch/x86/boot.rst of the kernel).
const SETUP_SECTORS: usize = 0x1f1;
const HEADER_MAGIC: usize = 0x202;
const PROTOCOL: usize = 0x206;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// The kernel's build appends the unpacked size to the payload for the boot header (arch/x86/boot/compressed/mkpiggy.c); gzip
/// ends with the same four bytes anyway.
const SIZE: usize = 4;

/// Larger than any kernel or module: limits the memory for damaged or malicious files.
const LARGEST: usize = 1 << 30;

/// Maximum unpacked size of a block in the legacy format of lz4, which the kernel's build writes (lz4_Frame_format.md).
const LZ4_BLOCK: usize = 8 << 20;
const LZ4_MAGIC: [u8; 4] = 0x184c_2102_u32.to_le_bytes();

/// Extracts `vmlinux` from a `vmlinuz`; an ELF file is returned as it is.
///
/// # Errors
/// In words: not a kernel image, a damaged one, or an unknown compression.
pub(crate) fn extract(image: &[u8]) -> Result<Vec<u8>, String> {
    if image.starts_with(b"\x7fELF") {
        return Ok(image.to_vec());
    }
    let unpacked = unpack(payload(image)?)?;
    if unpacked.starts_with(b"\x7fELF") { Ok(unpacked) } else { Err("the payload is not an ELF image".into()) }
}

fn unpack(payload: &[u8]) -> Result<Vec<u8>, String> {
    let (packed, size) = payload.split_last_chunk::<SIZE>().ok_or("the payload is empty")?;
    let size = u32::from_le_bytes(*size) as usize;
    if size > LARGEST {
        return Err(format!(
            "the payload claims to unpack to {size} bytes, more than any kernel has: it is truncated or damaged"
        ));
    }
    let unpacked = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => unpack_xz_within(packed, size)?,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unpack_zstd_within(packed, size)?,
        [0x1f, 0x8b, ..] => unpack_gzip_within(payload, size)?,
        [magic @ .., _, _, _, _] if magic.starts_with(&LZ4_MAGIC) => unpack_lz4(&packed[LZ4_MAGIC.len()..], size)?,
        _ => return Err(unknown(payload)),
    };
    if unpacked.len() != size {
        return Err(format!("the payload unpacks to {} bytes instead of {size}: it is damaged", unpacked.len()));
    }
    Ok(unpacked)
}

/// Describes compressions of kernels that are not supported (scripts/Makefile.lib).
fn unknown(payload: &[u8]) -> String {
    let name = match payload {
        [b'B', b'Z', b'h', ..] => "bzip2",
        [0x5d, 0, 0, ..] => "lzma",
        [0x89, b'L', b'Z', b'O', ..] => "lzo",
        _ => {
            let magic: Vec<String> = payload.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            return format!("the payload begins with {}, an unknown compression", magic.join(" "));
        }
    };
    format!(
        "the payload is compressed with {name}; only gzip, xz, zstd and lz4 are supported; unpack it with \
         scripts/extract-vmlinux of the kernel's source and use the ELF image"
    )
}

fn payload(image: &[u8]) -> Result<&[u8], String> {
    let word = |offset: usize| -> Option<usize> {
        Some(u32::from_le_bytes(image.get(offset..offset + 4)?.try_into().ok()?) as usize)
    };
    if image.get(HEADER_MAGIC..HEADER_MAGIC + 4) != Some(b"HdrS") {
        return Err("not an x86 kernel image: no boot header".into());
    }
    let protocol = image.get(PROTOCOL..PROTOCOL + 2).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    if protocol < 0x208 {
        return Err(format!("boot protocol {protocol:#x} is older than 2.08 and does not locate the payload"));
    }
    let sectors = match image[SETUP_SECTORS] {
        0 => 4,
        count => usize::from(count),
    };
    let start = (sectors + 1) * 512 + word(PAYLOAD_OFFSET).ok_or("the header is truncated")?;
    let length = word(PAYLOAD_LENGTH).ok_or("the header is truncated")?;
    image.get(start..start + length).ok_or_else(|| "the image is truncated before the end of its payload".to_string())
}

pub(crate) fn unpack_xz(packed: &[u8]) -> Result<Vec<u8>, String> {
    unpack_xz_within(packed, LARGEST)
}

pub(crate) fn unpack_zstd(packed: &[u8]) -> Result<Vec<u8>, String> {
    unpack_zstd_within(packed, LARGEST)
}

pub(crate) fn unpack_gzip(packed: &[u8]) -> Result<Vec<u8>, String> {
    unpack_gzip_within(packed, LARGEST)
}

fn unpack_xz_within(packed: &[u8], most: usize) -> Result<Vec<u8>, String> {
    read(liblzma::read::XzDecoder::new(packed), most).map_err(|problem| format!("xz: {problem}"))
}

fn unpack_zstd_within(packed: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let decoder = zstd::stream::Decoder::with_buffer(packed).map_err(|error| error.to_string());
    decoder.and_then(|decoder| read(decoder, most)).map_err(|problem| format!("zstd: {problem}"))
}

fn unpack_gzip_within(packed: &[u8], most: usize) -> Result<Vec<u8>, String> {
    read(flate2::read::GzDecoder::new(packed), most).map_err(|problem| format!("gzip: {problem}"))
}

/// Reads to the end, but not far beyond `most`: a small file may unpack to more than the available memory.
fn read(decoder: impl Read, most: usize) -> Result<Vec<u8>, String> {
    let mut unpacked = Vec::new();
    decoder.take(most as u64 + 1).read_to_end(&mut unpacked).map_err(|error| error.to_string())?;
    if unpacked.len() > most {
        return Err(format!("it unpacks to more than {most} bytes"));
    }
    Ok(unpacked)
}

/// Unpacks the blocks of a legacy frame, each of which follows its length.
fn unpack_lz4(mut packed: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut unpacked = Vec::new();
    let mut buffer = vec![0; LZ4_BLOCK.min(most)];
    while !packed.is_empty() {
        let (length, rest) =
            packed.split_first_chunk::<4>().ok_or("lz4: the payload is truncated in the length of a block")?;
        let length = u32::from_le_bytes(*length) as usize;
        let (block, rest) = rest.split_at_checked(length).ok_or("lz4: the payload is truncated in a block")?;
        let size = lz4_flex::block::decompress_into(block, &mut buffer).map_err(|error| format!("lz4: {error}"))?;
        if unpacked.len() + size > most {
            return Err(format!("lz4: it unpacks to more than {most} bytes"));
        }
        unpacked.extend_from_slice(&buffer[..size]);
        packed = rest;
    }
    Ok(unpacked)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    pub(crate) fn bz_image(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0u8; 1024];
        bytes[SETUP_SECTORS] = 1;
        bytes[HEADER_MAGIC..HEADER_MAGIC + 4].copy_from_slice(b"HdrS");
        bytes[PROTOCOL..PROTOCOL + 2].copy_from_slice(&0x20fu16.to_le_bytes());
        bytes[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&16u32.to_le_bytes());
        bytes[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.extend([0u8; 16]);
        bytes.extend(payload);
        bytes
    }

    /// Imitates the kernel's build: packed data followed by the size.
    fn sized(mut packed: Vec<u8>, size: usize) -> Vec<u8> {
        packed.extend((size as u32).to_le_bytes());
        packed
    }

    fn lz4(content: &[u8], block: usize) -> Vec<u8> {
        let packed = content.chunks(block).flat_map(|chunk| {
            let block = lz4_flex::block::compress(chunk);
            [(block.len() as u32).to_le_bytes().to_vec(), block].concat()
        });
        sized(LZ4_MAGIC.into_iter().chain(packed).collect(), content.len())
    }

    pub(crate) fn packed_gzip(content: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(content).unwrap();
        gzip.finish().unwrap()
    }

    fn packed(content: &[u8]) -> [(&'static str, Vec<u8>); 4] {
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(content).unwrap();
        [
            ("xz", sized(xz.finish().unwrap(), content.len())),
            ("zstd", sized(zstd::stream::encode_all(content, 1).unwrap(), content.len())),
            ("gzip", packed_gzip(content)),
            ("lz4", lz4(content, 10_000)),
        ]
    }

    fn kernel() -> Vec<u8> {
        let numbers = (0..9_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes());
        b"\x7fELF".iter().copied().chain(numbers).collect()
    }

    #[test]
    fn every_known_compression_is_unpacked() {
        let elf = kernel();
        for (name, payload) in packed(&elf) {
            assert!(extract(&bz_image(&payload)).unwrap() == elf, "{name}");
        }
        let large = [b"\x7fELF".to_vec(), vec![7; LZ4_BLOCK]].concat();
        assert!(extract(&bz_image(&lz4(&large, LZ4_BLOCK))).unwrap() == large, "two blocks, the first of maximum size");
    }

    #[test]
    fn truncated_or_changed_payload_is_refused() {
        for (name, payload) in packed(&kernel()) {
            let cuts = [5, payload.len() / 2, payload.len() - 9, payload.len() - 5, payload.len() - 1];
            for cut in cuts {
                assert!(extract(&bz_image(&payload[..cut])).is_err(), "{name}, cut to {cut} of {}", payload.len());
            }
            let mut changed = payload.clone();
            let last = changed.len() - 4;
            changed[last] ^= 1;
            let problem = extract(&bz_image(&changed)).unwrap_err();
            assert!(problem.contains("instead of") || problem.contains("more than") || name == "gzip", "{problem}");
        }
    }

    #[test]
    fn payload_larger_than_its_stated_size_is_not_kept_in_memory() {
        for (name, mut payload) in packed(&vec![0; 4 << 20]) {
            let size = payload.len() - SIZE;
            payload[size..].copy_from_slice(&1000_u32.to_le_bytes());
            let problem = extract(&bz_image(&payload)).unwrap_err();
            assert!(problem.starts_with(name), "{name}: {problem}");
        }
        let endless = extract(&bz_image(&sized(LZ4_MAGIC.to_vec(), u32::MAX as usize))).unwrap_err();
        assert!(endless.contains("more than any kernel has"), "{endless}");
    }

    #[test]
    fn other_kernel_compressions_are_named() {
        for (magic, name) in [
            (&b"BZh91AY&SY"[..], "compressed with bzip2"),
            (b"\x5d\0\0\x80\0\xff\xff", "compressed with lzma"),
            (b"\x89LZO\0\r\n\x1a\n", "compressed with lzo"),
            (b"\x01\x02\x03\x04 and so on", "begins with 01 02 03 04"),
        ] {
            let problem = extract(&bz_image(&sized(magic.to_vec(), 100))).unwrap_err();
            assert!(problem.contains(name), "{problem}");
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
            let _ = extract(&bytes);
            let _ = extract(&bz_image(&bytes));
            for magic in [&LZ4_MAGIC[..], b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"] {
                let _ = extract(&bz_image(&sized([magic, &bytes].concat(), 3000)));
            }
        }

        #[test]
        fn changed_byte_never_panics(at in 0_usize..30_000, byte in any::<u8>()) {
            for (_, mut payload) in packed(&kernel()) {
                let at = at % payload.len();
                payload[at] = byte;
                let _ = extract(&bz_image(&payload));
            }
        }
    }
}
