//! Files that overlays show under a second name, and directories that are layers.

use crate::common::{attach, holding, image as image_spec, refused, run, temporary_directory};
use senesce_volume::{BlockDevice, OpenOptions, TargetError, TargetSpec, guard, loop_device, open};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

struct Overlay {
    directory: tempfile::TempDir,
    mounted: Vec<PathBuf>,
}

impl Overlay {
    fn new() -> Self {
        let mut overlay = Self { directory: temporary_directory(), mounted: Vec::new() };
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir(overlay.path(name)).unwrap();
        }
        overlay.mount();
        overlay
    }

    fn mount(&mut self) {
        let at = |name: &str| self.path(name).display().to_string();
        let layers = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
        run(&["mount", "-t", "overlay", "overlay", "-o", &layers, &at("merged")]);
        self.mounted.push(self.path("merged"));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn hide(&mut self, name: &str) {
        run(&["mount", "-t", "tmpfs", "none", self.path(name).to_str().unwrap()]);
        self.mounted.push(self.path(name));
    }

    fn image(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(64 << 20).unwrap();
        path
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        self.mounted.iter().rev().for_each(|point| run(&["umount", point.to_str().unwrap()]));
    }
}

fn make(path: &Path) -> Result<(), TargetError> {
    open(&image_spec(path, "64M"), &OpenOptions::default()).map(drop)
}

#[test]
#[ignore = "needs root, loop devices, overlays"]
fn an_image_in_use_under_its_other_name_is_refused() {
    let overlay = Overlay::new();
    let above = overlay.image("merged/a.img");
    let below = overlay.path("upper/a.img");
    for (used, named) in [(&below, &above), (&above, &below)] {
        let device = attach(used);
        let found = loop_device::attached_to(&File::open(named).unwrap(), named).unwrap();
        assert_eq!(found, [device.path().to_path_buf()]);
        refused(make(named), "");
        // Another device over the same bytes is in use as well.
        let second = attach(named);
        let why = guard::use_of(&BlockDevice::open(second.path()).unwrap()).unwrap();
        assert!(why.is_some_and(|why| why.contains("is attached to")), "{}", second.path().display());
    }
    let writer = holding("<>", &below);
    refused(make(&above), "open for writing");
    drop(writer);
    make(&above).unwrap();
}

#[test]
#[ignore = "needs root, loop devices, overlays"]
fn image_in_use_in_inaccessible_layer_is_refused() {
    let mut overlay = Overlay::new();
    let above = overlay.image("merged/a.img");
    let device = attach(&overlay.path("upper/a.img"));
    overlay.hide("upper");
    refused(make(&above), "is attached to");
    drop(device);
    make(&above).unwrap();
}

#[test]
#[ignore = "needs root, overlays"]
fn overlay_layers_are_refused_as_targets() {
    let overlay = Overlay::new();
    let target = |name: &str| {
        fs::create_dir_all(overlay.path(name)).unwrap();
        open(&TargetSpec::Directory(overlay.path(name)), &OpenOptions::default()).map(drop)
    };
    for name in ["upper", "upper/a", "work/work/a"] {
        refused(target(name), "belongs to the overlay on");
    }
    for name in ["lower", "."] {
        refused(target(name), "of the overlay on");
    }
    for name in ["merged/b", "lower/b", "beside"] {
        target(name).unwrap();
    }
}

#[test]
#[ignore = "needs root, loop devices, overlays"]
fn device_below_overlay_is_that_of_its_layer() {
    let directory = temporary_directory();
    let file = File::create_new(directory.path().join("disk")).unwrap();
    file.set_len(64 << 20).unwrap();
    let device = attach(&directory.path().join("disk"));
    run(&["mkfs.ext4", "-q", device.path().to_str().unwrap()]);
    let at = |name: &str| directory.path().join(name);
    let make_all = |names: &[&str]| names.iter().for_each(|name| fs::create_dir(at(name)).unwrap());
    make_all(&["point", "merged"]);
    let text = |name: &str| at(name).display().to_string();
    run(&["mount", device.path().to_str().unwrap(), &text("point")]);
    make_all(&["point/upper", "point/work", "point/lower"]);
    let layers = ["lowerdir", "upperdir", "workdir"].map(|layer| {
        let name = layer.trim_end_matches("dir");
        format!("{layer}={}", text(&format!("point/{name}")))
    });
    run(&["mount", "-t", "overlay", "overlay", "-o", &layers.join(","), &text("merged")]);
    let found = BlockDevice::below(&at("merged")).map(|device| device.path().to_path_buf());
    run(&["umount", &text("point")]);
    // No mount shows it any more, but the kernel holds it.
    let above = attach(device.path());
    let used = guard::use_of(&BlockDevice::open(above.path()).unwrap()).unwrap();
    run(&["umount", &text("merged")]);
    assert_eq!(found.as_deref(), Some(device.path()));
    assert!(used.is_some_and(|used| used.contains("the kernel reports")));
    assert_eq!(guard::use_of(&BlockDevice::open(above.path()).unwrap()).unwrap(), None);
}
