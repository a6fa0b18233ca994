//! Cold targets, also when other mount namespaces hold the file system.

use senesce_core::failure::{Classify, ExitCode};
use senesce_volume::{DeviceStat, FileSystem, MountedTarget, OpenOptions, Remounted, TargetError, open};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

struct Elsewhere {
    child: Child,
    input: Option<ChildStdin>,
}

impl Elsewhere {
    /// `flags` are those of unshare(1). In `folder` the process works; it has begun when this returns.
    fn begin(flags: &str, folder: &Path) -> Self {
        let mut child = Command::new("unshare")
            .args([flags, "sh", "-c", "cd \"$0\" && echo begun && read -r word"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
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

fn in_memory(file_system: FileSystem) -> Result<MountedTarget, TargetError> {
    open(&"memory:size=400M".parse().unwrap(), &OpenOptions::fresh(file_system))
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
    let mut target = in_memory(file_system).unwrap();
    write(&target);
    assert!(read(&target) < FILE as u64, "{file_system}: what was just written is in memory");
    let elsewhere = Elsewhere::begin("--mount", Path::new("/"));
    assert_eq!(target.remount().unwrap(), Remounted::Yes);
    assert!(read(&target) >= FILE as u64, "{file_system}");
    elsewhere.end();
    target.close().unwrap();
}

#[test]
#[ignore = "needs loop devices"]
fn ext4_is_cold_although_copies_of_its_mount_exist() {
    is_cold_although_copies_of_its_mount_exist(FileSystem::Ext4);
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn xfs_is_cold_although_copies_of_its_mount_exist() {
    is_cold_although_copies_of_its_mount_exist(FileSystem::Xfs);
}

#[test]
#[ignore = "needs loop devices, Btrfs"]
fn btrfs_is_cold_although_copies_of_its_mount_exist() {
    is_cold_although_copies_of_its_mount_exist(FileSystem::Btrfs);
}

#[test]
#[ignore = "needs loop devices, F2FS"]
fn f2fs_is_cold_although_copies_of_its_mount_exist() {
    is_cold_although_copies_of_its_mount_exist(FileSystem::F2fs);
}

#[test]
#[ignore = "needs loop devices, NILFS2"]
fn nilfs2_is_cold_although_copies_of_its_mount_exist() {
    is_cold_although_copies_of_its_mount_exist(FileSystem::Nilfs2);
}

#[test]
#[ignore = "needs loop devices"]
fn file_system_in_use_elsewhere_is_refused_with_its_user() {
    let mut target = in_memory(FileSystem::Ext4).unwrap();
    write(&target);
    let elsewhere = Elsewhere::begin("--mount", target.mount_point());
    let error = target.remount().unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Refused);
    let message = error.to_string();
    let process = format!("process {} (sh -c", elsewhere.child.id());
    assert!(message.contains(&process) && message.contains("mount namespace"), "{message}");
    elsewhere.end();
    drop(target);
}

#[test]
#[ignore = "needs loop devices"]
fn memory_image_is_saved_while_file_system_stays_alive() {
    let directory = crate::common::temporary_directory();
    let path = directory.path().join("a.img");
    let options = OpenOptions { in_memory: true, ..OpenOptions::default() };
    let target = open(&crate::common::image(&path, "64M"), &options).unwrap();
    write(&target);
    let elsewhere = Elsewhere::begin("--mount", target.mount_point());
    let error = target.close().unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Refused, "{error}");
    elsewhere.end();
    let mut target = open(&crate::common::image(&path, "64M"), &OpenOptions::existing()).unwrap();
    assert!(target.check_file_system().unwrap().unwrap().clean);
    assert_eq!(std::fs::read(target.mount_point().join("file")).unwrap().len(), FILE);
    target.close().unwrap();
}

#[test]
#[ignore = "needs loop devices"]
fn memory_image_is_complete_after_refused_remount() {
    let directory = crate::common::temporary_directory();
    let path = directory.path().join("a.img");
    let options = OpenOptions { in_memory: true, ..OpenOptions::default() };
    let mut target = open(&crate::common::image(&path, "64M"), &options).unwrap();
    write(&target);
    let elsewhere = Elsewhere::begin("--mount", target.mount_point());
    assert_eq!(target.remount().unwrap_err().exit_code(), ExitCode::Refused);
    // Its file system is still alive there, so the content of its device is incomplete.
    assert_eq!(target.close().unwrap_err().exit_code(), ExitCode::Refused);
    elsewhere.end();
    let mut target = open(&crate::common::image(&path, "64M"), &OpenOptions::existing()).unwrap();
    assert!(target.check_file_system().unwrap().unwrap().clean);
    assert_eq!(std::fs::read(target.mount_point().join("file")).unwrap().len(), FILE);
    target.close().unwrap();
}

#[test]
#[ignore = "needs loop devices, user namespaces"]
fn busy_mount_copy_is_refused_with_its_holder() {
    let mut target = in_memory(FileSystem::Ext4).unwrap();
    write(&target);
    let elsewhere = Elsewhere::begin("-Urm", Path::new("/"));
    let message = target.remount().unwrap_err().to_string();
    let process = format!("process {} (sh -c", elsewhere.child.id());
    assert!(message.contains(&process) && message.contains("/run/senesce/mnt/"), "{message}");
    elsewhere.end();
}

#[test]
#[ignore = "needs loop devices"]
fn an_image_that_a_copy_keeps_attached_is_freed_by_the_next_run() {
    if let Some(path) = crate::common::is_child() {
        let target = open(&crate::common::image(&path, "64M"), &OpenOptions::default()).unwrap();
        write(&target);
        println!("mounted {}", target.mount_point().display());
        crate::common::until_killed();
        unreachable!("it is killed before");
    }
    let directory = crate::common::temporary_directory();
    let path = directory.path().join("a.img");
    let mut child = crate::common::child("cold::an_image_that_a_copy_keeps_attached_is_freed_by_the_next_run", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap());
    assert!(std::io::BufRead::lines(lines).any(|line| line.unwrap().contains("mounted /")));
    let elsewhere = Elsewhere::begin("--mount", Path::new("/"));
    child.kill().unwrap();
    child.wait().unwrap();
    let target = open(&crate::common::image(&path, "64M"), &OpenOptions::existing()).unwrap();
    assert_eq!(std::fs::read(target.mount_point().join("file")).unwrap().len(), FILE);
    elsewhere.end();
    target.close().unwrap();
}
