//! Tests `senesce age` and `senesce verify` from the command line.

use crate::common::{json, leftovers, run, senesce, start_until};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const SMALL: [&str; 8] =
    ["--profile", "wang_os", "--truncate-sizes=drop", "--fullness", "0.5", "--size", "256M", "--json"];

fn age(directory: &Path, words: &[&str]) -> std::process::Output {
    run(directory, &[&["age"], words, &["--create"]].concat())
}

#[test]
fn result_has_the_fields_of_the_contract() {
    let directory = crate::common::temporary_directory();
    let value = json(&age(directory.path(), &["--plan-only", "--size", "1GB", "--profile", "agrawal", "--json"]));
    for key in [
        "operations",
        "creates",
        "deletes",
        "files_live",
        "t_bound",
        "t_end",
        "virtual_t",
        "saved_factor",
        "commit_share",
        "commits",
        "overwrites",
        "rmse",
        "fullness",
        "created_size_tv",
        "chi_square",
        "stopped_by",
        "namespace_sha256",
        "plan_cpu_seconds",
        "plan_ops_per_cpu_second",
        "execute_seconds",
        "ops_per_second",
        "peak_rss_bytes",
        "seed",
        "profile",
        "environment",
    ] {
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
fn uncertified_or_conflicting_compression_is_refused() {
    let directory = crate::common::temporary_directory();
    let refused = |words: &[&str]| {
        let ended = age(directory.path(), &[&["--plan-only", "--size", "8G", "--compress"], words].concat());
        assert_eq!(ended.status.code(), Some(2), "{words:?}");
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    assert!(refused(&["--fs", "nilfs2", "--profile", "dabre"]).contains("not certified"));
    assert!(refused(&["--fs", "ext4", "--commit-share", "none"]).contains("default clock"));
    assert!(refused(&["--profile", "agrawal"]).contains("--fs"));
    for limit in ["--overwrites=3", "--max-operations=9", "--max-overwrites=3", "--confidence=0.9"] {
        assert!(refused(&["--fs", "ext4", limit]).contains("--compress"), "{limit}");
    }
}

#[test]
fn any_number_of_threads_makes_the_same_files() {
    let directory = crate::common::temporary_directory();
    let digests: Vec<Value> = ["1", "2", "8"]
        .iter()
        .map(|threads| {
            let target = format!("aged-{threads}");
            let out = format!("run-{threads}");
            let words =
                [&[target.as_str(), "--threads", threads, "--data", "sparse", "--out", &out], &SMALL[..]].concat();
            let value = json(&age(directory.path(), &words));
            let verified = run(directory.path(), &["verify", &out]);
            assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
            value["namespace_sha256"].clone()
        })
        .collect();
    assert_eq!(digests[0], digests[1]);
    assert_eq!(digests[0], digests[2]);
}

#[test]
fn finished_run_reprints_and_another_plan_is_refused() {
    let directory = crate::common::temporary_directory();
    let words = [&["aged", "--data", "sparse", "--out", "run"], &SMALL[..]].concat();
    let first = json(&age(directory.path(), &words));
    let again = age(directory.path(), &words);
    assert!(String::from_utf8_lossy(&again.stderr).contains("already done"));
    assert_eq!(json(&again)["namespace_sha256"], first["namespace_sha256"]);
    let other = age(directory.path(), &[&words[..], &["--seed", "7"]].concat());
    assert_eq!(other.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&other.stderr).contains("seed: 7 against 42")
            || String::from_utf8_lossy(&other.stderr).contains("seed: 42 against 7")
    );
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
    let directory = crate::common::temporary_directory();
    let base = [
        "--profile",
        "wang_os",
        "--truncate-sizes=drop",
        "--fullness",
        "0.5",
        "--size",
        "1G",
        "--json",
        "--data",
        "sparse",
        "--threads",
        "2",
    ];
    let expected = json(&age(directory.path(), &[&["whole", "--out", "whole-run"], &base[..]].concat()));
    for moment in 0..count {
        let (target, out) = (format!("aged-{moment}"), format!("run-{moment}"));
        let words = [&["age", target.as_str(), "--create", "--out", out.as_str()], &base[..]].concat();
        let mut child = senesce(directory.path())
            .args(&words)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("start");
        std::thread::sleep(Duration::from_millis(20 + moment * 2000 / count));
        child.kill().expect("kill -9");
        child.wait().expect("reap");
        let continued = run(directory.path(), &words);
        assert_eq!(json(&continued)["namespace_sha256"], expected["namespace_sha256"], "moment {moment}");
        let verified = run(directory.path(), &["verify", &out]);
        assert_eq!(verified.status.code(), Some(0), "moment {moment}: {}", String::from_utf8_lossy(&verified.stdout));
        std::fs::remove_dir_all(directory.path().join(&target)).expect("remove");
    }
}

#[test]
fn ctrl_c_keeps_a_partial_record_that_resumes() {
    let directory = crate::common::temporary_directory();
    let words = [
        "age",
        "aged",
        "--create",
        "--out",
        "run",
        "--profile",
        "agrawal",
        "--size",
        "1G",
        "--data",
        "sparse",
        "--json",
    ];
    let started = crate::common::start_until(directory.path(), &words, "aging:");
    crate::common::wait_for_event(&directory.path().join("run"), "sample");
    let stopped = started.interrupt();
    assert_eq!(stopped.status.code(), Some(130));
    let partial = json(&stopped);
    assert_eq!(partial["stopped_by"], "interrupt");
    assert!(partial["rmse"]["age"].is_number() && partial["chi_square"]["p"].is_number(), "{partial}");
    let report = run(directory.path(), &["report", "run"]);
    assert_eq!(report.status.code(), Some(0), "a partial run has a report");
    let further = partial["operations"].as_u64().expect("operations") + 5000;
    let words = ["age", "--resume", "run", "--max-operations", &further.to_string(), "--json"];
    let resumed = run(directory.path(), &words);
    assert_eq!(resumed.status.code(), Some(0), "{}", String::from_utf8_lossy(&resumed.stderr));
    let reached = json(&resumed)["operations"].as_u64().expect("operations");
    assert!((further - 1..=further).contains(&reached), "whole pairs of operations: {reached} of {further}");
}

#[test]
fn new_limits_replan_from_the_reached_state() {
    let directory = crate::common::temporary_directory();
    let words = [&["aged", "--data", "sparse", "--out", "run", "--max-overwrites", "2"], &SMALL[..]].concat();
    assert_eq!(json(&age(directory.path(), &words))["stopped_by"], "overwrites");
    let refused = run(directory.path(), &["age", "--resume", "run", "--overwrites", "1"]);
    assert_eq!(refused.status.code(), Some(2), "a limit below the progress is refused");
    let reprinted = run(directory.path(), &["age", "--resume", "run", "--json"]);
    assert!((json(&reprinted)["overwrites"].as_f64().expect("overwrites") - 2.0).abs() < 0.05);
    let further = json(&run(directory.path(), &["age", "--resume", "run", "--overwrites", "12", "--json"]));
    assert!((further["overwrites"].as_f64().expect("overwrites") - 12.0).abs() < 0.05);
    assert!(further["rmse"]["age"].as_f64().expect("rmse") < 0.01, "{further}");
    let verified = run(directory.path(), &["verify", "run"]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn run_out_of_time_continues_with_the_same_plan() {
    let directory = crate::common::temporary_directory();
    let whole = [&["whole", "--data", "sparse", "--out", "run"], &SMALL[..]].concat();
    let whole = json(&age(directory.path(), &whole));
    let short = [&["short", "--data", "sparse", "--out", "part", "--max-time", "1ms"], &SMALL[..]].concat();
    let stopped = json(&age(directory.path(), &short));
    assert_eq!(stopped["stopped_by"], "time");
    let operations = |value: &Value| value["operations"].as_u64().expect("operations");
    let again = json(&run(directory.path(), &["age", "--resume", "part", "--json"]));
    assert!(operations(&again) > operations(&stopped), "the same time once more: {again}");
    let ended = json(&run(directory.path(), &["age", "--resume", "part", "--max-time", "1h", "--json"]));
    assert_eq!(ended["stopped_by"], "convergence");
    assert_eq!(ended["namespace_sha256"], whole["namespace_sha256"]);
    let reprinted = json(&run(directory.path(), &["age", "--resume", "part", "--json"]));
    assert_eq!(operations(&reprinted), operations(&ended));
}

#[test]
fn options_ignored_by_a_continued_run_are_refused() {
    let directory = crate::common::temporary_directory();
    assert_eq!(
        age(directory.path(), &[&["aged", "--data", "sparse", "--out", "run"], &SMALL[..]].concat()).status.code(),
        Some(0)
    );
    for words in [
        &["--dry-run"][..],
        &["--profile", "agrawal"],
        &["--seed", "2"],
        &["--threads", "2"],
        &["--data", "write"],
        &["--commit-share", "none"],
        &["--size", "1G"],
        &["--compress"],
    ] {
        let refused = run(directory.path(), &[&["age", "--resume", "run"], words].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(words[0]) && said.contains("--resume"), "{said}");
    }
}

#[test]
fn directory_of_another_user_is_refused() {
    let directory = crate::common::temporary_directory();
    let target = directory.path().join("thesis");
    std::fs::create_dir(&target).expect("make");
    std::fs::write(target.join("chapter-1"), "precious").expect("write");
    let output = age(directory.path(), &[&["thesis"], &SMALL[..]].concat());
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--erase"));
    assert_eq!(std::fs::read_to_string(target.join("chapter-1")).expect("read"), "precious");
    assert!(!directory.path().join("senesce-runs").exists(), "a refused target leaves no run");
}

#[test]
fn usage_errors_have_one_clear_message_and_no_effect() {
    let directory = crate::common::temporary_directory();
    for (words, code, said) in [
        (vec!["aged", "--size", "1g5"], 2, "is not a size"),
        (vec!["aged", "--profile", "agrawl", "--size", "1G"], 2, "agrawal"),
        (vec!["aged", "--size", "1G", "--fullness", "1.5"], 2, "fullness"),
        (vec!["aged"], 2, "--size"),
        (vec!["aged", "--size", "64K"], 2, ""),
        (vec!["aged", "--size", "1G", "--fs", "ext4"], 2, "--fs is for images"),
        (vec!["aged", "--size", "1G", "--confidence", "1.5"], 2, "probability"),
        (vec!["aged", "--size", "1G", "--shard", "4/4"], 2, "--shard"),
        (vec!["--plan-only", "--size", "1G", "--profile", "pramod"], 2, "--truncate-sizes"),
    ] {
        let output = age(directory.path(), &words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains(said), "{words:?}: {text}");
        assert!(!directory.path().join("aged").exists(), "{words:?} made the target");
    }
}

#[test]
#[ignore = "needs loop devices, XFS, Btrfs"]
fn images_of_every_file_system_age_verify_and_leave_nothing_mounted() {
    let directory = crate::common::temporary_directory();
    let mut digests = Vec::new();
    for fs in ["ext4", "xfs", "btrfs"] {
        let target = format!("image:{}/{fs}.img,size=512M", directory.path().display());
        let out = format!("run-{fs}");
        let words = [
            target.as_str(),
            "--fs",
            fs,
            "--profile",
            "wang_os",
            "--fullness",
            "0.4",
            "--truncate-sizes=drop",
            "--data",
            "write",
            "--max-overwrites",
            "1.5",
            "--threads",
            "2",
            "--out",
            &out,
            "--json",
        ];
        let output = age(directory.path(), &words);
        digests.push(json(&output)["namespace_sha256"].clone());
        let verified = run(directory.path(), &["verify", &out, "--json"]);
        assert_eq!(verified.status.code(), Some(0), "{fs}: {}", String::from_utf8_lossy(&verified.stdout));
        assert_eq!(json(&verified)["file_system"]["clean"], true, "{fs}");
        assert_eq!(leftovers(directory.path()), Vec::<String>::new(), "{fs}");
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "one plan, one namespace");
}

/// The image is formatted before the plan is known, and belongs to the run from then on.
#[test]
#[ignore = "needs loop devices"]
fn image_interrupted_during_planning_is_resumed_by_the_same_command() {
    let directory = tempfile::tempdir().unwrap();
    let words = ["age", "image:k.img,size=1G", "--profile", "douceur", "--truncate-sizes=drop", "--out", "run"];
    for (until, goes_on) in [("planning", "starts it over"), ("aging:", "continues it")] {
        let ended = start_until(directory.path(), &words, until).interrupt();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(130), "{said}");
        assert!(said.contains(&format!("the same command with --out run {goes_on}")), "{said}");
    }
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs loop devices"]
fn interrupted_image_leaves_nothing_mounted_and_resumes() {
    let directory = crate::common::temporary_directory();
    let target = format!("image:{}/a.img,size=1G", directory.path().display());
    let base =
        ["age", &target, "--profile", "agrawal", "--in-memory", "--max-overwrites", "8", "--out", "run", "--json"];
    let started = crate::common::start_until(directory.path(), &base, "aging:");
    crate::common::wait_for_event(&directory.path().join("run"), "sample");
    assert_eq!(started.interrupt().status.code(), Some(130));
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
    let resumed = run(directory.path(), &["age", "--resume", "run", "--json"]);
    assert_eq!(json(&resumed)["stopped_by"], "overwrites");
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}
