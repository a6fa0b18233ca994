//! Compares results with other tools on the same image.

use crate::common::{Image, grow_tree, run};
use senesce_layout::{FreeSpace, Layout, Method, Options};
use std::collections::BTreeMap;

const FILES: u64 = 10_000;

fn examine(image: &Image, method: Option<Method>) -> Layout {
    let options = Options { method, per_file: true, ..Options::default() };
    Layout::examine(&image.mount_point(), &options).unwrap()
}

/// Every file's extents as counted by filefrag.
fn filefrag(image: &Image) -> BTreeMap<String, u32> {
    let listing = run(&format!("cd {} && find . -type f -print0 | xargs -0 filefrag", image.mount_point().display()));
    let parse = |line: &str| {
        let (path, rest) = line.strip_prefix("./").unwrap().rsplit_once(": ").unwrap();
        (path.to_string(), rest.split(' ').next().unwrap().parse().unwrap())
    };
    listing.lines().map(parse).collect()
}

fn compare_with_filefrag(image: &Image, layout: &Layout) {
    let theirs = filefrag(image);
    let links = layout.summary.extra_links as usize;
    assert_eq!(layout.files.len() + links, theirs.len());
    let different: Vec<_> = layout.files.iter().filter(|file| theirs[&file.path] != file.extents).collect();
    assert!(different.is_empty(), "{} differ, for example {:?}", different.len(), different[0]);
    assert_eq!(layout.summary.extents, layout.files.iter().map(|file| u64::from(file.extents)).sum::<u64>());
}

/// Two methods of reading extents give the same files and scores.
fn compare_methods(one: &Layout, other: &Layout) {
    assert_eq!(one.files.len(), other.files.len());
    let different: Vec<_> = one.files.iter().zip(&other.files).filter(|(one, other)| one != other).collect();
    assert!(different.is_empty(), "{} differ, for example {:?}", different.len(), different[0]);
    assert_eq!(one.summary.static_layout_score, other.summary.static_layout_score);
    assert_eq!(one.summary.tree_layout_score, other.summary.tree_layout_score);
    assert_eq!(one.summary.discontinuities, other.summary.discontinuities);
    assert_eq!(one.summary.unwritten, other.summary.unwritten);
    assert_eq!(one.summary.shared, other.summary.shared);
    assert_eq!(one.summary.free_space, other.summary.free_space);
    let score = one.summary.static_layout_score.unwrap();
    assert!(score > 0.5 && score < 1.0, "the tree is aged a little: {score}");
}

/// (minimum blocks, extents, blocks) of each bucket.
fn buckets(free: &FreeSpace) -> Vec<(u64, u64, u64)> {
    free.buckets.iter().map(|bucket| (bucket.from_bytes / free.block_size, bucket.extents, bucket.blocks)).collect()
}

