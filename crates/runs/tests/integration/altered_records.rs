//! Records that were copied or altered after they were written: copies count once, and contradictions are refused.

use crate::compare::{BASE, REGISTRY, SLOW, gate, run, with_facts};
use senesce_core::{ExitCode, Failure, Record};
use senesce_runs::compare::{Options, compare};
use serde_json::{Value, json};

fn altered(record: &Record, name: &str, alter: impl Fn(usize, &mut Value)) -> Record {
    let path = record.path.with_file_name(name);
    std::fs::create_dir(&path).unwrap();
    for file in ["format", "plan.toml", "env.json", "summary.json"] {
        std::fs::copy(record.path.join(file), path.join(file)).unwrap();
    }
    let text = std::fs::read_to_string(record.path.join("events.jsonl")).unwrap();
    let lines = text.lines().enumerate().map(|(index, line)| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        alter(index, &mut line["event"]);
        signed(&line["event"])
    });
    std::fs::write(path.join("events.jsonl"), lines.collect::<String>()).unwrap();
    Record::open(&path).unwrap()
}

fn signed(event: &Value) -> String {
    let body = event.to_string();
    format!("{{\"crc\":\"{:08x}\",\"event\":{body}}}\n", crc32fast::hash(body.as_bytes()))
}

fn clocked(values: [f64; 5], factor: f64) -> [f64; 5] {
    values.map(|value| value * factor / 1.000_000_7)
}

#[test]
fn copies_of_a_run_count_once_on_a_side() {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", &clocked(BASE, 1.0), "6.1", "memory:1G");
    let slow = run(directory.path(), "slow", &clocked(SLOW, 1.0), "6.1", "memory:1G");
    std::os::unix::fs::symlink(directory.path().join("base"), directory.path().join("link")).unwrap();
    let copies = [
        Record::open(&directory.path().join("link")).unwrap(),
        with_facts(
            &altered(&base, "labelled", |_, _| ()),
            json!({"run.label": "other", "run.date": "2026-03-02T10:00:00Z"}),
        ),
        altered(&base, "later", |_, event| event["t"] = (event["t"].as_f64().unwrap() + 7.5).into()),
        altered(&base, "renumbered", |_, event| {
            let repetition = event["data"]["repetition"].as_u64().unwrap_or_default();
            event["data"]["repetition"] = (repetition + 5).into();
        }),
        altered(&base, "one-changed", |index, event| {
            if index == 0 {
                event["data"]["value"] = 77.125.into();
            }
        }),
    ];
    let single = compare(&REGISTRY, std::slice::from_ref(&slow), std::slice::from_ref(&base), &gate()).unwrap();
    for copy in &copies {
        let both = [base.clone(), copy.clone()];
        let found = compare(&REGISTRY, std::slice::from_ref(&slow), &both, &gate()).unwrap();
        assert!(found.caveats.iter().any(|text| text.contains("holds the same run as")), "{}", copy.path.display());
        let intervals = [&single, &found].map(|found| found.rows[0].judged().unwrap().interval.unwrap().high);
        assert!((intervals[0] / intervals[1] - 1.0).abs() < 0.01, "{}: {intervals:?}", copy.path.display());
    }
}

#[test]
fn run_on_both_sides_does_not_pass_the_gate() {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", &clocked(BASE, 1.0), "6.1", "memory:1G");
    let copy = altered(&base, "copy", |_, _| ());
    let found = compare(&REGISTRY, &[copy], &[base], &gate()).unwrap();
    assert_eq!(found.exit_code(), ExitCode::CannotTell);
    assert!(found.shares_runs);
}

#[test]
fn side_without_comparable_values_leaves_the_gate_undecided() {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", &BASE, "6.1", "memory:1G");
    let other = altered(&base, "other", |_, event| event["data"]["unit"] = "furlongs".into());
    let described = altered(&base, "described", |_, event| event["data"]["better"] = "Neither".into());
    let sides = |sample: &Record, options: &Options| {
        compare(&REGISTRY, std::slice::from_ref(sample), std::slice::from_ref(&base), options)
    };
    assert_eq!(sides(&other, &gate()).unwrap().exit_code(), ExitCode::CannotTell);
    let refused = sides(&described, &gate()).unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Usage, "no agreement on the direction: {refused}");
}

#[test]
fn record_that_contradicts_itself_is_refused_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", &clocked(BASE, 1.0), "6.1", "memory:1G");
    let lines = |name: &str, lines: &[&str]| {
        let copy = altered(&base, name, |_, _| ());
        std::fs::write(
            copy.path.join("events.jsonl"),
            lines.iter().map(|line| format!("{line}\n")).collect::<String>(),
        )
        .unwrap();
        let record = Record::open(&copy.path);
        record
            .map_err(Failure::from)
            .and_then(|record| compare(&REGISTRY, &[record], std::slice::from_ref(&base), &gate()))
    };
    let text = std::fs::read_to_string(base.path.join("events.jsonl")).unwrap();
    let own: Vec<&str> = text.lines().collect();
    let repeated = lines("repeated", &[&own[..2], &own[1..]].concat()).unwrap_err();
    assert_eq!(repeated.exit_code(), ExitCode::RunFailed);
    assert!(repeated.to_string().contains("events.jsonl, line 3"), "{repeated}");
    let emptied = lines("emptied", &[]).unwrap_err();
    assert_eq!(emptied.exit_code(), ExitCode::RunFailed);
    assert!(emptied.to_string().contains("events.jsonl, line 1"), "{emptied}");
}

#[test]
fn percentiles_of_one_distribution_rise() {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", &clocked(BASE, 1.0), "6.1", "memory:1G");
    let percentiles = |name: &str, metrics: [&str; 5]| {
        let record = altered(&base, name, |index, event| {
            // Every second event is a throughput, each of another repetition.
            if index % 2 == 0 {
                event["data"]["metric"] = metrics[index / 2].into();
                event["data"]["unit"] = "us".into();
                event["data"]["better"] = "Lower".into();
                event["data"]["repetition"] = 0.into();
                event["data"]["value"] = (10.0 + index as f64).into();
            }
        });
        compare(&REGISTRY, std::slice::from_ref(&base), &[record], &gate())
    };
    let rising = ["p50 latency", "p90 latency", "p99 latency", "p99.9 latency", "p99.99 latency"];
    let falling = ["p50 latency", "p99 latency", "p90 latency", "p99.9 latency", "p99.99 latency"];
    assert!(!percentiles("rising", rising).is_err_and(|error| error.exit_code() == ExitCode::RunFailed));
    assert_eq!(percentiles("falling", falling).unwrap_err().exit_code(), ExitCode::RunFailed);
}

#[test]
fn import_without_results_is_a_finished_record_that_can_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let record = run(directory.path(), "none", &[], "6.1", "memory:1G");
    assert!(!record.is_partial());
    let analysis = REGISTRY.analyse(&record).unwrap();
    assert!(!analysis.caveats.is_empty(), "a caveat warns the reader");
    std::fs::write(record.path.join("events.jsonl"), "").unwrap();
    assert!(Record::open(&record.path).is_err(), "one that was emptied is damaged");
}
