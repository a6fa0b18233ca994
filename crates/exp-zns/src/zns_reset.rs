//! What a reset costs by how full the zone is.

use crate::zns::compare::Comparison;
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{Measured, Point};
use crate::zns::{Grid, ZONED, ZnsStudy, judged};
use clap::Args;
use senesce_core::{Axis, Better, Failure, Figure, Finding, Level};
use senesce_zoned::job::{Activity, ActorSpec, Job, Preparation, PrepareStep, Span, Zones};
use serde::{Deserialize, Serialize};

/// Blocks of 4 KiB in a zone of the published drive.
pub const PUBLISHED_CAPACITY: f64 = 275_712.0;

/// Parameters of the experiments that fill zones and manage them, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FillSpec {
    /// zoned drive: sim:zn540, null, or a device such as /dev/ng0n1
    #[arg(long)]
    pub device: String,
    /// points: few, figure (those of the study's figure), study (all that were published) or wide (beyond them)
    #[arg(long)]
    pub grid: Grid,
    /// zones that are used, one after the other
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub zones: u32,
    /// how often every zone is used per point
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
}

impl FillSpec {
    /// The parameters of a level.
    pub fn defaults(level: Level) -> Self {
        Self {
            device: ZONED.into(),
            grid: Grid::of(level),
            zones: level.of([20, 200, 903]),
            rounds: level.of([1, 5, 3]),
        }
    }
}

/// Published fillings in blocks of 4 KiB: none, one block, 1/16, 1/8, 1/4, 1/2 and all of a zone.
pub fn fillings(grid: Grid, full: u64) -> Vec<u64> {
    match grid {
        Grid::Few => vec![0, 137_856, full],
        Grid::Figure | Grid::Study => vec![0, 1, 17_232, 34_464, 68_928, 137_856, full],
        Grid::Wide => {
            let more = (1..10).map(|tenth| 27_571 * tenth);
            [0, 1, 512, 1488, 4096, 17_232, 34_464, 68_928, 137_856, full].into_iter().chain(more).collect()
        }
    }
}

/// An actor that fills each zone to so many published blocks, waits and runs its zone command.
pub fn timed_actor(op: Activity, blocks: u64, spec: &FillSpec) -> ActorSpec {
    ActorSpec {
        zones: Zones::Count(spec.zones),
        occupancy: Some((blocks as f64 / PUBLISHED_CAPACITY).min(1.0)),
        count: Some(u64::from(spec.zones) * spec.rounds),
        pause: Span::seconds(0.001),
        ..ActorSpec::new(op)
    }
}

/// Resets.
pub struct ZnsReset;

fn mean_ms(measured: &Measured, blocks: u64) -> Option<f64> {
    Some(measured.get(&format!("op=reset,blocks={blocks}"), "lat_mean_us")? / 1000.0)
}

impl ZnsStudy for ZnsReset {
    const ID: &'static str = "zns-reset";
    const TITLE: &'static str = "Zoned drive: cost of a reset by occupancy";
    const SUMMARY: &'static str =
        "Each zone is opened, written up to a share of its capacity and reset; the reset is timed.";
    const PAGE: &'static str = include_str!("../../../docs/experiments/zns-reset.md");
    const PUBLISHED: &'static str = include_str!("../../../data/published/zns-reset.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/zns-reset.claims.toml");
    type Spec = FillSpec;

    fn defaults(level: Level) -> FillSpec {
        FillSpec::defaults(level)
    }

    fn points(spec: &FillSpec) -> Result<Vec<Point>, Failure> {
        let device = &*spec.device;
        let mut points = Vec::new();
        for blocks in fillings(spec.grid, PUBLISHED_CAPACITY as u64) {
            let job = Job::of(vec![timed_actor(Activity::Reset, blocks, spec)]);
            points.push(Point::new(format!("op=reset,blocks={blocks}"), device, job));
        }
        let zones = Zones::Count(spec.zones);
        let untouched = Job {
            prepare: Some(vec![Preparation { step: PrepareStep::Reset, zones, to: 1.0 }]),
            ..Job::of(vec![ActorSpec { zones, ..ActorSpec::new(Activity::Reset) }])
        };
        points.push(Point::new("op=reset,untouched=1", device, untouched));
        Ok(points)
    }

    fn findings(measured: &Measured) -> Vec<Finding> {
        let full = PUBLISHED_CAPACITY as u64;
        let grows = || {
            let (half, all) = (mean_ms(measured, 137_856)?, mean_ms(measured, full)?);
            let empty = mean_ms(measured, 0)?;
            let words = format!("{empty:.2}, {half:.2} and {all:.2} ms when empty, half full and full");
            Some((empty < half && half < all, words))
        };
        let open = || {
            let sixteenth = mean_ms(measured, 17_232)?;
            let (empty, all) = (mean_ms(measured, 0)?, mean_ms(measured, full)?);
            let line = empty + (all - empty) / 16.0;
            Some((
                sixteenth > 1.5 * line,
                format!("{sixteenth:.2} ms at 6.25 %, {line:.2} ms on the line from empty to full"),
            ))
        };
        let untouched = || {
            let never = measured.get("op=reset,untouched=1", "lat_mean_us")?;
            let opened = mean_ms(measured, 0)? * 1000.0;
            Some((opened > 50.0 * never, format!("{never:.1} us never opened, {opened:.0} us opened but empty")))
        };
        vec![
            judged("A reset takes longer the fuller the zone is", "1.61, 11.61 and 16.19 ms", grows()),
            judged("An open, partly written zone costs extra", "5.15 ms at 6.25 %", open()),
            judged("A zone that was never opened resets for nothing", "2.3 us and 1.61 ms", untouched()),
        ]
    }

    fn figures(measured: &Measured, comparison: &[Comparison]) -> Vec<Figure> {
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
