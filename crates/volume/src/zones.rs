//! Zones of a zoned block device that hold something: what the signature of its first and last bytes does not tell.

use crate::error::TargetError;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Asks for the zones from a sector on (include/uapi/linux/blkzoned.h).
const BLKREPORTZONE: libc::c_ulong = 0xC010_1282;

/// Zones asked for at a time.
const AT_ONCE: usize = 512;

/// `struct blk_zone_report` and `struct blk_zone` in words of 64 bits: sector, number of zones and flags; then for each zone
/// its start, its length, its write pointer, a word of bytes (type, condition, ...), its capacity and three reserved.
const HEADER: usize = 2;
const ZONE: usize = 8;

/// How many zones are not empty, in words; `None`: all are.
pub fn probe(file: &File, path: &Path) -> Result<Option<String>, TargetError> {
    let mut buffer = vec![0u64; HEADER + AT_ONCE * ZONE];
    let (mut sector, mut total, mut held, mut first) = (0, 0, 0, None);
    loop {
        buffer[0] = sector;
        buffer[1] = number_and_flags(AT_ONCE as u32);
        // SAFETY: the request takes a header followed by as many zones as it says, for which the buffer has room.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKREPORTZONE as _, buffer.as_mut_ptr()) };
        if result != 0 {
            return Err(TargetError::io("report the zones of", path)(std::io::Error::last_os_error()));
        }
        let zones = buffer[HEADER..].chunks_exact(ZONE).take(number_of(buffer[1]) as usize);
        let before = total;
        for zone in zones {
            if holds_data(zone) {
                held += 1;
                first.get_or_insert(total);
            }
            sector = zone[0] + zone[1];
            total += 1;
        }
        if total == before {
            break;
        }
    }
    Ok(first.map(|first| format!("data: {held} of {total} zones are not empty, the first is zone {first}")))
}

fn number_and_flags(number: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn number_of(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// By its condition: neither without a write pointer (conventional), empty nor offline.
fn holds_data(zone: &[u64]) -> bool {
    const NOT_WRITE_POINTER: u8 = 0;
    const EMPTY: u8 = 1;
    const OFFLINE: u8 = 0xf;
    !matches!(zone[3].to_ne_bytes()[1], NOT_WRITE_POINTER | EMPTY | OFFLINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_holds_data_by_its_condition() {
        let zone = |condition: u8| [0, 128, 0, u64::from_ne_bytes([2, condition, 0, 0, 0, 0, 0, 0]), 128, 0, 0, 0];
        let holding: Vec<u8> = (0..=0xf).filter(|condition| holds_data(&zone(*condition))).collect();
        assert!([2, 3, 4, 0xd, 0xe].iter().all(|condition| holding.contains(condition)));
        assert!([0, 1, 0xf].iter().all(|condition| !holding.contains(condition)));
        assert_eq!(number_of(number_and_flags(512)), 512);
    }
}
