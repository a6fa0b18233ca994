//! The experiments on the tier file system at smoke scale, on real mounts.

use senesce_core::interrupt::Interrupt;
use senesce_core::{Analysis, Experiment, Level, Settings, Silent};
use senesce_experiments::conduct::{Conduct, conduct};
use std::collections::BTreeMap;
use std::path::Path;

/// Runs an experiment as `senesce reproduce` does; `None` where the machine cannot.
fn smoke(experiment: &dyn Experiment, overrides: &[(&str, &str)]) -> Option<Analysis> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: needs root and /dev/fuse");
        return None;
    }
    let overrides: BTreeMap<_, _> = overrides.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    let settings = Settings::resolve(experiment.parameters(), Level::Smoke, &overrides).unwrap();
    let plan = experiment.plan(&settings).unwrap();
    let room = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new();
    let request = Conduct {
        out: Some(room.path().join("run")),
        runs: room.path().into(),
        again: false,
        progress: &Silent,
        interrupt: &interrupt,
    };
    Some(conduct(experiment, &settings, plan, &request).unwrap().analysis)
}

#[test]
fn coldness_fetches_what_it_asks_for() {
    let Some(analysis) = smoke(&senesce_experiments::coldness::Coldness, &[]) else { return };
    let points = analysis.result["points"].as_array().unwrap();
    assert_eq!(points.len(), 6);
    for point in points.iter().filter(|point| point["subject"] == "anticache") {
        let (asked, fetched) = (point["cold_percent"].as_f64().unwrap(), point["fetched_percent"].as_f64().unwrap());
        assert!((fetched - asked).abs() < 20.0, "{point}");
        assert!(asked == 0.0 || point["evicted"].as_u64().unwrap() > 0, "{point}");
    }
}

#[test]
#[ignore = "mounts several file systems, seconds each: `make test-long` runs it"]
fn the_sweep_measures_every_cell() {
    let Some(analysis) = smoke(&senesce_experiments::tier_sweep::TierSweep, &[]) else { return };
    let cells = analysis.result["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    let fetched = |threshold: u64| -> u64 {
        let of = cells.iter().filter(|cell| cell["threshold_bytes"] == threshold << 20);
        of.map(|cell| cell["fetched"].as_u64().unwrap()).sum()
    };
    assert!(fetched(4) > fetched(12), "less memory, more fetches");
}

#[test]
#[ignore = "mounts several file systems, seconds each: `make test-long` runs it"]
fn the_file_server_evicts_below_its_size() {
    let Some(analysis) = smoke(&senesce_experiments::tier_fileserver::TierFileserver, &[]) else { return };
    let runs = analysis.result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    let evicted = |name: &str| {
        runs.iter().find(|run| run["condition"] == name).map(|run| run["evicted"].as_u64().unwrap()).unwrap()
    };
    assert!(evicted("anticache 20 %") > evicted("anticache 100 %"));
    assert_eq!(evicted("bpfs"), 0);
}

#[test]
#[ignore = "mounts several file systems, seconds each: `make test-long` runs it"]
fn file_operations_are_compared_in_both_modes() {
    let Some(analysis) = smoke(&senesce_experiments::file_ops::FileOps, &[]) else { return };
    assert_eq!(analysis.tables[0].rows.len(), 6);
    for times in analysis.result["median_us"].as_object().unwrap().values() {
        assert!(["anticache", "bpfs", "ext4"].iter().all(|name| times[name].as_f64().unwrap() > 0.0), "{times}");
    }
}

#[test]
#[ignore = "mounts several file systems, seconds each: `make test-long` runs it"]
fn writes_are_measured_by_size_with_data_in_both_tiers() {
    let Some(analysis) = smoke(&senesce_experiments::random_write::RandomWrite, &[]) else { return };
    assert!(analysis.result["evicted"].as_u64().unwrap() > 0);
    let times = &analysis.result["p50_us"]["4 KiB"];
    assert!(times["ext4-disk"].as_f64().unwrap() > times["ext4"].as_f64().unwrap(), "{times}");
}

#[test]
#[ignore = "mounts several file systems, seconds each: `make test-long` runs it"]
fn appends_are_measured_by_size() {
    let Some(analysis) = smoke(&senesce_experiments::append::Append, &[("sizes", "8,4K")]) else { return };
    assert_eq!(analysis.tables[0].rows.len(), 2);
}