fn numbers(line: &str) -> Vec<u64> {
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

#[test]
#[ignore = "needs loop devices"]
fn ext4_equals_filefrag_and_e2freefrag() {
    for (mkfs, method) in [
        ("mkfs.ext4 -qF -b 4096", Method::InodeTables),
        ("mkfs.ext4 -qF -b 1024 -O inline_data -I 256", Method::InodeTables),
        ("mkfs.ext4 -qF -b 4096 -O ^extents,^64bit", Method::InodeTables),
        ("mkfs.ext4 -qF -b 4096 -O meta_bg,^resize_inode", Method::Fiemap),
    ] {
        let mut image = Image::new(mkfs, 400);
        grow_tree(&image.mount_point(), FILES);
        let layout = examine(&image, None);
        assert_eq!(layout.summary.method, method, "{mkfs}");
        compare_with_filefrag(&image, &layout);
        compare_methods(&layout, &examine(&image, Some(Method::Fiemap)));
        // Unmounting releases preallocated space of growing files; examine again without it.
        image.unmount();
        image.mount("ro,noload");
        let free = examine(&image, None).summary.free_space.unwrap();
        image.unmount();
        let theirs = run(&format!("e2freefrag {}", image.path().display()));
        // "   64K...  128K-  :            43          1011    1.01%"
        let rows: Vec<_> = theirs.lines().filter(|line| line.contains("...")).collect();
        let counts = |row: &&str| {
            let row = numbers(row.split_once(':').unwrap().1);
            (row[0], row[1])
        };
        let ours: Vec<_> = free.buckets.iter().map(|bucket| (bucket.extents, bucket.blocks)).collect();
        assert_eq!(ours, rows.iter().map(counts).collect::<Vec<_>>(), "{theirs}");
    }
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn xfs_with_a_reverse_map_equals_filefrag_and_freesp() {
    compare_xfs("mkfs.xfs -qf -m rmapbt=1,reflink=1", Method::ReverseMap);
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn xfs_without_a_reverse_map_equals_filefrag_and_freesp() {
    compare_xfs("mkfs.xfs -qf -m rmapbt=0,reflink=1", Method::Fiemap);
}

fn compare_xfs(mkfs: &str, method: Method) {
    let mut image = Image::new(mkfs, 512);
    grow_tree(&image.mount_point(), FILES);
    run(&format!(
        "cd {} && cp --reflink=always d1/e1/f1 copy && dd if=/dev/zero of=copy bs=4096 seek=1 count=1 conv=notrunc status=none && sync -f .",
        image.mount_point().display()
    ));
    // xfs frees speculative preallocation some time after the last close: an unmount forces it.
    image.unmount();
    image.mount("rw");
    let layout = examine(&image, None);
    assert_eq!(layout.summary.method, method);
    assert!(layout.summary.shared.extents >= 2, "{:?}", layout.summary.shared);
    compare_with_filefrag(&image, &layout);
    compare_methods(&layout, &examine(&image, Some(Method::Fiemap)));
    // Unmounting releases preallocated space; examine again without it.
    image.unmount();
    image.mount("ro,norecovery");
    let free = examine(&image, None).summary.free_space.unwrap();
    image.unmount();
    let theirs = run(&format!("xfs_db -r -c 'freesp -s' {}", image.path().display()));
    // xfs_db counts the blocks of the groups' free lists as free extents of one block; they are not available to files.
    let lists =
        run(&format!("for ag in 0 1 2 3; do xfs_db -r -c \"agf $ag\" -c 'p flcount' {}; done", image.path().display()));
    let listed: u64 = numbers(&lists).iter().sum();
    let mut expected: Vec<(u64, u64, u64)> = Vec::new();
    for row in theirs.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())) {
        let row = numbers(row);
        expected.push((row[0], row[2], row[3]));
    }
    if expected[0].0 == 1 {
        expected[0] = (1, expected[0].1 - listed, expected[0].2 - listed);
    }
    expected.retain(|bucket| bucket.1 > 0);
    assert_eq!(buckets(&free), expected, "{theirs}");
}

#[test]
#[ignore = "needs loop devices, btrfs"]
fn btrfs_equals_filefrag_and_its_free_space_tree() {
    let mut image = Image::new("mkfs.btrfs -qf", 512);
    grow_tree(&image.mount_point(), FILES);
    run(&format!("cd {} && cp --reflink=always d1/e1/f1 copy && sync -f .", image.mount_point().display()));
    let layout = examine(&image, None);
    assert_eq!(layout.summary.method, Method::TreeSearch);
    assert!(layout.summary.inline.extents > 0 && layout.summary.shared.extents >= 2);
    compare_with_filefrag(&image, &layout);
    compare_methods(&layout, &examine(&image, Some(Method::Fiemap)));
    image.unmount();
    let free = layout.summary.free_space.unwrap();
    let (extents, bytes) = btrfs_free(&image);
    let freed: u64 = free.free_blocks * free.block_size;
    assert_eq!((free.extents, freed), (extents, bytes));
}

/// Free extents and bytes by btrfs' own bookkeeping: per data block group from the free-space tree and the block group item, and
/// the device range without chunk.
fn btrfs_free(image: &Image) -> (u64, u64) {
    let dump = |tree: &str| run(&format!("btrfs inspect-internal dump-tree -t {tree} {}", image.path().display()));
    // "item 1 key (13631488 BLOCK_GROUP_ITEM 8388608) itemoff ..." and on the next line "block group used 0 ... flags DATA".
    let items = |tree: &str, kind: &str| -> Vec<(u64, u64, String)> {
        let text = dump(tree);
        let lines: Vec<_> = text.lines().collect();
        let keys = lines.windows(2).filter(|pair| pair[0].contains(kind));
        keys.map(|pair| {
            let (before, after) = pair[0].split_once(kind).unwrap();
            (*numbers(before).last().unwrap(), numbers(after)[0], pair[1].to_string())
        })
        .collect()
    };
    let groups: Vec<_> =
        items("extent", " BLOCK_GROUP_ITEM ").into_iter().filter(|(_, _, line)| line.contains("flags DATA")).collect();
    let used = |line: &str| numbers(line)[0];
    let free_in_groups: u64 = groups.iter().map(|(_, length, line)| length - used(line)).sum();
    let infos = items("10", " FREE_SPACE_INFO ");
    let of_data = infos.iter().filter(|(start, _, _)| groups.iter().any(|group| group.0 == *start));
    let extents: u64 = of_data.map(|(_, _, line)| numbers(line)[0]).sum();
    let devices = items("chunk", " DEV_ITEM ");
    let total = numbers(devices[0].2.split("total_bytes").nth(1).unwrap())[0];
    // Gaps between device extents after the first MiB, which is reserved.
    let mut gaps = Vec::new();
    let mut at = 1 << 20;
    let devices = dump("dev");
    let lengths = devices.lines().filter(|line| line.contains("chunk_objectid"));
    let starts = items("dev", " DEV_EXTENT ");
    for ((_, start, _), line) in starts.into_iter().zip(lengths).chain([((0, total, String::new()), "0")]) {
        gaps.extend((start > at).then(|| start - at));
        at = start + numbers(line).last().unwrap();
    }
    (extents + gaps.len() as u64, free_in_groups + gaps.iter().sum::<u64>())
}
