//! A restore is verified by its bytes, not by a stamp or a trace.

use crate::common::tracers::{OtherTracer, TraceFs};
use crate::common::*;
use senesce_core::failure::{Classify, ExitCode};
use senesce_volume::snapshot::{Method, Snapshots, TracedRun, Verify};
use senesce_volume::{BlockDevice, OpenOptions, TargetSpec, open};
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

struct Saved {
    path: PathBuf,
    spec: TargetSpec,
    before: Vec<u8>,
    directory: tempfile::TempDir,
}

impl Saved {
    fn new() -> Self {
        let (directory, path) = image_path();
        let before: Vec<u8> = (0..8 << 20).map(|index: u32| (index / 4096 % 251) as u8).collect();
        fs::write(&path, &before).unwrap();
        Self::of(directory, path, before)
    }

    fn mountable() -> Self {
        let (directory, path) = image_path();
        open(&image(&path, "64M"), &OpenOptions::default()).unwrap().close().unwrap();
        let before = fs::read(&path).unwrap();
        Self::of(directory, path, before)
    }

    fn of(directory: tempfile::TempDir, path: PathBuf, before: Vec<u8>) -> Self {
        let spec = existing(&path);
        Snapshots::of(&spec, None).unwrap().create("clean", Method::Copy).unwrap();
        Self { path, spec, before, directory }
    }

    fn snapshots(&self) -> Snapshots {
        Snapshots::of(&self.spec, None).unwrap()
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.directory.path().join(format!("a.img.snapshots/clean.{suffix}"))
    }

    fn is_as_before(&self) -> bool {
        fs::read(&self.path).unwrap() == self.before
    }

    fn change(&self) {
        File::options().write(true).open(&self.path).unwrap().write_all_at(b"changed", 5 << 20).unwrap();
    }

    fn run(&self, act: impl FnOnce(&Path)) -> TracedRun<()> {
        let traced = self.snapshots().run_and_rollback("clean", "", Verify::Auto, |point| {
            act(point);
            Ok(())
        });
        traced.unwrap()
    }
}

