//! Histories over whole run directories.

use senesce_core::{Progress, Record};
use senesce_runs::history::{Values, entries, heads, read_events};
use senesce_runs::import::results::HYPERFINE;
use senesce_runs::import::{Importer, fio::Fio};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

const DAY: u64 = 86_400;

fn written(path: &Path, text: &str, day: u64) {
    fs::write(path, text).unwrap();
    File::options().append(true).open(path).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(day * DAY)).unwrap();
}

#[test]
fn imports_are_ordered_by_date_of_measurement() {
    let directory = tempfile::tempdir().unwrap();
    let hyperfine = r#"{"results": [{"command": "make", "mean": 1.0, "min": 1.0, "max": 1.0, "times": [1.0]}]}"#;
    // By path the second would come first.
    for (name, day) in [("b", 1), ("a", 2)] {
        let source = directory.path().join("night.json");
        written(&source, hyperfine, day);
        HYPERFINE.import(&source, &directory.path().join("runs").join(name)).unwrap();
    }
    let found = entries(&crate::compare::REGISTRY, &[directory.path().join("runs")]).unwrap();
    let order: Vec<_> = found.iter().map(|entry| (entry.name(), entry.date.clone().unwrap())).collect();
    let wanted = [("b", "1970-01-02T00:00:00Z"), ("a", "1970-01-03T00:00:00Z")];
    assert_eq!(order, wanted.map(|(name, date)| (name.to_string(), date.to_string())));
}

#[test]
fn date_in_a_file_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let job = r#"{"jobname": "a", "error": 0, "read": {"total_ios": 10, "io_bytes": 40960, "bw_bytes": 40960, "iops": 10.0,
        "runtime": 1000, "clat_ns": {"mean": 2000.0}}}"#;
    let text = format!(r#"{{"fio version": "fio-3.33", "timestamp": {}, "jobs": [{job}]}}"#, 5 * DAY);
    let source = directory.path().join("fio.json");
    written(&source, &text, 9);
    Fio.import(&source, &directory.path().join("run")).unwrap();
    let facts = Record::open(&directory.path().join("run")).unwrap().environment.0;
    assert_eq!((&facts["run.date"], &facts["run.date_from"]), (&"1970-01-06T00:00:00Z".into(), &"the results".into()));
}

/// The last phase and its number of units.
#[derive(Default)]
struct LastPhase(Mutex<(String, u64)>);

impl Progress for LastPhase {
    fn phase(&self, name: &str, total: u64, _unit: &str) {
        *self.0.lock().unwrap() = (name.into(), total);
    }
}

#[test]
fn values_of_each_run_are_passed_on_once_in_the_order_of_dates() {
    let directory = tempfile::tempdir().unwrap();
    for (name, day) in [("b", 1), ("a", 3), ("c", 2)] {
        let times: Vec<f64> = (1..=day).map(|time| time as f64).collect();
        let hyperfine = serde_json::json!({"results": [{"command": "make", "mean": 1.0 + (day - 1) as f64 / 2.0,
            "min": 1.0, "max": day as f64, "times": times}]});
        let source = directory.path().join("night.json");
        written(&source, &hyperfine.to_string(), day);
        HYPERFINE.import(&source, &directory.path().join("runs").join(name)).unwrap();
    }
    let (progress, mut passed) = (LastPhase::default(), Vec::new());
    let found = heads(&[directory.path().join("runs")], |run| !run.run.ends_with("c")).unwrap();
    let entries = read_events(&crate::compare::REGISTRY, found, Values::Used, &progress, &mut |run, values| {
        assert_eq!(*progress.0.lock().unwrap(), ("read runs".to_string(), 2), "known before the first run");
        passed.push((run.name(), values.unwrap().len()));
    });
    assert_eq!(passed, [("b".to_string(), 1), ("a".to_string(), 3)]);
    assert_eq!(entries.len(), 2);
}
