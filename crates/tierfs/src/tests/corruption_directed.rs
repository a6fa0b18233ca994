//! Damage at chosen positions, and its repair.

use super::*;
use crate::format::{FIRST_INODES, entry, entry_kind};
use crate::record::clear_directory_block;

const BLOCKS: u64 = 400;

pub(crate) struct Closed {
    pub image: Vec<u8>,
    cold: SimCold,
    before: Dump,
}

impl Closed {
    /// Changes the bytes at the positions that `make` returns.
    pub(crate) fn damaged(make: impl FnOnce(&TierFs) -> Vec<usize>) -> Self {
        Self::of(make, |fs| dump(fs).unwrap_or_default())
    }

    /// The same without a snapshot of the files.
    fn crafted(make: impl FnOnce(&TierFs)) -> Self {
        Self::of(|fs| (make(fs), Vec::new()).1, |_| Dump::new())
    }

    fn of(make: impl FnOnce(&TierFs) -> Vec<usize>, look: impl FnOnce(&TierFs) -> Dump) -> Self {
        let (fs, nvm, cold) = small(BLOCKS, 1000);
        let places = make(&fs);
        let before = look(&fs);
        fs.close();
        let mut image = nvm.image();
        places.into_iter().for_each(|at| image[at] ^= 0x5a);
        Self { image, cold, before }
    }

    pub(crate) fn check(&self) -> CheckReport {
        check(anonymous(&self.image), Some(&self.cold), Path::new("image")).unwrap()
    }

    pub(crate) fn repair(&mut self) -> RepairReport {
        let nvm = SimNvm::new(&self.image);
        let report = repair(Box::new(nvm.clone()), Box::new(self.cold.clone()), Path::new("image")).unwrap();
        self.image = nvm.image();
        let after = self.check();
        assert!(after.problems.is_empty() && after.clean, "{report:?} {after:?}");
        report
    }

    pub(crate) fn open(&self) -> TierFs {
        open_image(&self.image, &self.cold, &Options::default()).unwrap()
    }

    /// After a repair everything is as before.
    pub(crate) fn assert_restored(mut self, what: &str) {
        let report = self.repair();
        assert_eq!((report.lost.len(), report.kept.len()), (0, 0), "{what}: {report:?}");
        assert!(!report.restored.is_empty(), "{what}: {report:?}");
        assert_eq!(dump(&self.open()).unwrap(), self.before, "{what}");
    }
}

pub(crate) fn many(fs: &TierFs) {
    for number in 0..4 {
        let inside = folder(fs, ROOT_INO, &format!("folder-{number}"));
        for number in 0..40 {
            let ino = file(fs, inside, &format!("file-{number}"));
            fs.write(ino, 0, &pattern(100 + number, number as u8), false).unwrap();
        }
    }
}

pub(crate) fn change(fs: &TierFs, ino: u32, change: impl FnOnce(&mut Inode)) {
    let offset = fs.table.offset(ino).unwrap();
    let mut inode = fs.load(offset).unwrap();
    change(&mut inode);
    table::commit(&fs.region, offset, &inode);
}

/// Adds an entry without checking the name; returns its position.
fn enter(fs: &TierFs, parent: u32, name: &[u8], ino: u32) -> usize {
    let directory = fs.directory(parent).unwrap();
    let mut names = directory.state.write();
    let kind = entry_kind(fs.get_attr(ino).unwrap().mode);
    let position = fs.prepare_entry(parent, &mut names, name, kind).unwrap();
    fs.commit_entry(&mut names, position, name, ino).unwrap();
    fs.record_at(&names, position).unwrap()
}

fn name_at(fs: &TierFs, parent: u32, name: &[u8]) -> usize {
    let directory = fs.directory(parent).unwrap();
    let names = directory.state.read();
    fs.record_at(&names, fs.find_entry(&names, name).unwrap().unwrap().position).unwrap()
}

const LAST: u32 = BLOCKS as u32 - 1;

fn directory_in_the_last_block(fs: &TierFs) {
    let ino = folder(fs, ROOT_INO, "d");
    clear_directory_block(&fs.region, LAST);
    change(fs, ino, |inode| (inode.root, inode.size) = (Pointer::resident(LAST), BLOCK as u64));
}

#[test]
fn damage_in_the_last_block_of_the_region_loses_one_name() {
    let mut closed = Closed::damaged(|fs| {
        directory_in_the_last_block(fs);
        vec![byte(LAST)]
    });
    assert_eq!(closed.repair().lost.len(), 1);
    assert!(closed.open().lookup(ROOT_INO, b"d").is_ok());
}

