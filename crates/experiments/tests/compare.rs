//! Comparison over whole run directories.

use senesce_core::analysis::Better;
use senesce_core::measurement::EVENT;
use senesce_core::{Environment, ExitCode, Measurement, Plan, Record, RunDirectory, Seed};
use senesce_experiments::compare::{Options, compare};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// A run of the kind "fio" whose throughput and layout score are these values.
fn run(room: &Path, name: &str, values: &[f64], kernel: &str, target: &str) -> Record {
    let mut environment = Environment::default();
    environment.put("kernel.release", kernel);
    environment.put("target.name", target);
    let plan = Plan::new("fio", Seed(1), BTreeMap::new());
    let mut directory = RunDirectory::open(&room.join(name), &plan, &environment).unwrap();
    for (repetition, value) in (0u32..).zip(values) {
        let one = Measurement::new("throughput", "1/s", Better::Higher, *value).under("fs", "ext4");
        directory.append(EVENT, &Measurement { repetition, ..one }).unwrap();
        let score = Measurement::new("layout score", "", Better::Higher, 0.9 + value * 1e-4).under("fs", "ext4");
        directory.append(EVENT, &Measurement { repetition, ..score }).unwrap();
    }
    directory.finish(&json!({})).unwrap();
    Record::open(&room.join(name)).unwrap()
}

const BASE: [f64; 5] = [100.0, 101.0, 99.0, 100.5, 99.5];
const SLOW: [f64; 5] = [80.0, 81.0, 79.0, 80.5, 79.5];

fn gate() -> Options {
    Options { fail_on_regression: Some(0.05), ..Options::default() }
}

#[test]
fn a_regression_is_found_and_the_environment_comes_first() {
    let room = tempfile::tempdir().unwrap();
    let base = run(room.path(), "base", &BASE, "6.1", "memory:1G");
    let slow = run(room.path(), "slow", &SLOW, "6.2", "memory:1G");
    let found = compare(&[slow], std::slice::from_ref(&base), &gate()).unwrap();
    assert_eq!(found.exit_code(), ExitCode::Negative);
    let analysis = found.analysis();
    assert_eq!(analysis.tables[0].id, "environment");
    assert_eq!(analysis.tables[0].rows, [[json!("kernel.release"), json!("6.1"), json!("6.2")]]);
    assert_eq!(analysis.result["regressions"], 1);

    let same = run(room.path(), "same", &BASE, "6.1", "memory:1G");
    let found = compare(&[same], &[base], &gate()).unwrap();
    assert_eq!(found.exit_code(), ExitCode::Done);
}

#[test]
fn one_sample_is_invalid_and_never_a_mark() {
    let room = tempfile::tempdir().unwrap();
    let base = run(room.path(), "base", &[100.0], "6.1", "memory:1G");
    let other = run(room.path(), "other", &[50.0], "6.1", "memory:1G");
    let found = compare(&[other], &[base], &gate()).unwrap();
    assert_eq!(found.exit_code(), ExitCode::Negative, "a gate that judges nothing does not pass");
    let analysis = found.analysis();
    assert!(analysis.figures.is_empty());
    assert!(analysis.tables.last().unwrap().rows[0].last().unwrap().as_str().unwrap().starts_with("invalid"));
}

#[test]
fn other_target_classes_are_refused_unless_told() {
    let room = tempfile::tempdir().unwrap();
    let base = run(room.path(), "base", &BASE, "6.1", "memory:1G");
    let device = run(room.path(), "device", &BASE, "6.1", "/dev/nvme0n1");
    let refused = compare(std::slice::from_ref(&device), std::slice::from_ref(&base), &gate()).unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Usage);
    assert!(refused.to_string().contains("target class: device"), "{refused}");
    let told = compare(&[device], &[base], &Options { allow_different: true, ..gate() }).unwrap();
    assert!(told.caveats[0].contains("target class"));
}

#[test]
fn under_emulation_times_are_not_judged_and_layout_is() {
    let room = tempfile::tempdir().unwrap();
    let mut base = run(room.path(), "base", &BASE, "6.1", "memory:1G");
    let slow = run(room.path(), "slow", &SLOW, "6.1", "memory:1G");
    base.environment.put("lab.accelerator", "tcg");
    let found = compare(&[slow], &[base], &Options { fail_on_regression: Some(0.001), ..Options::default() }).unwrap();
    let by_name = |name: &str| found.rows.iter().find(|row| row.what.metric == name).unwrap();
    assert!(by_name("throughput").emulated && !by_name("throughput").regression);
    assert!(!by_name("layout score").emulated && by_name("layout score").regression);
}
