//! Tests `senesce study` from the command line.

use crate::common::{ends, json, json_of, leftovers, printed, run, senesce, stderr, succeeds, wait_until, words};
use serde_json::Value;
use std::path::Path;
use std::process::{Output, Stdio};

const STUDY: &str = r#"
name = "does age matter"
size = "64M"
images = 2
repetitions = 3
[[file_system]]
kind = "ext4"
[[file_system]]
kind = "ext4"
name = "ext4 without journal"
mkfs = "-O ^has_journal"
[[state]]
kind = "fresh"
[[state]]
kind = "aged"
profile = "wang_os"
fullness = 0.4
overwrites = 1.5
truncate = "drop"
[[state]]
kind = "copy"
of = "aged"
[[workload]]
personality = "webserver"
scale = 0.02
seconds = 0.2
set = { memsize = "1m", meanappendsize = "1k" }
[[cell]]
state = "aged"
memory = "512M"
cpus = 1.5
device_state = "precondition 0.5"
[[cell]]
state = "copy"
device_state = "discard"
"#;

const FAILING: &str = r#"
name = "one of two"
size = "64M"
repetitions = 2
file_system = [{ kind = "ext4" }]
state = [{ kind = "fresh" }]
workload = [{ command = ["true"] }, { command = ["false"] }]
"#;

fn study(directory: &Path, text: &str, words: &[&str]) -> Output {
    std::fs::write(directory.join("study.toml"), text).expect("write the study");
    run(directory, &[&["study", "study.toml"], words].concat())
}

