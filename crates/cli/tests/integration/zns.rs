//! Tests the contract of `senesce zoned measure` and `senesce zoned list`.

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;

fn senesce(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("senesce").unwrap();
    command.current_dir(directory).args(arguments);
    command
}

fn result(directory: &Path, arguments: &[&str]) -> Value {
    let output = senesce(directory, arguments).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {message}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

#[test]
fn every_actor_has_the_documented_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let with = "op=randread,bs=4k,qd=4,zones=100..200,jobs=1";
    let value = result(
        directory.path(),
        &[
            "zoned",
            "measure",
            "sim:zn540",
            "--op",
            "write",
            "--bs",
            "128k",
            "--zones",
            "2",
            "--rate",
            "100MiB/s",
            "--time",
            "500ms",
            "--with",
            with,
            "--json",
        ],
    );
    let actors = value["actors"].as_array().unwrap();
    assert_eq!(actors.len(), 2);
    for actor in actors {
        for name in ["iops", "bw_mib", "commands", "errors"] {
            assert!(actor[name].is_number(), "{name} in {actor}");
        }
        for name in ["mean", "p50", "p95", "p99", "max"] {
            assert!(actor["lat_us"][name].as_f64().unwrap() > 0.0, "{name} in {actor}");
        }
        assert_eq!(actor["errors"], 0);
    }
    assert!((actors[0]["bw_mib"].as_f64().unwrap() - 200.0).abs() < 4.0, "the rate is per worker");
    assert!(value["sim_seconds"].as_f64().unwrap() >= 0.5);
    assert!(value["commands_per_cpu_second"].as_f64().unwrap() > 0.0);
    assert_eq!(std::fs::read_dir(directory.path().join("senesce-runs")).unwrap().count(), 1, "the run left its record");
}

#[test]
fn resets_and_finishes_report_their_latency() {
    let directory = tempfile::tempdir().unwrap();
    for (op, low, high) in [("reset", 10_000.0, 13_000.0), ("finish", 440_000.0, 470_000.0)] {
        let value = result(
            directory.path(),
            &["zoned", "measure", "sim:zn540", "--op", op, "--occupancy", "0.5", "--count", "20", "--json"],
        );
        let actor = &value["actors"][0];
        assert_eq!(actor["commands"], 20);
        let mean = actor["lat_us"]["mean"].as_f64().unwrap();
        assert!((low..high).contains(&mean), "{op}: {mean} us");
        assert!(actor["lat_us"]["p99"].as_f64() <= actor["lat_us"]["max"].as_f64(), "{actor}");
    }
}

#[test]
fn job_ended_by_a_lost_zone_has_rates_for_its_duration() {
    let directory = tempfile::tempdir().unwrap();
    let job = r#"
        on-lost-zone = "stop"
        [[actor]]
        op = "randread"
        zones = "0..1"
        time = "30s"
        [[fault]]
        zone = 0
        state = "offline"
        at = "500ms"
    "#;
    std::fs::write(directory.path().join("job.toml"), job).unwrap();
    let value = result(directory.path(), &["zoned", "measure", "sim:zn540", "job.toml", "--json"]);
    let actor = &value["actors"][0];
    let (seconds, rate) = (actor["seconds"].as_f64().unwrap(), actor["iops"].as_f64().unwrap());
    assert!((0.5..0.51).contains(&seconds), "{actor}");
    assert!((13_000.0..14_500.0).contains(&rate), "{actor}");
    assert!(value.to_string().contains("a zone was lost"), "{value}");
}

#[test]
fn refused_job_exits_with_5_and_the_refusals() {
    let directory = tempfile::tempdir().unwrap();
    let job = r#"
        [[actor]]
        op = "write"
        zones = "0..1"
        count = 5
        start = "10ms"
        [[fault]]
        zone = 0
        state = "offline"
        at = "1ms"
    "#;
    std::fs::write(directory.path().join("job.toml"), job).unwrap();
    let output = senesce(directory.path(), &["zoned", "measure", "sim:zn540", "job.toml", "--json"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{error}");
    assert!(error.contains("the drive refused all its commands (1 x the zone is offline)"), "{error}");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["actors"][0]["errors_by_kind"]["offline"], 1, "{value}");
}

#[test]
fn record_can_be_reported_again() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        ["zoned", "measure", "sim:zn540", "--op", "append", "--qd", "4", "--time", "1s", "--out", "run", "--json"];
    result(directory.path(), &arguments);
    senesce(directory.path(), &["report", "run"]).assert().success();
}

#[test]
fn usage_errors_exit_with_2_before_any_command() {
    let directory = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 11] = [
        (&["zoned", "measure", "sim:zn541", "--op", "write"], "did you mean 'zn540'"),
        (&["zoned", "measure", "floppy", "--op", "write"], "is not a device"),
        (&["zoned", "measure", "sim:zn540", "--op", "wriet"], "did you mean 'write'"),
        (&["zoned", "measure", "sim:zn540", "--op", "write", "--bs", "5000"], "not a multiple"),
        (&["zoned", "measure", "sim:zn540", "--op", "write", "--zones", "20"], "14 open zones"),
        (&["zoned", "measure", "sim:zn540", "--op", "append", "--path", "none"], "does not support append"),
        (&["zoned", "measure", "sim:zn540", "--op", "write", "--lbaf", "1024"], "no LBA format"),
        (&["zoned", "reset", "sim:zn540"], "--all"),
        (&["zoned", "measure", "sim:zn540", "--op", "write", "--count", "0"], "--count"),
        (
            &["zoned", "measure", "sim:zn540", "--op", "write", "--occupancy", "0.5"],
            "occupancy belongs to reset and finish",
        ),
        (&["zoned", "measure", "sim:zn540", "--time", "5s"], "--op"),
    ];
    for (arguments, message) in cases {
        let output = senesce(directory.path(), arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    assert!(!directory.path().join("senesce-runs").exists(), "nothing ran");
}

#[test]
fn zones_are_listed_with_a_map() {
    let directory = tempfile::tempdir().unwrap();
    let value = result(directory.path(), &["zoned", "list", "null", "--json", "--svg", "map.svg"]);
    assert_eq!(value["zones"].as_array().unwrap().len(), 904);
    assert!(std::fs::read_to_string(directory.path().join("map.svg")).unwrap().contains("<svg"));
    senesce(directory.path(), &["zoned", "open", "null", "--zone", "0..14"]).assert().success();
    senesce(directory.path(), &["zoned", "open", "null", "--zone", "0..15"]).assert().code(5);
}
