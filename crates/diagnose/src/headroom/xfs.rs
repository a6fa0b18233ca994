//! xfs: inodes are made in chunks of 64, which need free extents of their length, aligned; with sparse inodes half a
//! chunk suffices (xfs_ialloc_ag_alloc in fs/xfs/libxfs/xfs_ialloc.c).

mod directory;
mod sites;

use super::consume::{Pool, SpaceDemand, consume};
use super::{EndsBy, Estimate, NewFiles};
use directory::PerName;
use senesce_layout::FileSystemSpace;
use senesce_layout::space::Xfs;
use sites::{CHUNK, Chunk, Sites, sites};

/// Levels of a directory's tree that a new name may split, and of the map of its blocks (XFS_DAENTER_DBS,
/// XFS_BM_MAXLEVELS less 1).
const DIRECTORY_LEVELS: u64 = 7;
const MAP_LEVELS: u64 = 4;
/// Blocks of the trees of inodes that a new chunk may split.
const INODE_TREES: u64 = 3;
/// Bytes of an inode without the extents of its file, bytes of an extent, and extents per byte in a block of the tree
/// after splits.
const INODE_CORE: u64 = 176;
const SECURITY_LABEL: u64 = 32;
const EXTENT: u64 = 16;
const SPLIT_SHARE: f64 = 0.78;

const HALVINGS: u32 = 24;

/// Returns the blocks that must be free for the transaction that makes a file (XFS_CREATE_SPACE_RES).
pub(super) fn transaction(space: &FileSystemSpace, xfs: &Xfs) -> u64 {
    let directory = DIRECTORY_LEVELS * ((xfs.directory_block / space.block_size).max(1) + MAP_LEVELS);
    directory + Chunk::of(space.block_size, xfs).whole + INODE_TREES
}

/// Returns whether the rule supports the geometry. A realtime device cannot hold inodes or directories, and an
/// attribute of each directory decides whether files use it.
pub(super) fn is_known(xfs: &Xfs) -> bool {
    !xfs.realtime
}

pub(super) fn estimate(space: &FileSystemSpace, xfs: &Xfs, new: NewFiles) -> Option<Estimate> {
    if !is_known(xfs) {
        return None;
    }
    let needs = Needs::of(space, xfs, new);
    let blocks = needs.by_blocks().first_of(by_limit(space));
    let Some(extents) = &space.free else {
        let low = needs.made.min(blocks.low);
        return Some(Estimate { low: (low - 2.0).max(0.0), ..blocks });
    };
    let counted = sites(extents, xfs, needs.chunk);
    Some(by_chunks(&counted, &needs, blocks))
}

/// Returns the reserve for reverse maps on a read-only mount, which counts none of it as taken; 0 without them. The
/// other trees get less than a hundredth.
fn reverse_maps(xfs: &Xfs) -> f64 {
    let blocks = xfs.groups * xfs.group_blocks;
    let trees = xfs.to_set_aside.saturating_sub((blocks / 20).min(8192));
    if trees > blocks / 100 { trees as f64 } else { 0.0 }
}

/// Estimates the limit of `imaxpct`, which is compared with a counter of which every CPU keeps a part for itself
/// (XFS_ICOUNT_BATCH, xfs_dialloc).
fn by_limit(space: &FileSystemSpace) -> Estimate {
    const KEPT: f64 = 128.0;
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let inodes = space.free_inodes as f64;
    Estimate {
        files: (inodes - CHUNK as f64 / 2.0).max(0.0),
        low: (inodes - 2.0 * CHUNK as f64).max(0.0),
        high: inodes + CHUNK as f64 + KEPT * processors,
        ends_by: EndsBy::Inodes,
        after_sync: None,
    }
}

struct Needs {
    made: f64,
    /// Blocks that are free for files, inodes and the directory, and those that the last transactions leave.
    free: f64,
    left: f64,
    /// Maximum blocks of the reserve that trees of reverse maps have taken already.
    taken: f64,
    data: u64,
    chunk: Chunk,
    name: PerName,
    in_inode: f64,
    in_block: f64,
    pool: Pool,
}

impl Needs {
    fn of(space: &FileSystemSpace, xfs: &Xfs, new: NewFiles) -> Self {
        let for_extents = xfs.inode_size.saturating_sub(INODE_CORE + SECURITY_LABEL);
        Self {
            made: xfs.free_made_inodes as f64,
            free: space.free_blocks.saturating_sub(xfs.to_set_aside) as f64,
            left: transaction(space, xfs) as f64,
            taken: reverse_maps(xfs),
            data: new.size.div_ceil(space.block_size),
            chunk: Chunk::of(space.block_size, xfs),
            name: PerName::of(space.block_size, xfs.directory_block, new.name_bytes),
            in_inode: (for_extents / EXTENT).max(1) as f64,
            in_block: space.block_size as f64 / EXTENT as f64 * SPLIT_SHARE,
            pool: Pool::of(space),
        }
    }

    fn inode_share(&self) -> f64 {
        self.chunk.whole as f64 / CHUNK as f64
    }

    fn files(&self, per_name: f64, free: f64) -> f64 {
        let (made, share) = (self.made, self.inode_share());
        let free = free.max(0.0);
        if self.data == 0 {
            let from_made = (free / per_name).min(made);
            return from_made.max((free + made * share) / (share + per_name));
        }
        let map = |pieces: f64| if pieces > self.in_inode { (pieces / self.in_block).ceil() } else { 0.0 };
        let appetite = SpaceDemand { data: self.data, metadata: share + per_name, map };
        // Existing inodes take no blocks.
        let taken = consume(&self.pool, free, &appetite).files;
        taken + made.min(taken) * share / (self.data as f64 + share + per_name)
    }

