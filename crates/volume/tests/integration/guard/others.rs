//! Use of a device or an image by other processes and other parts of the kernel, without a visible mount.

use super::{
    Answer, Free, Never, Situation, attach, claim_device, claim_image, image, judge, mkfs, mount, run, state, text,
    undo,
};
use crate::common::{holding, process, temporary_directory};
use std::fs::{self, File};
use std::path::PathBuf;

fn situation(name: &'static str, target: PathBuf, answer: Answer, said: &'static str) -> Situation {
    Situation { name, target, answer, said, _held: vec![] }
}

#[test]
#[ignore = "needs loop devices"]
fn target_open_for_writing_elsewhere_is_refused() {
    let directory = temporary_directory();
    let device = attach(&image(directory.path(), "device", &[]));
    let target = device.path().to_path_buf();
    let file = image(directory.path(), "image", &[]);
    let before = state(directory.path());
    let writer = holding("<>", &target);
    judge(&situation("a device that another process writes", target.clone(), Never, "open for writing"), claim_device);
    drop(writer);
    let reader = holding("<", &target);
    judge(&situation("a device that another process reads", target, Free, ""), claim_device);
    drop(reader);
    let writer = holding("<>", &file);
    judge(&situation("an image that another process writes", file, Never, "open for writing"), claim_image);
    drop(writer);
    assert_eq!(state(directory.path()), before);
}

#[test]
#[ignore = "needs loop devices"]
fn exclusive_open_finds_invisible_mounts() {
    let directory = temporary_directory();
    let make = |name: &str| {
        let device = attach(&image(directory.path(), name, &[]));
        mkfs(device.path());
        device
    };
    let elsewhere = make("elsewhere");
    let point = directory.path().join("point");
    fs::create_dir(&point).unwrap();
    let script = "mount -o ro \"$1\" \"$2\" && echo ready; exec sleep 600";
    let words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"];
    let namespace = process(&[&words[..], &[text(elsewhere.path()), text(&point)]].concat());

    let detached = make("detached");
    let lazily = directory.path().join("lazily");
    fs::create_dir(&lazily).unwrap();
    assert!(run(&["mount", "-o", "ro", text(detached.path()), text(&lazily)]));
    let user = File::open(&lazily).unwrap();
    assert!(run(&["umount", "--lazy", text(&lazily)]));

    let journal = attach(&image(directory.path(), "journal", &[]));
    assert!(run(&["mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "journal_dev", text(journal.path())]));
    let served = attach(&image(directory.path(), "served", &[]));
    let external = format!("device={}", text(journal.path()));
    let options = ["-E", "lazy_itable_init=0", "-b", "4096", "-J", &external];
    assert!(run(&[&["mkfs.ext4", "-q", "-F"], &options[..], &[text(served.path())]].concat()));
    let mounted = mount(served.path(), directory.path(), "served-point", "ro");

    rustix::fs::sync();
    let before = state(directory.path());
    for (name, target, said) in [
        ("mounted in another mount namespace alone", elsewhere.path(), "in use"),
        ("unmounted lazily, with a directory open", detached.path(), "in use"),
        ("the external journal of a mounted ext4", journal.path(), "in use"),
    ] {
        judge(&situation(name, target.into(), Never, said), claim_device);
    }
    assert_eq!(state(directory.path()), before);
    drop((namespace, user, mounted));
}

#[test]
#[ignore = "needs loop devices, btrfs"]
fn the_second_device_of_a_mounted_btrfs_is_refused() {
    let directory = temporary_directory();
    let devices = ["first", "second"].map(|name| attach(&image(directory.path(), name, &[])));
    let [first, second] = [devices[0].path(), devices[1].path()];
    assert!(run(&["mkfs.btrfs", "-q", "-f", "-d", "single", text(first), text(second)]));
    assert!(run(&["btrfs", "device", "scan", text(first), text(second)]));
    let mounted = mount(first, directory.path(), "point", "ro");
    rustix::fs::sync();
    let before = state(directory.path());
    judge(&situation("the first device", first.into(), Never, "is mounted on"), claim_device);
    judge(&situation("the second device", second.into(), Never, "belongs to the mounted btrfs"), claim_device);
    assert_eq!(state(directory.path()), before);
    drop(mounted);
    let _ = undo(&["btrfs", "device", "scan", "--forget", text(first)]);
}
