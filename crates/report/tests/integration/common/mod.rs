//! An analysis with every kind of figure, and a matching record.

use senesce_core::analysis::*;
use senesce_core::plan::Plan;
use senesce_core::record::{Record, RunDirectory};
use senesce_core::{Environment, Level, Seed};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

pub fn figure(id: &str, title: &str, better: Better, kind: FigureKind) -> Figure {
    Figure {
        id: id.into(),
        title: title.into(),
        caption:
            "What is shown and how it is read, in a sentence or two that say what to look for and what not to conclude."
                .into(),
        device: "ext4 on a 1 GiB image in memory".into(),
        better,
        kind,
    }
}

pub fn lines() -> Figure {
    let curve =
        |share: f64| (0..40).map(|k| (f64::from(k), 20_000.0 * (1.0 - share * (f64::from(k) / 12.0).tanh()))).collect();
    let series = vec![
        Series::new("ext4", Mark::Measured, curve(0.2)),
        Series::new("xfs", Mark::Measured, curve(0.35)),
        Series::new("btrfs", Mark::Modelled, curve(0.5)),
        Series::new("ext4 2016", Mark::Published, curve(0.26)),
        Series::new("bound", Mark::Predicted, vec![(0.0, 21_000.0), (39.0, 21_000.0)]),
    ];
    let (x, y) = (Axis::linear("Overwrites (volume sizes)"), Axis::linear("Throughput (operations/s)").from_zero());
    figure("lines", "Throughput falls with age and levels off", Better::Higher, FigureKind::Lines { x, y, series })
}

pub fn few_points() -> Figure {
    let sizes = [4096.0, 16384.0, 65536.0, 262144.0, 1048576.0];
    let at = |factor: f64| {
        sizes.iter().enumerate().map(|(k, &size)| (size, factor * 1.9f64.powi(k as i32))).collect::<Vec<_>>()
    };
    let with_intervals = |name: &str, factor: f64| {
        let mut series = Series::new(name, Mark::Measured, at(factor));
        series.intervals = series.points.iter().map(|&(_, y)| (y * 0.85, y * 1.2)).collect();
        series
    };
    let series = vec![with_intervals("cold read, repetition 2", 80.0), with_intervals("write, repetition 2", 130.0)];
    let (x, y) = (Axis::linear("Request size").log2().in_bytes(), Axis::linear("Latency (us)").log10());
    figure("latency", "Latency by request size", Better::Lower, FigureKind::Lines { x, y, series })
}

pub fn dense() -> Figure {
    let wave = |phase: f64| {
        (0..5000)
            .map(|k| (f64::from(k) * 0.01, 100.0 + 40.0 * (f64::from(k) * 0.013 + phase).sin() + f64::from(k % 17)))
            .collect()
    };
    let series =
        vec![Series::new("zone append", Mark::Measured, wave(0.0)), Series::new("write", Mark::Measured, wave(1.5))];
    let (x, y) = (Axis::linear("Time (s)"), Axis::linear("Bandwidth (MiB/s)"));
    figure("dense", "Bandwidth over time", Better::Higher, FigureKind::Lines { x, y, series })
}

pub fn scatter() -> Figure {
    let cloud = |slope: f64, shift: f64| {
        (0..60)
            .map(|k| (f64::from(k) / 60.0, shift + slope * f64::from(k) / 60.0 + 0.11 * (f64::from(k) * 2.4).sin()))
            .collect()
    };
    let series = vec![
        Series::new("ext4", Mark::Measured, cloud(-1.0, 2.0)),
        Series::new("xfs", Mark::Measured, cloud(-0.6, 1.7)),
        Series::new("model", Mark::Modelled, cloud(-0.8, 1.9)),
    ];
    let (x, y) = (Axis::linear("Layout score"), Axis::linear("Cold read time (s/GiB)"));
    figure("scatter", "A better layout reads faster", Better::Lower, FigureKind::Scatter { x, y, series })
}

