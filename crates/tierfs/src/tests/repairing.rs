//! Repairs keep inodes that lost their names under adverse conditions.

use super::*;
use parking_lot::Mutex;

const FILES: u8 = 3;

fn content(number: u8) -> Vec<u8> {
    pattern(2 * BLOCK + 7, number)
}

/// Offset of the inode of directory `d`.
fn inode_of_d(fs: &TierFs) -> usize {
    fs.table.offset(fs.lookup(ROOT_INO, b"d").unwrap().ino).unwrap()
}

fn name_of_d(fs: &TierFs) -> usize {
    let root = fs.directory(ROOT_INO).unwrap();
    let names = root.state.read();
    fs.record_at(&names, fs.find_entry(&names, b"d").unwrap().unwrap().position).unwrap()
}

/// A file system with a directory of files, changed by `more`; the byte at `place` is damaged.
fn without_a_directory(place: fn(&TierFs) -> usize, more: impl FnOnce(&TierFs)) -> (Vec<u8>, SimCold) {
    let (fs, nvm, cold) = small(300, 200);
    let folder = folder(&fs, ROOT_INO, "d");
    for number in 0..FILES {
        let ino = fs.create(folder, &[b'a' + number], &new(FILE)).unwrap().ino;
        fs.write(ino, 0, &content(number), false).unwrap();
    }
    more(&fs);
    let at = place(&fs);
    fs.close();
    let mut image = nvm.image();
    image[at] ^= 0x5a;
    (image, cold)
}

fn repaired(image: &[u8], cold: &SimCold) -> (Vec<u8>, RepairReport) {
    let nvm = SimNvm::new(image);
    let report = repair(Box::new(nvm.clone()), Box::new(cold.clone()), Path::new("image")).unwrap();
    (nvm.image(), report)
}

fn nothing_is_missing(image: &[u8], cold: &SimCold, what: &str) {
    let found = dump(&open_image(image, cold, &Options::default()).unwrap()).unwrap();
    for number in 0..FILES {
        assert!(found.values().any(|node| node.content == content(number)), "{what}: file {number} is gone");
    }
}

#[test]
fn file_named_lost_and_found_does_not_abort_a_repair() {
    let (image, cold) =
        without_a_directory(inode_of_d, |fs| assert!(fs.create(ROOT_INO, b"lost+found", &new(FILE)).is_ok()));
    let (image, report) = repaired(&image, &cold);
    assert_eq!(report.kept.len(), usize::from(FILES));
    assert!(report.kept.iter().all(|kept| kept.contains("/lost+found-1/")), "{report:?}");
    nothing_is_missing(&image, &cold, "after the repair");
}

#[test]
fn full_memory_does_not_abort_a_repair() {
    let (image, cold) = without_a_directory(name_of_d, |fs| {
        let [large, small @ ..] = ["large", "1", "2", "3", "4", "5"].map(|name| file(fs, ROOT_INO, name));
        fill_memory(fs, large, 9);
        // A write may need more than is free; an attribute needs one block.
        assert!(small.iter().any(|ino| fs.set_xattr(*ino, b"user.a", b"", false, false).is_err()));
    });
    let (image, report) = repaired(&image, &cold);
    assert_eq!(report.kept.len(), 1, "{report:?}");
    nothing_is_missing(&image, &cold, "after the repair");
}

#[test]
fn nameless_inodes_are_kept_until_there_is_space() {
    let (image, cold) = without_a_directory(name_of_d, |fs| {
        let large = filled(fs, "large", 2, 9);
        let root = fs.load(fs.table.offset(large).unwrap()).unwrap().root;
        // Uses up the remaining memory.
        let mut rest = Vec::new();
        while fs.blocks.take(1, true, &mut rest) {}
        assert!(rest.len() < 500);
        for (child, block) in rest.into_iter().enumerate() {
            fs.region.commit_pointer(byte(root.address()) + (2 + child) * 8, Pointer::resident(block));
        }
    });
    cold.fail_writes(Some(libc::EIO));
    let (image, report) = repaired(&image, &cold);
    assert_eq!((report.kept.len(), report.nameless), (0, 1), "{report:?}");
    let nvm = SimNvm::new(&image);
    let open = || open_nvm(&nvm, &cold, &Options::default());
    let fs = open();
    fs.unlink(ROOT_INO, b"large").unwrap();
    fs.close();
    open().close();
    let (image, report) = repaired(&nvm.image(), &cold);
    assert_eq!((report.kept.len(), report.nameless), (1, 0), "{report:?}");
    nothing_is_missing(&image, &cold, "after the second repair");
}

#[test]
fn interrupted_repair_loses_nothing() {
    let (image, cold) = without_a_directory(inode_of_d, |_| {});
    let nvm = SimNvm::new(&image);
    let left = Arc::new(Mutex::new(Vec::new()));
    let leave = left.clone();
    nvm.set_hook(Box::new(move |stored, durable| leave.lock().extend([stored.to_vec(), durable.to_vec()])));
    repair(Box::new(nvm.clone()), Box::new(cold.clone()), Path::new("image")).unwrap();
    let images = std::mem::take(&mut *left.lock());
    let mut refused = 0;
    for (number, image) in images.iter().enumerate() {
        let what = format!("cut off at {number} of {}", images.len());
        match open_image(image, &cold, &Options::default()) {
            Ok(_) => nothing_is_missing(image, &cold, &what),
            Err(TierError::Damaged { .. }) => refused += 1,
            Err(error) => panic!("{what}: {error}"),
        }
        let (image, _) = repaired(image, &cold);
        nothing_is_missing(&image, &cold, &what);
    }
    assert!(refused > 10, "{refused} of {}", images.len());
}

#[test]
fn repair_without_durability_fails() {
    let (image, cold) = without_a_directory(inode_of_d, |_| {});
    for persists in 0..20 {
        let nvm = SimNvm::new(&image);
        nvm.fail_after(persists);
        let outcome = repair(Box::new(nvm.clone()), Box::new(cold.clone()), Path::new("image"));
        assert!(outcome.is_err(), "after {persists} persists");
        let (image, _) = repaired(&nvm.durable(), &cold);
        nothing_is_missing(&image, &cold, "after another repair");
    }
}