#[test]
fn record_too_short_for_a_successor_is_repaired() {
    let mut closed = Closed::damaged(|fs| {
        directory_in_the_last_block(fs);
        fs.region.store(byte(LAST) + 8, entry::encode(BLOCK - 8, 0, 0));
        vec![]
    });
    assert_eq!(closed.check().problems.len(), 1);
    closed.repair();
}

fn read(fs: &TierFs, ino: u32, index: usize) -> FsResult<Vec<u8>> {
    let mut block = vec![0; BLOCK];
    fs.read(ino, (index * BLOCK) as u64, &mut block).map(|_| block)
}

fn lost_file(height: u8) -> (TierFs, u32) {
    let mut closed = Closed::crafted(|fs| {
        let ino = file(fs, ROOT_INO, "f");
        fs.write(ino, 0, &pattern(5 * BLOCK, 1), false).unwrap();
        change(fs, ino, |inode| inode.root = Pointer::resident(u32::MAX).with_height(height));
    });
    assert_eq!(closed.repair().lost.len(), 1);
    let fs = closed.open();
    let ino = fs.lookup(ROOT_INO, b"f").unwrap().ino;
    (fs, ino)
}

#[test]
fn discarded_file_does_not_read_as_zeros() {
    for height in 0..8 {
        let (fs, ino) = lost_file(height);
        for index in 0..5 {
            assert_eq!(read(&fs, ino, index), Err(Errno::IO), "height {height}, block {index}");
        }
    }
}

#[test]
fn discarded_file_can_be_overwritten_and_truncated() {
    for height in 0..5 {
        let (fs, ino) = lost_file(height);
        fs.write(ino, 2 * BLOCK as u64, &[7; BLOCK], false).unwrap();
        let readable: Vec<bool> = (0..5).map(|index| read(&fs, ino, index).is_ok()).collect();
        assert_eq!(readable, [false, false, true, false, false], "height {height}");
        fs.write(ino, 5 * BLOCK as u64, &[8; BLOCK], false).unwrap();
        assert_eq!(read(&fs, ino, 5), Ok(vec![8; BLOCK]));
        fs.punch(ino, 0, BLOCK as u64).unwrap();
        assert_eq!(read(&fs, ino, 0), Ok(vec![0; BLOCK]));
        fs.truncate(ino, 3 * BLOCK as u64, |_| {}).unwrap();
        assert_eq!((read(&fs, ino, 1), read(&fs, ino, 2)), (Err(Errno::IO), Ok(vec![7; BLOCK])));
    }
}

#[test]
fn invalid_names_are_discarded() {
    for name in [&b"/"[..], b"a/b", b".", b"..", b"a\0b", b"twice"] {
        let mut closed = Closed::damaged(|fs| {
            file(fs, ROOT_INO, "twice");
            let ino = file(fs, ROOT_INO, "other");
            fs.unlink(ROOT_INO, b"other").unwrap();
            change(fs, ino, |inode| inode.links = 1);
            enter(fs, ROOT_INO, name, ino);
            vec![]
        });
        let report = closed.check();
        assert!(report.problems.iter().any(|problem| problem.contains("entry '")), "{name:?}: {report:?}");
        assert!(open_image(&closed.image, &closed.cold, &Options::default()).is_err(), "{name:?}");
        let report = closed.repair();
        assert_eq!(report.kept.len(), 1, "{name:?}: {report:?}");
        assert!(closed.open().lookup(ROOT_INO, b"twice").is_ok());
    }
}

#[test]
fn one_directory_of_a_cycle_loses_its_name() {
    let mut closed = Closed::damaged(|fs| {
        let a = folder(fs, ROOT_INO, "a");
        let b = folder(fs, a, "b");
        let below = folder(fs, folder(fs, b, "c"), "d");
        file(fs, below, "f");
        let name = name_at(fs, ROOT_INO, b"a");
        enter(fs, b, b"back", a);
        fs.region.commit(name, entry::FREE);
        vec![]
    });
    let report = closed.check();
    assert_eq!(report.problems.len(), 1, "{report:?}");
    let report = closed.repair();
    assert_eq!((report.lost.len(), report.kept.len()), (1, 1), "{report:?}");
    let found = dump(&closed.open()).unwrap();
    assert!(found.keys().any(|path| path.ends_with("/b/c/d/f")), "{:?}", found.keys());
}