pub fn bars() -> Figure {
    let bars = |name: &str, mark, values: [f64; 3], raw: [&str; 3]| Series {
        name: name.into(),
        mark,
        points: values.iter().enumerate().map(|(k, &v)| (k as f64, v)).collect(),
        intervals: if mark == Mark::Published { vec![] } else { values.iter().map(|v| (v * 0.96, v * 1.05)).collect() },
        labels: raw.iter().map(|text| (*text).to_string()).collect(),
        values: vec![],
    };
    let series = vec![
        bars("fresh", Mark::Measured, [1.0, 0.92, 0.71], ["21.3k", "19.6k", "15.1k"]),
        bars("aged", Mark::Measured, [0.82, 0.84, f64::NAN], ["17.5k", "17.9k", ""]),
        bars("aged, modelled", Mark::Modelled, [0.78, 0.8, 0.5], ["16.6k", "17.0k", "10.6k"]),
        bars("aged 2016", Mark::Published, [0.78, 0.9, 0.6], ["", "", ""]),
    ];
    let x = Axis::categories("File system", vec!["ext4".into(), "xfs".into(), "btrfs".into()]);
    let y = Axis::linear("Throughput relative to fresh ext4");
    figure("bars", "Aging costs every file system something", Better::Higher, FigureKind::Bars { x, y, series })
}

pub fn many_bars() -> Figure {
    let names: Vec<String> = (0..14).map(|k| format!("conventional allocator {k}")).collect();
    let series = (0..3)
        .map(|s| {
            Series::new(
                format!("state {s}"),
                Mark::Measured,
                (0..14).map(|k| (f64::from(k), f64::from((k * 37 + s * 11) % 29) * 100.0)).collect(),
            )
        })
        .collect();
    figure(
        "many",
        "Many categories with long names",
        Better::Neither,
        FigureKind::Bars { x: Axis::categories("", names), y: Axis::linear("Extents per file"), series },
    )
}

pub fn steps() -> Figure {
    let edges = [0.0, 4096.0, 16384.0, 65536.0, 1048576.0, 16777216.0, 268435456.0];
    let of = |shares: [f64; 7]| edges.iter().copied().zip(shares).collect::<Vec<_>>();
    let series = vec![
        Series::new("profile", Mark::Predicted, of([0.22, 0.31, 0.24, 0.15, 0.07, 0.01, 0.0])),
        Series::new("reached", Mark::Measured, of([0.22, 0.305, 0.245, 0.149, 0.071, 0.01, 0.0])),
    ];
    let (x, y) = (Axis::linear("File size").log2().in_bytes(), Axis::linear("Share of files"));
    figure("steps", "File sizes: target and reached", Better::Neither, FigureKind::Steps { x, y, series })
}

pub fn cells() -> Figure {
    let cells: Vec<i32> = (0..4000)
        .map(|k: i32| match (k / 7 + k / 31) % 9 {
            0..=3 => 0,
            4 | 5 => 1,
            6 => 2,
            _ => -1,
        })
        .collect();
    let rows = vec![CellRow { name: "volume".into(), cells, fill: vec![] }];
    let legend = vec!["file data".into(), "file data, fragmented".into(), "metadata".into()];
    figure(
        "layout",
        "Layout map of the volume",
        Better::Neither,
        FigureKind::Cells { rows, heads: Vec::new(), legend, unit: "256 KiB of address space".into() },
    )
}

pub fn zones() -> Figure {
    let rows = (0..6)
        .map(|z| CellRow {
            name: format!("lane {z}"),
            cells: (0..24).map(|k| if k % 7 == 6 { -1 } else { (k + z) % 10 }).collect(),
            fill: (0..24).map(|k| ((k * 5 + z) % 11) as f32 / 10.0).collect(),
        })
        .collect();
    let legend = (0..10).map(|k| format!("file {k}")).collect();
    figure(
        "zones",
        "Zones by file",
        Better::Neither,
        FigureKind::Cells { rows, heads: Vec::new(), legend, unit: "one zone of 128 MiB".into() },
    )
}

