//! Replacement of a target between two checks.

use super::{MIB, hash_of_data, image, run, text};
use crate::common::{attach, image_path, in_memory, refused, temporary_directory};
use senesce_volume::{ClaimedDevice, ClaimedDirectory, FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

fn facts(path: &Path) -> (u64, String) {
    (path.metadata().unwrap().ino(), hash_of_data(path))
}

/// A device that was claimed while it was empty gets no file system if it holds data or is used by then.
#[test]
#[ignore = "needs loop devices"]
fn device_is_checked_again_before_first_write() {
    let directory = temporary_directory();
    let path = image(directory.path(), "disk", &[]);
    let device = attach(&path);
    let claimed = ClaimedDevice::claim(device.path(), None).unwrap();
    claimed.check_again().unwrap();
    let file = File::options().write(true).open(device.path()).unwrap();
    file.write_all_at(b"XFSB", 8 * MIB).unwrap();
    file.sync_all().unwrap();
    let before = facts(&path);
    refused(FileSystem::Ext4.make(&claimed, ""), "a signature of xfs");
    drop(file);
    drop(claimed);
    let claimed = ClaimedDevice::claim(device.path(), Some(text(device.path()))).unwrap();
    let (_above, detach) = super::losetup(device.path(), 0);
    refused(FileSystem::Ext4.make(&claimed, ""), "is attached to");
    drop(detach);
    assert_eq!(facts(&path), before);
}

/// A node that other users may replace is not passed to a program that opens it by name.
#[test]
#[ignore = "needs loop devices"]
fn a_node_outside_of_dev_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let device = attach(&image(directory.path(), "disk", &[]));
    let number = device.path().metadata().unwrap().rdev();
    let (major, minor) = (rustix::fs::major(number).to_string(), rustix::fs::minor(number).to_string());
    let node = directory.path().join("node");
    assert!(run(&["mknod", text(&node), "b", &major, &minor]));
    refused(ClaimedDevice::claim(&node, Some(text(&node))), &format!("by its node in /dev: {}", text(device.path())));
    let link = directory.path().join("link");
    symlink(device.path(), &link).unwrap();
    let claimed = ClaimedDevice::claim(&link, None).unwrap();
    assert_eq!(claimed.path(), device.path(), "a link is followed once");
}

fn opened_in_memory(path: &Path) -> MountedTarget {
    let size = Some(senesce_core::Bytes::mib(16));
    open(&TargetSpec::Image { path: path.into(), size }, &in_memory()).unwrap()
}

/// The result of a run in memory does not replace a file that did not exist at the time of the check.
#[test]
#[ignore = "needs loop devices"]
fn file_that_took_the_name_of_a_memory_image_is_kept() {
    let (directory, path) = image_path();
    let target = opened_in_memory(&path);
    fs::rename(&path, directory.path().join("moved")).unwrap();
    fs::write(&path, "diary").unwrap();
    let before = facts(&path);
    refused(target.close(), "another file took its name");
    assert_eq!(facts(&path), before);
    let result = PathBuf::from(format!("{}.result", path.display()));
    assert_eq!(result.metadata().unwrap().len(), 16 * MIB, "the result of the run is kept next to it");
}

/// If the name of an image is a link, the result goes into the file, and the link stays.
#[test]
#[ignore = "needs loop devices"]
fn image_saved_from_memory_follows_a_link() {
    let directory = temporary_directory();
    let (file, link) = (directory.path().join("file"), directory.path().join("link"));
    File::create(&file).unwrap();
    symlink(&file, &link).unwrap();
    opened_in_memory(&link).close().unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(file.metadata().unwrap().len(), 16 * MIB);
}

/// The opened image is emptied and attached, whatever file has its name meanwhile.
#[test]
#[ignore = "needs loop devices"]
fn an_image_is_used_by_its_descriptor() {
    let (directory, path) = image_path();
    let spec = TargetSpec::Image { path: path.clone(), size: Some(senesce_core::Bytes::mib(16)) };
    let target = open(&spec, &OpenOptions::default()).unwrap();
    let moved = directory.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    fs::write(&path, "diary").unwrap();
    fs::write(target.mount_point().join("file"), vec![7; 1 << 20]).unwrap();
    target.close().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"diary");
    refused(ClaimedDevice::claim(attach(&moved).path(), None), "a signature of ext2, ext3 or ext4");
}

#[test]
fn link_instead_of_directory_gets_no_marker() {
    let directory = temporary_directory();
    let (full, link) = (directory.path().join("full"), directory.path().join("link"));
    fs::create_dir(&full).unwrap();
    fs::write(full.join("thesis"), "precious").unwrap();
    symlink(&full, &link).unwrap();
    refused(ClaimedDirectory::claim(&link, None), "is not empty");
    refused(ClaimedDirectory::claim(Path::new("/"), None), "mounted inside");
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);
}
