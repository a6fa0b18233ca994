//! Repairs a file system: discards damaged parts and keeps inodes that lost their names in `/lost+found`. Unreferenced parts of
//! the table of inodes are searched for first.

mod missing;

use crate::check::{judge, with_path};
use crate::cold::ColdStore;
use crate::error::{TierError, io_error};
use crate::file::B;
use crate::format::{
    BLOCK, FIRST_INODES, Identity, Inode, MAX_HEIGHT, Pointer, ROOT_INO, entry, entry_kind, superblock,
};
use crate::fs::{TierFs, now};
use crate::namespace::NewInode;
use crate::nvm::{Nvm, open_locked};
use crate::open::{Options, correct_links, free_orphans, identify, persisted, renew_copy};
use crate::paths::paths_of;
use crate::problem::{Fix, Problem};
use crate::record::{LEAST_RECORD, UNIT, clear_directory_block, read_record};
use crate::region::{Region, byte};
use crate::survey::{Purpose, Survey, survey};
use crate::table;
use crate::tree::height_for;
use rustix::io::Errno;
use senesce_volume::guard;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct RepairReport {
    /// Problems whose data are lost, unless listed in `kept`.
    pub lost: Vec<String>,
    /// Problems that were fully restored.
    pub restored: Vec<String>,
    /// Inodes that lost their name, with their new path.
    pub kept: Vec<String>,
    /// Inodes kept without a name for lack of space; a later repair names them.
    pub nameless: usize,
}

const LOST_AND_FOUND: &str = "lost+found";
/// A fix can uncover the level below; each round goes one level deeper.
const MOST_ROUNDS: usize = 10_000;

/// Repairs a region in place. Does not touch evicted blocks: reads of damaged ones return EIO.
pub(crate) fn repair(nvm: Box<dyn Nvm>, cold: Box<dyn ColdStore>, path: &Path) -> Result<RepairReport, TierError> {
    let identity = identify(&*nvm, path)?;
    let region = Region::of(nvm, &identity);
    let purpose = Purpose { keep_orphans: true, ..Purpose::default() };
    let mut report = RepairReport::default();
    let mut before = Vec::new();
    for _ in 0..MOST_ROUNDS {
        let judged = judge(&region, identity, purpose);
        // A mount would free inodes that lost their name and are not yet in /lost+found.
        region.commit(superblock::STATE, superblock::REPAIRING);
        if judged.problems.is_empty() {
            keep_the_rest(region, cold, identity, judged.found, path, &mut report)?;
            return Ok(report);
        }
        if judged.problems == before {
            break;
        }
        let paths = paths_of(&region, &judged.found, judged.problems.iter().map(|problem| problem.ino));
        for (problem, restored) in one_round(&region, &judged.problems, &judged.found) {
            let text = with_path(&problem.text, problem.ino, &paths);
            if restored { report.restored.push(text) } else { report.lost.push(text) }
        }
        persisted(&region, path)?;
        before = judged.problems;
    }
    Err(damaged(path, "the same damage reappears after each repair; the memory itself may be defective"))
}

/// Names nameless inodes of an otherwise sound region and ends the repair.
fn keep_the_rest(
    region: Region,
    cold: Box<dyn ColdStore>,
    identity: Identity,
    mut found: Survey,
    path: &Path,
    report: &mut RepairReport,
) -> Result<(), TierError> {
    renew_copy(&region);
    let nameless = free_orphans(&region, &mut found, true);
    // No other user needs the reserve, and a full file system can evict.
    let fs = TierFs::over(region, cold, identity, found, &Options::default(), 0);
    match fs.keep_nameless(&nameless, report) {
        Ok(()) => {}
        // There will be space after a mount and deletions.
        Err(Errno::NOSPC) => report.nameless = nameless.len() - report.kept.len(),
        Err(error) => {
            let kept = "nothing is freed before a repair has completed";
            let text = format!("inodes that lost their name could not be put into /{LOST_AND_FOUND}: {error}; {kept}");
            return Err(damaged(path, &text));
        }
    }
    fs.region.commit(superblock::NAMELESS, if report.nameless > 0 { superblock::SOME } else { 0 });
    correct_links(&fs.region, &survey(&fs.region, identity, Purpose::default()));
    fs.close();
    persisted(&fs.region, path)
}

