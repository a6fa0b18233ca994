//! Tests that every verb refuses a record with an edited or missing file or line, and changes nothing.

use crate::common::{ends, run_line, succeeds, temporary_directory};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// The verbs that read the record of any run.
const READERS: &[&str] = &[
    "report run",
    "report run --format text",
    "report run --format markdown",
    "report run --format csv",
    "report run --format json",
    "report run --format figures --out figures",
    "report run --format zip",
    "report run --site site",
    "compare run own --even-if-different",
    "compare run own --until-decided --max-time 1s --out rounds",
    "runs label x run",
    "runs repeat run --out again",
    "zoned measure sim:zn540 --op write --time 1ms --out run",
    "device simulate ssd:fast24 run",
];

/// The verbs that read the record of an aging.
const OF_AGINGS: &[&str] = &["age --resume run", "age --resume run --max-overwrites 2", "verify run"];

fn edit(file: &Path, edit: impl Fn(Vec<String>) -> Vec<String>) {
    let text = fs::read_to_string(file).expect("read");
    fs::write(file, edit(text.split_inclusive('\n').map(str::to_string).collect()).concat()).expect("write");
}

/// Its name, and what does it to a run.
type Damage = (&'static str, fn(&Path));

const DAMAGES: &[Damage] = &[
    ("edited plan", |run| edit(&run.join("plan.toml"), |lines| [lines, vec!["\n".into()]].concat())),
    ("edited environment", |run| edit(&run.join("env.json"), |lines| [lines, vec!["\n".into()]].concat())),
    ("broken plan", |run| fs::write(run.join("plan.toml"), [0xff]).expect("write")),
    ("broken environment", |run| fs::write(run.join("env.json"), "{").expect("write")),
    ("removed environment", |run| fs::remove_file(run.join("env.json")).expect("remove")),
    ("edited result", |run| edit(&run.join("summary.json"), |lines| [lines, vec!["\n".into()]].concat())),
    ("removed line", |run| edit(&run.join("events.jsonl"), |lines| [&lines[..1], &lines[2..]].concat())),
    ("exchanged lines", |run| {
        edit(&run.join("events.jsonl"), |mut lines| {
            lines.swap(1, 2);
            lines
        });
    }),
    ("repeated line", |run| edit(&run.join("events.jsonl"), |lines| [&lines[..2], &lines[1..]].concat())),
    ("cut events", |run| edit(&run.join("events.jsonl"), |lines| lines[..lines.len() - 1].to_vec())),
    ("removed events", |run| fs::remove_file(run.join("events.jsonl")).expect("remove")),
    ("edited histogram", |run| {
        for entry in fs::read_dir(run.join("histograms")).expect("list").flatten() {
            let mut bytes = fs::read(entry.path()).expect("read");
            *bytes.last_mut().expect("a byte") ^= 1;
            fs::write(entry.path(), bytes).expect("write");
        }
    }),
];

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).expect("make");
    for entry in fs::read_dir(from).expect("list").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy(&from, &to),
            false => fs::write(to, fs::read(from).expect("read")).expect("write"),
        }
    }
}

/// Name and content of everything below a folder except the lock of a run.
fn content(folder: &Path) -> Vec<(OsString, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("list").flatten().filter(|entry| entry.file_name() != "lock") {
        match entry.path().is_dir() {
            true => all.extend(content(&entry.path())),
            false => all.push((entry.file_name(), fs::read(entry.path()).expect("read"))),
        }
    }
    all.sort();
    all
}

/// Damages the run `own` in each way that has an effect, and gives a copy of it to each verb. It can be removed. Returns the
/// damages without effect.
fn refused_by(folder: &Path, verbs: &[&str]) -> Vec<&'static str> {
    let mut without_effect = Vec::new();
    let (own, run) = (folder.join("own"), folder.join("run"));
    for (how, damage) in DAMAGES {
        copy(&own, &run);
        damage(&run);
        let before = content(&run);
        if before == content(&own) {
            without_effect.push(*how);
            continue;
        }
        for line in verbs {
            let ended = run_line(folder, line);
            assert_eq!(ended.status.code(), Some(5), "{how}: {line}: {}", crate::common::stderr(&ended));
            assert!(content(&run) == before, "{how}: {line} changed the record");
            assert!(!folder.join("again").exists(), "{how}: {line}");
        }
        let listed = succeeds(folder, "runs list .");
        assert!(String::from_utf8_lossy(&listed.stdout).contains("damaged"), "{how}");
        succeeds(folder, "runs history . --csv");
        let is_run = run.join("events.jsonl").exists();
        ends(folder, "runs rm run --yes", if is_run { 0 } else { 3 });
    }
    without_effect
}

#[test]
fn damaged_record_is_refused_by_every_verb() {
    let directory = temporary_directory();
    run_line(directory.path(), "zoned measure sim:zn540 --op write --time 1ms --out own");
    assert_eq!(refused_by(directory.path(), READERS), [""; 0]);
}

#[test]
fn damaged_record_of_an_aging_is_refused_by_every_verb() {
    let directory = temporary_directory();
    succeeds(
        directory.path(),
        "age aged --create --size 64M --max-overwrites 1 --truncate-sizes=drop --data sparse --out own",
    );
    assert_eq!(refused_by(directory.path(), OF_AGINGS), ["edited histogram"]);
}
