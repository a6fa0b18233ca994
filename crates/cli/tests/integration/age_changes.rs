//! Tests changes of files between create and delete, and concurrently growing files, from the command line.

use crate::common::{
    assert_keys, ends, json, json_of, leftovers, start_until, succeeds, temporary_directory, wait_until, words,
};
use serde_json::Value;
use std::process::Command;

const CHANGES: &str = "
[[changes]]
bytes = \"64k\"
appends = 1.5
truncations = 1.2
overwrites = 0.6
renames = 0.7

[[changes]]
bytes = \"1g\"
appends = 0.5
";

const AGE: &str = "age --profile ./changing.toml --truncate-sizes=drop --fullness 0.5 --create --json";

/// A folder with a profile of these changes.
fn changing(changes: &str) -> tempfile::TempDir {
    let directory = temporary_directory();
    let text = crate::common::printed(directory.path(), "profile show wang_os --toml") + changes;
    std::fs::write(directory.path().join("changing.toml"), text).expect("write");
    directory
}

fn same(keys: &str, one: &Value, other: &Value) {
    assert_keys(one, keys);
    words(keys).iter().for_each(|key| assert_eq!(one[key], other[key], "{key}"));
}

#[test]
fn changes_are_planned_done_counted_and_verified() {
    let directory = changing(CHANGES);
    let size = "--size 128M --max-operations 9000";
    let planned = json_of(directory.path(), &format!("{AGE} {size} --plan-only"));
    for kind in ["appends", "truncations", "overwrites", "renames"] {
        assert!(planned["changes"][kind].as_u64() > Some(0), "{kind}: {}", planned["changes"]);
    }
    let count = |kind: &&str| planned["changes"][*kind].as_u64().expect("a count");
    let all: u64 = ["appends", "truncations", "overwrites", "renames"].iter().map(count).sum();
    assert!(Some(all) > planned["creates"].as_u64(), "{}", planned["changes"]);
    for (data, threads) in [("write", "1"), ("fallocate", "2")] {
        let more = format!("aged-{data} --data {data} --threads {threads} --out run-{data}");
        let aged = json_of(directory.path(), &format!("{AGE} {size} {more}"));
        same("namespace_sha256 changes", &aged, &planned);
        assert_eq!(aged["changes_executed"], planned["changes"]);
        assert_eq!(aged["changes_under_way"], 0);
        succeeds(directory.path(), &format!("verify run-{data}"));
    }
    let plain = json_of(directory.path(), &format!("{AGE} {size} --plan-only").replace("./changing.toml", "wang_os"));
    same("operations files_live rmse chi_square overwrites", &plain, &planned);
    assert_ne!(plain["namespace_sha256"], planned["namespace_sha256"], "files have other names");
}

#[test]
fn killed_aging_with_changes_and_writers_ends_like_an_uninterrupted_one() {
    let directory = changing(CHANGES);
    let base = format!("{AGE} --size 192M --max-operations 30000 --data write --writers 4 --pace 8000");
    let planned = json_of(directory.path(), &format!("{base} --plan-only"));
    for moment in 1..3 {
        let line = format!("{base} aged-{moment} --out run-{moment}");
        let started = start_until(directory.path(), &words(&line), "aging:");
        let events = directory.path().join(format!("run-{moment}/events.jsonl"));
        let checkpoints =
            || std::fs::read_to_string(&events).unwrap_or_default().matches("\"kind\":\"checkpoint\"").count();
        // The first checkpoint is at the start, others follow every second.
        wait_until(|| checkpoints() > moment);
        let killed = Command::new("kill").args(["-KILL", &started.id().to_string()]).status().expect("kill");
        assert!(killed.success() && started.wait().status.code().is_none(), "it ended before it was killed");
        let continued = json_of(directory.path(), &line);
        same("namespace_sha256 changes rmse files_live", &continued, &planned);
        let executed = continued["changes_executed"]["appends"].as_u64().expect("a count");
        let all = planned["changes"]["appends"].as_u64().expect("a count");
        assert!(0 < executed && executed < all, "only this part of the run");
        succeeds(directory.path(), &format!("verify run-{moment}"));
        std::fs::remove_dir_all(directory.path().join(format!("aged-{moment}"))).expect("remove");
    }
}

