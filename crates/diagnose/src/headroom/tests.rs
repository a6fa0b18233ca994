use super::*;
use proptest::prelude::*;
use senesce_layout::space::{Btrfs, Chunks, Ext, FileSystemDetails, FreeExtent, Profile, Xfs};

fn ext4(free: Vec<FreeExtent>, inodes: u64, held_back: u64, reserve: u64) -> FileSystemSpace {
    let blocks: u64 = free.iter().map(|extent| extent.blocks).sum();
    FileSystemSpace {
        file_system: "ext4".into(),
        block_size: 4096,
        blocks: 2 * blocks,
        free_blocks: blocks,
        user_blocks: blocks.saturating_sub(held_back + reserve),
        inodes: 2 * inodes,
        free_inodes: inodes,
        read_only: false,
        free: Some(free),
        kind: FileSystemDetails::Ext(Ext {
            extents: true,
            inline_data: false,
            cluster_blocks: 1,
            held_back_blocks: held_back,
            dir_index: true,
            large_dir: false,
            metadata_checksums: true,
            uniform_hash: true,
        }),
    }
}

fn pieces(length: u64, every: u64, count: u64) -> Vec<FreeExtent> {
    (0..count).map(|index| FreeExtent { start: 1000 + index * every, blocks: length }).collect()
}

fn xfs(free: Vec<FreeExtent>, sparse_inodes: bool) -> FileSystemSpace {
    let kind = FileSystemDetails::Xfs(Xfs {
        groups: 1,
        group_blocks: 1 << 40,
        inode_size: 512,
        sparse_inodes,
        made_inodes: 64,
        free_made_inodes: 60,
        directory_block: 4096,
        realtime: false,
        inode_percent: 25,
        to_set_aside: 0,
        list_lacks: Vec::new(),
    });
    FileSystemSpace { file_system: "xfs".into(), kind, ..ext4(free, 1 << 30, 0, 0) }
}

fn btrfs(data: (u64, u64), metadata: (u64, u64, u64), holes: &[u64], device: u64, node_size: u64) -> FileSystemSpace {
    let profile = |copies: u64| Profile { copies, on_device: copies, ..Profile::default() };
    let kind = FileSystemDetails::Btrfs(Btrfs {
        data: Chunks { total: data.0, used: data.1, profile: profile(1) },
        metadata: Chunks { total: metadata.0, used: metadata.1, profile: profile(metadata.2) },
        mixed: false,
        global_reserve: 0,
        unallocated: holes.iter().sum(),
        holes: vec![holes.to_vec()],
        device,
        devices: 1,
        node_size,
        checksum_bytes: 4,
    });
    FileSystemSpace { file_system: "btrfs".into(), kind, ..ext4(Vec::new(), 0, 0, 0) }
}

/// Compares with a fill of ext4 of 600 MiB: 26,132 files of 4 KiB and 1,641 of 64 KiB. It had 29,350 free blocks, of
/// which 3,072 are held back.
#[test]
fn ext4_rule_matches_measured_fill() {
    let space = ext4(pieces(29_350, 29_350, 1), 34_201, 3072, 7680);
    for (size, measured) in [(4096, 26_132.0), (65_536, 1641.0), (1 << 20, 102.0)] {
        let found = one(&space, NewFiles::of(size), User::Root).unwrap();
        assert!((found.files as f64 - measured).abs() <= measured * 0.01, "{size}: {found:?}");
        assert_eq!(found.ends_by, EndsBy::Bytes);
        let user = one(&space, NewFiles::of(size), User::User).unwrap();
        assert!(user.files < found.files && user.ends_by == EndsBy::RootReserve, "{user:?}");
    }
    let empty = one(&space, NewFiles::of(0), User::Root).unwrap();
    assert_eq!((empty.files, empty.ends_by), (34_200, EndsBy::Inodes));
}

/// Uses blocks of 1 KiB: 124 * 126 leaves of 44 names, and a level more with large_dir.
#[test]
fn index_limit_of_ext4_follows_its_features() {
    let space = |dir_index, large_dir| {
        let mut space = FileSystemSpace { block_size: 1024, ..ext4(pieces(1 << 24, 1 << 24, 1), 4_000_000, 0, 0) };
        let FileSystemDetails::Ext(ext) = &mut space.kind else { panic!("ext4") };
        (ext.dir_index, ext.large_dir) = (dir_index, large_dir);
        one(&space, NewFiles::of(0), User::Root).unwrap()
    };
    let full = space(true, false);
    assert_eq!(full.ends_by, EndsBy::DirectoryIndex, "{full:?}");
    for (dir_index, large_dir) in [(true, true), (false, false)] {
        let found = space(dir_index, large_dir);
        assert_eq!((found.files, found.ends_by), (3_999_999, EndsBy::Inodes));
    }
}