#[test]
#[ignore = "needs loop devices"]
fn killed_study_continues_and_measures_every_cell_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("study.toml"), STUDY).expect("write the study");
    let line = "study study.toml --out run --json";
    let mut child = senesce(directory.path()).args(words(line)).stdout(Stdio::null()).spawn().expect("start");
    let events = directory.path().join("run/events.jsonl");
    let runs = || std::fs::read_to_string(&events).unwrap_or_default().matches("\"kind\":\"run\"").count();
    wait_until(|| runs() >= 3 || child.try_wait().is_ok_and(|ended| ended.is_some()));
    child.kill().expect("kill -9");
    child.wait().expect("wait");
    assert!(runs() >= 3);
    let in_memory = format!("/dev/shm/senesce-study-{}", child.id());
    wait_until(|| !Path::new(&in_memory).exists());
    assert!(!directory.path().join("run/summary.json").exists());
    succeeds(directory.path(), "report run --out partial.html");

    // The same command repeats runs that lost time to the host.
    let mut result = json_of(directory.path(), line);
    for _ in 0..9 {
        if result["runs_failed"] == 0 {
            break;
        }
        result = json_of(directory.path(), line);
    }
    // Two file systems, three states, six values each.
    assert_eq!((&result["runs_done"], &result["runs_planned"]), (&Value::from(36), &Value::from(36)));
    assert_eq!(result["runs_failed"], 0, "{result}");
    let cells = result["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 6);
    for cell in cells {
        let groups = cell["values"].as_array().expect("groups");
        assert_eq!(groups.iter().map(|one| one.as_array().unwrap().len()).sum::<usize>(), 6, "{cell}");
        assert!(cell["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{cell}");
    }
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
    let before = std::fs::read(&events).expect("events");
    assert_eq!(json_of(directory.path(), line)["runs_done"], 36);
    assert!(std::fs::read(&events).expect("events") == before, "it is done already");
    assert_eq!(study(directory.path(), &STUDY.replace("0.4", "0.5"), &["--out", "run"]).status.code(), Some(2));
}

#[test]
#[ignore = "needs loop devices"]
fn interrupted_study_reports_how_to_continue() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let endless = STUDY.replace("images = 2", "images = 500");
    assert_ne!(endless, STUDY);
    std::fs::write(directory.path().join("study.toml"), endless).expect("write the study");
    let mut command = senesce(directory.path());
    command.args(["study", "study.toml", "--out", "run", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start");
    let events = directory.path().join("run/events.jsonl");
    wait_until(|| {
        assert!(child.try_wait().expect("wait").is_none(), "it ended before it began");
        // The first event identifies the run.
        std::fs::read_to_string(&events).is_ok_and(|text| text.lines().any(|line| !line.contains("\"identity\"")))
    });
    crate::common::interrupt(&child);
    let ended = child.wait_with_output().expect("wait");
    assert_eq!(ended.status.code(), Some(130), "{}", stderr(&ended));
    assert!(stderr(&ended).contains("\nhint: continue with: "), "{}", stderr(&ended));
    let result = json(&ended);
    assert_eq!(result["interrupted"], true, "{result}");
    assert!(result["answer"].as_str().unwrap().starts_with("interrupted: "), "{result}");
}

#[test]
#[ignore = "needs loop devices"]
fn failed_cell_is_recorded_and_the_rest_continues() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = study(directory.path(), FAILING, &["--json", "--out", "run"]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    let result = json(&output);
    assert_eq!((&result["runs_done"], &result["runs_failed"]), (&Value::from(2), &Value::from(2)));
    assert_eq!(result["interrupted"], false);
    assert!(stderr(&output).lines().any(|line| line.starts_with("  2 steps: ")), "the reason: {}", stderr(&output));
    assert!(printed(directory.path(), "report run --format text").contains("Failed runs"));
}

#[test]
fn errors_are_reported_before_the_start() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let factor = "[[factor]]\nkey = \"file_sytem.mkfs\"\nvalues = [\"a\", \"b\"]\n";
    for (from, to) in [
        ("\"wang_os\"", "\"wang_so\""),
        ("of = \"aged\"", "of = \"agd\""),
        ("scale = 0.02", "scale = 20"),
        ("precondition 0.5", "precondtion 0.5"),
        ("state = \"aged\"", "state = \"aged\"\nkernel = \"9.9\""),
        ("memory = \"512M\"", "memroy = \"512M\""),
        ("memory = \"512M\"", "memory = \"128M\""),
        ("size = \"64M\"", "size = \"4M\""),
        ("repetitions = 3", "repetitions = 0"),
        ("repetitions = 3", "repetitions = 2"),
        ("[[file_system]]", &format!("{factor}[[file_system]]")),
        (STUDY, ""),
    ] {
        let output = study(directory.path(), &STUDY.replacen(from, to, 1), &["--dry-run"]);
        assert!(!output.status.success() && output.stdout.is_empty(), "{to}: {output:?}");
    }
    ends(directory.path(), "study none.toml", 2);
}

#[test]
#[cfg_attr(feature = "mpi", ignore = "needs a senesce without MPI")]
fn launcher_without_mpi_is_a_missing_requirement() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = STUDY.replacen("seconds = 0.2", "seconds = 0.2\nlauncher = \"mpirun -n 2\"", 1);
    let output = study(directory.path(), &text, &["--dry-run"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
}

const ZONED: &str = r#"
name = "zoned"
size = "512M"
file_system = [{ kind = "zoned-f2fs" }]
state = [{ kind = "fresh" }]
workload = [{ personality = "webserver", scale = 0.02 }]
"#;

/// Only the guest's control share gives a study the drives of a machine.
#[test]
fn environment_variable_does_not_turn_a_host_into_the_guest() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("study.toml"), ZONED).expect("write the study");
    let output = senesce(directory.path()).args(["study", "study.toml"]).env("SENESCE_VM", "1").output().expect("run");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(!directory.path().join("senesce-runs").exists());
}

#[test]
fn example_is_a_valid_study() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = printed(directory.path(), "study --example");
    let plan = json(&study(directory.path(), &text, &["--dry-run", "--json"]));
    assert!(plan["estimated_seconds"].as_f64().is_some_and(|seconds| (20.0..120.0).contains(&seconds)), "{plan}");
    // Neither a study nor --example.
    ends(directory.path(), "study", 2);
}

#[test]
fn dry_run_estimates_and_writes_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = study(directory.path(), STUDY, &["--dry-run", "--json"]);
    let plan = json(&output);
    assert!(plan["estimated_seconds"].as_f64().is_some_and(|seconds| seconds > 10.0), "{plan}");
    assert!(plan["bytes_to_write"].as_u64().is_some_and(|bytes| bytes > 64 << 20));
    assert!(!directory.path().join("senesce-runs").exists());
}