pub fn all_figures() -> Vec<Figure> {
    vec![lines(), few_points(), dense(), scatter(), bars(), many_bars(), steps(), cells(), zones()]
}

pub fn analysis() -> Analysis {
    let mut table = Table::new(
        "summary",
        "What each state costs",
        &["file system", "state", "throughput (operations/s)", "interval (operations/s)", "valid"],
    );
    table.row(vec![json!("ext4"), json!("fresh"), json!(21304.2), json!("20 900 to 21 700"), json!(true)]);
    table.row(vec![
        json!("ext4"),
        json!("aged by agrawal at 80 %"),
        json!(17508),
        json!("17 100 to 17 900"),
        json!(true),
    ]);
    table.row(vec![json!("btrfs"), json!("aged by agrawal at 80 %"), json!(null), json!(null), json!(false)]);
    let finding = |claim: &str, published: &str, measured: &str, verdict, note: &str| Finding {
        claim: claim.into(),
        published: published.into(),
        measured: measured.into(),
        verdict,
        note: note.into(),
        ..Finding::default()
    };
    Analysis {
        title: "Fresh against aged: a file server on three file systems".into(),
        summary: "Aging by the Agrawal profile to 80 % costs ext4 18 % of its throughput (95 % interval 15 to 21 %) and changes no rank.\n\nChanges of 2.1 % would have been found.".into(),
        figures: all_figures(),
        tables: vec![table],
        findings: vec![
            finding("Aging slows ext4 on a hard disk by 10 to 22 %.", "−10 to −22 % (TR 16-105, Fig. 3)", "−18 % (−21 to −15)", Verdict::Supported, ""),
            finding("Aging flips the rank of btrfs and ext4.", "btrfs ahead when aged", "rank kept, probability 0.97", Verdict::NotSupported, "Put down to the drive's translation layer, which is not modelled here."),
            finding("Garbage collection in the drive adds to it.", "up to −80 %", "–", Verdict::NotTestable, "needs a real drive"),
            finding("Reads of an aged tree take longer.", "", "+14 %", Verdict::Undecided, "a change of 16 % could have been found"),
        ],
        caveats: vec!["Modelled: the bars of the hard disk are computed from block traces by a model of a 7200 rpm drive.".into(), "Measured without O_DIRECT: the file system does not support it.".into()],
        result: json!({}),
    }
}

pub fn record(path: &Path, finished: bool) -> Record {
    let spec = BTreeMap::from([("profile", "agrawal")]);
    let mut plan = Plan::of_spec("aged-fileserver", Seed(42), &spec).unwrap();
    plan.scale = Some(Level::Quick);
    plan.command =
        "senesce reproduce aged-fileserver --scale quick --set profile=agrawal --out senesce-runs/aged-fileserver-1"
            .into();
    plan.bytes_to_write = 12 << 30;
    plan.estimated_seconds = 240.0;
    plan.step("make ext4", "image ext4.img");
    plan.step("age by agrawal to 80 %", "image ext4.img");
    plan.step("file server, 10 s", "image ext4.img");
    plan.step("file server, 10 s", "image ext4.img");
    let mut environment = Environment::default();
    environment.put("kernel.release", "6.18.0");
    environment.put("kernel.command_line", "root=/dev/vda1 quiet");
    environment.put("cpu.model", "Example 3 GHz");
    environment.put("program.version", "0.1.0");
    let mut run = RunDirectory::open(path, &plan, &environment).unwrap();
    if finished {
        run.append("caveat", &"a quiet machine").unwrap();
        run.finish(&json!({})).unwrap();
    }
    drop(run);
    Record::open(path).unwrap()
}
