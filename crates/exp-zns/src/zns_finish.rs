//! Cost of a finish by occupancy of the zone, and of the reset after it.

use crate::zns::ZnsStudy;
use crate::zns::compare::Comparison;
use crate::zns::drives::Drives;
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{DeviceValues, Point};
use crate::zns::values::Derived;
use crate::zns_reset::{FillSpec, PUBLISHED_CAPACITY, adapted, fillings, timed_actor};
use senesce_core::{Axis, Better, Failure, Figure};
use senesce_zoned::Operation;
use senesce_zoned::job::{Activity, Job};

pub struct ZnsFinish;

const ALL_BUT_ONE: u64 = PUBLISHED_CAPACITY as u64 - 1;

impl ZnsStudy for ZnsFinish {
    const ID: &'static str = "zns-finish";
    const TITLE: &'static str = "Zoned drive: cost of a finish by occupancy, and of the reset after it";
    const SUMMARY: &'static str =
        "Each zone is opened, written up to a share of its capacity and finished, then reset; both are timed.";
    const PAGE: &'static str = include_str!("../docs/experiments/zns-finish.md");
    const PUBLISHED: &'static str = include_str!("../data/published/zns-finish.csv");
    const CLAIMS: &'static str = include_str!("../data/published/zns-finish.claims.toml");
    type Spec = FillSpec;

    fn points(spec: &FillSpec, drives: &Drives) -> Result<Vec<Point>, Failure> {
        let mut points = Vec::new();
        for blocks in fillings(spec.grid, ALL_BUT_ONE) {
            let job = Job::of(vec![timed_actor(Activity::Finish, blocks, spec, &drives.zoned)]);
            let after = format!("op=reset-of-finished,blocks={blocks}");
            let point = Point::new(format!("op=finish,blocks={blocks}"), &*drives.zoned.name, job);
            let point = point.adapted(adapted(spec, &drives.zoned));
            points.push(point.and(&after, 0, Some(Operation::Reset), ""));
        }
        Ok(points)
    }

    fn derived(measured: &DeviceValues) -> Vec<Derived> {
        let key = "op=finish,blocks=1";
        let Some(us) = measured.get(key, "lat_mean_us").filter(|us| *us > 0.0) else { return Vec::new() };
        // Padding is known only for zones of the published size.
        if !measured.is_of_published_drive(key) {
            return Vec::new();
        }
        let mib = ALL_BUT_ONE as f64 / 256.0;
        let value = mib / us * 1e6;
        vec![Derived { key: key.into(), metric: "padding_mib", unit: "MiB/s", better: Better::Higher, value }]
    }

    fn figures(measured: &DeviceValues, comparison: &[Comparison]) -> Vec<Figure> {
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
                "Mean latency by written share of the zone. The lower of the two points at 0 % is an opened zone \
                 without data, the upper one a zone with a single block.",
                latency(),
            )
            .draw(&finish, measured, comparison),
            chart(
                "reset",
                "Reset of finished zones",
                "Mean latency by written share of the zone before its finish.",
                latency(),
            )
            .draw(&reset, measured, comparison),
        ]
    }
}
