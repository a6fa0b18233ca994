//! Latency at depth 1 by request size, LBA format and way to the drive.

use crate::zns::compare::Comparison;
use crate::zns::condition::{Condition, grid_job, grid_key};
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{Measured, Point};
use crate::zns::{Grid, GridSpec, ZnsStudy, judged};
use senesce_core::{Axis, Better, Failure, Figure, Finding, Level, published};

/// Request sizes.
pub struct ZnsRequestSize;

fn latency(measured: &Measured, op: &str, bs: u64, path: &str, lbaf: u64) -> Option<f64> {
    measured.get(&grid_key(op, bs, 1, 1, path, lbaf), "lat_mean_us")
}

fn keeps(condition: &Condition, grid: Grid) -> bool {
    match grid {
        Grid::Few => condition.is(&[("lbaf", "4096")]) && [4096, 131072].contains(&condition.number("bs")),
        _ => true,
    }
}

impl ZnsStudy for ZnsRequestSize {
    const ID: &'static str = "zns-request-size";
    const TITLE: &'static str = "Zoned drive: latency of one write or append by request size, LBA format and I/O path";
    const SUMMARY: &'static str = "One command in flight in one zone: what a write and an append cost by size, with blocks of 512 B and 4 KiB, from user \
         space and through the block layer.";
    const PAGE: &'static str = include_str!("../../../docs/experiments/zns-request-size.md");
    const PUBLISHED: &'static str = include_str!("../../../data/published/zns-request-size.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/zns-request-size.claims.toml");
    type Spec = GridSpec;

    fn defaults(level: Level) -> GridSpec {
        GridSpec::defaults(level)
    }

    fn points(spec: &GridSpec) -> Result<Vec<Point>, Failure> {
        let grid = spec.grid;
        let mut keys = grid_keys(Self::PUBLISHED, |condition| keeps(condition, grid))?;
        if grid == Grid::Wide {
            for bs in [262144, 524288, 1048576] {
                keys.extend(["write", "append"].map(|op| grid_key(op, bs, 1, 1, "direct", 4096)));
            }
        }
        grid_points(&keys, spec)
    }

    fn findings(measured: &Measured) -> Vec<Finding> {
        let sizes: Vec<u64> = (12..=14).map(|shift| 1 << shift).collect();
        let pairs: Option<Vec<(u64, f64, f64)>> = [4096, 8192, 16384]
            .into_iter()
            .map(|bs| {
                let write = latency(measured, "write", bs, "direct", 4096)?;
                Some((bs, write, latency(measured, "append", bs, "direct", 4096)?))
            })
            .collect();
        let few = || {
            let write = latency(measured, "write", 4096, "direct", 4096)?;
            Some(vec![(4096, write, latency(measured, "append", 4096, "direct", 4096)?)])
        };
        let slower = pairs.or_else(few).map(|pairs| {
            let words: Vec<String> = pairs
                .iter()
                .map(|(bs, write, append)| format!("{} KiB: {write:.2} and {append:.2} us", bs >> 10))
                .collect();
            (pairs.iter().all(|(_, write, append)| append > write), words.join("; "))
        });
        let formats = || {
            let small =
                latency(measured, "write", 4096, "direct", 512)? / latency(measured, "write", 4096, "direct", 4096)?;
            let large =
                latency(measured, "write", 8192, "direct", 512)? / latency(measured, "write", 8192, "direct", 4096)?;
            let words = format!("ratio of 512 B to 4 KiB blocks: {small:.2} at 4 KiB, {large:.2} at 8 KiB");
            Some((small > 1.3 && (large - 1.0).abs() < 0.05, words))
        };
        let paths = || {
            let direct = latency(measured, "write", 4096, "direct", 4096)?;
            let none = latency(measured, "write", 4096, "none", 4096)?;
            let deadline = latency(measured, "write", 4096, "mq-deadline", 4096)?;
            let words = format!("{direct:.2} us direct, {none:.2} us none, {deadline:.2} us mq-deadline");
            Some((direct < none && none < deadline, words))
        };
        let bandwidth = || {
            let key = |bs| grid_key("write", bs, 1, 1, "direct", 4096);
            let (small, large) = (measured.get(&key(4096), "bw_mib")?, measured.get(&key(131072), "bw_mib")?);
            Some((large > 2.5 * small, format!("{small:.0} MiB/s at 4 KiB, {large:.0} MiB/s at 128 KiB")))
        };
        let eight = || {
            let four = latency(measured, "write", sizes[0], "direct", 4096)?;
            let eight = latency(measured, "write", sizes[1], "direct", 4096)?;
            Some((eight < four * 1.05, format!("{four:.2} us at 4 KiB, {eight:.2} us at 8 KiB")))
        };
        vec![
            judged(
                "An append is slower than a write of the same size below the flash's rate",
                "4 KiB 14.83 and 11.36 us",
                slower,
            ),
            judged(
                "Blocks of 512 B are slower below 8 KiB and cost nothing from 8 KiB on",
                "24.8 and 11.4 us at 4 KiB",
                formats(),
            ),
            judged("A request of 8 KiB takes no longer than one of 4 KiB", "11.24 and 11.36 us", eight()),
            judged("The block layer adds latency, its scheduler more", "11.36, 12.62 and 14.47 us", paths()),
            judged(
                "Large requests reach the flash's rate with one command in flight",
                "1146 MiB/s at 128 KiB",
                bandwidth(),
            ),
        ]
    }

    fn figures(measured: &Measured, comparison: &[Comparison]) -> Vec<Figure> {
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

/// The conditions of a published fio grid, each once, in their order; points of 14 zones stay out, which the study's host
/// could not drive.
pub fn grid_keys(text: &str, keep: impl Fn(&Condition) -> bool) -> Result<Vec<String>, Failure> {
    let values = published::parse(text).map_err(|error| Failure::usage(error.to_string()))?;
    let mut keys: Vec<String> = Vec::new();
    for value in values {
        let Some(condition) = Condition::parse(&value.condition) else { continue };
        if keep(&condition) && keys.last() != Some(&value.condition) && !keys.contains(&value.condition) {
            keys.push(value.condition);
        }
    }
    Ok(keys)
}

/// One job per condition of the fio grid.
pub fn grid_points(keys: &[String], spec: &GridSpec) -> Result<Vec<Point>, Failure> {
    let (time, ramp) = (spec.time.0, spec.ramp.0);
    let points = keys.iter().filter_map(|key| {
        let job = grid_job(&Condition::parse(key)?, time, ramp)?;
        Some(Point::new(key.clone(), &*spec.device, job))
    });
    Ok(points.collect())
}
