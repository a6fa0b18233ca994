//! Opening, refusing and undoing on loop images.

use crate::common::*;
use senesce_core::failure::ExitCode;
use senesce_volume::{
    ClaimedDevice, FileSystem, LoopDevice, MARKER, OpenOptions, Remounted, TargetError, TargetSpec, open, visit,
};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn is_made_used_checked_and_undone(file_system: FileSystem) {
    let (directory, path) = image_path();
    let spec = image(&path, "300M");
    let mut target = open(&spec, &OpenOptions::fresh(file_system)).unwrap();
    fs::write(target.directory().path().join("file"), vec![7; 100_000]).unwrap();
    target.sync().unwrap();
    assert_eq!(target.remount().unwrap(), Remounted::Yes);
    assert_eq!(fs::read(target.mount_point().join("file")).unwrap().len(), 100_000);
    let report = target.check_file_system().unwrap();
    assert!(report.as_ref().is_none_or(|report| report.clean), "{report:?}");
    assert_eq!(target.kernel_warnings(), Vec::<String>::new());
    let facts = target.environment();
    assert_eq!(facts.0["fs.name"], file_system.name());
    assert!(facts.0["mkfs.version"].as_str().unwrap().contains('.'), "{facts:?}");
    assert!(facts.0["fs.features"].as_str().unwrap().len() > 20, "{facts:?}");
    assert!(facts.0.contains_key("queue.scheduler"));
    target.close().unwrap();
    assert_eq!(left_over(directory.path()), Vec::<String>::new());

    let again = open(&spec, &OpenOptions::existing()).unwrap();
    assert_eq!(again.file_system(), Some(file_system));
    assert!(again.mount_point().join("file").exists());
    drop(again);
    assert_eq!(left_over(directory.path()), Vec::<String>::new());
}

on_each_file_system!(is_made_used_checked_and_undone:
    ext4 Ext4 "needs loop devices",
    xfs Xfs "needs loop devices, XFS",
    btrfs Btrfs "needs loop devices, btrfs",
    f2fs F2fs "needs loop devices, F2FS",
    nilfs2 Nilfs2 "needs loop devices, NILFS2"
);

#[test]
#[ignore = "needs loop devices"]
fn an_image_in_use_or_not_ours_is_refused_and_not_altered() {
    let (_directory, path) = image_path();
    let spec = image(&path, "32M");
    let target = open(&spec, &OpenOptions::default()).unwrap();
    // A second run.
    refused(open(&spec, &OpenOptions::existing()), "");
    fs::remove_file(target.mount_point().join(MARKER)).unwrap();
    fs::write(target.mount_point().join("thesis.txt"), "precious").unwrap();
    target.close().unwrap();

    let before = fs::read(&path).unwrap();
    refused(open(&spec, &OpenOptions::default()), "");
    refused(open(&spec, &OpenOptions::existing()), "no marker");
    refused(open(&spec, &erasing(Path::new("/dev/sda"), OpenOptions::default())), "");
    assert!(fs::read(&path).unwrap() == before, "the image was altered");
    for options in [OpenOptions::existing(), OpenOptions::default()] {
        open(&spec, &erasing(&path, options)).unwrap().close().unwrap();
    }
}

#[test]
#[ignore = "needs loop devices"]
fn mounted_device_is_refused_despite_erase() {
    let directory = temporary_directory();
    let target = open_image(&directory.path().join("a.img"), "32M");
    let claim = |device: &Path| ClaimedDevice::claim(device, Some(&device.to_string_lossy()));
    refused(claim(target.block_device().unwrap()), "is mounted on");
    if let Some(system) = senesce_volume::BlockDevice::below(Path::new("/")) {
        refused(claim(system.path()), "");
    }
    target.close().unwrap();
}

#[test]
#[ignore = "needs loop devices"]
fn a_device_is_claimed_by_path_and_mounted() {
    let (_file, device) = loop_device(32 << 20);
    let spec = TargetSpec::Device(device.path().into());
    let target = open(&spec, &OpenOptions::default()).unwrap();
    assert_eq!(target.capacity().0, 32 << 20);
    target.close().unwrap();
    refused(open(&spec, &OpenOptions::default()), "ext2, ext3 or ext4");
    open(&spec, &erasing(device.path(), OpenOptions::default())).unwrap().close().unwrap();
}

