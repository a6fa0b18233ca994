//! Restore of snapshots: every byte is as before, whatever happened in between.

use crate::common::*;
use senesce_core::failure::ExitCode;
use senesce_volume::snapshot::{Method, Scope, Snapshots, Verify};
use senesce_volume::{FileSystem, OpenOptions, TargetSpec, open};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

fn filled(folder: &Path, file_system: FileSystem, size: &str) -> (PathBuf, TargetSpec) {
    let path = folder.join("a.img");
    let target = open(&image(&path, size), &OpenOptions::fresh(file_system)).unwrap();
    for number in 0..40 {
        fs::write(target.mount_point().join(format!("old{number}")), vec![number; 100_000]).unwrap();
    }
    target.close().unwrap();
    (path.clone(), existing(&path))
}

fn disturb(mount_point: &Path) {
    for number in 0..20 {
        fs::write(mount_point.join(format!("new{number}")), vec![0xAA; 300_000]).unwrap();
        fs::remove_file(mount_point.join(format!("old{number}"))).unwrap();
    }
    let file = fs::File::options().write(true).open(mount_point.join("old30")).unwrap();
    file.write_all_at(&[9; 5000], 4000).unwrap();
    file.sync_all().unwrap();
    fs::File::options().write(true).open(mount_point.join("old31")).unwrap().set_len(10).unwrap();
    let trimmed = std::process::Command::new("fstrim").arg(mount_point).status();
    assert!(trimmed.is_ok_and(|status| status.success()), "fstrim");
}

