//! Resets next to reads, writes and appends, and the effect of each on the other.

use crate::zns::compare::Comparison;
use crate::zns::drives::{Drives, Names, halves, zones};
use crate::zns::measure::{DeviceValues, Point};
use crate::zns::values::Derived;
use crate::zns::{Parameters, ZONED, ZnsStudy, once, ramp};
use clap::Args;
use senesce_core::{Axis, Better, Bytes, Failure, Figure, FigureKind, Level, Mark, Series, Span};
use senesce_zoned::job::{Activity, ActorSpec, Job, Span as JobSpan};
use senesce_zoned::survey::Survey;
use serde::{Deserialize, Serialize};

pub struct ZnsResetInterference;

/// Number of zones to reset, and maximum number of zones below them.
const ZONES: u32 = 400;

/// Pause between resets in seconds: about the time of a reset on the published drive.
const PAUSE_SECONDS: f64 = 0.017;

const SEVERAL_WRITERS: &str = "writes over 4 zones";

const OTHERS: [(&str, Activity, u64, u32); 4] = [
    ("write", Activity::Write, 4, 1),
    ("append", Activity::Append, 4, 1),
    ("randread", Activity::RandomRead, 4, 1),
    ("writes over 4 zones", Activity::Write, 128, 4),
];

fn plural(name: &str) -> String {
    if name.starts_with("writes") {
        name.into()
    } else if name == "randread" {
        "reads".into()
    } else {
        format!("{name}s")
    }
}

/// Returns an actor that runs with the resets, in at most `most` zones below the zones to reset.
fn concurrent_actor(name: &str, time: JobSpan, drive: &Survey, most: u32) -> Option<ActorSpec> {
    let (_, op, kib, jobs) = OTHERS.into_iter().find(|(known, ..)| *known == name)?;
    let wanted = if op == Activity::RandomRead { 300 } else { 8 * jobs };
    let zones = zones(drive, 0, wanted.min(most));
    Some(ActorSpec { bs: Bytes::kib(kib), zones, jobs: Some(jobs), time: Some(time), ..ActorSpec::new(op) })
}

/// Parameters of this experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// zoned drive: sim:zn540, null, or a device such as /dev/ng0n1
    #[arg(long)]
    pub device: String,
    /// measured time of each point
    #[arg(long)]
    pub time: Span,
    /// warm-up of each point, not counted
    #[arg(long)]
    pub ramp: Span,
    /// measurements of each point; verdicts on a real drive need 5
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[serde(default = "once")]
    pub repetitions: u32,
}

impl Parameters for Spec {
    fn defaults(level: Level) -> Self {
        Self {
            device: ZONED.into(),
            time: Span::from_millis(level.of([300, 10_000, 60_000])),
            ramp: ramp(level),
            repetitions: 1,
        }
    }

    fn drives(&self) -> Names<'_> {
        Names { zoned: &self.device, conventional: None }
    }

    fn repetitions(&self) -> u32 {
        self.repetitions
    }
}

impl ZnsStudy for ZnsResetInterference {
    const ID: &'static str = "zns-reset-interference";
    const TITLE: &'static str = "Zoned drive: resets next to reads, writes and appends";
    const SUMMARY: &'static str =
        "Full zones are reset back to back while another actor reads, writes or appends, each on its own processor.";
    const PAGE: &'static str = include_str!("../docs/experiments/zns-reset-interference.md");
    const PUBLISHED: &'static str = include_str!("../data/published/zns-reset-interference.csv");
    const CLAIMS: &'static str = include_str!("../data/published/zns-reset-interference.claims.toml");
    type Spec = Spec;

    fn points(spec: &Spec, drives: &Drives) -> Result<Vec<Point>, Failure> {
        let time = JobSpan(spec.time.0);
        let (device, drive) = (&*drives.zoned.name, &drives.zoned);
        let (_, resetting, half) = halves(drive, ZONES)?;
        let resets = || ActorSpec {
            zones: resetting,
            occupancy: Some(1.0),
            time: Some(time),
            ..ActorSpec::new(Activity::Reset)
        };
        let job = |actors| -> Result<Job, Failure> { Ok(Job { ramp: JobSpan(spec.ramp.0), ..Job::of(actors) }) };
        let mut points = vec![Point::new("reset alone", device, job(vec![resets()])?)];
        for (name, ..) in OTHERS {
            let Some(other) = concurrent_actor(name, time, drive, half) else { continue };
            points.push(Point::new(format!("{name} alone"), device, job(vec![other.clone()])?));
            let both = Point::new(format!("{name} with resets"), device, job(vec![other, resets()])?);
            points.push(both.and(&format!("reset with {}", plural(name)), 1, None, ""));
        }
        // Without a pause, a reset finds the drive's program operations still suspended by the previous reset.
        let paused = ActorSpec { pause: JobSpan::seconds(PAUSE_SECONDS), ..resets() };
        if let Some(other) = concurrent_actor(SEVERAL_WRITERS, time, drive, half) {
            let job = job(vec![other, paused])?;
            let point = Point::new(format!("{SEVERAL_WRITERS} with resets that pause"), device, job);
            points.push(point.and("reset that pauses with writes over 4 zones", 1, None, ""));
        }
        Ok(points)
    }

    fn derived(measured: &DeviceValues) -> Vec<Derived> {
        let quotient = |of: &str, to: &str, name: &str| Some(measured.get(of, name)? / measured.get(to, name)?);
        let share = quotient("writes over 4 zones with resets", "writes over 4 zones alone", "bw_mib");
        let longer = quotient("reset that pauses with writes over 4 zones", "reset alone", "lat_mean_us");
        let derived = |key: &str, metric, better, value| Derived { key: key.into(), metric, unit: "1", better, value };
        let share = share.map(|value| {
            derived("writes over 4 zones, with resets against alone", "throughput_share", Better::Higher, value)
        });
        let longer =
            longer.map(|value| derived("reset among writes against alone", "reset_ratio", Better::Lower, value));
        share.into_iter().chain(longer).collect()
    }

    fn figures(measured: &DeviceValues, _comparison: &[Comparison]) -> Vec<Figure> {
        let mark = if measured.simulated { Mark::Modelled } else { Mark::Measured };
        let mut names = vec!["alone".to_string()];
        names.extend(OTHERS.iter().map(|(name, ..)| format!("with {}", plural(name))));
        let series = |metric: &'static str, legend: &str| {
            let points = names.iter().enumerate();
            let points = points
                .filter_map(|(x, name)| Some((x as f64, measured.get(&format!("reset {name}"), metric)? / 1000.0)));
            Series::new(legend, mark, points.collect())
        };
        let all = vec![series("lat_mean_us", "mean"), series("lat_p95_us", "95th percentile")];
        vec![Figure {
            id: "resets".into(),
            title: "Resets of full zones next to other I/O".into(),
            caption: "Latency of a reset, alone and next to one other activity.".into(),
            device: measured.device.clone(),
            better: Better::Lower,
            kind: FigureKind::Bars {
                x: Axis::categories("concurrent activity", names.clone()),
                y: Axis::linear("latency (ms)").from_zero(),
                series: all,
            },
        }]
    }
}
