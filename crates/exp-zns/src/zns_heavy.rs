//! Saturating writes: bandwidth over time and its variation, on a zoned and on a worn conventional drive.

use crate::zns::compare::Comparison;
use crate::zns::measure::{Measured, Point};
use crate::zns::{CONVENTIONAL, Grid, ZONED, ZnsStudy, judged, ramp};
use clap::Args;
use senesce_core::{Axis, Better, Bytes, Failure, Figure, FigureKind, Finding, Level, Mark, Series, Span};
use senesce_zoned::job::{Activity, ActorSpec, Job, Preparation, PrepareStep, Rate, Span as JobSpan, Zones};
use senesce_zoned::run::DeviceName;
use serde::{Deserialize, Serialize};

/// Heavy writes.
pub struct ZnsHeavy;

fn key(drive: &str, rate: u64) -> String {
    format!("drive={drive},rate={rate}")
}

fn job(rate: u64, worn: bool, spec: &Spec) -> Result<Job, Failure> {
    let time = Some(JobSpan(spec.time.0));
    let reader = ActorSpec {
        qd: spec.read_depth,
        zones: Zones::Range(400, 800),
        jobs: Some(1),
        time,
        ..ActorSpec::new(Activity::RandomRead)
    };
    let writers = ActorSpec {
        bs: Bytes::mib(1),
        qd: 32,
        zones: Zones::Range(0, 400),
        jobs: Some(4),
        rate: (rate > 0).then(|| Rate(Bytes::mib(rate))),
        time,
        ..ActorSpec::new(Activity::Write)
    };
    let wear = Preparation { step: PrepareStep::Wear, zones: Zones::Count(1), to: 1.0 };
    let prepare = worn.then(|| vec![wear]);
    Ok(Job { ramp: JobSpan(spec.ramp.0), prepare, ..Job::of(vec![reader, writers]) })
}

/// Standard deviation over mean of the bandwidth of each second.
fn variation(by_second: &[f64]) -> Option<f64> {
    if by_second.len() < 2 {
        return None;
    }
    let mean = by_second.iter().sum::<f64>() / by_second.len() as f64;
    let variance = by_second.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (by_second.len() - 1) as f64;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

/// Its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// zoned drive: sim:zn540, null, or a device such as /dev/ng0n1
    #[arg(long)]
    pub device: String,
    /// conventional drive to compare with; none leaves it out
    #[arg(long)]
    pub conventional: String,
    /// points: few, figure (those of the study's figure), study (all that were published) or wide (beyond them)
    #[arg(long)]
    pub grid: Grid,
    /// how long each point is measured
    #[arg(long)]
    pub time: Span,
    /// how long each point runs before counting begins
    #[arg(long)]
    pub ramp: Span,
    /// queue depth of the reader of 4 KiB beside the writers
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub read_depth: u32,
}

impl ZnsStudy for ZnsHeavy {
    const ID: &'static str = "zns-heavy";
    const TITLE: &'static str = "Zoned and conventional drive: bandwidth over time under heavy writes";
    const SUMMARY: &'static str = "Four writers with 1 MiB requests at depth 32, limited or not, beside random reads: how steady the bandwidth is when the \
         drive has nothing left to clean, and when it has.";
    const PAGE: &'static str = include_str!("../../../docs/experiments/zns-heavy.md");
    const PUBLISHED: &'static str = include_str!("../../../data/published/zns-heavy.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/zns-heavy.claims.toml");
    type Spec = Spec;

    fn defaults(level: Level) -> Spec {
        Spec {
            device: ZONED.into(),
            conventional: CONVENTIONAL.into(),
            grid: Grid::of(level),
            time: Span::from_millis(level.of([1000, 60_000, 1_200_000])),
            ramp: ramp(level),
            read_depth: level.of([4, 4, 32]),
        }
    }

    fn points(spec: &Spec) -> Result<Vec<Point>, Failure> {
        let rates: &[u64] = if spec.grid <= Grid::Figure { &[0] } else { &[250, 750, 1115, 0] };
        let mut points = Vec::new();
        for (drive, device) in [("zoned", &*spec.device), ("conventional", &*spec.conventional)] {
            if device == "none" {
                continue;
            }
            let simulated = matches!(device.parse::<DeviceName>()?, DeviceName::Sim(_));
            for rate in rates {
                let job = job(*rate, drive == "conventional" && simulated, spec)?;
                points.push(Point::new(key(drive, *rate), device, job).and(&key(drive, *rate), 1, None, "writer_"));
            }
        }
        Ok(points)
    }

    fn findings(measured: &Measured) -> Vec<Finding> {
        let zoned = variation(measured.by_second(&key("zoned", 0)));
        let conventional = variation(measured.by_second(&key("conventional", 0)));
        let bandwidth = |drive| measured.get(&key(drive, 0), "writer_bw_mib");
        let steady = || {
            let (mean, spread) = (bandwidth("zoned")?, zoned?);
            Some((spread < 0.05, format!("{mean:.0} MiB/s, coefficient of variation {:.1} %", spread * 100.0)))
        };
        let unsteady = || {
            let (mean, spread) = (bandwidth("conventional")?, conventional?);
            let words = format!("{mean:.0} MiB/s, coefficient of variation {:.1} %", spread * 100.0);
            Some((spread > 5.0 * zoned? && mean < 0.7 * bandwidth("zoned")?, words))
        };
        let reads = || {
            let (zoned, other) =
                (measured.get(&key("zoned", 0), "iops")?, measured.get(&key("conventional", 0), "iops")?);
            Some((other < 0.8 * zoned, format!("{other:.0} against {zoned:.0} reads/s")))
        };
        vec![
            judged("A zoned drive holds its bandwidth under saturating writes", "1155 MiB/s, 1.5 %", steady()),
            judged("A worn conventional drive does not", "561 MiB/s, 54 %", unsteady()),
            judged("Its reads suffer too", "half the reads of the zoned drive", reads()),
        ]
    }

    fn figures(measured: &Measured, _comparison: &[Comparison]) -> Vec<Figure> {
        let mark = if measured.simulated { Mark::Modelled } else { Mark::Measured };
        let series = ["zoned", "conventional"].into_iter().filter_map(|drive| {
            let values = measured.by_second(&key(drive, 0));
            let points = values.iter().enumerate().map(|(second, value)| (second as f64 + 0.5, *value)).collect();
            (!values.is_empty()).then(|| Series::new(drive, mark, points))
        });
        vec![Figure {
            id: "bandwidth".into(),
            title: "Bandwidth of unlimited writers over time".into(),
            caption: "Each point is one second of four writers together.".into(),
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
