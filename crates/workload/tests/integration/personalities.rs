//! Runs every built-in personality on the system and on the null back end.

use crate::common::{TemporaryTarget, operations, time, try_run, valid};
use senesce_workload::{Execution, Options, PERSONALITIES, builtin};
use std::collections::BTreeMap;

fn small(name: &str) -> senesce_workload::Workload {
    let mut set = BTreeMap::new();
    match name {
        "webproxy" => set.insert("iosize".to_string(), "128k".to_string()),
        "videoserver" => set.insert("filesize".to_string(), "1m".to_string()),
        "oltp" => set.insert("nshadows".to_string(), "20".to_string()),
        _ => set.insert("filesize".to_string(), "20k".to_string()),
    };
    builtin(name, 0.02, &set).unwrap()
}

#[test]
fn every_personality_runs() {
    for personality in PERSONALITIES {
        let temporary = TemporaryTarget::new();
        let finished = try_run(&temporary, &small(personality.name), time(300)).unwrap();
        let result = valid(finished.repetition);
        assert!(result.ops > 100, "{}: {} operations", personality.name, result.ops);
        let counted: u64 = result.flowops.iter().filter(|(_, f)| f.kind.entry().counted).map(|(_, f)| f.count).sum();
        assert_eq!(counted, result.ops, "{}", personality.name);
        assert!((result.seconds - 0.3).abs() < 1e-3, "{}", result.seconds);
        let histogram: u64 = finished.histograms.iter().map(|(_, histogram)| histogram.len()).sum();
        assert_eq!(histogram, result.flowops.iter().map(|(_, f)| f.count).sum::<u64>());
        let over_time: u64 = result.over_time.iter().map(|interval| interval.ops).sum();
        assert_eq!(over_time, result.ops, "{}: the intervals add up", personality.name);
    }
}

#[test]
fn every_personality_runs_without_a_file_system() {
    for personality in PERSONALITIES {
        let temporary = TemporaryTarget::new();
        // The readers of videoserver are rate-limited.
        let least = if personality.name == "videoserver" { 40 } else { 1000 };
        let options = Options { execution: Execution::Null, ..operations(least) };
        let result = valid(try_run(&temporary, &small(personality.name), options).unwrap().repetition);
        assert!(result.ops >= least, "{}: {} operations", personality.name, result.ops);
        let left: Vec<_> =
            std::fs::read_dir(temporary.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, [".senesce"], "nothing is written");
    }
}

#[test]
fn reads_and_writes_of_fileserver_are_one_to_two() {
    let temporary = TemporaryTarget::new();
    let result = valid(try_run(&temporary, &small("fileserver"), time(500)).unwrap().repetition);
    let ratio = result.writes as f64 / result.reads as f64;
    assert!((1.8..2.2).contains(&ratio), "{ratio}");
    assert!((result.ops as f64 / (11.0 * result.reads as f64) - 1.0).abs() < 0.2);
}
