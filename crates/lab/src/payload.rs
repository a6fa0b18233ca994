//! The bootable ELF image inside a bzImage: found by the boot protocol's header, unpacked by its compression's magic.

use std::io::Read;

/// Offsets in the setup header (Documentation/arch/x86/boot.rst of the kernel).
const SETUP_SECTORS: usize = 0x1f1;
const HEADER_MAGIC: usize = 0x202;
const PROTOCOL: usize = 0x206;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// Extracts `vmlinux` from a `vmlinuz`; an ELF file is returned as it is.
///
/// # Errors
/// In words, what is no kernel image, or a compression that is not known here.
pub fn extract(image: &[u8]) -> Result<Vec<u8>, String> {
    if image.starts_with(b"\x7fELF") {
        return Ok(image.to_vec());
    }
    let payload = payload(image)?;
    let unpacked = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => unpack_xz(payload)?,
        // The kernel's build appends the unpacked size as four bytes after the zstd frame.
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unpack_zstd(&payload[..payload.len().saturating_sub(4)])?,
        // The same size follows a gzip member, where it is left alone.
        [0x1f, 0x8b, ..] => unpack_gzip(payload)?,
        [first, second, ..] => {
            return Err(format!("payload compression {first:02x} {second:02x} is not gzip, xz or zstd"));
        }
        _ => return Err("the payload is empty".into()),
    };
    if unpacked.starts_with(b"\x7fELF") { Ok(unpacked) } else { Err("the payload is not an ELF image".into()) }
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
        return Err(format!("boot protocol {protocol:#x} is older than 2.08 and names no payload"));
    }
    let sectors = match image[SETUP_SECTORS] {
        0 => 4,
        count => usize::from(count),
    };
    let start = (sectors + 1) * 512 + word(PAYLOAD_OFFSET).ok_or("the header is cut")?;
    let length = word(PAYLOAD_LENGTH).ok_or("the header is cut")?;
    image.get(start..start + length).ok_or_else(|| "the image is cut before the end of its payload".to_string())
}

fn unpack_zstd(payload: &[u8]) -> Result<Vec<u8>, String> {
    zstd::stream::decode_all(payload).map_err(|error| format!("zstd: {error}"))
}

fn unpack_gzip(payload: &[u8]) -> Result<Vec<u8>, String> {
    let mut unpacked = Vec::with_capacity(payload.len() * 4);
    flate2::read::GzDecoder::new(payload).read_to_end(&mut unpacked).map_err(|error| format!("gzip: {error}"))?;
    Ok(unpacked)
}

/// Unpacks one xz stream; bytes after it are ignored.
///
/// # Errors
/// In words, where the stream is damaged.
pub fn unpack_xz(payload: &[u8]) -> Result<Vec<u8>, String> {
    let mut unpacked = Vec::with_capacity(payload.len() * 4);
    liblzma::read::XzDecoder::new(payload).read_to_end(&mut unpacked).map_err(|error| format!("xz: {error}"))?;
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn image(payload: &[u8]) -> Vec<u8> {
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

    #[test]
    fn payloads_of_every_known_compression_come_out() {
        let elf = b"\x7fELF and the rest of a kernel".to_vec();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&elf).unwrap();
        assert_eq!(extract(&image(&xz.finish().unwrap())).unwrap(), elf);
        let mut zstd = zstd::stream::encode_all(&elf[..], 1).unwrap();
        zstd.extend(30u32.to_le_bytes());
        assert_eq!(extract(&image(&zstd)).unwrap(), elf);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&elf).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(extract(&image(&gzip)).unwrap(), elf);
        assert!(extract(&image(&gzip[..gzip.len() - 9])).unwrap_err().starts_with("gzip"), "it is cut");
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
            let _ = extract(&bytes);
            let _ = extract(&image(&bytes));
        }
    }
}