    fn by_blocks(&self) -> Estimate {
        let share = if self.data == 0 { 0.02 } else { 0.01 };
        let PerName { usual, most, least, .. } = self.name;
        let usual = self.with_collisions(usual, self.free + 0.2 * self.taken - self.left, PerName::usual_collisions);
        let few = self.free - self.left - self.name.partly_full;
        let few = self.with_collisions(most, few, PerName::most_collisions);
        let many = self.files(least, self.free + 0.5 * self.taken - 0.5 * self.left);
        let around = Estimate::within(usual, share, EndsBy::Bytes);
        Estimate {
            low: (few * (1.0 - share) - 1.0).max(0.0).min(around.low),
            high: (many * (1.0 + share) + 1.0).max(around.high),
            ..around
        }
    }

    fn with_collisions(&self, per_name: f64, free: f64, collisions: fn(&PerName, f64) -> f64) -> f64 {
        let (mut low, mut high) = (0.0, self.files(per_name, free));
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            let fit = self.files(per_name, free - collisions(&self.name, middle));
            *(if middle <= fit { &mut low } else { &mut high }) = middle;
        }
        high
    }

    fn blocks_per_file(&self) -> f64 {
        self.data as f64 + self.name.usual
    }

    fn at_best(&self, sites: Sites) -> f64 {
        let elsewhere = (self.free - sites.blocks(self.chunk)).max(0.0);
        let alone = self.made + sites.inodes(self.chunk);
        match alone * self.blocks_per_file() <= elsewhere {
            true => alone,
            false => self.shared(sites, elsewhere).max(self.made).min(alone),
        }
    }

    /// Returns the number of files if data take the sites first. The directory of the files takes an inode too.
    fn at_worst(&self, sites: Sites) -> f64 {
        let by_data = self.free / self.blocks_per_file();
        self.shared(sites, 0.0).max((self.made - 2.0).max(0.0).min(by_data))
    }

    fn shared(&self, sites: Sites, elsewhere: f64) -> f64 {
        let (blocks, inodes) = (sites.blocks(self.chunk), sites.inodes(self.chunk));
        let per_inode = if inodes > 0.0 { blocks / inodes } else { 0.0 };
        (blocks + elsewhere + self.made * per_inode) / (per_inode + self.blocks_per_file())
    }

    /// Returns whether the data of this number of files soon take these sites. A few chunks are made before.
    fn soon_taken(&self, sites: Sites, files: f64) -> bool {
        sites.blocks(self.chunk) < FEW_SITES * self.free && files - self.made > FEW_CHUNKS * CHUNK as f64
    }
}

/// Estimates the files if data take free blocks too: at best none that a chunk could have, at worst those first.
fn by_chunks(counted: &sites::SiteCounts, needs: &Needs, blocks: Estimate) -> Estimate {
    let sites::SiteCounts { usable, lasting, safe, ready } = *counted;
    let made_only = (needs.made - 1.0).max(0.0);
    let best = needs.at_best(usable);
    if best <= made_only + 1.0 || needs.made < 1.0 && !ready {
        // Even without data, no group has space for a new inode chunk. The directory of the files takes one inode.
        let files = made_only.min(blocks.files);
        let low = (needs.made - 2.0).max(0.0).min(blocks.low);
        let high = needs.made.min(blocks.high).max(files);
        return Estimate { files, low, high, ends_by: EndsBy::InodeChunks, ..blocks };
    }
    let worst = needs.at_worst(lasting).min(best);
    let least = (needs.made - 2.0).max(0.0).min(blocks.low);
    let within = |files: f64| Estimate {
        files,
        low: least,
        high: best * 1.05 + CHUNK as f64,
        ends_by: EndsBy::InodeChunks,
        after_sync: None,
    };
    if needs.data == 0 && best < blocks.low {
        // Nothing but the directory competes for the sites.
        let low = (worst * 0.95 - 1.0).max(least);
        return Estimate { low: if ready { low } else { least }, ..within(best) };
    }
    let middle = within((worst.max(1.0) * best).sqrt());
    if best < blocks.low || worst < blocks.low && needs.soon_taken(lasting, blocks.files) {
        return middle;
    }
    // An extent that just holds a chunk is not used while a list must be refilled, which the next data to be written
    // require. Data of one block take from the end of an extent and leave the lists as they are (measured).
    if needs.data > 1 && worst < blocks.low && needs.soon_taken(safe, blocks.files) {
        return Estimate { high: middle.high.max(blocks.high), after_sync: Some(blocks.ends_by), ..middle };
    }
    // Data may still take the last sites before the next chunk is needed.
    let few = lasting.blocks(needs.chunk) < FEW_SITES * needs.free;
    let low = if few { worst.min(least) } else { worst };
    Estimate { low: low.min(blocks.low), ..blocks }
}

/// Share of the free blocks in sites for chunks above which data leave enough of them (measured: at 8 to 27 % chunks
/// end it, at 57 % if data are written back meanwhile, at 61 % bytes).
const FEW_SITES: f64 = 0.6;
/// Number of chunks that are made before their sites are taken.
const FEW_CHUNKS: f64 = 8.0;
