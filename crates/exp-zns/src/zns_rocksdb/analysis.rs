//! Rates, latencies, write amplification and space, with the published values.

use super::ZnsRocksdb;
use super::bench::{BENCHMARKS, BenchmarkRun, KEY_BYTES, VALUE_BYTES};
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series};
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Analysis, Failure, Rows, Table};
use senesce_runner::Run;
use serde_json::{Value, json};

const EMULATED: &str = "drives emulated by QEMU in the guest";

pub(crate) fn analyse(measured: Vec<BenchmarkRun>, keys: u64, emulated: bool) -> Result<Analysis, Failure> {
    let measured = last_of_each(measured);
    let published = published::parse(ZnsRocksdb::PUBLISHED).unwrap_or_default();
    let device = if emulated { EMULATED } else { "drives of this machine" };
    let amplification = amplifications(&measured, keys);
    Ok(Analysis {
        title: "RocksDB on conventional and zoned drives".into(),
        summary: format!(
            "RocksDB's db_bench fills, overwrites and reads {keys} keys of {KEY_BYTES} bytes with values of {VALUE_BYTES} bytes, in \
             the order and with the options of the published study."
        ),
        figures: figures(&measured, &amplification, device),
        tables: vec![rates(&measured, &published), amplification_table(&amplification)],
        result: json!({"measured": measured, "amplification": amplification}),
        ..Analysis::default()
    })
}

/// Keeps the last values of each setup, because an interrupted setup starts again.
fn last_of_each(all: Vec<BenchmarkRun>) -> Vec<BenchmarkRun> {
    let mut kept: Vec<BenchmarkRun> = Vec::new();
    for one in all {
        kept.retain(|other| (&other.setup, &other.benchmark, other.repeat) != (&one.setup, &one.benchmark, one.repeat));
        kept.push(one);
    }
    kept
}

fn setups(measured: &[BenchmarkRun]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for one in measured {
        if !names.contains(&one.setup.as_str()) {
            names.push(&one.setup);
        }
    }
    names
}

fn rate_of(measured: &[BenchmarkRun], setup: &str, benchmark: &str) -> Option<f64> {
    let of_it = measured.iter().filter(|one| one.setup == setup && one.benchmark == benchmark);
    let rates: Vec<f64> = of_it.map(|one| one.ops_per_second).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

fn of<'a>(measured: &'a [BenchmarkRun], setup: &str, benchmark: &str) -> Option<&'a BenchmarkRun> {
    measured.iter().find(|one| one.setup == setup && one.benchmark == benchmark)
}

