//! Formats, opens and closes a file system over any memory and cold store.

use crate::check::{CheckResult, judge};
use crate::cold::ColdStore;
use crate::error::{FsResult, TierError};
use crate::evict::Evictor;
use crate::format::{BLOCK, INODE_BYTES, INODES_PER_BLOCK, Identity, Inode, Pointer, ROOT_INO, SUMS_FIRST, superblock};
use crate::fs::{Change, Mode, Promotion, TierFs, now};
use crate::nvm::Nvm;
use crate::region::Region;
use crate::space::Space;
use crate::stats::Counters;
use crate::survey::{Purpose, Survey};
use crate::table;
use crate::tree::{Edit, Visible, most_blocks};
use rustix::io::Errno;
use senesce_core::Bytes;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub mode: Mode,
    /// Number of bytes of leaf blocks in memory above which blocks are evicted.
    pub threshold: Bytes,
    pub period: Duration,
    pub promotion: Promotion,
    pub block_sums: bool,
}

impl Default for Options {
    /// Returns the published choice: 40 MB, every 10 ms.
    fn default() -> Self {
        Self {
            mode: Mode::Anticache,
            threshold: Bytes::mib(40),
            period: Duration::from_millis(10),
            promotion: Promotion::Always,
            block_sums: true,
        }
    }
}

/// Blocks reserved for changes that free space: one path of a tree for several threads at once.
const RESERVED_BLOCKS: u64 = 32;
const SHARDS: usize = 8;

/// Writes an empty file system into a region, the header last; returns the memory.
pub fn format_region(nvm: Box<dyn Nvm>, identity: &Identity) -> Result<Box<dyn Nvm>, TierError> {
    let region = Region::new(nvm);
    identity.check_sizes().map_err(TierError::Usage)?;
    let sums = identity.sum_blocks();
    let written = (SUMS_FIRST as usize + sums as usize) * BLOCK;
    // SAFETY: no other reference to the region exists yet.
    unsafe { region.zero(0, written) };
    table::clear_block(&region, 1, 0);
    table::initialise(&region, BLOCK + ROOT_INO as usize * INODE_BYTES, &root_inode(now()));
    region.store_pointer(superblock::INODE_TREE, Pointer::resident(1));
    region.store_pointer(superblock::INODE_TREE_COPY, Pointer::resident(1));
    region.store(superblock::STATE, superblock::CLEAN);
    region.persist(0, written);
    // SAFETY: as above.
    unsafe { region.write(0, &identity.encode_region()) };
    region.persist(0, BLOCK);
    persisted(&region, Path::new("the region"))?;
    Ok(region.into_nvm())
}

/// Fails if a store did not become durable.
pub(crate) fn persisted(region: &Region, path: &Path) -> Result<(), TierError> {
    if !region.nvm().failed() {
        return Ok(());
    }
    let source = std::io::Error::from_raw_os_error(libc::EIO);
    let remedy = "inspect the disk that holds the region, then run `senesce tier check`";
    Err(TierError::Io { operation: "make durable", path: path.into(), source, remedy })
}

/// Returns an empty root directory owned by this process.
pub(crate) fn root_inode(time: i64) -> Inode {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mode = libc::S_IFDIR | 0o755;
    Inode { mode, links: 2, uid, gid, mtime: time, ctime: time, atime: time, ..Inode::default() }
}

pub(crate) fn identify(nvm: &dyn Nvm, path: &Path) -> Result<Identity, TierError> {
    if nvm.len() < BLOCK {
        return Identity::decode_region(&[], path);
    }
    let mut header = [0; BLOCK];
    // SAFETY: the memory has at least one block, and nothing else uses it yet.
    unsafe { std::ptr::copy_nonoverlapping(nvm.base(), header.as_mut_ptr(), BLOCK) };
    let identity = Identity::decode_region(&header, path)?;
    identity.check_sizes().map_err(|problem| TierError::Damaged { path: path.into(), problem })?;
    let (found, expected) = (nvm.len() as u64, identity.blocks * BLOCK as u64);
    if found < expected {
        return Err(TierError::Truncated { path: path.into(), found, expected });
    }
    Ok(identity)
}

impl TierFs {
    /// Opens the file system in `nvm`; its cold blocks are in `cold`. `path` names the region in messages.
    pub fn open(
        nvm: Box<dyn Nvm>,
        cold: Box<dyn ColdStore>,
        path: &Path,
        options: &Options,
    ) -> Result<Self, TierError> {
        let identity = identify(&*nvm, path)?;
        let region = Region::of(nvm, &identity);
        let CheckResult { mut found, problems, .. } = judge(&region, identity, Purpose::default());
        if let Some(first) = problems.first() {
            let count = problems.len() as u64 + found.findings.more_problems;
            let problem = format!("{} ({count} problems)", first.text);
            return Err(TierError::Damaged { path: path.into(), problem });
        }
        region.commit(superblock::STATE, superblock::DIRTY);
        put_right(&region, &mut found);
        persisted(&region, path)?;
        let reserve = RESERVED_BLOCKS.min(identity.blocks / 16);
        Ok(Self::over(region, cold, identity, found, options, reserve))
    }

