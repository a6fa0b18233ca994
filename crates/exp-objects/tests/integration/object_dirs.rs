//! Compares object-dirs with every published run: the same partition must hold the same number of objects.

use senesce_core::Level;
use senesce_core::seed::DEFAULT_SEED;
use senesce_exp_objects::object_dirs::{ObjectDirs, Spec};
use senesce_runner::{Conduct, Experiment, conduct};
use std::collections::BTreeMap;

/// Maximum distance from the mean over the published hosts, and from any one host, in percent of the published value.
const FROM_MEAN: f64 = 0.5;
const FROM_HOST: f64 = 1.0;

fn published() -> BTreeMap<String, Vec<f64>> {
    let mut runs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let rows = include_str!("../../../../data/dmv/dirlayout.csv").lines().filter(|line| line.starts_with("murphy"));
    for row in rows {
        let fields: Vec<&str> = row.split(',').collect();
        runs.entry(format!("{}x{}", fields[1], fields[2])).or_default().push(fields[3].parse().unwrap());
    }
    runs
}

fn compare_with_published(schemes: &[&str]) {
    let published = published();
    let temporary = tempfile::tempdir().unwrap();
    let schemes_of = schemes.join(",").parse().unwrap();
    let spec = Spec { schemes: schemes_of, repeats: 1, ..ObjectDirs::defaults(Level::Paper) };
    let how = Conduct::quietly(&temporary.path().join("run"));
    let outcome = conduct::<ObjectDirs>(&spec, DEFAULT_SEED, &how).unwrap();
    let mut far = Vec::new();
    for (scheme, row) in schemes.iter().zip(outcome.analysis.result["schemes"].as_array().unwrap()) {
        let files = row["files"].as_f64().unwrap();
        let (hosts, off) = (&published[*scheme], |value: f64| 100.0 * (files / value - 1.0).abs());
        let mean = hosts.iter().sum::<f64>() / hosts.len() as f64;
        if off(mean) > FROM_MEAN || hosts.iter().any(|host| off(*host) > FROM_HOST) {
            far.push(format!("{scheme}: {files} objects, published {hosts:?}"));
        }
    }
    assert!(far.is_empty(), "{} of {} schemes: {far:#?}", far.len(), schemes.len());
}

#[test]
#[ignore = "needs loop devices"]
fn some_published_schemes_hold_the_published_number_of_objects() {
    compare_with_published(&["1x4", "2x2", "3x4", "4x1", "6x6"]);
}

#[test]
#[ignore = "long: minutes; needs loop devices"]
fn every_published_scheme_holds_the_published_number_of_objects() {
    let schemes = published();
    assert_eq!(schemes.values().map(Vec::len).sum::<usize>(), 130);
    compare_with_published(&schemes.keys().map(String::as_str).collect::<Vec<_>>());
}
