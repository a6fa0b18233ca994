//! Comparisons of runs with identical layouts.

use crate::compare::{REGISTRY, gate, recorded};
use senesce_core::analysis::Better;
use senesce_core::{Analysis, Environment, ExitCode, Failure, Measurement, Record, RunDirectory};
use senesce_runner::{Imported, ImportedRun, NoEvent, Recorded, Registry, import, verb};
use senesce_runs::compare::{Comparison, Options, compare};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::slice::from_ref;

/// Makes a run of five images, each with the discontinuities of its number and a layout of that name.
fn run(directory: &Path, name: &str, layouts: [&str; 5], hour: u32) -> Record {
    let one = |(image, layout): (u32, &str)| {
        let value = 1000.0 / 7.0 * f64::from(image + 1);
        let one = Measurement::new("discontinuities", "", Better::Lower, value).unwrap().under("fs", "ext4").primary();
        Measurement { image, ..one.of_layout((!layout.is_empty()).then(|| layout.to_string())) }
    };
    let date = format!("2026-03-01T{hour:02}:00:00Z");
    let values = (0..).zip(layouts).map(one).collect();
    recorded(&directory.join(name), values, ["6.1", "memory:1G"], Some(&date))
}

const LAYOUTS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn versus(sample: &Record, reference: &Record, options: &Options) -> Comparison {
    compare(&REGISTRY, from_ref(sample), from_ref(reference), options).unwrap()
}

fn words(found: &Comparison) -> Vec<&'static str> {
    found.rows.iter().map(|row| row.judged().unwrap().verdict.word()).collect()
}

#[test]
fn repetition_with_the_same_layouts_is_identical_and_passes_the_gate() {
    let directory = tempfile::tempdir().unwrap();
    let run = |name, hour| run(directory.path(), name, LAYOUTS, hour);
    let (base, mut again) = (run("base", 10), run("again", 10));
    // As in virtual time: also the events come at the same times.
    again.events = base.events.clone();
    let found = versus(&again, &base, &gate());
    assert_eq!(words(&found), ["identical"]);
    assert_eq!((found.exit_code(), found.shares_runs), (ExitCode::Done, false));
    assert!(!found.caveats.iter().any(|caveat| caveat.contains("--noise")), "{:?}", found.caveats);
    assert_eq!(found.analysis().result["metrics"][0]["verdict"], "identical");
}

#[test]
fn copy_with_another_date_is_still_a_copy() {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", LAYOUTS, 10);
    std::fs::create_dir(directory.path().join("copy")).unwrap();
    for file in ["format", "plan.toml", "env.json", "events.jsonl", "summary.json"] {
        std::fs::copy(base.path.join(file), directory.path().join("copy").join(file)).unwrap();
    }
    let mut facts = Environment::default();
    facts.put("run.date", "2026-03-01T11:00:00Z");
    facts.put("run.label", "other");
    RunDirectory::resume(&directory.path().join("copy")).unwrap().add_environment(&facts).unwrap();
    let copy = Record::open(&directory.path().join("copy")).unwrap();
    let found = versus(&copy, &base, &gate());
    assert_eq!((found.shares_runs, found.exit_code()), (true, ExitCode::CannotTell));
}

#[test]
fn few_identical_images_decide_no_gate() {
    let directory = tempfile::tempdir().unwrap();
    let [base, again] = ["base", "again"].map(|name| {
        let mut run = run(directory.path(), name, LAYOUTS, 10);
        run.events.truncate(3);
        run
    });
    let found = versus(&again, &base, &gate());
    assert_eq!((words(&found), found.exit_code()), (vec!["identical"], ExitCode::CannotTell));
}

#[test]
fn other_or_unknown_layouts_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", LAYOUTS, 10);
    for (name, layouts) in [("other", ["a", "b", "c", "d", "x"]), ("unknown", ["a", "b", "c", "d", ""])] {
        let found = versus(&run(directory.path(), name, layouts, 11), &base, &Options::default());
        assert_ne!(words(&found), ["identical"], "{name}");
    }
    let unknown = ["one", "two"].map(|name| run(directory.path(), name, [""; 5], 11));
    assert_ne!(words(&versus(&unknown[0], &unknown[1], &Options::default())), ["identical"]);
}

#[test]
fn same_layouts_of_other_seeds_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", LAYOUTS, 10);
    let mut other = run(directory.path(), "other", LAYOUTS, 11);
    other.plan.seed = senesce_core::Seed(7);
    assert_ne!(words(&versus(&other, &base, &Options::default())), ["identical"]);
}

/// An aging without times.
struct Aging;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct AgingSpec {
    seed: u64,
}

impl ImportedRun for Aging {
    const KIND: &'static str = "aging";
    type Spec = AgingSpec;
    type Event = NoEvent;

    fn analyse(_spec: &AgingSpec, _recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(Analysis::default())
    }
}

const AGINGS: Registry = Registry { experiments: &[], verbs: &[&[verb::<Aging>()]] };

#[test]
fn agings_of_one_seed_are_one_value() {
    let directory = tempfile::tempdir().unwrap();
    let of_seed = |side: &str, number: u64, seed: u64, value: f64| {
        let one = Measurement::new("discontinuities", "", Better::Lower, value).unwrap().under("fs", "ext4").primary();
        let path = directory.path().join(format!("{side}{number}"));
        let (spec, environment) = (AgingSpec { seed }, Environment::default());
        let measurements = vec![one.of_layout(Some(value.to_string()))];
        import::<Aging>(&path, Imported { spec, environment, events: Vec::new(), measurements, caveats: Vec::new() })
            .unwrap();
        Record::open(&path).unwrap()
    };
    let reference: Vec<Record> = (0..6).map(|seed| of_seed("reference", seed, seed, 100.0)).collect();
    let sample: Vec<Record> = (0..5).map(|number| of_seed("sample", number, 7, 50.0)).collect();
    let found = compare(&AGINGS, &sample, &reference, &gate()).unwrap();
    let row = &found.rows[0];
    assert_eq!((row.reference.concat().len(), row.sample.concat().len(), row.runs), (6, 1, [1, 6]));
    assert_eq!((words(&found), found.exit_code()), (vec!["not-testable"], ExitCode::CannotTell));
    let tables = found.analysis().tables;
    let metrics = tables.iter().find(|table| table.id == "metrics").unwrap();
    assert_eq!(metrics.rows[0][7], "6 / 1");
}
