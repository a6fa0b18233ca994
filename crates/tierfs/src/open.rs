//! Making, opening and closing a file system over any memory and cold store.

use crate::cold::ColdStore;
use crate::error::TierError;
use crate::evict::Evictor;
use crate::format::{BLOCK, INODE_BYTES, INODES_PER_BLOCK, Identity, Inode, MIN_BLOCKS, Pointer, ROOT_INO, superblock};
use crate::fs::{Change, Mode, Promotion, TierFs, now};
use crate::nvm::Nvm;
use crate::region::{Region, byte};
use crate::rename;
use crate::space::Space;
use crate::stats::Counters;
use crate::survey::{Survey, survey};
use crate::table;
use crate::tree::{Edit, Visible, most_blocks};
use senesce_core::Bytes;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How a file system is to behave while it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// With or without eviction.
    pub mode: Mode,
    /// Leaf blocks in memory above which blocks are evicted.
    pub threshold: Bytes,
    /// Time between two looks of the evictor.
    pub period: Duration,
    /// When cold blocks that are read come back.
    pub promotion: Promotion,
}

impl Default for Options {
    /// The published choice: 40 MB, every 10 ms.
    fn default() -> Self {
        Self {
            mode: Mode::Anticache,
            threshold: Bytes::mib(40),
            period: Duration::from_millis(10),
            promotion: Promotion::Always,
        }
    }
}

/// What `check` found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CheckReport {
    /// What is wrong; empty if the file system is sound.
    pub problems: Vec<String>,
    /// What a crash left and the next mount will put right.
    pub notes: Vec<String>,
    /// Whether it was unmounted cleanly.
    pub clean: bool,
    /// Inodes in use.
    pub inodes: u64,
    /// Leaf blocks of files in memory.
    pub resident_blocks: u64,
    /// Blocks in the cold store.
    pub cold_blocks: u64,
}

/// Blocks kept for changes that free space: one path of a tree for some threads at once.
const RESERVED_BLOCKS: u64 = 32;
const SHARDS: usize = 8;

/// Writes an empty file system into a region, the header last; gives the memory back.
pub fn format_region(nvm: Box<dyn Nvm>, identity: &Identity) -> Result<Box<dyn Nvm>, TierError> {
    let region = Region::new(nvm);
    if region.blocks() < MIN_BLOCKS {
        let least = Bytes(MIN_BLOCKS * BLOCK as u64);
        return Err(TierError::Usage(format!("a region needs at least {least}; choose a larger --nvm-size")));
    }
    // SAFETY: nobody else knows the region yet.
    unsafe { region.zero(0, 2 * BLOCK) };
    let time = now();
    let mode = libc::S_IFDIR | 0o755;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let root = Inode { mode, links: 2, uid, gid, mtime: time, ctime: time, ..Inode::default() };
    table::initialise(&region, BLOCK + ROOT_INO as usize * INODE_BYTES, &root);
    region.store(superblock::INODE_TREE, Pointer::resident(1).0);
    region.store(superblock::STATE, superblock::CLEAN);
    region.persist(0, 2 * BLOCK);
    // SAFETY: as above.
    unsafe { region.write(0, &identity.encode_region()) };
    region.persist(0, BLOCK);
    if region.nvm().failed() {
        let source = std::io::Error::from_raw_os_error(libc::EIO);
        return Err(TierError::Io { operation: "persist", path: "the region".into(), source, remedy: "" });
    }
    Ok(region.into_nvm())
}

/// Reads the identity of a region and compares it with the memory's size.
pub fn identify(nvm: &dyn Nvm, path: &Path) -> Result<Identity, TierError> {
    if nvm.len() < BLOCK {
        return Identity::decode_region(&[], path);
    }
    let mut header = [0; BLOCK];
    // SAFETY: the memory has at least one block and nobody else uses it yet.
    unsafe { std::ptr::copy_nonoverlapping(nvm.base(), header.as_mut_ptr(), BLOCK) };
    let identity = Identity::decode_region(&header, path)?;
    let (found, expected) = (nvm.len() as u64, identity.blocks * BLOCK as u64);
    if found < expected {
        return Err(TierError::Truncated { path: path.into(), found, expected });
    }
    Ok(identity)
}

/// Checks a region without changing it beyond what `nvm` keeps to itself: pass a private mapping.
pub fn check(nvm: Box<dyn Nvm>, path: &Path) -> Result<CheckReport, TierError> {
    let identity = identify(&*nvm, path)?;
    let judged = judge(&Region::new(nvm), identity);
    Ok(CheckReport {
        problems: judged.problems,
        notes: judged.notes,
        clean: judged.clean,
        inodes: judged.found.inodes,
        resident_blocks: judged.found.heat.resident(),
        cold_blocks: judged.found.cold,
    })
}

