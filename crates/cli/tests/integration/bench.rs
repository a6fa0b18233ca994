//! Tests `senesce bench`: its output for other programs, how runs end, every subject on a small directory.

use crate::common::{assert_keys, ends, json, leftovers, printed, senesce, start_until, stderr, succeeds, words};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;

const SMALL: &str = "define fileset name=set, path=$dir, dirwidth=20, entries=$n, size=4k, prealloc
set $n=40
define process name=p { thread name=t, instances=2 {
    flowop openfile name=open, filesetname=set, fd=1
    flowop readwholefile name=read, fd=1, iosize=4k
    flowop appendfilerand name=append, fd=1, iosize=1k
    flowop closefile name=close, fd=1 } }
run 60
";

/// A folder with a small workload.
fn temporary_directory() -> tempfile::TempDir {
    let directory = crate::common::temporary_directory();
    std::fs::write(directory.path().join("small.f"), SMALL).expect("workload file");
    directory
}

/// The first repetition of a benchmark that must end with this code.
fn repetition(folder: &Path, line: &str, code: i32) -> Value {
    json(&ends(folder, &format!("bench --create --json {line}"), code))["repetitions"][0].clone()
}

#[test]
fn json_has_the_documented_names() {
    let directory = temporary_directory();
    let line = "bench target small.f --create --operations 500 --reps 2 --seed 7 --set n=30 --json";
    let result = json(&succeeds(directory.path(), line));
    let repetitions = result["repetitions"].as_array().expect("repetitions");
    assert_eq!(repetitions.len(), 2);
    for repetition in repetitions {
        let [ops, valid, reason] = ["ops", "valid", "reason"].map(|name| repetition[name].clone());
        assert_eq!((ops, valid, reason), (500.into(), true.into(), Value::Null));
        assert_keys(repetition, "ops_per_second mb_per_second user_cpu_seconds");
        assert!(repetition["reads"].as_u64() > Some(0) && repetition["writes"].as_u64() > Some(0));
        for flowop in ["open", "read", "append", "close"] {
            let flowop = &repetition["flowops"][flowop];
            assert!(flowop["count"].as_u64() > Some(100), "{flowop}");
            let [p50, p99, p999] = ["p50_us", "p99_us", "p999_us"].map(|name| flowop[name].as_f64().expect(name));
            assert!(flowop["mean_us"].as_f64() > Some(0.0) && 0.0 < p50 && p50 <= p99 && p99 <= p999, "{flowop}");
        }
    }
    let set = &result["filesets"][0];
    assert_eq!((&set["name"], &set["files"], &set["bytes"]), (&"set".into(), &30.into(), &(30 * 4096).into()));
    assert!(set["directories"].as_u64() >= Some(2));
}

#[test]
fn check_has_no_effect_and_populate_only_stops_after_the_file_sets() {
    let directory = temporary_directory();
    let checked = json(&succeeds(directory.path(), "bench target fileserver --check --json"));
    let bytes = checked["filesets"][0]["bytes"].as_f64().expect("bytes");
    assert_eq!(format!("{:.3}", bytes / 1_048_576.0), "1240.757");
    assert!(!directory.path().join("target").exists());
    std::fs::write(directory.path().join("wrong.f"), "define fileset name=a,path=$dir,entires=1").expect("file");
    let wrong = ends(directory.path(), "bench target wrong.f --check", 2);
    assert!(stderr(&wrong).contains("wrong.f:1:33: error:"), "{}", stderr(&wrong));

    let result = json(&succeeds(directory.path(), "bench target small.f --create --populate-only --json"));
    assert_eq!((&result["repetitions"], &result["filesets"][0]["files"]), (&Value::Array(Vec::new()), &40.into()));
    assert!(directory.path().join("target/set").is_dir());
}

#[test]
fn filebench_output_lines_are_printed_for_scripts() {
    let directory = temporary_directory();
    let text = printed(directory.path(), "bench target small.f --create --operations 100 --format filebench");
    assert!(text.contains("Per-Operation Breakdown") && text.contains("IO Summary:   100 ops "), "{text}");
}

