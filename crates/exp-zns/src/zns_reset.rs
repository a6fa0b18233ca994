//! Cost of a reset by occupancy of the zone.

use crate::zns::compare::Comparison;
use crate::zns::drives::{Drives, Names, zones};
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{DeviceValues, Point};
use crate::zns::{Grid, Parameters, ZONED, ZnsStudy, once};
use clap::Args;
use senesce_core::{Axis, Better, Failure, Figure, Level};
use senesce_zoned::job::{Activity, ActorSpec, Job, Preparation, PrepareStep, Span};
use senesce_zoned::survey::Survey;
use serde::{Deserialize, Serialize};

/// Blocks of 4 KiB in a zone of the published drive.
pub(crate) const PUBLISHED_CAPACITY: f64 = 275_712.0;

/// Parameters of the experiments that fill zones and manage them one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FillSpec {
    /// zoned drive: sim:zn540, null, or a device such as /dev/ng0n1
    #[arg(long)]
    pub device: String,
    /// points: few, figure (the study's figure), study (all published ones) or wide (beyond them)
    #[arg(long)]
    pub grid: Grid,
    /// zones to use, one after the other
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub zones: u32,
    /// uses of each zone per point
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// measurements of each point; verdicts on a real drive need 5
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[serde(default = "once")]
    pub repetitions: u32,
}

impl Parameters for FillSpec {
    fn defaults(level: Level) -> Self {
        Self {
            device: ZONED.into(),
            grid: Grid::of(level),
            zones: level.of([20, 200, 903]),
            rounds: level.of([1, 5, 3]),
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

/// Returns the published occupancies in blocks of 4 KiB: none, one block, 1/16, 1/8, 1/4, 1/2 and all of a zone.
pub(crate) fn fillings(grid: Grid, full: u64) -> Vec<u64> {
    match grid {
        Grid::Few => vec![0, 137_856, full],
        Grid::Figure | Grid::Study => vec![0, 1, 17_232, 34_464, 68_928, 137_856, full],
        Grid::Wide => {
            let more = (1..10).map(|tenth| 27_571 * tenth);
            [0, 1, 512, 1488, 4096, 17_232, 34_464, 68_928, 137_856, full].into_iter().chain(more).collect()
        }
    }
}

/// Returns the share of a drive's zone that corresponds to a published number of blocks. One block and all but one
/// block are taken as such; other numbers become the same share of a zone.
pub(crate) fn share(drive: &Survey, blocks: u64) -> f64 {
    let own = drive.geometry.capacity_bytes() as f64 / 4096.0;
    match blocks {
        1 => 1.0 / own,
        blocks if blocks == PUBLISHED_CAPACITY as u64 - 1 => 1.0 - 1.0 / own,
        blocks => (blocks as f64 / PUBLISHED_CAPACITY).min(1.0),
    }
}

pub(crate) fn timed_actor(op: Activity, blocks: u64, spec: &FillSpec, drive: &Survey) -> ActorSpec {
    let count = spec.zones.min(drive.usable().len() as u32);
    ActorSpec {
        zones: zones(drive, 0, count),
        occupancy: Some(share(drive, blocks).clamp(0.0, 1.0)),
        count: Some(u64::from(count) * spec.rounds),
        pause: Span::seconds(0.001),
        ..ActorSpec::new(op)
    }
}

pub(crate) fn adapted(spec: &FillSpec, drive: &Survey) -> Vec<String> {
    let (own, usable) = (drive.geometry.capacity_bytes() / 4096, drive.usable().len() as u32);
    let smaller = (own as f64 != PUBLISHED_CAPACITY)
        .then(|| format!("blocks are shares of a published zone of {PUBLISHED_CAPACITY}: a full zone has {own} here"));
    let fewer = (usable < spec.zones)
        .then(|| format!("{usable} zones instead of {}: the drive has no more usable ones", spec.zones));
    smaller.into_iter().chain(fewer).collect()
}

pub struct ZnsReset;

impl ZnsStudy for ZnsReset {
    const ID: &'static str = "zns-reset";
    const TITLE: &'static str = "Zoned drive: cost of a reset by occupancy";
    const SUMMARY: &'static str =
        "Each zone is opened, written up to a share of its capacity and reset; the reset is timed.";
    const PAGE: &'static str = include_str!("../docs/experiments/zns-reset.md");
    const PUBLISHED: &'static str = include_str!("../data/published/zns-reset.csv");
    const CLAIMS: &'static str = include_str!("../data/published/zns-reset.claims.toml");
    type Spec = FillSpec;

    fn points(spec: &FillSpec, drives: &Drives) -> Result<Vec<Point>, Failure> {
        let (device, drive) = (&*drives.zoned.name, &drives.zoned);
        let mut points = Vec::new();
        for blocks in fillings(spec.grid, PUBLISHED_CAPACITY as u64) {
            let job = Job::of(vec![timed_actor(Activity::Reset, blocks, spec, drive)]);
            points.push(Point::new(format!("op=reset,blocks={blocks}"), device, job).adapted(adapted(spec, drive)));
        }
        let zones = zones(drive, 0, spec.zones.min(drive.usable().len() as u32));
        let untouched = Job {
            prepare: Some(vec![Preparation { step: PrepareStep::Reset, zones, to: 1.0 }]),
            ..Job::of(vec![ActorSpec { zones, ..ActorSpec::new(Activity::Reset) }])
        };
        points.push(Point::new("op=reset,untouched=1", device, untouched));
        Ok(points)
    }

    fn figures(measured: &DeviceValues, comparison: &[Comparison]) -> Vec<Figure> {
        let chart = Chart {
            id: "reset",
            title: "Reset by occupancy",
            caption: "Mean latency of the reset of an opened zone.",
            metric: "lat_mean_us",
            axes: (Axis::linear("occupancy (%)").from_zero(), Axis::linear("mean latency (us)").from_zero()),
            along: ("blocks", PUBLISHED_CAPACITY / 100.0),
            better: Better::Lower,
        };
        vec![chart.draw(&[Line::new("reset", &[("op", "reset")])], measured, comparison)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_published_blocks_or_rounded_to_whole_blocks() {
        let mut drive = Survey::of(&ZONED.parse().unwrap()).unwrap();
        for blocks in [0, 1, 17_232, 137_856, 275_711, 275_712] {
            assert_eq!((share(&drive, blocks) * PUBLISHED_CAPACITY).round() as u64, blocks);
        }
        drive.geometry.capacity_blocks = 1024;
        let own = |blocks| (share(&drive, blocks) * 1024.0).round() as u64;
        assert_eq!([0, 1, 17_232, 137_856, 275_711, 275_712].map(own), [0, 1, 64, 512, 1023, 1024]);
    }
}
