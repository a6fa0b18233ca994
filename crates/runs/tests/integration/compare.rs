//! Comparisons of whole run directories.

use senesce_core::analysis::Better;
use senesce_core::record::Event;
use senesce_core::{Environment, ExitCode, Measurement, Record};
use senesce_runner::Registry;
use senesce_runner::{Imported, Recorded, import};
use senesce_runs::compare::{Comparison, Options, Row, WhenUndecided, compare};
use senesce_runs::import::ImportedFile;
use senesce_runs::import::fio::Fio;
use serde_json::{Value, json};
use std::path::Path;
use std::slice::from_ref;

pub const REGISTRY: Registry = Registry { experiments: &[], verbs: &[senesce_runs::VERBS] };

/// Alters the data of an event.
fn change(event: &mut Event, alter: impl FnOnce(&mut Value)) {
    let mut data = event.data.value();
    alter(&mut data);
    event.data = data.into();
}

pub fn run(directory: &Path, name: &str, values: &[f64], kernel: &str, target: &str) -> Record {
    dated_run(directory, name, values, [kernel, target], None)
}

fn dated_run(directory: &Path, name: &str, values: &[f64], [kernel, target]: [&str; 2], date: Option<&str>) -> Record {
    let mut measurements = Vec::new();
    for (repetition, value) in (0u32..).zip(values) {
        for (metric, unit, value) in [("throughput", "1/s", *value), ("layout score", "", 0.9 + value * 1e-4)] {
            let one = Measurement::new(metric, unit, Better::Higher, value).unwrap().under("fs", "ext4");
            measurements.push(Measurement { repetition, ..one });
        }
    }
    recorded(&directory.join(name), measurements, [kernel, target], date)
}

pub fn recorded(
    path: &Path,
    measurements: Vec<Measurement>,
    [kernel, target]: [&str; 2],
    date: Option<&str>,
) -> Record {
    let mut environment = Environment::default();
    if let Some(date) = date {
        environment.put("run.date", date);
    }
    environment.put("kernel.release", kernel);
    environment.put("target.name", target);
    let spec = ImportedFile { source: "fio.json".into(), crc32: "00000000".into() };
    let imported = Imported { spec, environment, events: Vec::new(), measurements, caveats: Vec::new() };
    import::<Fio>(path, imported).unwrap();
    Record::open(path).unwrap()
}

pub fn with_facts(record: &Record, facts: Value) -> Record {
    let mut record = record.clone();
    record.environment.0.extend(facts.as_object().unwrap().clone());
    record.environment.0.retain(|_, fact| !fact.is_null());
    record
}

