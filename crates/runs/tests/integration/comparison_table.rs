//! The table of a comparison, and its note on single runs.

use crate::compare::{BASE, run};
use senesce_core::Record;
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
