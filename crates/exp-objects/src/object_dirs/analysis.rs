//! Tables and figures of object-dirs.

use super::{Event, Filled, ObjectDirs, UNUSUAL_NS, Writes};
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Analysis, Axis, Better, Failure, Figure, FigureKind, Mark, Series, Table};
use senesce_objstore::Scheme;
use senesce_objstore::fill::Full;
use senesce_objstore::occupancy::{self, Limit};
use senesce_runner::{Recorded, Run};
use serde_json::json;
use std::collections::BTreeMap;

pub(super) fn analyse(recorded: &Recorded<ObjectDirs>) -> Result<Analysis, Failure> {
    let published = published::parse(ObjectDirs::PUBLISHED).map_err(|error| Failure::usage(error.to_string()))?;
    let rows: Vec<Row> = rows(recorded, &published);
    let device = rows.first().map_or_else(String::new, |row| row.filled.device.clone());
    let written: u64 = rows.iter().map(|row| row.filled.full.files).sum();
    Ok(Analysis {
        title: "Directory schemes of an object store on a small file system".into(),
        summary: format!("{} schemes were filled with {written} objects until the file system was full.", rows.len()),
        figures: figures(recorded, &rows, &device),
        tables: vec![table(&rows)],
        findings: Vec::new(),
        caveats: vec![],
        result: json!({"schemes": rows.iter().map(Row::json).collect::<Vec<_>>()}),
    })
}

struct Row {
    filled: Filled,
    prediction: occupancy::Prediction,
    unusual: u64,
    longest_ns: u64,
    published: Vec<f64>,
    published_directories: Vec<f64>,
}

impl Row {
    fn naive_files(&self) -> Option<f64> {
        self.filled.naive_files()
    }

    fn naive_error_percent(&self) -> Option<f64> {
        self.naive_files().map(|naive| percent(naive, self.filled.full.files as f64))
    }

    fn json(&self) -> serde_json::Value {
        let full = &self.filled.full;
        json!({
            "scheme": self.filled.scheme,
            "repeat": self.filled.repeat,
            "files": full.files,
            "directories": full.directories,
            "bytes_used": full.bytes_used,
            "inodes_used": (full.inodes_total > 0).then_some(full.inodes_used),
            "ended_by": full.ended_by.map(Limit::name),
            "predicted_files": self.prediction.files,
            "writes_over_1ms": self.unusual,
            "predicted_directories": self.prediction.directories,
            "prediction_error_percent": percent(self.prediction.files as f64, full.files as f64),
            "naive_files": self.naive_files(),
            "naive_error_percent": self.naive_error_percent(),
            "published_mean_files": mean(&self.published),
            "difference_from_published_percent": mean(&self.published).map(|mean| percent(full.files as f64, mean)),
            "bytes_total": full.bytes_total,
            "inodes_total": (full.inodes_total > 0).then_some(full.inodes_total),
            "longest_write_ms": self.longest_ns as f64 / 1e6,
            "seconds": full.seconds,
        })
    }
}

fn rows(recorded: &Recorded<ObjectDirs>, published: &[PublishedValue]) -> Vec<Row> {
    let mut slow: BTreeMap<(&str, u32), (u64, u64)> = BTreeMap::new();
    for writes in all_writes(recorded) {
        let entry = slow.entry((&writes.scheme, writes.repeat)).or_default();
        entry.0 += writes.write_ns.iter().filter(|time| **time >= UNUSUAL_NS).count() as u64;
        entry.1 = entry.1.max(writes.write_ns.iter().copied().max().unwrap_or(0));
    }
    let of = |metric: &str, scheme: Scheme| -> Vec<f64> {
        let name = scheme.to_string();
        let fits = |value: &&PublishedValue| {
            value.metric == metric && value.condition.split_whitespace().next() == Some(&name)
        };
        published.iter().filter(fits).map(|value| value.value).collect()
    };
    let row = |filled: Filled| {
        let (unusual, longest_ns) =
            slow.get(&(filled.scheme.to_string().as_str(), filled.repeat)).copied().unwrap_or_default();
        let same = filled.is_published_partition();
        Row {
            prediction: occupancy::predict(filled.scheme, &filled.full.free, filled.object_bytes),
            unusual,
            longest_ns,
            published: if same { of("files_when_full", filled.scheme) } else { Vec::new() },
            published_directories: if same { of("directories_when_full", filled.scheme) } else { Vec::new() },
            filled,
        }
    };
    let filled = recorded.events().filter_map(|event| match event {
        Event::Filled(filled) => Some(filled.clone()),
        Event::Writes(_) => None,
    });
    filled.map(row).collect()
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

pub(super) fn percent(value: f64, reference: f64) -> f64 {
    (value / reference - 1.0) * 100.0
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "schemes",
        "Schemes when full",
        &[
            "scheme",
            "repeat",
            "files",
            "directories",
            "ended by",
            "bytes used (%)",
            "inodes used (%)",
            "law: files",
            "error of the law (%)",
            "naive formula: files",
            "error of the formula (%)",
            "published mean: files",
            "difference (%)",
            "writes >= 1 ms",
            "longest write (ms)",
        ],
    );
    for row in rows {
        let full = &row.filled.full;
        let published = mean(&row.published);
        table.row(vec![
            json!(row.filled.scheme),
            json!(row.filled.repeat + 1),
            json!(full.files),
            json!(full.directories),
            json!(full.ended_by.map_or("the requested number", Limit::name)),
            json!(100.0 * full.bytes_used as f64 / full.bytes_total as f64),
            json!(share_of_inodes(full)),
            json!(row.prediction.files),
            json!(percent(row.prediction.files as f64, full.files as f64)),
            json!(row.naive_files()),
            json!(row.naive_error_percent()),
            json!(published),
            json!(published.map(|mean| percent(full.files as f64, mean))),
            json!(row.unusual),
            json!(row.longest_ns as f64 / 1e6),
        ]);
    }
    table
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
            "If inodes end the fill, files and directories share them: each directory costs an object.",
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
        Row { filled, prediction, unusual: 0, longest_ns: 1, published: vec![], published_directories: vec![] }
    }

    #[test]
    fn uncounted_inodes_have_no_value() {
        let bars = |inodes: u64| {
            let FigureKind::Bars { series, .. } = limits(&[row(inodes)]) else { panic!("bars") };
            series.into_iter().map(|series| series.name).collect::<Vec<_>>()
        };
        assert_eq!(bars(25_688), ["bytes", "inodes"]);
        assert_eq!(bars(0), ["bytes"], "btrfs makes inodes as it needs them");
        let json = row(0).json();
        for name in ["naive_files", "naive_error_percent", "inodes_total", "inodes_used"] {
            assert!(json[name].is_null(), "{name}: {json}");
        }
    }
}
