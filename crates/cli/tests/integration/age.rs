//! Tests `senesce age` and `senesce verify` from the command line.

use crate::common::{
    ends, json, json_of, leftovers, run_line, senesce, start_aging, start_until, succeeds, temporary_directory, words,
};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

const SMALL: &str = "--create --profile wang_os --truncate-sizes=drop --fullness 0.5 --size 256M --data sparse --json";

fn same_files(one: &Value, other: &Value, what: &str) {
    assert!(one["namespace_sha256"].is_string() && one["namespace_sha256"] == other["namespace_sha256"], "{what}");
}

#[test]
fn result_has_the_fields_of_the_contract() {
    let directory = temporary_directory();
    let value = json_of(directory.path(), "age --plan-only --size 1GB --profile agrawal --json");
    let keys = "operations creates deletes files_live t_bound t_end virtual_t saved_factor commit_share commits overwrites rmse \
                fullness created_size_tv chi_square stopped_by namespace_sha256 plan_cpu_seconds plan_ops_per_cpu_second \
                execute_seconds ops_per_second peak_rss_bytes seed profile environment";
    for key in words(keys) {
        assert!(value.get(key).is_some(), "{key}");
    }
    let files = value["files_live"].as_f64().expect("files");
    for histogram in ["age", "size", "depth"] {
        let rmse = value["rmse"][histogram].as_f64().expect("rmse");
        assert!(rmse <= 0.5 / files * 1.001, "{histogram}: {rmse}");
    }
    assert!(value["t_end"].as_f64() <= value["t_bound"].as_f64().map(|bound| bound * 1.02));
    assert_eq!(value["seed"], 42);
    assert_eq!((&value["saved_factor"], &value["virtual_t"]), (&1.0.into(), &value["t_end"]));
}

#[test]
fn any_number_of_threads_makes_the_same_files() {
    let directory = temporary_directory();
    let aged = ["1", "2", "8"].map(|threads| {
        let value =
            json_of(directory.path(), &format!("age aged-{threads} --threads {threads} --out run-{threads} {SMALL}"));
        succeeds(directory.path(), &format!("verify run-{threads}"));
        value
    });
    aged.iter().for_each(|other| same_files(&aged[0], other, "by another number of threads"));
}

#[test]
fn finished_run_reprints_and_another_plan_is_refused() {
    let directory = temporary_directory();
    let line = format!("age aged --out run {SMALL}");
    let first = json_of(directory.path(), &line);
    let events = || std::fs::read(directory.path().join("run/events.jsonl")).expect("events");
    let before = events();
    same_files(&json_of(directory.path(), &line), &first, "printed again");
    ends(directory.path(), &format!("{line} --seed 7"), 2);
    assert!(events() == before, "nothing was done again");
}

#[test]
fn kill_9_leaves_a_run_that_resumes_to_the_same_files() {
    kills(6);
}

#[test]
#[ignore = "long: 50 kills take minutes"]
fn kill_9_at_fifty_moments() {
    kills(50);
}

