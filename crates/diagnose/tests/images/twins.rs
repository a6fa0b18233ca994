//! Twins against their originals.

use crate::common::{Image, grow, run, scatter};
use senesce_core::Silent;
use senesce_core::failure::{Classify, ExitCode};
use senesce_core::interrupt::Interrupt;
use senesce_devmodel::DeviceModel;
use senesce_diagnose::estimate::{CostedLayout, Options};
use senesce_diagnose::headroom::{NewFiles, User};
use senesce_diagnose::twin::{self, TrialRequest, TrialSetup};
use std::os::unix::fs::MetadataExt;

fn options() -> Options {
    Options { model: "st500dm002".into(), ..Options::default() }
}

/// Compares the kernel's behaviour on a twin and on a copy of the original, which must not change.
fn creations_are_the_same(name: &str, mib: u64, size: u64, tolerance: f64) {
    let mut image = Image::new(name, mib);
    image.mount("");
    grow(&image.point(), 0.45, 0.0, 4);
    image.unmount();
    let before = image.digest();
    let path = image.directory().join("twin");
    let made = twin::make(&image.path(), &path, false).unwrap();
    assert_eq!(image.digest(), before, "{name}: the original was altered");
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    assert!(made.bytes < (mib << 20) / 2, "{name}: {made:?}");
    let trial = twin::Trial::begin(&path, made.file_system, &made.mount_options).unwrap();
    let on_twin = twin::fill(trial.directory(), NewFiles::of(size), User::Root).unwrap();
    trial.end().unwrap();
    image.mount("");
    let truth = twin::fill(&image.point(), NewFiles::of(size), User::Root).unwrap();
    image.unmount();
    let error = (on_twin.files as f64 - truth.files as f64).abs() / truth.files as f64;
    println!("{name} {size}: twin {on_twin:?}, original {truth:?}, error {error}");
    assert!(truth.files > 100 && error <= tolerance, "{name} {size}: {on_twin:?}, {truth:?}");
    assert_eq!(on_twin.ends_by, truth.ends_by);
}

#[test]
#[ignore = "needs loop devices"]
fn files_created_on_a_twin_of_ext4_are_those_of_the_original() {
    creations_are_the_same("ext4", 96, 4096, 0.001);
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn files_created_on_a_twin_of_xfs_are_those_of_the_original() {
    creations_are_the_same("xfs", 304, 65_536, 0.001);
}

#[test]
#[ignore = "needs loop devices, btrfs"]
fn files_created_on_a_twin_of_btrfs_are_those_of_the_original() {
    creations_are_the_same("btrfs", 288, 65_536, 0.03);
}

#[test]
#[ignore = "needs loop devices"]
fn impossible_twin_is_refused() {
    let mut image = Image::new("ext4", 32);
    let twin = image.directory().join("twin");
    image.mount("");
    let error = twin::make(&image.path(), &twin, false).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Refused, "{error}");
    assert!(error.to_string().contains("--freeze"), "{error}");
    std::fs::write(image.point().join("file"), "not written back").unwrap();
    let made = twin::make(&image.point(), &twin, true).unwrap();
    assert!(made.frozen_seconds.is_some());
    std::fs::write(image.point().join("file"), "it can be written to again").unwrap();
    image.unmount();
    assert!(twin::make(&image.path(), &twin, false).is_err(), "nothing is replaced");
    let empty = image.directory().join("empty");
    std::fs::File::create(&empty).unwrap().set_len(1 << 20).unwrap();
    let error = twin::make(&empty, &image.directory().join("none"), false).unwrap_err();
    assert!(error.to_string().contains("ext4, xfs, btrfs"), "{error}");
    assert!(!image.directory().join("none").exists());
}

fn remedies_are_the_same(name: &str, mib: u64, tool: &str, tolerance: f64) {
    let mut image = Image::new(name, mib);
    image.mount("");
    grow(&image.point(), 0.4, 0.5, 5);
    scatter(&image.point(), 40, 8);
    image.unmount();
    let path = image.directory().join("twin");
    let made = twin::make(&image.path(), &path, false).unwrap();
    let model = DeviceModel::reference_hdd().unwrap();
    let (options, interrupt) = (options(), Interrupt::new());
    let file_system = made.file_system;
    let setup = TrialSetup {
        twin: &path,
        file_system,
        mount_options: made.mount_options.clone(),
        options: &options,
        model: &model,
        progress: &Silent,
        interrupt: &interrupt,
    };
    let wanted = TrialRequest { create: false, passes: 2, command: vec!["true".into()] };
    let tried = setup.run("TARGET", made, &wanted).unwrap();
    image.mount("");
    run(&format!("{tool} {} > /dev/null 2>&1; sync -f {}", image.point().display(), image.point().display()));
    let truth = CostedLayout::of(&image.point(), &model, &options).unwrap();
    let (on_twin, real) = (tried.remedies[0].seconds_after, truth.costs[0].seconds);
    println!("{name}: now {} ideal {} twin {on_twin} original {real}", tried.now_seconds, tried.ideal_seconds);
    println!("{:?} {:?}", tried.plan, tried.executed);
    assert!((on_twin / real - 1.0).abs() <= tolerance, "{name}: {on_twin}, {real}");
    assert!(on_twin >= tried.ideal_seconds * 0.99, "no tool beats the ideal: {on_twin}, {}", tried.ideal_seconds);
    assert!(on_twin < tried.now_seconds, "{name}: the tool improves it: {on_twin}, {}", tried.now_seconds);
    let executed = tried.executed.unwrap();
    assert!(executed.share_of_gain >= 0.85 && executed.share_of_bytes <= 1.0, "{name}: {executed:?}");
    let nothing = tried.remedies.last().unwrap();
    assert_eq!((nothing.command.as_str(), nothing.bytes_written), ("true", 0));
}

#[test]
#[ignore = "needs loop devices, e4defrag"]
fn e4defrag_has_the_same_effect_on_twin_and_original() {
    remedies_are_the_same("ext4", 128, "e4defrag", 0.01);
}

#[test]
#[ignore = "needs loop devices, XFS, xfs_fsr"]
fn xfs_fsr_has_the_same_effect_on_twin_and_original() {
    remedies_are_the_same("xfs", 304, "xfs_fsr", 0.01);
}

#[test]
#[ignore = "needs loop devices, btrfs"]
fn btrfs_defragment_has_the_same_effect_on_twin_and_original() {
    remedies_are_the_same("btrfs", 256, "btrfs filesystem defragment -r", 0.03);
}
