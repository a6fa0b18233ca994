//! Block devices (include/uapi/linux/fs.h).

use rustix::ioctl::{NoArg, Opcode, Setter, ioctl, opcode};
use std::ops::Range;
use std::os::fd::AsFd;

/// Neither number encodes a size, although the second request takes two 64-bit numbers.
const BLKFLSBUF: Opcode = opcode::none(0x12, 97);
const BLKZEROOUT: Opcode = opcode::none(0x12, 127);

/// Flushes and drops the page cache of the device itself.
pub fn flush_buffers(device: impl AsFd) -> crate::Result<()> {
    // SAFETY: BLKFLSBUF takes no argument.
    unsafe { ioctl(device, NoArg::<BLKFLSBUF>::new()) }
}

/// Writes zeros to a range of bytes, by a command of the device or block by block.
pub fn zero_out(device: impl AsFd, range: Range<u64>) -> crate::Result<()> {
    let place = [range.start, range.end.saturating_sub(range.start)];
    // SAFETY: BLKZEROOUT reads two numbers of 64 bits, begin and length.
    unsafe { ioctl(device, Setter::<BLKZEROOUT, [u64; 2]>::new(place)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn request_codes_match_the_headers() {
        assert_eq!((BLKFLSBUF, BLKZEROOUT), (0x1261, 0x127F));
    }

    #[test]
    fn file_is_not_a_device() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(flush_buffers(&file), Err(Errno::NOTTY));
        assert_eq!(zero_out(&file, 0..512), Err(Errno::NOTTY));
    }
}