fn two_runs(base: &[f64], other: &[f64]) -> (tempfile::TempDir, [Record; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let runs = [("base", base), ("other", other)];
    let runs = runs.map(|(name, values)| run(directory.path(), name, values, "6.1", "memory:1G"));
    (directory, runs)
}

fn throughput(found: &Comparison) -> &Row {
    found.rows.iter().find(|row| row.what.metric == "throughput").unwrap()
}

/// Compares one run with another.
fn versus(sample: &Record, reference: &Record, options: &Options) -> Comparison {
    compare(&REGISTRY, from_ref(sample), from_ref(reference), options).unwrap()
}

fn run_of_images(directory: &Path, name: &str, images: &[&[f64]]) -> Record {
    let mut measurements = Vec::new();
    for (image, values) in (0u32..).zip(images) {
        for (repetition, value) in (0u32..).zip(*values) {
            let one = Measurement::new("throughput", "1/s", Better::Higher, *value).unwrap();
            measurements.push(Measurement { image, repetition, ..one });
        }
    }
    recorded(&directory.join(name), measurements, ["6.1", "memory:1G"], None)
}

pub const BASE: [f64; 5] = [100.0, 101.0, 99.0, 100.5, 99.5];
pub const SLOW: [f64; 5] = [80.0, 81.0, 79.0, 80.5, 79.5];

pub fn gate() -> Options {
    Options { fail_on_regression: Some(0.05), ..Options::default() }
}

#[test]
fn a_regression_is_found_and_the_environment_comes_first() {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", &BASE, "6.1", "memory:1G");
    let slow = run(directory.path(), "slow", &SLOW, "6.2", "memory:1G");
    let found = versus(&slow, &base, &gate());
    assert_eq!(found.exit_code(), ExitCode::Negative);
    let analysis = found.analysis();
    assert_eq!(analysis.tables[0].id, "environment");
    assert_eq!(analysis.tables[0].rows, [[json!("kernel.release"), json!("6.1"), json!("6.2")]]);
    assert_eq!(analysis.result["gate"], "fail");
    let metrics = analysis.result["metrics"].as_array().unwrap();
    let throughput = metrics.iter().find(|metric| metric["metric"] == "throughput").unwrap();
    assert_eq!(throughput["verdict"], "worse");
    assert!(throughput["high"].as_f64().unwrap() < 0.95, "{throughput}");

    let same = run(directory.path(), "same", &BASE.map(|value| value + 0.1), "6.1", "memory:1G");
    let found = versus(&same, &base, &gate());
    assert_eq!(found.exit_code(), ExitCode::Done);
}

#[test]
fn single_sample_is_not_testable_and_not_drawn() {
    let (_directory, [base, other]) = two_runs(&[100.0], &[50.0]);
    let found = versus(&other, &base, &gate());
    assert_eq!(found.exit_code(), ExitCode::CannotTell, "a gate without a verdict does not pass");
    let analysis = found.analysis();
    assert!(analysis.figures.is_empty());
    assert!(found.rows.iter().all(|row| row.judged().unwrap().verdict.word() == "not-testable"));
}

#[test]
fn other_target_classes_are_refused_by_default() {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", &BASE, "6.1", "memory:1G");
    let device = run(directory.path(), "device", &BASE, "6.1", "/dev/nvme0n1");
    let refused = compare(&REGISTRY, from_ref(&device), from_ref(&base), &gate()).unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Usage);
    assert!(refused.to_string().contains("target class: device"), "{refused}");
    let stated = compare(&REGISTRY, &[device], &[base], &Options { allow_different: true, ..gate() }).unwrap();
    assert!(stated.caveats[0].contains("target class"));
}

#[test]
fn missing_metric_does_not_pass_the_gate() {
    let (_directory, [base, mut less]) = two_runs(&BASE, &BASE);
    less.events.retain(|event| event.data.value()["metric"] != "throughput");
    let found = versus(&less, &base, &gate());
    assert_eq!(found.exit_code(), ExitCode::CannotTell);
    assert_eq!(throughput(&found).judged().unwrap().verdict.word(), "not-testable");
}

#[test]
fn unknown_event_is_reported_with_line_and_expected_kinds() {
    let directory = tempfile::tempdir().unwrap();
    let mut record = run(directory.path(), "run", &BASE, "6.1", "memory:1G");
    record.events[1].kind = "measurment".into();
    let error = Recorded::<Fio>::of(&record).err().unwrap().to_string();
    assert!(error.contains("events.jsonl, line 3: event 'measurment'"), "{error}");
    assert!(error.contains("expected") && error.contains("measurement, caveat, done"), "{error}");
}

#[test]
fn emulated_times_have_no_verdict_but_layout_has() {
    let (_directory, [mut base, slow]) = two_runs(&BASE, &SLOW);
    base.environment.put("vm.accelerator", "tcg");
    let found = versus(&slow, &base, &Options { fail_on_regression: Some(0.001), ..Options::default() });
    assert_eq!(throughput(&found).described, Some("times have no verdict under emulation"));
    assert!(found.rows.iter().any(|row| row.what.metric == "layout score" && row.judged().is_some()));
    base.environment.put("vm.accelerator", "kvm");
    let found = versus(&slow, &base, &gate());
    assert!(found.rows.iter().all(|row| row.judged().is_some()), "virtualised times have a verdict");
}

#[test]
fn emulated_times_in_a_run_have_no_verdict_but_modelled_ones_have() {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", &BASE, "6.1", "memory:1G");
    for (seconds, judged) in [("emulator", false), ("model", true)] {
        let mut slow = run(directory.path(), seconds, &SLOW, "6.1", "memory:1G");
        for event in slow.events.iter_mut().filter(|event| event.data.value()["metric"] == "throughput") {
            change(event, |data| data["seconds"] = json!(seconds));
        }
        let found = versus(&slow, &base, &Options::default());
        assert_eq!(throughput(&found).judged().is_some(), judged, "{seconds}");
    }
}

