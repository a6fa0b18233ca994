//! A cold store that fails or is full, and full memory.

use super::*;

#[test]
fn unreadable_cold_blocks_only_affect_their_reads() {
    let (fs, _, cold) = small(200, 1000);
    let a = filled(&fs, "a", 20, 1);
    fs.evict(1000);
    let b = filled(&fs, "b", 5, 2);
    cold.fail_reads(true);
    assert_eq!(read_all(&fs, a), Err(Errno::IO));
    assert_eq!(fs.write(a, 10, b"partly overwritten", false), Err(Errno::IO));
    assert_eq!(read_all(&fs, b).unwrap(), pattern(5 * BLOCK, 2));
    fs.write(a, 0, &[9; BLOCK], false).unwrap();
    cold.fail_reads(false);
    let mut expected = pattern(20 * BLOCK, 1);
    expected[..BLOCK].fill(9);
    assert_eq!(read_all(&fs, a).unwrap(), expected);
}

#[test]
fn a_cold_store_that_fails_writes_stops_eviction_and_loses_nothing() {
    for errno in [libc::EIO, libc::ENOSPC] {
        let (fs, nvm, cold) = small(200, 1000);
        let a = filled(&fs, "a", 50, 1);
        assert_eq!(fs.evict(10), 10);
        cold.fail_writes(Some(errno));
        assert_eq!(fs.evict(20), 0);
        assert!(fs.stats().cold_store_failure.unwrap().contains("eviction stopped"));
        let b = file(&fs, ROOT_INO, "b");
        assert!(fill_memory(&fs, b, 7) > 50 * BLOCK as u64);
        assert_eq!(read_all(&fs, a).unwrap(), pattern(50 * BLOCK, 1));
        assert!(read_all(&fs, b).unwrap().iter().all(|byte| *byte == 7));
        remove(&fs, "b", b);
        fs.write(a, 0, &[8; BLOCK], false).unwrap();
        check_image(&nvm.image());
    }
}

#[test]
fn a_full_file_system_can_be_emptied_and_filled_again() {
    let (fs, _, _) = small(128, 200);
    for round in 0..3 {
        let a = file(&fs, ROOT_INO, "a");
        let mut size = 0;
        while fs.write(a, size, &pattern(BLOCK, (size / BLOCK as u64) as u8), false).is_ok() {
            size += BLOCK as u64;
        }
        assert!(size > 280 * BLOCK as u64, "round {round}: {size}");
        fs.evict(1);
        assert!(fs.stats().cold_store_full);
        let data = read_all(&fs, a).unwrap();
        for (index, block) in data.chunks(BLOCK).enumerate() {
            assert_eq!(block, pattern(BLOCK, index as u8), "block {index}");
        }
        fs.punch(a, 8192, 4096).unwrap();
        fs.set_attr(a, &SetAttr { size: Some(size / 2 + 77), ..Default::default() }).unwrap();
        remove(&fs, "a", a);
        let stats = fs.stats();
        assert_eq!((stats.resident_blocks, stats.cold_blocks), (0, 0));
        assert_eq!(stats.free_cold_blocks, 199);
        fs.evict(1);
        assert!(!fs.stats().cold_store_full);
    }
}

#[test]
fn mode_without_eviction_evicts_nothing() {
    let options = Options { mode: crate::Mode::Bpfs, ..Options::default() };
    let fs = open_image(&empty_image(128, 1000), &SimCold::default(), &options).unwrap();
    let a = file(&fs, ROOT_INO, "a");
    assert!(fill_memory(&fs, a, 1) < 128 * BLOCK as u64);
    assert_eq!(fs.stats().evicted, 0);
    assert!(fs.available_blocks() < 3, "a write may need as many");
    assert_eq!(resolve(&fs, "/a").unwrap(), a);
}

#[test]
fn hot_block_survives_the_clock_sweep() {
    let (fs, _, _) = small(400, 1000);
    let a = filled(&fs, "a", 100, 1);
    fs.evict(1);
    let before = fs.stats().fetched;
    for _ in 0..9 {
        let mut block = [0; BLOCK];
        fs.read(a, 50 * BLOCK as u64, &mut block).unwrap();
        fs.evict(10);
    }
    assert_eq!(fs.stats().fetched, before, "the block in use was evicted");
    assert!(fs.stats().cold_blocks > 80);
}

#[test]
fn attributes_are_removed_without_space_or_waiting() {
    let (fs, _, _) = small(128, 200);
    let a = file(&fs, ROOT_INO, "a");
    fs.set_xattr(a, b"user.one", b"value", true, false).unwrap();
    fs.set_xattr(a, b"user.two", &[7; 5000], true, false).unwrap();
    fill_memory(&fs, a, 1);
    while fs.blocks.take(1, false, &mut Vec::new()) {}
    assert_eq!(fs.set_xattr(a, b"user.three", b"value", true, false), Err(Errno::NOSPC));
    let reader = fs.table.slot(a).lock.read();
    fs.drop_capability(a).unwrap();
    assert_eq!(fs.remove_xattr(a, b"user.none"), Err(Errno::NODATA));
    drop(reader);
    fs.remove_xattr(a, b"user.one").unwrap();
    fs.remove_xattr(a, b"user.two").unwrap();
    assert_eq!(fs.list_xattr(a).unwrap(), []);
}

#[test]
fn scrub_counts_blocks_with_correct_sums() {
    let (fs, _, cold) = small(200, 1000);
    filled(&fs, "a", 20, 1);
    evict_to(&fs, 20);
    let counts = |fs: &TierFs| {
        let found = fs.scrub();
        (found.blocks, found.without_sum, found.damaged_blocks)
    };
    assert_eq!(counts(&fs), (20, 0, 0));
    cold.change(cold.slots()[3], |content| content[9] ^= 1);
    assert_eq!(counts(&fs), (19, 0, 1));
    cold.fail_reads(true);
    assert_eq!(counts(&fs), (0, 0, 20));

    let options = Options { block_sums: false, ..Options::default() };
    let fs = open_image(&empty_image(200, 1000), &SimCold::default(), &options).unwrap();
    filled(&fs, "a", 4, 1);
    evict_to(&fs, 4);
    assert_eq!(counts(&fs), (0, 4, 0));
}
