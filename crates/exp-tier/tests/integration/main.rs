use senesce_core::interrupt::Interrupt;
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Analysis, Level, Progress};
use senesce_exp_tier::append::Append;
use senesce_exp_tier::coldness::Coldness;
use senesce_exp_tier::file_ops::FileOps;
use senesce_exp_tier::random_write::RandomWrite;
use senesce_exp_tier::tier_fileserver::TierFileserver;
use senesce_exp_tier::tier_sweep::TierSweep;
use senesce_runner::{Conduct, Experiment, State, conduct};

fn smoke<E: Experiment>(change: impl Fn(&mut E::Spec)) -> Analysis {
    let mut spec = E::defaults(Level::Smoke);
    change(&mut spec);
    let directory = tempfile::tempdir().unwrap();
    let how = Conduct::quietly(&directory.path().join("run"));
    conduct::<E>(&spec, DEFAULT_SEED, &how).unwrap().analysis
}

struct StopAtSecond<'a>(&'a Interrupt);

impl Progress for StopAtSecond<'_> {
    fn step(&self, number: usize, _count: usize, _words: &str, _seconds_left: f64) {
        if number == 2 {
            self.0.request();
        }
    }
}

#[test]
#[ignore = "needs FUSE"]
fn interrupted_run_keeps_completed_steps_and_has_the_result_of_an_uninterrupted_one() {
    let (directory, interrupt) = (tempfile::tempdir().unwrap(), Interrupt::new());
    let spec = Coldness::defaults(Level::Smoke);
    let how = Conduct::quietly(&directory.path().join("run"));
    let stopped = Conduct {
        progress: &StopAtSecond(&interrupt),
        interrupt: &interrupt,
        ..Conduct::quietly(&directory.path().join("run"))
    };
    let points = |analysis: &Analysis| analysis.result["points"].as_array().unwrap().clone();
    let first = conduct::<Coldness>(&spec, DEFAULT_SEED, &stopped).unwrap();
    assert_eq!(first.state, State::Interrupted);
    let part = points(&first.analysis);
    assert_eq!(part.len(), 3);
    let whole = conduct::<Coldness>(&spec, DEFAULT_SEED, &how).unwrap();
    assert_eq!((whole.state, points(&whole.analysis).len()), (State::Done, 12));
    assert!(part.iter().all(|point| points(&whole.analysis).contains(point)), "measured values stay");
    assert_eq!(conduct::<Coldness>(&spec, DEFAULT_SEED, &how).unwrap().state, State::WasDone);
}

#[test]
#[ignore = "needs FUSE"]
fn coldness_fetches_the_requested_share() {
    let analysis = smoke::<Coldness>(|_| ());
    let points = analysis.result["points"].as_array().unwrap();
    assert_eq!(points.len(), 12);
    let evicts = |point: &&serde_json::Value| point["subject"].as_str().unwrap().starts_with("anticache");
    for point in points.iter().filter(evicts) {
        let (asked, fetched) = (point["cold_percent"].as_f64().unwrap(), point["fetched_percent"].as_f64().unwrap());
        assert!((fetched - asked).abs() < 20.0, "{point}");
    }
    // A block fetched at one point may be evicted at the next.
    let evicted = points.iter().filter(evicts).map(|point| point["evicted"].as_u64().unwrap());
    assert!(evicted.sum::<u64>() > 0, "{points:?}");
}

#[test]
#[ignore = "long: mounts several file systems, seconds each; needs FUSE"]
fn sweep_measures_every_cell() {
    let analysis = smoke::<TierSweep>(|_| ());
    let cells = analysis.result["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 7, "two periods, two thresholds, one of them twice, and two other file systems");
    let fetched = |threshold: u64| -> u64 {
        let is_it =
            |cell: &&serde_json::Value| cell["threshold_bytes"] == threshold << 20 && cell["subject"] == "anticache";
        cells.iter().filter(is_it).map(|cell| cell["fetched"].as_u64().unwrap()).sum()
    };
    assert!(fetched(10) > fetched(40), "less memory, more fetches");
    let period = analysis.findings.iter().find(|finding| finding.id == "period").unwrap();
    assert!(format!("{} {}", period.reason, period.note).contains("measured twice"), "{period:?}");
}

#[test]
#[ignore = "long: mounts several file systems, seconds each; needs FUSE"]
fn file_server_evicts_below_its_size() {
    let analysis = smoke::<TierFileserver>(|_| ());
    let runs = analysis.result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 5, "two thresholds, bpfs mode twice, ext4 on the disk");
    let evicted = |name: &str| {
        runs.iter().find(|run| run["condition"] == name).map(|run| run["evicted"].as_u64().unwrap()).unwrap()
    };
    assert!(evicted("anticache 20 %") > evicted("anticache 100 %"));
    assert_eq!(evicted("bpfs"), 0);
    let mix = analysis.findings.iter().find(|finding| finding.id == "read-write-mix").unwrap();
    assert!(mix.verdict == senesce_core::Verdict::Undecided && !mix.measured.is_empty(), "{mix:?}");
}

#[test]
#[ignore = "long: mounts several file systems, seconds each; needs FUSE"]
fn file_operations_are_compared_in_both_modes() {
    let analysis = smoke::<FileOps>(|_| ());
    assert_eq!(analysis.tables[0].rows.len(), 6);
    for times in analysis.result["median_us"].as_object().unwrap().values() {
        let names = ["anticache", "bpfs", "ext4", "ext4-disk", "ext4-model"];
        assert!(names.iter().all(|name| times[name].as_f64().unwrap() > 0.0), "{times}");
    }
}

#[test]
#[ignore = "long: mounts several file systems, seconds each; needs FUSE"]
fn writes_are_measured_by_size_with_data_in_both_tiers() {
    let analysis = smoke::<RandomWrite>(|_| ());
    assert!(analysis.result["evicted"].as_u64().unwrap() > 0);
    let times = &analysis.result["p50_us"]["4 KiB"];
    assert!(times["ext4-disk"].as_f64().unwrap() > times["ext4"].as_f64().unwrap(), "{times}");
    for name in ["anticache", "anticache-model"] {
        let percent = |what: &str, size: &str| analysis.result[what][size][name].as_f64().unwrap();
        // Half of 16 MiB does not fit below 8 MiB. That share must be cold before the first call, and about that share of small
        // writes must fetch.
        let cold = percent("cold_at_start_percent", "8 B");
        assert!((48.0..60.0).contains(&cold), "{name}: {cold} % cold at the start");
        assert!(percent("fetched_percent", "8 B") > 25.0, "{name}: {}", analysis.result["fetched_percent"]);
        assert_eq!(percent("fetched_percent", "64 KiB"), 0.0, "{name}: whole blocks are not fetched");
    }
}

#[test]
#[ignore = "long: mounts several file systems, seconds each; needs FUSE"]
fn appends_are_measured_by_size() {
    let analysis = smoke::<Append>(|spec| spec.sizes.truncate(2));
    assert_eq!(analysis.tables[0].rows.len(), 2);
}
