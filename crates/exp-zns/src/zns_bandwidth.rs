//! Bandwidth of appends to one zone by queue depth, and of writes to several zones.

use crate::zns::compare::Comparison;
use crate::zns::condition::{grid_key, grid_keys, grid_points};
use crate::zns::drives::Drives;
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{DeviceValues, Point};
use crate::zns::{Grid, GridSpec, ZnsStudy};
use senesce_core::{Axis, Better, Failure, Figure};

pub struct ZnsBandwidth;

impl ZnsStudy for ZnsBandwidth {
    const ID: &'static str = "zns-bandwidth";
    const TITLE: &'static str = "Zoned drive: bandwidth of appends by queue depth and of writes by number of zones";
    const SUMMARY: &'static str = "A host can keep a drive busy with several appends to one zone, or with one write \
                                   to each of several zones. Requests have 4, 8 and 16 KiB.";
    const PAGE: &'static str = include_str!("../docs/experiments/zns-bandwidth.md");
    const PUBLISHED: &'static str = include_str!("../data/published/zns-bandwidth.csv");
    const CLAIMS: &'static str = include_str!("../data/published/zns-bandwidth.claims.toml");
    type Spec = GridSpec;

    fn points(spec: &GridSpec, drives: &Drives) -> Result<Vec<Point>, Failure> {
        let grid = spec.grid;
        let mut keys = grid_keys(Self::PUBLISHED, |condition| grid > Grid::Few || condition.number("bs") <= 8192)?;
        if grid == Grid::Wide {
            for bs in [32768, 65536, 131072] {
                keys.extend([1, 2, 4, 8].map(|qd| grid_key("append", bs, qd, 1, "direct", 4096)));
                keys.extend([2, 4, 8].map(|zones| grid_key("write", bs, 1, zones, "direct", 4096)));
            }
        }
        Ok(grid_points(&keys, spec, drives))
    }

    fn figures(measured: &DeviceValues, comparison: &[Comparison]) -> Vec<Figure> {
        let sizes = [("4096", "4 KiB"), ("8192", "8 KiB"), ("16384", "16 KiB")];
        let draw = |id, title, op, along, axis: &str| {
            let lines: Vec<Line<'_>> =
                sizes.iter().map(|(bs, name)| Line::new(format!("{op} {name}"), &[("op", op), ("bs", bs)])).collect();
            let chart = Chart {
                id,
                title,
                caption: "User-space path, blocks of 4 KiB.",
                metric: "bw_mib",
                axes: (Axis::linear(axis), Axis::linear("bandwidth (MiB/s)").from_zero()),
                along: (along, 1.0),
                better: Better::Higher,
            };
            chart.draw(&lines, measured, comparison)
        };
        vec![
            draw("append", "Appends to one zone", "append", "qd", "queue depth"),
            draw("write", "Writes to several zones", "write", "zones", "zones"),
        ]
    }
}
