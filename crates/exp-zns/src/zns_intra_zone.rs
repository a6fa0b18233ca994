//! Throughput inside one zone by queue depth: appends, merged writes, random reads.

use crate::zns::compare::Comparison;
use crate::zns::condition::{Condition, grid_key, grid_keys, grid_points};
use crate::zns::drives::Drives;
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{DeviceValues, Point};
use crate::zns::{Grid, GridSpec, ZnsStudy};
use senesce_core::{Axis, Better, Failure, Figure};

pub struct ZnsIntraZone;

fn keeps(condition: &Condition, grid: Grid) -> bool {
    let four = condition.number("bs") == 4096;
    let depth = condition.number("qd");
    match grid {
        Grid::Few => four && [1, 4, 32].contains(&depth),
        Grid::Figure => four && depth <= 64,
        Grid::Study | Grid::Wide => true,
    }
}

impl ZnsStudy for ZnsIntraZone {
    const ID: &'static str = "zns-intra-zone";
    const TITLE: &'static str = "Zoned drive: how far one zone scales with queue depth";
    const SUMMARY: &'static str = "Appends, writes through mq-deadline and random reads in one zone, by queue \
        depth. The results show which operations run in parallel inside a zone, and whether the drive or the \
        scheduler does the work.";
    const PAGE: &'static str = include_str!("../docs/experiments/zns-intra-zone.md");
    const PUBLISHED: &'static str = include_str!("../data/published/zns-intra-zone.csv");
    const CLAIMS: &'static str = include_str!("../data/published/zns-intra-zone.claims.toml");
    type Spec = GridSpec;

    fn points(spec: &GridSpec, drives: &Drives) -> Result<Vec<Point>, Failure> {
        let grid = spec.grid;
        let mut keys = grid_keys(Self::PUBLISHED, |condition| keeps(condition, grid))?;
        // The rate of several zones without merging, for comparison with merged writes.
        keys.push(grid_key("write", 4096, 1, 8, "direct", 4096));
        if grid == Grid::Wide {
            let sizes = [32768, 65536, 131072].into_iter();
            keys.extend(sizes.flat_map(|bs| [1, 4, 16].map(|qd| grid_key("randread", bs, qd, 1, "direct", 4096))));
            keys.extend([1, 4, 16].map(|qd| grid_key("seqread", 131072, qd, 1, "direct", 4096)));
        }
        Ok(grid_points(&keys, spec, drives))
    }

    fn figures(measured: &DeviceValues, comparison: &[Comparison]) -> Vec<Figure> {
        let lines = [
            Line::new("append", &[("op", "append"), ("path", "direct"), ("bs", "4096")]),
            Line::new("write, mq-deadline", &[("op", "write"), ("path", "mq-deadline"), ("bs", "4096")]),
            Line::new("random read", &[("op", "randread"), ("path", "direct"), ("bs", "4096")]),
        ];
        let chart = |id, title, metric, label: &str, better| Chart {
            id,
            title,
            caption: "One zone, requests of 4 KiB.",
            metric,
            axes: (Axis::linear("queue depth").log2(), Axis::linear(label).log10()),
            along: ("qd", 1.0),
            better,
        };
        vec![
            chart("iops", "Requests per second by queue depth", "iops", "requests (1/s)", Better::Higher)
                .draw(&lines, measured, comparison),
            chart("latency", "Latency by queue depth", "lat_mean_us", "mean latency (us)", Better::Lower)
                .draw(&lines, measured, comparison),
        ]
    }
}
