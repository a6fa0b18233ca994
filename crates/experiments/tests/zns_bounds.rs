//! `sim:zn540` and `sim:nvme-a` against the published tables: every group within its bound, no point beyond 2.5 times of it.

use senesce_core::interrupt::Interrupt;
use senesce_core::{
    Environment, Experiment, Level, Plan, Record, RunContext, RunDirectory, Seed, Settings, Silent, Verdict,
};
use senesce_experiments::zns::compare::{Group, compare, groups};
use senesce_experiments::zns::measure::{Measured, run_points};
use senesce_experiments::zns::{Zns, ZnsStudy};
use senesce_zoned::job::{Activity, Span};
use std::collections::BTreeMap;

/// All published points of one experiment, each for so long that its numbers stand; slow tails of the grid are cheap and need
/// several fillings of a zone, reads need no more than some ten thousand commands: at low depth they need more time for them.
fn measure(study: &dyn ZnsStudy, read_seconds: f64, write_seconds: f64) -> Measured {
    let overrides = BTreeMap::from([("grid".to_string(), "study".to_string())]);
    let has_grid = study.parameters().iter().any(|parameter| parameter.name == "grid");
    let overrides = if has_grid { overrides } else { BTreeMap::new() };
    let settings = Settings::resolve(study.parameters(), Level::Quick, &overrides).unwrap();
    let mut points = study.points(&settings).unwrap();
    for actor in points.iter_mut().flat_map(|point| &mut point.job.actors).filter(|actor| actor.time.is_some()) {
        let seconds = match actor.op {
            Activity::RandomRead => read_seconds * (8.0 / f64::from(actor.qd)).max(1.0),
            _ => write_seconds,
        };
        actor.time = Some(Span::seconds(seconds));
    }
    for point in &mut points {
        // Actors of one point run for the same time.
        let shortest =
            point.job.actors.iter().filter_map(|actor| actor.time).fold(None, |least: Option<Span>, time| {
                Some(least.map_or(time, |least| if time < least { time } else { least }))
            });
        point.job.actors.iter_mut().filter(|actor| actor.time.is_some()).for_each(|actor| actor.time = shortest);
        point.job.ramp = Span::seconds(0.05);
    }
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("run");
    let plan = Plan::new(study.id(), Seed(42), settings.to_map());
    let mut directory = RunDirectory::open(&path, &plan, &Environment::default()).unwrap();
    let interrupt = Interrupt::new();
    let mut context = RunContext { directory: &mut directory, progress: &Silent, interrupt: &interrupt };
    run_points(&points, &settings, &mut context).unwrap();
    study.run_more(&settings, &mut context).unwrap();
    drop(directory);
    Measured::from_record(&Record::open(&path).unwrap())
}

fn hold(study: &dyn ZnsStudy, read_seconds: f64, write_seconds: f64, expected: &[&str]) -> Measured {
    let measured = measure(study, read_seconds, write_seconds);
    let found = groups(&compare(&measured, study.published()).unwrap());
    let report: Vec<String> = found.iter().map(describe).collect();
    eprintln!("{}:\n{}", study.id(), report.join("\n"));
    let names: Vec<&str> = found.iter().map(|group| group.group.as_str()).collect();
    assert_eq!(names, expected);
    assert!(found.iter().all(|group| group.kept), "{}", report.join("\n"));
    // Published values that differ by more than 5 % are in the same order here.
    assert!(found.iter().all(|group| group.misordered == 0), "{}", report.join("\n"));
    for finding in study.findings(&measured) {
        // An artefact of the study's host.
        let expected_unseen = finding.claim.starts_with("Resets get a 56");
        let wanted = if expected_unseen { Verdict::NotSeen } else { Verdict::Seen };
        assert_eq!(finding.verdict, wanted, "{}: {}", finding.claim, finding.measured);
    }
    measured
}

fn describe(group: &Group) -> String {
    format!(
        "  {:<40} {:>4} points, mean {:>5.2} % of {:>4.1} %, worst {:>5.1} % at {}; {} of {} pairs misordered, by up to {:.1} %",
        group.group,
        group.points,
        group.mean_error * 100.0,
        group.bound * 100.0,
        group.worst_error * 100.0,
        group.worst_at,
        group.misordered,
        group.pairs,
        group.misordered_by * 100.0
    )
}

