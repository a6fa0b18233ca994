//! Turns tables of measurements into blocks to fit and held-out points to check.

use super::block::{Block, Observations, ObservedValue};
use super::design::Design;
use super::error::timed;
use super::points::{Metric, Point, Points, Value};
use super::probe::{Probe, Work};
use crate::error::ZonedError;
use crate::job::{Activity, Job};
use crate::sim::HostPath;
use std::collections::BTreeMap;

/// Relative uncertainty of table values: rates and means, and percentiles.
const KNOWN: (f64, f64) = (0.01, 0.03);
/// Maximum number of fitted points of a kind, evenly spaced among those available.
const MOST: usize = 36;

#[derive(Debug)]
pub struct FitData {
    pub design: Design,
    pub observations: Observations,
}

/// Recognises tables by their columns: points of one actor, random reads next to a writer, concurrent commands.
pub fn read(tables: &[(String, String)]) -> Result<FitData, ZonedError> {
    let mut points = Points::default();
    for (name, text) in tables {
        let header = text.lines().find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
        let has = |column: &str| header.split(',').any(|known| known.trim_end() == column);
        match (has("rate_mib"), has("jobs_or_depth_of_first")) {
            (true, _) => points.reads_with_writes(name, text)?,
            (_, true) => points.concurrent_commands(name, text)?,
            _ => points.single(name, text)?,
        }
    }
    let left_out = std::mem::take(&mut points.left_out);
    of_points(&points.into_vec(), left_out)
}

fn of_points(points: &[Point], left_out: BTreeMap<String, Vec<String>>) -> Result<FitData, ZonedError> {
    let (held, given): (Vec<&Point>, Vec<&Point>) = points.iter().partition(|point| point.held_out());
    let mut kinds: BTreeMap<usize, Vec<&Point>> = BTreeMap::new();
    for point in given {
        if let Some(kind) = KINDS.iter().position(|kind| (kind.takes)(&point.job)) {
            kinds.entry(kind).or_default().push(point);
        }
    }
    if kinds.is_empty() || held.is_empty() {
        let words = "the tables have too few points: one of every three points is held out, and the others must \
                     determine a constant";
        let left_out = left_out.iter().map(|(why, at)| format!("; {} left out ({}): {why}", at.len(), at[0]));
        let left_out: String = left_out.collect();
        return Err(ZonedError::Usage(format!("{words}; they hold {}{left_out}", points.len())));
    }
    let block = |(kind, points): (usize, Vec<&Point>)| Block {
        name: KINDS[kind].name.into(),
        constants: KINDS[kind].constants.iter().map(|name| name.to_string()).collect(),
        probes: spread(&points).into_iter().map(probe).collect(),
    };
    let blocks = kinds.into_iter().map(block).collect();
    let known = |point: &Point| {
        let values = point.values.iter().map(|value| ((point.key.clone(), name_of(value)), observed(value)));
        values.collect::<Vec<_>>()
    };
    Ok(FitData {
        observations: points.iter().flat_map(known).collect(),
        design: Design { blocks, checks: held.into_iter().map(probe).collect(), left_out },
    })
}

/// Selects at most `MOST`, evenly spaced.
fn spread<'a>(points: &[&'a Point]) -> Vec<&'a Point> {
    let count = points.len().min(MOST);
    (0..count).map(|index| points[index * points.len() / count]).collect()
}

fn name_of(value: &Value) -> String {
    let what = match value.metric {
        Metric::Iops => "iops",
        Metric::Mean => "mean",
        Metric::P95 => "p95",
    };
    format!("{}.{what}", value.actor)
}

fn observed(value: &Value) -> ObservedValue {
    let deviation = if value.metric == Metric::P95 { KNOWN.1 } else { KNOWN.0 };
    ObservedValue { mean: value.value, deviation, count: 1 }
}

fn probe(point: &Point) -> Probe {
    let names: Vec<String> = point.values.iter().map(name_of).collect();
    Probe::new(&*point.key, Work::Job(Box::new(timed(&point.job))), &names.join(" "))
}

struct PointKind {
    name: &'static str,
    takes: fn(&Job) -> bool,
    constants: &'static [&'static str],
}

fn single_activity(job: &Job, path: HostPath, block_bytes: u32) -> Option<Activity> {
    let is_it = job.actors.len() == 1 && job.path == path && job.lbaf == Some(block_bytes);
    is_it.then(|| job.actors[0].op)
}

fn writes(job: &Job, path: HostPath, block_bytes: u32) -> bool {
    single_activity(job, path, block_bytes).is_some_and(Activity::streams_writes)
}

fn has(job: &Job, op: Activity) -> bool {
    job.actors.len() > 1 && job.actors.iter().any(|actor| actor.op == op)
}

