//! Tests results over time: the list, courses with their changes, baselines, exports, the site, labels and removal.

use crate::common::{ends, json_of, printed, stderr, succeeds, temporary_directory};
use senesce_core::{Environment, RunDirectory};
use serde_json::{Value, json as value};
use std::fs;

/// Imported runs with one setting, a day apart, whose times rise by a tenth at the ninth of sixteen.
fn sixteen_runs() -> tempfile::TempDir {
    let directory = temporary_directory();
    let folder = directory.path();
    for day in 1..=16 {
        let level = if day < 9 { 1.0 } else { 1.1 };
        let scatter = [0.004, -0.003, 0.001, -0.002][day % 4];
        let times: Vec<f64> = (0..5).map(|k| level + scatter + 0.002 * f64::from(k - 2)).collect();
        let mean = times.iter().sum::<f64>() / 5.0;
        let one = value!({"command": "make", "mean": mean, "min": times[0], "max": times[4], "times": times});
        fs::write(folder.join("night.json"), value!({"results": [one]}).to_string()).expect("write");
        let out = format!("nightly/run-{day:02}");
        succeeds(folder, &format!("runs import hyperfine night.json --out {out}"));
        let label = if day <= 5 { "main" } else { "" };
        let facts = value!({"run.date": format!("2026-01-{day:02}T03:00:00Z"), "machine.host": "builder",
            "kernel.release": "6.1.0", "program.commit": "0123456789abcdef", "run.label": label,
            "run.date_from": ""});
        let facts = Environment(serde_json::from_value(facts).expect("facts"));
        let mut run = RunDirectory::resume(&folder.join(&out)).expect("a record");
        run.add_environment(&facts).expect("write");
    }
    directory
}

#[test]
fn runs_are_listed_by_date_from_any_directory() {
    let directory = sixteen_runs();
    let list = json_of(directory.path(), "runs history . --json");
    let list = list.as_array().expect("a list");
    assert_eq!(list.len(), 16);
    let known = value!({"date": "2026-01-01T03:00:00Z", "host": "builder", "label": "main", "commit": "0123456789abcdef",
        "kernel": "6.1.0", "kind": "results", "verdict": "done", "state": "complete"});
    for (member, value) in known.as_object().unwrap() {
        assert_eq!(list[0][member], *value, "{member}");
    }
    assert_eq!(list[15]["label"], Value::Null);
    let text = printed(directory.path(), "runs history nightly");
    assert!(text.lines().count() == 17 && text.contains("2026-01-16 03:00"), "{text}");
    let labelled = json_of(directory.path(), "runs history nightly --labelled main --json");
    assert_eq!(labelled.as_array().map(Vec::len), Some(5));
    ends(directory.path(), "runs history nowhere", 2);
}

#[test]
fn history_detects_a_step_and_a_worse_value_than_the_baseline() {
    let directory = sixteen_runs();
    let found = json_of(directory.path(), "runs history nightly --trend --baseline main --json");
    let courses = found["courses"].as_array().expect("courses");
    let time = courses.iter().find(|course| course["metric"] == "time").expect("the time");
    let changes = time["changes"].as_array().expect("changes");
    assert_eq!((changes.len(), &changes[0]["index"]), (1, &value!(8)), "{time}");
    let metrics = &found["baseline"]["found"][0]["metrics"];
    assert_eq!((&metrics[0]["metric"], &metrics[0]["verdict"]), (&value!("time"), &value!("worse")), "{metrics}");
    let text = printed(directory.path(), "runs history nightly --trend");
    assert!(text.contains("worse by 10.") && text.contains("2026-01-09 03:00"), "{text}");
    ends(directory.path(), "runs history nightly --baseline mian", 2);
}

#[test]
fn all_values_are_exported_and_scraped() {
    let directory = sixteen_runs();
    let csv = printed(directory.path(), "runs history nightly --csv");
    assert!(csv.starts_with("run,date,host,label,commit,kernel,kind,setting,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 16 * 5);
    let first = csv.lines().nth(1).expect("a value");
    assert!(first.contains(",builder,") && first.contains(",time,"), "{first}");
    let scraped = printed(directory.path(), "runs history nightly --prometheus");
    for line in ["# TYPE senesce_history_value gauge", "senesce_history_runs{state=\"complete\"} 16"] {
        assert!(scraped.contains(line), "{line}: {scraped}");
    }
}

#[test]
fn pages_have_all_runs_and_a_broken_one_is_listed_with_its_reason() {
    let directory = sixteen_runs();
    let page = |name: &str| fs::read_to_string(directory.path().join(name)).expect(name);
    fs::write(directory.path().join("nightly/run-16/summary.json"), "{").expect("write");
    let written = succeeds(directory.path(), "runs history nightly --html history.html");
    assert_eq!(written.stdout, b"history.html\n", "the name of the page");
    let values = succeeds(directory.path(), "runs history nightly --html history.html --csv");
    assert!(!String::from_utf8_lossy(&values.stdout).contains("history.html"), "only values");
    let text = page("history.html");
    assert!(text.contains("median between changes") && text.contains("run-01"), "a figure and the list");
    let ended = succeeds(directory.path(), "report nightly --site public");
    assert!(stderr(&ended).contains("without a page: 1 of 16 runs"), "{}", stderr(&ended));
    let index = page("public/index.html");
    assert!(index.contains("href=\"run-01.html\"") && index.contains("summary.json"), "{index}");
    assert!(page("public/run-01.html").contains("href=\"index.html\""), "the link back");
}

#[test]
fn runs_are_labelled_named_and_removed_only_on_request() {
    let directory = sixteen_runs();
    let path = |name: &str| directory.path().join("nightly").join(name);
    succeeds(directory.path(), "runs label good nightly/run-16");
    assert_eq!(json_of(directory.path(), "runs history nightly/run-16 --json")[0]["label"], "good");
    assert_eq!(printed(directory.path(), "runs latest nightly").trim(), "nightly/run-16");
    // Nobody answers.
    ends(directory.path(), "runs rm nightly/run-01", 3);
    std::os::unix::fs::symlink(path("run-02"), path("link")).expect("link");
    fs::create_dir(path("other")).expect("make");
    for refused in ["nightly/link", "nightly/other", "nightly"] {
        ends(directory.path(), &format!("runs rm --yes nightly/run-01 {refused}"), 3);
        assert!(path("run-01").exists() && path("run-02").exists(), "{refused}: none is removed unless all may");
    }
    succeeds(directory.path(), "runs rm --yes nightly/run-01");
    assert!(!path("run-01").exists() && path("run-02").exists());
}

#[test]
fn tables_fit_the_terminal() {
    let directory = sixteen_runs();
    for columns in ["60", "80", "100"] {
        let mut command = crate::common::senesce(directory.path());
        let output =
            command.args(["runs", "history", "nightly"]).env("COLUMNS", columns).output().expect("run senesce");
        let widest = String::from_utf8_lossy(&output.stdout).lines().map(|line| line.chars().count()).max();
        assert!(widest > Some(0) && widest <= columns.parse().ok(), "{columns}: {widest:?}");
    }
}
