//! Predicts how many objects a file system holds under a directory scheme.
//!
//! Names are uniform, so `f` objects touch `N (1 - (1 - 1/N)^f)` of `N` possible directories (the occupancy of balls in urns).
//! Every directory and every object costs an inode; either inodes or bytes run out first.

use crate::scheme::Scheme;
pub use senesce_volume::file_system::DirectoryFormat;
use serde::{Deserialize, Serialize};

/// Free space for objects, before the first is written.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FreeSpace {
    /// Free inodes; `None` if the file system creates inodes on demand.
    pub inodes: Option<u64>,
    /// Bytes free for data.
    pub bytes: u64,
    /// Block size, the unit in which files and directories grow.
    pub block_bytes: u64,
    /// Bytes of free space used by every new inode (0 if mkfs allocates inodes).
    pub inode_bytes: u64,
    /// Space used by directories.
    #[serde(default)]
    pub directories: DirectoryFormat,
}

/// Resource that limits a fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// No free inode.
    Inodes,
    /// No free block.
    Bytes,
}

impl Limit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Inodes => "inodes",
            Self::Bytes => "bytes",
        }
    }
}

/// Result of a fill.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Objects when full.
    pub files: u64,
    /// Directories when full, including the root of the objects.
    pub directories: u64,
    pub ended_by: Limit,
}

/// Returns the expected directories of level `level` that `files` objects touch. Uses `expm1` and `ln_1p`, because `1 -
/// 1/N` rounds to 1 in doubles from 16^14 on.
pub(crate) fn directories_at(scheme: Scheme, level: u32, files: f64) -> f64 {
    let possible = scheme.directories_at(level);
    if possible <= 1.0 {
        return possible.min(files);
    }
    -possible * (files * (-1.0 / possible).ln_1p()).exp_m1()
}

/// Returns the expected directories below the objects' root for `files` objects.
pub(crate) fn directories(scheme: Scheme, files: f64) -> f64 {
    (1..=scheme.depth()).map(|level| directories_at(scheme, level, files)).sum()
}

/// Inodes for `files` objects, including directories and the objects' root.
pub(crate) fn inodes_needed(scheme: Scheme, files: f64) -> f64 {
    files + 1.0 + directories(scheme, files)
}

/// Returns the bytes for `files` objects of `object_bytes`: their blocks, their inodes if those use free space, and
/// blocks of directories.
pub(crate) fn bytes_needed(scheme: Scheme, free: &FreeSpace, object_bytes: u64, files: f64) -> f64 {
    let block = free.block_bytes as f64;
    let data = files * object_bytes.div_ceil(free.block_bytes) as f64 * block;
    let name_digits = 40u32.saturating_sub(scheme.digits() * scheme.depth()).max(1);
    let directory_blocks: f64 = (0..=scheme.depth())
        .map(|level| {
            let is_lowest = level == scheme.depth();
            let entries = if is_lowest { files } else { directories_at(scheme, level + 1, files) };
            let digits = if is_lowest { name_digits } else { scheme.digits() };
            let possible = if level == 0 { 1.0 } else { scheme.directories_at(level) };
            let there = if level == 0 { 1.0 } else { directories_at(scheme, level, files) };
            match free.directories {
                DirectoryFormat::Blocks => there * directory_blocks(entries / there.max(1.0), digits, block),
                DirectoryFormat::Xfs => {
                    possible * expected(entries / possible, |count| xfs_blocks(count, digits, block))
                }
                DirectoryFormat::Items => entries * (ENTRY_ITEMS + f64::from(digits) * NAME_ITEMS) / block,
            }
        })
        .sum();
    data + directory_blocks * block + inodes_needed(scheme, files) * free.inode_bytes as f64
}

/// Estimates the blocks of one directory with `entries` names of `digits` bytes. An entry has 8 bytes + name. Leaf
/// blocks are three quarters full (the average after splitting in halves). More than one leaf needs one index block.
fn directory_blocks(entries: f64, digits: u32, block: f64) -> f64 {
    let entry = f64::from((8 + digits).next_multiple_of(4));
    let usable = block - 36.0; // `.`, `..` and the checksum tail
    if entries * entry <= usable { 1.0 } else { 1.0 + entries * entry / (0.75 * usable) }
}

/// Bytes of Btrfs items, stored twice, for a directory entry beyond its inode, and per character of its name, which occurs in
/// three items of which one is hashed (measured: 1,318 bytes for a file with a name of 38 characters, 1,030 for a directory).
const ENTRY_ITEMS: f64 = 310.0;
const NAME_ITEMS: f64 = 6.7;

