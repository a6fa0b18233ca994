//! File systems from their own mkfs whose first and last MiB were zeroed, as by `wipefs` and `dd`.

use super::{Holds, MIB, Situation, claim_device, hash_of_data, judge, losetup, run, text};
use crate::common::{attach, temporary_directory};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const SIZE: u64 = 320 * MIB;

/// Makes a file system at `start` on a disk, up to its end or to 1 MiB before it.
fn make(disk: &Path, words: &[&str], start: u64, behind: u64) {
    File::create(disk).unwrap().set_len(SIZE - behind).unwrap();
    let (device, detach) = losetup(disk, start);
    assert!(run(&[words, &[text(&device)]].concat()), "{words:?}");
    drop(detach);
    File::options().write(true).open(disk).unwrap().set_len(SIZE).unwrap();
}

fn zero_ends(disk: &Path, start: u64, behind: u64) {
    let file = File::options().write(true).open(disk).unwrap();
    let zeros = vec![0; MIB as usize];
    for place in [0, start, SIZE - MIB - behind, SIZE - MIB] {
        file.write_all_at(&zeros, place).unwrap();
    }
}

fn are_refused(words: &[&str], name: &'static str, said: &'static str) {
    let directory = temporary_directory();
    for (start, behind) in [(0, 0), (MIB, 0), (MIB, MIB)] {
        let disk = directory.path().join(format!("disk-{start}-{behind}"));
        make(&disk, words, start, behind);
        zero_ends(&disk, start, behind);
        let before = (disk.metadata().unwrap().ino(), hash_of_data(&disk));
        let device = attach(&disk);
        let target = device.path().to_path_buf();
        judge(&Situation { name, target, answer: Holds, said, _held: vec![] }, claim_device);
        drop(device);
        assert_eq!((disk.metadata().unwrap().ino(), hash_of_data(&disk)), before, "{name} from {start} on");
    }
}

#[test]
#[ignore = "needs loop devices"]
fn ext4_with_zeroed_ends_is_refused() {
    are_refused(&["mkfs.ext4", "-q", "-F", "-b", "4096"], "ext4 with blocks of 4 KiB", "ext2, ext3 or ext4 at");
    are_refused(&["mkfs.ext4", "-q", "-F", "-b", "1024"], "ext4 with blocks of 1 KiB", "ext2, ext3 or ext4 at");
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn xfs_with_zeroed_ends_is_refused() {
    are_refused(&["mkfs.xfs", "-q", "-f"], "xfs", "copy of a superblock of xfs at");
}

#[test]
#[ignore = "needs loop devices, btrfs"]
fn btrfs_with_zeroed_ends_is_refused() {
    are_refused(&["mkfs.btrfs", "-q", "-f"], "btrfs", "copy of a superblock of btrfs at");
}