#[test]
#[ignore = "needs loop devices"]
fn a_traced_command_is_undone_to_the_byte() {
    for (file_system, size) in [(FileSystem::Ext4, "64M"), (FileSystem::Xfs, "300M"), (FileSystem::Btrfs, "128M")] {
        let directory = temporary_directory();
        let (path, spec) = filled(directory.path(), file_system, size);
        let before = fs::read(&path).unwrap();
        let mut snapshots = Snapshots::of(&spec, None).unwrap();
        snapshots.create("clean", Method::Reflink).unwrap();
        for round in 0..2 {
            let traced = snapshots
                .run_and_rollback("clean", "", Verify::Auto, |point| {
                    disturb(point);
                    Ok(())
                })
                .unwrap();
            traced.result.unwrap();
            assert_eq!(traced.rollback.method, "trace", "round {round}");
            let verification = traced.rollback.verification;
            assert_eq!((traced.rollback.verified, verification.scope), (true, Scope::All), "{file_system}");
            assert_eq!(verification.differing_bytes, 0, "the trace has every write on {file_system}");
            assert!(traced.rollback.restored_bytes > 6_000_000 && traced.trace.len() > 10, "{:?}", traced.rollback);
            assert!(fs::read(&path).unwrap() == before, "{file_system}");
        }
        assert_eq!(snapshots.rollback("clean", false).unwrap().method, "unchanged");
        drop(snapshots);
        assert_eq!(left_over(directory.path()), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs loop devices"]
fn a_change_without_a_trace_is_noticed_and_undone_by_comparing() {
    let directory = temporary_directory();
    let (path, spec) = filled(directory.path(), FileSystem::Ext4, "64M");
    let before = fs::read(&path).unwrap();
    Snapshots::of(&spec, None).unwrap().create("clean", Method::Copy).unwrap();
    let target = open(&spec, &OpenOptions::existing()).unwrap();
    disturb(target.mount_point());
    target.close().unwrap();
    assert!(fs::read(&path).unwrap() != before);

    let mut snapshots = Snapshots::of(&spec, None).unwrap();
    refused(snapshots.run_and_rollback("clean", "", Verify::Auto, |_| Ok(())), "changed since the snapshot");
    let report = snapshots.rollback("clean", false).unwrap();
    assert_eq!((report.method.as_str(), report.verified), ("comparison", true));
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn wrong_names_and_sizes_write_nothing() {
    let (_directory, path) = image_path();
    fs::write(&path, vec![1; 1 << 20]).unwrap();
    let spec = existing(&path);
    let mut snapshots = Snapshots::of(&spec, None).unwrap();
    snapshots.create("clean", Method::Copy).unwrap();
    refused(snapshots.create("clean", Method::Copy), "");
    fails(snapshots.create("../x", Method::Copy), ExitCode::Usage, "");
    fails(snapshots.rollback("other", false), ExitCode::Usage, "clean");
    drop(snapshots);
    fs::write(&path, vec![2; 2 << 20]).unwrap();
    assert!(Snapshots::of(&spec, None).unwrap().rollback("clean", false).is_err(), "another size");
    assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 2));
    assert!(Snapshots::of(&TargetSpec::Directory("/tmp".into()), None).is_err());
}

#[test]
#[ignore = "needs loop devices"]
fn a_device_is_saved_and_restored() {
    let directory = temporary_directory();
    let (_file, device) = loop_device(32 << 20);
    let spec = TargetSpec::Device(device.path().into());
    open(&spec, &OpenOptions::default()).unwrap().close().unwrap();
    let mut snapshots = Snapshots::of(&spec, Some(directory.path())).unwrap();
    snapshots.create("clean", Method::Reflink).unwrap();
    let traced = snapshots
        .run_and_rollback("clean", "", Verify::Auto, |point| {
            fs::write(point.join("new"), vec![5; 1 << 20]).unwrap();
            Ok(())
        })
        .unwrap();
    assert_eq!((traced.rollback.method.as_str(), traced.rollback.verified), ("trace", true));
    drop(snapshots);

    let target = open(&spec, &OpenOptions::existing()).unwrap();
    fs::write(target.mount_point().join("new"), vec![5; 1 << 20]).unwrap();
    target.close().unwrap();
    let report = Snapshots::of(&spec, Some(directory.path())).unwrap().rollback("clean", true).unwrap();
    assert_eq!((report.method.as_str(), report.verified), ("copy", true));
    let report = Snapshots::of(&spec, Some(directory.path())).unwrap().rollback("clean", false).unwrap();
    assert_eq!((report.method.as_str(), report.verified), ("unchanged", true));
}

/// Not a test of its own: the process that the next test kills.
#[test]
fn child_that_is_killed_in_a_traced_command() {
    let Some(path) = is_child() else { return };
    let spec = existing(&path);
    let mut snapshots = Snapshots::of(&spec, None).unwrap();
    let _ = snapshots.run_and_rollback("clean", "", Verify::Auto, |point| {
        disturb(point);
        println!("ready");
        until_killed();
        Ok(())
    });
}

#[test]
#[ignore = "needs loop devices"]
fn rollback_after_killed_command_restores_image() {
    let directory = temporary_directory();
    let (path, spec) = filled(directory.path(), FileSystem::Ext4, "64M");
    let before = fs::read(&path).unwrap();
    Snapshots::of(&spec, None).unwrap().create("clean", Method::Copy).unwrap();
    drop(started(child("snapshots::child_that_is_killed_in_a_traced_command", &path)));

    let mut snapshots = Snapshots::of(&spec, None).unwrap();
    refused(snapshots.run_and_rollback("clean", "", Verify::Auto, |_| Ok(())), "was interrupted");
    let report = snapshots.rollback("clean", false).unwrap();
    drop(snapshots);
    assert!(report.note.unwrap().contains("interrupted"));
    assert!(fs::read(&path).unwrap() == before);
    assert_eq!(left_over(directory.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs loop devices"]
fn interrupted_rollback_is_not_completed_on_another_device() {
    let directory = temporary_directory();
    let attach = |content: u8| {
        let (file, device) = loop_device(8 << 20);
        file.write_all_at(&vec![content; 8 << 20], 0).unwrap();
        (TargetSpec::Device(device.path().into()), device, file)
    };
    let (spec, device, _file) = attach(1);
    Snapshots::of(&spec, Some(directory.path())).unwrap().create("clean", Method::Copy).unwrap();
    // As left by a killed restore.
    fs::write(directory.path().join("journal"), "clean").unwrap();
    drop(device);
    let (spec, device, file) = attach(2);
    let mut snapshots = Snapshots::of(&spec, Some(directory.path())).unwrap();
    refused(snapshots.rollback("clean", false), "without a serial number");
    drop(snapshots);
    let mut content = vec![0; 8 << 20];
    file.read_exact_at(&mut content, 0).unwrap();
    assert!(content.iter().all(|byte| *byte == 2), "it was written");
    let name = device.path().to_string_lossy().into_owned();
    let mut snapshots = Snapshots::allowing(&spec, Some(directory.path()), Some(&name)).unwrap();
    snapshots.rollback("clean", false).unwrap();
    file.read_exact_at(&mut content, 0).unwrap();
    assert!(content.iter().all(|byte| *byte == 1), "it was allowed");
}
