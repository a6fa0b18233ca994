//! Parses the output of db_bench: one line of results per benchmark, then RocksDB's statistics.

use serde::{Deserialize, Serialize};

/// The result of one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Throughput {
    /// Name, such as `fillrandom`.
    pub benchmark: String,
    /// Operations per second over all threads.
    pub ops_per_second: f64,
    /// Duration.
    pub seconds: f64,
    /// Completed operations.
    pub operations: u64,
}

/// Percentiles of one of RocksDB's histograms, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Maximum.
    pub max_us: f64,
    /// Number of values.
    pub count: u64,
}

/// Parses `fillrandom   :   9.622 micros/op 103926 ops/sec 12508.842 seconds 1300000000 operations;   81.3 MB/s`. Older
/// versions print neither seconds nor operations and are not supported.
pub(crate) fn throughput(text: &str, benchmark: &str) -> Option<Throughput> {
    text.lines().find_map(|line| {
        let (name, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let before = |unit: &str| {
            let at = words.iter().position(|word| word.trim_end_matches(';') == unit)?;
            words.get(at.checked_sub(1)?).copied()
        };
        let number = |unit| before(unit)?.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        // Progress messages precede the name on the same line, separated by carriage returns.
        (name.rsplit('\r').next()?.trim() == benchmark).then_some(())?;
        Some(Throughput {
            benchmark: benchmark.into(),
            ops_per_second: number("ops/sec")?,
            seconds: number("seconds")?,
            operations: before("operations")?.parse().ok()?,
        })
    })
}

/// Parses `rocksdb.db.get.micros P50 : 234.2 P95 : 560.8 P99 : 850.9 P100 : 40191.0 COUNT : 220223968 SUM : ...`.
/// `None` if the line is missing or its count is 0.
pub(crate) fn percentiles(text: &str, histogram: &str) -> Option<Percentiles> {
    let words = words_after(text, histogram)?;
    let value = |name: &str| -> Option<f64> {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 2)?.parse().ok().filter(|value: &f64| value.is_finite())
    };
    let count = value("COUNT").filter(|count| *count >= 1.0)? as u64;
    Some(Percentiles {
        p50_us: value("P50")?,
        p95_us: value("P95")?,
        p99_us: value("P99")?,
        max_us: value("P100")?,
        count,
    })
}

/// Parses `rocksdb.flush.write.bytes COUNT : 2508000`.
pub(crate) fn ticker(text: &str, name: &str) -> Option<u64> {
    let words = words_after(text, name)?;
    (words.first() == Some(&"COUNT")).then(|| words.get(2)?.parse().ok())?
}

fn words_after<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.collect())
    })
}

pub fn check(text: &str) {
    for name in ["fillrandom", "readwhilewriting"] {
        let _ = throughput(text, name);
    }
    let _ = percentiles(text, "rocksdb.db.get.micros");
    let _ = ticker(text, "rocksdb.flush.write.bytes");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PRINTED: &str = include_str!("../../../../fuzz/corpus/db_bench/readwhilewriting.txt");

    #[test]
    fn result_line_is_parsed() {
        let line =
            "fillrandom   :       9.622 micros/op 103926 ops/sec 12508.842 seconds 1300000000 operations;   81.3 MB/s";
        let found = throughput(line, "fillrandom").unwrap();
        assert_eq!((found.ops_per_second, found.operations), (103_926.0, 1_300_000_000));
        assert_eq!(throughput(line, "overwrite"), None);
        assert_eq!(throughput("fillrandom : 3 micros/op 5 ops/sec; 2 MB/s", "fillrandom"), None);
    }

    #[test]
    fn output_of_version_7_8_is_read() {
        let found = throughput(PRINTED, "readwhilewriting").unwrap();
        assert!(found.operations > 0 && found.ops_per_second > 0.0 && found.seconds >= 1.0, "{found:?}");
        let reads = percentiles(PRINTED, "rocksdb.db.get.micros").unwrap();
        assert!(reads.p50_us <= reads.p95_us && reads.p95_us <= reads.p99_us && reads.p99_us <= reads.max_us);
        assert!(ticker(PRINTED, "rocksdb.wal.bytes").unwrap() > 0);
        assert_eq!(percentiles(PRINTED, "rocksdb.db.multiget.micros"), None, "it counted nothing");
    }

    #[test]
    fn parsing_the_committed_corpus_never_panics() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/db_bench");
        for entry in std::fs::read_dir(corpus).unwrap().flatten() {
            check(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()));
        }
    }

    proptest! {
        #[test]
        fn foreign_text_never_panics(text in "(fillrandom|rocksdb.db.get.micros|P50|COUNT|:|;|ops/sec|operations|[0-9e.-]{1,9}|\n| ){0,40}") {
            check(&text);
        }
    }
}
