//! How many objects a file system takes under a scheme of directories, and what ends it (DMV study, chapter on directory
//! layout).

use senesce_core::published::{self, PublishedValue};
use senesce_core::{
    Analysis, Axis, Better, Bytes, Experiment, Failure, Figure, FigureKind, Finding, Mark, Parameter, ParameterKind,
    Plan, Record, RunContext, RunKind, Series, Settings, Table, Verdict,
};
use senesce_objstore::fill::{Full, Write, fill};
use senesce_objstore::occupancy::{self, Limit};
use senesce_objstore::{Scheme, advise};
use senesce_target::{FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// The experiment.
pub struct ObjectDirs;

/// Writes from this long on are unusual.
const UNUSUAL_NS: u64 = 1_000_000;

/// Rows of writes per event of the record.
const ROWS: usize = 1000;

/// Writes in columns.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Writes {
    scheme: String,
    /// Number of the first write, from 0.
    first: u64,
    write_ns: Vec<u64>,
    entries: Vec<u64>,
    directories: Vec<u64>,
    bytes_free: Vec<u64>,
    inodes_free: Vec<u64>,
}

/// One scheme, filled.
#[derive(Debug, Serialize, Deserialize)]
struct Filled {
    scheme: Scheme,
    object_bytes: u64,
    device: String,
    full: Full,
}

impl RunKind for ObjectDirs {
    fn kind(&self) -> &'static str {
        "object-dirs"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let published = published::parse(self.published()).map_err(|error| Failure::usage(error.to_string()))?;
        let rows: Vec<Row> = rows(record, &published);
        let device = record.events_of::<Filled>("scheme").next().map_or_else(String::new, |filled| filled.device);
        let shares: u64 = rows.iter().map(|row| row.filled.full.files).sum();
        let slow: u64 = rows.iter().map(|row| row.unusual).sum();
        Ok(Analysis {
            title: "Directory schemes of an object store on a small file system".into(),
            summary: format!("{} schemes were filled with {shares} objects until nothing more fitted.", rows.len()),
            figures: figures(record, &rows, &device),
            tables: vec![table(&rows)],
            findings: findings(&rows, shares, slow),
            caveats: vec![],
            result: json!({"schemes": rows.iter().map(Row::json).collect::<Vec<_>>()}),
        })
    }
}

/// What the analysis knows about one scheme.
struct Row {
    filled: Filled,
    prediction: occupancy::Prediction,
    unusual: u64,
    longest_ns: u64,
    published: Vec<f64>,
    published_directories: Vec<f64>,
}

impl Row {
    fn json(&self) -> serde_json::Value {
        let full = &self.filled.full;
        json!({
            "scheme": self.filled.scheme,
            "files": full.files,
            "directories": full.directories,
            "bytes_used": full.bytes_used,
            "inodes_used": full.inodes_used,
            "ended_by": full.ended_by.map(Limit::name),
            "predicted_files": self.prediction.files,
            "writes_over_1ms": self.unusual,
            "predicted_directories": self.prediction.directories,
            "prediction_error_percent": percent(self.prediction.files as f64, full.files as f64),
            "naive_files": occupancy::naive_files(self.filled.scheme, full.inodes_total),
            "published_mean_files": mean(&self.published),
            "difference_from_published_percent": mean(&self.published).map(|mean| percent(full.files as f64, mean)),
            "bytes_total": full.bytes_total,
            "inodes_total": full.inodes_total,
            "longest_write_ms": self.longest_ns as f64 / 1e6,
            "seconds": full.seconds,
        })
    }
}

fn rows(record: &Record, published: &[PublishedValue]) -> Vec<Row> {
    let mut slow: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for writes in record.events_of::<Writes>("writes") {
        let entry = slow.entry(writes.scheme).or_default();
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
        let (unusual, longest_ns) = slow.get(&filled.scheme.to_string()).copied().unwrap_or_default();
        let same = filled.is_published_partition();
        Row {
            prediction: occupancy::predict(filled.scheme, &filled.full.room, filled.object_bytes),
            unusual,
            longest_ns,
            published: if same { of("files_when_full", filled.scheme) } else { Vec::new() },
            published_directories: if same { of("directories_when_full", filled.scheme) } else { Vec::new() },
            filled,
        }
    };
    record.events_of::<Filled>("scheme").map(row).collect()
}

