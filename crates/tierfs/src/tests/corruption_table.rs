//! Damage of the table of inodes, and its repair.

use super::corruption_directed::{Closed, many};
use super::*;
use crate::format::{FIRST_INODES, superblock};

fn table_root(fs: &TierFs) -> Pointer {
    fs.region.pointer(superblock::INODE_TREE)
}

fn fresh(fs: &TierFs) -> u32 {
    let mut change = fs.try_begin(1, false).unwrap();
    let block = change.take().unwrap();
    change.keep();
    block
}

#[test]
fn any_inode_table_pointer_is_restored() {
    for child in 0..6 {
        Closed::damaged(|fs| {
            many(fs);
            let root = table_root(fs);
            assert_eq!(root.height(), 1);
            vec![byte(root.address()) + child * 8]
        })
        .assert_restored(&format!("child {child}"));
    }
}

#[test]
fn root_of_the_table_is_restored_with_or_without_its_copy() {
    for places in [vec![superblock::INODE_TREE], vec![superblock::INODE_TREE, superblock::INODE_TREE_COPY]] {
        let what = format!("{places:?}");
        Closed::damaged(|fs| {
            many(fs);
            places
        })
        .assert_restored(&what);
    }
}

/// Puts a node above the root of the table; returns it and the old root.
fn heighten(fs: &TierFs) -> (u32, u32) {
    many(fs);
    let (old, node) = (table_root(fs), fresh(fs));
    fs.region.clear_node(node);
    fs.region.store_pointer(byte(node), old.plain());
    for at in [superblock::INODE_TREE, superblock::INODE_TREE_COPY] {
        fs.region.commit_pointer(at, Pointer::resident(node).with_height(2));
    }
    (node, old.address())
}

#[test]
fn inode_table_node_is_restored() {
    Closed::damaged(|fs| vec![byte(heighten(fs).0)]).assert_restored("height 2");
}

#[test]
fn missing_node_of_the_table_does_not_abort_a_repair() {
    let mut closed = Closed::damaged(|fs| {
        file(fs, ROOT_INO, "in-the-first-block");
        let (node, below) = heighten(fs);
        vec![byte(node), byte(below), byte(below) + 8]
    });
    let report = closed.repair();
    assert!(!report.lost.is_empty(), "{report:?}");
    assert!(closed.open().lookup(ROOT_INO, b"in-the-first-block").is_ok());
}

#[test]
fn the_table_always_has_its_first_block() {
    Closed::damaged(|fs| {
        many(fs);
        fs.region.commit_pointer(byte(table_root(fs).address()), Pointer::HOLE);
        assert_eq!(FIRST_INODES, 1);
        vec![]
    })
    .assert_restored("a hole");
}

fn stale(fs: &TierFs) -> Vec<usize> {
    many(fs);
    fs.region.commit_pointer(superblock::INODE_TREE_COPY, Pointer::resident(FIRST_INODES));
    assert_eq!(fs.scrub().damaged_metadata, 1);
    vec![]
}

#[test]
fn wrong_copy_of_the_root_is_detected_and_rewritten() {
    Closed::damaged(stale).assert_restored("a stale copy");
    Closed::damaged(|_| vec![superblock::INODE_TREE_COPY]).assert_restored("a damaged copy");
    let mut closed = Closed::damaged(stale);
    assert_eq!(closed.check().problems.len(), 1);
    // Traces of a crash are not damage.
    closed.image[superblock::STATE..][..8].copy_from_slice(&superblock::DIRTY.to_le_bytes());
    let report = closed.check();
    assert!(report.is_sound() && report.notes.iter().any(|note| note.contains("copy")), "{report:?}");
    let fs = closed.open();
    assert_eq!(fs.region.load(superblock::INODE_TREE_COPY), fs.region.load(superblock::INODE_TREE));
}

#[test]
fn a_damaged_root_of_the_table_is_not_kept_in_its_copy() {
    let (fs, _, _) = small(400, 1000);
    let root = fs.region.load(superblock::INODE_TREE);
    fs.region.store(superblock::INODE_TREE, root ^ 1 << 40);
    assert_eq!(fs.grow_table(), Err(Errno::IO));
    assert_eq!(fs.region.load(superblock::INODE_TREE_COPY), root);
}