    /// Creates the file system over a sound region; `reserve` blocks are kept for changes that free space.
    pub(crate) fn over(
        region: Region,
        cold: Box<dyn ColdStore>,
        identity: Identity,
        mut found: Survey,
        options: &Options,
        reserve: u64,
    ) -> Self {
        let threshold = options.threshold.0 / BLOCK as u64;
        let counters = Counters::starting_with(found.cold);
        found.table.note_gone();
        found.table.give(std::mem::take(&mut found.findings.free_inodes));
        Self {
            blocks: Space::new(identity.blocks, &found.blocks, SHARDS, reserve),
            slots: Space::new(identity.slots, &found.slots, 1, 0),
            region,
            cold,
            identity,
            mode: options.mode,
            promotion: options.promotion,
            block_sums: options.block_sums,
            heat: found.heat,
            table: found.table,
            directories: found.directories,
            topology: Default::default(),
            growth: Default::default(),
            evictor: Evictor::new(threshold, options.period, identity.slots),
            released: Default::default(),
            caretaker: Default::default(),
            scrubbed: Default::default(),
            past_cache: Default::default(),
            counters,
        }
    }

    /// Marks the file system as cleanly unmounted, unless a persist failed. It must not be used afterwards.
    pub fn close(&self) {
        for ino in 1..self.table.end() {
            if self.table.slot(ino).lookups.swap(0, Ordering::AcqRel) > 0 {
                self.free_if_unused(ino);
            }
        }
        if self.settled().is_ok() {
            self.region.commit(superblock::STATE, superblock::CLEAN);
        }
    }

    /// Adds a block of free inodes. The caller holds the growth lock.
    pub(crate) fn grow_table(&self) -> FsResult<()> {
        let index = u64::from(self.table.next_block());
        let root = self.table_root()?;
        let mut change = self.begin(most_blocks(root, index, index), false)?;
        let mut added = 0;
        let leaf = |change: &mut Change<'_>, _: u64, _: Pointer| {
            added = change.take()?;
            table::clear_block(&self.region, added, self.table.newest_generation());
            change.unsynced.add_block(added);
            Ok(Pointer::resident(added))
        };
        let edited = Edit::new(&self.region, &mut change, (index, index), Visible::InPlace, leaf).apply(root)?;
        change.sync();
        if edited != root {
            self.region.commit_pointer(superblock::INODE_TREE, edited);
            self.region.commit_pointer(superblock::INODE_TREE_COPY, edited);
        }
        change.keep();
        self.table.set_block(index as u32, added);
        let first = index as u32 * INODES_PER_BLOCK;
        self.table.give(first..first + INODES_PER_BLOCK);
        Ok(())
    }

    /// Returns the root of the table of inodes; EIO if it is damaged, so that its copy is not overwritten.
    fn table_root(&self) -> FsResult<Pointer> {
        let root = self.region.pointer(superblock::INODE_TREE);
        if root.is_lost() { Err(Errno::IO) } else { Ok(root) }
    }

    pub(crate) fn return_inode_blocks(&self) {
        if !self.table.has_too_many() || self.changeable().is_err() {
            return;
        }
        let _guard = self.growth.lock();
        let Ok(root) = self.table_root() else { return };
        while let Some(index) = self.table.take_block() {
            let Some(mut change) = self.try_begin(0, true) else { return };
            // The first block holds the root directory, so the tree never becomes empty.
            let index = u64::from(index);
            self.table.remove_block(&self.region, index as u32);
            if self.cut(&mut change, root, index, index, Visible::InPlace).is_ok() {
                change.free_dropped();
            }
            if self.changeable().is_err() {
                return;
            }
        }
    }
}

/// Updates the copy of the table's root, which was stored before.
pub(crate) fn renew_copy(region: &Region) {
    let root = region.load(superblock::INODE_TREE);
    if region.load(superblock::INODE_TREE_COPY) != root {
        region.commit(superblock::INODE_TREE_COPY, root);
    }
}

/// Frees what a crash left without a name, and corrects link counts and the copy of the table's root.
fn put_right(region: &Region, found: &mut Survey) {
    renew_copy(region);
    free_orphans(region, found, region.load(superblock::NAMELESS) != 0);
    correct_links(region, found);
}

/// Frees orphans of a crash. With `keep`, returns inodes that lost their names in the damage instead of freeing them.
pub(crate) fn free_orphans(region: &Region, found: &mut Survey, keep: bool) -> Vec<u32> {
    let mut kept = Vec::new();
    for ino in std::mem::take(&mut found.findings.orphans) {
        let Ok(offset) = found.table.offset(ino) else { continue };
        if keep && table::load(region, offset).is_ok_and(|inode| inode.links > 0) {
            kept.push(ino);
        } else {
            table::retire(region, offset);
            found.directories.remove(ino);
            found.findings.free_inodes.push(ino);
        }
    }
    kept
}

pub(crate) fn correct_links(region: &Region, found: &Survey) {
    for (ino, links) in &found.findings.miscounted {
        if let Ok(offset) = found.table.offset(*ino)
            && let Ok(mut inode) = table::load(region, offset)
        {
            inode.links = *links;
            table::commit(region, offset, &inode);
        }
    }
}
