//! Tables and figures of object-dirs.

use super::measurements::{STORES_GIB, Times};
use super::{Event, FilledScheme, ObjectDirs, UNUSUAL_NS, Writes};
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Analysis, Axis, Better, Failure, Figure, FigureKind, Mark, Rows, Series};
use senesce_objstore::Scheme;
use senesce_objstore::fill::Full;
use senesce_objstore::occupancy::{self, Limit};
use senesce_runner::{Recorded, Run};
use serde_json::json;
use std::collections::BTreeMap;

pub(super) fn analyse(recorded: &Recorded<ObjectDirs>) -> Result<Analysis, Failure> {
    let published = published::parse(ObjectDirs::PUBLISHED).map_err(|error| Failure::usage(error.to_string()))?;
    let rows = rows(recorded, &published);
    let quantities = quantities(&rows);
    let device = rows.first().map_or_else(String::new, |row| row.filled.device.clone());
    let written: u64 = rows.iter().map(|row| row.filled.full.files).sum();
    Ok(Analysis {
        title: "Directory schemes of an object store on a small file system".into(),
        summary: format!("{} schemes were filled with {written} objects until the file system was full.", rows.len()),
        figures: figures(recorded, &rows, &device),
        tables: vec![quantities.table("schemes", "Schemes when full")],
        findings: Vec::new(),
        caveats: vec![],
        result: json!({"schemes": quantities.json()}),
    })
}

/// One fill with what follows from it.
pub(super) struct Row {
    pub filled: FilledScheme,
    pub times: Times,
    pub prediction: occupancy::Prediction,
    published: Vec<f64>,
    published_directories: Vec<f64>,
}

/// Returns rows with published values, which no measurement needs.
fn rows(recorded: &Recorded<ObjectDirs>, published: &[PublishedValue]) -> Vec<Row> {
    let of = |metric: &str, scheme: Scheme| -> Vec<f64> {
        let name = scheme.to_string();
        let fits = |value: &&PublishedValue| {
            value.metric == metric && value.condition.split_whitespace().next() == Some(&name)
        };
        published.iter().filter(fits).map(|value| value.value).collect()
    };
    let mut rows = Row::all(recorded.events());
    for row in rows.iter_mut().filter(|row| row.filled.is_published_partition()) {
        row.published = of("files_when_full", row.filled.scheme);
        row.published_directories = of("directories_when_full", row.filled.scheme);
    }
    rows
}

impl Row {
    pub fn all<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<Self> {
        let mut times: BTreeMap<(String, u32), Times> = BTreeMap::new();
        let mut fills = Vec::new();
        for event in events {
            match event {
                Event::Writes(one) => times.entry((one.scheme.clone(), one.repeat)).or_default().add(one),
                Event::Filled(filled) => fills.push(filled.clone()),
            }
        }
        let row = |filled: FilledScheme| Self {
            times: times.remove(&(filled.scheme.to_string(), filled.repeat)).unwrap_or_default(),
            prediction: occupancy::predict(filled.scheme, &filled.full.free, filled.object_bytes),
            published: Vec::new(),
            published_directories: Vec::new(),
            filled,
        };
        fills.into_iter().map(row).collect()
    }

    fn files(&self) -> f64 {
        self.filled.full.files as f64
    }

    /// Returns a number of inodes, if the file system counts them.
    fn counted(&self, inodes: u64) -> Option<u64> {
        (self.filled.full.inodes_total > 0).then_some(inodes)
    }

    fn possible_directories(&self) -> Option<f64> {
        Some(self.filled.full.inodes_total as f64 - self.filled.naive_files()?)
    }

    fn bytes_used_percent(&self) -> f64 {
        100.0 * self.filled.full.bytes_used as f64 / self.filled.full.bytes_total as f64
    }
}

