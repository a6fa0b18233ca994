//! What a finish costs by how full the zone is, and the reset of the finished zone.

use crate::zns::compare::Comparison;
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{Measured, Point};
use crate::zns::{ZnsStudy, judged};
use crate::zns_reset::{FillSpec, PUBLISHED_CAPACITY, fillings, timed_actor};
use senesce_core::{Axis, Better, Failure, Figure, Finding, Level};
use senesce_zoned::Operation;
use senesce_zoned::job::{Activity, Job};

/// Finishes.
pub struct ZnsFinish;

const ALL_BUT_ONE: u64 = PUBLISHED_CAPACITY as u64 - 1;

fn mean_ms(measured: &Measured, op: &str, blocks: u64) -> Option<f64> {
    Some(measured.get(&format!("op={op},blocks={blocks}"), "lat_mean_us")? / 1000.0)
}

impl ZnsStudy for ZnsFinish {
    const ID: &'static str = "zns-finish";
    const TITLE: &'static str = "Zoned drive: cost of a finish by occupancy, and of the reset after it";
    const SUMMARY: &'static str =
        "Each zone is opened, written up to a share of its capacity and finished, then reset; both are timed.";
    const PAGE: &'static str = include_str!("../../../docs/experiments/zns-finish.md");
    const PUBLISHED: &'static str = include_str!("../../../data/published/zns-finish.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/zns-finish.claims.toml");
    type Spec = FillSpec;

    fn defaults(level: Level) -> FillSpec {
        FillSpec::defaults(level)
    }

    fn points(spec: &FillSpec) -> Result<Vec<Point>, Failure> {
        let mut points = Vec::new();
        for blocks in fillings(spec.grid, ALL_BUT_ONE) {
            let job = Job::of(vec![timed_actor(Activity::Finish, blocks, spec)]);
            let after = format!("op=reset-of-finished,blocks={blocks}");
            let point = Point::new(format!("op=finish,blocks={blocks}"), &*spec.device, job);
            points.push(point.and(&after, 0, Some(Operation::Reset), ""));
        }
        Ok(points)
    }

    fn findings(measured: &Measured) -> Vec<Finding> {
        let shrinks = || {
            let half = mean_ms(measured, "finish", 137_856)?;
            let full = mean_ms(measured, "finish", ALL_BUT_ONE)?;
            let one = mean_ms(measured, "finish", 1)?;
            let words = format!("{one:.0}, {half:.0} and {full:.1} ms with one block, half and all but one written");
            Some((half < one && full < 0.1 * half, words))
        };
        let dearest = || {
            let half = mean_ms(measured, "finish", 137_856)?;
            let reset = mean_ms(measured, "reset-of-finished", 137_856)?;
            Some((half > 10.0 * reset, format!("{half:.0} ms against {reset:.2} ms for the reset")))
        };
        let line = || {
            let (empty, half) =
                (mean_ms(measured, "reset-of-finished", 0)?, mean_ms(measured, "reset-of-finished", 137_856)?);
            let full = mean_ms(measured, "reset-of-finished", ALL_BUT_ONE)?;
            let straight = (empty + full) / 2.0;
            let words = format!("{half:.2} ms at half, {straight:.2} ms on the line from empty to full");
            Some(((half / straight - 1.0).abs() < 0.1, words))
        };
        vec![
            judged("A finish takes less the fuller the zone is", "907, 457 and 3.1 ms", shrinks()),
            judged("It is the dearest of all zone commands", "457 ms against 8.5 ms", dearest()),
            judged(
                "The reset of a finished zone grows with what the host wrote, not with the padding",
                "8.52 of 8.48 ms",
                line(),
            ),
        ]
    }

    fn figures(measured: &Measured, comparison: &[Comparison]) -> Vec<Figure> {
        let chart = |id, title, caption, axis: Axis| Chart {
            id,
            title,
            caption,
            metric: "lat_mean_us",
            axes: (Axis::linear("occupancy (%)").from_zero(), axis),
            along: ("blocks", PUBLISHED_CAPACITY / 100.0),
            better: Better::Lower,
        };
        let finish = [Line::new("finish", &[("op", "finish")])];
        let reset = [Line::new("reset of the finished zone", &[("op", "reset-of-finished")])];
        let latency = || Axis::linear("mean latency (us)").from_zero();
        vec![
            chart(
                "finish",
                "Finish by occupancy",
                "Mean latency by how much of the zone was written. The lower of the two points at 0 % is an opened zone \
                 without data, the upper one a zone with a single block.",
                latency(),
            )
            .draw(&finish, measured, comparison),
            chart(
                "reset",
                "Reset of finished zones",
                "Mean latency by how much of the zone was written before its finish.",
                latency(),
            )
            .draw(&reset, measured, comparison),
        ]
    }
}
