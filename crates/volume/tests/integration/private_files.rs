//! Images must be regular files that no other process writes. Files made from them are readable by their owner only.

use crate::common::*;
use senesce_core::failure::ExitCode;
use senesce_volume::images::{Extent, copy, pack, unpack};
use senesce_volume::snapshot::{Method, Snapshots};
use senesce_volume::{TargetSpec, open};
use std::fs::{self, Permissions};

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

const SIZE: usize = 4 << 20;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

#[test]
fn only_regular_files_are_images() {
    let directory = temporary_directory();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [Path::new("/dev/null"), &pipe] {
        let to = directory.path().join("copy");
        fails(copy(path, &to, Extent::Used, None), ExitCode::Usage, "regular file");
        fails(pack(path, &to), ExitCode::Usage, "regular file");
        fails(Snapshots::of(&existing(path), Some(directory.path())), ExitCode::Usage, "regular file");
        assert!(!to.exists());
    }
}

#[test]
#[ignore = "needs loop devices"]
fn device_is_not_an_empty_image() {
    let directory = temporary_directory();
    let (_file, device) = loop_device(SIZE as u64);
    let to = directory.path().join("copy");
    fails(copy(device.path(), &to, Extent::Used, None), ExitCode::Usage, "senesce snapshot");
    fails(pack(device.path(), &to), ExitCode::Usage, "senesce snapshot");
    fails(Snapshots::of(&existing(device.path()), Some(directory.path())), ExitCode::Usage, "without image:");
    assert!(!to.exists());
}

#[test]
fn files_made_from_an_image_are_private() {
    let directory = temporary_directory();
    let path = |name: &str| directory.path().join(name);
    let image = path("a.img");
    fs::write(&image, vec![1; SIZE]).unwrap();
    fs::set_permissions(&image, Permissions::from_mode(0o600)).unwrap();
    Snapshots::of(&existing(&image), None).unwrap().create("one", Method::Copy).unwrap();
    assert_eq!(mode(&path("a.img.snapshots")), 0o700);
    for name in ["one.img", "one.json", "one.blake3"] {
        assert_eq!(mode(&path("a.img.snapshots").join(name)), 0o600, "{name}");
    }
    copy(&image, &path("copy"), Extent::Used, None).unwrap();
    pack(&image, &path("pack")).unwrap();
    unpack(&path("pack"), &path("back")).unwrap();
    for name in ["copy", "pack", "back"] {
        assert_eq!(mode(&path(name)), 0o600, "{name}");
    }
}

#[test]
fn replaced_file_keeps_mode_and_owner() {
    let directory = temporary_directory();
    let (image, to) = (directory.path().join("a.img"), directory.path().join("copy"));
    fs::write(&image, vec![1; SIZE]).unwrap();
    fs::write(&to, vec![0; 4096]).unwrap();
    fs::set_permissions(&to, Permissions::from_mode(0o664)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&to, Some(1), Some(2)).unwrap();
    }
    let before = to.metadata().unwrap();
    copy(&image, &to, Extent::Used, None).unwrap();
    let after = to.metadata().unwrap();
    assert_ne!(after.ino(), before.ino());
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
}

#[test]
#[ignore = "needs loop devices"]
fn image_saved_from_memory_keeps_its_mode() {
    let (_directory, path) = image_path();
    fs::write(&path, []).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let size = Some(senesce_core::Bytes::mib(16));
    let target = TargetSpec::Image { path: path.clone(), size };
    open(&target, &in_memory()).unwrap().close().unwrap();
    assert_eq!((mode(&path), path.metadata().unwrap().len()), (0o600, 16 << 20));
}

#[test]
fn target_written_by_others_is_neither_restored_nor_replaced() {
    let directory = temporary_directory();
    let (image, to) = (directory.path().join("a.img"), directory.path().join("to.img"));
    fs::write(&image, vec![1; SIZE]).unwrap();
    fs::write(&to, vec![2; SIZE]).unwrap();
    let mut snapshots = Snapshots::of(&existing(&image), None).unwrap();
    snapshots.create("one", Method::Copy).unwrap();
    let writer = holding("<>", &image);
    refused(snapshots.rollback("one", true), "open for writing");
    drop(snapshots);
    refused(Snapshots::of(&existing(&image), None), "open for writing");
    drop(writer);
    assert!(Snapshots::of(&existing(&image), None).unwrap().rollback("one", true).unwrap().verified);

    let writer = holding("<>", &to);
    let erase = to.to_str();
    refused(copy(&image, &to, Extent::Used, erase), "open for writing");
    assert!(fs::read(&to).unwrap().iter().all(|byte| *byte == 2));
    drop(writer);
    copy(&image, &to, Extent::Used, erase).unwrap();
}