#[test]
fn inconclusive_gate_gives_the_requested_result() {
    let directory = tempfile::tempdir().unwrap();
    let noisy = [100.0, 140.0, 70.0, 120.0, 80.0];
    let base = run(directory.path(), "base", &noisy, "6.1", "memory:1G");
    let same = run(directory.path(), "same", &noisy.map(|value| value * 0.9), "6.1", "memory:1G");
    let exit = |undecided| {
        let options = Options { undecided, ..gate() };
        versus(&same, &base, &options).exit_code()
    };
    assert_eq!(exit(WhenUndecided::Fail), ExitCode::Negative);
    assert_eq!(exit(WhenUndecided::CannotTell), ExitCode::CannotTell);
    assert_eq!(exit(WhenUndecided::Pass), ExitCode::Done);
}

#[test]
fn primary_metrics_come_before_described_ones() {
    let (_directory, mut records) = two_runs(&BASE, &SLOW);
    for event in records.iter_mut().flat_map(|record| &mut record.events) {
        change(event, |data| data["primary"] = (data["metric"] == "throughput").into());
    }
    let [base, slow] = records;
    let analysis = versus(&slow, &base, &gate()).analysis();
    let tables: Vec<(&str, &str)> =
        analysis.tables.iter().map(|one| (&*one.id, one.rows[0][0].as_str().unwrap())).collect();
    assert_eq!(tables, [("metrics", "throughput"), ("described", "layout score")]);
    assert!(analysis.tables[1].title.starts_with("1 more, described"), "{}", analysis.tables[1].title);
}

#[test]
fn drift_and_consecutive_sides_give_caveats() {
    let directory = tempfile::tempdir().unwrap();
    let dated = |name: &str, values: &[f64], date: &str| {
        dated_run(directory.path(), name, values, ["6.1", "memory:1G"], Some(date))
    };
    let caveats = |sample: &[Record], reference: &[Record]| {
        compare(&REGISTRY, sample, reference, &Options::default()).unwrap().caveats.join("\n")
    };
    let base = [dated("base", &BASE, "2026-03-01T10:00:00Z")];
    let same_day = [dated("same-day", &BASE, "2026-03-01T11:00:00Z")];
    let later = [dated("later", &BASE, "2026-03-02T10:00:00Z")];
    assert!(!caveats(&same_day, &base).contains("before the"), "{}", caveats(&same_day, &base));
    assert!(caveats(&later, &base).contains("all of the reference was measured before the sample"));
    assert!(caveats(&base, &later).contains("all of the sample was measured before the reference"));
    assert!(!caveats(&same_day, &base).contains("drifts by"));

    let falling: Vec<f64> = (0..12).map(|step| 100.0 - f64::from(step)).collect();
    let warm = [dated("warm", &falling, "2026-03-01T11:00:00Z")];
    let found = caveats(&warm, &base);
    assert!(found.contains("throughput [fs=ext4] within the sample drifts by -1"), "{found}");

    // Runs decrease in time, given here in another order.
    let falling = |step: u32| {
        let values = BASE.map(|value| value - 3.0 * f64::from(step));
        dated(&format!("run{step}"), &values, &format!("2026-03-01T12:{step:02}:00Z"))
    };
    let runs: Vec<Record> = [3, 0, 5, 1, 6, 2, 7, 4].map(falling).into();
    let found = caveats(&runs, &base);
    assert!(found.contains("over the runs of the sample drifts by -2"), "{found}");
}

