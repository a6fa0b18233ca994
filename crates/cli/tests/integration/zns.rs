//! Tests the contract of `senesce zoned measure` and `senesce zoned list`.

use crate::common::{assert_keys, ends, json, succeeds};
use serde_json::Value;
use std::path::Path;

fn result(directory: &Path, words: &str) -> Value {
    json(&succeeds(directory, &format!("zoned {words} --json")))
}

#[test]
fn every_actor_has_the_documented_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let line = "measure sim:zn540 --op write --bs 128k --zones 2 --rate 100MiB/s --time 500ms \
                --with op=randread,bs=4k,qd=4,zones=100..200,jobs=1";
    let value = result(directory.path(), line);
    let actors = value["actors"].as_array().unwrap();
    assert_eq!(actors.len(), 2);
    for actor in actors {
        assert_keys(actor, "iops bw_mib commands errors");
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
        let value = result(directory.path(), &format!("measure sim:zn540 --op {op} --occupancy 0.5 --count 20"));
        let actor = &value["actors"][0];
        assert_eq!(actor["commands"], 20);
        let mean = actor["lat_us"]["mean"].as_f64().unwrap();
        assert!((low..high).contains(&mean), "{op}: {mean} us");
        assert!(actor["lat_us"]["p99"].as_f64() <= actor["lat_us"]["max"].as_f64(), "{actor}");
    }
}

/// A zone that goes offline, at a time.
fn with_fault(actor: &str, at: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let fault = format!("fault = [{{ zone = 0, state = \"offline\", at = \"{at}\" }}]");
    std::fs::write(directory.path().join("job.toml"), format!("{actor}\n{fault}\n")).unwrap();
    directory
}

#[test]
fn job_ended_by_a_lost_zone_has_rates_for_its_duration() {
    let actor = r#"actor = [{ op = "randread", zones = "0..1", time = "30s" }]"#;
    let directory = with_fault(&format!("on-lost-zone = \"stop\"\n{actor}"), "500ms");
    let value = result(directory.path(), "measure sim:zn540 job.toml");
    let actor = &value["actors"][0];
    let (seconds, rate) = (actor["seconds"].as_f64().unwrap(), actor["iops"].as_f64().unwrap());
    assert!((0.5..0.51).contains(&seconds), "{actor}");
    assert!((13_000.0..14_500.0).contains(&rate), "{actor}");
    assert!(value.to_string().contains("a zone was lost"), "{value}");
}

#[test]
fn refused_job_exits_with_5_and_the_refusals() {
    let directory = with_fault(r#"actor = [{ op = "write", zones = "0..1", count = 5, start = "10ms" }]"#, "1ms");
    let value = json(&ends(directory.path(), "zoned measure sim:zn540 job.toml --json", 5));
    assert_eq!(value["actors"][0]["errors_by_kind"]["offline"], 1, "{value}");
}

#[test]
fn record_can_be_reported_again() {
    let directory = tempfile::tempdir().unwrap();
    result(directory.path(), "measure sim:zn540 --op append --qd 4 --time 1s --out run");
    succeeds(directory.path(), "report run");
}

#[test]
fn usage_errors_exit_with_2_before_any_command() {
    let directory = tempfile::tempdir().unwrap();
    for words in [
        "measure sim:zn541 --op write",
        "measure floppy --op write",
        "measure sim:zn540 --op wriet",
        "measure sim:zn540 --op write --bs 5000",
        "measure sim:zn540 --op write --zones 20",
        "measure sim:zn540 --op append --path none",
        "measure sim:zn540 --op write --lbaf 1024",
        "reset sim:zn540",
        "measure sim:zn540 --op write --count 0",
        "measure sim:zn540 --op write --occupancy 0.5",
        "measure sim:zn540 --time 5s",
    ] {
        ends(directory.path(), &format!("zoned {words}"), 2);
    }
    assert!(!directory.path().join("senesce-runs").exists(), "nothing ran");
}

#[test]
fn zones_are_listed_with_a_map() {
    let directory = tempfile::tempdir().unwrap();
    let value = result(directory.path(), "list null --svg map.svg");
    assert_eq!(value["zones"].as_array().unwrap().len(), 904);
    assert!(std::fs::read_to_string(directory.path().join("map.svg")).unwrap().contains("<svg"));
    succeeds(directory.path(), "zoned open null --zone 0..14");
    ends(directory.path(), "zoned open null --zone 0..15", 5);
}
