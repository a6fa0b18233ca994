//! Random reads while somebody writes at a limited rate.

use crate::zns::compare::Comparison;
use crate::zns::condition::Condition;
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{Measured, Point};
use crate::zns::{CONVENTIONAL, Grid, ZONED, ZnsStudy, judged, ramp, time};
use crate::zns_request_size::grid_keys;
use clap::Args;
use senesce_core::{Axis, Better, Bytes, Failure, Figure, Finding, Level, Span};
use senesce_zoned::job::{Activity, ActorSpec, Job, Rate, Span as JobSpan, Zones};
use serde::{Deserialize, Serialize};

/// Reads under writes.
pub struct ZnsReadInterference;

/// Zones of the writer, and as many of the reader.
const ZONES: u32 = 400;

fn key(drive: &str, op: &str, rate: u64, qd: u64) -> String {
    format!("drive={drive},op={op},rate={rate},qd={qd}")
}

fn keeps(condition: &Condition, grid: Grid) -> bool {
    let (rate, depth) = (condition.number("rate"), condition.number("qd"));
    match grid {
        Grid::Few => [0, 250].contains(&rate) && [1, 16].contains(&depth) && condition.is(&[("op", "write")]),
        Grid::Figure => depth <= 64 && condition.is(&[("op", "write")]),
        Grid::Study | Grid::Wide => true,
    }
}

fn job(condition: &Condition, spec: &Spec) -> Result<Job, Failure> {
    let time = Some(JobSpan(spec.time.0));
    let reader = ActorSpec {
        qd: condition.number("qd") as u32,
        zones: Zones::Range(ZONES, 2 * ZONES),
        jobs: Some(1),
        time,
        ..ActorSpec::new(Activity::RandomRead)
    };
    let op = if condition.word("op") == "append" { Activity::Append } else { Activity::Write };
    let writer = ActorSpec {
        bs: Bytes::kib(128),
        zones: Zones::Range(0, ZONES),
        jobs: Some(1),
        rate: Some(Rate(Bytes::mib(condition.number("rate")))),
        time,
        ..ActorSpec::new(op)
    };
    let mut actors = vec![reader];
    if condition.number("rate") > 0 {
        actors.push(writer);
    }
    Ok(Job { ramp: JobSpan(spec.ramp.0), ..Job::of(actors) })
}

/// Its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// zoned drive: sim:zn540, null, or a device such as /dev/ng0n1
    #[arg(long)]
    pub device: String,
    /// conventional drive to compare with; none leaves it out
    #[arg(long)]
    pub conventional: String,
    /// points: few, figure (those of the study's figure), study (all that were published) or wide (beyond them)
    #[arg(long)]
    pub grid: Grid,
    /// how long each point is measured
    #[arg(long)]
    pub time: Span,
    /// how long each point runs before counting begins
    #[arg(long)]
    pub ramp: Span,
}

impl ZnsStudy for ZnsReadInterference {
    const ID: &'static str = "zns-read-interference";
    const TITLE: &'static str = "Zoned and conventional drive: random reads under writes at a rate";
    const SUMMARY: &'static str = "One writer or appender of 128 KiB requests at 10 to 1000 MiB/s over 400 zones, one reader of 4 KiB at depth 1 to 256 \
         over another 400.";
    const PAGE: &'static str = include_str!("../../../docs/experiments/zns-read-interference.md");
    const PUBLISHED: &'static str = include_str!("../../../data/published/zns-read-interference.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/zns-read-interference.claims.toml");
    type Spec = Spec;

    fn defaults(level: Level) -> Spec {
        Spec {
            device: ZONED.into(),
            conventional: CONVENTIONAL.into(),
            grid: Grid::of(level),
            time: time(level),
            ramp: ramp(level),
        }
    }