impl Filled {
    /// Only on a partition like the published one do published numbers say anything about ours.
    fn is_published_partition(&self) -> bool {
        self.full.inodes_total == 25_688 && self.object_bytes == 4096 && self.full.room.block_bytes == 1024
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    senesce_stats::mean(values)
}

/// How far `value` is from `reference`, in percent of the reference.
fn percent(value: f64, reference: f64) -> f64 {
    (value / reference - 1.0) * 100.0
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "schemes",
        "Schemes when full",
        &[
            "scheme",
            "files",
            "directories",
            "ended by",
            "bytes used (%)",
            "inodes used (%)",
            "law: files",
            "error of the law (%)",
            "naive formula: files",
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
            json!(full.files),
            json!(full.directories),
            json!(full.ended_by.map_or("the number asked for", Limit::name)),
            json!(100.0 * full.bytes_used as f64 / full.bytes_total as f64),
            json!(share_of_inodes(full)),
            json!(row.prediction.files),
            json!(percent(row.prediction.files as f64, full.files as f64)),
            json!(occupancy::naive_files(row.filled.scheme, full.inodes_total)),
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

fn figures(record: &Record, rows: &[Row], device: &str) -> Vec<Figure> {
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
            "Where inodes end the fill, files and directories share them: what directories take, objects lose.",
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
            "Share of bytes and of inodes in use when nothing more fitted: the one at 100 % ended the fill.",
            Better::Neither,
            limits(rows),
        ),
        figure(
            "unusual-writes",
            "Writes of 1 ms and longer",
            "Each mark is one write, at the number of files and directories present; its colour is its time. Nothing is synced, so these are stalls of the page cache and the journal.",
            Better::Neither,
            unusual(record),
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
            let mut points: Vec<(f64, f64)> = rows
                .iter()
                .filter(|row| row.filled.scheme.digits() == digits)
                .filter_map(|row| Some((f64::from(row.filled.scheme.depth()), value(row)?)))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let kinds = [
            ("", Mark::Measured, of(&|row| Some(measured(row)))),
            (", published", Mark::Published, of(&published)),
            (", predicted", Mark::Predicted, of(&|row| Some(predicted(row)))),
        ];
        for (suffix, mark, points) in kinds.into_iter().filter(|(_, _, points)| !points.is_empty()) {
            series.push(Series { name: format!("{digits} digits{suffix}"), mark, points, ..Series::default() });
        }
    }
    FigureKind::Lines { x: Axis::linear("levels of directories"), y: Axis::linear(label).from_zero(), series }
}

fn limits(rows: &[Row]) -> FigureKind {
    let names = rows.iter().map(|row| row.filled.scheme.to_string()).collect();
    let share = |value: &dyn Fn(&Full) -> f64| -> Vec<(f64, f64)> {
        rows.iter().enumerate().map(|(index, row)| (index as f64, value(&row.filled.full))).collect()
    };
    let series = |name: &str, points| Series { name: name.into(), points, ..Series::default() };
    FigureKind::Bars {
        x: Axis::categories("scheme", names),
        y: Axis::linear("in use (%)").from_zero(),
        series: vec![
            series("bytes", share(&|full| 100.0 * full.bytes_used as f64 / full.bytes_total as f64)),
            series("inodes", share(&|full| share_of_inodes(full).unwrap_or(0.0))),
        ],
    }
}

fn unusual(record: &Record) -> FigureKind {
    const CLASSES: [(&str, u64); 4] = [
        ("1 to 10 ms", 10_000_000),
        ("10 to 100 ms", 100_000_000),
        ("0.1 to 1 s", 1_000_000_000),
        ("over 1 s", u64::MAX),
    ];
    let mut points: [Vec<(f64, f64)>; 4] = Default::default();
    for writes in record.events_of::<Writes>("writes") {
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

fn findings(rows: &[Row], writes: u64, slow: u64) -> Vec<Finding> {
    let mut findings = vec![naive_finding(rows), constant_finding(rows), quick_writes_finding(writes, slow)];
    findings.extend(reproduction_finding(rows));
    findings.extend(git_finding(rows));
    findings
}

fn naive_finding(rows: &[Row]) -> Finding {
    let by_inodes: Vec<&Row> = rows.iter().filter(|row| row.filled.full.ended_by == Some(Limit::Inodes)).collect();
    let errors: Vec<f64> =
        by_inodes.iter().map(|row| percent(row.prediction.files as f64, row.filled.full.files as f64).abs()).collect();
    let negative = by_inodes
        .iter()
        .filter(|row| occupancy::naive_files(row.filled.scheme, row.filled.full.inodes_total) < 0.0)
        .count();
    let largest = errors.iter().copied().fold(0.0, f64::max);
    Finding {
        claim: "the number of objects is the inodes less all directories the scheme can have".into(),
        published: "f = i - (16^h)^n, later i - sum of 16^(hk)".into(),
        measured: format!(
            "negative for {negative} of {} schemes that inodes ended; the occupancy law is off by at most {largest:.2} %",
            by_inodes.len()
        ),
        verdict: match (by_inodes.len(), negative) {
            (0, _) => Verdict::NotTestable,
            (_, 0) => Verdict::Seen,
            _ => Verdict::NotSeen,
        },
        note: "the formula counts directories that no object ever touched".into(),
    }
}

fn constant_finding(rows: &[Row]) -> Finding {
    let sums: Vec<f64> = rows
        .iter()
        .filter(|row| row.filled.full.ended_by == Some(Limit::Inodes))
        .map(|row| (row.filled.full.files + row.filled.full.directories) as f64)
        .collect();
    let shallow = rows.iter().filter(|row| row.filled.full.ended_by == Some(Limit::Bytes)).count();
    let (least, most) = sums.iter().fold((f64::MAX, 0.0f64), |(least, most), sum| (least.min(*sum), most.max(*sum)));
    let constant = most - least < 0.002 * most;
    Finding {
        claim: "files and directories together are constant when full".into(),
        published: "25,662 to 25,676 in the 130 runs that can be read".into(),
        measured: if sums.is_empty() {
            "no scheme was ended by inodes".into()
        } else {
            format!("{least} to {most} where inodes end the fill; {shallow} schemes run out of bytes before")
        },
        verdict: match (sums.is_empty(), constant) {
            (true, _) => Verdict::NotTestable,
            (_, true) => Verdict::Seen,
            _ => Verdict::NotSeen,
        },
        note: "true for schemes limited by inodes only".into(),
    }
}

fn quick_writes_finding(writes: u64, slow: u64) -> Finding {
    let share = 100.0 * (writes - slow) as f64 / writes.max(1) as f64;
    Finding {
        claim: "nearly all writes take less than 1 ms".into(),
        published: "99.1 % of 315,601 on a hard disk".into(),
        measured: format!("{share:.2} % of {writes}"),
        verdict: if writes == 0 {
            Verdict::NotTestable
        } else if share >= 99.0 {
            Verdict::Seen
        } else {
            Verdict::NotSeen
        },
        note: "writes are not synced: the rest are stalls of the page cache and the journal, not seeks".into(),
    }
}

fn reproduction_finding(rows: &[Row]) -> Option<Finding> {
    let compared: Vec<&Row> = rows.iter().filter(|row| !row.published.is_empty()).collect();
    let from_mean = |row: &&Row| percent(row.filled.full.files as f64, mean(&row.published).unwrap_or(f64::NAN)).abs();
    let from_each = |row: &&Row| {
        let files = row.filled.full.files as f64;
        row.published.iter().map(|host| percent(files, *host).abs()).fold(0.0, f64::max)
    };
    let worst_mean = compared.iter().map(from_mean).fold(0.0, f64::max);
    let worst_host = compared.iter().map(from_each).fold(0.0, f64::max);
    let worst = compared.iter().max_by(|a, b| from_mean(a).total_cmp(&from_mean(b)))?;
    Some(Finding {
        claim: "objects when full depend on the scheme and the inodes alone, not on the machine".into(),
        published: "three hosts, hard disks, Linux 3.16".into(),
        measured: format!(
            "{} schemes: at most {worst_mean:.2} % from the mean of the hosts ({}), {worst_host:.2} % from any host",
            compared.len(),
            worst.filled.scheme
        ),
        verdict: if worst_mean <= 0.5 && worst_host <= 1.0 { Verdict::Seen } else { Verdict::NotSeen },
        note: String::new(),
    })
}

fn git_finding(rows: &[Row]) -> Option<Finding> {
    let files = |text: &str| {
        let row = rows.iter().find(|row| row.filled.scheme.to_string() == text)?;
        Some(row.filled.full.files as f64)
    };
    let (flat, git, two) = (files("0x0")?, files("2x1")?, files("2x2")?);
    let (one_level, two_levels) = (percent(git, flat), percent(two, flat));
    Some(Finding {
        claim: "git's scheme 2x1 costs no room on this partition, 2x2 does".into(),
        published: "2x2 ends at 13,345 files (mean); the runs of 2x1 are not in the stored data".into(),
        measured: format!("against a flat store: 2x1 {one_level:+.1} %, 2x2 {two_levels:+.1} %"),
        verdict: if one_level > -2.0 && two_levels < -10.0 { Verdict::Seen } else { Verdict::NotSeen },
        note: String::new(),
    })
}

impl Experiment for ObjectDirs {
    fn title(&self) -> &'static str {
        "How many objects fit under a scheme of directories, and what ends it?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter {
                name: "schemes",
                help: "directory schemes, DIGITSxDEPTH separated by commas, or 'published' for all of the study",
                kind: ParameterKind::Text,
                defaults: ["2x2,4x9", "published", "published"],
            },
            Parameter {
                name: "target",
                help: "what is filled, made anew for every scheme: memory:SIZE, image:FILE,size=SIZE, a block device",
                kind: ParameterKind::Text,
                defaults: ["memory:100M", "memory:100M", "memory:100M"],
            },
            Parameter {
                name: "fs",
                help: "file system",
                kind: ParameterKind::Choice(&["ext4", "xfs", "btrfs", "f2fs", "nilfs2"]),
                defaults: ["ext4", "ext4", "ext4"],
            },
            Parameter {
                name: "mkfs-options",
                help: "options of mkfs; 'published' is -I 128 -m 0 on ext4 and nothing elsewhere",
                kind: ParameterKind::Text,
                defaults: ["published", "published", "published"],
            },
            Parameter {
                name: "object-size",
                help: "bytes of an object",
                kind: ParameterKind::Size,
                defaults: ["4K", "4K", "4K"],
            },
            Parameter {
                name: "erase",
                help: "path or serial number of a target whose content may be lost",
                kind: ParameterKind::Text,
                defaults: ["", "", ""],
            },
        ];
        PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/object-dirs.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/object-dirs.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let request = Request::read(settings)?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        let capacity = match &request.target {
            TargetSpec::Memory { size } | TargetSpec::Image { size: Some(size), .. } => *size,
            _ => Bytes::default(),
        };
        request.check_room(capacity)?;
        for scheme in &request.schemes {
            let action = format!("make {}, fill it with {} objects under {scheme}", request.fs, request.object_bytes);
            plan.step(action, request.target.to_string());
        }
        plan.bytes_to_write = capacity.0 * request.schemes.len() as u64;
        plan.estimated_seconds = request.schemes.len() as f64 * (0.5 + capacity.0 as f64 / 1e8);
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let request = Request::read(settings)?;
        let done: Vec<String> = context
            .directory
            .earlier_events()
            .iter()
            .filter(|event| event.kind == "scheme")
            .filter_map(|event| Some(event.data.get("scheme")?.as_str()?.to_string()))
            .collect();
        context.progress.phase("object-dirs", request.schemes.len() as u64, "schemes");
        for (index, scheme) in request.schemes.iter().enumerate() {
            context.progress.position(index as u64, &scheme.to_string());
            if !done.contains(&scheme.to_string()) {
                request.fill_one(*scheme, settings, context)?;
            }
        }
        Ok(())
    }
}

struct Request {
    schemes: Vec<Scheme>,
    target: TargetSpec,
    fs: FileSystem,
    options: OpenOptions,
    object_bytes: Bytes,
}

impl Request {
    fn read(settings: &Settings) -> Result<Self, Failure> {
        let schemes = match settings.text("schemes") {
            "published" => Scheme::published(),
            _ => settings.list("schemes").iter().map(|text| text.parse()).collect::<Result<Vec<Scheme>, _>>()?,
        };
        if schemes.is_empty() {
            return Err(Failure::usage("no scheme is given: write for example --schemes 2x1,2x2"));
        }
        let fs: FileSystem = settings.text("fs").parse()?;
        let mkfs_options = match settings.text("mkfs-options") {
            "published" if fs == FileSystem::Ext4 => "-I 128 -m 0".into(),
            "published" => String::new(),
            other => other.to_string(),
        };
        let erase = Some(settings.text("erase").to_string()).filter(|text| !text.is_empty());
        let options = OpenOptions { mkfs_options, erase, ..OpenOptions::fresh(fs) };
        let target = settings.text("target").parse()?;
        if matches!(target, TargetSpec::Directory(_)) {
            return Err(Failure::usage(
                "a directory cannot be made anew for every scheme: give memory:SIZE, image:FILE,size=SIZE or a block device",
            ));
        }
        Ok(Self { schemes, target, fs, options, object_bytes: settings.size("object-size")? })
    }

