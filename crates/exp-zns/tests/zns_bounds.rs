//! `sim:zn540` and `sim:nvme-a` against the published tables: every group within its bound, no point beyond 2.5 times of it.

use senesce_core::interrupt::Interrupt;
use senesce_core::{Environment, Level, Record, Seed, Verdict};
use senesce_exp_zns::zns::compare::{Group, compare, groups};
use senesce_exp_zns::zns::measure::{Measured, Values, run_point};
use senesce_exp_zns::zns::{Event, Grid, GridSpec, Zns, ZnsStudy};
use senesce_exp_zns::zns_bandwidth::ZnsBandwidth;
use senesce_exp_zns::zns_finish::ZnsFinish;
use senesce_exp_zns::zns_heavy::ZnsHeavy;
use senesce_exp_zns::zns_inter_zone::ZnsInterZone;
use senesce_exp_zns::zns_intra_zone::ZnsIntraZone;
use senesce_exp_zns::zns_open_close::ZnsOpenClose;
use senesce_exp_zns::zns_read_interference::ZnsReadInterference;
use senesce_exp_zns::zns_request_size::ZnsRequestSize;
use senesce_exp_zns::zns_reset::{FillSpec, ZnsReset};
use senesce_exp_zns::zns_reset_interference::ZnsResetInterference;
use senesce_runs::run::{Conduct, Recorded, State, conduct};
use senesce_zoned::job::{Activity, Span};

/// All published points of one experiment, each for so long that its numbers stand; slow tails of the grid are cheap and need
/// several fillings of a zone, reads need no more than some ten thousand commands: at low depth they need more time for them.
fn measure<S: ZnsStudy>(spec: S::Spec, read_seconds: f64, write_seconds: f64) -> Measured {
    let mut points = S::points(&spec).unwrap();
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
    let mut values = Vec::new();
    for point in &points {
        values.extend(run_point(point, None, Seed(42), &Interrupt::new()).unwrap().0);
    }
    values_as_measured(&values)
}

fn values_as_measured(values: &[Values]) -> Measured {
    let mut environment = Environment::default();
    environment.put("zns.device.0", "sim:zn540");
    Measured::of(&environment, values.iter(), std::iter::empty())
}

fn hold<S: ZnsStudy>(spec: S::Spec, read_seconds: f64, write_seconds: f64, expected: &[&str]) -> Measured {
    let measured = measure::<S>(spec, read_seconds, write_seconds);
    check::<S>(&measured, expected);
    measured
}

