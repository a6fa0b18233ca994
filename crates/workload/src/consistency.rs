//! Checks the consistency of a result: rates with counts, counts with each other, means with percentiles. A result from a file
//! may have been altered.

mod percentiles;

use crate::micro::{CallResult, ColdRead, FileOpsResult, SizeResult};
use crate::result::{FlowopResult, Repetition};
use percentiles::Percentiles;

/// Rates are computed from counts and seconds and keep all digits.
const EXACT: f64 = 1e-6;
/// Latencies are in cells of 0.8 % (engine/latency.rs), and merging those of ranks adds 0.1 %.
const CELL: f64 = 0.02;
/// In microseconds; single latencies are whole nanoseconds.
const NANOSECOND: f64 = 1e-3;

fn differs(name: &str, stated: f64, computed: f64) -> Option<String> {
    let is_equal = (stated - computed).abs() <= EXACT * computed.abs().max(1e-9);
    (!is_equal).then(|| format!("{name} is {stated}, but its counts give {computed}"))
}

impl Repetition {
    /// Describes the first contradiction. An invalid result has no rates and does not contradict itself.
    pub fn contradiction(&self) -> Option<String> {
        if !(self.valid || self.interrupted) {
            return None;
        }
        let counted = || self.flowops.iter().map(|(_, one)| one).filter(|one| one.kind.entry().counted);
        let of_flowops = || {
            self.flowops
                .iter()
                .find_map(|(name, one)| Some(format!("flowop {name}: {}", one.contradiction(self.seconds)?)))
        };
        let of_counts = || {
            let sum: u128 = counted().map(|one| u128::from(one.count)).sum();
            let (ops, seconds) = (self.ops, self.seconds);
            let bytes: f64 = counted().map(|one| one.bytes as f64).sum();
            let time: f64 = counted().map(|one| one.mean_us * one.count as f64).sum();
            (sum != u128::from(ops)).then(|| format!("ops is {ops}, but its flowops counted {sum}")).or_else(|| {
                differs("mb_per_second", self.mb_per_second, Self::megabytes(1, seconds) * bytes)
                    .or_else(|| differs("mean_us", self.mean_us, time / ops.max(1) as f64))
            })
        };
        let of_directions = || {
            let sum = self.reads.saturating_add(self.writes);
            (sum > self.ops).then(|| format!("{sum} operations read or write, of {}", self.ops))
        };
        let of_p99 = || {
            let used: Vec<f64> = counted().filter(|one| one.count > 0).map(|one| one.p99_us).collect();
            let least = used.iter().copied().fold(f64::INFINITY, f64::min);
            let most = used.iter().copied().fold(0.0, f64::max);
            let p99_us = self.p99_us.filter(|_| !used.is_empty())?;
            let fits = p99_us >= least * (1.0 - CELL) && p99_us <= most * (1.0 + CELL);
            (!fits).then(|| format!("p99_us is {p99_us}, outside {least} to {most} of its flowops"))
        };
        differs("ops_per_second", self.ops_per_second, Self::rate(self.ops, self.seconds))
            .or_else(|| (!self.flowops.is_empty()).then(of_counts).flatten())
            .or_else(of_directions)
            .or_else(of_p99)
            .or_else(of_flowops)
            .or_else(|| self.contradiction_of_rates_over_time())
            .or_else(|| percentiles::of_intervals(self))
    }

    fn contradiction_of_rates_over_time(&self) -> Option<String> {
        let mut begin = 0.0;
        self.over_time.iter().find_map(|interval| {
            let length = interval.seconds - std::mem::replace(&mut begin, interval.seconds);
            let rate = Self::rate(interval.ops, length);
            differs("ops_per_second", interval.ops_per_second, rate)
                .map(|problem| format!("interval that ends at {} s: {problem}", interval.seconds))
        })
    }
}

impl FlowopResult {
    fn contradiction(&self, seconds: f64) -> Option<String> {
        differs("ops_per_second", self.ops_per_second, Repetition::rate(self.count, seconds))
            .or_else(|| differs("mb_per_second", self.mb_per_second, Repetition::megabytes(self.bytes, seconds)))
            .or_else(|| (self.count > 0).then(|| self.percentiles().contradiction(self.count, self.mean_us)).flatten())
    }

    fn percentiles(&self) -> Percentiles<7> {
        Percentiles([
            ("min_us", 0.0, self.min_us),
            ("p50_us", 0.5, self.p50_us),
            ("p90_us", 0.9, self.p90_us),
            ("p99_us", 0.99, self.p99_us),
            ("p999_us", 0.999, self.p999_us),
            ("p9999_us", 0.9999, self.p9999_us),
            ("max_us", 1.0, self.max_us),
        ])
    }
}

impl FileOpsResult {
    pub fn contradiction(&self) -> Option<String> {
        self.operations.iter().find_map(|one| {
            let fits = one.min_us <= one.mean_us && one.mean_us <= one.max_us;
            (!fits)
                .then(|| format!("{}: mean_us is {}, outside {} to {}", one.name, one.mean_us, one.min_us, one.max_us))
        })
    }
}

