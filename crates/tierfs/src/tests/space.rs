//! Everything is released: memory of inodes and directories, slots and their space; eviction resumes.

use super::*;

fn make_many(fs: &TierFs, folder: u32, count: u32) {
    for number in 0..count {
        let attr = fs.create(folder, format!("file-{number}").as_bytes(), &new(FILE)).unwrap();
        fs.forget(attr.ino, 1);
    }
}

#[test]
fn memory_of_inodes_and_directories_is_freed() {
    let (fs, nvm, cold) = small(2000, 100);
    let folder = folder(&fs, ROOT_INO, "d");
    let (before, inodes) = (fs.stats().free_blocks, fs.statfs().free_inodes);
    for round in 0..3 {
        make_many(&fs, folder, 9000);
        assert!(fs.stats().free_blocks < before - 300, "{:?}", fs.stats());
        for number in 0..9000 {
            fs.unlink(folder, format!("file-{number}").as_bytes()).unwrap();
        }
        let after = fs.stats().free_blocks;
        assert!(after + 12 >= before, "round {round}: {before} free blocks became {after}");
        assert_eq!(fs.get_attr(folder).unwrap().size, 0);
    }
    check_image(&nvm.image());
    fs.close();
    let again = open_image(&nvm.image(), &cold, &Options::default()).unwrap();
    assert!(again.stats().free_blocks + 12 >= before);
    assert!(again.statfs().free_inodes + 64 >= inodes);
    make_many(&again, folder, 9000);
    assert_eq!(again.lookup(folder, b"file-8999").unwrap().size, 0);
}

#[test]
fn a_directory_with_few_names_left_keeps_few_blocks() {
    let (fs, nvm, _) = small(2000, 100);
    let folder = folder(&fs, ROOT_INO, "d");
    make_many(&fs, folder, 5000);
    let full = fs.get_attr(folder).unwrap().blocks;
    for number in (0..5000).filter(|number| number % 1000 != 7) {
        fs.unlink(folder, format!("file-{number}").as_bytes()).unwrap();
    }
    let left = fs.get_attr(folder).unwrap().blocks;
    assert!(full > 35 && left < 10, "{full} {left}");
    let mut names = 0;
    fs.read_directory(folder, 0, &mut |_, _, _| (names += 1, true).1).unwrap();
    assert_eq!(names, 5 + 2);
    fs.close();
    let again = open_image(&nvm.image(), &SimCold::default(), &Options::default()).unwrap();
    assert_eq!(again.get_attr(folder).unwrap().blocks, left);
    make_many(&again, ROOT_INO, 10);
    for number in 10_000..13_000 {
        again.create(folder, format!("file-{number}").as_bytes(), &new(FILE)).unwrap();
    }
    assert!(again.lookup(folder, b"file-4007").is_ok() && again.lookup(folder, b"file-12999").is_ok());
    again.close();
}

#[test]
fn inode_number_of_a_freed_block_has_a_new_generation() {
    let (fs, _, _) = small(2000, 100);
    make_many(&fs, ROOT_INO, 2000);
    let last = fs.lookup(ROOT_INO, b"file-1999").unwrap();
    fs.forget(last.ino, 1);
    for number in 0..2000 {
        fs.unlink(ROOT_INO, format!("file-{number}").as_bytes()).unwrap();
    }
    assert_eq!(fs.get_attr(last.ino), Err(Errno::STALE));
    make_many(&fs, ROOT_INO, 2000);
    let again = fs.get_attr(last.ino).unwrap();
    assert_ne!(again.generation, last.generation);
}

#[test]
fn space_of_deleted_content_is_punched_and_that_of_moved_content_is_not() {
    let (fs, _, cold) = small(200, 1000);
    let ino = filled(&fs, "a", 60, 1);
    evict_to(&fs, 60);
    assert_eq!(cold.slots().len(), 60);
    let mut block = [0; BLOCK];
    fs.read(ino, 0, &mut block).unwrap();
    fs.write(ino, BLOCK as u64, &block, false).unwrap();
    assert!(!fs.punch_released(), "moved content");
    remove(&fs, "a", ino);
    assert_eq!(fs.stats().free_cold_blocks, 999);
    while fs.punch_released() {}
    assert_eq!((cold.slots().len(), fs.stats().punched_cold_blocks), (2, 58));
    assert_eq!(fs.stats().free_cold_blocks, 999);
}