fn kills(count: u64) {
    let directory = temporary_directory();
    let base = format!("{SMALL} --threads 2").replace("256M", "1G");
    let expected = json_of(directory.path(), &format!("age whole --out whole-run {base}"));
    for moment in 0..count {
        let line = format!("age aged-{moment} --out run-{moment} {base}");
        let mut command = senesce(directory.path());
        let command = command.args(words(&line)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("start");
        std::thread::sleep(Duration::from_millis(20 + moment * 2000 / count));
        child.kill().expect("kill -9");
        child.wait().expect("reap");
        same_files(&json_of(directory.path(), &line), &expected, &format!("moment {moment}"));
        succeeds(directory.path(), &format!("verify run-{moment}"));
        std::fs::remove_dir_all(directory.path().join(format!("aged-{moment}"))).expect("remove");
    }
}

#[test]
fn ctrl_c_keeps_a_partial_record_that_resumes() {
    let directory = temporary_directory();
    let line = "age aged --create --out run --profile agrawal --size 1G --data sparse --json";
    let stopped = start_aging(directory.path(), line, "run").interrupt();
    assert_eq!(stopped.status.code(), Some(130));
    let partial = json(&stopped);
    assert_eq!(partial["stopped_by"], "interrupt");
    assert!(partial["rmse"]["age"].is_number() && partial["chi_square"]["p"].is_number(), "{partial}");
    succeeds(directory.path(), "report run");
    let further = partial["operations"].as_u64().expect("operations") + 5000;
    let resumed = succeeds(directory.path(), &format!("age --resume run --max-operations {further} --json"));
    let reached = json(&resumed)["operations"].as_u64().expect("operations");
    assert!((further - 1..=further).contains(&reached), "whole pairs of operations: {reached} of {further}");
}

#[test]
fn relative_target_belongs_to_the_directory_of_the_start() {
    let room = temporary_directory();
    let [first, second, moved] = ["d1", "d2", "d3"].map(|name| room.path().join(name));
    for (folder, seed) in [(&first, 1), (&second, 2)] {
        std::fs::create_dir(folder).expect("make a folder");
        succeeds(folder, &format!("age aged --out run --seed {seed} --max-overwrites 2 {SMALL}"));
    }
    succeeds(&second, "age --resume ../d1/run --overwrites 3");
    succeeds(&second, "verify ../d1/run");
    succeeds(&second, "verify run");
    std::fs::rename(&first, &moved).expect("move the folder");
    succeeds(&moved, "age --resume run --overwrites 4");
    succeeds(&moved, "verify run");
    succeeds(&second, "age --resume ../d3/run --overwrites 5");
    // The directory of another aging does not stand for the one that is gone.
    std::fs::remove_dir_all(moved.join("aged")).expect("remove the target");
    ends(&second, "age --resume ../d3/run --overwrites 6", 5);
    succeeds(&second, "verify run");
}

#[test]
fn new_limits_replan_from_the_reached_state() {
    let directory = temporary_directory();
    let line = format!("age aged --out run --max-overwrites 2 {SMALL}");
    assert_eq!(json_of(directory.path(), &line)["stopped_by"], "overwrites");
    // A limit below the progress.
    ends(directory.path(), "age --resume run --overwrites 1", 2);
    let reprinted = json_of(directory.path(), "age --resume run --json");
    assert!((reprinted["overwrites"].as_f64().expect("overwrites") - 2.0).abs() < 0.05);
    let further = json_of(directory.path(), "age --resume run --overwrites 12 --json");
    assert!((further["overwrites"].as_f64().expect("overwrites") - 12.0).abs() < 0.05);
    assert!(further["rmse"]["age"].as_f64().expect("rmse") < 0.01, "{further}");
    succeeds(directory.path(), "verify run");
}

#[test]
fn run_out_of_time_continues_with_the_same_plan() {
    let directory = temporary_directory();
    let whole = json_of(directory.path(), &format!("age whole --out run {SMALL}"));
    let stopped = json_of(directory.path(), &format!("age short --out part --max-time 1ms {SMALL}"));
    assert_eq!(stopped["stopped_by"], "time");
    let operations = |value: &Value| value["operations"].as_u64().expect("operations");
    let again = json_of(directory.path(), "age --resume part --json");
    assert!(operations(&again) > operations(&stopped), "the same time once more: {again}");
    let ended = json_of(directory.path(), "age --resume part --max-time 1h --json");
    assert_eq!(ended["stopped_by"], "convergence");
    same_files(&ended, &whole, "in one go");
    let reprinted = json_of(directory.path(), "age --resume part --json");
    assert_eq!(operations(&reprinted), operations(&ended));
}

#[test]
fn latest_is_the_last_run_that_the_verb_can_use() {
    let directory = temporary_directory();
    let measure = "zoned measure sim:zn540 --op write --time 1ms --out senesce-runs/other";
    run_line(directory.path(), measure);
    ends(directory.path(), "age --resume latest", 2);
    let stopped = json_of(directory.path(), &format!("age short --out senesce-runs/short --max-time 1ms {SMALL}"));
    assert_eq!(stopped["stopped_by"], "time");
    run_line(directory.path(), &measure.replace("other", "another"));
    let resumed = json_of(directory.path(), "age --resume latest --max-time 1h --json");
    assert!(resumed["operations"].as_u64() > stopped["operations"].as_u64(), "{resumed}");
    run_line(directory.path(), &measure.replace("other", "third"));
    succeeds(directory.path(), "verify latest");
}

#[test]
fn options_ignored_by_a_continued_run_are_refused() {
    let directory = temporary_directory();
    succeeds(directory.path(), &format!("age aged --out run {SMALL}"));
    let options =
        ["dry-run", "profile agrawal", "seed 2", "threads 2", "data write", "commit-share none", "size 1G", "compress"];
    for option in options {
        ends(directory.path(), &format!("age --resume run --{option}"), 2);
    }
    succeeds(directory.path(), "age --resume run");
}

#[test]
fn usage_errors_have_no_effect() {
    let directory = temporary_directory();
    for line in [
        "aged --size 1g5",
        "aged --profile agrawl --size 1G",
        "aged --size 1G --fullness 1.5",
        "aged",
        "aged --size 64K",
        "aged --size 1G --fs ext4",
        "aged --size 1G --confidence 1.5",
        "aged --size 1G --shard 4/4",
        "--plan-only --size 1G --profile pramod",
        "--plan-only --size 8G --compress --fs nilfs2 --profile dabre",
        "--plan-only --size 8G --compress --fs ext4 --commit-share none",
        "--plan-only --size 8G --compress --profile agrawal",
        "--plan-only --size 8G --compress --fs ext4 --overwrites=3",
        "--plan-only --size 8G --compress --fs ext4 --max-operations=9",
        "--plan-only --size 8G --compress --fs ext4 --max-overwrites=3",
        "--plan-only --size 8G --compress --fs ext4 --confidence=0.9",
    ] {
        ends(directory.path(), &format!("age --create {line}"), 2);
        assert!(!directory.path().join("aged").exists(), "{line} made the target");
    }
}

#[test]
#[ignore = "needs loop devices, XFS, btrfs"]
fn images_of_every_file_system_age_verify_and_leave_nothing_mounted() {
    let directory = temporary_directory();
    let aged = ["ext4", "xfs", "btrfs"].map(|fs| {
        let line = format!(
            "age image:{fs}.img,size=512M --fs {fs} --profile wang_os --fullness 0.4 --truncate-sizes=drop --data write \
             --max-overwrites 1.5 --threads 2 --out run-{fs} --json"
        );
        let value = json_of(directory.path(), &line);
        let verified = succeeds(directory.path(), &format!("verify run-{fs} --json"));
        assert_eq!(json(&verified)["file_system"]["clean"], true, "{fs}");
        assert_eq!(leftovers(directory.path()), Vec::<String>::new(), "{fs}");
        value
    });
    aged.iter().for_each(|other| same_files(&aged[0], other, "one plan"));
}

/// The image is formatted before the plan is known, and belongs to the run from then on.
#[test]
#[ignore = "needs loop devices"]
fn image_interrupted_during_planning_is_resumed_by_the_same_command() {
    let directory = tempfile::tempdir().unwrap();
    let line = "age image:k.img,size=1G --profile douceur --truncate-sizes=drop --out run";
    for until in ["planning", "aging:"] {
        let ended = start_until(directory.path(), &words(line), until).interrupt();
        assert_eq!(ended.status.code(), Some(130), "{until}: {}", crate::common::stderr(&ended));
    }
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs loop devices"]
fn interrupted_image_leaves_nothing_mounted_and_resumes() {
    let directory = temporary_directory();
    let line = "age image:a.img,size=1G --profile agrawal --in-memory --max-overwrites 8 --out run --json";
    assert_eq!(start_aging(directory.path(), line, "run").interrupt().status.code(), Some(130));
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
    let resumed = run_line(directory.path(), "age --resume run --json");
    assert_eq!(json(&resumed)["stopped_by"], "overwrites");
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs loop devices, XFS, btrfs"]
fn layout_is_verified_by_its_digest() {
    for shape in ["64M --fs ext4", "320M --fs xfs", "256M --fs btrfs"] {
        let directory = temporary_directory();
        let line = format!(
            "age image:a.img,size={shape} --fullness 0.5 --overwrites 1 --truncate-sizes --no-cost --out run --json"
        );
        let aged = json_of(directory.path(), &line);
        let digest = aged["layout_digest"].as_str().unwrap();
        assert!(digest.contains('-'), "free extents are part of it: {digest}");
        let verified = succeeds(directory.path(), &format!("verify run --layout {digest} --json"));
        assert_eq!(json(&verified)["layout"]["is_expected"], true, "{shape}");
        let other = if digest.starts_with('0') { '1' } else { '0' };
        let differs = ends(directory.path(), &format!("verify run --layout {other}{} --json", &digest[1..]), 1);
        assert_eq!(json(&differs)["layout"]["digest"], digest);
    }
}

#[test]
#[ignore = "needs loop devices"]
fn only_written_files_have_modelled_read_times() {
    let directory = temporary_directory();
    for (data, has_times) in [("fallocate", false), ("write", true)] {
        let line = format!(
            "age memory:128M --profile agrawal --truncate-sizes=drop --max-overwrites 1 --data {data} --out {data} --json"
        );
        let value = json_of(directory.path(), &line);
        let numbers = value["layout_numbers"].as_array().expect("numbers of the layout");
        let is_read = |one: &Value| one["metric"].as_str().is_some_and(|metric| metric.starts_with("read time"));
        assert_eq!((!numbers.is_empty(), numbers.iter().any(is_read)), (true, has_times), "{data}");
    }
}