/// Bytes for entries in an XFS inode of 512 bytes that reserves space for security labels, as kernels with such a module do
/// (fs/xfs/libxfs/xfs_attr_leaf.c: xfs_default_attroffset, 4 + 12 * 16). Otherwise 336.
const XFS_INLINE_BYTES: f64 = 196.0;

/// Estimates the blocks of an XFS directory of format 3 (fs/xfs/libxfs/xfs_da_format.h). Entries are in the inode while
/// they fit. Then one block holds them with their leaf entries. Then there are sequentially filled data blocks and
/// hashed leaves, which are three quarters full.
fn xfs_blocks(entries: f64, digits: u32, block: f64) -> f64 {
    let digits = f64::from(digits);
    if 6.0 + entries * (digits + 8.0) <= XFS_INLINE_BYTES {
        return 0.0;
    }
    // Inode number, length, name, type and tag, in steps of 8; a leaf entry is a hash and an address.
    let entry = ((digits + 12.0) / 8.0).ceil() * 8.0;
    // `.` and `..` take 16 bytes each and a leaf entry each; the header has 64, the tail 8.
    if 64.0 + 2.0 * 24.0 + 8.0 + entries * (entry + 8.0) <= block {
        return 1.0;
    }
    let data = (entries / ((block - 64.0) / entry).floor()).ceil();
    let leaf = entries * 8.0 / (block - 64.0);
    // One leaf, or several with a node above them and a block for free space.
    data + if leaf <= 1.0 { 1.0 } else { leaf / 0.75 + 2.0 }
}

/// Returns the mean of `blocks` over a Poisson distributed number of entries, as with uniform names. For a large mean,
/// it is the value at the mean.
fn expected(mean: f64, blocks: impl Fn(f64) -> f64) -> f64 {
    if mean > 500.0 {
        return blocks(mean);
    }
    let most = (mean + 12.0 * mean.sqrt() + 20.0) as u32;
    let (mut probability, mut sum) = ((-mean).exp(), 0.0);
    for entries in 1..=most {
        probability *= mean / f64::from(entries);
        sum += probability * blocks(f64::from(entries));
    }
    sum
}

/// Predicts the maximum number of objects of `object_bytes` and the limiting resource.
pub fn predict(scheme: Scheme, free: &FreeSpace, object_bytes: u64) -> Prediction {
    let by_inodes = free.inodes.map(|inodes| largest(|files| inodes_needed(scheme, files) <= inodes as f64));
    let by_bytes = largest(|files| bytes_needed(scheme, free, object_bytes, files) <= free.bytes as f64);
    let (files, ended_by) = match by_inodes {
        Some(by_inodes) if by_inodes <= by_bytes => (by_inodes, Limit::Inodes),
        _ => (by_bytes, Limit::Bytes),
    };
    let directories = (1.0 + directories(scheme, files as f64)).round() as u64;
    Prediction { files, directories, ended_by }
}

/// Returns the largest integer for which `fits` holds, or 0 if it never holds. `fits` must be true up to some point.
fn largest(fits: impl Fn(f64) -> bool) -> u64 {
    let (mut low, mut high) = (0u64, 1u64);
    while high < 1 << 52 && fits(high as f64) {
        low = high;
        high *= 2;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle as f64) { low = middle } else { high = middle }
    }
    low
}

/// Applies the formula of the study's thesis, which assumes that every possible directory exists: `files = inodes -
/// (sum of 16^(h k))`. It is wrong: negative for most schemes.
pub fn naive_files(scheme: Scheme, inodes: u64) -> f64 {
    inodes as f64 - (1..=scheme.depth()).map(|level| scheme.directories_at(level)).sum::<f64>()
}

