//! btrfs: data and metadata live in chunks of their own, and what belongs to no chunk goes to whichever asks first.

use super::{EndsBy, Estimate, NAME_BYTES};
use senesce_layout::space::Btrfs;

/// A leaf's item (struct btrfs_item) and what the items of a new file hold (linux/btrfs_tree.h): inode, back reference, two
/// directory entries.
const ITEM: u64 = 25;
const INODE: u64 = 160;
const INODE_REF: u64 = 10 + NAME_BYTES;
const DIRECTORY_ITEMS: u64 = 2 * (30 + NAME_BYTES);
/// A file's extent, its record in the extent tree with one reference, and a checksum per sector.
const FILE_EXTENT: u64 = 53;
const EXTENT_RECORD: u64 = 24 + 29;
const CHECKSUM: u64 = 4;
/// Files up to this size lie in the leaves (mount option `max_inline`).
const MAX_INLINE: u64 = 2048;
const SECTOR: u64 = 4096;
/// How full the leaves are. Most items of new files grow at one end; the names that are hashed do not (measured over fills with
/// empty files: 377.5 bytes for items of 354).
const FILL: f64 = 0.938;
/// Metadata that the kernel has promised to operations under way when the first one fails (measured over the same fills).
const UNDER_WAY: f64 = 3.94e6;
/// Tree blocks that the global reserve holds at least; a mount for reading does not show it (5.5 MiB with blocks of 16 KiB).
const LEAST_RESERVE_NODES: u64 = 352;
/// Bytes of one extent at most (BTRFS_MAX_EXTENT_SIZE).
const MAX_EXTENT: u64 = 128 << 20;
/// Share of a device that a chunk takes at most, rounded up to this unit, and most bytes of chunks (fs/btrfs/volumes.c,
/// init_alloc_chunk_ctl_policy_regular, decide_stripe_size_regular).
const CHUNK_SHARE: u64 = 10;
const CHUNK_UNIT: u64 = 16 << 20;
const DATA_CHUNK: u64 = 1 << 30;
/// Metadata chunks are larger on devices of more than 50 GiB.
const METADATA_CHUNK: u64 = 256 << 20;
const LARGE_DEVICE: u64 = 50 << 30;
const LARGE_METADATA_CHUNK: u64 = 1 << 30;
/// Another metadata chunk is made once this share of them is used, but for so many bytes. What is promised does not count while
/// something is unallocated (fs/btrfs/block-group.c, should_alloc_chunk; fs/btrfs/space-info.c, btrfs_can_overcommit).
const FULL_SHARE: f64 = 0.8;
const FULL_SLACK: f64 = 2_097_152.0;
/// Bytes of a stripe, of which chunks are made (BTRFS_STRIPE_LEN), and the least chunk that the rule counts on.
const STRIPE: u64 = 65_536;
const LEAST_CHUNK: u64 = 1 << 20;

/// Bytes of metadata of a new file, one copy.
fn metadata_bytes(size: u64) -> f64 {
    let names = 4 * ITEM + INODE + INODE_REF + DIRECTORY_ITEMS;
    let data = match size {
        0 => 0,
        size if size <= MAX_INLINE => ITEM + 21 + size,
        size => {
            let extents = size.div_ceil(MAX_EXTENT);
            extents * (2 * ITEM + FILE_EXTENT + EXTENT_RECORD) + size.div_ceil(SECTOR) * CHECKSUM
        }
    };
    (names + data) as f64 / FILL
}

/// Chunks of one use while files are created.
struct Growing {
    total: f64,
    used: f64,
    /// Bytes that are held back or promised.
    promised: f64,
    /// Bytes of a file.
    each: f64,
    copies: u64,
    chunk: u64,
    /// Whether another chunk is made before the last is full.
    early: bool,
}

impl Growing {
    /// Files until another chunk is wanted.
    fn files_until_growth(&self) -> f64 {
        let end = match self.early {
            true => self.total * FULL_SHARE - FULL_SLACK,
            false => self.total - self.promised,
        };
        if self.each > 0.0 { ((end - self.used) / self.each).max(0.0) } else { f64::INFINITY }
    }

    /// Makes another chunk, in the first hole that holds a whole one or else in the largest; `false` if there is no space for one.
    fn grow(&mut self, holes: &mut [u64]) -> bool {
        let wanted = self.chunk * self.copies;
        let whole = holes.iter().position(|hole| *hole >= wanted);
        let largest = || (0..holes.len()).max_by_key(|hole| (holes[*hole], std::cmp::Reverse(*hole)));
        let Some(hole) = whole.or_else(largest) else { return false };
        let chunk = self.chunk.min(holes[hole] / self.copies / STRIPE * STRIPE);
        if chunk < LEAST_CHUNK {
            return false;
        }
        holes[hole] -= chunk * self.copies;
        self.total += chunk as f64;
        true
    }
}

pub(super) fn estimate(found: &Btrfs, size: u64) -> Option<Estimate> {
    if found.mixed || found.devices != 1 {
        return None;
    }
    let chunk = |most: u64| (found.device / CHUNK_SHARE).next_multiple_of(CHUNK_UNIT).min(most);
    let most_metadata = if found.device > LARGE_DEVICE { LARGE_METADATA_CHUNK } else { METADATA_CHUNK };
    let mut data = Growing {
        total: found.data.total as f64,
        used: found.data.used as f64,
        promised: 0.0,
        each: if size <= MAX_INLINE { 0 } else { size.div_ceil(SECTOR) * SECTOR } as f64,
        copies: found.data.copies.max(1),
        chunk: chunk(DATA_CHUNK),
        early: false,
    };
    let mut metadata = Growing {
        total: found.metadata.total as f64,
        used: found.metadata.used as f64,
        promised: found.global_reserve.max(LEAST_RESERVE_NODES * found.node_size) as f64 + UNDER_WAY,
        each: metadata_bytes(size),
        copies: found.metadata.copies.max(1),
        chunk: chunk(most_metadata),
        early: found.holes.iter().any(|hole| hole / found.metadata.copies.max(1) >= LEAST_CHUNK),
    };
    let mut holes = found.holes.clone();
    let (mut files, mut metadata_grew) = (0.0, false);
    let ends_by = loop {
        let by_data = data.files_until_growth();
        let by_metadata = metadata.files_until_growth();
        let step = by_data.min(by_metadata);
        files += step;
        data.used += step * data.each;
        metadata.used += step * metadata.each;
        if by_data <= by_metadata {
            if !data.grow(&mut holes) {
                break EndsBy::Bytes;
            }
        } else if metadata.early && metadata.grow(&mut holes) {
            metadata_grew = true;
        } else if metadata.early {
            // No further chunk: what there is will be used up.
            metadata.early = false;
        } else {
            break EndsBy::Metadata;
        }
    };
    let share = match (ends_by, metadata_grew) {
        (EndsBy::Bytes, false) => 0.005,
        (EndsBy::Metadata, _) if data.each == 0.0 => 0.08,
        _ => 0.15,
    };
    Some(Estimate::within(files, share, ends_by))
}