/// In fitting order. A point belongs to the first kind that matches.
const KINDS: [PointKind; 7] = [
    PointKind {
        name: "writes and appends",
        takes: |job| writes(job, HostPath::Direct, 4096),
        constants: &[
            "write.controller_write_us@4",
            "write.controller_write_us@8",
            "write.controller_append_us@4",
            "write.controller_append_us@8",
            "write.transfer_us_per_kib",
            "write.fixed_write_us@4",
            "write.fixed_write_us@16",
            "write.fixed_append_us@4",
            "write.fixed_append_us@16",
            "flash.program_us",
        ],
    },
    PointKind {
        name: "the path none",
        takes: |job| writes(job, HostPath::None, 4096),
        constants: &["host.none.reap_us", "host.none.delay_us@4", "host.none.delay_us@8", "host.none.delay_us@16"],
    },
    PointKind {
        name: "random reads",
        takes: |job| single_activity(job, HostPath::Direct, 4096) == Some(Activity::RandomRead),
        constants: &[
            "read.fixed_us",
            "read.sense_fast_us",
            "read.sense_slow_us",
            "read.channel_us@4",
            "read.channel_us@8",
            "read.channel_us@16",
            "read.link_us_per_kib",
        ],
    },
    PointKind {
        name: "blocks of 512 B",
        takes: |job| writes(job, HostPath::Direct, 512),
        constants: &[
            "write.small_block_engine_write_us@0.5",
            "write.small_block_engine_write_us@1",
            "write.small_block_engine_write_us@2",
            "write.small_block_engine_append_us@0.5",
            "write.small_block_engine_append_us@1",
            "write.small_block_engine_append_us@2",
        ],
    },
    PointKind {
        name: "sequential reads",
        takes: |job| {
            let one = job.actors.first().is_some_and(|actor| actor.zones.count() == 1 && actor.qd <= 64);
            one && single_activity(job, HostPath::Direct, 512) == Some(Activity::SequentialRead)
        },
        constants: &[
            "host.direct.stream_us@8",
            "host.direct.stream_us@16",
            "host.direct.stream_us@32",
            "host.direct.stream_us@64",
            "host.direct.stream_us@128",
            "host.direct.stream_by_depth_us@8",
            "read.stream.latency_us@4",
            "read.stream.latency_us@16",
            "read.stream.latency_us@64",
        ],
    },
    PointKind {
        name: "reads next to writes",
        takes: |job| has(job, Activity::RandomRead) && !has(job, Activity::Reset) && !has(job, Activity::Finish),
        constants: &["flash.first_segment_us", "flash.segment_us", "flash.gap_us", "flash.redo_us"],
    },
    PointKind {
        name: "writes next to resets",
        takes: |job| has(job, Activity::Reset) && !has(job, Activity::RandomRead),
        constants: &["zones.reset_stops_programs_per_4k_ns", "zones.reset_slowdown_under_writes"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "lbaf,engine,sched,op,bs,zones,qd,iops,p95_us";

    #[test]
    fn points_are_assigned_to_kinds_or_held_out() {
        let rows: Vec<String> = [1, 2, 4, 8]
            .iter()
            .flat_map(|zones| [4096, 8192, 16384].map(|bs| format!("lbaf2,spdk,-,append,{bs},{zones},1,90000,20")))
            .collect();
        let tables = read(&[("mine".into(), format!("{HEADER}\n{}\n", rows.join("\n")))]).unwrap();
        let [block] = &tables.design.blocks[..] else { panic!("{:?}", tables.design) };
        assert_eq!((block.name.as_str(), block.probes.len() + tables.design.checks.len()), ("writes and appends", 12));
        assert!(
            !tables.design.checks.is_empty() && block.probes.iter().all(|probe| !tables.design.checks.contains(probe))
        );
        let value = tables.observations[&(block.probes[0].key.clone(), "0.p95".to_string())];
        assert_eq!((value.mean, value.deviation), (20.0, 0.03));
    }

    #[test]
    fn tables_without_points_to_fit_or_to_check_are_refused() {
        let one = format!("{HEADER}\nlbaf2,spdk,-,append,4096,1,4,100000,\n");
        let error = read(&[("mine".into(), one)]).unwrap_err().to_string();
        assert!(error.contains("too few points") && error.ends_with("hold 1"), "{error}");
        assert!(
            read(&[("mine".into(), "a,b\n1,2\n".into())]).unwrap_err().to_string().contains("column engine is missing")
        );
    }

    #[test]
    fn impossible_numbers_and_missing_columns_are_named() {
        let refused =
            |header: &str, row: &str| read(&[("mine".into(), format!("{header}\n{row}\n"))]).unwrap_err().to_string();
        let with_mean = "lbaf,engine,sched,op,bs,zones,qd,iops,lat_mean_us,p95_us";
        for value in ["-3", "0", "nan", "inf", "1e300", "1.1e9", "fast"] {
            let words = format!("is '{value}', not a number above 0 and up to 1e9");
            for (cells, column) in [
                (format!("{value},9,9"), "iops"),
                (format!("9,{value},9"), "lat_mean_us"),
                (format!("9,9,{value}"), "p95_us"),
            ] {
                let error = refused(with_mean, &format!("lbaf2,spdk,-,append,4096,1,4,{cells}"));
                assert!(error.contains(&format!("line 2: {column} {words}")), "{error}");
            }
        }
        for (column, other) in [("bs", "block_bytes"), ("qd", "depth_per_zone"), ("sched", "scheduler")] {
            let error = refused(&HEADER.replace(&format!("{column},"), "x,"), "lbaf2,spdk,-,append,4096,1,4,100000,");
            assert!(error.contains(&format!("the column {column}, or {other}, is missing")), "{error}");
        }
    }

    #[test]
    fn impossible_measurements_are_refused() {
        let header = "lbaf,engine,sched,op,bs,zones,qd,iops,lat_mean_us,p95_us";
        let error =
            |header: &str, row: &str| read(&[("mine".into(), format!("{header}\n{row}\n"))]).unwrap_err().to_string();
        assert!(
            error(header, "lbaf2,spdk,-,randread,4096,1,1,13703.8,72635,").contains("995.4 in flight, of 1 at most")
        );
        assert!(error(header, "lbaf2,spdk,-,randread,4096,1,1,13703.8,72.6,0.001").contains("p95_us is '0.001'"));
        let twice = header.replace("p95_us", "iops");
        assert!(error(&twice, "lbaf2,spdk,-,randread,4096,1,1,13703.8,72.6,5").contains("iops occurs twice"));
        let possible = error(header, "lbaf2,spdk,-,randread,4096,1,1,13703.8,72.6,80");
        assert!(possible.contains("too few points"), "{possible}");
    }
}
