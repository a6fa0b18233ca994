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
/// several fillings of a zone, reads need no more than some ten thousand commands.
fn measure(study: &dyn ZnsStudy, read_seconds: f64, write_seconds: f64) -> Measured {
    let overrides = BTreeMap::from([("grid".to_string(), "study".to_string())]);
    let has_grid = study.parameters().iter().any(|parameter| parameter.name == "grid");
    let overrides = if has_grid { overrides } else { BTreeMap::new() };
    let settings = Settings::resolve(study.parameters(), Level::Quick, &overrides).unwrap();
    let mut points = study.points(&settings).unwrap();
    for actor in points.iter_mut().flat_map(|point| &mut point.job.actors).filter(|actor| actor.time.is_some()) {
        let seconds = if actor.op == Activity::RandomRead { read_seconds } else { write_seconds };
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

fn hold(study: &dyn ZnsStudy, read_seconds: f64, write_seconds: f64, expected: &[&str]) {
    let measured = measure(study, read_seconds, write_seconds);
    let found = groups(&compare(&measured, study.published()).unwrap());
    let report: Vec<String> = found.iter().map(describe).collect();
    eprintln!("{}:\n{}", study.id(), report.join("\n"));
    let names: Vec<&str> = found.iter().map(|group| group.group.as_str()).collect();
    assert_eq!(names, expected);
    assert!(found.iter().all(|group| group.kept), "{}", report.join("\n"));
    // Points that differ by more than 5 % keep their order, but for a few pairs just beyond that; percentiles of reads under
    // writes, whose published values go up and down, turn within their own bound.
    for group in &found {
        let (within, share) = if group.group.ends_with("writes-p95") { (0.25, 0.02) } else { (0.07, 0.005) };
        let turned = group.misordered as f64 / group.pairs.max(1) as f64;
        assert!(group.misordered_by < within && turned < share, "{}", report.join("\n"));
    }
    for finding in study.findings(&measured) {
        // An artefact of the study's host, and what the model of the garbage collector does not reach.
        let unseen = ["Resets get a 56", "Its reads suffer too"];
        let expected_unseen = unseen.iter().any(|claim| finding.claim.starts_with(claim));
        let wanted = if expected_unseen { Verdict::NotSeen } else { Verdict::Seen };
        assert_eq!(finding.verdict, wanted, "{}: {}", finding.claim, finding.measured);
    }
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
    hold(&senesce_experiments::zns_read_interference::ZnsReadInterference, 0.5, 0.5, &expected);
}

#[test]
fn heavy() {
    hold(&senesce_experiments::zns_heavy::ZnsHeavy, 60.0, 60.0, &[]);
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