/// Maximum number of wrong bytes at which a header is recognised by the other half's.
const MOST_WRONG: usize = 16;

/// Restores the header of one half from the other's if they differ by few bytes.
pub(crate) fn restore_headers(nvm: &Path, cold: &Path) -> Result<(), TierError> {
    let (region, store) = (read_header(nvm)?, read_header(cold)?);
    match (Identity::decode_region(&region, nvm), Identity::decode_cold(&store, cold)) {
        (Err(_), Ok(identity)) => restore(nvm, &region, &identity.encode_region()),
        (Ok(identity), Err(_)) => restore(cold, &store, &identity.encode_cold()),
        _ => Ok(()),
    }
}

fn read_header(path: &Path) -> Result<Vec<u8>, TierError> {
    let mut header = Vec::new();
    let file = File::open(path).map_err(io_error("open", path))?;
    file.take(BLOCK as u64).read_to_end(&mut header).map_err(io_error("read the header of", path))?;
    Ok(header)
}

fn restore(path: &Path, found: &[u8], right: &[u8]) -> Result<(), TierError> {
    let wrong = right.iter().zip(found).filter(|(right, found)| right != found).count();
    if found.len() < BLOCK || wrong > MOST_WRONG {
        return Ok(());
    }
    tracing::warn!("the header of {} was restored from the other half", path.display());
    let file = open_locked(path)?;
    guard::check_not_planted(&file, path)?;
    file.write_all_at(right, 0).and_then(|()| file.sync_data()).map_err(io_error("write the header of", path))
}

fn damaged(path: &Path, problem: &str) -> TierError {
    TierError::Damaged { path: path.into(), problem: problem.into() }
}

/// Applies fixes; returns which problems were fully restored. The table of inodes comes first, because other problems may be
/// consequences. Within it, searches come first, because they may restore names that identify the rest.
fn one_round<'a>(region: &Region, problems: &'a [Problem], found: &Survey) -> Vec<(&'a Problem, bool)> {
    let of_table: Vec<&Problem> = problems.iter().filter(|problem| problem.is_of_table()).collect();
    let restored = of_table.iter().filter(|problem| missing::restore(region, problem.fix, found));
    let restored: Vec<_> = restored.map(|problem| (*problem, true)).collect();
    if !restored.is_empty() {
        return restored;
    }
    let fixed = if of_table.is_empty() { problems.iter().collect() } else { of_table };
    fixed.into_iter().map(|problem| (problem, apply(region, problem.fix, found))).collect()
}

/// Applies a fix; returns whether it lost nothing.
fn apply(region: &Region, fix: Fix, found: &Survey) -> bool {
    let change = |ino: u32, change: &dyn Fn(&mut Inode)| {
        if let Ok(offset) = found.table.offset(ino)
            && let Ok(mut inode) = table::load(region, offset)
        {
            change(&mut inode);
            table::commit(region, offset, &inode);
        }
    };
    match fix {
        // The repair has set it.
        Fix::State => {}
        Fix::InodeTreeCopy => renew_copy(region),
        Fix::CommitRecord => region.commit(superblock::COMMIT_RECORD, 0),
        Fix::InodeTree => missing::set_root(region, Pointer::resident(FIRST_INODES)),
        Fix::InodeBlocks { at, first, height } => missing::give_up(region, found, at, first, height),
        Fix::RootDirectory => make_root(region, found),
        Fix::Word(at, pointer) => region.commit_pointer(at, pointer),
        Fix::Inode(ino) => {
            if let Ok(offset) = found.table.offset(ino) {
                table::retire(region, offset);
            }
        }
        Fix::Tree(ino) => change(ino, &|inode| {
            inode.root = if inode.is_file() { lost_tree(inode) } else { Pointer::HOLE };
            inode.size = if inode.is_directory() { 0 } else { inode.size };
        }),
        Fix::Attributes(ino) => change(ino, &|inode| inode.xattr = Pointer::HOLE),
        Fix::DirectoryBlock(block) => rebuild(region, block),
        Fix::Entry(at) => region.commit(at, entry::FREE),
    }
    matches!(fix, Fix::State | Fix::InodeTreeCopy)
}

