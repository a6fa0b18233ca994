//! Real results of fio, and the same with a changed number.

use super::*;

fn altered(text: &str, path: &str, value: serde_json::Value) -> String {
    let mut document: serde_json::Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let field = document.pointer_mut(path).unwrap_or_else(|| panic!("{path}"));
    *field = match value.as_f64().filter(|_| field.is_number()) {
        Some(factor) => serde_json::json!((field.as_f64().unwrap() * factor).round()),
        None => value,
    };
    document.to_string()
}

const FDATASYNC: &str = include_str!("../../../../tests/imports/fio-fdatasync.json");
const CLIENTS: &str = include_str!("../../../../tests/imports/fio-clients.json");
const PLAIN: &str = include_str!("../../../../../../fuzz/corpus/fio_json/plain.json");

#[test]
fn contradicted_number_is_refused() {
    for (text, path, factor) in [
        (FDATASYNC, "/jobs/0/write/total_ios", 2.0),
        (FDATASYNC, "/jobs/0/write/io_bytes", 1.5),
        (FDATASYNC, "/jobs/0/write/bw_bytes", 1.1),
        (FDATASYNC, "/jobs/0/write/iops", 10.0),
        (FDATASYNC, "/jobs/0/write/runtime", 0.5),
        (FDATASYNC, "/jobs/0/write/clat_ns/mean", 0.9),
        (FDATASYNC, "/jobs/0/write/clat_ns/max", 0.5),
        (FDATASYNC, "/jobs/0/write/clat_ns/min", 3.0),
        (FDATASYNC, "/jobs/0/write/clat_ns/N", 0.5),
        (FDATASYNC, "/jobs/0/write/clat_ns/stddev", 9.0),
        (FDATASYNC, "/jobs/0/write/clat_ns/percentile/50.000000", 1.2),
        (FDATASYNC, "/jobs/0/write/clat_ns/percentile/99.000000", 0.5),
        (FDATASYNC, "/jobs/0/write/lat_ns/mean", 0.1),
        (FDATASYNC, "/jobs/0/sync/lat_ns/mean", 0.5),
        (FDATASYNC, "/jobs/0/sync/lat_ns/percentile/50.000000", 0.5),
        (PLAIN, "/jobs/0/read/clat_ns/percentile/50.000000", 0.2),
        (PLAIN, "/jobs/0/read/clat_ns/mean", 0.2),
        (CLIENTS, "/client_stats/2/read/total_ios", 2.0),
        (CLIENTS, "/client_stats/0/read/clat_ns/mean", 0.2),
    ] {
        assert!(format::parse(text).is_ok());
        let refused = format::parse(&altered(text, path, serde_json::json!(factor)));
        assert!(refused.is_err(), "{path} x {factor}");
    }
}

#[test]
fn bytes_of_operations_follow_from_the_block_size() {
    // Rates fit the bytes, and only the options contradict them.
    let refused = format::parse(&altered(FDATASYNC, "/jobs/0/job options/bs", "4k".into())).unwrap_err();
    assert!(refused.contains("rule 'bytes of operations'"), "{refused}");
}

#[test]
fn latencies_of_syncs_are_measured() {
    let (values, _) = import(FDATASYNC).unwrap();
    let sync: Vec<_> = values.iter().filter(|one| one.condition["direction"] == "sync").collect();
    assert_eq!(sync[0].metric, "sync latency, mean");
    assert!((sync[0].value.get() - 1_990_331.687).abs() < 1.0, "{sync:?}");
    assert!(sync.iter().any(|one| one.metric == "sync latency, percentile 99"), "{sync:?}");
}

#[test]
fn unsteady_job_or_failed_operations_do_not_count() {
    let unsteady = include_str!("../../../../tests/imports/fio-unsteady.json");
    let (values, caveats) = import(unsteady).unwrap();
    assert!(values.is_empty() && caveats.iter().any(|one| one.contains("not steady")), "{caveats:?}");
    let (values, _) = import(&altered(unsteady, "/jobs/0/steadystate/attained", serde_json::json!(null))).unwrap();
    assert!(!values.is_empty());
    let failed = document(&[job(0, "read", &part(100, CLAT)).replace(r#""error":0"#, r#""error":0,"total_err":3"#)]);
    let (values, caveats) = import(&failed).unwrap();
    assert!(values.is_empty() && caveats.iter().any(|one| one.contains("3 operations failed")), "{caveats:?}");
}

#[test]
fn results_of_clients_and_of_the_first_versions_are_read() {
    let (values, _) = import(CLIENTS).unwrap();
    let jobs: Vec<_> =
        values.iter().filter(|one| one.metric == "operations").map(|one| &one.condition["job"]).collect();
    assert_eq!(jobs, ["j", "All clients"]);
    // fio adds the kibibytes of two clients, each rounded down.
    for (missing, is_read) in [(2.0, true), (3.0, false)] {
        let factor = 1.0 - missing / 4_096.0;
        let rounded = altered(CLIENTS, "/client_stats/2/read/io_kbytes", serde_json::json!(factor));
        let read = import(&rounded);
        assert_eq!(read.is_ok(), is_read, "{missing}: {read:?}");
    }
    let hosts = CLIENTS.replacen("\"hostname\" : \"127.0.0.1\"", "\"hostname\" : \"other\"", 1);
    let (values, _) = import(&hosts).unwrap();
    let found = values.iter().filter(|one| one.metric == "operations").filter_map(|one| one.condition.get("host"));
    assert_eq!(found.collect::<Vec<_>>(), ["other", "127.0.0.1"]);
    let old = include_str!("../../../../tests/imports/fio-3.1.json");
    let (values, _) = import(old).unwrap();
    let bandwidth = values.iter().find(|one| one.metric == "bandwidth").unwrap().value.get();
    assert!((bandwidth - 104_857_600.0 / 9.179).abs() < 1.0, "{bandwidth}");
    let wrong = import(&altered(old, "/jobs/0/read/bw", serde_json::json!(2.0))).unwrap_err().to_string();
    assert!(wrong.contains("rule 'byte rate'"), "{wrong}");
}

#[test]
fn jobs_without_statistics_give_a_caveat() {
    let silent = r#"{"groupid":4294967295,"error":0,"read":{"total_ios":0}}"#.to_string();
    let (values, caveats) = import(&document(&[silent.clone(), job(0, "read", &part(100, CLAT))])).unwrap();
    assert!(!values.is_empty() && caveats.iter().any(|one| one.contains("stats=0")), "{caveats:?}");
    assert!(import(&document(&[silent])).unwrap_err().to_string().contains("stats=0"));
}

#[test]
fn results_of_two_runs_in_one_file_are_refused() {
    let both = format!("{FDATASYNC}\n{PLAIN}");
    assert!(import(&both).unwrap_err().to_string().contains("several runs"));
    let falling =
        format!("{}{}", document(&[job(0, "read", &part(20, CLAT))]), document(&[job(0, "read", &part(10, CLAT))]));
    assert!(import(&falling).unwrap_err().to_string().contains("several runs"));
}

#[test]
fn warnings_of_fio_are_caveats_on_one_line() {
    let text = format!("fio: file hash error \u{1b}[2J\n{}", document(&[job(0, "read", &part(100, CLAT))]));
    let (_, caveats) = import(&text).unwrap();
    assert!(caveats.iter().any(|one| one.contains("fio printed") && one.contains("\\u001b[2J")), "{caveats:?}");
}
