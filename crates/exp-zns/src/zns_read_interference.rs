//! Random reads next to writes at a limited rate.

use crate::zns::compare::Comparison;
use crate::zns::condition::{Condition, grid_keys};
use crate::zns::drives::{Drives, halves};
use crate::zns::figures::{Chart, Line};
use crate::zns::measure::{DeviceValues, Point};
use crate::zns::{Grid, LoadSpec, ZnsStudy};
use senesce_core::{Axis, Better, Bytes, Failure, Figure};
use senesce_zoned::job::{Activity, ActorSpec, Job, Rate, Span as JobSpan};
use senesce_zoned::survey::Survey;

pub struct ZnsReadInterference;

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

fn job(condition: &Condition, spec: &LoadSpec, drive: &Survey) -> Result<Job, Failure> {
    let time = Some(JobSpan(spec.points.time.0));
    let (writing, reading, _) = halves(drive, ZONES)?;
    let reader = ActorSpec {
        qd: condition.number("qd") as u32,
        zones: reading,
        jobs: Some(1),
        time,
        ..ActorSpec::new(Activity::RandomRead)
    };
    let op = if condition.word("op") == "append" { Activity::Append } else { Activity::Write };
    let writer = ActorSpec {
        bs: Bytes::kib(128),
        zones: writing,
        jobs: Some(1),
        rate: Some(Rate(Bytes::mib(condition.number("rate")))),
        time,
        ..ActorSpec::new(op)
    };
    let mut actors = vec![reader];
    if condition.number("rate") > 0 {
        actors.push(writer);
    }
    Ok(Job { ramp: JobSpan(spec.points.ramp.0), ..Job::of(actors) })
}

impl ZnsStudy for ZnsReadInterference {
    const ID: &'static str = "zns-read-interference";
    const TITLE: &'static str = "Zoned and conventional drive: random reads under writes at a rate";
    const SUMMARY: &'static str = "One writer or appender of 128 KiB requests at 10 to 1000 MiB/s over 400 zones, one reader of 4 KiB at depth 1 to 256 \
         over another 400.";
    const PAGE: &'static str = include_str!("../docs/experiments/zns-read-interference.md");
    const PUBLISHED: &'static str = include_str!("../data/published/zns-read-interference.csv");
    const CLAIMS: &'static str = include_str!("../data/published/zns-read-interference.claims.toml");
    type Spec = LoadSpec;

    fn points(spec: &LoadSpec, drives: &Drives) -> Result<Vec<Point>, Failure> {
        let grid = spec.points.grid;
        let mut keys = grid_keys(Self::PUBLISHED, |condition| keeps(condition, grid))?;
        if grid == Grid::Wide {
            keys.extend([1, 8, 64].iter().flat_map(|qd| [25, 150, 750].map(|rate| key("zoned", "write", rate, *qd))));
        }
        let mut points = Vec::new();
        for text in keys {
            let Some(condition) = Condition::parse(&text) else { continue };
            let drive = match condition.word("drive") {
                "conventional" => drives.conventional.as_ref(),
                _ => Some(&drives.zoned),
            };
            let Some(drive) = drive else { continue };
            let point = Point::new(text.clone(), &*drive.name, job(&condition, spec, drive)?);
            let writes = point.job.actors.len() > 1;
            points.push(if writes { point.and(&text, 1, None, "writer_") } else { point });
        }
        Ok(points)
    }

    fn figures(measured: &DeviceValues, comparison: &[Comparison]) -> Vec<Figure> {
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
                caption: "Random reads of 4 KiB next to sequential requests of 128 KiB at the given rate.",
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