impl CallResult {
    pub fn contradiction(&self) -> Option<String> {
        self.sizes.iter().find_map(|one| Some(format!("{} bytes per call: {}", one.bytes, one.contradiction()?)))
    }
}

impl SizeResult {
    fn contradiction(&self) -> Option<String> {
        let percentiles = Percentiles([
            ("p50_us", 0.5, self.p50_us),
            ("p90_us", 0.9, self.p90_us),
            ("p99_us", 0.99, self.p99_us),
            ("p999_us", 0.999, self.p999_us),
            ("p9999_us", 0.9999, self.p9999_us),
            ("max_us", 1.0, self.max_us),
        ]);
        let rate = Repetition::megabytes(self.bytes, self.mean_us / 1e6);
        differs("mb_per_second", self.mb_per_second, rate)
            .or_else(|| percentiles.contradiction(self.calls, self.mean_us))
    }
}

impl ColdRead {
    pub fn contradiction(&self) -> Option<String> {
        let stated = self.seconds_per_gib?.get();
        differs("seconds_per_gib", stated, self.seconds / (self.allocated_bytes as f64 / f64::from(1u32 << 30)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Interval;

    fn flowop(count: u64, mean_us: f64) -> FlowopResult {
        FlowopResult::of_reads(count, mean_us, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    }

    fn interval(seconds: f64, ops: u64, ops_per_second: f64) -> Interval {
        let (p50_us, p99_us) = (2.0, 4.0);
        let (mb_per_second, p999_us, p9999_us) = (1.0, p99_us, p99_us);
        Interval { seconds, ops, ops_per_second, mb_per_second, p50_us, p99_us, p999_us, p9999_us, flowops: Vec::new() }
    }

    fn repetition() -> Repetition {
        Repetition {
            ops: 40,
            ops_per_second: 20.0,
            mb_per_second: 20.0,
            reads: 40,
            seconds: 2.0,
            mean_us: 2.5,
            p99_us: Some(4.0),
            valid: true,
            flowops: vec![("one".into(), flowop(10, 4.0)), ("two".into(), flowop(30, 2.0))],
            over_time: vec![interval(0.5, 10, 20.0), interval(2.0, 30, 20.0)],
            ..Repetition::default()
        }
    }

    #[test]
    fn altered_numbers_contradict_the_others() {
        assert_eq!(repetition().contradiction(), None);
        let altered: [fn(&mut Repetition); 16] = [
            |one| one.over_time[1].ops_per_second = 30.0,
            |one| one.over_time[0].seconds = 1.0,
            |one| one.ops_per_second *= 10.0,
            |one| one.ops_per_second = 0.0,
            |one| (one.ops, one.ops_per_second) = (400, 200.0),
            |one| one.mb_per_second *= 10.0,
            |one| one.mean_us /= 10.0,
            |one| one.mean_us = -2.5,
            |one| one.p99_us = Some(0.4),
            |one| one.seconds = 20.0,
            |one| one.reads = 41,
            |one| one.flowops[0].1.ops_per_second *= 10.0,
            |one| one.flowops[0].1.p99_us = 1.5,
            |one| one.flowops[0].1.count = u64::MAX,
            // 2.6 us is the largest mean of 30 operations with these percentiles.
            |one| (one.flowops[1].1.mean_us, one.mean_us) = (4.0, 4.0),
            |one| (one.flowops[0].1.mean_us, one.mean_us) = (40.0, 11.5),
        ];
        for (index, alter) in altered.into_iter().enumerate() {
            let mut one = repetition();
            alter(&mut one);
            assert!(one.contradiction().is_some(), "{index}");
            one.valid = false;
            assert_eq!(one.contradiction(), None, "what does not count contradicts nothing: {index}");
        }
    }

    #[test]
    fn calls_and_cold_reads_agree_with_their_counts() {
        let size = SizeResult {
            bytes: 1 << 20,
            calls: 8,
            mb_per_second: 1000.0,
            mean_us: 1000.0,
            p50_us: 900.0,
            p90_us: 1000.0,
            p99_us: 1100.0,
            p999_us: 1100.0,
            p9999_us: 1100.0,
            max_us: 1100.0,
        };
        assert_eq!(size.contradiction(), None);
        for altered in [SizeResult { mb_per_second: 2000.0, ..size.clone() }, SizeResult { p50_us: 2000.0, ..size }] {
            assert!(altered.contradiction().is_some(), "{altered:?}");
        }
        let per_gib = senesce_core::Finite::new(2.0).ok();
        let read = ColdRead { seconds: 2.0, allocated_bytes: 1 << 30, seconds_per_gib: per_gib, ..ColdRead::default() };
        assert_eq!(read.contradiction(), None);
        assert!(ColdRead { seconds: 1.0, ..read }.contradiction().is_some());
    }
}
