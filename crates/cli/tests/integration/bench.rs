//! Tests `senesce bench`: its output for other programs, how runs end, every subject on a small directory.

use crate::common::{json, leftovers, run, senesce, start_until};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Output;

const SMALL: &str = "define fileset name=set, path=$dir, dirwidth=20, entries=$n, size=4k, prealloc
set $n=40
define process name=p { thread name=t, instances=2 {
    flowop openfile name=open, filesetname=set, fd=1
    flowop readwholefile name=read, fd=1, iosize=4k
    flowop appendfilerand name=append, fd=1, iosize=1k
    flowop closefile name=close, fd=1 } }
run 60
";

/// A folder in memory if possible: disks with other users are slow to sync.
fn temporary_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory");
    std::fs::write(directory.path().join("small.f"), SMALL).expect("workload file");
    directory
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn bench(directory: &Path, words: &[&str]) -> Output {
    run(directory, &[&["bench"], words, &["--create"]].concat())
}

#[test]
fn json_has_the_documented_names() {
    let directory = temporary_directory();
    let output = bench(
        directory.path(),
        &["target", "small.f", "--operations", "500", "--reps", "2", "--seed", "7", "--set", "n=30", "--json"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let result = json(&output);
    let repetitions = result["repetitions"].as_array().expect("repetitions");
    assert_eq!(repetitions.len(), 2);
    for repetition in repetitions {
        assert_eq!(
            (&repetition["ops"], &repetition["valid"], &repetition["reason"]),
            (&500.into(), &true.into(), &Value::Null)
        );
        for name in ["ops_per_second", "mb_per_second", "user_cpu_seconds"] {
            assert!(repetition[name].as_f64().is_some_and(|value| value >= 0.0), "{name}");
        }
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
    let output = bench(directory.path(), &["target", "fileserver", "--check", "--json"]);
    let bytes = json(&output)["filesets"][0]["bytes"].as_f64().expect("bytes");
    assert_eq!((output.status.code(), format!("{:.3}", bytes / 1_048_576.0)), (Some(0), "1240.757".to_string()));
    assert!(!directory.path().join("target").exists());
    std::fs::write(directory.path().join("wrong.f"), "define fileset name=a,path=$dir,entires=1").expect("file");
    let output = bench(directory.path(), &["target", "wrong.f", "--check"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("wrong.f:1:33: error:") && said(&output).contains('^'), "{}", said(&output));

    let output = bench(directory.path(), &["target", "small.f", "--populate-only", "--json"]);
    let result = json(&output);
    assert_eq!(
        (output.status.code(), &result["repetitions"]),
        (Some(0), &Value::Array(Vec::new())),
        "{}",
        said(&output)
    );
    assert_eq!(result["filesets"][0]["files"], 40);
    assert!(directory.path().join("target/set").is_dir());
}

#[test]
fn filebench_output_lines_are_printed_for_scripts() {
    let directory = temporary_directory();
    let output = bench(directory.path(), &["target", "small.f", "--operations", "100", "--format", "filebench"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Per-Operation Breakdown") && text.contains("IO Summary:   100 ops "), "{text}");
}

#[test]
fn every_subject_can_be_exported_and_compared() {
    let directory = temporary_directory();
    let subjects: [(&[&str], &str); 3] = [
        (&["small.f", "--operations", "100"], "throughput,operations/s,higher"),
        (&["append", "--sizes", "4K", "--calls", "8"], "mean latency,us,lower"),
        (&["file-ops", "--ops", "create", "--time", "2ms"], "operation time,us,lower"),
    ];
    for (number, (words, metric)) in subjects.into_iter().enumerate() {
        for run_name in ["a", "b"] {
            let out = format!("{run_name}{number}");
            let output = bench(directory.path(), &[&["target"], words, &["--out", &out]].concat());
            assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        }
        let (a, b) = (format!("a{number}"), format!("b{number}"));
        let exported = run(directory.path(), &["report", &a, "--format", "csv"]);
        let table = String::from_utf8_lossy(&exported.stdout).into_owned();
        assert!(table.contains(metric), "{table}");
        let compared = run(directory.path(), &["compare", &a, &b]);
        assert_eq!(compared.status.code(), Some(0), "{}", said(&compared));
    }
}

#[test]
fn run_without_system_calls_is_not_compared_with_one_that_has_them() {
    let directory = temporary_directory();
    for (out, more) in [("real", &[][..]), ("null", &["--null"])] {
        let words = ["target", "small.f", "--operations", "100", "--out", out];
        assert_eq!(bench(directory.path(), &[&words, more].concat()).status.code(), Some(0));
    }
    let compared = run(directory.path(), &["compare", "null", "--against", "real"]);
    assert_eq!(compared.status.code(), Some(2), "{}", said(&compared));
    assert!(said(&compared).contains("engine: no system calls"), "{}", said(&compared));
}

#[test]
fn interrupted_repetition_is_measured_again_by_the_same_command() {
    let directory = temporary_directory();
    let words = ["bench", "target", "small.f", "--create", "--time", "4s", "--reps", "2", "--json", "--out", "kept"];
    let interrupted = start_until(directory.path(), &words, "running").interrupt();
    assert_eq!(interrupted.status.code(), Some(130), "{}", said(&interrupted));
    assert!(said(&interrupted).contains("starts it over"), "{}", said(&interrupted));
    let record = std::fs::read_to_string(directory.path().join("kept/events.jsonl")).expect("record");
    assert!(record.contains("\"interrupted\":true"), "no repetition was interrupted: {record}");
    let output = run(directory.path(), &words);
    // CPU steal by other guests makes a repetition invalid, and the exit code 1.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(&output));
    let result = json(&output);
    let repetitions = result["repetitions"].as_array().expect("repetitions");
    assert_eq!(repetitions.len(), 2);
    assert!(
        repetitions.iter().all(|repetition| repetition["interrupted"] != true && repetition["ops"].as_u64() > Some(0))
    );
    assert_eq!(run(directory.path(), &words).stdout, output.stdout);
}

#[test]
fn interrupted_run_ends_soon_and_keeps_its_measurements() {
    let directory = temporary_directory();
    let words = ["bench", "target", "small.f", "--create", "--json", "--out", "kept"];
    let ended = start_until(directory.path(), &words, "running").interrupt();
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    let report = run(directory.path(), &["report", "kept", "--format", "json"]);
    assert_eq!(report.status.code(), Some(0), "{}", said(&report));
    let record = std::fs::read_to_string(directory.path().join("kept/events.jsonl")).expect("record");
    assert!(record.contains("interrupted after"), "{record}");
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}

#[test]
fn every_other_subject_runs_on_a_directory() {
    let directory = temporary_directory();
    let run = |words: &[&str]| -> Value {
        let output = bench(directory.path(), words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", said(&output));
        json(&output)["repetitions"][0].clone()
    };
    let ops = run(&["target", "file-ops", "--ops", "create,rename_dir_inter", "--time", "2ms", "--macros", "--json"]);
    let names: Vec<&str> =
        ops["operations"].as_array().expect("operations").iter().filter_map(|one| one["name"].as_str()).collect();
    for name in ["create", "rename_dir_inter", "postmark_small", "unpack_tree", "remove_tree"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for mode in ["append", "random-write"] {
        for sync in ["fsync", "fdatasync", "dsync", "none"] {
            let calls = run(&["target", mode, "--sizes", "1,4K", "--calls", "20", "--sync", sync, "--json"]);
            assert_eq!((&calls["sizes"][1]["bytes"], &calls["sizes"][1]["calls"]), (&4096.into(), &20.into()));
        }
    }
    run(&["target", "small.f", "--operations", "10", "--json"]);
}

#[test]
fn cold_read_is_valid_only_from_a_device() {
    // Not in memory, where nothing is cold.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory");
    std::fs::write(directory.path().join("small.f"), SMALL).expect("workload file");
    assert_eq!(bench(directory.path(), &["target", "small.f", "--operations", "10"]).status.code(), Some(0));
    let output = bench(directory.path(), &["target", "cold-read", "--settle", "10ms", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let read = json(&output)["repetitions"][0].clone();
    assert_eq!(read["valid"], true, "{read}");
    assert!(read["files"].as_u64() >= Some(40) && read["seconds_per_gib"].as_f64() > Some(0.0), "{read}");
    let account = |name: &str| read["account"][name].as_u64().expect("a number");
    assert!(account("device_bytes") >= account("extent_bytes") && account("extent_bytes") >= 40 * 4096, "{read}");

    // A reading of nothing, and one of unwritten data.
    std::fs::create_dir(directory.path().join("empty")).expect("folder");
    let output = bench(directory.path(), &["empty", "cold-read", "--json", "--out", "nothing"]);
    does_not_count(&output, "lie on the device");
    let file = std::fs::File::create(directory.path().join("empty/sparse")).expect("file");
    file.set_len(1 << 20).expect("size");
    let output = bench(directory.path(), &["empty", "cold-read", "--json", "--out", "holes"]);
    does_not_count(&output, "lie on the device");
    let exported = crate::common::run(directory.path(), &["compare", "holes", "holes"]);
    assert_eq!(exported.status.code(), Some(2), "there is nothing to compare: {}", said(&exported));
}

fn does_not_count(output: &Output, reason: &str) {
    assert_eq!(output.status.code(), Some(5), "{}", said(output));
    let read = json(output)["repetitions"][0].clone();
    assert_eq!(read["valid"], false, "{read}");
    assert!(read["reason"].as_str().is_some_and(|message| message.contains(reason)), "{read}");
}

#[test]
fn data_in_memory_is_never_cold() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a temporary directory");
    std::fs::create_dir(directory.path().join("target")).expect("folder");
    std::fs::write(directory.path().join("target/file"), vec![7; 1 << 20]).expect("file");
    std::fs::write(directory.path().join("target/.senesce"), "ours").expect("marker");
    does_not_count(&bench(directory.path(), &["target", "cold-read", "--json"]), "in memory");
}

#[test]
#[ignore = "needs loop devices"]
fn cold_read_is_traced_without_read_ahead() {
    let directory = temporary_directory();
    let image = "image:a.img,size=64M";
    let output = bench(directory.path(), &[image, "small.f", "--operations", "10", "--set", "n=200", "--in-memory"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let words = [image, "cold-read", "--read-ahead", "off", "--trace", "--json", "--out", "cold"];
    let output = bench(directory.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let read = json(&output)["repetitions"][0].clone();
    let requested = read["trace"]["bytes"]["read"].as_u64().expect("traced bytes");
    assert!(read["files"].as_u64() >= Some(200) && requested >= read["bytes_read"].as_u64().expect("bytes"), "{read}");
    assert!(directory.path().join("cold/trace-1.blocks").exists());
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs control groups"]
fn limits_are_enforced_and_recorded() {
    let directory = temporary_directory();
    let words =
        ["target", "small.f", "--operations", "50", "--memory", "300M", "--cpus", "1", "--json", "--out", "limited"];
    let output = bench(directory.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let environment = std::fs::read_to_string(directory.path().join("limited/env.json")).expect("env.json");
    assert!(environment.contains("limits.memory_bytes") && environment.contains("limits.cpus"), "{environment}");
}

#[test]
#[ignore = "needs loop devices"]
fn full_image_is_an_io_failure_with_a_record() {
    let directory = temporary_directory();
    let text =
        SMALL.replace("appendfilerand name=append, fd=1, iosize=1k", "appendfile name=append, fd=1, iosize=256k");
    std::fs::write(directory.path().join("full.f"), text).expect("file");
    let output = bench(directory.path(), &["memory:48M", "full.f", "--time", "30s", "--json", "--out", "full"]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    let repetition = json(&output)["repetitions"][0].clone();
    assert_eq!(repetition["valid"], false);
    let reason = repetition["reason"].as_str().expect("reason");
    assert!(reason.contains("flowop append of thread t-") && repetition["ops"].as_u64() > Some(0), "{reason}");
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
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let result = json(&output);
    assert_eq!(result["repetitions"][0]["ops"], 200);
    assert!(result["notes"].to_string().contains("needs root"), "{result}");
}
