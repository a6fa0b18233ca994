//! Checks a file system that is not mounted.

use crate::cold::{AlignedBuffer, ColdStore};
use crate::error::TierError;
use crate::format::{BLOCK, Identity, Pointer, superblock};
use crate::nvm::Nvm;
use crate::open::identify;
use crate::paths::paths_of;
use crate::problem::{Fix, Problem};
use crate::region::{Region, sum_of_block};
use crate::rename;
use crate::survey::{EvictedBlock, Purpose, Survey, survey};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CheckReport {
    /// Structural damage; a mount refuses it. Empty if the file system is sound.
    pub problems: Vec<String>,
    /// Number of problems beyond those listed.
    pub more_problems: u64,
    /// Evicted blocks that are unreadable or have a wrong checksum. On a mounted file system, reading them returns EIO.
    pub damaged_blocks: Vec<String>,
    /// Traces of a crash that the next mount cleans up.
    pub notes: Vec<String>,
    /// Whether it was cleanly unmounted.
    pub clean: bool,
    pub inodes: u64,
    /// Leaf blocks of files in memory.
    pub resident_blocks: u64,
    /// Blocks in the cold store.
    pub cold_blocks: u64,
    /// Blocks whose checksum was compared.
    pub verified_blocks: u64,
}

impl CheckReport {
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty() && self.damaged_blocks.is_empty()
    }
}

/// Checks a region without changing it beyond internal state of `nvm`: pass a private mapping. Reads evicted blocks and compares
/// their checksums if there is a cold store.
pub fn check(nvm: Box<dyn Nvm>, cold: Option<&dyn ColdStore>, path: &Path) -> Result<CheckReport, TierError> {
    let identity = identify(&*nvm, path)?;
    let region = Region::of(nvm, &identity);
    let purpose = Purpose { list_evicted: cold.is_some(), ..Purpose::default() };
    let mut judged = judge(&region, identity, purpose);
    let evicted = std::mem::take(&mut judged.found.findings.evicted);
    let compared =
        cold.map(|cold| compare_blocks(&region, cold, evicted, &mut AlignedBuffer::new(RUN))).unwrap_or_default();
    let named =
        judged.problems.iter().map(|problem| problem.ino).chain(compared.damaged.iter().map(|(bad, _)| bad.leaf.ino));
    let paths = paths_of(&region, &judged.found, named);
    if judged.found.lost > 0 {
        judged.notes.push(format!("a repair discarded {} parts of files: reading them returns EIO", judged.found.lost));
    }
    if compared.without_sum > 0 {
        judged.notes.push(format!("{} evicted blocks have no checksum", compared.without_sum));
    }
    Ok(CheckReport {
        problems: judged.problems.iter().map(|problem| with_path(&problem.text, problem.ino, &paths)).collect(),
        more_problems: judged.found.findings.more_problems,
        damaged_blocks: compared.damaged.iter().map(|(bad, why)| damaged_block(bad, why, &paths)).collect(),
        notes: judged.notes,
        clean: judged.clean,
        inodes: judged.found.inodes,
        resident_blocks: judged.found.heat.resident(),
        cold_blocks: judged.found.cold,
        verified_blocks: compared.verified,
    })
}

pub(crate) fn damaged_block(bad: &EvictedBlock, why: &str, paths: &BTreeMap<u32, String>) -> String {
    let text =
        format!("block {} of inode {}, in slot {} of the cold store, {why}", bad.leaf.index, bad.leaf.ino, bad.slot);
    with_path(&text, bad.leaf.ino, paths)
}

pub(crate) fn with_path(text: &str, ino: u32, paths: &BTreeMap<u32, String>) -> String {
    paths.get(&ino).map_or_else(|| text.to_string(), |path| format!("{text} ({path})"))
}

#[derive(Default)]
pub(crate) struct Compared {
    pub damaged: Vec<(EvictedBlock, String)>,
    pub without_sum: u64,
    pub verified: u64,
}

/// Blocks per read of [`compare_blocks`], and the size of its buffer.
pub(crate) const RUN: usize = 256;

