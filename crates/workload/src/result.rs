//! Results of a benchmark: plain data, the format of `senesce bench --json`.

use crate::model::FlowopKind;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Bytes of "MB" in MB/s, as in Filebench.
const MEGABYTE: f64 = 1_048_576.0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchResult {
    pub workload: String,
    pub repetitions: Vec<Repetition>,
    pub filesets: Vec<FilesetSummary>,
    /// "Measured without ..." and other caveats.
    pub notes: Vec<String>,
}

/// A file set as populated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesetSummary {
    /// Name.
    pub name: String,
    /// Files, including those that do not exist at the start.
    pub files: u64,
    /// Directories, including the root of the file set.
    pub directories: u64,
    /// Sum of the sizes of all files, as Filebench prints it.
    pub bytes: u64,
    /// Files that exist at the start.
    pub existing_files: u64,
    /// Bytes of the files that exist at the start.
    pub existing_bytes: u64,
}

/// One measured run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Repetition {
    /// Counted operations.
    pub ops: u64,
    /// Operations per second as Filebench counts them: all flowops that do I/O.
    pub ops_per_second: f64,
    /// MiB per second read and written.
    pub mb_per_second: f64,
    /// Flowops that read.
    pub reads: u64,
    /// Flowops that write.
    pub writes: u64,
    /// User processor time.
    pub user_cpu_seconds: f64,
    /// System processor time.
    pub system_cpu_seconds: f64,
    /// Measured time.
    pub seconds: f64,
    /// Mean latency of a counted operation in microseconds.
    pub mean_us: f64,
    /// 99 % of the latencies of counted operations lie below, in microseconds; `None` without counted operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// Whether the result is valid.
    pub valid: bool,
    /// Why it is invalid, or why the run ended early.
    pub reason: Option<String>,
    /// Whether the user stopped it.
    #[serde(default)]
    pub interrupted: bool,
    /// Whether an I/O error ended it.
    #[serde(default)]
    pub io_failed: bool,
    /// Results per flowop, in the order of the workload.
    #[serde(with = "ordered")]
    pub flowops: Vec<(String, FlowopResult)>,
    /// Intervals of the run.
    pub over_time: Vec<Interval>,
    /// Messages of print flowops, warnings of the watchdog.
    pub messages: Vec<String>,
}

/// Results of one flowop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowopResult {
    /// Kind of flowop.
    pub kind: FlowopKind,
    /// Number of executions.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Executions per second.
    pub ops_per_second: f64,
    /// MiB per second.
    pub mb_per_second: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Minimum latency (to within 1 %).
    pub min_us: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 90 % of the latencies lie below.
    pub p90_us: f64,
    /// 99 % lie below.
    pub p99_us: f64,
    /// 99.9 % lie below.
    pub p999_us: f64,
    /// 99.99 % lie below.
    pub p9999_us: f64,
    /// Maximum latency (to within 1 %).
    pub max_us: f64,
}

/// Counters of an interval of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// End of the interval in seconds after the start of the measurement.
    pub seconds: f64,
    /// Counted operations in it.
    pub ops: u64,
    /// Operations per second.
    pub ops_per_second: f64,
    /// MiB per second.
    pub mb_per_second: f64,
    /// Median latency of the counted operations in microseconds.
    pub p50_us: f64,
    /// 99 % lie below.
    pub p99_us: f64,
    /// 99.9 % lie below.
    pub p999_us: f64,
    /// 99.99 % lie below.
    pub p9999_us: f64,
    /// Per flowop: count, median, p99, p99.99.
    #[serde(with = "ordered")]
    pub flowops: Vec<(String, IntervalFlowop)>,
}

/// One flowop in an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalFlowop {
    /// Number of executions.
    pub count: u64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99 % lie below.
    pub p99_us: f64,
    /// 99.99 % lie below.
    pub p9999_us: f64,
}

