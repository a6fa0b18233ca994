//! The pages in docs/reference and docs/results, generated from the types and from results of runs.
//! `UPDATE=1 cargo test -p senesce-cli --test integration reference` writes them; otherwise a difference is a failure.

mod attributes;
mod defaults;
mod page;
mod types;

use crate::common;
use page::Page;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use types::Types;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Files written by users: title, crate, type, and the purpose of the file.
const FILES: [(&str, &str, &str, &str); 5] = [
    (
        "A study",
        "study",
        "StudySpec",
        "Read by `senesce study FILE`; see [study](../verbs/study.md). [Factors](../verbs/study-statistics.md) (`[[factor]]`) are expanded \
         into the keys below.",
    ),
    (
        "An aging profile",
        "aging",
        "Profile",
        "Read by `senesce age --profile FILE`; see [profile](../verbs/profile.md).",
    ),
    (
        "A job for a zoned drive",
        "zoned",
        "Job",
        "Read by `senesce zoned measure DRIVE FILE`; see [zoned](../verbs/zoned.md).",
    ),
    ("A model of a zoned drive", "zoned", "Model", "Named as `sim:FILE`; see [zoned](../verbs/zoned.md)."),
    (
        "A model of a disk or SSD",
        "devmodel",
        "DeviceModel",
        "Named by `--model FILE`; see [device](../verbs/device.md).",
    ),
];

const FAMILIES: [(&str, &str); 4] = [
    ("Aged", "aged-fileserver, aged-webserver"),
    ("Fragmentation", "frag-intra, frag-inter, copy-order, git-aging, mail-aging"),
    ("Sizes", "append, random-write"),
    ("Zns", "zns experiments"),
];

/// Typed results of verbs with `--json`: title, crate, type.
const RESULTS: [(&str, &str, &str); 1] = [("`senesce diagnose --json`", "diagnose", "Prognosis")];

#[test]
fn reference_of_files_matches_the_types() {
    let types = Types::read(&root());
    let mut page = Page::new(
        "Keys of the files that users write",
        "Every key that a TOML file may have, with its type, the value it has when it is missing (its default, where only the \
         program can find it), and what it means. A key that is not here is refused, with the nearest one that is.",
        true,
    );
    for (title, package, name, purpose) in FILES {
        page.section(&types, title, purpose, types.find(package, name));
    }
    same("docs/reference/files.md", &page.text());
}

#[test]
fn reference_of_records_matches_the_types() {
    let types = Types::read(&root());
    let mut page = Page::new(
        "Fields of records and results",
        "A record's `plan.toml` has the specification of its run below `spec`, and every line of `events.jsonl` one event; \
         [records](../guide/records.md) says how they lie in the folder. Below, by kind of run, then what verbs print as JSON. \
         What an experiment prints as its result is on its page.",
        false,
    );
    for run in types.runs() {
        let kind = FAMILIES.iter().find(|(name, _)| *name == run.kind).map_or(run.kind.as_str(), |(_, kinds)| kinds);
        let get = |name: &Option<String>| name.as_ref().and_then(|name| types.get(&run.source, name));
        if let Some(spec) = get(&run.spec) {
            page.section(&types, &format!("{kind}: specification"), "", spec);
        }
        if let Some(event) = get(&run.event) {
            page.events(&types, &format!("{kind}: events"), event);
        }
    }
    for (title, package, name) in RESULTS {
        page.section(&types, title, "", types.find(package, name));
    }
    same("docs/reference/records.md", &page.text());
}

/// data/scoreboard.json is written by `senesce report --scoreboard RUNS... --format json`.
#[test]
fn pages_of_results_are_those_of_the_archived_scoreboard() {
    let board = ["report", "--scoreboard", "data/scoreboard.json"];
    let run = |words: &[&str]| {
        let output = common::run(&root(), &[&board, words].concat());
        assert!(output.status.success(), "{}", common::stderr(&output));
        output
    };
    let found = common::json(&run(&["--format", "json"]));
    assert_eq!(found["unread"], serde_json::json!([]), "claims that have changed since");
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    run(&["--site", site.to_str().unwrap()]);
    let names = |directory: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(directory).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    for name in names(&site) {
        same(&format!("docs/results/{name}"), &fs::read_to_string(site.join(&name)).unwrap());
    }
    assert_eq!(names(&root().join("docs/results")), names(&site), "pages without a run");
}

fn same(name: &str, text: &str) {
    let path = root().join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{} differs from its source; UPDATE=1 writes it", path.display());
}
