//! A restore affects only the target of its snapshot.

use crate::common::{existing, loop_device, partition, refused, run, temporary_directory};
use senesce_volume::snapshot::{Method, Snapshots};
use senesce_volume::{LoopDevice, TargetError, TargetSpec};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const SIZE: usize = 4 << 20;

fn image(path: &Path, byte: u8) -> TargetSpec {
    fs::write(path, vec![byte; SIZE]).unwrap();
    existing(path)
}

fn is_full_of(path: &Path, byte: u8) -> bool {
    fs::read(path).unwrap().iter().all(|one| *one == byte)
}

struct Scene {
    directory: tempfile::TempDir,
    first: TargetSpec,
    second: TargetSpec,
}

impl Scene {
    fn new() -> Self {
        let directory = temporary_directory();
        let first = image(&directory.path().join("a.img"), 1);
        let second = image(&directory.path().join("b.img"), 2);
        let scene = Self { directory, first, second };
        scene.of(&scene.first).unwrap().create("a1", Method::Copy).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn of(&self, spec: &TargetSpec) -> Result<Snapshots, TargetError> {
        Snapshots::of(spec, Some(&self.path("store")))
    }

    fn allowing(&self, spec: &TargetSpec, erase: &str) -> Result<Snapshots, TargetError> {
        Snapshots::allowing(spec, Some(&self.path("store")), Some(erase))
    }

    /// Gives the snapshot the description of an old version without a target identity.
    fn forget_the_target(&self) {
        let path = self.path("store/a1.json");
        let mut text: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        text.as_object_mut().unwrap().remove("identity");
        fs::write(&path, text.to_string()).unwrap();
    }
}

#[test]
fn interrupted_restore_is_not_completed_on_another_image() {
    let scene = Scene::new();
    fs::write(scene.path("a.img"), vec![9; SIZE]).unwrap();
    fs::write(scene.path("store/journal"), "a1").unwrap();
    let mut second = scene.of(&scene.second).unwrap();
    refused(second.rollback("a1", false), "another target");
    assert!(is_full_of(&scene.path("b.img"), 2), "it was written");
    scene.of(&scene.first).unwrap().rollback("a1", false).unwrap();
    assert!(is_full_of(&scene.path("a.img"), 1), "that of the snapshot is completed");
}

#[test]
fn a_snapshot_of_another_image_is_refused_until_the_target_is_named() {
    let scene = Scene::new();
    let name = scene.path("b.img").to_string_lossy().into_owned();
    refused(scene.of(&scene.second).unwrap().rollback("a1", false), "another target");
    assert!(is_full_of(&scene.path("b.img"), 2), "it was written");
    refused(scene.allowing(&scene.second, "/another"), "does not name it");
    scene.allowing(&scene.second, &name).unwrap().rollback("a1", false).unwrap();
    assert!(is_full_of(&scene.path("b.img"), 1));
}

#[test]
fn moved_image_requires_erase_once() {
    let scene = Scene::new();
    let (moved, name) = (scene.path("c.img"), scene.path("c.img").to_string_lossy().into_owned());
    fs::rename(scene.path("a.img"), &moved).unwrap();
    let spec = TargetSpec::Image { path: moved.clone(), size: None };
    refused(scene.of(&spec).unwrap().rollback("a1", false), "--erase");
    scene.allowing(&spec, &name).unwrap().rollback("a1", false).unwrap();
    fs::write(&moved, vec![9; SIZE]).unwrap();
    scene.of(&spec).unwrap().rollback("a1", false).unwrap();
    assert!(is_full_of(&moved, 1));
}

#[test]
fn image_moves_together_with_its_snapshot_folder() {
    let directory = temporary_directory();
    let (before, after) = (directory.path().join("before"), directory.path().join("after"));
    fs::create_dir(&before).unwrap();
    let spec = image(&before.join("a.img"), 1);
    Snapshots::of(&spec, None).unwrap().create("a1", Method::Copy).unwrap();
    fs::rename(&before, &after).unwrap();
    let spec = image(&after.join("a.img"), 9);
    fs::write(after.join("a.img.snapshots/journal"), "a1").unwrap();
    let report = Snapshots::of(&spec, None).unwrap().rollback("a1", false).unwrap();
    assert!(report.note.unwrap().contains("interrupted") && is_full_of(&after.join("a.img"), 1));
    // With --store, the folder next to one image is not that of another.
    let other = image(&after.join("b.img"), 2);
    let folder = after.join("a.img.snapshots");
    refused(Snapshots::of(&other, Some(&folder)).unwrap().rollback("a1", false), "another target");
    assert!(is_full_of(&after.join("b.img"), 2));
}

#[test]
fn snapshots_without_target_identity_stay_usable() {
    let scene = Scene::new();
    scene.forget_the_target();
    fs::write(scene.path("a.img"), vec![9; SIZE]).unwrap();
    scene.of(&scene.first).unwrap().rollback("a1", false).unwrap();
    assert!(is_full_of(&scene.path("a.img"), 1));
    // The journal does not name its target.
    scene.forget_the_target();
    fs::write(scene.path("a.img"), vec![9; SIZE]).unwrap();
    fs::write(scene.path("store/journal"), "a1").unwrap();
    refused(scene.of(&scene.first).unwrap().rollback("a1", false), "--erase");
    assert!(is_full_of(&scene.path("a.img"), 9));
    let name = scene.path("a.img").to_string_lossy().into_owned();
    scene.allowing(&scene.first, &name).unwrap().rollback("a1", false).unwrap();
    assert!(is_full_of(&scene.path("a.img"), 1));
}

struct Partitioned {
    disk: LoopDevice,
}

impl Partitioned {
    fn new() -> Self {
        let (_file, disk) = loop_device(16 << 20);
        partition(disk.path(), "2048,8192\n10240,8192\n");
        run(&["partx", "-u", disk.path().to_str().unwrap()]);
        Self { disk }
    }

    fn part(&self, number: u8) -> PathBuf {
        format!("{}p{number}", self.disk.path().display()).into()
    }
}

impl Drop for Partitioned {
    fn drop(&mut self) {
        run(&["partx", "-d", self.disk.path().to_str().unwrap()]);
    }
}

#[test]
#[ignore = "needs loop devices, partitions"]
fn partition_is_not_restored_to_another_partition() {
    let directory = temporary_directory();
    let disk = Partitioned::new();
    let fill = |number: u8| {
        let file = File::options().write(true).open(disk.part(number)).unwrap();
        file.write_all_at(&vec![number; SIZE], 0).unwrap();
        file.sync_all().unwrap();
    };
    [1, 2].into_iter().for_each(fill);
    let spec = |number| TargetSpec::Device(disk.part(number));
    let store = directory.path().join("store");
    Snapshots::of(&spec(1), Some(&store)).unwrap().create("one", Method::Copy).unwrap();
    let result = Snapshots::of(&spec(2), Some(&store)).unwrap().rollback("one", false);
    refused(result, "without a serial number");
    let mut content = vec![0; SIZE];
    File::open(disk.part(2)).unwrap().read_exact_at(&mut content, 0).unwrap();
    assert!(content.iter().all(|byte| *byte == 2), "it was written");
    Snapshots::of(&spec(1), Some(&store)).unwrap().rollback("one", false).unwrap();
}
