//! Maliciously crafted regions with valid checksums: checks finish soon and do not panic.

use super::corruption_directed::change;
use super::*;
use crate::format::Identity;
use crate::open::format_region;

/// A file system with one inode of `kind`, whose content `craft` changes.
fn crafted(kind: u32, craft: impl FnOnce(&TierFs, &mut Inode)) -> CheckReport {
    let (fs, nvm, cold) = small(200, 100);
    let one = NewInode { target: b"target", ..new(kind | 0o755) };
    let ino = fs.create(ROOT_INO, b"crafted", &one).unwrap().ino;
    change(&fs, ino, |inode| craft(&fs, inode));
    fs.close();
    let report = check(anonymous(&nvm.image()), Some(&cold), Path::new("image")).unwrap();
    assert!(open_image(&nvm.image(), &cold, &Options::default()).is_err());
    report
}

fn names_the_path(report: &CheckReport) {
    assert!(report.problems.iter().any(|problem| problem.contains("(/crafted)")), "{report:?}");
}

#[test]
fn link_target_outside_the_region_is_reported() {
    names_the_path(&crafted(libc::S_IFLNK, |_, inode| inode.root = Pointer::resident(u32::MAX)));
}

#[test]
fn directory_node_outside_the_region_is_reported() {
    names_the_path(&crafted(libc::S_IFDIR, |fs, inode| {
        let node = fs.try_begin(1, false).unwrap().take().unwrap();
        fs.region.clear_node(node);
        fs.region.store_pointer(byte(node), Pointer::resident(0xffff_ff00));
        (inode.root, inode.size) = (Pointer::resident(node).with_height(2), BLOCK as u64);
    }));
}

#[test]
fn cyclic_directory_node_is_reported() {
    names_the_path(&crafted(libc::S_IFDIR, |fs, inode| {
        let node = fs.try_begin(1, false).unwrap().take().unwrap();
        for child in 0..BLOCK / 8 {
            fs.region.store_pointer(byte(node) + child * 8, Pointer::resident(node));
        }
        (inode.root, inode.size) = (Pointer::resident(node).with_height(4), 199 * BLOCK as u64);
    }));
}

#[test]
fn impossible_sizes_in_the_header_are_damage() {
    let header = |blocks, slots| {
        let mut image = empty_image(64, 16);
        let header = Identity { pair: [1; 16], blocks, slots }.encode_region();
        image[..header.len()].copy_from_slice(&header);
        image
    };
    for (blocks, slots) in [(64, 16_000_000), (63, 16), (0, 0), (1 << 52, 16), (64, u64::MAX), (u64::MAX, u64::MAX)] {
        let judged = check(anonymous(&header(blocks, slots)), None, Path::new("image"));
        assert!(matches!(judged, Err(TierError::Damaged { .. })), "{blocks} blocks, {slots} slots: {judged:?}");
    }
    assert!(check(anonymous(&header(64, 16)), None, Path::new("image")).unwrap().is_sound());
}

#[test]
fn pointer_beyond_the_size_in_the_header_is_reported() {
    let nvm = SimNvm::new(&vec![0; 200 * BLOCK]);
    format_region(Box::new(nvm.clone()), &Identity { pair: [1; 16], blocks: 128, slots: 100 }).unwrap();
    let fs = open_image(&nvm.image(), &SimCold::default(), &Options::default()).unwrap();
    let ino = file(&fs, ROOT_INO, "crafted");
    change(&fs, ino, |inode| (inode.root, inode.size) = (Pointer::resident(150), 5));
    fs.close();
    // SAFETY: no thread uses the file system any more.
    let image = unsafe { std::slice::from_raw_parts(fs.region.nvm().base(), 200 * BLOCK) }.to_vec();
    names_the_path(&check(anonymous(&image), None, Path::new("image")).unwrap());
}