/// A list of named things as a JSON object that keeps its order.
mod ordered {
    use serde::de::{MapAccess, Visitor};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::fmt;
    use std::marker::PhantomData;

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        list: &[(String, T)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(list.iter().map(|(name, value)| (name, value)))
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, T)>, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = Vec<(String, T)>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    list.push(pair);
                }
                Ok(list)
            }
        }
        deserializer.deserialize_map(List(PhantomData))
    }
}

impl Repetition {
    /// Marks the result as invalid, without rates, if a cross-check contradicts it.
    pub fn refute(&mut self, contradiction: Option<String>) {
        if let Some(contradiction) = contradiction {
            (self.valid, self.reason) = (false, Some(contradiction));
            (self.ops_per_second, self.mb_per_second) = (0.0, 0.0);
        }
    }

    pub fn rate(count: u64, seconds: f64) -> f64 {
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    pub(crate) fn megabytes(bytes: u64, seconds: f64) -> f64 {
        if seconds > 0.0 { bytes as f64 / MEGABYTE / seconds } else { 0.0 }
    }

    /// Formats the breakdown and summary line as Filebench does, for scripts that parse its logs.
    pub fn filebench_lines(&self) -> String {
        let mut text = format!("{:.3}: Per-Operation Breakdown\n", self.seconds);
        for (name, flowop) in &self.flowops {
            let _ = writeln!(
                text,
                "{name:<20} {}ops {:>8.0}ops/s {:>5.1}mb/s {:>8.3}ms/op [{:.3}ms - {:>5.3}ms]",
                flowop.count,
                flowop.ops_per_second,
                flowop.mb_per_second,
                flowop.mean_us / 1000.0,
                flowop.min_us / 1000.0,
                flowop.max_us / 1000.0
            );
        }
        if !self.valid {
            let reason = self.reason.as_deref().unwrap_or("the run failed");
            let _ = write!(text, "{:.3}: NO VALID RESULTS! {reason}", self.seconds);
            return text;
        }
        let _ = write!(
            text,
            "{:.3}: IO Summary: {:>5} ops {:.3} ops/s {:.0}/{:.0} rd/wr {:>5.1}mb/s {:.3}ms/op",
            self.seconds,
            self.ops,
            self.ops_per_second,
            Self::rate(self.reads, self.seconds),
            Self::rate(self.writes, self.seconds),
            self.mb_per_second,
            self.mean_us / 1000.0
        );
        text
    }
}

#[cfg(test)]
impl FlowopResult {
    /// Reads of 1 MiB in 2 s, with their latencies from the minimum to the maximum.
    pub(crate) fn of_reads(count: u64, mean_us: f64, latencies: [f64; 7]) -> Self {
        let rate = count as f64 / 2.0;
        let (kind, bytes, [min_us, p50_us, p90_us, p99_us, p999_us, p9999_us, max_us]) =
            (FlowopKind::Read, count << 20, latencies);
        let (ops_per_second, mb_per_second) = (rate, rate);
        Self {
            kind,
            count,
            bytes,
            ops_per_second,
            mb_per_second,
            mean_us,
            min_us,
            p50_us,
            p90_us,
            p99_us,
            p999_us,
            p9999_us,
            max_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_line_matches_filebench() {
        let repetition = Repetition {
            ops: 1200,
            ops_per_second: 120.0,
            mb_per_second: 3.25,
            reads: 100,
            writes: 200,
            seconds: 10.0,
            mean_us: 250.0,
            valid: true,
            ..Repetition::default()
        };
        let text = repetition.filebench_lines();
        assert!(
            text.ends_with("10.000: IO Summary:  1200 ops 120.000 ops/s 10/20 rd/wr   3.2mb/s 0.250ms/op"),
            "{text}"
        );
    }

    #[test]
    fn flowops_are_an_object_in_order() {
        let flowops = ["z", "a"].map(|name| (name.into(), FlowopResult::of_reads(1, 0.0, [0.0; 7]))).into();
        let repetition = Repetition { flowops, ..Repetition::default() };
        let text = serde_json::to_string(&repetition).unwrap();
        assert!(text.find("\"z\"").unwrap() < text.find("\"a\"").unwrap());
        assert_eq!(serde_json::from_str::<Repetition>(&text).unwrap(), repetition);
    }
}
