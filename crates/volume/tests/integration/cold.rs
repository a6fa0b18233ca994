//! Cold targets, also when other mount namespaces hold the file system.

use crate::common::*;
use senesce_volume::{DeviceStat, FileSystem, MountedTarget, OpenOptions, Remounted, open};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

const WORK: &str = r#"cd "$0" && echo begun && read -r word"#;

struct OtherNamespace {
    child: Child,
    input: Option<ChildStdin>,
}

impl OtherNamespace {
    /// `flags` are those of unshare(1). In `folder` the process works; it has begun when this returns.
    fn begin(flags: &str, folder: &Path) -> Self {
        let mut command = Command::new("unshare");
        command.args([flags, "sh", "-c", WORK]).arg(folder);
        Self::of(command)
    }

    /// In a user namespace, which has of all our mounts only that on `point`: it cannot unmount its copies, and those of other
    /// tests would stay in use.
    fn of_user(point: &Path) -> Self {
        let others =
            "awk '$5 ~ \"^/run/senesce/mnt/\" && index(point, $5) != 1 { print $5 }' point=\"$0\" /proc/self/mountinfo";
        // A mount is gone once its own test has removed the mount point, so umount may fail.
        let script = format!(
            "{others} | xargs -r umount --lazy 2> /dev/null; [ -z \"$({others})\" ] && exec unshare -Urm sh -c '{WORK}' /"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]).arg(point);
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut word = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
        assert_eq!(&word, b"begun\n");
        let input = child.stdin.take();
        Self { child, input }
    }

    fn end(mut self) {
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}

fn memory(file_system: FileSystem) -> MountedTarget {
    open(&"memory:size=400M".parse().unwrap(), &OpenOptions::fresh(file_system)).unwrap()
}

const FILE: usize = 4 << 20;

fn write(target: &MountedTarget) {
    let mut file = std::fs::File::create(target.mount_point().join("file")).unwrap();
    file.write_all(&vec![0xa5; FILE]).unwrap();
    file.sync_all().unwrap();
}

fn read(target: &MountedTarget) -> u64 {
    let device = target.block_device_info().unwrap();
    let before = DeviceStat::of(&device).unwrap();
    assert_eq!(std::fs::read(target.mount_point().join("file")).unwrap().len(), FILE);
    DeviceStat::of(&device).unwrap().since(&before).read_bytes
}

fn is_cold_although_copies_of_its_mount_exist(file_system: FileSystem) {
    let mut target = memory(file_system);
    write(&target);
    assert!(read(&target) < FILE as u64, "{file_system}: what was just written is in memory");
    let elsewhere = OtherNamespace::begin("--mount", Path::new("/"));
    assert_eq!(target.remount().unwrap(), Remounted::Yes);
    assert!(read(&target) >= FILE as u64, "{file_system}");
    elsewhere.end();
    target.close().unwrap();
}

on_each_file_system!(is_cold_although_copies_of_its_mount_exist:
    ext4 Ext4 "needs loop devices",
    xfs Xfs "needs loop devices, XFS",
    btrfs Btrfs "needs loop devices, btrfs",
    f2fs F2fs "needs loop devices, F2FS",
    nilfs2 Nilfs2 "needs loop devices, NILFS2"
);

#[test]
#[ignore = "needs loop devices"]
fn file_system_in_use_elsewhere_is_refused_with_its_user() {
    let mut target = memory(FileSystem::Ext4);
    write(&target);
    let elsewhere = OtherNamespace::begin("--mount", target.mount_point());
    refused(target.remount(), &format!("process {} (sh -c", elsewhere.child.id()));
    elsewhere.end();
    drop(target);
}

/// An image that a process elsewhere has, for a run in memory; afterwards it is complete.
fn is_complete_after(use_it: impl FnOnce(MountedTarget)) {
    let (_directory, path) = image_path();
    let target = open(&image(&path, "64M"), &in_memory()).unwrap();
    write(&target);
    let elsewhere = OtherNamespace::begin("--mount", target.mount_point());
    use_it(target);
    elsewhere.end();
    let mut target = open(&image(&path, "64M"), &OpenOptions::existing()).unwrap();
    assert!(target.check_file_system().unwrap().unwrap().clean);
    assert_eq!(std::fs::read(target.mount_point().join("file")).unwrap().len(), FILE);
    target.close().unwrap();
}

#[test]
#[ignore = "needs loop devices"]
fn memory_image_is_saved_while_file_system_stays_alive() {
    is_complete_after(|target| refused(target.close(), ""));
}

#[test]
#[ignore = "needs loop devices"]
fn memory_image_is_complete_after_refused_remount() {
    is_complete_after(|mut target| {
        refused(target.remount(), "");
        // Its file system is still alive there, so the content of its device is incomplete.
        refused(target.close(), "");
    });
}

#[test]
#[ignore = "needs loop devices, user namespaces"]
fn busy_mount_copy_is_refused_with_its_holder() {
    let mut target = memory(FileSystem::Ext4);
    write(&target);
    let elsewhere = OtherNamespace::of_user(target.mount_point());
    refused(target.remount(), &format!("process {} (sh -c", elsewhere.child.id()));
    elsewhere.end();
}

#[test]
#[ignore = "needs loop devices"]
fn an_image_that_a_copy_keeps_attached_is_freed_by_the_next_run() {
    if let Some(path) = is_child() {
        let target = open_image(&path, "64M");
        write(&target);
        println!("ready");
        until_killed();
        unreachable!("it is killed before");
    }
    let (_directory, path) = image_path();
    let test = "cold::an_image_that_a_copy_keeps_attached_is_freed_by_the_next_run";
    let (process, _) = started(child(test, &path));
    let elsewhere = OtherNamespace::begin("--mount", Path::new("/"));
    drop(process);
    let target = open(&image(&path, "64M"), &OpenOptions::existing()).unwrap();
    assert_eq!(std::fs::read(target.mount_point().join("file")).unwrap().len(), FILE);
    elsewhere.end();
    target.close().unwrap();
}