/// Punches out 3 of 8 blocks: 64 KiB need six pieces and so a block of the tree (measured: 3,192 with 57,046 free
/// blocks).
#[test]
fn fragmented_ext4_matches_measured_fill() {
    let space = ext4(pieces(3, 8, 57_046 / 3), 38_388, 3072, 7680);
    let found = one(&space, NewFiles::of(65_536), User::Root).unwrap();
    assert!((found.files as f64 - 3192.0).abs() < 32.0, "{found:?}");
}

/// Uses free extents of three blocks, which no chunk fits into: only existing inodes are left.
#[test]
fn xfs_without_sites_ends_at_existing_inodes() {
    let space = xfs(pieces(3, 8, 20_000), true);
    let found = one(&space, NewFiles::of(4096), User::Root).unwrap();
    assert_eq!(found.ends_by, EndsBy::InodeChunks);
    assert!(found.low <= 60 && 60 <= found.high && found.high < 200, "{found:?}");
    let space = xfs(pieces(100_000, 100_000, 1), false);
    assert_eq!(one(&space, NewFiles::of(4096), User::Root).unwrap().ends_by, EndsBy::Bytes);
}

/// Compares with punched images of 600 MiB. Extents of six blocks never hold an aligned chunk, those of seven only
/// while their group's list is full.
#[test]
fn fragmented_xfs_matches_measured_fills() {
    let space = |length, every| {
        let mut free = pieces(length, every, 16_046);
        free.extend([120, 186, 249, 7984].map(|blocks| FreeExtent { start: 1 << 30, blocks }));
        xfs(free, true)
    };
    let sixes = space(6, 8);
    for (size, files) in [(4096, 28_507), (65_536, 4571)] {
        let found = one(&sixes, NewFiles::of(size), User::Root).unwrap();
        assert_eq!((found.ends_by, found.ends_by_after_sync), (EndsBy::InodeChunks, None), "{size}: {found:?}");
        assert!(found.low <= files && files <= found.high, "{size}: {found:?}");
    }
    let sevens = space(7, 8);
    for (size, files, ends_by, after_sync) in [
        (4096, 99_085, EndsBy::Bytes, None),
        (65_536, 5595, EndsBy::InodeChunks, Some(EndsBy::Bytes)),
        (1 << 20, 437, EndsBy::Bytes, None),
    ] {
        let found = one(&sevens, NewFiles::of(size), User::Root).unwrap();
        assert_eq!((found.ends_by, found.ends_by_after_sync), (ends_by, after_sync), "{size}: {found:?}");
        assert!(found.low <= files && files <= found.high, "{size}: {found:?}");
    }
}

/// Fills of btrfs of 600 MiB: fresh, half and four fifths full, and with all data chunks full. In the half full one the
/// last chunk of data takes the range after all others and leaves one for metadata before them, which ends it.
#[test]
fn btrfs_rule_matches_measured_fills() {
    /// The start of the space that mkfs frees from its first chunks.
    const FRONT: u64 = 12_582_912;
    let space = |data: (u64, u64), metadata_used: u64, holes: &[u64]| {
        btrfs(data, (33_554_432, metadata_used, 2), holes, 629_145_600, 16_384)
    };
    let fresh = space((8_388_608, 0), 131_072, &[FRONT, 535_822_336 - FRONT]);
    let most = space((531_628_032, 496_910_336), 3_506_176, &[FRONT]);
    let full = space((544_210_944, 543_760_384), 3_997_696, &[]);
    let half = space((343_932_928, 314_351_616), 2_260_992, &[FRONT, 200_278_016 - FRONT]);
    let measured = [
        (&fresh, 0, 772_443, EndsBy::Metadata, 0.08),
        (&fresh, 4096, 100_096, EndsBy::Bytes, 0.15),
        (&fresh, 65_536, 8304, EndsBy::Bytes, 0.005),
        (&fresh, 1 << 20, 519, EndsBy::Bytes, 0.005),
        (&half, 0, 314_300, EndsBy::Metadata, 0.08),
        (&half, 4096, 52_186, EndsBy::Metadata, 0.15),
        (&half, 65_536, 3507, EndsBy::Bytes, 0.005),
        (&most, 0, 70_749, EndsBy::Metadata, 0.08),
        (&most, 4096, 11_548, EndsBy::Bytes, 0.005),
        (&most, 65_536, 721, EndsBy::Bytes, 0.005),
        (&full, 0, 52_625, EndsBy::Metadata, 0.08),
        (&full, 4096, 110, EndsBy::Bytes, 0.005),
    ];
    for (space, size, files, ends_by, error) in measured {
        let found = one(space, NewFiles::of(size), User::Root).unwrap();
        assert_eq!(found.ends_by, ends_by, "{size}: {found:?}");
        assert!(
            (found.files as f64 - f64::from(files)).abs() <= f64::from(files) * error + 1.0,
            "{size}: {files}, {found:?}"
        );
        assert!(found.low <= files as u64 && files as u64 <= found.high, "{size}: {files}, {found:?}");
    }
}

