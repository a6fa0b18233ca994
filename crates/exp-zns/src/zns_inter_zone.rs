//! Throughput over several zones with one command in flight in each.

use crate::zns::compare::Comparison;
use crate::zns::condition::{Condition, grid_key, grid_keys, grid_points};
use crate::zns::drives::Drives;
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{DeviceValues, Point};
use crate::zns::{Grid, GridSpec, ZnsStudy};
use senesce_core::{Axis, Better, Failure, Figure};

pub struct ZnsInterZone;

fn keeps(condition: &Condition, grid: Grid) -> bool {
    let four = condition.number("bs") == 4096;
    match grid {
        Grid::Few => four && condition.is(&[("path", "direct")]) && condition.number("zones") <= 8,
        Grid::Figure => four,
        Grid::Study | Grid::Wide => true,
    }
}

impl ZnsStudy for ZnsInterZone {
    const ID: &'static str = "zns-inter-zone";
    const TITLE: &'static str = "Zoned drive: how far writes, appends and reads scale with the number of zones";
    const SUMMARY: &'static str = "Several zones at once, with one command in flight in each: the gain from \
                                   concurrent zones compared with queue depth in one zone.";
    const PAGE: &'static str = include_str!("../docs/experiments/zns-inter-zone.md");
    const PUBLISHED: &'static str = include_str!("../data/published/zns-inter-zone.csv");
    const CLAIMS: &'static str = include_str!("../data/published/zns-inter-zone.claims.toml");
    type Spec = GridSpec;

    fn points(spec: &GridSpec, drives: &Drives) -> Result<Vec<Point>, Failure> {
        let grid = spec.grid;
        let mut keys = grid_keys(Self::PUBLISHED, |condition| keeps(condition, grid))?;
        if grid == Grid::Wide {
            let zones = [3, 6, 10, 12].into_iter();
            keys.extend(zones.flat_map(|zones| {
                ["write", "append", "randread"].map(|op| grid_key(op, 4096, 1, zones, "direct", 4096))
            }));
        }
        Ok(grid_points(&keys, spec, drives))
    }

    fn figures(measured: &DeviceValues, comparison: &[Comparison]) -> Vec<Figure> {
        let lines = [
            Line::new("write", &[("op", "write"), ("path", "direct"), ("bs", "4096")]),
            Line::new("append", &[("op", "append"), ("path", "direct"), ("bs", "4096")]),
            Line::new("random read", &[("op", "randread"), ("path", "direct"), ("bs", "4096")]),
        ];
        let chart = Chart {
            id: "iops",
            title: "Requests per second by number of zones",
            caption: "Requests of 4 KiB, one in flight in each zone. Published values at 14 zones are left out: \
                      there, 14 polling threads shared 10 processors.",
            metric: "iops",
            axes: (Axis::linear("zones"), Axis::linear("requests (1/s)").from_zero()),
            along: ("zones", 1.0),
            better: Better::Higher,
        };
        vec![chart.draw(&lines, measured, comparison)]
    }
}