#[test]
fn conflicting_options_are_refused() {
    let too_many = "[[changes]]\nbytes = \"1m\"\nappends = 70\nrenames = 50\n";
    for (changes, words) in [
        (CHANGES, "--data sparse"),
        (CHANGES, "--writers 4 --threads 2"),
        (CHANGES, "--writers 4 --parts 2"),
        ("", "--writers 4 --data sparse"),
        ("", "--writers 0"),
        ("", "--writers 2 --mpi"),
        (too_many, ""),
        ("[[changes]]\nbytes = \"1m\"\nappend = 0.7\n", ""),
    ] {
        ends(changing(changes).path(), &format!("{AGE} --size 128M --plan-only {words}"), 2);
    }
}

#[test]
fn two_trees_are_captured_with_their_changes() {
    let directory = temporary_directory();
    let make = |tree: &str, files: &[(&str, usize)]| {
        let folder = directory.path().join(tree);
        std::fs::create_dir(&folder).expect("make");
        files.iter().for_each(|(name, size)| std::fs::write(folder.join(name), vec![1; *size]).expect("write"));
    };
    make("monday", &[("a", 100), ("b", 5000), ("c", 10)]);
    make("friday", &[("a", 200), ("b", 4500), ("d", 10), ("e", 6000), ("f", 7000)]);
    succeeds(directory.path(), "profile capture monday friday --out week.toml");
    let changes = json_of(directory.path(), "profile show ./week.toml --json")["profile"]["changes"].clone();
    assert_eq!((&changes[0]["appends"], &changes[1]["truncations"]), (&1.0.into(), &0.5.into()), "{changes}");
    let counts = json_of(directory.path(), "profile capture monday friday --json");
    assert_eq!(counts["changes"]["classes"][1]["created"], 2, "{counts}");
}

#[test]
fn aging_like_a_directory_keeps_the_length_of_names() {
    let directory = temporary_directory();
    let tree = directory.path().join("tree");
    std::fs::create_dir(&tree).expect("make");
    for file in 0..20 {
        std::fs::write(tree.join(format!("{file:040}")), vec![1; 5000]).expect("write");
    }
    let line = "age --like tree --size 64M --max-operations 3000 --create --data sparse aged --out run --json";
    let plan = json_of(directory.path(), &format!("{line} --dry-run"));
    assert!(plan["spec"]["profile"].as_str().is_some_and(|path| path.starts_with("senesce-runs/like-")), "{plan}");
    assert!(!directory.path().join("senesce-runs").exists(), "a dry run writes nothing");
    json_of(directory.path(), line);
    succeeds(directory.path(), "verify run");
    let names = std::fs::read_dir(directory.path().join("aged")).expect("list").map(|entry| entry.expect("entry"));
    let lengths: Vec<usize> =
        names.map(|entry| entry.file_name().len()).filter(|length| *length > "lost+found".len()).collect();
    assert!(lengths.iter().filter(|length| **length == 40).count() > 50, "{lengths:?}");
}

/// xfs gives a file that is written at once a single extent at any fullness; concurrently growing files interleave.
#[test]
#[ignore = "needs loop devices, XFS"]
fn concurrently_growing_files_are_fragmented_on_xfs() {
    let directory = temporary_directory();
    let [one, eight] = ["1", "8"].map(|writers| {
        let aged = json_of(
            directory.path(),
            &format!(
                "age image:{writers}.img,size=512M --fs xfs --profile agrawal --data fallocate --truncate-sizes=drop --fullness 0.5 \
                 --max-overwrites 2 --writers {writers} --out {writers} --json"
            ),
        );
        let verified = succeeds(directory.path(), &format!("verify {writers} --json"));
        assert_eq!(json(&verified)["file_system"]["clean"], true);
        aged
    });
    same("namespace_sha256", &one, &eight);
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
    let [one, eight] = [one, eight].map(|aged| {
        let count = |key: &str| aged["layout"][key].as_f64().expect("a count");
        println!("writers {}: {} extents of {} files", aged["writers"], count("extents"), count("files"));
        count("extents") / count("files")
    });
    assert!(one < 1.1, "{one} extents per file by one writer");
    assert!(eight > 1.5 * one, "{eight} extents per file by eight writers, {one} by one");
}