#[test]
fn every_subject_can_be_exported_and_compared() {
    let directory = temporary_directory();
    for (number, (words, metric)) in [
        ("small.f --operations 100", "throughput,operations/s,higher"),
        ("append --sizes 4K --calls 8", "mean latency,us,lower"),
        ("file-ops --ops create --time 2ms", "operation time,us,lower"),
    ]
    .into_iter()
    .enumerate()
    {
        for run in ["a", "b"] {
            succeeds(directory.path(), &format!("bench target --create {words} --out {run}{number}"));
        }
        let table = printed(directory.path(), &format!("report a{number} --format csv"));
        assert!(table.contains(metric), "{table}");
        succeeds(directory.path(), &format!("compare a{number} b{number}"));
    }
}

#[test]
fn run_without_system_calls_is_not_compared_with_one_that_has_them() {
    let directory = temporary_directory();
    for (out, more) in [("real", ""), ("null", "--null")] {
        succeeds(directory.path(), &format!("bench target small.f --create --operations 100 --out {out} {more}"));
    }
    ends(directory.path(), "compare null --against real", 2);
    succeeds(directory.path(), "compare real --against real");
}

#[test]
fn interrupted_repetition_is_measured_again_by_the_same_command() {
    let directory = temporary_directory();
    let line = words("bench target small.f --create --time 4s --reps 2 --json --out kept");
    let interrupted = start_until(directory.path(), &line, "running").interrupt();
    assert_eq!(interrupted.status.code(), Some(130), "{}", stderr(&interrupted));
    let record = std::fs::read_to_string(directory.path().join("kept/events.jsonl")).expect("record");
    assert!(record.contains("\"interrupted\":true"), "no repetition was interrupted: {record}");
    let output = crate::common::run(directory.path(), &line);
    // CPU steal by other guests makes a repetition invalid, and the exit code 1.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let result = json(&output);
    let repetitions = result["repetitions"].as_array().expect("repetitions");
    assert_eq!(repetitions.len(), 2);
    assert!(repetitions.iter().all(|one| one["interrupted"] != true && one["ops"].as_u64() > Some(0)));
    assert_eq!(crate::common::run(directory.path(), &line).stdout, output.stdout);
}

#[test]
fn interrupted_run_ends_soon_and_keeps_its_measurements() {
    let directory = temporary_directory();
    let line = words("bench target small.f --create --json --out kept");
    let ended = start_until(directory.path(), &line, "running").interrupt();
    assert_eq!(ended.status.code(), Some(130), "{}", stderr(&ended));
    succeeds(directory.path(), "report kept --format json");
    let record = std::fs::read_to_string(directory.path().join("kept/events.jsonl")).expect("record");
    assert!(record.contains("interrupted after"), "{record}");
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}

