//! btrfs: data and metadata live in separate chunks, and the first of them that needs another chunk gets unallocated
//! space.
//!
//! Which is first depends on the space that the kernel has reserved for data that is not yet written back, which is
//! unknown. The number is the usual case. The lower bound assumes that metadata take one chunk more at any time, the
//! upper bound that each use gets a chunk when it needs it.

mod chunks;
mod devices;

use super::{EndsBy, Estimate, NewFiles};
use chunks::{ChunkSpace, FillState, MetadataAllocation};
use devices::{Devices, STRIPE};
use senesce_layout::space::Btrfs;

/// A leaf's item (struct btrfs_item) and the items of a new file (linux/btrfs_tree.h): inode, back reference, two
/// directory entries.
const ITEM: u64 = 25;
const INODE: u64 = 160;
const INODE_REF: u64 = 10;
const DIRECTORY_ITEM: u64 = 30;
const FILE_EXTENT: u64 = 53;
const EXTENT_RECORD: u64 = 24 + 29;
/// Files up to this size are stored in the leaves (default of the mount option `max_inline`).
const MAX_INLINE: u64 = 2048;
/// Fill of the leaves whose items grow at one end, and of those with hashed names (measured over fills with empty
/// files).
const FILL: f64 = 0.98;
const HASHED_FILL: f64 = 0.70;
/// Tree blocks that the kernel has reserved for running operations when the first one fails: fifteen items for each of
/// which eight levels may be split (btrfs_calc_insert_metadata_size; the number is measured over the same fills).
const UNDER_WAY_NODES: u64 = 15 * ITEM_NODES;
const ITEM_NODES: u64 = 16;
/// The usual reservation before, and the space below which reservations for unwritten data can take the rest and
/// another chunk. Both measured over fills of metadata chunks of 8 and 32 MiB.
const UNDER_WAY_BEFORE_NODES: u64 = 10 * ITEM_NODES;
const LITTLE_ROOM_NODES: u64 = 1024;
/// Minimum tree blocks of the global reserve; a read-only mount does not show it (5.5 MiB with blocks of 16 KiB).
const LEAST_RESERVE_NODES: u64 = 352;
/// Maximum bytes of one extent (BTRFS_MAX_EXTENT_SIZE).
const MAX_EXTENT: u64 = 128 << 20;
/// Maximum share of all devices in a chunk, and maximum bytes of chunks and stripes (fs/btrfs/volumes.c,
/// init_alloc_chunk_ctl_policy_regular).
const CHUNK_SHARE: u64 = 10;
const DATA_CHUNK: u64 = 10 << 30;
const STRIPE_MOST: u64 = 1 << 30;
/// Metadata chunks are larger on devices of more than 50 GiB.
const METADATA_CHUNK: u64 = 256 << 20;
const LARGE_DEVICE: u64 = 50 << 30;
const LARGE_METADATA_CHUNK: u64 = 1 << 30;
/// Positions of the second and third copy of the superblock. The stripe around each counts as free in a chunk and is
/// never allocated (fs/btrfs/block-group.c, exclude_super_stripes).
const SUPERBLOCKS: [u64; 2] = [64 << 20, 256 << 30];
/// Uncertainty of the metadata of a file: of empty files, and of others.
const EMPTY_FILES_SHARE: f64 = 0.08;
const FILES_SHARE: f64 = 0.15;
/// Number of data chunks before which metadata are assumed to take their chunk, in addition to the last two.
const MOST_TURNS: u64 = 12;
const DATA_SHARE: f64 = 0.005;

fn metadata_bytes(NewFiles { size, name_bytes }: NewFiles, sector: u64, checksum: u64) -> f64 {
    let name = ITEM + DIRECTORY_ITEM + name_bytes;
    let ordered = 2 * ITEM + INODE + INODE_REF + name_bytes + name;
    let data = match size {
        0 => 0,
        size if size <= MAX_INLINE => ITEM + 21 + size,
        size => {
            let extents = size.div_ceil(MAX_EXTENT);
            extents * (2 * ITEM + FILE_EXTENT + EXTENT_RECORD) + size.div_ceil(sector) * checksum
        }
    };
    (ordered + data) as f64 / FILL + name as f64 / HASHED_FILL
}

pub(super) fn is_known(found: &Btrfs) -> bool {
    !found.mixed && found.holes.len() as u64 == found.devices
}

pub(super) fn estimate(found: &Btrfs, new: NewFiles, sector: u64) -> Option<Estimate> {
    if !is_known(found) {
        return None;
    }
    let size = new.size;
    let begin = beginning(found, new, sector.max(1));
    let usual = begin.clone().filled(MetadataAllocation::Due);
    let share = if size == 0 { EMPTY_FILES_SHARE } else { FILES_SHARE };
    let item = (ITEM_NODES * found.node_size) as f64;
    let least = |times: f64| {
        let varied = FillState { metadata: begin.metadata.scaled(times).promising(item), ..begin.clone() };
        let due = varied.clone().filled(MetadataAllocation::Due);
        let last = due.data_chunks;
        let turns = (1..=last.min(MOST_TURNS)).chain(last.saturating_sub(1)..=last);
        turns.map(|chunk| varied.clone().filled(MetadataAllocation::Before(chunk)).files).fold(due.files, f64::min)
    };
    let low = [1.0 - share, 1.0, 1.0 + share].map(least).into_iter().fold(usual.files, f64::min);
    let withheld = SUPERBLOCKS.iter().filter(|start| **start < found.device).count() as u64 * STRIPE * found.devices;
    let low =
        low / (1.0 + DATA_SHARE) - if begin.data.each > 0.0 { (withheld as f64 / begin.data.each).ceil() } else { 0.0 };
    let best = FillState { metadata: begin.metadata.scaled(1.0 - share).promising(-item), ..begin }.at_best();
    let high = best.max(usual.files) * (1.0 + DATA_SHARE);
    Some(Estimate { low: (low - 1.0).max(0.0), high: high + 1.0, ..Estimate::within(usual.files, 0.0, usual.ends_by) })
}

fn beginning(found: &Btrfs, new: NewFiles, sector: u64) -> FillState {
    let size = new.size;
    let chunk = |most: u64| (found.device / CHUNK_SHARE).min(most);
    let most_metadata = if found.device > LARGE_DEVICE { LARGE_METADATA_CHUNK } else { METADATA_CHUNK };
    let held_back = found.global_reserve.max(LEAST_RESERVE_NODES * found.node_size);
    let data = ChunkSpace {
        total: found.data.total as f64,
        used: found.data.used as f64,
        held_back: 0.0,
        promised: 0.0,
        promised_before: 0.0,
        little_room: 0.0,
        each: if size <= MAX_INLINE { 0 } else { size.div_ceil(sector) * sector } as f64,
        profile: found.data.profile,
        chunk: chunk(DATA_CHUNK),
        stripe: STRIPE_MOST,
    };
    let metadata = ChunkSpace {
        total: found.metadata.total as f64,
        used: found.metadata.used as f64,
        held_back: held_back as f64,
        promised: (UNDER_WAY_NODES * found.node_size) as f64,
        promised_before: (UNDER_WAY_BEFORE_NODES * found.node_size) as f64,
        little_room: (LITTLE_ROOM_NODES * found.node_size) as f64,
        each: metadata_bytes(new, sector, found.checksum_bytes),
        profile: found.metadata.profile,
        chunk: chunk(most_metadata),
        stripe: most_metadata.min(STRIPE_MOST),
    };
    FillState { data, metadata, devices: Devices(found.holes.clone()) }
}
