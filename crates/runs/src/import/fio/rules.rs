//! Cross-checks between fio's numbers.

use super::document::{RawDirection, RawLatency};
use crate::import::rules::{Rule, mean_range, rule, squares_range};

/// A percentile is the middle of one of 64 bins between two powers of two (fio, stat.c, `plat_idx_to_val`), so an
/// extreme may lie half a bin next to it.
const HALF_A_BIN: f64 = 1.0 / 128.0;
/// Longer latencies fall into the last bin (fio, stat.h, `FIO_IO_U_PLAT_NR`).
const LAST_BIN_NS: f64 = 1.6e10;
/// fio's counters have 64 bits.
const COUNT: (f64, f64) = (0.0, 18_446_744_073_709_551_616.0);
/// fio prints a non-zero share of a latency interval as 0.01 % at least.
const LEAST_PERCENT: f64 = 0.010_001;
/// Below this share (fraction) of the operations, the intervals do not add up to all.
const MOST_OPERATIONS: f64 = 0.99;

#[derive(Debug, Clone, Copy)]
pub struct Interval {
    pub least_ns: f64,
    pub most_ns: f64,
    pub percent: f64,
}

pub struct Evidence {
    pub direction: RawDirection,
    pub block_bytes: Option<f64>,
    pub in_flight: f64,
    /// Number of clients that the direction is a sum of; 1 for one client.
    pub clients: f64,
    /// `latency_ns`, `latency_us` and `latency_ms` of the job, if this is its only direction.
    pub intervals: Vec<Interval>,
}

impl Evidence {
    /// Returns completion latencies and the sum of the intervals (percent), if both cover all operations.
    fn distribution(&self) -> Option<(&RawLatency, f64)> {
        let one = self.direction.clat_ns.as_ref().filter(|one| one.measured())?;
        let wanted = MOST_OPERATIONS * self.direction.total_ios.unwrap_or(0.0);
        let all: f64 = self.intervals.iter().map(|one| one.percent).sum();
        (all > 0.0 && one.samples.is_none_or(|samples| samples >= wanted)).then_some((one, all))
    }

    /// Bounds of the share (percent) of latencies below a value, from the intervals.
    fn share_below(&self, least_ns: f64, most_ns: f64) -> (f64, f64) {
        let sum = |below: &dyn Fn(&&Interval) -> bool| self.intervals.iter().filter(below).map(|one| one.percent).sum();
        (sum(&|one| one.most_ns <= least_ns), sum(&|one| one.least_ns <= most_ns))
    }
}

fn per_second(count: f64, runtime_ms: f64) -> (f64, f64) {
    // The clock has a resolution of a millisecond; below one, fio writes 0.
    let rate = if runtime_ms > 0.0 { count / runtime_ms * 1000.0 } else { 0.0 };
    let slack = if runtime_ms > 0.0 { rate / runtime_ms } else { 0.0 };
    (rate - slack, rate + slack)
}

impl RawLatency {
    fn extremes(&self) -> Option<(f64, f64)> {
        Some((self.min.unwrap_or(0.0), self.max?)).filter(|_| self.measured())
    }

    /// Latencies and counts, rising; `None` without any.
    fn counted(&self) -> Option<(Vec<(f64, f64)>, f64)> {
        let bins: Vec<(f64, f64)> = self.bins.iter().map(|bin| (bin.0 as f64, bin.1 as f64)).collect();
        let all = bins.iter().map(|bin| bin.1).sum();
        (all > 0.0).then_some((bins, all))
    }

    /// Bounds of the mean from the steps of the percentiles.
    fn mean_by_percentiles(&self) -> Option<(f64, f64)> {
        let (least, most) = self.extremes()?;
        let last = self.percentile.last().filter(|last| last.1 > 0.0)?.1;
        let (mut range, mut before) = ((0.0, 0.0), (0.0, least));
        for (percent, value) in self.percentile.iter().copied().chain([(100.0, most)]) {
            let share = (percent - before.0) / 100.0;
            range = (range.0 + share * before.1, range.1 + share * value);
            before = (percent, value);
        }
        Some(if last >= LAST_BIN_NS { (range.0, f64::INFINITY) } else { range })
    }
}