fn write_files(mount_point: &Path) {
    for number in 0..10 {
        let path = mount_point.join(format!("new{number}"));
        fs::write(&path, vec![0xAA; 300_000]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
    }
}

#[test]
fn false_stamp_hides_no_difference() {
    let saved = Saved::new();
    let modified = saved.path.metadata().unwrap().modified().unwrap();
    saved.change();
    File::options().write(true).open(&saved.path).unwrap().set_times(FileTimes::new().set_modified(modified)).unwrap();
    let report = saved.snapshots().rollback("clean", false).unwrap();
    assert_eq!((report.method.as_str(), report.verified, report.restored_bytes), ("comparison", true, 1 << 20));
    assert!(saved.is_as_before());
    let report = saved.snapshots().rollback("clean", false).unwrap();
    assert_eq!((report.method.as_str(), report.verification.compared_bytes), ("unchanged", 8 << 20));
}

#[test]
fn everything_is_restored_when_asked_for() {
    let saved = Saved::new();
    saved.change();
    let report = saved.snapshots().rollback("clean", true).unwrap();
    assert!(["copy", "reflink"].contains(&report.method.as_str()), "{report:?}");
    assert_eq!((report.verified, report.verification.differing_bytes), (true, 0));
    assert!(saved.is_as_before());
}

#[test]
fn damaged_snapshot_fails_verification() {
    let saved = Saved::new();
    let snapshot = File::options().write(true).open(saved.file("img")).unwrap();
    snapshot.write_all_at(b"damaged", 5 << 20).unwrap();
    // Unchanged parts are not touched, so the damage does not matter.
    assert!(saved.snapshots().rollback("clean", false).unwrap().verified);
    saved.change();
    let manifest = fs::read(saved.file("json")).unwrap();
    for _attempt in 0..2 {
        let report = saved.snapshots().rollback("clean", false).unwrap();
        assert_eq!((report.method.as_str(), report.verified), ("comparison", false));
        assert_eq!(fs::read(saved.file("json")).unwrap(), manifest, "the stamp is not renewed");
    }
}

#[test]
fn missing_digests_are_computed_from_the_snapshot() {
    let saved = Saved::new();
    fs::remove_file(saved.file("blake3")).unwrap();
    saved.change();
    let report = saved.snapshots().rollback("clean", false).unwrap();
    assert!(report.verified && report.note.as_ref().unwrap().contains("digests are damaged"), "{report:?}");
    assert!(saved.is_as_before());
    let error = saved.snapshots().run_and_rollback("clean", "", Verify::Auto, |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("digests are damaged"), "{error}");

    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(saved.file("json")).unwrap()).unwrap();
    manifest["format"] = 1.into();
    manifest.as_object_mut().unwrap().remove("digests");
    manifest["stamp"]["image"].as_object_mut().unwrap().remove("changed_ns");
    fs::write(saved.file("json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
    saved.change();
    let report = saved.snapshots().rollback("clean", false).unwrap();
    assert_eq!((report.method.as_str(), report.verified), ("comparison", true));
    assert!(saved.is_as_before() && saved.file("blake3").exists());
}

#[test]
#[ignore = "needs loop devices"]
fn trace_next_to_another_tracer_restores_everything() {
    let (saved, _other) = (Saved::mountable(), OtherTracer::start());
    for round in 0..3 {
        let traced = saved.run(write_files);
        assert_eq!(traced.trace.problems(), [], "round {round}");
        assert_eq!((traced.rollback.method.as_str(), traced.rollback.verified), ("trace", true));
        assert_eq!(traced.rollback.verification.differing_bytes, 0);
        assert!(saved.is_as_before(), "round {round}");
    }
}

#[test]
#[ignore = "needs loop devices"]
fn invalid_trace_is_not_used_for_restore() {
    let (saved, tracefs) = (Saved::mountable(), TraceFs::mount());
    let traced = saved.run(|point| {
        let device = BlockDevice::below(point).unwrap();
        fs::write(tracefs.recording(&device).join("tracing_on"), "0").unwrap();
        write_files(point);
    });
    assert!(traced.trace.valid().is_err());
    assert_eq!((traced.rollback.method.as_str(), traced.rollback.verified), ("comparison", true));
    let note = traced.rollback.note.unwrap();
    assert!(note.contains("not valid") && note.contains("tracing_on"), "{note}");
    assert!(saved.is_as_before());
}

#[test]
#[ignore = "needs loop devices"]
fn target_with_failed_restore_is_refused() {
    let saved = Saved::mountable();
    File::options().write(true).open(saved.file("img")).unwrap().write_all_at(&[1; 4096], 1024).unwrap();
    let traced = saved.run(write_files);
    assert!(!traced.rollback.verified, "{:?}", traced.rollback);
    let error = saved.snapshots().run_and_rollback("clean", "", Verify::Auto, |_| Ok(())).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Refused);
}

#[test]
#[ignore = "needs loop devices"]
fn a_target_that_is_still_in_use_is_restored_by_the_next_call() {
    let saved = Saved::mountable();
    let mut holder = None;
    let ran = saved.snapshots().run_and_rollback("clean", "", Verify::Auto, |point| {
        write_files(point);
        holder = std::process::Command::new("sleep").arg("600").current_dir(point).spawn().ok();
        Ok(())
    });
    let mut holder = holder.unwrap();
    assert!(ran.is_err() && !saved.is_as_before());
    assert!(Snapshots::of(&saved.spec, None).is_err(), "it is still in use");
    holder.kill().unwrap();
    holder.wait().unwrap();
    let report = saved.snapshots().rollback("clean", false).unwrap();
    assert!(report.note.unwrap().contains("interrupted"));
    assert!(saved.is_as_before());
}
