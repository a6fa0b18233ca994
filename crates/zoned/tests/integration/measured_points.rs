//! `sim:zn540` on a sample of measured points that were held out of its fit.

use senesce_core::Seed;
use senesce_zoned::ZonedError;
use senesce_zoned::fit::error::{Summary, compare};
use senesce_zoned::fit::points::{Metric, Point, Points};
use senesce_zoned::sim::model::Model;

const POINTS: &str = include_str!("../../../../data/zns/t12_measured_points.csv");
const BESIDE: &str = include_str!("../../../../data/zns/t13_command_interference.csv");

fn all() -> Vec<Point> {
    let mut points = Points::default();
    points.single("t12", POINTS).unwrap();
    points.concurrent_commands("t13", BESIDE).unwrap();
    points.into_vec()
}

/// Errors of one metric over every `every`-th held-out point that `wanted` accepts.
fn errors(metric: Metric, every: usize, wanted: impl Fn(&Point) -> bool) -> Summary {
    let model = Model::load("zn540").unwrap();
    let held = all().into_iter().filter(|point| point.held_out() && wanted(point)).step_by(every);
    let compared = held.flat_map(|point| compare(&model, &point, Seed(42)).unwrap());
    Summary::of(compared.filter(|value| value.metric == metric).map(|value| value.error())).unwrap()
}

fn single(point: &Point, op: &str, lbaf: u32) -> bool {
    point.job.actors.len() == 1 && point.job.lbaf == Some(lbaf) && point.key.starts_with(&format!("op={op},"))
}

#[test]
fn blocks_of_4_kib() {
    let found = errors(Metric::Iops, 6, |point| single(point, "write", 4096) || single(point, "append", 4096));
    assert!(found.count > 10 && found.median < 0.012 && found.p90 < 0.06, "{found:?}");
}

/// Over the path of the measurement: the kernel's passthrough.
#[test]
fn one_or_two_writers_next_to_commands() {
    let few = |point: &Point| ["first=1,", "first=2,"].iter().any(|words| point.key.contains(words));
    let often = |point: &Point| !point.key.ends_with("second=1%") && !point.key.contains("finish");
    let found = errors(Metric::Iops, 3, |point| few(point) && often(point));
    assert!(found.count > 8 && found.median < 0.05 && found.p90 < 0.15, "{found:?}");
}

#[test]
fn blocks_of_512_b() {
    let found = errors(Metric::Iops, 6, |point| single(point, "write", 512) || single(point, "append", 512));
    assert!(found.count > 10 && found.median < 0.03 && found.p90 < 0.15, "{found:?}");
    let found = errors(Metric::P95, 6, |point| single(point, "append", 512));
    assert!(found.median < 0.25, "{found:?}");
}

#[test]
fn one_stream_of_reads() {
    let shallow = |point: &Point| {
        let actor = &point.job.actors[0];
        single(point, "seqread", 512) && actor.zones.count() == 1 && actor.qd <= 64
    };
    let found = errors(Metric::Iops, 1, shallow);
    assert!(found.count > 20 && found.median < 0.05, "{found:?}");
}

#[test]
fn writes_next_to_resets() {
    // The runs are too short for a reset every two seconds.
    let often = |point: &Point| point.key.starts_with("reset-on-write") && !point.key.ends_with("second=1%");
    let wanted = |point: &Point| often(point) && point.job.actors[0].zones.count() >= 3;
    let found = errors(Metric::Iops, 3, wanted);
    assert!(found.median < 0.03 && found.p90 < 0.06, "{found:?}");
}

#[test]
fn repeated_points_count_once_and_stay_held_out() {
    let once = all().len();
    let mut twice = Points::default();
    twice.single("t12", POINTS).unwrap();
    twice.single("again", POINTS).unwrap();
    twice.concurrent_commands("t13", BESIDE).unwrap();
    let twice = twice.into_vec();
    assert_eq!(twice.len(), once);
    let held = twice.iter().filter(|point| point.held_out()).count();
    assert!((once / 4..once * 5 / 12).contains(&held), "{held} of {once}");
    let given = "op=append,bs=4096,qd=4,zones=1,path=direct,lbaf=4096";
    assert!(twice.iter().any(|point| point.key == given && !point.held_out()));
}

#[test]
fn rows_left_out_are_listed_with_their_position() {
    let mut points = Points::default();
    let rows = ["1,4,100", "14,4,100", "1,4,100", "1,4,110"].map(|cells| format!("lbaf2,spdk,-,append,4096,{cells},"));
    points.single("mine", &format!("lbaf,engine,sched,op,bs,zones,qd,iops,p95_us\n{}\n", rows.join("\n"))).unwrap();
    let table = "zns,250.0,4,90,100\nnvme,250,4,90,100\nzns,none,4,90,100\n";
    let table = format!("dev,rate_mib,read_qd,r_lat_mean_us,r_p95_us\n{table}");
    points.reads_with_writes("theirs", &table).unwrap();
    let mut places: Vec<String> = points.left_out.values().flatten().cloned().collect();
    places.sort();
    let expected = ["mine, line 3", "mine, line 5", "theirs, line 3", "theirs, line 4"];
    assert_eq!(places, expected.map(|place| format!("table {place}")));
    let keys: Vec<String> = points.into_vec().into_iter().map(|point| point.key).collect();
    assert!(keys.len() == 2 && keys[1].ends_with("rate=250MiB/s"), "{keys:?}");
}

#[test]
fn errors_in_tables_name_the_position() {
    let fails = |text: &str, words: &str| {
        let error: ZonedError = Points::default().single("mine", text).unwrap_err();
        assert!(error.to_string().contains("mine") && error.to_string().contains(words), "{error}");
    };
    let header = "lbaf,engine,sched,op,bs,zones,qd,iops,p95_us";
    fails("", "no line");
    fails("engine,op,zones\n", "the column iops is missing");
    fails(&format!("{header}\nlbaf2,spdk,-,append,4096,1,4\n"), "line 2");
    fails(&format!("{header}\nlbaf2,spdk,-,append,4096,1,4,-3,\n"), "iops is '-3'");
    fails(&format!("{header}\nlbaf2,spdk,-,append,4096,1,4,NaN,\n"), "iops is 'NaN'");
    fails(&format!("{header}\nlbaf7,spdk,-,append,4096,1,4,10,\n"), "lbaf is 'lbaf7'");
    fails(&format!("{header}\nlbaf2,spdk,-,apend,4096,1,4,10,\n"), "op is 'apend'");
    fails(&format!("{header}\nlbaf2,spdk,-,append,4096,1,4,10,0\n"), "p95_us is '0'");
}
