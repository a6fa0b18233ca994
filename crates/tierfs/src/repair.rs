//! Putting a damaged file system right: what is damaged is given up, what hangs below it is kept in `/lost+found`.

use crate::check::{judge, with_path};
use crate::cold::ColdStore;
use crate::error::{TierError, io_error};
use crate::format::{BLOCK, INODES_PER_BLOCK, Identity, Inode, Pointer, ROOT_INO, entry, entry_kind, superblock};
use crate::fs::{TierFs, now};
use crate::namespace::NewInode;
use crate::nvm::{Nvm, open_locked};
use crate::open::{Options, identify, persisted};
use crate::paths::paths_of;
use crate::problem::Fix;
use crate::record::{clear_directory_block, read_record};
use crate::region::{Region, byte};
use crate::survey::{Purpose, Survey};
use crate::table;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RepairReport {
    /// What was wrong, and so is lost, as far as it is not in `kept`.
    pub lost: Vec<String>,
    /// What has lost its name, and the path that it has now.
    pub kept: Vec<String>,
}

const LOST_AND_FOUND: &str = "lost+found";
/// A fix can uncover what hangs below; each round looks one level deeper.
const MOST_ROUNDS: usize = 10_000;

/// Repairs a region in place. Evicted blocks stay as they are: those that are damaged are answered with EIO.
///
/// # Errors
/// The region is not one of ours, or what is damaged cannot be given up.
pub fn repair(nvm: Box<dyn Nvm>, cold: Box<dyn ColdStore>, path: &Path) -> Result<RepairReport, TierError> {
    let identity = identify(&*nvm, path)?;
    let region = Region::of(nvm, &identity);
    let purpose = Purpose { keep_orphans: true, ..Purpose::default() };
    let mut report = RepairReport { lost: Vec::new(), kept: Vec::new() };
    for _ in 0..MOST_ROUNDS {
        let judged = judge(&region, identity, purpose);
        // A mount would free what has lost its name and is not yet in /lost+found.
        region.commit(superblock::STATE, superblock::REPAIRING);
        if judged.problems.is_empty() {
            keep_the_rest(region, cold, identity, judged.found, path, &mut report)?;
            return Ok(report);
        }
        let paths = paths_of(&region, &judged.found, judged.problems.iter().map(|problem| problem.ino));
        for problem in judged.problems {
            apply(&region, problem.fix, &judged.found);
            report.lost.push(with_path(&problem.text, problem.ino, &paths));
        }
        persisted(&region, path)?;
    }
    Err(damaged(path, "what is damaged comes back after each repair; the memory itself may be broken"))
}

/// Names what has no name, in a region in which nothing is wrong any more, and ends the repair.
fn keep_the_rest(
    region: Region,
    cold: Box<dyn ColdStore>,
    identity: Identity,
    mut found: Survey,
    path: &Path,
    report: &mut RepairReport,
) -> Result<(), TierError> {
    let nameless = nameless(&region, &mut found);
    // Nobody else needs the reserve, and what is full can be evicted.
    let fs = TierFs::over(region, cold, identity, found, &Options::default(), 0);
    fs.keep_nameless(&nameless, report).map_err(|error| {
        let kept = "nothing of it is freed before a repair has ended";
        damaged(path, &format!("what has lost its name could not be put into /{LOST_AND_FOUND}: {error}; {kept}"))
    })?;
    fs.correct_links();
    fs.close();
    persisted(&fs.region, path)
}

/// Bytes of a header that may be wrong for it to be recognised by the other half's.
const MOST_WRONG: usize = 16;

/// Writes the header of one half anew from the other's, if it is all but the same.
///
/// # Errors
/// The files cannot be read or written.
pub fn restore_headers(nvm: &Path, cold: &Path) -> Result<(), TierError> {
    let (region, store) = (read_header(nvm)?, read_header(cold)?);
    match (Identity::decode_region(&region, nvm), Identity::decode_cold(&store, cold)) {
        (Err(_), Ok(identity)) => restore(nvm, &region, &identity.encode_region()),
        (Ok(identity), Err(_)) => restore(cold, &store, &identity.encode_cold()),
        _ => Ok(()),
    }
}

fn read_header(path: &Path) -> Result<Vec<u8>, TierError> {
    let mut header = vec![0; BLOCK];
    let file = File::open(path).map_err(io_error("open", path))?;
    let mut got = 0;
    while got < BLOCK {
        match file.read_at(&mut header[got..], got as u64).map_err(io_error("read the header of", path))? {
            0 => break,
            more => got += more,
        }
    }
    header.truncate(got);
    Ok(header)
}

fn restore(path: &Path, found: &[u8], right: &[u8]) -> Result<(), TierError> {
    let wrong = right.iter().zip(found).filter(|(right, found)| right != found).count();
    if found.len() < BLOCK || wrong > MOST_WRONG {
        return Ok(());
    }
    tracing::warn!("the header of {} is restored from the other half's", path.display());
    let file = open_locked(path)?;
    file.write_all_at(right, 0).and_then(|()| file.sync_data()).map_err(io_error("write the header of", path))
}

