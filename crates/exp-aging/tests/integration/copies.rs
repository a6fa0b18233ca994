//! Compares the modelled references of an aging with real copies of its files.

use senesce_exp_aging::age::{Age, AgeSpec};
use senesce_runner::{Conduct, conduct};

/// The first row of a table: values of the disk drive.
fn on_disk(outcome: &senesce_runner::Outcome, table: &str) -> Vec<f64> {
    let table = outcome.analysis.tables.iter().find(|one| one.id == table).unwrap();
    table.rows[0].iter().filter_map(serde_json::Value::as_f64).collect()
}

fn copies_bound_the_modelled_references(file_system: &str) {
    let temporary = tempfile::tempdir().unwrap();
    let flags = ["--fs", file_system, "--overwrites", "2", "--fullness", "0.7", "--truncate-sizes"];
    let spec = AgeSpec::of_flags(&flags).unwrap().on(Some("memory:512M".parse().unwrap())).unwrap();
    let spec = AgeSpec { copies: true, ..spec };
    let outcome = conduct::<Age>(&spec, spec.seed, &Conduct::quietly(&temporary.path().join("run"))).unwrap();
    let [ordered, unaged, aged] = on_disk(&outcome, "answer")[..] else { panic!("{:?}", outcome.analysis.tables) };
    let modelled = on_disk(&outcome, "cost");
    // No allocator packs files more tightly than the references do.
    assert!(modelled[0] <= ordered * 1.01 && modelled[1] <= unaged * 1.01, "{modelled:?}, {ordered} {unaged}");
    assert!((modelled[2] - aged).abs() < 1e-6, "{modelled:?}, {aged}");
    assert!(ordered <= unaged * 1.01 && unaged < aged, "{ordered} {unaged} {aged}");
    eprintln!("{file_system}: ordered {ordered} of {}, unaged {unaged} of {}, aged {aged}", modelled[0], modelled[1]);
}

#[test]
#[ignore = "needs loop devices"]
fn copies_on_ext4_bound_the_modelled_references() {
    copies_bound_the_modelled_references("ext4");
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn copies_on_xfs_bound_the_modelled_references() {
    copies_bound_the_modelled_references("xfs");
}

#[test]
#[ignore = "needs loop devices, btrfs"]
fn copies_on_btrfs_bound_the_modelled_references() {
    copies_bound_the_modelled_references("btrfs");
}
