//! Throughput over several zones with one command in flight in each.

use crate::zns::compare::Comparison;
use crate::zns::condition::{Condition, grid_key};
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{Measured, Point};
use crate::zns::{Grid, GridSpec, ZnsStudy, judged};
use crate::zns_request_size::{grid_keys, grid_points};
use senesce_core::{Axis, Better, Failure, Figure, Finding, Level};

/// Several zones.
pub struct ZnsInterZone;

fn iops(measured: &Measured, op: &str, zones: u64) -> Option<f64> {
    measured.get(&grid_key(op, 4096, 1, zones, "direct", 4096), "iops")
}

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
    const TITLE: &'static str = "Zoned drive: how far writes, appends and reads scale over zones";
    const SUMMARY: &'static str =
        "Several zones at once, one command in flight in each: what concurrent zones gain over depth in one zone.";
    const PAGE: &'static str = include_str!("../../../docs/experiments/zns-inter-zone.md");
    const PUBLISHED: &'static str = include_str!("../../../data/published/zns-inter-zone.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/zns-inter-zone.claims.toml");
    type Spec = GridSpec;

    fn defaults(level: Level) -> GridSpec {
        GridSpec::defaults(level)
    }

    fn points(spec: &GridSpec) -> Result<Vec<Point>, Failure> {
        let grid = spec.grid;
        let mut keys = grid_keys(Self::PUBLISHED, |condition| keeps(condition, grid))?;
        if grid == Grid::Wide {
            let zones = [3, 6, 10, 12].into_iter();
            keys.extend(zones.flat_map(|zones| {
                ["write", "append", "randread"].map(|op| grid_key(op, 4096, 1, zones, "direct", 4096))
            }));
        }
        grid_points(&keys, spec)
    }

    fn findings(measured: &Measured) -> Vec<Finding> {
        let writes = || {
            let (one, eight) = (iops(measured, "write", 1)?, iops(measured, "write", 8)?);
            Some((eight > 1.8 * one, format!("{:.0} KIOPS in one zone, {:.0} over eight", one / 1e3, eight / 1e3)))
        };
        let appends = || {
            let (one, four, eight) =
                (iops(measured, "append", 1)?, iops(measured, "append", 4)?, iops(measured, "append", 8)?);
            let words =
                format!("{:.0}, {:.0} and {:.0} KIOPS over 1, 4 and 8 zones", one / 1e3, four / 1e3, eight / 1e3);
            Some((eight < 1.1 * four && four < 2.3 * one, words))
        };
        let better = || {
            let (write, append) = (iops(measured, "write", 8)?, iops(measured, "append", 8)?);
            Some((
                write > 1.2 * append,
                format!("{:.0} against {:.0} KIOPS over eight zones", write / 1e3, append / 1e3),
            ))
        };
        let reads = || {
            let zones = iops(measured, "randread", 8)?;
            let latency = measured.get(&grid_key("randread", 4096, 1, 8, "direct", 4096), "lat_mean_us")?;
            let alone = measured.get(&grid_key("randread", 4096, 1, 1, "direct", 4096), "lat_mean_us")?;
            let words =
                format!("{:.0} KIOPS over eight zones, {latency:.1} us against {alone:.1} us in one", zones / 1e3);
            Some((latency < 1.2 * alone, words))
        };
        vec![
            judged("Writes gain from several zones", "85, 142, 180 and 186 KIOPS over 1, 2, 4 and 8", writes()),
            judged("Appends stop at the same rate over zones as in one zone", "66, 138 and 134 KIOPS", appends()),
            judged("Small writes over zones are faster than small appends", "186 against 134 KIOPS", better()),
            judged("Reads scale over zones nearly without loss", "80.5 against 72.6 us", reads()),
        ]
    }

    fn figures(measured: &Measured, comparison: &[Comparison]) -> Vec<Figure> {
        let lines = [
            Line::new("write", &[("op", "write"), ("path", "direct"), ("bs", "4096")]),
            Line::new("append", &[("op", "append"), ("path", "direct"), ("bs", "4096")]),
            Line::new("random read", &[("op", "randread"), ("path", "direct"), ("bs", "4096")]),
        ];
        let chart = Chart {
            id: "iops",
            title: "Requests per second over zones",
            caption: "Requests of 4 KiB, one in flight in each zone. Published values at 14 zones are left out: 14 polling \
                      threads shared 10 processors there.",
            metric: "iops",
            axes: (Axis::linear("zones"), Axis::linear("requests (1/s)").from_zero()),
            along: ("zones", 1.0),
            better: Better::Higher,
        };
        vec![chart.draw(&lines, measured, comparison)]
    }
}
