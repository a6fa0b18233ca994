//! Custom file systems: the result of their unmount is checked, and the clean-up uses their commands.

use crate::common::*;
use senesce_volume::custom::CustomFileSystem;
use senesce_volume::{MountedTarget, OpenOptions, guardian, open};
use std::fs;
use std::path::Path;

fn opened(path: &Path, unmount: &str) -> MountedTarget {
    let custom = CustomFileSystem {
        mkfs: "mkfs.ext4 -q -F $DEVICE".into(),
        mount: "mount $DEVICE $MNT".into(),
        unmount: unmount.into(),
        check: String::new(),
    };
    open(&image(path, "64M"), &OpenOptions { custom: Some(custom), ..OpenOptions::default() }).unwrap()
}

#[test]
#[ignore = "needs loop devices"]
fn ineffective_unmount_command_is_completed() {
    let directory = temporary_directory();
    let target = opened(&directory.path().join("a.img"), "true");
    let point = target.mount_point().to_path_buf();
    assert!(is_mounted(&point));
    target.close().unwrap();
    assert!(!is_mounted(&point) && !point.exists());
    assert_eq!(left_over(directory.path()), Vec::<String>::new());
}

/// Not a test of its own: the process that the next test kills.
#[test]
fn child_that_holds_a_custom_target() {
    let Some(path) = is_child() else { return };
    let target = opened(&path, "echo $DEVICE >$(dirname $(losetup -nO BACK-FILE $DEVICE))/said; umount $MNT");
    println!("ready {}", target.mount_point().display());
    until_killed();
}

#[test]
#[ignore = "needs loop devices"]
fn mount_of_killed_process_is_unmounted_by_its_command() {
    let (directory, path) = image_path();
    let (process, point) = started(child("custom::child_that_holds_a_custom_target", &path));
    let point = Path::new(&point);
    drop(process);
    assert!(is_mounted(point));
    guardian::sweep();
    assert!(!is_mounted(point) && !point.exists());
    let said = fs::read_to_string(directory.path().join("said")).expect("its command ran");
    assert!(said.starts_with("/dev/loop"), "{said}");
    assert_eq!(left_over(directory.path()), Vec::<String>::new());
}