/// What a check says and a mount needs: both refuse the same.
struct Judged {
    found: Survey,
    problems: Vec<String>,
    notes: Vec<String>,
    clean: bool,
}

/// Finishes a rename that was committed, and looks at everything.
fn judge(region: &Region, identity: Identity) -> Judged {
    let state = region.load(superblock::STATE);
    let clean = state == superblock::CLEAN;
    let mut notes = Vec::new();
    if region.load(superblock::COMMIT_RECORD) != 0 {
        notes.push("a rename was committed and not finished".into());
    }
    let recovered = rename::recover(region);
    let mut found = survey(region, identity);
    let mut problems = std::mem::take(&mut found.problems);
    problems.extend(recovered.err());
    if state != superblock::CLEAN && state != superblock::DIRTY {
        problems.push(format!("the state word is {state}"));
    }
    let left = [
        (found.orphans.len(), "inodes without a name, to be freed"),
        (found.miscounted.len(), "link counts to be corrected"),
    ];
    for (count, what) in left.iter().filter(|(count, _)| *count > 0) {
        let list = if clean { &mut problems } else { &mut notes };
        list.push(format!("{count} {what}"));
    }
    Judged { found, problems, notes, clean }
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
        let region = Region::new(nvm);
        let Judged { mut found, problems, .. } = judge(&region, identity);
        if let Some(first) = problems.first() {
            let problem = format!("{first} ({} problems)", problems.len());
            return Err(TierError::Damaged { path: path.into(), problem });
        }
        region.commit(superblock::STATE, superblock::DIRTY);
        repair(&region, &mut found);
        let threshold = options.threshold.0 / BLOCK as u64;
        let counters = Counters::starting_with(found.cold);
        found.table.give(std::mem::take(&mut found.free_inodes));
        let reserve = RESERVED_BLOCKS.min(identity.blocks / 16);
        Ok(Self {
            blocks: Space::new(identity.blocks, &found.blocks, SHARDS, reserve),
            slots: Space::new(identity.slots, &found.slots, 1, 0),
            region,
            cold,
            identity,
            mode: options.mode,
            promotion: options.promotion,
            heat: found.heat,
            table: found.table,
            directories: found.directories,
            topology: Default::default(),
            growth: Default::default(),
            evictor: Evictor::new(threshold, options.period, identity.slots),
            counters,
        })
    }

    /// What this file system is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// How it behaves.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Marks the file system as cleanly unmounted. Nothing may use it afterwards.
    pub fn close(&self) {
        for ino in 1..self.table.end() {
            if self.table.slot(ino).lookups.swap(0, Ordering::AcqRel) > 0 {
                self.free_if_unused(ino);
            }
        }
        self.region.commit(superblock::STATE, superblock::CLEAN);
    }

    /// Adds a block of free inodes. The caller holds the growth lock.
    pub(crate) fn grow_table(&self) -> crate::error::FsResult<()> {
        let index = u64::from(self.table.block_count());
        let root = Pointer(self.region.load(superblock::INODE_TREE));
        let mut change = self.begin(most_blocks(root, index, index), false)?;
        let mut added = 0;
        let leaf = |change: &mut Change<'_>, _: u64, _: Pointer| {
            added = change.take()?;
            // SAFETY: the block is fresh.
            unsafe { self.region.zero(byte(added), BLOCK) };
            self.region.persist_block(added);
            Ok(Pointer::resident(added))
        };
        let (first, last, visible) = (index, index, Visible::InPlace);
        let edited =
            Edit { region: &self.region, change: &mut change, first, last, visible, punch: false, leaf }.apply(root)?;
        if edited != root {
            self.region.commit(superblock::INODE_TREE, edited.0);
        }
        change.keep();
        self.table.add_block(added);
        let end = self.table.end();
        self.table.give((end - INODES_PER_BLOCK..end).rev());
        Ok(())
    }
}

/// Frees what a crash left without a name and corrects link counts.
fn repair(region: &Region, found: &mut Survey) {
    for ino in std::mem::take(&mut found.orphans) {
        if let Ok(offset) = found.table.offset(ino) {
            table::retire(region, offset);
            found.directories.remove(ino);
            found.free_inodes.push(ino);
        }
    }
    for (ino, links) in std::mem::take(&mut found.miscounted) {
        if let Ok(offset) = found.table.offset(ino)
            && let Some(mut inode) = table::load(region, offset)
        {
            inode.links = links;
            table::commit(region, offset, &inode);
        }
    }
}
