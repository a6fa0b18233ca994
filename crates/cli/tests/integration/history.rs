//! Tests results over time: the list, courses with their changes, baselines, exports, the site, labels and removal.

use crate::common::{json, run, temporary_directory};
use serde_json::{Value, json as value};
use std::fs;
use std::path::Path;
use std::process::Output;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Imported runs with one setting, a day apart, whose times rise by a tenth at the ninth of sixteen.
fn sixteen_runs(folder: &Path) {
    for day in 1..=16 {
        let level = if day < 9 { 1.0 } else { 1.1 };
        let scatter = [0.004, -0.003, 0.001, -0.002][day % 4];
        let times: Vec<f64> = (0..5).map(|k| level + scatter + 0.002 * f64::from(k - 2)).collect();
        let mean = times.iter().sum::<f64>() / 5.0;
        let (min, max) = (times[0], times[4]);
        let one = value!({"command": "make", "mean": mean, "min": min, "max": max, "times": times});
        fs::write(folder.join("night.json"), value!({"results": [one]}).to_string()).expect("write");
        let out = format!("nightly/run-{day:02}");
        printed(&run(folder, &["runs", "import", "hyperfine", "night.json", "--out", &out]));
        let label = if day <= 5 { "main" } else { "" };
        let facts = value!({"run.date": format!("2026-01-{day:02}T03:00:00Z"), "machine.host": "builder",
            "kernel.release": "6.1.0", "program.commit": "0123456789abcdef", "run.label": label});
        fs::write(folder.join(&out).join("env.json"), facts.to_string()).expect("write");
    }
}

#[test]
fn runs_are_listed_by_date_from_any_directory() {
    let directory = temporary_directory();
    sixteen_runs(directory.path());
    let list = json(&run(directory.path(), &["runs", "history", ".", "--json"]));
    let list = list.as_array().expect("a list");
    assert_eq!(list.len(), 16);
    for (member, said) in [
        ("date", "2026-01-01T03:00:00Z"),
        ("host", "builder"),
        ("label", "main"),
        ("commit", "0123456789abcdef"),
        ("kernel", "6.1.0"),
        ("kind", "results"),
        ("verdict", "done"),
        ("state", "complete"),
    ] {
        assert_eq!(list[0][member], said, "{member}");
    }
    assert_eq!(list[15]["label"], Value::Null);
    let text = printed(&run(directory.path(), &["runs", "history", "nightly"]));
    assert!(text.lines().count() == 17 && text.contains("2026-01-16 03:00"), "{text}");
    let labelled = json(&run(directory.path(), &["runs", "history", "nightly", "--labelled", "main", "--json"]));
    assert_eq!(labelled.as_array().map(Vec::len), Some(5));
    assert_eq!(run(directory.path(), &["runs", "history", "nowhere"]).status.code(), Some(2));
}

#[test]
fn step_is_found_and_a_baseline_shows_it() {
    let directory = temporary_directory();
    sixteen_runs(directory.path());
    let found =
        json(&run(directory.path(), &["runs", "history", "nightly", "--trend", "--baseline", "main", "--json"]));
    let courses = found["courses"].as_array().expect("courses");
    let time = courses.iter().find(|course| course["metric"] == "time").expect("the time");
    let changes = time["changes"].as_array().expect("changes");
    assert_eq!((changes.len(), &changes[0]["index"]), (1, &value!(8)), "{time}");
    let metrics = &found["baseline"]["found"][0]["metrics"];
    assert_eq!((&metrics[0]["metric"], &metrics[0]["verdict"]), (&value!("time"), &value!("worse")), "{metrics}");
    let text = printed(&run(directory.path(), &["runs", "history", "nightly", "--trend"]));
    assert!(text.contains("worse by 10.") && text.contains("2026-01-09 03:00"), "{text}");
    let unknown = run(directory.path(), &["runs", "history", "nightly", "--baseline", "mian"]);
    assert!(unknown.status.code() == Some(2) && said(&unknown).contains("labels are: main"), "{}", said(&unknown));
}

