//! Tests interrupted runs, and runs the test body of all drives on those of the guest: QEMU's ZNS drive and zoned null_blk. The
//! guest runs this test program, with the drive and its paths in the environment.

#[path = "../../../zoned/tests/integration/body/device.rs"]
mod body;

use crate::common::{Started, json, json_of, run, senesce, start_until, words};
use crate::kill::kill;
use senesce_zoned::hardware::Submission;
use senesce_zoned::sim::HostPath;
use std::path::Path;
use std::process::Output;

const DRIVE: &str = "SENESCE_TEST_ZONED_DEVICE";
const WAYS: &str = "SENESCE_TEST_ZONED_WAYS";

fn drive() -> String {
    std::env::var(DRIVE).expect("a zoned drive of the guest")
}

#[test]
#[ignore = "needs a zoned drive"]
fn drive_passes_all_zone_checks() {
    let path = drive();
    for word in std::env::var(WAYS).unwrap().split_whitespace() {
        match word {
            "ioctl" => body::drive(Path::new(&path), HostPath::Direct, Submission::Ioctl),
            way => body::drive(Path::new(&path), HostPath::from_name(way).unwrap(), Submission::IoUring),
        }
        println!("passed: {word} on {path}");
    }
}

fn long_run(directory: &Path, device: &str, way: &str) -> Started {
    let line = format!("zoned measure {device} --op write --bs 4k --time 2h --path {way} --out run --erase {device}");
    start_until(directory, &words(&line), "run\n")
}

fn usable(directory: &Path, device: &str, way: &str) {
    run(directory, &["report", "run"]);
    let line = format!("zoned measure {device} --op write --count 100 --path {way} --erase {device} --json");
    let result = json_of(directory, &line);
    assert_eq!(result["actors"][0]["errors"], 0, "{result}");
    assert_eq!(result["actors"][0]["commands"], 100, "{result}");
}

/// Interrupts a run: the record is partial but readable, and the drive can be used again.
fn ended_runs_are_survived(device: &str, way: &str) {
    let directory = tempfile::tempdir().unwrap();
    let killed = long_run(directory.path(), device, way);
    kill(killed.id());
    assert_eq!(killed.wait().status.code(), None);
    assert!(!directory.path().join("run/summary.json").exists(), "the record is partial");
    usable(directory.path(), device, way);

    let directory = tempfile::tempdir().unwrap();
    assert_eq!(long_run(directory.path(), device, way).interrupt().status.code(), Some(130));
    assert!(!directory.path().join("run/summary.json").exists(), "the record is partial");
    let events = std::fs::read_to_string(directory.path().join("run/events.jsonl")).unwrap();
    assert!(events.contains("\"interrupted\":true"), "{events}");
    usable(directory.path(), device, way);
}

#[test]
fn interrupted_runs_on_a_simulated_drive_are_handled() {
    ended_runs_are_survived("sim:zn540", "direct");
}

#[test]
#[ignore = "needs a zoned drive"]
fn interrupted_runs_on_a_drive_are_handled() {
    let path = drive();
    let ways = std::env::var(WAYS).unwrap();
    ended_runs_are_survived(&path, ways.split_whitespace().next().unwrap());
}

fn zones_with_data(directory: &Path, device: &str) -> Vec<serde_json::Value> {
    let listed = json(&run(directory, &["zoned", "list", device, "--json"]));
    let zones = listed["zones"].as_array().unwrap().clone();
    zones.into_iter().filter(|zone| zone["state"] != "empty").collect()
}

/// Empties the drive, starts a run in its own folder and kills it once zones hold data.
fn cut_off(device: &str, words: &[&str]) -> tempfile::TempDir {
    for _ in 0..100 {
        let directory = tempfile::tempdir().unwrap();
        run(directory.path(), &["zoned", "reset", device, "--all", "--erase", device]);
        let mut process = senesce(directory.path()).args(words).spawn().unwrap();
        while zones_with_data(directory.path(), device).is_empty() && process.try_wait().unwrap().is_none() {}
        process.kill().unwrap();
        let ended = process.wait().unwrap();
        // The run may have emptied them just before.
        if ended.code().is_none() && !zones_with_data(directory.path(), device).is_empty() {
            return directory;
        }
    }
    panic!("the run never held data when it was killed")
}