#[test]
fn request_size() {
    hold(&senesce_experiments::zns_request_size::ZnsRequestSize, 0.1, 1.0, &["depth1-mean", "plateau"]);
}

#[test]
fn intra_zone() {
    let expected = ["depth1-mean", "controller-iops", "plateau", "read-iops", "read-p95"];
    hold(&senesce_experiments::zns_intra_zone::ZnsIntraZone, 0.2, 1.0, &expected);
}

#[test]
fn inter_zone() {
    let expected = ["depth1-mean", "controller-iops", "plateau", "read-iops", "read-p95"];
    hold(&senesce_experiments::zns_inter_zone::ZnsInterZone, 0.2, 1.0, &expected);
}

#[test]
fn bandwidth() {
    hold(&senesce_experiments::zns_bandwidth::ZnsBandwidth, 0.1, 1.0, &["depth1-mean", "controller-iops", "plateau"]);
}

#[test]
fn reset() {
    hold(&senesce_experiments::zns_reset::ZnsReset, 0.1, 0.1, &["reset-mean"]);
}

#[test]
fn finish() {
    hold(&senesce_experiments::zns_finish::ZnsFinish, 0.1, 0.1, &["reset-mean", "finish-mean"]);
}

#[test]
fn open_close() {
    hold(&senesce_experiments::zns_open_close::ZnsOpenClose, 0.1, 0.1, &["open-close"]);
}

#[test]
fn read_interference() {
    let expected = [
        "read-iops",
        "read-p95",
        "reads-under-writes-mean",
        "reads-under-writes-p95",
        "conventional-read-iops",
        "conventional-read-p95",
        "conventional-reads-under-writes-mean",
        "conventional-reads-under-writes-p95",
    ];
    hold(&senesce_experiments::zns_read_interference::ZnsReadInterference, 2.0, 8.0, &expected);
}

/// Unlimited writers are held to the published levels; the conventional drive's comes from whole cycles of its collector.
#[test]
fn heavy() {
    let study = &senesce_experiments::zns_heavy::ZnsHeavy;
    let measured = hold(study, 60.0, 60.0, &[]);
    let comparison = compare(&measured, study.published()).unwrap();
    let levels: Vec<_> = comparison.iter().filter(|level| level.metric == "writer_bw_mib").collect();
    assert_eq!(levels.len(), 2);
    assert!(levels.iter().all(|level| level.error.abs() < 0.06), "{levels:?}");
}

#[test]
fn reset_interference() {
    hold(&senesce_experiments::zns_reset_interference::ZnsResetInterference, 2.0, 2.0, &[]);
}

#[test]
fn the_smoke_level_of_every_experiment_completes() {
    let experiments: [&dyn Experiment; 3] = [
        &Zns(senesce_experiments::zns_request_size::ZnsRequestSize),
        &Zns(senesce_experiments::zns_read_interference::ZnsReadInterference),
        &Zns(senesce_experiments::zns_open_close::ZnsOpenClose),
    ];
    for experiment in experiments {
        let settings = Settings::resolve(experiment.parameters(), Level::Smoke, &BTreeMap::new()).unwrap();
        let plan = experiment.plan(&settings).unwrap();
        let room = tempfile::tempdir().unwrap();
        let mut directory = RunDirectory::open(room.path(), &plan, &Environment::default()).unwrap();
        let interrupt = Interrupt::new();
        let mut context = RunContext { directory: &mut directory, progress: &Silent, interrupt: &interrupt };
        experiment.run(&settings, &mut context).unwrap();
        let before = Record::open(room.path()).unwrap().events.len();
        // A second run of the same plan finds every point done.
        drop(directory);
        let mut directory = RunDirectory::open(room.path(), &plan, &Environment::default()).unwrap();
        let mut context = RunContext { directory: &mut directory, progress: &Silent, interrupt: &interrupt };
        if experiment.kind() != "zns-open-close" {
            experiment.run(&settings, &mut context).unwrap();
            assert_eq!(Record::open(room.path()).unwrap().events.len(), before);
        }
        let analysis = experiment.analyse(&Record::open(room.path()).unwrap()).unwrap();
        assert!(!analysis.figures.is_empty() && !analysis.findings.is_empty(), "{}", experiment.kind());
    }
}