#[test]
fn every_other_subject_runs_on_a_directory() {
    let directory = temporary_directory();
    let line = "target file-ops --ops create,rename_dir_inter --time 2ms --macros";
    let ops = repetition(directory.path(), line, 0)["operations"].clone();
    let names: Vec<&str> = ops.as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    for name in ["create", "rename_dir_inter", "postmark_small", "unpack_tree", "remove_tree"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for mode in ["append", "random-write"] {
        for sync in ["fsync", "fdatasync", "dsync", "none"] {
            let line = format!("target {mode} --sizes 1,4K --calls 20 --sync {sync}");
            let size = repetition(directory.path(), &line, 0)["sizes"][1].clone();
            assert_eq!((&size["bytes"], &size["calls"]), (&4096.into(), &20.into()));
        }
    }
}

#[test]
fn cold_read_is_valid_only_from_a_device() {
    // Not in memory, where nothing is cold.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory");
    std::fs::write(directory.path().join("small.f"), SMALL).expect("workload file");
    succeeds(directory.path(), "bench target small.f --create --operations 10");
    let read = repetition(directory.path(), "target cold-read --settle 10ms", 0);
    assert_eq!(read["valid"], true, "{read}");
    assert!(read["files"].as_u64() >= Some(40) && read["seconds_per_gib"].as_f64() > Some(0.0), "{read}");
    let account = |name: &str| read["account"][name].as_u64().expect("a number");
    assert!(account("device_bytes") >= account("extent_bytes") && account("extent_bytes") >= 40 * 4096, "{read}");
    // Others may use the device of a directory.
    assert_eq!(cross_checks(&read), ["checked", "not checked"]);
    let warm = repetition(directory.path(), "target cold-read --keep-caches --out warm", 0);
    assert_eq!(cross_checks(&warm), ["not checked", "not checked"]);

    // A reading of nothing, and one of unwritten data.
    std::fs::create_dir(directory.path().join("empty")).expect("folder");
    does_not_count(directory.path(), "empty cold-read --out nothing");
    let file = std::fs::File::create(directory.path().join("empty/sparse")).expect("file");
    file.set_len(1 << 20).expect("size");
    does_not_count(directory.path(), "empty cold-read --out holes");
    // There is nothing to compare.
    ends(directory.path(), "compare holes holes", 2);
}

/// States of the cross-checks of a cold read: bytes and busy time of the device.
fn cross_checks(read: &Value) -> [&str; 2] {
    ["device_bytes", "device_busy_time"].map(|name| read["cross_checks"][name].as_str().expect("a state"))
}

fn does_not_count(folder: &Path, line: &str) -> Value {
    let read = repetition(folder, line, 5);
    assert_eq!(read["valid"], false, "{read}");
    assert!(read["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{read}");
    read
}

#[test]
fn data_in_memory_is_never_cold() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a temporary directory");
    std::fs::create_dir(directory.path().join("target")).expect("folder");
    std::fs::write(directory.path().join("target/file"), vec![7; 1 << 20]).expect("file");
    std::fs::write(directory.path().join("target/.senesce"), "ours").expect("marker");
    let read = does_not_count(directory.path(), "target cold-read");
    assert_eq!(cross_checks(&read), ["not checked", "not checked"]);
}

#[test]
#[ignore = "needs loop devices"]
fn cold_read_is_traced_without_read_ahead() {
    let directory = temporary_directory();
    let image = "image:a.img,size=64M";
    succeeds(directory.path(), &format!("bench {image} small.f --operations 10 --set n=200 --in-memory"));
    let read = repetition(directory.path(), &format!("{image} cold-read --read-ahead off --trace --out cold"), 0);
    let requested = read["trace"]["bytes"]["read"].as_u64().expect("traced bytes");
    assert!(read["files"].as_u64() >= Some(200) && requested >= read["bytes_read"].as_u64().expect("bytes"), "{read}");
    assert!(directory.path().join("cold/trace-1.blocks").exists());
    assert_eq!(cross_checks(&read), ["checked", "checked"]);
    let milliseconds = |name: &str| read["account"][name].as_u64().expect("milliseconds");
    assert!(milliseconds("device_busy_ms") <= milliseconds("counted_ms") + 20, "{read}");
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs control groups"]
fn limits_are_enforced_and_recorded() {
    let directory = temporary_directory();
    let line = "bench target small.f --create --operations 50 --memory 300M --cpus 1 --json --out limited";
    succeeds(directory.path(), line);
    let environment = std::fs::read(directory.path().join("limited/env.json")).expect("env.json");
    assert_keys(&serde_json::from_slice(&environment).expect("JSON"), "limits.memory_bytes limits.cpus");
}

#[test]
#[ignore = "needs loop devices"]
fn full_image_is_an_io_failure_with_a_record() {
    let directory = temporary_directory();
    let text = SMALL.replace("appendfilerand", "appendfile").replace("iosize=1k", "iosize=256k");
    std::fs::write(directory.path().join("full.f"), text).expect("file");
    let repetition = repetition(directory.path(), "memory:48M full.f --time 30s --out full", 5);
    let reason = repetition["reason"].as_str().expect("reason");
    assert!(repetition["valid"] == false && repetition["ops"].as_u64() > Some(0), "{repetition}");
    assert!(reason.contains("flowop append of thread t-"), "{reason}");
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs root, a build that every user may run"]
fn ordinary_user_measures_on_a_directory() {
    let directory = temporary_directory();
    let nobody = 65534;
    chown(directory.path(), Some(nobody), Some(nobody)).expect("chown");
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
    let mut command = senesce(directory.path());
    command.uid(nobody).gid(nobody).args(["bench", "target", "small.f", "--create", "--operations", "200", "--json"]);
    let output = command.output().expect("the program, which every user may run");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = json(&output);
    assert_eq!(result["repetitions"][0]["ops"], 200);
    assert!(result["notes"].to_string().contains("needs root"), "{result}");
}