#[test]
#[ignore = "needs a zoned drive"]
fn interrupted_run_continues_only_over_its_own_zones() {
    let device = drive();
    let words = ["reproduce", "zns-intra-zone", "--scale", "smoke", "--device", &device, "--out", "run"];
    let directory = cut_off(&device, &words);
    let other = run(directory.path(), &[&words[..7], &["other"]].concat());
    assert_eq!(other.status.code(), Some(3), "another run over the same zones: {other:?}");
    let same = run(directory.path(), &words);
    assert_eq!(same.status.code(), Some(0), "{same:?}");

    let directory = cut_off(&device, &words);
    let listed = json(&run(directory.path(), &["zoned", "list", &device, "--json"]));
    let free = listed["zones"].as_array().unwrap().iter().rfind(|zone| zone["state"] == "empty").unwrap();
    std::fs::write(directory.path().join("block"), [7; 4096]).unwrap();
    let place = [format!("of={device}"), format!("seek={}", free["start"])];
    let mut stranger = std::process::Command::new("dd");
    stranger.current_dir(directory.path()).args(["if=block", "bs=4096", "oflag=direct", "conv=notrunc"]).args(place);
    assert!(stranger.status().unwrap().success());
    let same = run(directory.path(), &words);
    assert_eq!(same.status.code(), Some(3), "another program wrote one block: {same:?}");
}

fn in_guest(directory: &Path, drives: &[&str], script: &str) -> Output {
    let own = std::env::current_exe().unwrap();
    let tests = "--exact --include-ignored --nocapture --test-threads=1 zoned_drive::drive_passes_all_zone_checks \
        zoned_drive::interrupted_runs_on_a_drive_are_handled";
    // Null_blk does not keep data, so it cannot be distinguished from another's.
    let script = script.replace("CUT_OFF", "zoned_drive::interrupted_run_continues_only_over_its_own_zones");
    let script = script.replace("TESTS", &format!("{} {tests}", own.display()));
    let script = script.replace("PROGRAM", assert_cmd::cargo::cargo_bin!("senesce").to_str().unwrap());
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("senesce"));
    command.current_dir(directory).args(["vm", "run", "--time-limit", "10m"]);
    for drive in drives {
        command.args(["--drive", drive]);
    }
    command.args(["--", "sh", "-ec", &script]).output().unwrap()
}

const ZNS: &str = "zns,size=1G,zone=64M,cap=62M,open=14,active=14";

#[test]
#[ignore = "needs the guest"]
fn guest_lists_its_only_zoned_drive() {
    let directory = tempfile::tempdir().unwrap();
    let output = in_guest(directory.path(), &[ZNS], "PROGRAM zoned list auto --json");
    let value = json(&output);
    let zones = value["zones"].as_array().unwrap();
    assert_eq!(zones.len(), 16);
    assert!(zones.iter().all(|zone| zone["state"] == "empty" && zone["capacity"] == (62 << 20) / 4096), "{value}");
    assert_eq!((&value["geometry"]["max_open"], &value["geometry"]["max_active"]), (&14.into(), &14.into()));
}

fn passed(output: &Output, ways: &[&str], tests: u32) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    for way in ways {
        assert!(text.contains(&format!("passed: {way} on")), "{way}: {text}\n{errors}");
    }
    assert!(text.contains(&format!("{tests} passed")), "{text}");
}

#[test]
#[ignore = "long: boots an emulated machine for a minute; needs the guest"]
fn zns_drive_in_the_guest_passes_all_zone_checks() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!("export {DRIVE}=/dev/nvme0n1 {WAYS}='direct ioctl none mq-deadline'; TESTS CUT_OFF");
    passed(&in_guest(directory.path(), &[ZNS], &script), &["direct", "ioctl", "none", "mq-deadline"], 3);
}

#[test]
#[ignore = "long: boots an emulated machine for a minute; needs the guest"]
fn zoned_null_blk_in_the_guest_passes_all_zone_checks() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "/run/senesce-guest/modprobe null_blk; mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config; \
         cd /sys/kernel/config/nullb; mkdir zoned; cd zoned; \
         echo 1 > zoned; echo 1024 > size; echo 64 > zone_size; echo 62 > zone_capacity; echo 14 > zone_max_open; \
         echo 14 > zone_max_active; echo 4096 > blocksize; echo 1 > power; cd /; \
         export {DRIVE}=/dev/zoned {WAYS}='none mq-deadline'; TESTS"
    );
    passed(&in_guest(directory.path(), &[], &script), &["none", "mq-deadline"], 2);
}