/// Fills with files of 4 KiB, 64 KiB and 1 MiB. Single metadata begin with a chunk of 8 MiB, which reservations for
/// unwritten data soon exceed: another chunk is made of space that data would have taken. With tree blocks of 64 KiB
/// this happens with 32 MiB. The area around a superblock in a full data chunk cannot be used.
#[test]
fn bounds_of_btrfs_include_early_metadata_chunks() {
    const MIB: u64 = 1 << 20;
    let single = |used: u64| (8 * MIB, used, 1);
    let measured = [
        (btrfs((8 * MIB, 0), (32 * MIB, 131_072, 2), &[12 * MIB, 155 * MIB], 256 * MIB, 16_384), [44_197, 2800, 175]),
        (btrfs((8 * MIB, 0), single(131_072), &[235 * MIB], 256 * MIB, 16_384), [54_016, 3375, 231]),
        (btrfs((8 * MIB, 0), single(131_072), &[491 * MIB], 512 * MIB, 16_384), [111_344, 7295, 455]),
        (btrfs((8 * MIB, 0), single(131_072), &[1003 * MIB], 1024 * MIB, 16_384), [201_456, 14_383, 903]),
        (btrfs((8 * MIB, 0), (32 * MIB, 524_288, 2), &[12 * MIB, 411 * MIB], 512 * MIB, 65_536), [77_568, 4848, 303]),
        (btrfs((260_046_848, 203_096_064), single(1_490_944), &[72 * MIB], 333 * MIB, 16_384), [26_176, 1636, 102]),
        (
            btrfs((72 * MIB, 50_061_312), (32 * MIB, 22_675_456, 2), &[12 * MIB, 91 * MIB], 256 * MIB, 16_384),
            [16_194, 1862, 127],
        ),
        (btrfs((478_150_656, 478_085_120), (53_477_376, 3_538_944, 1), &[], 512 * MIB, 16_384), [0, 0, 0]),
    ];
    for (space, files) in measured {
        for (size, files) in SIZES[1..].iter().zip(files) {
            let found = one(&space, NewFiles::of(*size), User::Root).unwrap();
            assert!(found.low <= files && files <= found.high, "{size}: {files}, {found:?}");
            assert!(found.high <= 3 * found.low.max(9), "the bounds are not trivial: {found:?}");
        }
    }
}

/// Counts blocks of the map on ext3: one for a file of 64 KiB. A file of 1 MiB has one with blocks of 4 KiB and five
/// with those of 1 KiB.
#[test]
fn files_without_extents_need_map_blocks_and_cannot_be_preallocated() {
    let space = |block_size, blocks| {
        let mut space = FileSystemSpace { block_size, ..ext4(pieces(blocks, blocks, 1), 1 << 20, 0, 0) };
        let FileSystemDetails::Ext(ext) = &mut space.kind else { panic!("ext4") };
        ext.extents = false;
        space
    };
    for (block_size, size, blocks) in
        [(4096, 65_536, 17), (4096, 1 << 20, 257), (1024, 65_536, 65), (1024, 1 << 20, 1029)]
    {
        let space = space(block_size, 500 * blocks + 12);
        let found = one(&space, NewFiles::of(size), User::Root).unwrap();
        assert!((499..=501).contains(&found.files), "{block_size} {size}: {found:?}");
        assert_eq!(longest_free(&space), []);
    }
}

/// Models XFS of 512 MiB filled with files that were preallocated to nine blocks and truncated. No group has an extent
/// of seven blocks that its list of free blocks does not need. The kernel creates nothing, not even a directory.
#[test]
fn xfs_without_an_extent_for_a_chunk_creates_nothing() {
    let mut space = xfs(pieces(7, 9, 8000), true);
    let FileSystemDetails::Xfs(kind) = &mut space.kind else { panic!("xfs") };
    (kind.free_made_inodes, kind.list_lacks) = (0, vec![5]);
    for size in SIZES {
        let found = one(&space, NewFiles::of(size), User::Root).unwrap();
        assert_eq!((found.low, found.high, found.ends_by), (0, 0, EndsBy::InodeChunks), "{size}: {found:?}");
    }
    let shorter = FileSystemSpace { free: Some(pieces(6, 9, 8000)), ..xfs(pieces(6, 9, 8000), true) };
    let found = one(&shorter, NewFiles::of(0), User::Root).unwrap();
    assert!(found.low <= 60 && found.high <= 60, "only existing inodes: {found:?}");
}