    fn points(spec: &Spec) -> Result<Vec<Point>, Failure> {
        let grid = spec.grid;
        let mut keys = grid_keys(Self::PUBLISHED, |condition| keeps(condition, grid))?;
        if grid == Grid::Wide {
            keys.extend([1, 8, 64].iter().flat_map(|qd| [25, 150, 750].map(|rate| key("zoned", "write", rate, *qd))));
        }
        let mut points = Vec::new();
        for text in keys {
            let Some(condition) = Condition::parse(&text) else { continue };
            let device = match condition.word("drive") {
                "conventional" => &*spec.conventional,
                _ => &*spec.device,
            };
            if device != "none" {
                let point = Point::new(text.clone(), device, job(&condition, spec)?);
                let writes = point.job.actors.len() > 1;
                points.push(if writes { point.and(&text, 1, None, "writer_") } else { point });
            }
        }
        Ok(points)
    }

    fn findings(measured: &Measured) -> Vec<Finding> {
        let mean = |drive, op, rate, qd| measured.get(&key(drive, op, rate, qd), "lat_mean_us");
        let rate = || {
            let (calm, some) = (mean("zoned", "write", 0, 1)?, mean("zoned", "write", 250, 1)?);
            let much = mean("zoned", "write", 1000, 1);
            let most = much.map_or("not measured".into(), |much| format!("{much:.1}"));
            let words = format!("{calm:.1} us alone, {some:.1} at 250 MiB/s, {most} at 1000 MiB/s");
            Some((some > 1.2 * calm && much.is_none_or(|much| much > 2.0 * calm), words))
        };
        let depth = || {
            let shallow = mean("zoned", "write", 250, 1)? / mean("zoned", "write", 0, 1)?;
            let deep = mean("zoned", "write", 250, 16)? / mean("zoned", "write", 0, 16)?;
            Some((deep > shallow, format!("times {shallow:.2} at depth 1, times {deep:.2} at depth 16")))
        };
        let appends = || {
            let (write, append) = (mean("zoned", "write", 250, 16)?, mean("zoned", "append", 250, 16)?);
            Some((
                (append / write - 1.0).abs() < 0.03,
                format!("{write:.1} us under writes, {append:.1} us under appends"),
            ))
        };
        let conventional = || {
            let (zoned, other) = (mean("zoned", "write", 250, 16)?, mean("conventional", "write", 250, 16)?);
            Some(((other / zoned - 1.0).abs() < 0.05, format!("{zoned:.1} us zoned, {other:.1} us conventional")))
        };
        let starved = || {
            let alone = measured.get(&key("zoned", "write", 1000, 1), "writer_bw_mib")?;
            let crowded = measured.get(&key("zoned", "write", 1000, 64), "writer_bw_mib")?;
            Some((crowded < 0.75 * alone, format!("{alone:.0} MiB/s beside depth 1, {crowded:.0} beside depth 64")))
        };
        vec![
            judged("Reads slow down with the rate of writes", "72.9, 100.3 and 186.9 us", rate()),
            judged("Deep queues of reads suffer more", "times 1.38 and times 1.61", depth()),
            judged("Appends disturb reads as writes do", "146.0 and 145.9 us", appends()),
            judged("A conventional drive that has room disturbs them equally", "146.0 and 146.6 us", conventional()),
            judged("Deep reads take bandwidth from a fast writer", "1000 and 516 MiB/s", starved()),
        ]
    }

    fn figures(measured: &Measured, comparison: &[Comparison]) -> Vec<Figure> {
        let rates = ["0", "10", "50", "100", "250", "500", "1000"];
        let lines = |drive: &'static str, op: &'static str| -> Vec<Line<'static>> {
            let line = |rate: &'static str| {
                Line::new(format!("{rate} MiB/s"), &[("drive", drive), ("op", op), ("rate", rate)])
            };
            rates.map(line).into()
        };
        let draw = |id, title, drive, op| {
            let chart = Chart {
                id,
                title,
                caption: "Random reads of 4 KiB beside sequential requests of 128 KiB at the given rate.",
                metric: "lat_mean_us",
                axes: (
                    Axis::linear("queue depth of the reader").log2(),
                    Axis::linear("mean read latency (us)").log10(),
                ),
                along: ("qd", 1.0),
                better: Better::Lower,
            };
            chart.draw(&lines(drive, op), measured, comparison)
        };
        vec![
            draw("writes", "Reads under writes, zoned drive", "zoned", "write"),
            draw("appends", "Reads under appends, zoned drive", "zoned", "append"),
            draw("conventional", "Reads under writes, conventional drive", "conventional", "write"),
        ]
    }
}
