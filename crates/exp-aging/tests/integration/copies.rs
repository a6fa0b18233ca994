//! Compares the modelled references of an aging with real copies of its files.

use senesce_exp_aging::age::{Age, AgeSpec};
use senesce_runner::{Conduct, conduct};

/// Seconds on the disk drive: of the copies and of the modelled references.
fn on_disk(outcome: &senesce_runner::Outcome) -> ([f64; 3], [f64; 3]) {
    let result = &outcome.analysis.result;
    let copy = |index: usize| result["copies"]["layouts"][index]["read_seconds"][0].as_f64().unwrap();
    assert_eq!(result["cost_order"], "path");
    let model = |name: &str| result["cost"][0][name].as_f64().unwrap();
    ([0, 1, 2].map(copy), ["in_order", "created", "aged"].map(model))
}

fn check(file_system: &str) {
    let temporary = tempfile::tempdir().unwrap();
    let flags = ["--fs", file_system, "--overwrites", "2", "--fullness", "0.7", "--truncate-sizes"];
    let spec = AgeSpec::of_flags(&flags).unwrap().on(Some("memory:512M".parse().unwrap())).unwrap();
    let spec = AgeSpec { copies: true, ..spec };
    let outcome = conduct::<Age>(&spec, spec.seed, &Conduct::quietly(&temporary.path().join("run"))).unwrap();
    let ([ordered, unaged, aged], modelled) = on_disk(&outcome);
    // The model packs files without gaps. ext4 spreads directories over the volume, XFS keeps files of a directory together.
    let off = unaged / modelled[1];
    let gaps = ordered / modelled[0];
    assert!((0.99..3.0).contains(&gaps) && (0.6..1.6).contains(&off), "{modelled:?}, {ordered} {unaged}");
    assert!((modelled[2] - aged).abs() < 1e-6, "{modelled:?}, {aged}");
    assert!(ordered <= unaged * 1.01 && unaged < aged, "{ordered} {unaged} {aged}");
}

#[test]
#[ignore = "needs loop devices"]
fn copies_on_ext4_agree_with_the_modelled_references() {
    check("ext4");
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn copies_on_xfs_agree_with_the_modelled_references() {
    check("xfs");
}

#[test]
#[ignore = "needs loop devices, btrfs"]
fn copies_on_btrfs_agree_with_the_modelled_references() {
    check("btrfs");
}