/// Returns all values of a fill.
pub(super) fn quantities(rows: &[Row]) -> Rows<&Row> {
    let (neither, lower, higher) = (Better::Neither, Better::Lower, Better::Higher);
    let mut all = Rows::of(rows)
        .repetition(|row| row.filled.repeat)
        .condition("scheme", |row| row.filled.scheme)
        .column("scheme", |row| row.filled.scheme)
        .key("scheme")
        .field("repeat", |row| row.filled.repeat)
        .column("repeat", |row| row.filled.repeat + 1)
        .measured("files_when_full", "files", neither, |row| row.filled.full.files)
        .shown("files")
        .key("files")
        .measured("bytes free", "%", neither, |row| 100.0 - row.bytes_used_percent())
        .measured("inodes used per file", "inodes", neither, |row| {
            row.counted(row.filled.full.inodes_used).map(|inodes| inodes as f64 / row.files())
        })
        .measured("longest write", "s", lower, |row| row.times.longest())
        .measured("median write", "s", lower, |row| row.times.median())
        .measured("seconds per file", "s", lower, |row| row.times.per_file())
        .measured("write rate", "MiB/s", higher, |row| row.times.first_rate(row.filled.object_bytes))
        .with("part", "first")
        .measured("write rate", "MiB/s", higher, |row| row.times.last_rate(row.filled.object_bytes))
        .with("part", "last");
    for gib in STORES_GIB {
        let time = |row: &Row| row.times.of_bytes(gib << 30, row.filled.object_bytes);
        all = all.measured("store time", "s", lower, time).with("size", gib.to_string());
    }
    all.condition("ended", |row| row.filled.full.ended_by.map_or("otherwise", Limit::name))
        .measured("directories_when_full", "directories", neither, |row| row.filled.full.directories)
        .shown("directories")
        .key("directories")
        .field("bytes_used", |row| row.filled.full.bytes_used)
        .field("inodes_used", |row| row.counted(row.filled.full.inodes_used))
        .field("ended_by", |row| row.filled.full.ended_by.map(Limit::name))
        .column("ended by", |row| row.filled.full.ended_by.map_or("the requested number", Limit::name))
        .column("bytes used (%)", |row| row.bytes_used_percent())
        .column("inodes used (%)", |row| share_of_inodes(&row.filled.full))
        .measured("files and directories", "inodes", neither, |row| {
            row.counted(row.filled.full.files + row.filled.full.directories)
        })
        .measured("inodes", "inodes", neither, |row| row.counted(row.filled.full.inodes_total))
        .key("inodes_total")
        .measured("possible directories", "directories", neither, |row| row.possible_directories())
        .column("law: files", |row| row.prediction.files)
        .key("predicted_files")
        .field("predicted_directories", |row| row.prediction.directories)
        .measured("error of the occupancy law", "%", neither, |row| percent(row.prediction.files as f64, row.files()))
        .shown("error of the law (%)")
        .key("prediction_error_percent")
        .column("naive formula: files", |row| row.filled.naive_files())
        .key("naive_files")
        .measured("error of the naive formula", "%", neither, |row| {
            row.filled.naive_files().map(|naive| percent(naive, row.files()))
        })
        .shown("error of the formula (%)")
        .key("naive_error_percent")
        .column("published mean: files", |row| mean(&row.published))
        .key("published_mean_files")
        .column("difference (%)", |row| mean(&row.published).map(|mean| percent(row.files(), mean)))
        .key("difference_from_published_percent")
        .column("writes >= 1 ms", |row| row.times.unusual())
        .key("writes_over_1ms")
        .column("longest write (ms)", |row| row.times.longest().unwrap_or(0.0) * 1e3)
        .key("longest_write_ms")
        .field("bytes_total", |row| row.filled.full.bytes_total)
        .field("seconds", |row| row.filled.full.seconds)
        .condition("digits", |row| row.filled.scheme.digits())
        .condition("depth", |row| row.filled.scheme.depth())
        .measured("directories over files", "", neither, |row| row.filled.full.directories as f64 / row.files())
        .under(&["digits", "depth"])
}

