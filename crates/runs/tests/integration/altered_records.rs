//! Records that were copied or altered after they were written: copies count once, and contradictions are refused.

use crate::compare::{BASE, REGISTRY, SLOW, gate, run, with_facts};
use senesce_core::{ExitCode, Failure, Record};
use senesce_runs::compare::{Options, compare};
use senesce_runs::history::{State, damage, entries};
use serde_json::{Value, json};
use std::slice::from_ref;

/// Copies a record. `alter` gets each event with its index from 0, without those of the record about itself.
fn altered(record: &Record, name: &str, alter: impl Fn(usize, &mut Value)) -> Record {
    let path = record.path.with_file_name(name);
    std::fs::create_dir(&path).unwrap();
    for file in ["format", "plan.toml", "env.json", "summary.json"] {
        std::fs::copy(record.path.join(file), path.join(file)).unwrap();
    }
    let text = std::fs::read_to_string(record.path.join("events.jsonl")).unwrap();
    let (mut index, mut sum) = (0, 0);
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let event = &mut line["event"];
        if !["identity", "checksum"].contains(&event["kind"].as_str().unwrap()) {
            alter(index, event);
            index += 1;
        }
        let body = event.to_string();
        let mut hasher = crc32fast::Hasher::new_with_initial(sum);
        hasher.update(body.as_bytes());
        sum = hasher.finalize();
        format!("{{\"crc\":\"{sum:08x}\",\"event\":{body}}}\n")
    });
    std::fs::write(path.join("events.jsonl"), lines.collect::<String>()).unwrap();
    Record::open(&path).unwrap()
}

fn clocked(values: [f64; 5]) -> [f64; 5] {
    values.map(|value| value / 1.000_000_7)
}

fn base() -> (tempfile::TempDir, Record) {
    let directory = tempfile::tempdir().unwrap();
    let base = run(directory.path(), "base", &clocked(BASE), "6.1", "memory:1G");
    (directory, base)
}

#[test]
fn copies_of_a_run_count_once_on_a_side() {
    let (directory, base) = base();
    let slow = run(directory.path(), "slow", &clocked(SLOW), "6.1", "memory:1G");
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
    let single = compare(&REGISTRY, from_ref(&slow), from_ref(&base), &gate()).unwrap();
    for copy in &copies {
        let both = [base.clone(), copy.clone()];
        let found = compare(&REGISTRY, from_ref(&slow), &both, &gate()).unwrap();
        assert!(found.caveats.iter().any(|text| text.contains("contains the same run as")), "{}", copy.path.display());
        let intervals = [&single, &found].map(|found| found.rows[0].judged().unwrap().interval.unwrap().high);
        assert!((intervals[0] / intervals[1] - 1.0).abs() < 0.01, "{}: {intervals:?}", copy.path.display());
    }
}

#[test]
fn altered_plan_or_environment_is_refused() {
    let (_directory, base) = base();
    for (file, from, to) in [("plan.toml", "fio.json", "other.json"), ("env.json", "6.1", "6.2")] {
        let copy = altered(&base, file, |_, _| ());
        let (path, text) = (copy.path.join(file), std::fs::read_to_string(copy.path.join(file)).unwrap());
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let refused = Record::open(&copy.path).map_err(Failure::from).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::RunFailed, "{refused}");
    }
}

#[test]
fn damaged_record_is_listed_as_damaged() {
    let (directory, base) = base();
    let text = std::fs::read_to_string(base.path.join("events.jsonl")).unwrap();
    let own: Vec<&str> = text.split_inclusive('\n').collect();
    let copies = ["whole", "contradicts", "altered"].map(|name| altered(&base, name, |_, _| ()));
    // The same event twice in one batch.
    let twice = [&own[..2], &own[1..]].concat().concat();
    std::fs::write(copies[1].path.join("events.jsonl"), twice).unwrap();
    std::fs::write(copies[2].path.join("env.json"), "{}").unwrap();
    let entries = entries(&REGISTRY, &[directory.path().into()]).unwrap();
    let state = |record: &Record| entries.iter().find(|entry| entry.run == record.path).unwrap().state;
    assert_eq!(copies.each_ref().map(state), [State::Complete, State::Damaged, State::Damaged]);
    assert!(damage(&REGISTRY, &copies[0]).is_none());
    let mut unknown = copies[0].clone();
    unknown.events.iter_mut().for_each(|event| event.kind = "unknown".into());
    assert!(damage(&REGISTRY, &unknown).is_some(), "as a report finds it");
}

#[test]
fn run_on_both_sides_does_not_pass_the_gate() {
    let (_directory, base) = base();
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
    let sides = |sample: &Record, options: &Options| compare(&REGISTRY, from_ref(sample), from_ref(&base), options);
    assert_eq!(sides(&other, &gate()).unwrap().exit_code(), ExitCode::CannotTell);
    let refused = sides(&described, &gate()).unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Usage, "no agreement on the direction: {refused}");
}

#[test]
fn record_that_contradicts_itself_is_refused_with_its_line() {
    let (_directory, base) = base();
    let lines = |name: &str, lines: &[&str]| {
        let copy = altered(&base, name, |_, _| ());
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(copy.path.join("events.jsonl"), text).unwrap();
        let record = Record::open(&copy.path).map_err(Failure::from);
        let failure = record.and_then(|record| compare(&REGISTRY, &[record], from_ref(&base), &gate())).unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::RunFailed);
        failure.to_string()
    };
    let text = std::fs::read_to_string(base.path.join("events.jsonl")).unwrap();
    let own: Vec<&str> = text.lines().collect();
    assert!(lines("repeated", &[&own[..2], &own[1..]].concat()).contains("events.jsonl, line 3"));
    assert!(lines("emptied", &[]).contains("events.jsonl, line 1"));
}

#[test]
fn percentiles_of_one_distribution_rise() {
    let (_directory, base) = base();
    let percentiles = |name: &str, metrics: [&str; 5]| {
        let record = altered(&base, name, |index, event| {
            // Every second event is a throughput, each of another repetition.
            if index % 2 == 0 {
                let (metric, value) = (metrics[index / 2], 10.0 + index as f64);
                let new = json!({"metric": metric, "unit": "us", "better": "Lower", "repetition": 0, "value": value});
                event["data"].as_object_mut().unwrap().extend(new.as_object().unwrap().clone());
            }
        });
        compare(&REGISTRY, from_ref(&base), &[record], &gate())
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