/// Reads all evicted blocks in the order of their slots.
pub(crate) fn compare_blocks(
    region: &Region,
    cold: &dyn ColdStore,
    mut evicted: Vec<EvictedBlock>,
    buffer: &mut [u8],
) -> Compared {
    evicted.sort_unstable();
    let mut compared = Compared::default();
    for neighbours in evicted.chunk_by(|a, b| a.slot + 1 == b.slot) {
        for run in neighbours.chunks(RUN) {
            let readable = cold.read(run[0].slot, &mut buffer[..run.len() * BLOCK]).is_ok();
            for (index, here) in run.iter().enumerate() {
                let content = &mut buffer[index * BLOCK..][..BLOCK];
                // An unreadable block fails the whole request, so its neighbours are read again alone.
                match if readable { Ok(()) } else { cold.read(here.slot, content) } {
                    Ok(()) => compared.compare(region.block_sum(here.slot), *here, content),
                    Err(error) => compared.damaged.push((*here, format!("cannot be read: {error}"))),
                }
            }
        }
    }
    compared
}

impl Compared {
    fn compare(&mut self, sum: u32, here: EvictedBlock, content: &[u8]) {
        match sum {
            0 => self.without_sum += 1,
            sum if sum == sum_of_block(here.slot, content) => self.verified += 1,
            _ => self.damaged.push((here, "is damaged: its checksum is wrong".into())),
        }
    }
}

/// Findings that matter to both a check and a mount.
pub(crate) struct CheckResult {
    pub found: Survey,
    pub problems: Vec<Problem>,
    pub notes: Vec<String>,
    pub clean: bool,
}

const UNFINISHED: &str = "a repair was interrupted; run `senesce tier check --repair` again";

/// Completes a committed rename, then walks the whole file system.
pub(crate) fn judge(region: &Region, identity: Identity, purpose: Purpose) -> CheckResult {
    let state = region.load(superblock::STATE);
    let clean = state == superblock::CLEAN;
    let mut notes = Vec::new();
    if region.load(superblock::COMMIT_RECORD) != 0 {
        notes.push("a rename was committed but not completed".into());
    }
    let recovered = rename::recover(region);
    let some_nameless = region.load(superblock::NAMELESS) != 0;
    let keep_orphans = purpose.keep_orphans || some_nameless;
    let mut found = survey(region, identity, Purpose { keep_orphans, ..purpose });
    let mut problems = std::mem::take(&mut found.findings.problems);
    let table_is_read = !problems.iter().any(Problem::is_of_table);
    let mut add = |text: String, fix: Fix| problems.push(Problem { text, ino: 0, fix });
    if let Err(problem) = recovered {
        add(problem, Fix::CommitRecord);
    }
    match state {
        superblock::CLEAN | superblock::DIRTY => {}
        superblock::REPAIRING if purpose.keep_orphans => {}
        superblock::REPAIRING => add(UNFINISHED.into(), Fix::State),
        _ => add(format!("the state word is {state:#x}"), Fix::State),
    }
    let (root, copy) = (region.load(superblock::INODE_TREE), region.load(superblock::INODE_TREE_COPY));
    let is_stale = table_is_read && copy != root;
    if Pointer::unseal(copy).is_none() {
        add("the copy of the pointer to the table of inodes is damaged".into(), Fix::InodeTreeCopy);
    } else if is_stale && clean {
        add("the copy of the pointer to the table of inodes differs from it".into(), Fix::InodeTreeCopy);
    } else if is_stale {
        notes.push("the copy of the pointer to the table of inodes, to be written".into());
    }
    if some_nameless {
        notes.push(format!(
            "{} inodes lost their name and a repair found no space for a new one",
            found.findings.orphans.len()
        ));
    }
    let left = [
        (if some_nameless { 0 } else { found.findings.orphans.len() }, "inodes without a name, to be freed"),
        (found.findings.miscounted.len(), "link counts to be corrected"),
    ];
    for (count, what) in left.iter().filter(|(count, _)| *count > 0) {
        let text = format!("{count} {what}");
        if clean { add(text, Fix::State) } else { notes.push(text) }
    }
    CheckResult { found, problems, notes, clean }
}
