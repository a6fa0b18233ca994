//! Bandwidth: appends to one zone by depth against writes to several zones.

use crate::zns::compare::Comparison;
use crate::zns::condition::grid_key;
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{Measured, Point};
use crate::zns::{Grid, GridSpec, ZnsStudy, judged};
use crate::zns_request_size::{grid_keys, grid_points};
use senesce_core::{Axis, Better, Failure, Figure, Finding, Level};

/// Bandwidth.
pub struct ZnsBandwidth;

fn bandwidth(measured: &Measured, op: &str, bs: u64, qd: u64, zones: u64) -> Option<f64> {
    measured.get(&grid_key(op, bs, qd, zones, "direct", 4096), "bw_mib")
}

impl ZnsStudy for ZnsBandwidth {
    const ID: &'static str = "zns-bandwidth";
    const TITLE: &'static str = "Zoned drive: bandwidth of appends by depth against writes over zones";
    const SUMMARY: &'static str = "Two ways to keep a drive busy: several appends to one zone, or one write each to several zones; with requests of 4, 8 \
         and 16 KiB.";
    const PAGE: &'static str = include_str!("../../../docs/experiments/zns-bandwidth.md");
    const PUBLISHED: &'static str = include_str!("../../../data/published/zns-bandwidth.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/zns-bandwidth.claims.toml");
    type Spec = GridSpec;

    fn defaults(level: Level) -> GridSpec {
        GridSpec::defaults(level)
    }

    fn points(spec: &GridSpec) -> Result<Vec<Point>, Failure> {
        let grid = spec.grid;
        let mut keys = grid_keys(Self::PUBLISHED, |condition| grid > Grid::Few || condition.number("bs") <= 8192)?;
        if grid == Grid::Wide {
            for bs in [32768, 65536, 131072] {
                keys.extend([1, 2, 4, 8].map(|qd| grid_key("append", bs, qd, 1, "direct", 4096)));
                keys.extend([2, 4, 8].map(|zones| grid_key("write", bs, 1, zones, "direct", 4096)));
            }
        }
        grid_points(&keys, spec)
    }

    fn findings(measured: &Measured) -> Vec<Finding> {
        let size = || {
            let small = bandwidth(measured, "append", 4096, 4, 1)?;
            let large = bandwidth(measured, "append", 8192, 4, 1)?;
            Some((large > 1.8 * small, format!("{small:.0} MiB/s with 4 KiB, {large:.0} with 8 KiB at depth 4")))
        };
        let same = || {
            let append = bandwidth(measured, "append", 8192, 4, 1)?;
            let write = bandwidth(measured, "write", 8192, 1, 4)?;
            let words = format!("{append:.0} MiB/s by 4 appends, {write:.0} by 4 zones, 8 KiB");
            Some(((append / write - 1.0).abs() < 0.05, words))
        };
        let never = || {
            let write = bandwidth(measured, "write", 4096, 1, 8)?;
            let append = bandwidth(measured, "append", 4096, 8, 1)?;
            let plateau = bandwidth(measured, "write", 8192, 1, 4)?;
            let words = format!("{write:.0} and {append:.0} MiB/s of {plateau:.0}");
            Some((write < 0.8 * plateau && append < write, words))
        };
        vec![
            judged("The size of requests counts for more than their number", "516 and 1145 MiB/s", size()),
            judged(
                "From 8 KiB on, appends and several zones both reach the flash's rate",
                "1145 and 1149 MiB/s",
                same(),
            ),
            judged("Requests of 4 KiB never reach it, appends less than writes", "726 and 517 of 1149 MiB/s", never()),
        ]
    }

    fn figures(measured: &Measured, comparison: &[Comparison]) -> Vec<Figure> {
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
