//! Reports of unreplayed journals and damaged metadata.

use crate::common::{Image, grow_tree, run};
use senesce_layout::{Condition, Layout, LayoutError};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

fn condition(target: &Path) -> Condition {
    Layout::of(target).unwrap().condition.unwrap()
}

/// Reported damage, whether or not the examination succeeded.
fn damage(target: &Path) -> Vec<String> {
    match Layout::of(target) {
        Ok(found) => found.condition.unwrap().damage,
        Err(LayoutError::Unsound { reasons, .. }) => reasons,
        Err(error) => panic!("{error}"),
    }
}

/// Files that are durable only in the journal, and a copy of the image at that time.
fn copy_with_pending_changes(image: &Image) -> PathBuf {
    grow_tree(&image.mount_point(), 40);
    run(&format!("sync -f {}", image.mount_point().display()));
    for number in 0..40 {
        let mut file = File::create(image.mount_point().join(format!("late{number}"))).unwrap();
        file.write_all(&[1; 9000]).unwrap();
        file.sync_all().unwrap();
    }
    copy(image, "pending")
}

fn copy(image: &Image, name: &str) -> PathBuf {
    let copy = image.path().with_extension(name);
    run(&format!("cp --sparse=always {} {}", image.path().display(), copy.display()));
    copy
}