/// Returns the number of entries at which an ext4 directory without `large_dir` is full. It has two levels of index
/// blocks with 8-byte entries (fs/ext4/namei.c), and leaves three quarters full.
pub(crate) fn ext4_directory_limit(block_bytes: u64, name_bytes: u64) -> u64 {
    let leaves = ((block_bytes - 32) / 8) * ((block_bytes - 16) / 8);
    let per_leaf = (block_bytes - 12) as f64 * 0.75 / (8 + name_bytes).next_multiple_of(4) as f64;
    (leaves as f64 * per_leaf) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// 12 inodes are unavailable: 10 reserved by ext4, lost+found and the study's own directory.
    const PUBLISHED_SPACE: FreeSpace = FreeSpace {
        inodes: Some(25_688 - 12),
        bytes: u64::MAX >> 8,
        block_bytes: 1024,
        inode_bytes: 0,
        directories: DirectoryFormat::Blocks,
    };

    #[test]
    fn law_matches_every_published_run() {
        let mut errors = Vec::new();
        for line in include_str!("../data/dmv/dirlayout.csv").lines().filter(|line| line.starts_with("murphy")) {
            let fields: Vec<&str> = line.split(',').collect();
            let scheme = Scheme::new(fields[1].parse().unwrap(), fields[2].parse().unwrap()).unwrap();
            let prediction = predict(scheme, &PUBLISHED_SPACE, 4096);
            assert_eq!(prediction.ended_by, Limit::Inodes);
            errors.push((prediction.files as f64 / fields[3].parse::<f64>().unwrap() - 1.0).abs());
        }
        assert_eq!(errors.len(), 130);
        assert!(errors.iter().fold(0.0, |a: f64, b| a.max(*b)) < 0.0032, "{errors:?}");
        assert!(errors.iter().sum::<f64>() / 130.0 < 0.0007);
    }

    /// Compares with Linux 6.18 and mkfs.btrfs 6.2 on 256 MiB: metadata of 26.22 and 33.22 MiB were used, stored twice.
    #[test]
    fn btrfs_items_match_measurements() {
        let free = FreeSpace { inodes: None, block_bytes: 4096, inode_bytes: 700, ..PUBLISHED_SPACE };
        let free = FreeSpace { directories: DirectoryFormat::Items, ..free };
        for (scheme, files, mebibytes) in [("2x1", 41_728.0, 26.22), ("3x2", 29_696.0, 33.22)] {
            let metadata = bytes_needed(scheme.parse().unwrap(), &free, 4096, files) - files * 4096.0;
            let error = metadata / (2.0 * mebibytes * 1_048_576.0) - 1.0;
            assert!(error.abs() < 0.06, "{scheme}: {error:.3}");
        }
    }

    /// Compares with Linux 6.18 and mkfs.xfs 6.1 on 600 MiB: 128,514 blocks free; objects of 4 KiB until it was full.
    #[test]
    fn law_matches_xfs() {
        let free = FreeSpace { inodes: Some(307_196), bytes: 128_514 * 4096, ..PUBLISHED_SPACE };
        let free = FreeSpace { block_bytes: 4096, inode_bytes: 512, directories: DirectoryFormat::Xfs, ..free };
        for (scheme, files, directories) in [("0x0", 112_554, 0), ("4x1", 106_564, 52_739), ("3x2", 99_267, 103_078)] {
            let prediction = predict(scheme.parse().unwrap(), &free, 4096);
            let error = prediction.files as f64 / f64::from(files) - 1.0;
            assert!(error.abs() < 0.005, "{scheme}: {} is off by {error:.4}", prediction.files);
            let counted = prediction.directories as f64 - 1.0;
            assert!((counted - f64::from(directories)).abs() <= 0.01 * f64::from(directories), "{scheme}: {counted}");
        }
    }

    #[test]
    fn xfs_directories_outgrow_their_inodes() {
        // Counted on that file system: directories with up to four names of 36 bytes had no block, those with five had one.
        assert_eq!((xfs_blocks(4.0, 36, 4096.0), xfs_blocks(5.0, 36, 4096.0)), (0.0, 1.0));
        assert!(xfs_blocks(100.0, 36, 4096.0) > 1.0);
        // A mean of uniform names, and one too large for the sum.
        assert!((expected(3.0, |entries| entries) - 3.0).abs() < 1e-9);
        assert_eq!(expected(1e6, |entries| entries), 1e6);
    }

    #[test]
    fn naive_formula_contradicts_the_study() {
        let scheme = "2x2".parse().unwrap();
        assert_eq!(naive_files(scheme, 25_688), 25_688.0 - 256.0 - 65_536.0);
    }

    #[test]
    fn law_matches_simulated_urns() {
        use rand::RngExt;
        let mut random = senesce_core::Seed(1).stream("objstore/occupancy-test");
        let scheme: Scheme = "1x4".parse().unwrap();
        let mut seen: BTreeMap<u32, std::collections::BTreeSet<u64>> = BTreeMap::new();
        for _ in 0..11_000 {
            let name: u64 = random.random();
            for level in 1..=4 {
                seen.entry(level).or_default().insert(name >> (64 - 4 * level));
            }
        }
        let thrown: usize = seen.values().map(|set| set.len()).sum();
        assert!((directories(scheme, 11_000.0) / thrown as f64 - 1.0).abs() < 0.005);
    }

    proptest! {
        #[test]
        fn predicted_objects_fit_and_one_more_does_not(digits in 1u32..7, depth in 1u32..6, inodes in 20u64..1 << 30) {
            let scheme = Scheme::new(digits, depth).unwrap();
            let free = FreeSpace { inodes: Some(inodes), ..PUBLISHED_SPACE };
            let files = predict(scheme, &free, 4096).files as f64;
            prop_assert!(inodes_needed(scheme, files) <= inodes as f64);
            prop_assert!(inodes_needed(scheme, files + 1.0) > inodes as f64 - 1e-6);
        }
    }
}
