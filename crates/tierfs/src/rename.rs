//! Rename: two entries in up to two directories change by one commit.
//!
//! Their lowest common ancestor is a node of the tree of inodes. Copying it would move other inodes that other threads use, so
//! the words to store are logged in a record of the superblock, and the record's first word commits them.

use crate::dir::{Directory, Names};
use crate::error::FsResult;
use crate::format::{Inode, entry, entry_kind, superblock};
use crate::fs::{TierFs, now};
use crate::namespace::{check_name, live};
use crate::record::DirEntry;
use crate::region::{Region, Unsynced};
use crate::table;
use crc32c::{crc32c, crc32c_append};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const MOST_WORDS: usize = 8;

/// Stores several words atomically. The caller holds the lock of the record.
fn commit_words(region: &Region, words: &[(usize, u64)]) {
    let at = superblock::COMMIT_RECORD;
    for (index, (address, value)) in words.iter().enumerate() {
        region.store(at + 8 + index * 16, *address as u64);
        region.store(at + 16 + index * 16, *value);
    }
    region.persist(at + 8, words.len() * 16);
    region.commit(at, head_of(words));
    apply(region, words);
}

/// Returns the first word of a record: number of words and checksum.
fn head_of(words: &[(usize, u64)]) -> u64 {
    let count = words.len() as u32;
    let sum = words.iter().fold(crc32c(&count.to_le_bytes()), |sum, (address, value)| {
        crc32c_append(crc32c_append(sum, &(*address as u64).to_le_bytes()), &value.to_le_bytes())
    });
    u64::from(count) | u64::from(sum) << 32
}

fn apply(region: &Region, words: &[(usize, u64)]) {
    let mut unsynced = Unsynced::default();
    for (address, value) in words {
        region.store_unsynced(&mut unsynced, *address, *value);
    }
    region.sync(&mut unsynced);
    region.commit(superblock::COMMIT_RECORD, 0);
}

/// Replays a rename that was committed but not completed.
pub(crate) fn recover(region: &Region) -> Result<(), String> {
    let at = superblock::COMMIT_RECORD;
    let head = region.load(at);
    let count = (head & 0xffff_ffff) as usize;
    if head == 0 {
        return Ok(());
    }
    let mut words = Vec::new();
    for index in 0..count.min(MOST_WORDS) {
        words.push((region.load(at + 8 + index * 16) as usize, region.load(at + 16 + index * 16)));
    }
    let limit = region.blocks() as usize * crate::format::BLOCK;
    let fits = |address: usize| address.is_multiple_of(8) && address < limit;
    if head_of(&words) != head || !words.iter().all(|(a, _)| fits(*a)) {
        return Err("the commit record of a rename is malformed".into());
    }
    apply(region, &words);
    Ok(())
}

struct End<'a> {
    parent: u32,
    directory: &'a Arc<Directory>,
    name: &'a [u8],
}

impl TierFs {
    /// Replaces an existing target unless `no_replace`.
    pub(crate) fn rename(&self, parent: u32, name: &[u8], to: u32, to_name: &[u8], no_replace: bool) -> FsResult<()> {
        check_name(name)?;
        check_name(to_name)?;
        self.changeable()?;
        let _topology = self.topology.lock();
        let (from_directory, to_directory) = (self.directory(parent)?, self.directory(to)?);
        let from = End { parent, directory: &from_directory, name };
        let to = End { parent: to, directory: &to_directory, name: to_name };
        let mut source = from_directory.state.write();
        let mut other = (from.parent != to.parent).then(|| to_directory.state.write());
        live(&source)?;
        live(other.as_deref().unwrap_or(&source))?;
        let moved = self.find_entry(&source, from.name)?.ok_or(Errno::NOENT)?;
        let replaced = self.find_entry(other.as_deref().unwrap_or(&source), to.name)?;
        self.check_rename(&from, &to, moved, replaced, no_replace)?;
        if replaced.is_some_and(|replaced| replaced.ino == moved.ino) {
            return Ok(());
        }
        let target = other.as_deref_mut().unwrap_or(&mut source);
        let position = match replaced {
            Some(entry) => entry.position,
            None => self.prepare_entry(to.parent, target, to.name, moved.kind)?,
        };
        self.commit_rename(&source, other.as_deref().unwrap_or(&source), moved, position, to.name)?;
        self.settled()?;
        if replaced.is_none() {
            let target = other.as_deref_mut().unwrap_or(&mut source);
            target.insert(self.directories.hash(to.name), position);
        }
        self.forget_entry(&mut source, moved.position, from.name);
        self.return_directory_blocks(from.parent, &mut source, moved.position)?;
        self.account_rename(&from, &to, moved, replaced);
        drop(other);
        drop(source);
        self.finish_rename(&from, &to, moved, replaced)
    }