#[test]
fn slots_waiting_for_a_punch_are_available_on_demand() {
    let (fs, _, _) = small(200, 100);
    for round in 0..4u8 {
        let ino = filled(&fs, "a", 90, round);
        evict_to(&fs, 90);
        assert_eq!(read_all(&fs, ino), Ok(pattern(90 * BLOCK, round)));
        remove(&fs, "a", ino);
    }
}

#[test]
fn eviction_resumes_once_the_disk_has_space() {
    let (fs, _, cold) = small(200, 1000);
    let ino = filled(&fs, "a", 50, 1);
    fs.evict(1);
    cold.fail_writes(Some(libc::ENOSPC));
    assert_eq!(fs.evict(20), 0);
    assert!(fs.stats().eviction_stopped);
    assert_eq!(fs.evict(20), 0);
    cold.fail_writes(None);
    assert_eq!(fs.evict(20), 20);
    assert!(!fs.stats().eviction_stopped && fs.stats().cold_store_failure.is_some());
    assert_eq!(read_all(&fs, ino), Ok(pattern(50 * BLOCK, 1)));
}

#[test]
fn attributes_fill_a_chain_of_blocks() {
    let (fs, nvm, cold) = small(400, 100);
    let ino = fs.create(ROOT_INO, b"a", &NewInode { gid: 3, ..new(FILE) }).unwrap().ino;
    let before = fs.stats().free_blocks;
    let name = |number: usize| format!("user.attribute_{number}").into_bytes();
    for number in 0..1000 {
        fs.set_xattr(ino, &name(number), format!("value_{number}").as_bytes(), true, false).unwrap();
    }
    fs.set_xattr(ino, b"user.large", &pattern(65_536, 9), false, false).unwrap();
    assert_eq!(fs.set_xattr(ino, b"user.larger", &[0; 65_537], false, false), Err(Errno::TOOBIG));
    let most = (0..9).find(|n| fs.set_xattr(ino, format!("user.l{n}").as_bytes(), &[1; 65_536], false, false).is_err());
    assert_eq!(most, Some(2), "256 KiB are full");
    fs.close();
    let again = open_image(&nvm.image(), &cold, &Options::default()).unwrap();
    assert_eq!(again.list_xattr(ino).unwrap().len(), 1003);
    assert_eq!(again.get_xattr(ino, b"user.large").unwrap(), pattern(65_536, 9));
    assert_eq!(again.get_xattr(ino, &name(999)).unwrap(), b"value_999");
    assert_eq!(again.get_attr(ino).unwrap().blocks as usize, (1000 * 34 + 3 * 65_536usize).div_ceil(4080));
    for number in 0..1000 {
        again.remove_xattr(ino, &name(number)).unwrap();
    }
    for name in ["user.large", "user.l0", "user.l1"] {
        again.remove_xattr(ino, name.as_bytes()).unwrap();
    }
    assert_eq!(again.stats().free_blocks, before);
}

/// The CLOCK hand goes around twice if it finds too few candidates, and passes an unmarked leaf both times.
#[test]
fn leaf_passed_twice_is_evicted_once() {
    let (fs, nvm, _) = small(200, 100);
    for name in ["a", "b"] {
        filled(&fs, name, 1, 7);
    }
    let (free, slots) = (fs.stats().free_blocks, fs.stats().cold_blocks);
    assert_eq!(fs.evict(1), 1, "both lost their marks");
    assert_eq!(fs.evict(20), 1);
    assert_eq!((fs.stats().free_blocks, fs.stats().cold_blocks), (free + 2, slots + 2));
    check_image(&nvm.image());
}