fn u32_at(path: &Path, at: u64) -> u32 {
    let mut bytes = [0; 4];
    File::open(path).unwrap().read_exact_at(&mut bytes, at).unwrap();
    u32::from_le_bytes(bytes)
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

#[test]
#[ignore = "needs loop devices, XFS, btrfs"]
fn unreplayed_journal_is_reported() {
    for (mkfs, mib) in [
        ("mkfs.ext4 -qF", 64),
        ("mkfs.ext4 -qF -O fast_commit", 64),
        ("mkfs.ext3 -qF", 64),
        ("mkfs.xfs -qf -m rmapbt=1", 320),
        ("mkfs.xfs -qf -l su=32k", 320),
        ("mkfs.btrfs -qf", 128),
    ] {
        let mut image = Image::new(mkfs, mib);
        let pending = copy_with_pending_changes(&image);
        assert_eq!(condition(&image.mount_point()).journal.replayed, Some(true), "{mkfs}: mounted");
        // btrfs refuses to mount a copy of a mounted file system.
        image.unmount();
        let journal = condition(&pending).journal;
        assert!(journal.replayed == Some(false) && !journal.note.is_empty(), "{mkfs}: {journal:?}");
        let clean = Layout::of(&image.path()).unwrap();
        assert!(!clean.view.contains("replayed"), "{mkfs}: only the condition reports it: {}", clean.view);
        let clean = clean.condition.unwrap();
        assert_eq!((clean.journal.replayed, clean.damage.len()), (Some(true), 0), "{mkfs}: {clean:?}");
    }
}

#[test]
#[ignore = "needs loop devices"]
fn copy_of_a_mounted_file_system_without_journal_is_reported() {
    let mut image = Image::new("mkfs.ext2 -qF", 64);
    let copied = copy_with_pending_changes(&image);
    assert!(condition(&image.mount_point()).damage.is_empty());
    assert!(!damage(&copied).is_empty());
    image.unmount();
    assert!(condition(&image.path()).damage.is_empty());
}

#[test]
#[ignore = "needs loop devices"]
fn damaged_inodes_are_reported() {
    for content in [[0xA5; 1024], [0; 1024]] {
        let mut image = Image::new("mkfs.ext4 -qF -b 1024 -I 256", 64);
        (0..20).for_each(|number| std::fs::write(image.mount_point().join(format!("f{number}")), "content").unwrap());
        image.unmount();
        let groups = run(&format!("dumpe2fs {}", image.path().display()));
        let table = groups.split("Inode table at ").nth(1).unwrap();
        let block: u64 = table.split(|digit: char| !digit.is_ascii_digit()).next().unwrap().parse().unwrap();
        assert!(condition(&image.path()).damage.is_empty());
        // Four inodes of files, behind the 11 reserved ones.
        overwrite(&image.path(), (block + 3) * 1024, &content);
        assert!(!damage(&image.path()).is_empty(), "{content:?}");
    }
}

#[test]
#[ignore = "needs loop devices"]
fn mount_without_journal_replay_is_reported() {
    let mut image = Image::new("mkfs.ext4 -qF", 64);
    let pending = copy_with_pending_changes(&image);
    image.unmount();
    std::fs::rename(&pending, image.path()).unwrap();
    image.mount("ro,noload");
    assert_eq!(condition(&image.mount_point()).journal.replayed, Some(false));
    assert_eq!(condition(&image.path()).journal.replayed, Some(false), "seen where it is mounted");
    image.unmount();
    image.mount("");
    assert_eq!(condition(&image.mount_point()).journal.replayed, Some(true));
}

#[test]
#[ignore = "needs loop devices"]
fn external_journal_is_reported_and_a_frozen_copy_is_clean() {
    let journal = tempfile::NamedTempFile::new().unwrap();
    journal.as_file().set_len(16 << 20).unwrap();
    run(&format!("mke2fs -qF -b 4096 -O journal_dev {}", journal.path().display()));
    let device = run(&format!("losetup -f --show {}", journal.path().display()));
    let image = Image::new(&format!("mkfs.ext4 -qF -b 4096 -J device={}", device.trim()), 64);
    let pending = copy_with_pending_changes(&image);
    let point = image.mount_point();
    run(&format!("fsfreeze -f {}", point.display()));
    let frozen = copy(&image, "frozen");
    run(&format!("fsfreeze -u {}", point.display()));
    assert_eq!(condition(&pending).journal.replayed, Some(false));
    assert_eq!(condition(&frozen).journal.replayed, Some(true));
    drop(image);
    run(&format!("losetup -d {}", device.trim()));
}

/// Files deleted while open are not in the journal of a frozen copy, but take space there.
#[test]
#[ignore = "needs loop devices"]
fn deleted_open_files_are_reported_in_a_frozen_copy() {
    for features in ["orphan_file", "^orphan_file"] {
        let image = Image::new(&format!("mkfs.ext4 -qF -O {features}"), 64);
        let point = image.mount_point();
        let frozen = |name| {
            run(&format!("fsfreeze -f {}", point.display()));
            let copy = copy(&image, name);
            run(&format!("fsfreeze -u {}", point.display()));
            condition(&copy)
        };
        std::fs::write(point.join("file"), vec![1; 100_000]).unwrap();
        assert_eq!(frozen("without").journal.replayed, Some(true), "{features}");
        let open = File::open(point.join("file")).unwrap();
        std::fs::remove_file(point.join("file")).unwrap();
        assert_eq!(frozen("with").journal.replayed, Some(false), "{features}");
        drop(open);
    }
}

#[test]
#[ignore = "needs loop devices, XFS, btrfs"]
fn sound_file_systems_of_many_geometries_have_no_damage() {
    for (mkfs, mib) in [
        ("mkfs.ext4 -qF -b 1024", 100),
        ("mkfs.ext4 -qF -b 4096", 300),
        ("mkfs.ext4 -qF -O bigalloc", 300),
        ("mkfs.ext4 -qF -O inline_data -I 256", 100),
        ("mkfs.ext4 -qF -O ^metadata_csum,uninit_bg", 100),
        ("mkfs.ext4 -qF -O ^flex_bg,^64bit", 100),
        ("mkfs.ext4 -qF -O metadata_csum_seed,orphan_file", 100),
        ("mkfs.ext4 -qF -O ^has_journal -N 50000", 100),
        ("mkfs.ext2 -qF", 100),
        ("mkfs.xfs -qf -m rmapbt=1", 320),
        ("mkfs.xfs -qf -b size=4096 -s size=4096", 320),
        ("mkfs.xfs -qf -m finobt=0,reflink=0 -l su=64k", 320),
        ("mkfs.btrfs -qf", 128),
    ] {
        let mut image = Image::new(mkfs, mib);
        grow_tree(&image.mount_point(), 600);
        let mounted = condition(&image.mount_point());
        image.unmount();
        let unmounted = condition(&image.path());
        assert_eq!((mounted.damage.len(), unmounted.damage.len()), (0, 0), "{mkfs}: {mounted:?} {unmounted:?}");
        assert_eq!(unmounted.journal.replayed, Some(true), "{mkfs}: {unmounted:?}");
    }
}

#[test]
#[ignore = "needs loop devices"]
fn damaged_bitmaps_of_ext_are_reported() {
    // Byte offset of the first group descriptor, with blocks of 1 KiB.
    const DESCRIPTORS: u64 = 2048;
    for mkfs in ["mkfs.ext4 -qF -b 1024", "mkfs.ext3 -qF -b 1024"] {
        let mut image = Image::new(mkfs, 64);
        grow_tree(&image.mount_point(), 200);
        image.unmount();
        for field in [0, 4] {
            let damaged = copy(&image, "damaged");
            let block = u32_at(&damaged, DESCRIPTORS + field);
            overwrite(&damaged, u64::from(block) * 1024, &[0x5A; 1024]);
            let found = Layout::of(&damaged).unwrap();
            assert!(!found.is_sound(), "{mkfs}: bitmap at {field}");
            assert_eq!(found.free_space.is_none(), field == 0, "{mkfs}: free space with bitmap at {field} damaged");
        }
    }
}

#[test]
#[ignore = "needs loop devices"]
fn damaged_journal_of_ext_is_reported() {
    for mkfs in ["mkfs.ext4 -qF", "mkfs.ext4 -qF -O ^metadata_csum", "mkfs.ext3 -qF"] {
        let mut image = Image::new(mkfs, 64);
        grow_tree(&image.mount_point(), 200);
        image.unmount();
        let debugfs = |command| run(&format!("debugfs -R '{command}' {} 2>/dev/null", image.path().display()));
        let block: u64 = debugfs("blocks <8>").split_whitespace().next().unwrap().parse().unwrap();
        let inode = debugfs("imap <8>");
        let inode: Vec<u64> = ["located at block ", "offset 0x"]
            .iter()
            .zip([10, 16])
            .map(|(word, radix)| {
                let digits = inode.split(word).nth(1).unwrap();
                let end = digits.find(|digit: char| !digit.is_ascii_hexdigit()).unwrap();
                u64::from_str_radix(&digits[..end], radix).unwrap()
            })
            .collect();
        // Blocks of 1 KiB. The magic number, the version, the length and the error of the superblock; the map of the inode.
        let superblock = [(0, [0xA5; 1024].as_slice()), (0x4, &[9; 4]), (0x10, &[0; 4]), (0x20, &[1; 4])];
        let places = superblock.map(|(at, bytes)| (block * 1024 + at, bytes));
        for (at, bytes) in places.into_iter().chain([(inode[0] * 1024 + inode[1] + 0x28, [0xA5; 60].as_slice())]) {
            let damaged = copy(&image, "damaged");
            overwrite(&damaged, at, bytes);
            // The kernel refuses a damaged inode even without the journal.
            let is_reported = Layout::of(&damaged).map_or(true, |found| !found.is_sound());
            assert!(is_reported, "{mkfs}: {} bytes at {at}", bytes.len());
        }
    }
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn wrong_counts_of_xfs_groups_are_reported() {
    let mut image = Image::new("mkfs.xfs -qf -m rmapbt=0", 320);
    grow_tree(&image.mount_point(), 200);
    image.unmount();
    run(&format!("xfs_db -x -c 'agf 1' -c 'write -d freeblks 5' {}", image.path().display()));
    let found = Layout::of(&image.path());
    // Kernels differ in the header checks at mount.
    assert!(found.as_ref().map_or(true, |found| found.condition.as_ref().unwrap().damage.len() == 1), "{found:?}");
}

#[test]
#[ignore = "needs loop devices, btrfs"]
fn blocks_of_btrfs_with_a_wrong_checksum_are_reported() {
    let mut image = Image::new("mkfs.btrfs -qf -m dup", 160);
    grow_tree(&image.mount_point(), 2000);
    image.unmount();
    // The second copy of the file tree stays valid: the kernel reads it without an error.
    let leaf = run(&format!(
        "btrfs inspect-internal dump-tree -t 5 {} | awk '/^leaf/ {{print $2; exit}}'",
        image.path().display()
    ));
    let places = run(&format!("btrfs-map-logical -l {} {}", leaf.trim(), image.path().display()));
    let first = places.lines().next().unwrap().split_whitespace().skip_while(|word| *word != "physical").nth(1);
    overwrite(&image.path(), first.unwrap().parse().unwrap(), &[0xA5; 4096]);
    let found = condition(&image.path());
    assert_eq!(found.damage.len(), 1, "{found:?}");
}
