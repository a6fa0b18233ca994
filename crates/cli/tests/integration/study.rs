//! Tests `senesce study` from the command line.

use crate::common::{json, leftovers, run, senesce, wait_until};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

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
[[file_system]]
kind = "ext4"
[[state]]
kind = "fresh"
[[workload]]
command = ["true"]
[[workload]]
command = ["false"]
"#;

fn study(directory: &Path, text: &str, words: &[&str]) -> Output {
    std::fs::write(directory.join("study.toml"), text).expect("write the study");
    run(directory, &[&["study", "study.toml"], words].concat())
}

fn refused(directory: &Path, text: &str) -> String {
    let output = study(directory, text, &["--dry-run"]);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.stdout.is_empty());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "needs loop devices"]
fn killed_study_continues_and_measures_every_cell_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("study.toml"), STUDY).expect("write the study");
    let words = ["study", "study.toml", "--out", "run", "--json"];
    let mut child = senesce(directory.path()).args(words).stdout(std::process::Stdio::null()).spawn().expect("start");
    let events = directory.path().join("run/events.jsonl");
    let runs = || std::fs::read_to_string(&events).unwrap_or_default().matches("\"kind\":\"run\"").count();
    wait_until(|| runs() >= 3 || child.try_wait().is_ok_and(|ended| ended.is_some()));
    child.kill().expect("kill -9");
    child.wait().expect("wait");
    let before = runs();
    assert!(before >= 3);
    let in_memory = format!("/dev/shm/senesce-study-{}", child.id());
    wait_until(|| !Path::new(&in_memory).exists());
    assert!(!directory.path().join("run/summary.json").exists());
    let partial = run(directory.path(), &["report", "run", "--out", "partial.html"]);
    assert!(partial.status.success(), "{}", String::from_utf8_lossy(&partial.stderr));

    // The same command repeats runs that lost time to the host.
    let mut result = json(&run(directory.path(), &words));
    for _ in 0..9 {
        if result["runs_failed"] == 0 {
            break;
        }
        result = json(&run(directory.path(), &words));
    }
    // Two file systems, three states, six values each.
    assert_eq!((&result["runs_done"], &result["runs_planned"]), (&Value::from(36), &Value::from(36)));
    assert_eq!(result["runs_failed"], 0, "{result}");
    let cells = result["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 6);
    for cell in cells {
        let values: usize =
            cell["values"].as_array().expect("groups").iter().map(|one| one.as_array().unwrap().len()).sum();
        assert_eq!(values, 6, "{cell}");
        assert!(cell["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{cell}");
    }
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
    let again = run(directory.path(), &words);
    assert!(String::from_utf8_lossy(&again.stderr).contains("already done"));

    let other = study(directory.path(), &STUDY.replace("0.4", "0.5"), &["--out", "run"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("holds another run"));
}

#[test]
#[ignore = "needs loop devices"]
fn interrupted_study_reports_how_to_continue() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let endless = STUDY.replace("images = 2", "images = 500");
    assert_ne!(endless, STUDY);
    std::fs::write(directory.path().join("study.toml"), endless).expect("write the study");
    let mut child = senesce(directory.path())
        .args(["study", "study.toml"])
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(directory.path().join("messages")).expect("a file"))
        .spawn()
        .expect("start");
    let runs = || std::fs::read_dir(directory.path().join("senesce-runs")).into_iter().flatten().flatten();
    let has_begun =
        |run: std::fs::DirEntry| run.path().join("events.jsonl").metadata().is_ok_and(|found| found.len() > 0);
    wait_until(|| {
        assert!(child.try_wait().expect("wait").is_none(), "it ended before it began");
        runs().any(has_begun)
    });
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    let status = child.wait().expect("wait");
    let message = std::fs::read_to_string(directory.path().join("messages")).expect("messages");
    assert_eq!(status.code(), Some(130), "{message}");
    assert!(message.contains("continues it"), "{message}");
}

#[test]
#[ignore = "needs loop devices"]
fn failed_cell_is_recorded_and_the_rest_continues() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = study(directory.path(), FAILING, &["--json"]);
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&result["runs_done"], &result["runs_failed"]), (&Value::from(2), &Value::from(2)));
    let events =
        std::fs::read_dir(directory.path().join("senesce-runs")).expect("runs").next().expect("a run").expect("a run");
    let report = run(directory.path(), &["report", &events.path().to_string_lossy(), "--format", "text"]);
    assert!(
        String::from_utf8_lossy(&report.stdout).contains("Failed runs"),
        "{}",
        String::from_utf8_lossy(&report.stderr)
    );
}

#[test]
fn errors_are_reported_before_the_start() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let wrong = |from: &str, to: &str| refused(directory.path(), &STUDY.replacen(from, to, 1));
    assert!(wrong("\"wang_os\"", "\"wang_so\"").contains("did you mean 'wang_os'"));
    assert!(wrong("of = \"aged\"", "of = \"agd\"").contains("did you mean 'aged'"));
    assert!(wrong("scale = 0.02", "scale = 20").contains("needs"));
    assert!(wrong("precondition 0.5", "precondtion 0.5").contains("full-rewrite"));
    assert!(wrong("state = \"aged\"", "state = \"aged\"\nkernel = \"9.9\"").contains("kernel"));
    assert!(wrong("memory = \"512M\"", "memroy = \"512M\"").contains("did you mean `memory`"));
    assert!(wrong("memory = \"512M\"", "memory = \"128M\"").contains("164 MiB"));
    assert!(wrong("size = \"64M\"", "size = \"4M\"").contains("at least 8 MiB"));
    assert!(wrong("repetitions = 3", "repetitions = 0").contains("at least 1"));
    assert!(wrong("repetitions = 3", "repetitions = 2").contains("set at least 3"));
    let factor = format!("{STUDY}\n[[factor]]\nkey = \"file_sytem.mkfs\"\nvalues = [\"a\", \"b\"]\n");
    assert!(refused(directory.path(), &factor).contains("did you mean 'file_system'"));
    assert!(refused(directory.path(), "").contains("name"));
    let missing = run(directory.path(), &["study", "none.toml"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
#[cfg_attr(feature = "mpi", ignore = "needs a senesce without MPI")]
fn launcher_without_mpi_is_a_missing_requirement() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = STUDY.replacen("seconds = 0.2", "seconds = 0.2\nlauncher = \"mpirun -n 2\"", 1);
    let output = study(directory.path(), &text, &["--dry-run"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("make mpi"), "{said}");
}

const ZONED: &str = r#"
name = "zoned"
size = "512M"
[[file_system]]
kind = "zoned-f2fs"
[[state]]
kind = "fresh"
[[workload]]
personality = "webserver"
scale = 0.02
"#;

/// Only the guest's control share gives a study the drives of a machine.
#[test]
fn environment_variable_does_not_turn_a_host_into_the_guest() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("study.toml"), ZONED).expect("write the study");
    let output = senesce(directory.path()).args(["study", "study.toml"]).env("SENESCE_VM", "1").output().expect("run");
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("vm = true"), "{said}");
    assert!(!directory.path().join("senesce-runs").exists());
}

#[test]
fn example_is_a_valid_study() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let example = run(directory.path(), &["study", "--example"]);
    assert!(example.status.success());
    let text = String::from_utf8(example.stdout).expect("text");
    let plan = json(&study(directory.path(), &text, &["--dry-run", "--json"]));
    assert!(plan["estimated_seconds"].as_f64().is_some_and(|seconds| (20.0..120.0).contains(&seconds)), "{plan}");
    assert_eq!(run(directory.path(), &["study"]).status.code(), Some(2), "neither a study nor --example");
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