#[test]
fn xfs_with_a_realtime_device_has_no_rule() {
    let mut space = xfs(pieces(100_000, 100_000, 1), true);
    let FileSystemDetails::Xfs(kind) = &mut space.kind else { panic!("xfs") };
    kind.realtime = true;
    assert_eq!((creatable(&space, NAME_BYTES), without_rule(&space).is_some()), (Vec::new(), true));
    assert_eq!(longest_free(&space), []);
}

/// Compares with mkfs.xfs -n size=65536 of 320 MiB: 107,081 empty files with decimal names of 64 bytes, 163,804 with
/// other names of 8 bytes.
#[test]
fn xfs_with_large_directory_blocks_is_uncertain_of_many_names() {
    let mut space = xfs(pieces(58_000, 58_000, 1), true);
    space.free_inodes = 163_776;
    let FileSystemDetails::Xfs(kind) = &mut space.kind else { panic!("xfs") };
    kind.directory_block = 65_536;
    for (name_bytes, measured) in [(64, 107_081), (8, 163_804)] {
        let found = one(&space, NewFiles { size: 0, name_bytes }, User::Root).unwrap();
        assert!(found.low <= measured && measured <= found.high, "{name_bytes}: {found:?}");
    }
}

#[test]
fn long_names_fill_the_index_of_ext4_sooner() {
    let space = FileSystemSpace { block_size: 1024, ..ext4(pieces(520_000, 520_000, 1), 699_989, 4096, 35_840) };
    for (name_bytes, measured) in [(8, 391_107), (64, 94_072), (200, 29_205)] {
        let found = one(&space, NewFiles { size: 0, name_bytes }, User::Root).unwrap();
        assert_eq!(found.ends_by, EndsBy::DirectoryIndex, "{name_bytes}");
        assert!(found.low <= measured && measured <= found.high, "{name_bytes}: {found:?}");
    }
}

/// Compares with two copies of data on devices of 1 and 4 GiB: 752 MiB fitted.
#[test]
fn btrfs_pairs_unequal_devices() {
    const MIB: u64 = 1 << 20;
    let mut space = btrfs((MIB, 0), (256 * MIB, 131_072, 2), &[], 5120 * MIB, 16_384);
    let FileSystemDetails::Btrfs(kind) = &mut space.kind else { panic!("btrfs") };
    let raid1 = Profile { least_devices: 2, most_devices: 2, multiple: 2, copies: 2, ..Profile::default() };
    (kind.data.profile, kind.metadata.profile) = (raid1, raid1);
    (kind.devices, kind.holes) = (2, vec![vec![750 * MIB], vec![3800 * MIB]]);
    let found = one(&space, NewFiles::of(MIB), User::Root).unwrap();
    assert!(found.low <= 752 && found.high >= 745 && found.high < 800, "{found:?}");
}

#[test]
fn longest_free_is_the_sum_of_extents() {
    let mut free = pieces(3, 8, 10);
    free.push(FreeExtent { start: 5000, blocks: 100 });
    let found = longest_free(&ext4(free, 10, 0, 0));
    assert_eq!(found[0], LongestFree { extents: 1, bytes: 100 * 4096 });
    assert_eq!(found[1], LongestFree { extents: 4, bytes: 109 * 4096 });
    let held_back = longest_free(&ext4(pieces(100, 100, 1), 10, 20, 0));
    assert_eq!(
        held_back[0],
        LongestFree { extents: 1, bytes: 79 * 4096 },
        "the kernel's reserve and a block of the map"
    );
}

proptest! {
    #[test]
    fn intervals_hold_their_number_and_larger_files_are_never_more(
        length in 1u64..200, count in 1u64..5000, inodes in 0u64..100_000, sparse: bool
    ) {
        for space in [ext4(pieces(length, length + 3, count), inodes, 100, 200), xfs(pieces(length, length + 3, count), sparse)] {
            let all = creatable(&space, NAME_BYTES);
            for (index, found) in all.iter().enumerate() {
                prop_assert!(found.low <= found.files && found.files <= found.high, "{:?}", found);
                // Two of each size: for users, for root.
                if let Some(larger) = all.get(index + 2) {
                    prop_assert!(larger.files <= found.files && larger.high <= found.high, "{:?} {:?}", found, larger);
                }
            }
            for both in all.chunks(2) {
                prop_assert!(both[0].files <= both[1].files, "{:?}", both);
            }
        }
    }
}
