//! Cross-checks between fio's numbers.

use super::document::{RawDirection, RawLatency};
use crate::import::rules::{Compared, Rule, mean_range, squares_range};

/// A percentile is the middle of one of 64 bins between two powers of two (fio, stat.c, `plat_idx_to_val`), so an
/// extreme may lie half a bin next to it.
const HALF_A_BIN: f64 = 1.0 / 128.0;
/// Longer latencies fall into the last bin (fio, stat.h, `FIO_IO_U_PLAT_NR`).
const LAST_BIN_NS: f64 = 1.6e10;
/// fio's counters have 64 bits.
const MOST_COUNT: f64 = 18_446_744_073_709_551_616.0;
/// fio prints a non-zero share of a latency interval as 0.01 % at least.
const LEAST_PERCENT: f64 = 0.010_001;
const SHARE_ROUNDING_PERCENT: f64 = 0.5;
/// Below this share (fraction) of the operations, the intervals do not add up to all.
const MOST_OPERATIONS: f64 = 0.99;

#[derive(Debug, Clone, Copy)]
pub struct Interval {
    pub least_ns: f64,
    pub most_ns: f64,
    pub percent: f64,
}

pub struct Evidence<'a> {
    pub direction: &'a RawDirection,
    pub block_bytes: Option<f64>,
    pub in_flight: f64,
    /// `latency_ns`, `latency_us` and `latency_ms` of the job, if this is its only direction.
    pub intervals: Vec<Interval>,
}

impl Evidence<'_> {
    /// Completion latencies and the sum of the intervals (percent), if both cover all operations.
    fn distribution(&self) -> Option<(&RawLatency, f64)> {
        let one = self.direction.clat_ns.as_ref().filter(|one| one.measured())?;
        let wanted = MOST_OPERATIONS * self.direction.total_ios.unwrap_or(0.0);
        let all: f64 = self.intervals.iter().map(|one| one.percent).sum();
        (all > 0.0 && one.samples.is_none_or(|samples| samples >= wanted)).then_some((one, all))
    }
}

pub type Latency<'a> = (&'static str, &'a RawLatency);

fn per_second(count: f64, runtime_ms: f64) -> (f64, f64) {
    // The clock has a resolution of a millisecond; below one, fio writes 0.
    let rate = if runtime_ms > 0.0 { count / runtime_ms * 1000.0 } else { 0.0 };
    let slack = if runtime_ms > 0.0 { rate / runtime_ms } else { 0.0 };
    (rate - slack, rate + slack)
}

