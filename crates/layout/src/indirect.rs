//! The block map of a file without extents (ext2, ext3): 12 blocks are in its inode, the others in pointer blocks of up to three
//! levels (kernel documentation, filesystems/ext4/: "Direct/Indirect Block Addressing").

const DIRECT: u64 = 12;
const POINTER: u64 = 4;

/// Returns the number of map blocks of a file with `data` blocks and no hole.
pub fn map_blocks(block_size: u64, data: u64) -> u64 {
    let pointers = (block_size / POINTER).max(1);
    let (mut left, mut all, mut reach) = (data.saturating_sub(DIRECT), 0, pointers);
    for depth in 1..=3 {
        let here = left.min(reach);
        all += (1..=depth).map(|level| here.div_ceil(pointers.pow(level))).sum::<u64>();
        left -= here;
        reach = reach.saturating_mul(pointers);
    }
    all
}

/// Returns the number of map blocks that a sequential writer allocates before the data block with this number.
pub(crate) fn map_blocks_before(block_size: u64, block: u64) -> u64 {
    map_blocks(block_size, block.saturating_add(1)) - map_blocks(block_size, block)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with values from `stat` on ext3 with blocks of 1 and 4 KiB, without data.
    #[test]
    fn map_blocks_match_measured_values() {
        let of = |data: u64| map_blocks(4096, data);
        assert_eq!([1, 12, 13, 12 + 1024].map(of), [0, 0, 1, 1]);
        assert_eq!([12 + 1025, 12 + 2048, 12 + 2049].map(of), [3, 3, 4]);
        assert_eq!([64, 1024].map(|data| map_blocks(1024, data)), [1, 5]);
        let two_levels = 12 + 1024 + 1024 * 1024;
        assert_eq!(of(two_levels + 1), of(two_levels) + 3);
        assert_eq!([11, 12, 13, 12 + 1024, two_levels].map(|block| map_blocks_before(4096, block)), [0, 1, 0, 2, 3]);
    }
}