    /// Refuses, before anything is made, a partition that cannot hold one object.
    fn check_room(&self, capacity: Bytes) -> Result<(), Failure> {
        let Some(volume) = advise::Volume::planned(self.fs.name(), capacity).filter(|_| capacity.0 > 0) else {
            return Ok(());
        };
        for scheme in &self.schemes {
            if occupancy::predict(*scheme, &volume.room, self.object_bytes.0).files == 0 {
                return Err(Failure::usage(format!(
                    "{} on {} of {capacity} does not hold one object of {} under {scheme}: make the target larger or the object smaller",
                    self.fs, self.target, self.object_bytes
                )));
            }
        }
        Ok(())
    }

    fn fill_one(&self, scheme: Scheme, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        context.check_interrupt()?;
        let target: MountedTarget = open(&self.target, &self.options)?;
        context.directory.add_environment(&target.environment())?;
        let mut writes = Writes { scheme: scheme.to_string(), ..Writes::default() };
        let mut all = Vec::new();
        let seed = settings.seed().child(&format!("object-dirs/{scheme}"));
        let interrupt = context.interrupt;
        let full = fill(target.directory(), scheme, self.object_bytes.0 as usize, u64::MAX, seed, |write| {
            writes.push(write);
            if writes.write_ns.len() == ROWS {
                let first = writes.first + ROWS as u64;
                let empty = Writes { scheme: scheme.to_string(), first, ..Writes::default() };
                all.push(std::mem::replace(&mut writes, empty));
            }
            !interrupt.requested()
        })?;
        context.check_interrupt()?;
        for writes in all.iter().chain([&writes]) {
            context.directory.append("writes", writes)?;
        }
        if full.files == 0 {
            return Err(Failure::usage(format!(
                "{} does not hold one object of {} under {scheme} ({} failed): make it larger",
                self.target, self.object_bytes, full.failed_call
            )));
        }
        let device = format!("{} on {}, {} total", self.fs, self.target, Bytes(full.bytes_total));
        let filled = Filled { scheme, object_bytes: self.object_bytes.0, device, full };
        context.directory.append("scheme", &filled)?;
        Ok(target.close()?)
    }
}

impl Writes {
    fn push(&mut self, write: Write) {
        self.write_ns.push(write.write_ns);
        self.entries.push(write.entries);
        self.directories.push(write.directories);
        self.bytes_free.push(write.bytes_free);
        self.inodes_free.push(write.inodes_free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Level;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let overrides = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Settings::resolve(ObjectDirs.parameters(), Level::Smoke, &overrides).unwrap()
    }

    #[test]
    fn bad_schemes_and_small_partitions_are_refused_before_anything_is_made() {
        for (name, value) in [("schemes", "7x6"), ("schemes", "2"), ("schemes", ","), ("target", "/tmp")] {
            let failure = ObjectDirs.plan(&settings(&[(name, value)])).unwrap_err();
            assert_eq!(failure.exit_code(), senesce_core::ExitCode::Usage, "{name}={value}");
        }
        let failure = ObjectDirs.plan(&settings(&[("object-size", "200M")])).unwrap_err();
        assert!(failure.to_string().contains("does not hold one object"), "{failure}");
        assert!(ObjectDirs.plan(&settings(&[("schemes", "4x10,0x0")])).is_ok());
    }
}
