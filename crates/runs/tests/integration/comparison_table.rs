//! The table of a comparison, and its note on single runs.

use crate::compare::{BASE, recorded, run};
use senesce_core::analysis::Better;
use senesce_core::{Measurement, Record};
use senesce_runs::compare::{Comparison, Options, compare};
use serde_json::json;
use std::slice::from_ref;

fn two_runs(base: &[f64], other: &[f64]) -> (tempfile::TempDir, [Record; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let runs = [("base", base), ("other", other)];
    let runs = runs.map(|(name, values)| run(directory.path(), name, values, "6.1", "memory:1G"));
    (directory, runs)
}

fn versus(sample: &Record, reference: &Record) -> Comparison {
    compare(&crate::compare::REGISTRY, from_ref(sample), from_ref(reference), &Options::default()).unwrap()
}

#[test]
fn columns_of_both_sides_are_the_means_of_the_ratio() {
    let (_directory, [base, other]) = two_runs(&[10.0, 10.0, 10.0, 10.0, 5000.0], &[20.0, 21.0, 19.0, 20.0, 22.0]);
    let analysis = versus(&other, &base).analysis();
    let metrics = analysis.tables.iter().find(|table| table.id == "metrics").unwrap();
    let index = |name: &str| metrics.columns.iter().position(|column| column == name).unwrap();
    let row = metrics.rows.iter().find(|row| row[0] == "throughput").unwrap();
    let [reference, sample, ratio] = ["reference", "sample", "ratio"].map(|name| row[index(name)].as_f64().unwrap());
    assert!((sample / reference / ratio - 1.0).abs() < 1e-9, "{row:?}");
    assert!((reference / 34.66 - 1.0).abs() < 1e-3, "{reference}");

    let (_directory, [base, other]) = two_runs(&[0.0, 2.0, 4.0], &[1.0, 3.0, 5.0]);
    let analysis = versus(&other, &base).analysis();
    let metrics = analysis.tables.iter().find(|table| table.id == "metrics").unwrap();
    let row = metrics.rows.iter().find(|row| row[0] == "throughput").unwrap();
    assert_eq!([&row[2], &row[3]], [&json!(2.0), &json!(3.0)], "a value of zero has no geometric mean");
}

#[test]
fn assumed_difference_of_runs_is_stated_only_with_an_interval() {
    let states_it = |values: &[f64]| {
        let (_directory, [base, other]) = two_runs(values, values);
        versus(&other, &base).caveats.iter().any(|caveat| caveat.contains("--noise"))
    };
    assert!(states_it(&BASE));
    assert!(!states_it(&BASE[..1]), "no metric is testable");
}

#[test]
fn conditions_of_one_side_are_named_and_not_compared() {
    let directory = tempfile::tempdir().unwrap();
    let run = |name: &str, other: &str| {
        let one = |fs: &str, value: f64| {
            Measurement::new("throughput", "1/s", Better::Higher, value).unwrap().under("fs", fs)
        };
        let values = ["ext4", other].into_iter().flat_map(|fs| BASE.map(|value| one(fs, value))).collect();
        recorded(&directory.path().join(name), values, ["6.1", "memory:1G"], None)
    };
    let found = versus(&run("sample", "btrfs"), &run("base", "xfs"));
    for (side, fs) in [("reference", "xfs"), ("sample", "btrfs")] {
        let words = format!("only the {side} has fs={fs}, which is not compared");
        assert!(found.caveats.contains(&words), "{words}: {:?}", found.caveats);
    }
    let verdicts = found.rows.iter().map(|row| row.judged().map(|decision| decision.verdict.word()));
    assert_eq!(verdicts.filter(|verdict| *verdict == Some("not-testable")).count(), 1, "that of xfs");
}

#[test]
fn rows_sort_by_the_numbers_in_their_conditions() {
    let directory = tempfile::tempdir().unwrap();
    let run = |name: &str, factor: f64| {
        let one = |round: u32, value: f64| {
            let one = Measurement::new("throughput", "1/s", Better::Higher, factor * value).unwrap();
            one.under("round", round.to_string())
        };
        let values = [10, 1, 2].into_iter().flat_map(|round| BASE.map(|value| one(round, value))).collect();
        recorded(&directory.path().join(name), values, ["6.1", "memory:1G"], None)
    };
    let found = versus(&run("sample", 0.5), &run("base", 1.0));
    let rounds: Vec<&str> = found.rows.iter().map(|row| row.what.condition["round"].as_str()).collect();
    assert_eq!(rounds, ["1", "2", "10"]);
}
