use super::{Point, SUBJECTS, Spec};
use crate::tier::subject::SubjectKind;
use senesce_core::analysis::Better;
use senesce_core::{Axis, Figure, FigureKind, Mark, Series};
use senesce_stats::{mean, middle};

fn line(points: &[Point], subject: &str) -> Series {
    let mut series = Series { name: SubjectKind::label(subject).into(), mark: Mark::Measured, ..Series::default() };
    let of = points.iter().filter(|point| point.subject == subject);
    let mut shares: Vec<f64> = of.clone().map(|point| point.cold_percent).collect();
    shares.dedup();
    for share in shares {
        let same = || of.clone().filter(|point| point.cold_percent == share);
        let fetched = mean(&same().map(|point| point.fetched_percent).collect::<Vec<_>>());
        let means: Vec<f64> = same().map(|point| point.mean_us).collect();
        if let Some((fetched, estimate)) = fetched.zip(middle(&means)) {
            series.points.push((fetched, estimate.value));
            series.intervals.push(estimate.ends());
        }
    }
    series
}

pub(super) fn figure(points: &[Point], spec: &Spec) -> Figure {
    let series = SUBJECTS.iter().map(|subject| line(points, subject.name()));
    Figure {
        id: "coldness".into(),
        title: "Latency by the share of cold reads".into(),
        caption:
            "Mean latency of reading 4 KiB over the share of reads that were fetched from the disk: median over the rounds, \
                  with its 95 % interval from 5 rounds on."
                .into(),
        device: format!("memory, the disk of {}, and modelled disks: {}", spec.disk, spec.cold_latency),
        better: Better::Lower,
        kind: FigureKind::Lines {
            x: Axis::linear("fetched (% of reads)").from_zero(),
            y: Axis::linear("mean latency (us)").from_zero(),
            series: series.filter(|series| !series.points.is_empty()).collect(),
        },
    }
}