fn check<S: ZnsStudy>(measured: &Measured, expected: &[&str]) {
    let found = groups(&compare(measured, S::PUBLISHED).unwrap());
    let report: Vec<String> = found.iter().map(describe).collect();
    eprintln!("{}:\n{}", S::ID, report.join("\n"));
    let names: Vec<&str> = found.iter().map(|group| group.group.as_str()).collect();
    assert_eq!(names, expected);
    assert!(found.iter().all(|group| group.kept), "{}", report.join("\n"));
    // Published values that differ by more than 5 % are in the same order here. The known exception: reads at depth 32 beside
    // 250 MiB/s of writes and at depth 16 beside 1000 MiB/s, published 6.5 % apart, are in the other order.
    let in_order = |group: &Group| match group.group.as_str() {
        "reads-under-writes-mean" => group.misordered <= 2 && group.misordered_by < 0.07,
        _ => group.misordered == 0,
    };
    assert!(found.iter().all(in_order), "{}", report.join("\n"));
    for finding in S::findings(measured) {
        // An artefact of the study's host.
        let expected_unseen = finding.claim.starts_with("Resets get a 56");
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
    hold::<ZnsRequestSize>(
        GridSpec { grid: Grid::Study, ..GridSpec::defaults(Level::Quick) },
        0.1,
        1.0,
        &["depth1-mean", "plateau"],
    );
}

#[test]
fn intra_zone() {
    let expected = ["depth1-mean", "controller-iops", "plateau", "read-iops", "read-p95"];
    hold::<ZnsIntraZone>(GridSpec { grid: Grid::Study, ..GridSpec::defaults(Level::Quick) }, 0.2, 1.0, &expected);
}

#[test]
fn inter_zone() {
    let expected = ["depth1-mean", "controller-iops", "plateau", "read-iops", "read-p95"];
    hold::<ZnsInterZone>(GridSpec { grid: Grid::Study, ..GridSpec::defaults(Level::Quick) }, 0.2, 1.0, &expected);
}

#[test]
fn bandwidth() {
    hold::<ZnsBandwidth>(
        GridSpec { grid: Grid::Study, ..GridSpec::defaults(Level::Quick) },
        0.1,
        1.0,
        &["depth1-mean", "controller-iops", "plateau"],
    );
}

#[test]
fn reset() {
    hold::<ZnsReset>(FillSpec { grid: Grid::Study, ..FillSpec::defaults(Level::Quick) }, 0.1, 0.1, &["reset-mean"]);
}

#[test]
fn finish() {
    hold::<ZnsFinish>(
        FillSpec { grid: Grid::Study, ..FillSpec::defaults(Level::Quick) },
        0.1,
        0.1,
        &["reset-mean", "finish-mean"],
    );
}

#[test]
fn open_close() {
    let room = tempfile::tempdir().unwrap();
    let spec = ZnsOpenClose::defaults(Level::Quick);
    let path = room.path().join("run");
    conduct::<Zns<ZnsOpenClose>>(&spec, Seed(42), &Conduct::quietly(&path)).unwrap();
    let recorded = Recorded::<Zns<ZnsOpenClose>>::of(&Record::open(&path).unwrap()).unwrap();
    let values = recorded
        .events()
        .filter_map(|event| if let Event::Point(values) = event { Some(values.clone()) } else { None });
    check::<ZnsOpenClose>(&values_as_measured(&values.collect::<Vec<_>>()), &["open-close"]);
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
    hold::<ZnsReadInterference>(ZnsReadInterference::defaults(Level::Quick), 2.0, 8.0, &expected);
}

/// Unlimited writers are held to the published levels; the conventional drive's comes from whole cycles of its collector.
#[test]
fn heavy() {
    let measured = hold::<ZnsHeavy>(ZnsHeavy::defaults(Level::Quick), 60.0, 60.0, &[]);
    let comparison = compare(&measured, ZnsHeavy::PUBLISHED).unwrap();
    let levels: Vec<_> = comparison.iter().filter(|level| level.metric == "writer_bw_mib").collect();
    assert_eq!(levels.len(), 2);
    assert!(levels.iter().all(|level| level.error.abs() < 0.06), "{levels:?}");
}

#[test]
fn reset_interference() {
    hold::<ZnsResetInterference>(ZnsResetInterference::defaults(Level::Quick), 2.0, 2.0, &[]);
}

fn smoke<S: ZnsStudy>() {
    let room = tempfile::tempdir().unwrap();
    let how = Conduct::quietly(room.path());
    let outcome = conduct::<Zns<S>>(&S::defaults(Level::Smoke), Seed(42), &how).unwrap();
    assert!(!outcome.analysis.figures.is_empty() && !outcome.analysis.findings.is_empty(), "{}", S::ID);
    let before = Record::open(room.path()).unwrap().events.len();
    let again = conduct::<Zns<S>>(&S::defaults(Level::Smoke), Seed(42), &how).unwrap();
    assert_eq!((again.state, Record::open(room.path()).unwrap().events.len()), (State::WasDone, before));
}

#[test]
fn the_smoke_level_of_every_experiment_completes() {
    smoke::<ZnsRequestSize>();
    smoke::<ZnsReadInterference>();
    smoke::<ZnsOpenClose>();
}
