//! Saturating writes: bandwidth over time and its variation, on a zoned and on a filled conventional drive.

use crate::zns::compare::Comparison;
use crate::zns::drives::{Drives, Names, halves, zones};
use crate::zns::measure::{DeviceValues, Point};
use crate::zns::values::{Derived, Values};
use crate::zns::{Grid, LoadSpec, Parameters, ZnsStudy};
use clap::Args;
use senesce_core::{Axis, Better, Bytes, Failure, Figure, FigureKind, Level, Mark, Series, Span};
use senesce_zoned::job::{Activity, ActorSpec, Job, Preparation, PrepareStep, Rate, Span as JobSpan, Zones};
use senesce_zoned::survey::{DriveNature, Survey};
use serde::{Deserialize, Serialize};

pub struct ZnsHeavy;

/// Zones of the reader, and of the writers of a conventional drive.
const ZONES: u32 = 400;
const WRITERS: u32 = 4;

fn key(drive: &str, rate: u64) -> String {
    format!("drive={drive},rate={rate}")
}

/// Plans four writers of 1 MiB, or the number and size that the drive supports, with the differences in words.
fn job(rate: u64, worn: bool, spec: &Spec, drive: &Survey) -> Result<(Job, Vec<String>), Failure> {
    let time = Some(JobSpan(spec.load.points.time.0));
    let (half_to_write, reading, half) = halves(drive, ZONES)?;
    let geometry = &drive.geometry;
    let limit = u64::from(geometry.transfer_limit / geometry.block_bytes * geometry.block_bytes);
    let (bs, jobs) =
        (limit.min(1 << 20).min(geometry.capacity_bytes()), WRITERS.min(half).min(geometry.writable_at_once()));
    // In the study all zones were finished first, so that each was reset before it was written (`rate_heavyload.sh` of
    // the artifact). Overwriting one zone repeatedly loads the drive like a hundred zones, except in the first pass.
    let writing = if geometry.zoned { zones(drive, 0, jobs) } else { half_to_write };
    let mut adapted = Vec::new();
    if bs < 1 << 20 {
        adapted.push(format!("writes of {} instead of 1 MiB: the maximum of the drive", Bytes(bs)));
    }
    if jobs < WRITERS {
        adapted.push(format!("{jobs} writers instead of {WRITERS}: the drive allows no more open zones"));
    }
    let reader =
        ActorSpec { qd: spec.read_depth, zones: reading, jobs: Some(1), time, ..ActorSpec::new(Activity::RandomRead) };
    let writers = ActorSpec {
        bs: Bytes(bs),
        qd: 32,
        zones: writing,
        jobs: Some(jobs),
        rate: (rate > 0).then(|| Rate(Bytes::mib(rate))),
        time,
        ..ActorSpec::new(Activity::Write)
    };
    let wear = Preparation { step: PrepareStep::Wear, zones: Zones::Count(1), to: 1.0 };
    let prepare = worn.then(|| vec![wear]);
    Ok((Job { ramp: JobSpan(spec.load.points.ramp.0), prepare, ..Job::of(vec![reader, writers]) }, adapted))
}

fn variation(by_second: &[f64]) -> Option<f64> {
    if by_second.len() < 2 {
        return None;
    }
    let mean = by_second.iter().sum::<f64>() / by_second.len() as f64;
    let variance = by_second.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (by_second.len() - 1) as f64;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

/// Parameters of this experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// drives, grid, times
    #[command(flatten)]
    pub load: LoadSpec,
    /// queue depth of the reader of 4 KiB
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub read_depth: u32,
}

impl Parameters for Spec {
    fn defaults(level: Level) -> Self {
        let mut load = LoadSpec::defaults(level);
        load.points.time = Span::from_millis(level.of([1000, 60_000, 1_200_000]));
        Self { load, read_depth: level.of([4, 4, 32]) }
    }

    fn drives(&self) -> Names<'_> {
        self.load.drives()
    }

    fn repetitions(&self) -> u32 {
        self.load.repetitions()
    }
}

impl ZnsStudy for ZnsHeavy {
    const ID: &'static str = "zns-heavy";
    const TITLE: &'static str = "Zoned and conventional drive: bandwidth over time under heavy writes";
    const SUMMARY: &'static str = "Four writers with 1 MiB requests at depth 32, limited or not, next to random \
        reads. The figures show how steady the bandwidth is with and without cleaning in the drive.";
    const PAGE: &'static str = include_str!("../docs/experiments/zns-heavy.md");
    const PUBLISHED: &'static str = include_str!("../data/published/zns-heavy.csv");
    const CLAIMS: &'static str = include_str!("../data/published/zns-heavy.claims.toml");
    type Spec = Spec;

    fn points(spec: &Spec, drives: &Drives) -> Result<Vec<Point>, Failure> {
        let rates: &[u64] = if spec.load.points.grid <= Grid::Figure { &[0] } else { &[250, 750, 1115, 0] };
        let mut points = Vec::new();
        let both = [("zoned", Some(&drives.zoned)), ("conventional", drives.conventional.as_ref())];
        for (name, drive) in both.into_iter().filter_map(|(name, drive)| Some((name, drive?))) {
            let worn = name == "conventional" && drive.nature == DriveNature::Simulated;
            for rate in rates {
                let (job, adapted) = job(*rate, worn, spec, drive)?;
                let point = Point::new(key(name, *rate), &*drive.name, job).adapted(adapted);
                points.push(point.and(&key(name, *rate), 1, None, "writer_"));
            }
        }
        Ok(points)
    }

    fn derived(measured: &DeviceValues) -> Vec<Derived> {
        let of = |values: &Values| {
            let value = variation(&values.by_second)?;
            Some(Derived { key: values.key.clone(), metric: "writer_cv", unit: "1", better: Better::Lower, value })
        };
        measured.all().filter_map(of).collect()
    }

    fn figures(measured: &DeviceValues, _comparison: &[Comparison]) -> Vec<Figure> {
        let mark = if measured.simulated { Mark::Modelled } else { Mark::Measured };
        let series = ["zoned", "conventional"].into_iter().filter_map(|drive| {
            let values = measured.by_second(&key(drive, 0));
            let points = values.iter().enumerate().map(|(second, value)| (second as f64 + 0.5, *value)).collect();
            (!values.is_empty()).then(|| Series::new(drive, mark, points))
        });
        vec![Figure {
            id: "bandwidth".into(),
            title: "Bandwidth of unlimited writers over time".into(),
            caption: "Each point is one second of all four writers together.".into(),
            device: measured.device.clone(),
            better: Better::Higher,
            kind: FigureKind::Lines {
                x: Axis::linear("time (s)").from_zero(),
                y: Axis::linear("bandwidth (MiB/s)").from_zero(),
                series: series.collect(),
            },
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_relative_to_the_mean() {
        assert_eq!(variation(&[5.0]), None);
        assert!((variation(&[50.0, 150.0]).unwrap() - 0.707).abs() < 0.001);
    }
}
