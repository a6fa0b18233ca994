//! A failed persist: nothing changes afterwards, and nothing that was freed is reused.

use super::*;
use crate::table::{InodeSlot, inspect};

fn refuses_changes(fs: &TierFs, a: u32, b: u32) {
    let refused = Some(Errno::ROFS);
    assert_eq!(fs.write(b, 0, &pattern(60 * BLOCK, 3), false).err(), refused);
    assert_eq!(fs.write(a, 0, b"x", false).err(), refused);
    assert_eq!(fs.create(ROOT_INO, b"c", &new(FILE)).err(), refused);
    assert_eq!(fs.link(a, ROOT_INO, b"c").err(), refused);
    assert_eq!(fs.unlink(ROOT_INO, b"b").err(), refused);
    assert_eq!(fs.rmdir(ROOT_INO, b"b").err(), refused);
    assert_eq!(fs.rename(ROOT_INO, b"a", ROOT_INO, b"b", false).err(), refused);
    assert_eq!(fs.set_attr(a, &SetAttr { size: Some(1), ..Default::default() }).err(), refused);
    assert_eq!(fs.set_attr(a, &SetAttr { mode: Some(0), ..Default::default() }).err(), refused);
    assert_eq!(fs.set_xattr(a, b"user.a", b"value", false, false).err(), refused);
    assert_eq!(fs.punch(a, 0, 8192).err(), refused);
    assert_eq!(fs.preallocate(a, 0, 1 << 20, false).err(), refused);
    assert_eq!(fs.evict(100), 0);
    assert_eq!(fs.settled(), Err(Errno::IO), "as fsync says");
}

#[test]
fn blocks_freed_by_a_failed_persist_are_not_reused() {
    let mut failures = 0;
    for persists in 0..9 {
        let (fs, nvm, cold) = small(200, 1000);
        let (a, b) = (filled(&fs, "a", 5, 1), file(&fs, ROOT_INO, "b"));
        nvm.fail_after(persists);
        if fs.write(a, 0, &pattern(5 * BLOCK, 2), false).is_ok() {
            continue;
        }
        failures += 1;
        refuses_changes(&fs, a, b);
        read_all(&fs, a).unwrap();
        fs.forget(a, 1);
        fs.close();
        assert!(!check_image(&nvm.durable()).clean, "after {persists} persists");
        let after = dump(&open_image(&nvm.durable(), &cold, &Options::default()).unwrap()).unwrap();
        assert!([1, 2].map(|seed| pattern(5 * BLOCK, seed)).contains(&after["/a"].content), "{persists} persists");
    }
    assert_eq!(failures, 2, "one sync before the commit, one for it");
}

#[test]
fn eviction_without_durability_frees_no_block() {
    let mut failures = 0;
    for persists in 0..12 {
        let (fs, nvm, cold) = small(200, 1000);
        filled(&fs, "a", 8, 1);
        fs.evict(1);
        nvm.fail_after(persists);
        let free = fs.stats().free_blocks;
        fs.evict(8);
        if fs.settled().is_ok() {
            continue;
        }
        failures += 1;
        let gone = fs.stats().free_blocks - free;
        assert!(gone <= persists as u64, "{gone} blocks freed after {persists} persists");
        let after = open_image(&nvm.durable(), &cold, &Options::default()).unwrap();
        assert_eq!(dump(&after).unwrap()["/a"].content, pattern(8 * BLOCK, 1));
    }
    assert_eq!(failures, 2, "one sync before the commit, one for it");
}

#[test]
fn new_inode_number_stays_in_use_if_its_name_may_be_durable() {
    let mut failures = 0;
    for persists in 0..9 {
        let (fs, nvm, _) = small(200, 100);
        fs.create(ROOT_INO, b"a", &new(FILE)).unwrap();
        nvm.fail_after(persists);
        if fs.create(ROOT_INO, b"b", &new(FILE)).is_ok() {
            continue;
        }
        failures += 1;
        let durable = Region::new(anonymous(&nvm.durable()));
        while let Some(free) = fs.table.take() {
            let at = fs.table.offset(free).unwrap();
            for region in [&fs.region, &durable] {
                assert_eq!(inspect(region, at), InodeSlot::Free, "inode {free} after {persists} persists");
            }
        }
    }
    assert!(failures > 4, "{failures}");
}

#[test]
fn unused_inode_number_is_returned() {
    let (fs, _, _) = small(200, 100);
    fs.create(ROOT_INO, b"a", &new(FILE)).unwrap();
    let free = fs.table.free();
    assert_eq!(fs.create(ROOT_INO, b"a", &new(FILE)).err(), Some(Errno::EXIST));
    assert_eq!(fs.table.free(), free);
}