/// Returns the root of a tree in which every block of a file is lost.
fn lost_tree(inode: &Inode) -> Pointer {
    let least = height_for(inode.size.saturating_sub(1) / B);
    Pointer::LOST.with_height(inode.root.height().max(least).min(MAX_HEIGHT))
}

fn make_root(region: &Region, found: &Survey) {
    if let Ok(offset) = found.table.offset(ROOT_INO) {
        table::retire(region, offset);
        table::initialise(region, offset, &crate::open::root_inode(now()));
    }
}

/// Keeps the intact entries of a directory's block in place and frees the rest.
fn rebuild(region: &Region, block: u32) {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < BLOCK {
        // The bytes before the first entry become a record.
        let has_space = at == 0 || at >= LEAST_RECORD;
        let record = read_record(region, byte(block) + at).filter(|record| record.ino != 0 && has_space);
        let length = record.as_ref().map_or(UNIT, |record| entry::bytes_for(record.name().len()));
        entries.extend(record.map(|record| (at, record)));
        at += length;
    }
    clear_directory_block(region, block);
    let Some((first, _)) = entries.first() else { return };
    if *first > 0 {
        region.store(byte(block) + 8, entry::encode(*first, 0, 0));
    }
    let ends = entries.iter().map(|(start, _)| *start).skip(1).chain([BLOCK]);
    for ((start, record), end) in entries.iter().zip(ends) {
        let place = byte(block) + start;
        // The bytes up to the next entry belong to this one.
        let shape = entry::encode(end - start, record.name().len(), record.kind);
        region.store(place + 8, shape);
        // SAFETY: the region is not mounted.
        unsafe { region.write(place + entry::HEADER, record.name()) };
        region.store(place, entry::name_inode(place, record.ino, shape, record.name()));
    }
    region.persist_block(block);
}

impl TierFs {
    /// Gives nameless inodes a name in `/lost+found`.
    fn keep_nameless(&self, inodes: &[u32], report: &mut RepairReport) -> Result<(), Errno> {
        if inodes.is_empty() {
            return Ok(());
        }
        let (folder, path) = self.folder_for_the_nameless()?;
        let directory = self.directory(folder)?;
        for ino in inodes {
            let name = format!("{ino}");
            let kind = entry_kind(self.get_attr(*ino)?.mode);
            let mut names = directory.state.write();
            let name = match self.find_entry(&names, name.as_bytes())? {
                Some(_) => format!("{ino}-{}", now()),
                None => name,
            };
            let position = self.prepare_entry(folder, &mut names, name.as_bytes(), kind)?;
            self.commit_entry(&mut names, position, name.as_bytes(), *ino)?;
            report.kept.push(format!("inode {ino}: {path}/{name}"));
        }
        Ok(())
    }

    /// Returns the directory `/lost+found`, or a numbered one if that name is taken; creates it if necessary.
    fn folder_for_the_nameless(&self) -> Result<(u32, String), Errno> {
        let new = NewInode { mode: libc::S_IFDIR | 0o700, uid: 0, gid: 0, rdev: 0, target: b"" };
        let numbered = (1..).map(|number| format!("{LOST_AND_FOUND}-{number}"));
        for name in std::iter::once(LOST_AND_FOUND.to_string()).chain(numbered) {
            let found = match self.create(ROOT_INO, name.as_bytes(), &new) {
                Err(Errno::EXIST) => self.lookup(ROOT_INO, name.as_bytes())?,
                made => made?,
            };
            if self.directory(found.ino).is_ok() {
                return Ok((found.ino, format!("/{name}")));
            }
        }
        Err(Errno::EXIST)
    }
}
