//! Free space of F2FS, from the bitmaps of its segments in /proc/fs/f2fs (fs/f2fs/sysfs.c, segment_bits_seq_show).
//!
//! Blocks that F2FS reserves for cleaning are free extents too.

use crate::free::{FreeSpace, Histogram};
use senesce_volume::BlockDevice;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

const BLOCK_SIZE: u64 = 4096;
/// Lines before those of the segments.
const HEAD_LINES: usize = 2;

/// Reads the free space of a mounted F2FS; on failure returns why it is unknown. The file is for debugging, and other
/// kernels may change it.
pub(crate) fn read(device: u64) -> Result<FreeSpace, String> {
    let number = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = BlockDevice::from_number(number).ok_or("its device is not in /sys")?;
    let path = PathBuf::from("/proc/fs/f2fs").join(device.name()).join("segment_bits");
    let failed = |error: io::Error| format!("not available from {}: {error}", path.display());
    File::open(&path).and_then(|file| parse(BufReader::new(file))).map_err(failed)
}

/// Segments follow each other on the device, so free extents may span several.
fn parse(lines: impl BufRead) -> io::Result<FreeSpace> {
    let mut histogram = Histogram::new(BLOCK_SIZE);
    let (mut free, mut block) = (0, 0);
    for (number, line) in lines.lines().skip(HEAD_LINES).enumerate() {
        let line = line?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("not a segment {number}: {line}"));
        // Newer kernels append the time of modification.
        let columns: Vec<&str> = line.split('|').collect();
        let [segment, valid, bits, ..] = *columns else { return Err(damaged()) };
        let is_next = segment.split_whitespace().next().and_then(|text| text.parse().ok()) == Some(number);
        let mut used = 0;
        for byte in bits.split_whitespace() {
            let byte = u8::from_str_radix(byte, 16).map_err(|_| damaged())?;
            used += byte.count_ones();
            // The first block is the highest bit.
            for bit in (0..8).rev() {
                if byte & (1 << bit) == 0 {
                    free += 1;
                } else {
                    histogram.add(block - free, std::mem::take(&mut free) * BLOCK_SIZE);
                }
                block += 1;
            }
        }
        if !is_next || valid.trim().parse() != Ok(used) {
            return Err(damaged());
        }
    }
    histogram.add(block - free, free * BLOCK_SIZE);
    Ok(histogram.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "format: segment_type|valid_blocks|bitmaps\nsegment_type(0:HD, 1:WD, 2:CD, 3:HN, 4:WN, 5:CN)\n";

    fn parsed(segments: &[(u32, &str)]) -> io::Result<FreeSpace> {
        let line = |(number, (valid, bits)): (usize, &(u32, &str))| format!("{number:<10}3|{valid:<3}|{bits}| 7\n");
        let lines: String = segments.iter().enumerate().map(line).collect();
        parse(format!("{HEAD}{lines}").as_bytes())
    }

    #[test]
    fn free_extents_span_segments_and_start_at_the_highest_bit() {
        let free = parsed(&[(3, " 40 00 c0"), (0, " 00"), (1, " 01")]).unwrap();
        // 1, then 14 blocks, then 6 + 8 + 7.
        assert_eq!((free.extents, free.free_blocks, free.max_bytes), (3, 36, 21 * 4096));
    }

    #[test]
    fn bitmaps_that_contradict_their_counts_are_refused() {
        assert!(parsed(&[(2, " 40")]).is_err());
        assert!(parsed(&[(1, " 4g")]).is_err());
        assert!(parse(format!("{HEAD}1 3|1|40\n").as_bytes()).is_err());
    }
}
