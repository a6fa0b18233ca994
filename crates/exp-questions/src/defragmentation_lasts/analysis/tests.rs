use super::super::{DefragmentationLasts, Step};
use super::*;
use senesce_core::Level;
use senesce_runner::Experiment;
use senesce_volume::FileSystem;

fn image((fs, profile): (FileSystem, &str), arm: Arm, seed: u32, seconds: &[f64], survival: &[f64]) -> ImageHistory {
    let moment = |(at, (seconds, left)): (usize, (&f64, &f64))| ImageState {
        overwrites: at as f64,
        disk_seconds: *seconds,
        files: 10,
        extents: 10,
        free_extents: None,
        surviving: Some(SurvivingFiles { files: *left, pairs: *left }),
        digest: None,
    };
    let step = Step { kernel: "6.12".into(), fs, profile: profile.into(), arm, seed };
    let moments = seconds.iter().zip(survival).enumerate().map(moment).collect();
    ImageHistory { step, before: Some(format!("{seed}")), moments }
}

fn spec() -> Spec {
    DefragmentationLasts::defaults(Level::Smoke)
}

const SYSTEMS: [(FileSystem, &str); 6] = [
    (FileSystem::Ext4, "agrawal"),
    (FileSystem::Xfs, "agrawal"),
    (FileSystem::Btrfs, "agrawal"),
    (FileSystem::Ext4, "meyer"),
    (FileSystem::Xfs, "meyer"),
    (FileSystem::Btrfs, "meyer"),
];

/// Returns images that save 40 of 100 s at first, and `left` of that at each moment.
fn images(left: [f64; 3]) -> Vec<ImageHistory> {
    let survival = [1.0, 0.6, 0.2];
    let mut all = Vec::new();
    for (fs, profile) in SYSTEMS {
        for seed in 0..3 {
            let saved = left.map(|left| 100.0 - 40.0 * left);
            all.push(image((fs, profile), Arm::None, seed, &[100.0; 3], &survival));
            all.push(image((fs, profile), Arm::Copy, seed, &saved, &survival));
        }
    }
    all
}

#[test]
fn law_holds_if_the_gain_follows_survival_and_fails_otherwise() {
    let holds = |left| analyse(&spec(), &images(left)).result["holds"].clone();
    assert_eq!(holds([1.0, 0.62, 0.18]), true);
    assert_eq!(holds([1.0, 0.95, 0.9]), false, "it lasts longer than the files");
    assert_eq!(holds([1.0, 0.1, 0.0]), false, "it is gone before");
}

#[test]
fn predictions_are_decided_separately() {
    let mut all = images([1.0, 0.6, 0.2]);
    all.iter_mut().flat_map(|image| &mut image.moments[1..]).for_each(|moment| {
        if let Some(surviving) = &mut moment.surviving {
            surviving.pairs = 0.0;
        }
    });
    let result = analyse(&spec(), &all).result;
    assert_eq!((&result["holds"], &result["files_hold"]), (&json!(false), &json!(true)));
}

#[test]
fn few_systems_decide_nothing() {
    for left in [[1.0, 0.62, 0.18], [1.0, 0.1, 0.0]] {
        let few: Vec<ImageHistory> =
            images(left).into_iter().filter(|image| image.step.fs == FileSystem::Ext4).collect();
        let analysis = analyse(&spec(), &few);
        assert!(analysis.result["holds"].is_null() && analysis.result["law"]["points"] == 4, "{}", analysis.result);
    }
}

#[test]
fn small_gains_do_not_test_the_law() {
    let mut all = images([1.0, 0.6, 0.2]);
    for image in all.iter_mut().filter(|image| image.step.arm == Arm::Copy && image.step.fs == FileSystem::Xfs) {
        image.moments.iter_mut().for_each(|moment| moment.disk_seconds = 95.0);
    }
    let result = analyse(&spec(), &all).result;
    assert_eq!((&result["law"]["points"], &result["systems"].as_array().map(Vec::len)), (&json!(8), &Some(6)));
    assert!(analyse(&spec(), &[]).result["law"].is_null());
}

#[test]
fn missing_values_are_not_a_small_gain() {
    let mut all = images([1.0, 0.6, 0.2]);
    all.iter_mut().flat_map(|image| &mut image.moments).for_each(|moment| moment.surviving = None);
    let analysis = analyse(&spec(), &all);
    assert!(analysis.result["law"].is_null());
    assert_eq!(analysis.result["systems"].as_array().map(Vec::len), Some(6));
    assert!(analysis.summary.starts_with("Undecided"), "{}", analysis.summary);
}

#[test]
fn image_that_began_differently_is_left_out() {
    let mut all = images([1.0, 0.6, 0.2]);
    assert!(analyse(&spec(), &all).caveats.is_empty());
    all[1].before = Some("other".into());
    let analysis = analyse(&spec(), &all);
    assert_eq!((analysis.caveats.len(), &analysis.result["systems"][0]["images"]), (1, &json!(2)));
}