/// Returns the mean of the published values of a setup and a benchmark. The study ran the read benchmarks twice.
pub(crate) fn published_rate(values: &[PublishedValue], setup: &str, benchmark: &str) -> Option<f64> {
    let condition = format!("{setup} {benchmark}");
    let found: Vec<f64> = values
        .iter()
        .filter(|value| value.metric == "operations per second" && value.condition == condition)
        .map(|value| value.value)
        .collect();
    (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
}

#[derive(Debug, Clone, serde::Serialize)]
struct Amplification {
    setup: String,
    /// Bytes written by RocksDB over bytes of keys and values.
    database: Option<f64>,
    /// Bytes written to the drives over bytes written by RocksDB.
    file_system: Option<f64>,
    /// Bytes written to the drives over bytes of keys and values.
    total: f64,
    /// Space in use after the overwrite over bytes of live keys and values.
    space: Option<f64>,
}

/// Computes the amplification for the fill and the overwrite, which write a known number of keys.
fn amplifications(measured: &[BenchmarkRun], keys: u64) -> Vec<Amplification> {
    setups(measured)
        .into_iter()
        .filter_map(|setup| {
            let parts: Vec<&BenchmarkRun> =
                BENCHMARKS[..2].iter().filter_map(|benchmark| of(measured, setup, benchmark)).collect();
            let user: u64 = parts.iter().map(|part| part.user_bytes).sum();
            let drive: u64 = parts.iter().map(|part| part.drive_bytes).sum();
            let database: Option<u64> = parts.iter().map(|part| part.database_bytes).sum();
            let ratio = |above: u64, below: u64| (below > 0).then(|| above as f64 / below as f64);
            let live = keys * (KEY_BYTES + VALUE_BYTES);
            Some(Amplification {
                setup: setup.into(),
                database: database.and_then(|bytes| ratio(bytes, user)),
                file_system: database.and_then(|bytes| ratio(drive, bytes)),
                total: ratio(drive, user)?,
                space: parts.last()?.used_bytes.and_then(|bytes| ratio(bytes, live)),
            })
        })
        .collect()
}

fn figures(measured: &[BenchmarkRun], amplification: &[Amplification], device: &str) -> Vec<Figure> {
    let bars = |names: Vec<String>, label: &str, series: Vec<Series>, x: &str| FigureKind::Bars {
        x: Axis::categories(x, names),
        y: Axis::linear(label).from_zero(),
        series,
    };
    let rate = |setup: &&str| {
        let point = |(index, benchmark): (usize, &&str)| {
            rate_of(measured, setup, benchmark).map(|rate| (index as f64, rate / 1000.0))
        };
        Series::new(*setup, Mark::Measured, BENCHMARKS.iter().enumerate().filter_map(point).collect())
    };
    let benchmarks = BENCHMARKS.map(String::from).to_vec();
    let part = |name: &str, value: fn(&Amplification) -> Option<f64>| {
        let points = amplification.iter().enumerate();
        let points = points.filter_map(|(index, one)| Some((index as f64, value(one)?))).collect();
        Series::new(name, Mark::Measured, points)
    };
    let names = amplification.iter().map(|one| one.setup.clone()).collect();
    vec![
        Figure {
            id: "rates".into(),
            title: "Operations of RocksDB".into(),
            caption: "Keys written or read per second; with a writer, only those of the readers.".into(),
            device: device.into(),
            better: Better::Higher,
            kind: bars(
                benchmarks,
                "rate (1000 operations/s)",
                setups(measured).iter().map(rate).collect(),
                "benchmark",
            ),
        },
        Figure {
            id: "amplification".into(),
            title: "Write amplification and space".into(),
            caption: "Over the first fill and overwrite. RocksDB: log, flushes and compactions over keys and values, which it \
                      compresses to about half. File system: bytes written to the drives over bytes written by RocksDB. Space: in use \
                      after the overwrite over live keys and values."
                .into(),
            device: device.into(),
            better: Better::Lower,
            kind: bars(
                names,
                "ratio",
                vec![
                    part("RocksDB", |one| one.database),
                    part("file system", |one| one.file_system),
                    part("both", |one| Some(one.total)),
                    part("space", |one| one.space),
                ],
                "file system and drive",
            ),
        },
    ]
}

fn rates(measured: &[BenchmarkRun], published: &[PublishedValue]) -> Table {
    let mut table = Rows::of(measured)
        .column("setup", |one| &one.setup)
        .column("benchmark", |one| &one.benchmark)
        .column("repeat", |one| one.repeat + 1)
        .column("rate (operations/s)", |one| &one.ops_per_second)
        .column("published rate (operations/s)", |one| published_rate(published, &one.setup, &one.benchmark))
        .column("read p50 (us)", |one| one.reads.map(|reads| reads.p50_us))
        .column("read p99 (us)", |one| one.reads.map(|reads| reads.p99_us))
        .column("write p50 (us)", |one| one.writes.map(|writes| writes.p50_us))
        .column("write p99 (us)", |one| one.writes.map(|writes| writes.p99_us))
        .column("drive written (MiB)", |one| one.drive_bytes as f64 / 1_048_576.0)
        .table("rates", "Rates and latencies");
    let known = |setup: &str, benchmark: &str| of(measured, setup, benchmark).is_some();
    for setup in ["xfs-conventional", "f2fs-conventional", "f2fs-zns", "zenfs-zns"] {
        for benchmark in BENCHMARKS.iter().filter(|benchmark| !known(setup, benchmark)) {
            if let Some(rate) = published_rate(published, setup, benchmark) {
                let mut row = vec![json!(setup), json!(benchmark), Value::Null, Value::Null, json!(rate)];
                row.resize(table.columns.len(), Value::Null);
                table.row(row);
            }
        }
    }
    table
}

fn amplification_table(amplification: &[Amplification]) -> Table {
    Rows::of(amplification)
        .column("setup", |one| &one.setup)
        .column("RocksDB (ratio)", |one| one.database)
        .column("file system (ratio)", |one| one.file_system)
        .column("both (ratio)", |one| one.total)
        .column("space (ratio)", |one| one.space)
        .table("amplification", "Write amplification and space")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn measured(setup: &str, benchmark: &str, ops_per_second: f64) -> BenchmarkRun {
        BenchmarkRun {
            setup: setup.into(),
            benchmark: benchmark.into(),
            repeat: 0,
            ops_per_second,
            seconds: 1.0,
            operations: 1000,
            reads: None,
            writes: None,
            user_bytes: 820_000,
            database_bytes: Some(1_640_000),
            drive_bytes: 2_050_000,
            used_bytes: Some(1_230_000),
        }
    }

    #[test]
    fn amplification_is_split_between_database_and_file_system() {
        let all = vec![measured("f2fs-zns", "fillrandom", 1.0), measured("f2fs-zns", "overwrite", 1.0)];
        let found = &amplifications(&all, 1000)[0];
        assert_eq!((found.database, found.file_system, found.total), (Some(2.0), Some(1.25), 2.5));
        assert_eq!(found.space, Some(1.5));
    }

    #[test]
    fn published_rates_are_the_mean_of_both_runs() {
        let published = published::parse(ZnsRocksdb::PUBLISHED).unwrap();
        assert_eq!(published_rate(&published, "f2fs-zns", "overwrite"), Some(81_127.0));
        assert_eq!(published_rate(&published, "f2fs-zns", "readrandom"), Some((151_163.0 + 149_373.0) / 2.0));
        assert_eq!(published_rate(&published, "btrfs-zns", "readrandom"), None);
    }

    #[test]
    fn last_attempt_counts_and_figure_shows_the_mean() {
        let all = last_of_each(vec![
            measured("f2fs-zns", "overwrite", 1.0),
            BenchmarkRun { repeat: 1, ..measured("f2fs-zns", "overwrite", 5.0) },
            measured("f2fs-zns", "overwrite", 3.0),
        ]);
        assert_eq!(all.len(), 2);
        assert_eq!(rate_of(&all, "f2fs-zns", "overwrite"), Some(4.0));
        assert_eq!(rate_of(&all, "f2fs-zns", "readrandom"), None);
    }
}
