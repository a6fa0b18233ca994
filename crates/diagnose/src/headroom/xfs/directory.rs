//! Blocks of a directory of XFS (fs/xfs/libxfs/xfs_da_format.h, format 3): names in blocks that fill one after the
//! other, and a tree of hashes whose leaves are split in halves.

/// Bytes of the header of each block.
const HEADER: u64 = 64;
/// Fill of the leaves of hashes: maximum, usual and minimum. Hashes of consecutive names are not uniform.
const FILLS: [f64; 3] = [0.97, 0.66, 0.42];
/// Bytes of a record of a chunk of 64 inodes. Trees of inodes are about two thirds full, and there may be
/// two.
const INODE_RECORDS: f64 = 2.0 * 16.0 / 64.0 / 0.66;
/// Blocks of a directory with a tree of hashes beyond those that its names fill: a part of the last one of each use.
const PARTLY_FULL: f64 = 3.0;

/// File system blocks per additional name: minimum, usual and maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PerName {
    pub least: f64,
    pub usual: f64,
    pub most: f64,
    pub partly_full: f64,
    in_block: f64,
}

impl PerName {
    pub(super) fn of(block_size: u64, directory_block: u64, name_bytes: u64) -> Self {
        let usable = directory_block - HEADER;
        // Inode number, length, name, type and tag.
        let entry = (8 + 1 + name_bytes + 1 + 2).next_multiple_of(8);
        let blocks = (directory_block / block_size) as f64;
        let names = blocks / (usable / entry) as f64;
        let records = INODE_RECORDS / (block_size - 56) as f64;
        let [least, usual, most] = FILLS.map(|fill| names + blocks * 8.0 / (usable as f64 * fill) + records);
        Self { least, usual, most, partly_full: PARTLY_FULL * blocks, in_block: blocks }
    }

    /// Counts the blocks for names with colliding hashes. A name whose hash is in a full block gets a new block
    /// (xfs_dir2_node_find_freeblk). Assumes hashes uniform over 28 bits.
    pub(super) fn usual_collisions(&self, names: f64) -> f64 {
        self.in_block * (names * names / 2f64.powi(29)).min(names)
    }

    /// Returns the upper bound of these blocks. Decimal numbers collide from 100,000 on; measured: 2 % of them in
    /// blocks of 4 KiB, 41 % in blocks of 64 KiB.
    pub(super) fn most_collisions(&self, names: f64) -> f64 {
        let share = if self.in_block > 1.0 { 1.0 } else { 0.05 };
        let of_numbers = share * (names - 99_000.0).max(0.0);
        self.in_block * (names * names / 2f64.powi(27) + of_numbers).min(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with measured blocks for each name: 0.0087 to 0.0115 with eight characters in blocks of 4 KiB, a
    /// sixteenth with 250.
    #[test]
    fn names_take_the_measured_blocks() {
        let short = PerName::of(4096, 4096, 8);
        assert!(short.least < 0.0087 && short.usual > 0.0087 && short.most > 0.0105, "{short:?}");
        let long = PerName::of(4096, 4096, 250);
        assert!((0.066..0.070).contains(&long.usual), "{long:?}");
    }
}