#[test]
fn run_of_several_images_is_as_uncertain_as_a_single_run() {
    let directory = tempfile::tempdir().unwrap();
    let images = |name: &str, factor: f64| {
        let values = BASE.map(|value| [factor * (100.0 + (value - 100.0) / 10.0)]);
        run_of_images(directory.path(), name, &values.each_ref().map(|one| &one[..]))
    };
    let (base, other) = (images("base", 1.0), images("other", 0.97));
    let verdict = |noise: f64| {
        let options = Options { noise: Some(noise), ..Options::default() };
        let found = versus(&other, &base, &options);
        (found.rows[0].runs, found.rows[0].judged().unwrap().verdict.word())
    };
    assert_eq!(verdict(0.0), ([1, 1], "worse"));
    assert_eq!(verdict(0.05), ([1, 1], "undecided"), "the user expects a larger difference of runs");
}

#[test]
fn runs_are_the_unit_of_several_runs_with_images() {
    let directory = tempfile::tempdir().unwrap();
    // The runs of a side differ by 20 %, their images by nothing.
    let side = |name: &str, factor: f64| {
        [100.0, 120.0].map(|level| {
            let images = BASE.map(|value| [factor * level * value / 100.0]);
            run_of_images(directory.path(), &format!("{name}{level}"), &images.each_ref().map(|one| &one[..]))
        })
    };
    let (base, other) = (side("base", 1.0), side("other", 0.85));
    let found = compare(&REGISTRY, &other, &base, &Options::default()).unwrap();
    let row = &found.rows[0];
    assert_eq!((row.sample.len(), row.reference.len(), row.runs), (2, 2, [2, 2]));
    assert_eq!(found.analysis().result["metrics"][0]["counted"], "runs");
    assert_eq!(row.judged().unwrap().verdict.word(), "undecided", "two runs a side");
    // The variation of several runs widens the interval of a run of images against them.
    let row = &compare(&REGISTRY, &other[..1], &base, &Options::default()).unwrap().rows[0];
    assert_eq!((row.sample.len(), row.reference.len(), row.runs), (5, 2, [1, 2]));
    assert_eq!(row.judged().unwrap().verdict.word(), "undecided");
}

#[test]
fn drift_over_images_is_not_a_drift_over_runs() {
    let directory = tempfile::tempdir().unwrap();
    let falling: Vec<[f64; 1]> = (0..12).map(|step| [100.0 - f64::from(step)]).collect();
    let of =
        |name: &str| run_of_images(directory.path(), name, &falling.iter().map(|one| &one[..]).collect::<Vec<_>>());
    let found = compare(&REGISTRY, &[of("one")], &[of("other")], &Options::default()).unwrap().caveats.join("\n");
    assert!(found.contains("throughput over the images of the sample drifts by -1"), "{found}");
    assert!(!found.contains("over the runs"), "{found}");
}

#[test]
fn gate_that_throughput_cannot_fail_gives_a_caveat() {
    let (_directory, [base, none]) = two_runs(&BASE, &BASE.map(|value| value / 1000.0));
    let caveats = |limit: f64| {
        let options = Options { fail_on_regression: Some(limit), ..Options::default() };
        versus(&none, &base, &options).caveats.join("\n")
    };
    for part in ["the gate of 200 % can never fail for metrics that lose", "throughput [fs=ext4]"] {
        assert!(caveats(2.0).contains(part), "{}", caveats(2.0));
    }
    assert!(!caveats(0.99).contains("can never fail"), "{}", caveats(0.99));
}

#[test]
fn cpu_contention_widens_single_runs() {
    let directory = tempfile::tempdir().unwrap();
    let run = |name: &str, factor: f64, others: f64| {
        let record = run(directory.path(), name, &BASE.map(|value| factor * value), "6.1", "memory:1G");
        with_facts(&record, json!({"run.during.others_percent": others}))
    };
    let found = |sample: &[Record], base: &[Record]| {
        let found = compare(&REGISTRY, sample, base, &Options::default()).unwrap();
        let of = |metric: &str| found.rows.iter().find(|row| row.what.metric == metric).unwrap();
        let is_said = found.caveats.iter().any(|caveat| caveat.contains("took up to 40.0 %"));
        assert_eq!(of("layout score").between_runs, 0.02, "layout does not depend on it");
        (of("throughput").judged().unwrap().verdict.word(), is_said)
    };
    let quiet = [run("base", 1.0, 1.5), run("slower", 0.8, 1.5)];
    assert_eq!(found(&quiet[1..], &quiet[..1]), ("worse", false));
    let busy = [run("busy", 0.8, 40.0), run("busy2", 0.801, 40.0), run("busy3", 0.799, 40.0)];
    assert_eq!(found(&busy[..1], &quiet[..1]), ("undecided", true));
    let several = [run("base1", 1.0, 1.5), run("base2", 1.001, 1.5), run("base3", 0.999, 1.5)];
    assert_eq!(found(&busy, &several), ("worse", false), "several runs show it themselves");
    let untold = [with_facts(&quiet[0], json!({"run.during.others_percent": null, "run.during.busy_percent": 50.0}))];
    let caveats = compare(&REGISTRY, &quiet[1..], &untold, &Options::default()).unwrap().caveats.join("\n");
    assert!(caveats.contains("1 run without a record of CPU contention"), "{caveats}");
}