#[test]
#[ignore = "needs loop devices"]
fn inspecting_leaves_image_unchanged() {
    let (_directory, path) = image_path();
    let target = open_image(&path, "32M");
    fs::write(target.mount_point().join("file"), "content").unwrap();
    target.close().unwrap();
    let before = fs::read(&path).unwrap();
    let visited = visit(&image(&path, "32M"), &OpenOptions::inspect()).unwrap();
    assert_eq!(fs::read_to_string(visited.mount_point().join("file")).unwrap(), "content");
    visited.close().unwrap();
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
#[ignore = "needs loop devices"]
fn keep_existing_refuses_unknown_file_system() {
    let directory = temporary_directory();
    let path = directory.path().join("foreign.img");
    let mut content = vec![0; 32 << 20];
    content[3..11].copy_from_slice(b"NTFS    ");
    fs::write(&path, content).unwrap();
    let options = OpenOptions { keep_existing: true, ..OpenOptions::fresh(FileSystem::Ext4) };
    fails(open(&image(&path, "32M"), &erasing(&path, options)), ExitCode::Usage, "");
}

#[test]
#[ignore = "needs loop devices"]
fn image_in_memory_is_kept_at_close_and_memory_target_is_removed() {
    let (_directory, path) = image_path();
    let target = open(&image(&path, "32M"), &in_memory()).unwrap();
    fs::write(target.mount_point().join("file"), "aged in memory").unwrap();
    target.close().unwrap();
    let again = open(&image(&path, "32M"), &OpenOptions::existing()).unwrap();
    assert_eq!(fs::read_to_string(again.mount_point().join("file")).unwrap(), "aged in memory");
    again.close().unwrap();

    let memory = open(&"memory:32M".parse().unwrap(), &OpenOptions::default()).unwrap();
    fs::write(memory.mount_point().join("file"), "gone").unwrap();
    let point = memory.mount_point().to_path_buf();
    memory.close().unwrap();
    assert!(!point.exists());
}

fn attached(path: &Path, size: u64) -> LoopDevice {
    fs::File::create_new(path).unwrap().set_len(size).unwrap();
    attach(path)
}

/// The kernel would add the copy to the mounted file system.
#[test]
#[ignore = "needs loop devices"]
fn copy_of_one_of_several_btrfs_devices_is_refused() {
    let directory = temporary_directory();
    let paths = ["a.img", "b.img"].map(|name| directory.path().join(name));
    let devices = paths.each_ref().map(|path| attached(path, 128 << 20));
    let [one, other] = devices.each_ref().map(|device| device.path().to_str().unwrap());
    run(&["mkfs.btrfs", "-q", one, other]);
    run(&["btrfs", "device", "scan", one, other]);
    let point = directory.path().join("mount");
    fs::create_dir(&point).unwrap();
    run(&["mount", one, point.to_str().unwrap()]);
    fs::copy(&paths[1], directory.path().join("copy.img")).unwrap();
    let refused = visit(&image(&directory.path().join("copy.img"), "128M"), &OpenOptions::inspect()).unwrap_err();
    run(&["umount", point.to_str().unwrap()]);
    assert!(matches!(refused, TargetError::Missing { .. }), "{refused}");
}

#[test]
#[ignore = "needs loop devices, btrfs"]
fn one_of_several_btrfs_devices_names_the_others() {
    for profile in ["single", "raid0", "raid1"] {
        let directory = temporary_directory();
        let paths = ["a.img", "b.img", "c.img"].map(|name| directory.path().join(name));
        let devices = paths.each_ref().map(|path| attached(path, 128 << 20));
        let names = devices.each_ref().map(|device| device.path().to_str().unwrap());
        run(&[&["mkfs.btrfs", "-qf", "-d", profile, "-m", profile][..], &names].concat());
        if profile != "single" {
            run(&[&["btrfs", "device", "scan", "--forget"][..], &names].concat());
        }
        // Without it, the kernel still looks for the other devices at their former paths.
        drop(devices);
        let refused = visit(&image(&paths[1], "128M"), &OpenOptions::inspect()).unwrap_err();
        let TargetError::Missing { what, .. } = refused else { panic!("{profile}: {refused}") };
        assert!(what.contains("1 of 3 devices") && what.contains("devid 1, devid 3"), "{profile}: {what}");
    }
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn device_that_an_xfs_needs_is_named() {
    for (option, part) in [("-r", "realtime"), ("-l", "log")] {
        let directory = temporary_directory();
        let paths = ["a.img", "b.img"].map(|name| directory.path().join(name));
        paths.iter().for_each(|path| fs::File::create_new(path).unwrap().set_len(400 << 20).unwrap());
        let device = if option == "-r" { "rtdev" } else { "logdev" };
        run(&["mkfs.xfs", "-qf", option, &format!("{device}={}", paths[1].display()), paths[0].to_str().unwrap()]);
        let refused = visit(&image(&paths[0], "400M"), &OpenOptions::inspect()).unwrap_err();
        let TargetError::Missing { what, remedy } = refused else { panic!("{option}: {refused}") };
        assert!(what.contains(part) && remedy.contains(device), "{what} is missing: {remedy}");
    }
}

/// The bit of an unknown incompatible feature.
#[test]
#[ignore = "needs loop devices"]
fn refusal_by_the_kernel_has_its_reason() {
    use std::os::unix::fs::FileExt;
    let (_directory, path) = image_path();
    fs::File::create_new(&path).unwrap().set_len(32 << 20).unwrap();
    run(&["mkfs.ext4", "-qF", "-O", "^metadata_csum", path.to_str().unwrap()]);
    fs::File::options().write(true).open(&path).unwrap().write_all_at(&[0x80], 1024 + 0x63).unwrap();
    let refused = visit(&image(&path, "32M"), &OpenOptions::inspect()).unwrap_err();
    let TargetError::Program { output, .. } = refused else { panic!("{refused}") };
    assert!(output.contains("features"), "{output}");
}

#[test]
#[ignore = "needs loop devices"]
fn queue_settings_are_restored() {
    let directory = temporary_directory();
    let mut target = open_image(&directory.path().join("a.img"), "32M");
    let device = target.block_device_info().unwrap();
    let before = (device.queue("scheduler"), device.queue("read_ahead_kb"));
    target.set_scheduler("mq-deadline").unwrap();
    target.set_read_ahead(0).unwrap();
    assert_eq!(device.queue("read_ahead_kb").unwrap(), "0");
    assert_eq!(target.environment().0["queue.scheduler"], "mq-deadline");
    target.close().unwrap();
    assert_eq!((device.queue("scheduler"), device.queue("read_ahead_kb")), before);
}

#[test]
#[ignore = "needs loop devices"]
fn read_ahead_that_kernel_rounds_is_refused() {
    let directory = temporary_directory();
    let mut target = open_image(&directory.path().join("a.img"), "32M");
    let device = target.block_device_info().unwrap();
    let before = device.queue("read_ahead_kb");
    fails(target.set_read_ahead(6), ExitCode::Usage, "it sets 4");
    assert_eq!(device.queue("read_ahead_kb"), before);
    target.set_read_ahead(8).unwrap();
    target.close().unwrap();
}

#[test]
#[ignore = "needs loop devices, btrfs"]
fn read_ahead_is_set_in_the_queue_and_in_the_mount_of_btrfs() {
    let options = OpenOptions { file_system: Some(FileSystem::Btrfs), ..OpenOptions::default() };
    let _other_image_in_memory = open(&"memory:32M".parse().unwrap(), &OpenOptions::default()).unwrap();
    let mut target = open(&"memory:128M".parse().unwrap(), &options).unwrap();
    let below = senesce_volume::BlockDevice::below(target.mount_point());
    assert!(below.is_some() && below.as_ref() == target.block_device_info().as_ref());
    for _ in 0..2 {
        let files = target.set_read_ahead(0).unwrap();
        assert_eq!(files.len(), 2, "{files:?}");
        assert!(files.iter().all(|file| fs::read_to_string(file).unwrap().trim() == "0"));
        target.remount().unwrap();
        assert_ne!(fs::read_to_string(&files[1]).unwrap().trim(), "0", "a new mount has a setting of its own");
    }
    target.close().unwrap();
}

#[test]
#[ignore = "needs loop devices"]
fn panic_leaves_no_resources() {
    let (directory, path) = image_path();
    let result = std::panic::catch_unwind(|| {
        let target = open_image(&path, "32M");
        let _open_file = fs::File::create(target.mount_point().join("held")).unwrap();
        panic!("expected by this test");
    });
    assert!(result.is_err());
    assert_eq!(left_over(directory.path()), Vec::<String>::new());
}

/// Not a test of its own: the process that the next test kills.
#[test]
fn child_that_holds_a_target() {
    let Some(path) = is_child() else { return };
    let target = open_image(&path, "64M");
    fs::write(target.mount_point().join("file"), vec![1; 20 << 20]).unwrap();
    println!("ready {}", target.mount_point().display());
    until_killed();
}

#[test]
#[ignore = "needs loop devices"]
fn next_run_cleans_up_after_kill_9_and_spares_running_targets() {
    let (directory, path) = image_path();
    let start = |path: &Path| started(child("targets::child_that_holds_a_target", path));
    let (killed, point) = start(&path);
    let (mut living, spared) = start(&directory.path().join("b.img"));
    let (point, spared) = (Path::new(&point), Path::new(&spared));
    drop(killed);

    let again = open(&image(&path, "64M"), &OpenOptions::existing()).unwrap();
    assert_eq!(fs::metadata(again.mount_point().join("file")).unwrap().len(), 20 << 20);
    assert!(!point.exists());
    again.close().unwrap();
    assert_eq!(left_over(&path), Vec::<String>::new());
    assert!(is_mounted(spared) && living.is_running());

    drop(living);
    // A claim of another test may come first; then this waits for it.
    senesce_volume::guardian::sweep();
    assert!(!spared.exists());
    assert_eq!(left_over(directory.path()), Vec::<String>::new());
}

/// Runs a program that may be missing; `false` if it fails.
fn can(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[test]
#[ignore = "needs loop devices, swap space"]
fn swap_space_is_refused_despite_erase() {
    let (_file, device) = loop_device(16 << 20);
    let name = device.path().to_string_lossy().into_owned();
    // 64 KiB: the kernel cannot end a swap in memory that holds its own pages, and a killed test leaves it.
    assert!(can("mkswap", &[&name, "64"]));
    refused(ClaimedDevice::claim(device.path(), None), "a signature of swap space");
    assert!(can("swapon", &[&name]));
    let claimed = ClaimedDevice::claim(device.path(), Some(&name));
    assert!(can("swapoff", &[&name]));
    refused(claimed, "swap space");
}

#[test]
#[ignore = "needs loop devices, partitions"]
fn a_disk_with_a_mounted_partition_and_a_partition_of_a_disk_in_use_are_refused() {
    let directory = temporary_directory();
    let device = attached(&directory.path().join("disk.img"), 64 << 20);
    partition(device.path(), "label: dos\nstart=2048, size=65536, type=83\n");
    let name = device.path().to_string_lossy().into_owned();
    // The kernel reads the partitions of loop devices only on request.
    let partition = std::path::PathBuf::from(format!("{name}p1"));
    assert!(can("partx", &["-a", &name]) && partition.exists());
    let unused = ClaimedDevice::claim(device.path(), None).unwrap_err().to_string();
    let target = open(&TargetSpec::Device(partition.clone()), &OpenOptions::default()).unwrap();
    let disk = ClaimedDevice::claim(device.path(), Some(&name)).unwrap_err();
    target.close().unwrap();
    let whole = can("mkfs.ext4", &["-q", "-F", &name]);
    assert!(can("partx", &["-d", &name]) && whole);
    assert!(unused.contains("partition table"), "{unused}");
    assert!(disk.to_string().contains("p1 is mounted on"), "{disk}");
}

#[test]
#[ignore = "needs loop devices"]
fn bad_mount_option_leaves_no_resources() {
    let (directory, path) = image_path();
    let wrong = OpenOptions { mount_options: "no_such_option".into(), ..OpenOptions::default() };
    let error = open(&image(&path, "32M"), &wrong).unwrap_err();
    assert!(matches!(error, TargetError::Program { .. }), "{error}");
    assert_eq!(left_over(directory.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs loop devices"]
fn mount_of_running_target_on_loop_device_is_not_cleaned_up() {
    let (_directory, path) = image_path();
    let device = attached(&path, 64 << 20);
    // It has the lock of the device, but not of the file below.
    let living = open(&TargetSpec::Device(device.path().into()), &OpenOptions::default()).unwrap();
    fs::write(living.mount_point().join("new"), "x").unwrap();
    refused(open(&image(&path, "64M"), &erasing(&path, OpenOptions::default())), "");
    assert!(living.mount_point().join("new").exists(), "it was unmounted under its run");
    living.close().unwrap();
}