fn all_writes(recorded: &Recorded<ObjectDirs>) -> impl Iterator<Item = &Writes> {
    recorded.events().filter_map(|event| match event {
        Event::Writes(writes) => Some(writes),
        Event::Filled(_) => None,
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    senesce_stats::mean(values)
}

fn percent(value: f64, reference: f64) -> f64 {
    (value / reference - 1.0) * 100.0
}

fn share_of_inodes(full: &Full) -> Option<f64> {
    (full.inodes_total > 0).then(|| 100.0 * full.inodes_used as f64 / full.inodes_total as f64)
}

fn figures(recorded: &Recorded<ObjectDirs>, rows: &[Row], device: &str) -> Vec<Figure> {
    let figure = |id: &str, title: &str, caption: &str, better, kind| Figure {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        device: device.into(),
        better,
        kind,
    };
    vec![
        figure(
            "files-when-full",
            "Objects when full",
            "Each line is a number of hexadecimal digits per level. Published: mean over the hosts. Predicted: the occupancy law.",
            Better::Higher,
            by_depth(
                rows,
                "objects when full",
                |row| row.filled.full.files as f64,
                |row| mean(&row.published),
                |row| row.prediction.files as f64,
            ),
        ),
        figure(
            "directories-when-full",
            "Directories when full",
            "If inodes end the fill, files and directories share them: each directory takes the inode of an object.",
            Better::Lower,
            by_depth(
                rows,
                "directories when full",
                |row| row.filled.full.directories as f64,
                |row| mean(&row.published_directories),
                |row| row.prediction.directories as f64,
            ),
        ),
        figure(
            "limits",
            "What ends a fill",
            "Share of bytes and of inodes in use when full: the one at 100 % ended the fill.",
            Better::Neither,
            limits(rows),
        ),
        figure(
            "unusual-writes",
            "Writes of 1 ms and longer",
            "Each mark is one write, at the number of files and directories present; its colour is its time. Nothing is synced, so the page cache and the journal cause these stalls.",
            Better::Neither,
            unusual(recorded),
        ),
    ]
}

fn by_depth(
    rows: &[Row],
    label: &str,
    measured: impl Fn(&Row) -> f64,
    published: impl Fn(&Row) -> Option<f64>,
    predicted: impl Fn(&Row) -> f64,
) -> FigureKind {
    let mut series = Vec::new();
    let all: std::collections::BTreeSet<u32> = rows.iter().map(|row| row.filled.scheme.digits()).collect();
    for digits in all {
        let of = |value: &dyn Fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
            let mut by_depth: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
            for row in rows.iter().filter(|row| row.filled.scheme.digits() == digits) {
                by_depth.entry(row.filled.scheme.depth()).or_default().extend(value(row));
            }
            by_depth.into_iter().filter_map(|(depth, values)| Some((f64::from(depth), mean(&values)?))).collect()
        };
        let kinds = [
            ("", Mark::Measured, of(&|row| Some(measured(row)))),
            (", published", Mark::Published, of(&published)),
            (", predicted", Mark::Predicted, of(&|row| Some(predicted(row)))),
        ];
        for (suffix, mark, points) in kinds.into_iter().filter(|(_, _, points)| !points.is_empty()) {
            series.push(Series { name: format!("{}{suffix}", digit_text(digits)), mark, points, ..Series::default() });
        }
    }
    let deepest = rows.iter().map(|row| row.filled.scheme.depth()).max().unwrap_or(0);
    let levels = (0..=deepest).map(|depth| depth.to_string()).collect();
    FigureKind::Lines {
        x: Axis::categories("levels of directories", levels),
        y: Axis::linear(label).from_zero(),
        series,
    }
}

fn digit_text(digits: u32) -> String {
    match digits {
        0 => "no directories".into(),
        1 => "1 digit".into(),
        _ => format!("{digits} digits"),
    }
}

fn limits(rows: &[Row]) -> FigureKind {
    let name = |row: &Row| match row.filled.repeat {
        0 => row.filled.scheme.to_string(),
        repeat => format!("{}, again {repeat}", row.filled.scheme),
    };
    let names = rows.iter().map(name).collect();
    let share = |value: &dyn Fn(&Full) -> Option<f64>| -> Vec<(f64, f64)> {
        let points = rows.iter().enumerate();
        points.filter_map(|(index, row)| Some((index as f64, value(&row.filled.full)?))).collect()
    };
    let series = |name: &str, points| Series { name: name.into(), points, ..Series::default() };
    FigureKind::Bars {
        x: Axis::categories("scheme", names),
        y: Axis::linear("in use (%)").from_zero(),
        series: vec![
            series("bytes", share(&|full| Some(100.0 * full.bytes_used as f64 / full.bytes_total as f64))),
            series("inodes", share(&share_of_inodes)),
        ]
        .into_iter()
        .filter(|series| !series.points.is_empty())
        .collect(),
    }
}

fn unusual(recorded: &Recorded<ObjectDirs>) -> FigureKind {
    const CLASSES: [(&str, u64); 4] = [
        ("1 to 10 ms", 10_000_000),
        ("10 to 100 ms", 100_000_000),
        ("0.1 to 1 s", 1_000_000_000),
        ("over 1 s", u64::MAX),
    ];
    let mut points: [Vec<(f64, f64)>; 4] = Default::default();
    for writes in all_writes(recorded) {
        for (index, time) in writes.write_ns.iter().enumerate().filter(|(_, time)| **time >= UNUSUAL_NS) {
            let class = CLASSES.iter().position(|(_, bound)| time < bound).unwrap_or(3);
            let directories = writes.directories.get(index).copied().unwrap_or(0);
            points[class].push(((writes.first + index as u64) as f64, directories as f64));
        }
    }
    let series = CLASSES.iter().zip(points).filter(|(_, points)| !points.is_empty());
    FigureKind::Scatter {
        x: Axis::linear("files present"),
        y: Axis::linear("directories present"),
        series: series
            .map(|((name, _), points)| Series { name: (*name).into(), points, ..Series::default() })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_dirs::tests::filled;

    fn row(inodes: u64) -> Row {
        let mut filled = filled("2x2", 0);
        filled.full.inodes_total = inodes;
        let prediction = occupancy::predict(filled.scheme, &filled.full.free, filled.object_bytes);
        let (published, published_directories) = (Vec::new(), Vec::new());
        Row { filled, times: Times::default(), prediction, published, published_directories }
    }

    #[test]
    fn uncounted_inodes_have_no_value() {
        let bars = |inodes: u64| {
            let FigureKind::Bars { series, .. } = limits(&[row(inodes)]) else { panic!("bars") };
            series.into_iter().map(|series| series.name).collect::<Vec<_>>()
        };
        assert_eq!(bars(25_688), ["bytes", "inodes"]);
        assert_eq!(bars(0), ["bytes"], "btrfs makes inodes as it needs them");
        let json = &quantities(&[row(0)]).json()[0];
        for name in ["naive_files", "naive_error_percent", "inodes_total", "inodes_used"] {
            assert!(json[name].is_null(), "{name}: {json}");
        }
    }
}