#[test]
fn single_runs_in_a_virtual_machine_have_wider_intervals() {
    let directory = tempfile::tempdir().unwrap();
    let run = |name: &str, factor: f64, is_virtual: bool| {
        let record = run(directory.path(), name, &BASE.map(|value| factor * value), "6.1", "memory:1G");
        with_facts(&record, json!({"machine.virtual": is_virtual}))
    };
    let found = |sample: &Record, noise: Option<f64>, base: &Record| {
        let options = Options { noise, ..Options::default() };
        let found = versus(sample, base, &options);
        let of = |metric: &str| found.rows.iter().find(|row| row.what.metric == metric).unwrap();
        let is_said = found.caveats.iter().any(|caveat| caveat.contains("they come from a virtual machine"));
        (of("throughput").judged().unwrap().verdict.word(), of("layout score").between_runs, is_said)
    };
    let own = [run("own", 1.0, false), run("own slower", 0.85, false)];
    assert_eq!(found(&own[1], None, &own[0]), ("worse", 0.02, false));
    let guest = [run("guest", 1.0, true), run("guest slower", 0.85, true), run("guest much slower", 0.5, true)];
    assert_eq!(found(&guest[1], None, &guest[0]), ("undecided", 0.02, true));
    assert_eq!(found(&guest[0], None, &own[1]).0, "undecided", "one of the two is enough");
    assert_eq!(found(&guest[2], None, &guest[0]).0, "worse");
    assert_eq!(found(&guest[1], Some(0.02), &guest[0]), ("worse", 0.02, false), "the user's value is used");
}

#[test]
fn tail_latencies_of_single_runs_widen_under_contention() {
    let directory = tempfile::tempdir().unwrap();
    let run = |name: &str, factor: f64, stolen: f64| {
        let one = |value: f64| Measurement::new("p99 latency", "us", Better::Lower, factor * value).unwrap();
        let values = (0u32..).zip(BASE).map(|(repetition, value)| Measurement { repetition, ..one(value) });
        let record = recorded(&directory.path().join(name), values.collect(), ["6.1", "memory:1G"], None);
        let during = |name| format!("run.during.{name}_percent");
        with_facts(&record, json!({during("others"): 0.0, during("stolen"): stolen, during("busy"): 50.0}))
    };
    let found = |sample: &[Record], base: &[Record]| {
        let found = compare(&REGISTRY, sample, base, &Options::default()).unwrap();
        let is_said = found.caveats.iter().any(|caveat| caveat.contains("differ by a factor of at least 2"));
        (found.rows[0].judged().unwrap().verdict.word(), is_said)
    };
    let base = [run("base", 1.0, 0.2), run("base2", 1.01, 0.2), run("base3", 0.99, 0.2)];
    assert_eq!(found(&[run("quiet", 1.6, 0.4)], &base[..1]), ("worse", false), "0.8 % of the required duration");
    let disturbed = [run("disturbed", 1.6, 0.6), run("disturbed2", 1.61, 0.6), run("disturbed3", 1.59, 0.6)];
    assert_eq!(found(&disturbed[..1], &base[..1]), ("undecided", true), "1.2 %");
    assert_eq!(found(&disturbed, &base), ("worse", false), "several runs show it themselves");
    assert_eq!(found(&[run("bad", 12.0, 0.6)], &base[..1]), ("worse", true));
}