fn damaged(path: &Path, problem: &str) -> TierError {
    TierError::Damaged { path: path.into(), problem: problem.into() }
}

fn apply(region: &Region, fix: Fix, found: &Survey) {
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
        Fix::CommitRecord => region.commit(superblock::COMMIT_RECORD, 0),
        Fix::InodeTree => restore_inode_tree(region),
        Fix::RootDirectory => make_root(region, found),
        Fix::Word(at, pointer) => region.commit_pointer(at, pointer),
        Fix::Inode(ino) => {
            if let Ok(offset) = found.table.offset(ino) {
                table::retire(region, offset);
            }
        }
        Fix::Tree(ino) => change(ino, &|inode| {
            inode.root = if inode.is_file() { Pointer::LOST } else { Pointer::HOLE };
            inode.size = if inode.is_directory() { 0 } else { inode.size };
        }),
        Fix::Attributes(ino) => change(ino, &|inode| inode.xattr = Pointer::HOLE),
        Fix::DirectoryBlock(block) => rebuild(region, block),
        Fix::Entry(at) => region.commit(at, entry::FREE),
    }
}

/// The table of inodes from the copy of its root; without that, as far as its first block reaches.
fn restore_inode_tree(region: &Region) {
    let copy = Pointer::unseal(region.load(superblock::INODE_TREE_COPY));
    let damaged = Pointer::unseal(region.load(superblock::INODE_TREE)).is_none();
    let root = copy.filter(|root| damaged && root.is_resident()).unwrap_or(Pointer::resident(FIRST_INODES));
    if root == Pointer::resident(FIRST_INODES) && Pointer::unseal(region.load(superblock::INODE_TREE)) == Some(root) {
        table::clear_block(region, FIRST_INODES, 0);
        region.persist_block(FIRST_INODES);
    }
    region.commit_pointer(superblock::INODE_TREE, root);
    region.commit_pointer(superblock::INODE_TREE_COPY, root);
}

/// Block of the inodes below [`INODES_PER_BLOCK`].
const FIRST_INODES: u32 = 1;

fn make_root(region: &Region, found: &Survey) {
    let offset = found.table.offset(ROOT_INO).unwrap_or(byte(FIRST_INODES) + crate::format::INODE_BYTES);
    const _: () = assert!(ROOT_INO < INODES_PER_BLOCK);
    table::retire(region, offset);
    table::initialise(region, offset, &crate::open::root_inode(now()));
}

/// Keeps the intact entries of a directory's block where they are, and makes the rest free.
fn rebuild(region: &Region, block: u32) {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < BLOCK {
        let record = read_record(region, byte(block) + at).filter(|record| record.ino != 0);
        let length = record.as_ref().map_or(8, |record| entry::bytes_for(record.name().len()));
        entries.extend(record.map(|record| (at, record)));
        at += length;
    }
    clear_directory_block(region, block);
    let mut free_from = 0;
    let ends = entries.iter().map(|(start, _)| *start).skip(1).chain([BLOCK]);
    for ((start, record), end) in entries.iter().zip(ends) {
        if *start > free_from {
            region.store(byte(block) + free_from, entry::FREE);
            region.store(byte(block) + free_from + 8, entry::encode(start - free_from, 0, 0));
        }
        let place = byte(block) + start;
        // The rest up to the next entry belongs to this one.
        let shape = entry::encode(end - start, record.name().len(), record.kind);
        region.store(place + 8, shape);
        // SAFETY: the region is not mounted.
        unsafe { region.write(place + entry::HEADER, record.name()) };
        region.store(place, entry::name_inode(place, record.ino, shape, record.name()));
        free_from = end;
    }
    region.persist_block(block);
}

/// Inodes that lost their names in the damage; what a crash left over is freed.
fn nameless(region: &Region, found: &mut Survey) -> Vec<u32> {
    let mut nameless = Vec::new();
    for ino in std::mem::take(&mut found.orphans) {
        let Ok(offset) = found.table.offset(ino) else { continue };
        if table::load(region, offset).is_ok_and(|inode| inode.links > 0) {
            nameless.push(ino);
        } else {
            table::retire(region, offset);
            found.directories.remove(ino);
            found.free_inodes.push(ino);
        }
    }
    nameless
}

impl TierFs {
    /// Gives inodes without a name one in `/lost+found`.
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

    /// The directory `/lost+found`, or a numbered one where something else has that name; made if there is none.
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

    /// Sets the links of all inodes to what a walk counts.
    fn correct_links(&self) {
        let found = crate::survey::survey(&self.region, self.identity, Purpose::default());
        for (ino, links) in found.miscounted {
            if let Ok(offset) = self.table.offset(ino)
                && let Ok(mut inode) = self.load(offset)
            {
                inode.links = links;
                table::commit(&self.region, offset, &inode);
            }
        }
    }
}
