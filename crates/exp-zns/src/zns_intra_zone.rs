//! Throughput inside one zone by queue depth: appends, merged writes, random reads.

use crate::zns::compare::Comparison;
use crate::zns::condition::{Condition, grid_key};
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{Measured, Point};
use crate::zns::{Grid, GridSpec, ZnsStudy, judged};
use crate::zns_request_size::{grid_keys, grid_points};
use senesce_core::{Axis, Better, Failure, Figure, Finding, Level};

/// One zone.
pub struct ZnsIntraZone;

fn iops(measured: &Measured, op: &str, qd: u64, path: &str) -> Option<f64> {
    measured.get(&grid_key(op, 4096, qd, 1, path, 4096), "iops")
}

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
    const SUMMARY: &'static str = "Appends, writes through mq-deadline and random reads in one zone, by queue depth: which of them one zone can run in \
         parallel, and whose work that is.";
    const PAGE: &'static str = include_str!("../../../docs/experiments/zns-intra-zone.md");
    const PUBLISHED: &'static str = include_str!("../../../data/published/zns-intra-zone.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/zns-intra-zone.claims.toml");
    type Spec = GridSpec;

    fn defaults(level: Level) -> GridSpec {
        GridSpec::defaults(level)
    }

    fn points(spec: &GridSpec) -> Result<Vec<Point>, Failure> {
        let grid = spec.grid;
        let mut keys = grid_keys(Self::PUBLISHED, |condition| keeps(condition, grid))?;
        if grid == Grid::Wide {
            let sizes = [32768, 65536, 131072].into_iter();
            keys.extend(sizes.flat_map(|bs| [1, 4, 16].map(|qd| grid_key("randread", bs, qd, 1, "direct", 4096))));
            keys.extend([1, 4, 16].map(|qd| grid_key("seqread", 131072, qd, 1, "direct", 4096)));
        }
        grid_points(&keys, spec)
    }

    fn findings(measured: &Measured) -> Vec<Finding> {
        let saturates = || {
            let four = iops(measured, "append", 4, "direct")?;
            let deep = iops(measured, "append", 32, "direct")?;
            let one = iops(measured, "append", 1, "direct")?;
            let words = format!("{:.1}, {:.1} and {:.1} KIOPS at depth 1, 4 and 32", one / 1e3, four / 1e3, deep / 1e3);
            Some((four > 1.5 * one && deep < 1.05 * four, words))
        };
        let merging = || {
            let merged = iops(measured, "write", 32, "mq-deadline")?;
            let append = iops(measured, "append", 32, "direct")?;
            let words = format!("{:.0} KIOPS merged, {:.0} KIOPS appended at depth 32", merged / 1e3, append / 1e3);
            Some((merged > 1.5 * append, words))
        };
        let beyond = || {
            let merged = iops(measured, "write", 32, "mq-deadline")?;
            // Requests that reach the drive unmerged are bounded by what it takes from all zones together.
            let drive = 186_000.0;
            Some((
                merged > drive,
                format!("{:.0} KIOPS, the drive takes 186 KIOPS of 4 KiB from all zones", merged / 1e3),
            ))
        };
        let reads = || {
            let one = iops(measured, "randread", 1, "direct")?;
            let deep = iops(measured, "randread", 32, "direct")?;
            Some((deep > 10.0 * one, format!("{:.1} KIOPS at depth 1, {:.0} at depth 32", one / 1e3, deep / 1e3)))
        };
        vec![
            judged("Appends of 4 KiB stop growing at depth 4", "65.7, 132.2 and 132.2 KIOPS", saturates()),
            judged("Writes through mq-deadline grow past appends in the same zone", "293 against 132 KIOPS", merging()),
            judged(
                "Merging in the block layer explains it, not the drive",
                "293 KIOPS of 186 possible without",
                beyond(),
            ),
            judged("Random reads of one zone use the whole drive", "13.7 and 274 KIOPS", reads()),
        ]
    }

    fn figures(measured: &Measured, comparison: &[Comparison]) -> Vec<Figure> {
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