    fn check_rename(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        moved: DirEntry,
        replaced: Option<DirEntry>,
        no_replace: bool,
    ) -> FsResult<()> {
        let is_directory = |entry: DirEntry| entry.kind == entry_kind(libc::S_IFDIR);
        if is_directory(moved) && from.parent != to.parent && self.is_inside(to.parent, moved.ino) {
            return Err(Errno::INVAL);
        }
        let Some(replaced) = replaced else { return Ok(()) };
        if no_replace {
            return Err(Errno::EXIST);
        }
        match (is_directory(moved), is_directory(replaced)) {
            _ if moved.ino == replaced.ino => Ok(()),
            (true, false) => Err(Errno::NOTDIR),
            (false, true) => Err(Errno::ISDIR),
            (true, true) if replaced.ino == from.parent => Err(Errno::NOTEMPTY),
            (true, true) => self.empty_and_removed(&*self.directory(replaced.ino)?),
            (false, false) => Ok(()),
        }
    }

    /// Returns whether directory `ino` is `ancestor` or below it. The topology lock protects parents.
    fn is_inside(&self, mut ino: u32, ancestor: u32) -> bool {
        while ino != crate::format::ROOT_INO {
            if ino == ancestor {
                return true;
            }
            match self.directories.get(ino) {
                Some(directory) => ino = directory.parent.load(Ordering::Relaxed),
                None => return false,
            }
        }
        ancestor == crate::format::ROOT_INO
    }

    fn commit_rename(
        &self,
        source: &Names,
        target: &Names,
        moved: DirEntry,
        position: u32,
        to_name: &[u8],
    ) -> FsResult<()> {
        let (old, new) = (self.record_at(source, moved.position)?, self.record_at(target, position)?);
        let shape = entry::encode(entry::record(self.region.load(new + 8)), to_name.len(), moved.kind);
        let first = entry::name_inode(new, moved.ino, shape, to_name);
        commit_words(&self.region, &[(new, first), (new + 8, shape), (old, entry::FREE)]);
        Ok(())
    }

    /// Updates parents and counts of subdirectories, which are in memory only.
    fn account_rename(&self, from: &End<'_>, to: &End<'_>, moved: DirEntry, replaced: Option<DirEntry>) {
        let directory_kind = entry_kind(libc::S_IFDIR);
        if replaced.is_some_and(|entry| entry.kind == directory_kind) {
            to.directory.subdirectories.fetch_sub(1, Ordering::Relaxed);
        }
        if moved.kind == directory_kind {
            from.directory.subdirectories.fetch_sub(1, Ordering::Relaxed);
            to.directory.subdirectories.fetch_add(1, Ordering::Relaxed);
            if let Some(directory) = self.directories.get(moved.ino) {
                directory.parent.store(to.parent, Ordering::Relaxed);
            }
        }
    }

    fn finish_rename(&self, from: &End<'_>, to: &End<'_>, moved: DirEntry, replaced: Option<DirEntry>) -> FsResult<()> {
        if let Some(replaced) = replaced {
            self.change_links(replaced.ino, -1)?;
        }
        let (offset, slot) = self.find(moved.ino)?;
        {
            let _guard = slot.lock.write();
            let inode = Inode { ctime: now(), ..self.load(offset)? };
            table::commit(&self.region, offset, &inode);
        }
        self.touch_directory(from.parent)?;
        if from.parent != to.parent {
            self.touch_directory(to.parent)?;
        }
        self.settled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvm::MappedNvm;

    #[test]
    fn committed_record_is_applied_and_malformed_one_refused() {
        let region = Region::new(Box::new(MappedNvm::anonymous(1 << 20).unwrap()));
        commit_words(&region, &[(8192, 5), (8200, 6)]);
        assert_eq!((region.load(8192), region.load(8200)), (5, 6));
        assert_eq!(region.load(superblock::COMMIT_RECORD), 0);
        recover(&region).unwrap();

        region.store(superblock::COMMIT_RECORD + 8, 8192);
        region.store(superblock::COMMIT_RECORD + 16, 9);
        region.store(superblock::COMMIT_RECORD, head_of(&[(8192, 9)]));
        recover(&region).unwrap();
        assert_eq!(region.load(8192), 9);
        region.store(superblock::COMMIT_RECORD, 77);
        assert!(recover(&region).is_err());
    }
}
