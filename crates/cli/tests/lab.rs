//! The lab, tried as a user would; skipped where QEMU or its kernel is missing.

use assert_cmd::Command;
use std::path::Path;

fn senesce() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("senesce"))
}

fn ready() -> bool {
    let status = senesce().args(["lab", "status", "--json"]).output().expect("run senesce");
    let value: serde_json::Value = serde_json::from_slice(&status.stdout).expect("status is JSON");
    let works = value["qemu"].is_string() && value["kernels"].as_array().is_some_and(|list| !list.is_empty());
    if !works {
        eprintln!("skipped: needs QEMU and a kernel (senesce lab setup)");
    }
    works
}

fn qemu_processes(scratch: &Path) -> usize {
    let wanted = scratch.to_string_lossy().into_owned();
    std::fs::read_dir("/proc")
        .expect("list /proc")
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| {
            let text = String::from_utf8_lossy(line);
            text.starts_with("qemu-system") && text.contains(&wanted)
        })
        .count()
}

#[test]
fn exit_status_output_and_record_come_back() {
    if !ready() {
        return;
    }
    let room = tempfile::tempdir().expect("temporary folder");
    let record = room.path().join("lab.json");
    let output = senesce()
        .current_dir(room.path())
        .args(["lab", "run", "--drive", "zns,size=1G,zone=64M,cap=62M,open=14,active=14"])
        .arg(format!("--json={}", record.display()))
        .args(["--", "sh", "-c", "cat /sys/block/nvme0n1/queue/zoned; echo to-stderr >&2; touch /etc/changed; exit 7"])
        .output()
        .expect("run senesce");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "host-managed\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("to-stderr"));
    assert!(!Path::new("/etc/changed").exists(), "the host's files are not changed");
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(record).expect("record")).expect("JSON");
    assert_eq!(value["exit_status"], 7);
    assert_eq!(value["drives"][0]["lba"], 4096);
    assert!(value["boot_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn a_share_carries_results_to_the_host() {
    if !ready() {
        return;
    }
    let room = tempfile::tempdir().expect("temporary folder");
    let share = room.path().join("results");
    senesce()
        .current_dir(room.path())
        .args(["lab", "run", "--share", "results", "--", "sh", "-c", "echo measured > results/value"])
        .assert()
        .success();
    assert_eq!(std::fs::read_to_string(share.join("value")).expect("result"), "measured\n");
}

#[test]
fn a_missing_command_and_a_hang_end_clearly() {
    if !ready() {
        return;
    }
    let room = tempfile::tempdir().expect("temporary folder");
    let run = |words: &[&str]| senesce().current_dir(room.path()).args(words).output().expect("run senesce");
    let missing = run(&["lab", "run", "--", "no-such-command"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot run no-such-command in the guest"));
    let hang = run(&["lab", "run", "--time-limit", "6s", "--", "sleep", "1000"]);
    assert_eq!(hang.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&hang.stderr).contains("--time-limit"));
}

#[test]
fn a_killed_senesce_leaves_no_guest() {
    if !ready() {
        return;
    }
    let room = tempfile::tempdir().expect("temporary folder");
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("senesce"))
        .current_dir(room.path())
        .env("TMPDIR", room.path())
        .args(["lab", "run", "--accelerator", "tcg", "--", "sleep", "1000"])
        .spawn()
        .expect("start senesce");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while qemu_processes(room.path()) == 0 && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(qemu_processes(room.path()), 1, "the guest runs");
    child.kill().expect("kill -9");
    child.wait().expect("reap");
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(qemu_processes(room.path()), 0, "the guest is gone");
}

#[test]
fn wrong_words_are_usage_errors_before_anything_starts() {
    for (words, said) in [
        (vec!["lab", "run", "--drive", "zns,zone=64M,cap=65M", "--", "true"], "at most the zone size"),
        (vec!["lab", "run", "--memory", "1g5", "--", "true"], "is not a size"),
        (vec!["lab", "run"], "COMMAND"),
    ] {
        let output = senesce().args(&words).output().expect("run senesce");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{words:?}");
    }
}
