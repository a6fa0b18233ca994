//! Numbers at an offset, and reads limited to the device's size.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

pub(super) fn read(device: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; length];
    device.read_exact_at(&mut buffer, offset)?;
    Ok(buffer)
}

macro_rules! numbers {
    ($($name:ident: $type:ty = $from:ident;)*) => {
        $(
            /// The number at an offset; 0 past the end.
            pub(super) fn $name(data: &[u8], at: usize) -> $type {
                let bytes = data.get(at..at + size_of::<$type>());
                bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, <$type>::$from)
            }
        )*
    };
}

numbers! {
    le16: u16 = from_le_bytes;
    le32: u32 = from_le_bytes;
    le64: u64 = from_le_bytes;
    be16: u16 = from_be_bytes;
    be32: u32 = from_be_bytes;
    be64: u64 = from_be_bytes;
}

/// Computes CRC-32C as the kernel does: without inversions.
pub(super) fn crc32c(seed: u32, data: &[u8]) -> u32 {
    !::crc32c::crc32c_append(!seed, data)
}