/// Returns the latency of the first bin that `wanted` samples do not exceed.
fn rank(bins: &[(f64, f64)], wanted: f64) -> f64 {
    let mut below = 0.0;
    let found = bins.iter().find(|bin| {
        below += bin.1;
        below >= wanted
    });
    found.or(bins.last()).map_or(0.0, |bin| bin.0)
}

pub const OF_LATENCIES: [Rule<RawLatency>; 9] = [
    rule("numbers", "clocks of fio", 0.0, 0.0, |one, all| {
        let plain = [("min", one.min), ("max", one.max), ("mean", Some(one.mean)), ("stddev", one.stddev)];
        for (field, value) in plain.into_iter().chain([("N", one.samples)]) {
            all.within(field, value, COUNT);
        }
        for (percent, value) in &one.percentile {
            all.within("percent of a percentile", *percent, (0.0, 100.0));
            all.within(format!("percentile {percent}"), *value, COUNT);
        }
        Some(())
    }),
    rule("extremes", "min and max", HALF_A_BIN, 0.5, |one, all| {
        let (min, max) = one.extremes()?;
        all.within("min", min, (0.0, max / (1.0 + HALF_A_BIN)));
        // Older versions write percentiles of 0 without measurements.
        for (percent, value) in one.percentile.iter().filter(|step| step.1 > 0.0) {
            all.within(format!("percentile {percent}"), *value, (min, max));
        }
        one.bins.iter().try_for_each(|bin| all.within("bins", bin.0 as f64, (min, max)))
    }),
    rule("order of percentiles", "those below it", 0.0, 0.0, |one, all| {
        let mut steps = one.percentile.windows(2);
        steps.try_for_each(|two| all.within(format!("percentile {}", two[1].0), two[1].1, (two[0].1, f64::INFINITY)))
    }),
    rule("mean and extremes", "min, max and N", 1e-3, 0.01, |one, all| {
        let (min, max) = one.extremes()?;
        all.within("mean", one.mean, mean_range(one.samples.unwrap_or(0.0), min, max))
    }),
    rule("deviation", "min, mean, max and N", 0.05, 0.01, |one, all| {
        let ((min, max), count) = (one.extremes()?, one.samples.filter(|count| *count >= 2.0)?);
        let (least, most) = squares_range(count, min, one.mean, max);
        let deviation = |squares: f64| (squares / (count - 1.0)).sqrt();
        all.within("stddev", one.stddev, (deviation(least), deviation(most)))
    }),
    rule("mean and percentiles", "percentiles and extremes", HALF_A_BIN * 2.0, 1.0, |one, all| {
        all.within("mean", one.mean, one.mean_by_percentiles()?)
    }),
    rule("count of bins", "the bins", 1e-3, 0.0, |one, all| all.equal("N", one.samples, one.counted()?.1)),
    rule("percentiles and bins", "the bins", HALF_A_BIN * 2.0, 1.0, |one, all| {
        let (bins, count) = one.counted()?;
        one.percentile.iter().try_for_each(|(percent, value)| {
            let at = |slack: f64| rank(&bins, percent / 100.0 * count * (1.0 + slack));
            all.within(format!("percentile {percent}"), *value, (at(-1e-6), at(1e-6)))
        })
    }),
    rule("mean and bins", "the bins", HALF_A_BIN, 1.0, |one, all| {
        let (bins, count) = one.counted()?;
        let mean = bins.iter().map(|bin| bin.0 * bin.1 / count).sum();
        all.within("mean", one.mean, (mean, if bins.last()?.0 >= LAST_BIN_NS { f64::INFINITY } else { mean }))
    }),
];

