//! Copies of images onto devices with old data.

use crate::common::*;
use senesce_volume::LoopDevice;
use senesce_volume::images::{Extent, copy, copy_in_order};
use senesce_volume::sparse::Range;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// An image of 8 MiB with two ranges of data, and a loop device of 9 MiB full of old bytes. The second range starts at
/// an odd offset.
fn scene(directory: &Path) -> LoopDevice {
    let image = File::create(directory.join("image")).unwrap();
    image.set_len(8 * MIB).unwrap();
    image.write_all_at(b"superblock", 1024).unwrap();
    image.write_all_at(&[5; 9000], 5 * MIB + 4096).unwrap();
    fs::write(directory.join("disk"), vec![0xAA; 9 * MIB as usize]).unwrap();
    attach(&directory.join("disk"))
}

fn is_the_image(directory: &Path) {
    let (image, disk) = (fs::read(directory.join("image")).unwrap(), fs::read(directory.join("disk")).unwrap());
    let differs = image.iter().zip(&disk).position(|(ours, theirs)| ours != theirs);
    assert_eq!(differs, None, "the first byte that differs");
    assert!(disk[image.len()..].iter().all(|byte| *byte == 0xAA), "what is behind it stays");
}

#[test]
#[ignore = "needs loop devices"]
fn holes_of_an_image_are_zeroes_on_a_device() {
    let directory = temporary_directory();
    let device = scene(directory.path());
    let erase = device.path().to_str();
    let report = copy(&directory.path().join("image"), device.path(), Extent::Used, erase).unwrap();
    assert!(report.verified && report.zeroed_bytes > 7 * MIB, "{report:?}");
    assert_eq!(report.zeroed_bytes + report.copied_bytes, 8 * MIB);
    drop(device);
    is_the_image(directory.path());
}

#[test]
#[ignore = "needs loop devices"]
fn holes_are_zeroed_with_a_given_write_order() {
    let directory = temporary_directory();
    let device = scene(directory.path());
    let backwards = |ranges: &[Range], _| Ok(ranges.iter().rev().copied().collect());
    let report =
        copy_in_order(&directory.path().join("image"), device.path(), device.path().to_str(), backwards).unwrap();
    assert!(report.zeroed_bytes > 7 * MIB, "{report:?}");
    drop(device);
    is_the_image(directory.path());
}

/// Reading such a hole takes an hour.
#[test]
fn holes_of_a_copied_file_are_not_read() {
    let directory = temporary_directory();
    let (from, to) = (directory.path().join("image"), directory.path().join("copy"));
    let image = File::create(&from).unwrap();
    image.set_len(4 << 40).unwrap();
    image.write_all_at(&[5; 9000], 3 << 40).unwrap();
    let report = copy(&from, &to, Extent::Used, None).unwrap();
    assert!(report.verified && report.copied_bytes < MIB, "{report:?}");
    assert_eq!(to.metadata().unwrap().len(), 4 << 40);
}