/// Percent and nanoseconds, rising. Ignores keys that are not percentiles.
fn percentiles(latency: &RawLatency) -> Vec<(f64, f64)> {
    let parsed = latency.percentile.iter().filter_map(|(percent, value)| Some((percent.parse().ok()?, *value)));
    let mut all: Vec<(f64, f64)> = parsed.collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

fn bins(latency: &RawLatency) -> Vec<(f64, f64)> {
    let parsed = latency.bins.iter().filter_map(|(value, count)| Some((value.parse().ok()?, *count as f64)));
    let mut all: Vec<(f64, f64)> = parsed.filter(|bin| bin.1 > 0.0).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

fn extremes(latency: &RawLatency) -> Option<(f64, f64)> {
    Some((latency.min.unwrap_or(0.0), latency.max?)).filter(|_| latency.measured())
}

fn samples(latency: &RawLatency) -> f64 {
    latency.samples.unwrap_or(0.0)
}

/// The latency range of the first bin that `percent` of the samples do not exceed, with a small tolerance.
fn rank(bins: &[(f64, f64)], percent: f64) -> (f64, f64) {
    let all: f64 = bins.iter().map(|bin| bin.1).sum();
    let at = |wanted: f64| {
        let mut below = 0.0;
        let found = bins.iter().find(|bin| {
            below += bin.1;
            below >= wanted
        });
        found.or(bins.last()).map_or(0.0, |bin| bin.0)
    };
    let wanted = percent / 100.0 * all;
    (at(wanted * (1.0 - 1e-6)), at(wanted * (1.0 + 1e-6)))
}

/// Bounds of the mean from the steps of the percentiles.
fn mean_by_percentiles(latency: &RawLatency) -> Option<(f64, f64)> {
    let (least, most) = extremes(latency)?;
    let steps = percentiles(latency);
    let last = steps.last().filter(|last| last.1 > 0.0)?.1;
    let (mut range, mut before) = ((0.0, 0.0), (0.0, least));
    for (percent, value) in steps.into_iter().chain([(100.0, most)]) {
        let share = (percent - before.0) / 100.0;
        range = (range.0 + share * before.1, range.1 + share * value);
        before = (percent, value);
    }
    Some(if last >= LAST_BIN_NS { (range.0, f64::INFINITY) } else { range })
}

/// Bounds of the share (percent) of latencies below a value, from the intervals.
fn share_below(intervals: &[Interval], ns: f64) -> (f64, f64) {
    let least = intervals.iter().filter(|one| one.most_ns <= ns).map(|one| one.percent).sum();
    let most = intervals.iter().filter(|one| one.least_ns <= ns).map(|one| one.percent).sum();
    (least, most)
}

pub fn latency_rules<'a>() -> [Rule<Latency<'a>>; 9] {
    [
        Rule {
            name: "numbers",
            witness: "clocks of fio",
            share: 0.0,
            rounding: 0.0,
            of: |(name, one)| {
                let plain = [("min", one.min), ("max", one.max), ("mean", Some(one.mean)), ("stddev", one.stddev)];
                let plain = plain.into_iter().chain([("N", one.samples)]);
                let plain = plain.filter_map(|(field, value)| Some((field.to_string(), value?)));
                let percentiles =
                    one.percentile.iter().map(|(percent, value)| (format!("percentile {percent}"), *value));
                plain
                    .chain(percentiles)
                    .map(|(field, value)| Compared::within(format!("{name}.{field}"), value, 0.0, MOST_COUNT))
                    .collect()
            },
        },
        Rule {
            name: "extremes",
            witness: "min and max",
            share: HALF_A_BIN,
            rounding: 0.5,
            of: |(name, one)| {
                let Some((min, max)) = extremes(one) else { return Vec::new() };
                let mut all = vec![Compared::within(format!("{name}.min"), min, 0.0, max / (1.0 + HALF_A_BIN))];
                let field = |field: &str, value: f64| Compared::within(format!("{name}.{field}"), value, min, max);
                // Older versions write percentiles of 0 without measurements.
                let shown = percentiles(one).into_iter().filter(|(_, value)| *value > 0.0);
                all.extend(shown.map(|(percent, value)| field(&format!("percentile {percent}"), value)));
                let bins = bins(one);
                all.extend(bins.first().into_iter().chain(bins.last()).map(|bin| field("bins", bin.0)));
                all
            },
        },
        Rule {
            name: "order of percentiles",
            witness: "those below it",
            share: 0.0,
            rounding: 0.0,
            of: |(name, one)| {
                let all = percentiles(one);
                let rises = |two: &[(f64, f64)]| {
                    Compared::within(format!("{name}.percentile {}", two[1].0), two[1].1, two[0].1, f64::INFINITY)
                };
                all.windows(2).map(rises).collect()
            },
        },
        Rule {
            name: "mean and extremes",
            witness: "min, max and N",
            share: 1e-3,
            rounding: 0.01,
            of: |(name, one)| {
                let Some((min, max)) = extremes(one) else { return Vec::new() };
                let (least, most) = mean_range(samples(one), min, max);
                vec![Compared::within(format!("{name}.mean"), one.mean, least, most)]
            },
        },
        Rule {
            name: "deviation",
            witness: "min, mean, max and N",
            share: 0.05,
            rounding: 0.01,
            of: |(name, one)| {
                let (Some((min, max)), Some(stated)) = (extremes(one), one.stddev) else { return Vec::new() };
                let count = samples(one);
                if count < 2.0 {
                    return Vec::new();
                }
                let (least, most) = squares_range(count, min, one.mean, max);
                let deviation = |squares: f64| (squares / (count - 1.0)).sqrt();
                vec![Compared::within(format!("{name}.stddev"), stated, deviation(least), deviation(most))]
            },
        },
        Rule {
            name: "mean and percentiles",
            witness: "percentiles and extremes",
            share: HALF_A_BIN * 2.0,
            rounding: 1.0,
            of: |(name, one)| {
                let range = mean_by_percentiles(one);
                let compared = |(least, most)| Compared::within(format!("{name}.mean"), one.mean, least, most);
                range.map(compared).into_iter().collect()
            },
        },
        Rule {
            name: "count of bins",
            witness: "the bins",
            share: 1e-3,
            rounding: 0.0,
            of: |(name, one)| {
                let held: f64 = one.bins.values().map(|count| *count as f64).sum();
                let stated = one.samples.filter(|_| held > 0.0);
                stated.map(|stated| Compared::equal(format!("{name}.N"), stated, held)).into_iter().collect()
            },
        },
        Rule {
            name: "percentiles and bins",
            witness: "the bins",
            share: HALF_A_BIN * 2.0,
            rounding: 1.0,
            of: |(name, one)| {
                let bins = bins(one);
                let of = |(percent, value): (f64, f64)| {
                    let (least, most) = rank(&bins, percent);
                    Compared::within(format!("{name}.percentile {percent}"), value, least, most)
                };
                if bins.is_empty() { Vec::new() } else { percentiles(one).into_iter().map(of).collect() }
            },
        },
        Rule {
            name: "mean and bins",
            witness: "the bins",
            share: HALF_A_BIN,
            rounding: 1.0,
            of: |(name, one)| {
                let bins = bins(one);
                let all: f64 = bins.iter().map(|bin| bin.1).sum();
                let Some(last) = bins.last() else { return Vec::new() };
                let mean = bins.iter().map(|bin| bin.0 * bin.1 / all).sum();
                let most = if last.0 >= LAST_BIN_NS { f64::INFINITY } else { mean };
                vec![Compared::within(format!("{name}.mean"), one.mean, mean, most)]
            },
        },
    ]
}

pub fn direction_rules<'a>() -> [Rule<Evidence<'a>>; 9] {
    [
        Rule {
            name: "counts",
            witness: "counters of 64 bits",
            share: 0.0,
            rounding: 0.0,
            of: |Evidence { direction: one, .. }| {
                let all = [
                    ("total_ios", one.total_ios),
                    ("io_bytes", one.io_bytes),
                    ("bw_bytes", one.bw_bytes),
                    ("bw", one.bw),
                    ("iops", one.iops),
                    ("runtime", one.runtime),
                ];
                all.into_iter()
                    .filter_map(|(name, value)| Some(Compared::within(name, value?, 0.0, MOST_COUNT)))
                    .collect()
            },
        },
        Rule {
            name: "operation rate",
            witness: "total_ios and runtime",
            share: 0.01,
            rounding: 0.001,
            of: |Evidence { direction: one, .. }| {
                let (Some(rate), Some(count), Some(runtime)) = (one.iops, one.total_ios, one.runtime) else {
                    return Vec::new();
                };
                let (least, most) = per_second(count, runtime);
                vec![Compared::within("iops", rate, least, most)]
            },
        },
        Rule {
            name: "byte rate",
            witness: "io_bytes and runtime",
            share: 0.01,
            rounding: 1.0,
            of: |Evidence { direction: one, .. }| {
                let (Some(bytes), Some(runtime)) = (one.io_bytes, one.runtime) else { return Vec::new() };
                let (least, most) = per_second(bytes, runtime);
                let whole = one.bw_bytes.map(|rate| Compared::within("bw_bytes", rate, least, most));
                let kib = one.bw.map(|rate| Compared::within("bw", rate, least / 1024.0 - 1.0, most / 1024.0 + 1.0));
                whole.into_iter().chain(kib).collect()
            },
        },
        Rule {
            name: "kibibytes",
            witness: "io_bytes",
            share: 0.0,
            rounding: 1.0,
            of: |Evidence { direction: one, .. }| {
                let (Some(kib), Some(bytes)) = (one.io_kbytes, one.io_bytes) else { return Vec::new() };
                vec![Compared::equal("io_kbytes", kib, bytes / 1024.0)]
            },
        },
        Rule {
            name: "bytes of operations",
            witness: "total_ios and the block size",
            share: 0.01,
            rounding: 0.0,
            of: |evidence| {
                let one = evidence.direction;
                let (Some(bytes), Some(count)) = (one.io_bytes.filter(|bytes| *bytes > 0.0), one.total_ios) else {
                    return Vec::new();
                };
                let Some(block) = evidence.block_bytes else {
                    return vec![Compared::within("io_bytes", bytes, count, f64::INFINITY)];
                };
                let incomplete = evidence.in_flight + one.short_ios + one.drop_ios;
                let (least, most) = ((count - incomplete).max(0.0) * block, (count + evidence.in_flight) * block);
                vec![Compared::within("io_bytes", bytes, least, most)]
            },
        },
        Rule {
            name: "completed operations",
            witness: "total_ios and iodepth",
            share: 0.01,
            rounding: 1.0,
            of: |evidence| {
                let Some(count) = evidence.direction.total_ios else { return Vec::new() };
                let most = count + evidence.in_flight;
                let stated =
                    |(name, one): Latency<'_>| Some(Compared::within(format!("{name}.N"), one.samples?, 0.0, most));
                evidence.direction.latencies().filter_map(stated).collect()
            },
        },
        Rule {
            name: "total latency",
            witness: "slat_ns and clat_ns",
            share: 0.1,
            rounding: 2000.0,
            of: |Evidence { direction: one, .. }| {
                let measured = |one: &Option<RawLatency>| {
                    one.as_ref().filter(|one| one.measured()).map(|one| (one.mean, one.samples))
                };
                let (Some((total, of_total)), Some((completion, of_completion))) =
                    (measured(&one.lat_ns), measured(&one.clat_ns))
                else {
                    return Vec::new();
                };
                let most = match measured(&one.slat_ns) {
                    Some((submission, of)) if of == of_completion && of == of_total => submission,
                    _ => f64::INFINITY,
                };
                let least = if most.is_finite() { completion + most } else { completion };
                vec![Compared::within("lat_ns.mean", total, least, completion + most)]
            },
        },
        Rule {
            name: "latency intervals",
            witness: "latency_ns, latency_us and latency_ms",
            share: 0.02,
            rounding: SHARE_ROUNDING_PERCENT,
            of: |evidence| {
                let Some((one, all)) = evidence.distribution() else { return Vec::new() };
                let mut found = vec![Compared::equal("the sum of all intervals in percent", all, 100.0)];
                for (percent, value) in percentiles(one).into_iter().filter(|(_, value)| *value > 0.0) {
                    let least = share_below(&evidence.intervals, value * (1.0 - HALF_A_BIN) - 1.0).0;
                    let most = share_below(&evidence.intervals, value * (1.0 + HALF_A_BIN) + 1.0).1;
                    let what = format!("percent of latencies up to {value} ns");
                    found.push(Compared::within(what, percent, least, most));
                }
                found
            },
        },
        Rule {
            name: "mean and latency intervals",
            witness: "latency_ns, latency_us and latency_ms",
            share: 0.02,
            rounding: 1.0,
            of: |evidence| {
                let Some((one, all)) = evidence.distribution() else { return Vec::new() };
                let sum = |of: fn(&Interval) -> f64| evidence.intervals.iter().map(of).sum::<f64>() / all;
                let most = sum(|one| if one.percent > 0.0 { one.percent * one.most_ns } else { 0.0 });
                let least = sum(|one| if one.percent > LEAST_PERCENT { one.percent * one.least_ns } else { 0.0 });
                vec![Compared::within("clat_ns.mean", one.mean, least, most)]
            },
        },
    ]
}