#[test]
fn all_values_are_exported_and_scraped() {
    let directory = temporary_directory();
    sixteen_runs(directory.path());
    let csv = printed(&run(directory.path(), &["runs", "history", "nightly", "--csv"]));
    assert!(csv.starts_with("run,date,host,label,commit,kernel,kind,setting,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 16 * 5);
    let first = csv.lines().nth(1).expect("a value");
    assert!(first.contains(",builder,") && first.contains(",time,"), "{first}");
    let scraped = printed(&run(directory.path(), &["runs", "history", "nightly", "--prometheus"]));
    for line in
        ["# TYPE senesce_history_value gauge", "senesce_history_runs{state=\"complete\"} 16", "host=\"builder\""]
    {
        assert!(scraped.contains(line), "{line}: {scraped}");
    }
}

#[test]
fn pages_have_all_runs_and_a_broken_one_is_listed_with_its_reason() {
    let directory = temporary_directory();
    sixteen_runs(directory.path());
    fs::write(directory.path().join("nightly/run-16/summary.json"), "{").expect("write");
    let page = directory.path().join("history.html");
    printed(&run(directory.path(), &["runs", "history", "nightly", "--html", "history.html"]));
    let text = fs::read_to_string(page).expect("the page");
    assert!(text.contains("median between changes") && text.contains("run-01"), "a figure and the list");
    let ended = run(directory.path(), &["report", "nightly", "--site", "public"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    assert!(said(&ended).contains("1 of 16 runs have no page"), "{}", said(&ended));
    let index = fs::read_to_string(directory.path().join("public/index.html")).expect("the index");
    assert!(index.contains("href=\"run-01.html\"") && index.contains("summary.json"), "{index}");
    let one = fs::read_to_string(directory.path().join("public/run-01.html")).expect("a page");
    assert!(one.contains("href=\"index.html\""), "the link back");
}

#[test]
fn runs_are_labelled_named_and_removed_only_on_request() {
    let directory = temporary_directory();
    sixteen_runs(directory.path());
    let path = |name: &str| directory.path().join("nightly").join(name);
    printed(&run(directory.path(), &["runs", "label", "good", "nightly/run-16"]));
    let listed = json(&run(directory.path(), &["runs", "history", "nightly/run-16", "--json"]));
    assert_eq!(listed[0]["label"], "good");
    let newest = printed(&run(directory.path(), &["runs", "latest", "nightly"]));
    assert_eq!(newest.trim(), "nightly/run-16");
    let asked = run(directory.path(), &["runs", "rm", "nightly/run-01"]);
    assert!(asked.status.code() == Some(3) && path("run-01").exists(), "no answer: {}", said(&asked));
    std::os::unix::fs::symlink(path("run-02"), path("link")).expect("link");
    fs::create_dir(path("other")).expect("make");
    for refused in ["nightly/link", "nightly/other", "nightly"] {
        let ended = run(directory.path(), &["runs", "rm", "--yes", "nightly/run-01", refused]);
        assert_eq!(ended.status.code(), Some(3), "{refused}: {}", said(&ended));
        assert!(path("run-01").exists() && path("run-02").exists(), "{refused}: none is removed unless all may");
    }
    printed(&run(directory.path(), &["runs", "rm", "--yes", "nightly/run-01"]));
    assert!(!path("run-01").exists() && path("run-02").exists());
}

#[test]
fn tables_fit_the_terminal() {
    let directory = temporary_directory();
    sixteen_runs(directory.path());
    for columns in ["60", "80", "100"] {
        let mut command = crate::common::senesce(directory.path());
        let output =
            command.args(["runs", "history", "nightly"]).env("COLUMNS", columns).output().expect("run senesce");
        let widest = printed(&output).lines().map(|line| line.chars().count()).max();
        assert!(widest <= columns.parse().ok(), "{columns}: {widest:?}");
    }
}