#[test]
fn unlisted_problems_are_counted() {
    let closed = Closed::damaged(|fs| {
        let ino = file(fs, ROOT_INO, "f");
        for child in 0..3 {
            fs.write(ino, child * 512 * BLOCK as u64, b"x", false).unwrap();
        }
        let root = fs.load(fs.table.offset(ino).unwrap()).unwrap().root;
        let nodes: Vec<u32> =
            (0..3).map(|child| fs.region.pointer(byte(root.address()) + child * 8).address()).collect();
        nodes.iter().flat_map(|node| (0..512).map(|child| byte(*node) + child * 8)).collect()
    });
    let report = closed.check();
    assert_eq!(report.problems.len() as u64 + report.more_problems, 3 * 512, "{} listed", report.problems.len());
}

fn block_of(fs: &TierFs, ino: u32) -> u32 {
    fs.load(fs.table.offset(ino).unwrap()).unwrap().root.address()
}

#[test]
fn entries_of_a_reused_block_do_not_reappear() {
    const FILES: usize = 20;
    let mut given_up = 0;
    let mut closed = Closed::damaged(|fs| {
        let old = folder(fs, ROOT_INO, "old");
        for number in 0..FILES {
            file(fs, old, &format!("a-name-much-longer-than-a-number-{number}"));
        }
        given_up = block_of(fs, old);
        vec![fs.table.offset(old).unwrap()]
    });
    assert_eq!(closed.repair().kept.len(), FILES);
    let fs = closed.open();
    let again = fs.lookup(ROOT_INO, b"lost+found").unwrap().ino;
    assert_eq!(block_of(&fs, again), given_up, "the block has another directory");
    closed.image[byte(given_up)] ^= 0x5a;
    closed.repair();
    let found = dump(&closed.open()).unwrap();
    assert_eq!(found.len(), 1 + FILES, "{:?}", found.keys());
    assert!(!found.keys().any(|path| path.contains("a-name")), "{:?}", found.keys());
}

/// A file, then a directory with a name whose block the file shares.
fn shared_block(fs: &TierFs) -> [u32; 2] {
    let (ino, folder) = (file(fs, ROOT_INO, "f"), folder(fs, ROOT_INO, "d"));
    file(fs, folder, "inside");
    let root = fs.load(fs.table.offset(folder).unwrap()).unwrap().root;
    change(fs, ino, |inode| (inode.root, inode.size) = (root, BLOCK as u64));
    [ino, folder]
}

#[test]
fn names_are_kept_in_a_block_shared_with_a_file() {
    let mut closed = Closed::damaged(|fs| {
        shared_block(fs);
        vec![]
    });
    let report = closed.repair();
    assert_eq!((report.lost.len(), report.kept.len()), (1, 0), "{report:?}");
    let fs = closed.open();
    assert!(fs.lookup(fs.lookup(ROOT_INO, b"d").unwrap().ino, b"inside").is_ok());
    assert_eq!(read(&fs, fs.lookup(ROOT_INO, b"f").unwrap().ino, 0), Err(Errno::IO));
}

#[test]
fn block_shared_by_two_directories_stays_with_one() {
    let mut closed = Closed::damaged(|fs| {
        let [_, with_names] = shared_block(fs);
        let root = fs.load(fs.table.offset(with_names).unwrap()).unwrap().root;
        let other = folder(fs, ROOT_INO, "other");
        change(fs, other, |inode| (inode.root, inode.size) = (root, BLOCK as u64));
        vec![]
    });
    let report = closed.repair();
    assert_eq!((report.lost.len(), report.kept.len()), (2, 0), "{report:?}");
    let fs = closed.open();
    assert!(fs.lookup(fs.lookup(ROOT_INO, b"d").unwrap().ino, b"inside").is_ok());
}

#[test]
fn directory_that_claims_a_block_of_inodes_is_harmless() {
    let mut closed = Closed::damaged(|fs| {
        many(fs);
        let ino = folder(fs, ROOT_INO, "d");
        let block = Pointer::resident(FIRST_INODES);
        change(fs, ino, |inode| (inode.root, inode.size) = (block, BLOCK as u64));
        vec![]
    });
    let before = closed.before.clone();
    let report = closed.repair();
    assert_eq!((report.lost.len(), report.kept.len()), (1, 0), "{report:?}");
    assert_eq!(dump(&closed.open()).unwrap(), before);
}
