//! Latency at depth 1 by request size, LBA format and I/O path.

use crate::zns::compare::Comparison;
use crate::zns::condition::{Condition, grid_key, grid_keys, grid_points};
use crate::zns::drives::Drives;
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{DeviceValues, Point};
use crate::zns::{Grid, GridSpec, ZnsStudy};
use senesce_core::{Axis, Better, Failure, Figure};

pub struct ZnsRequestSize;

fn keeps(condition: &Condition, grid: Grid) -> bool {
    match grid {
        Grid::Few => condition.is(&[("lbaf", "4096")]) && [4096, 131072].contains(&condition.number("bs")),
        _ => true,
    }
}

impl ZnsStudy for ZnsRequestSize {
    const ID: &'static str = "zns-request-size";
    const TITLE: &'static str = "Zoned drive: latency of one write or append by request size, LBA format and I/O path";
    const SUMMARY: &'static str = "One command in flight in one zone: the cost of a write and an append by size, \
        with blocks of 512 B and 4 KiB, from user space and through the block layer.";
    const PAGE: &'static str = include_str!("../docs/experiments/zns-request-size.md");
    const PUBLISHED: &'static str = include_str!("../data/published/zns-request-size.csv");
    const CLAIMS: &'static str = include_str!("../data/published/zns-request-size.claims.toml");
    type Spec = GridSpec;

    fn points(spec: &GridSpec, drives: &Drives) -> Result<Vec<Point>, Failure> {
        let grid = spec.grid;
        let mut keys = grid_keys(Self::PUBLISHED, |condition| keeps(condition, grid))?;
        if grid == Grid::Wide {
            for bs in [262144, 524288, 1048576] {
                keys.extend(["write", "append"].map(|op| grid_key(op, bs, 1, 1, "direct", 4096)));
            }
        }
        Ok(grid_points(&keys, spec, drives))
    }

    fn figures(measured: &DeviceValues, comparison: &[Comparison]) -> Vec<Figure> {
        let lines = [
            Line::new("write", &[("op", "write"), ("path", "direct"), ("lbaf", "4096")]),
            Line::new("append", &[("op", "append"), ("path", "direct"), ("lbaf", "4096")]),
            Line::new("write, none", &[("op", "write"), ("path", "none"), ("lbaf", "4096")]),
            Line::new("write, 512 B blocks", &[("op", "write"), ("path", "direct"), ("lbaf", "512")]),
        ];
        let chart = |id, title, metric, label: &str, better| Chart {
            id,
            title,
            caption: "One zone, one command in flight.",
            metric,
            axes: (Axis::linear("request size").log2().in_bytes(), Axis::linear(label).log10()),
            along: ("bs", 1.0),
            better,
        };
        vec![
            chart("latency", "Latency by request size", "lat_mean_us", "mean latency (us)", Better::Lower)
                .draw(&lines, measured, comparison),
            chart("iops", "Requests per second by size", "iops", "requests (1/s)", Better::Higher)
                .draw(&lines, measured, comparison),
        ]
    }
}