pub const OF_DIRECTIONS: [Rule<Evidence>; 9] = [
    rule("counts", "counters of 64 bits", 0.0, 0.0, |Evidence { direction: one, .. }, all| {
        let counts = [("total_ios", one.total_ios), ("io_bytes", one.io_bytes), ("bw_bytes", one.bw_bytes)];
        for (name, value) in counts.into_iter().chain([("bw", one.bw), ("iops", one.iops), ("runtime", one.runtime)]) {
            all.within(name, value, COUNT);
        }
        Some(())
    }),
    rule("operation rate", "total_ios and runtime", 0.01, 0.001, |Evidence { direction: one, .. }, all| {
        all.within("iops", one.iops, per_second(one.total_ios?, one.runtime?))
    }),
    rule("byte rate", "io_bytes and runtime", 0.01, 1.0, |Evidence { direction: one, .. }, all| {
        let (least, most) = per_second(one.io_bytes?, one.runtime?);
        all.within("bw_bytes", one.bw_bytes, (least, most));
        all.within("bw", one.bw, (least / 1024.0 - 1.0, most / 1024.0 + 1.0))
    }),
    // A sum over clients adds values that were rounded down.
    rule("kibibytes", "io_bytes", 0.0, 1.0, |Evidence { direction: one, clients, .. }, all| {
        let kibibytes = one.io_bytes? / 1024.0;
        all.within("io_kbytes", one.io_kbytes, (kibibytes - (clients - 1.0), kibibytes))
    }),
    rule("bytes of operations", "total_ios and the block size", 0.01, 0.0, |evidence, all| {
        let one = &evidence.direction;
        let (bytes, count) = (one.io_bytes.filter(|bytes| *bytes > 0.0), one.total_ios?);
        let Some(block) = evidence.block_bytes else { return all.within("io_bytes", bytes, (count, f64::INFINITY)) };
        let incomplete = evidence.in_flight + one.short_ios + one.drop_ios;
        let most = (count + evidence.in_flight) * block;
        all.within("io_bytes", bytes, ((count - incomplete).max(0.0) * block, most))
    }),
    rule("completed operations", "total_ios and iodepth", 0.01, 1.0, |evidence, all| {
        let most = evidence.direction.total_ios? + evidence.in_flight;
        for (name, one) in evidence.direction.latencies() {
            all.within(format!("{name}.N"), one.samples, (0.0, most));
        }
        Some(())
    }),
    rule("total latency", "slat_ns and clat_ns", 0.1, 2000.0, |Evidence { direction: one, .. }, all| {
        let measured = |one: &Option<RawLatency>| one.clone().filter(RawLatency::measured);
        let (total, completion) = (measured(&one.lat_ns)?, measured(&one.clat_ns)?);
        let of_all = |one: &RawLatency| one.samples == completion.samples && one.samples == total.samples;
        let range = match measured(&one.slat_ns).filter(of_all) {
            Some(submission) => (completion.mean + submission.mean, completion.mean + submission.mean),
            None => (completion.mean, f64::INFINITY),
        };
        all.within("lat_ns.mean", total.mean, range)
    }),
    // The intervals are rounded to half a percent.
    rule("latency intervals", "latency_ns, latency_us and latency_ms", 0.02, 0.5, |evidence, all| {
        let (one, sum) = evidence.distribution()?;
        all.equal("the sum of all intervals in percent", sum, 100.0);
        one.percentile.iter().filter(|step| step.1 > 0.0).try_for_each(|(percent, ns)| {
            let range = evidence.share_below(ns * (1.0 - HALF_A_BIN) - 1.0, ns * (1.0 + HALF_A_BIN) + 1.0);
            all.within(format!("percent of latencies up to {ns} ns"), *percent, range)
        })
    }),
    rule("mean and latency intervals", "latency_ns, latency_us and latency_ms", 0.02, 1.0, |evidence, all| {
        let (one, whole) = evidence.distribution()?;
        let sum = |of: fn(&Interval) -> f64| evidence.intervals.iter().map(of).sum::<f64>() / whole;
        let most = sum(|one| if one.percent > 0.0 { one.percent * one.most_ns } else { 0.0 });
        let least = sum(|one| if one.percent > LEAST_PERCENT { one.percent * one.least_ns } else { 0.0 });
        all.within("clat_ns.mean", one.mean, (least, most))
    }),
];
