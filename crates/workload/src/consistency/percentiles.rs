//! Checks recorded percentiles against each other, the mean and count, the intervals, and the histogram.

use super::{CELL, NANOSECOND};
use crate::result::{FlowopResult, IntervalFlowop, Repetition};
use hdrhistogram::Histogram;

/// Name, quantile and latency in microseconds, in rising order; the last is the maximum.
pub(super) struct Percentiles<const N: usize>(pub [(&'static str, f64, f64); N]);

impl<const N: usize> Percentiles<N> {
    /// Describes the contradiction if the percentiles do not rise, or `count` latencies with these percentiles cannot
    /// have the mean.
    pub(crate) fn contradiction(&self, count: u64, mean_us: f64) -> Option<String> {
        let falls = self.0.windows(2).find(|pair| pair[0].2 > pair[1].2 * (1.0 + CELL));
        if let Some([(low, _, low_us), (high, _, high_us)]) = falls.map(|pair| [pair[0], pair[1]]) {
            return Some(format!("{low} is {low_us}, more than {high}, {high_us}"));
        }
        let (least, most) = self.means(count);
        let fits = mean_us >= least * (1.0 - CELL) - NANOSECOND && mean_us <= most * (1.0 + CELL) + NANOSECOND;
        (!fits).then(|| format!("mean_us is {mean_us}, but the percentiles allow {least} to {most}"))
    }

    /// Returns the smallest and the largest mean of `count` latencies with these percentiles. Definitions of a
    /// percentile differ by one rank, so that one latency between two of them may lie on either side.
    fn means(&self, count: u64) -> (f64, f64) {
        let most = self.0[N - 1].2;
        let least = if self.0[0].1 == 0.0 { self.0[0].2 } else { 0.0 };
        let total = count as f64;
        let (mut low, mut high, mut rank, mut below) = (0.0, 0.0, 0.0, least);
        for (_, quantile, latency_us) in self.0 {
            let next = (quantile * total).ceil().max(1.0);
            let between = next - rank;
            low += (between - 1.0).max(0.0) * below;
            high += (between + 1.0) * latency_us;
            (rank, below) = (next, latency_us);
        }
        ((low / total).max(least), (high / total).min(most))
    }

    /// Describes the contradiction if one of the percentiles is not that of a histogram of nanoseconds.
    fn against(&self, histogram: &Histogram<u64>) -> Option<String> {
        let rank = 1.5 / histogram.len().max(1) as f64;
        let at = |quantile: f64| histogram.value_at_quantile(quantile.clamp(0.0, 1.0)) as f64 / 1000.0;
        self.0.iter().find_map(|(name, quantile, latency_us)| {
            let (low, high) = (at(quantile - rank), at(quantile + rank));
            let fits =
                *latency_us >= low * (1.0 - CELL) - NANOSECOND && *latency_us <= high * (1.0 + CELL) + NANOSECOND;
            (!fits).then(|| format!("{name} is {latency_us}, but its histogram has {low} to {high}"))
        })
    }
}

/// Describes the contradiction if a percentile of a repetition is outside those of its intervals. The intervals
/// together hold the same operations.
pub(super) fn of_intervals(one: &Repetition) -> Option<String> {
    let outside = |name: &str, stated: f64, intervals: &[(u64, f64)], count: u64| {
        let is_whole = !intervals.is_empty()
            && intervals.iter().map(|(ops, _)| u128::from(*ops)).sum::<u128>() == u128::from(count);
        let used = || {
            intervals
                .iter()
                .filter(|(ops, latency_us)| *ops > 0 || *latency_us > 0.0)
                .map(|(_, latency_us)| *latency_us)
        };
        let (least, most) = (used().fold(f64::INFINITY, f64::min), used().fold(0.0, f64::max));
        let fits = stated >= least * (1.0 - CELL) - NANOSECOND && stated <= most * (1.0 + CELL) + NANOSECOND;
        (is_whole && count > 0 && !fits)
            .then(|| format!("{name} is {stated}, but its intervals have {least} to {most}"))
    };
    let of_whole = || {
        let intervals: Vec<(u64, f64)> = one.over_time.iter().map(|interval| (interval.ops, interval.p99_us)).collect();
        outside("p99_us", one.p99_us?, &intervals, one.ops)
    };
    let of_flowop = |(name, flowop): &(String, FlowopResult)| {
        let all = |of: fn(&IntervalFlowop) -> f64| -> Vec<(u64, f64)> {
            let parts = one.over_time.iter().flat_map(|interval| &interval.flowops);
            parts.filter(|(part, _)| part == name).map(|(_, part)| (part.count, of(part))).collect()
        };
        outside("p50_us", flowop.p50_us, &all(|part| part.p50_us), flowop.count)
            .or_else(|| outside("p99_us", flowop.p99_us, &all(|part| part.p99_us), flowop.count))
            .or_else(|| outside("p9999_us", flowop.p9999_us, &all(|part| part.p9999_us), flowop.count))
            .map(|problem| format!("flowop {name}: {problem}"))
    };
    of_whole().or_else(|| one.flowops.iter().find_map(of_flowop))
}

impl Repetition {
    /// Describes how the repetition contradicts the histograms (nanoseconds) that are kept with its record. `None`: one is missing
    /// or unreadable.
    pub fn contradiction_of_histograms(&self, stored: impl Fn(&str) -> Option<Histogram<u64>>) -> Option<String> {
        if !self.valid {
            return None;
        }
        let (mut all, mut is_whole) = (None::<Histogram<u64>>, true);
        for (name, flowop) in &self.flowops {
            let histogram = match stored(name) {
                Some(histogram) => histogram,
                None if flowop.count == 0 => continue,
                None => return Some(format!("flowop {name}: its histogram is missing or unreadable")),
            };
            let problem = match histogram.len() == flowop.count {
                true if flowop.count == 0 => None,
                true => flowop.percentiles().against(&histogram),
                false => Some(format!("it counted {}, but its histogram has {}", flowop.count, histogram.len())),
            };
            if let Some(problem) = problem {
                return Some(format!("flowop {name}: {problem}"));
            }
            if flowop.kind.entry().counted {
                is_whole &= match &mut all {
                    Some(sum) => sum.add(&histogram).is_ok(),
                    None => true,
                };
                all.get_or_insert(histogram);
            }
        }
        let all = all.filter(|all| is_whole && !all.is_empty())?;
        Percentiles([("p99_us", 0.99, self.p99_us?)]).against(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Interval;

    /// Returns 980 latencies of 10 us and 20 of 1 ms, in two intervals.
    fn repetition() -> (Repetition, Histogram<u64>) {
        let mut histogram = Histogram::new(3).unwrap();
        histogram.record_n(10_000, 980).unwrap();
        histogram.record_n(1_000_000, 20).unwrap();
        let flowop = FlowopResult::of_reads(1000, 29.8, [10.0, 10.0, 10.0, 1000.0, 1000.0, 1000.0, 1000.0]);
        let interval = |seconds: f64| Interval {
            seconds,
            ops: 500,
            ops_per_second: 500.0,
            mb_per_second: 0.0,
            p50_us: 10.0,
            p99_us: 1000.0,
            p999_us: 1000.0,
            p9999_us: 1000.0,
            flowops: vec![(
                "read".into(),
                IntervalFlowop { count: 500, p50_us: 10.0, p99_us: 1000.0, p9999_us: 1000.0 },
            )],
        };
        let repetition = Repetition {
            ops: 1000,
            ops_per_second: 500.0,
            mb_per_second: 500.0,
            reads: 1000,
            seconds: 2.0,
            mean_us: 29.8,
            p99_us: Some(1000.0),
            valid: true,
            flowops: vec![("read".into(), flowop)],
            over_time: vec![interval(1.0), interval(2.0)],
            ..Repetition::default()
        };
        (repetition, histogram)
    }

    /// Divides the tail of the flowop, of the repetition and of all intervals consistently.
    fn divided(one: &Repetition) -> Repetition {
        let mut one = one.clone();
        one.p99_us = Some(100.0);
        one.flowops[0].1.p99_us = 100.0;
        one.over_time.iter_mut().for_each(|interval| (interval.p99_us, interval.flowops[0].1.p99_us) = (100.0, 100.0));
        one
    }

    #[test]
    fn altered_percentile_contradicts_intervals_or_histograms() {
        let (one, histogram) = repetition();
        let stored = |_: &str| Some(histogram.clone());
        assert_eq!((one.contradiction(), one.contradiction_of_histograms(stored)), (None, None));
        let mut without_intervals = divided(&one);
        without_intervals.over_time = one.over_time.clone();
        assert!(without_intervals.contradiction().is_some(), "the intervals have other percentiles");
        assert!(divided(&one).contradiction_of_histograms(stored).is_some());
        let mut only_the_whole = one.clone();
        only_the_whole.p99_us = Some(999.0);
        assert_eq!(only_the_whole.contradiction_of_histograms(stored), None, "within a cell");
        only_the_whole.p99_us = Some(500.0);
        assert!(only_the_whole.contradiction_of_histograms(stored).is_some());
    }

    #[test]
    fn missing_histogram_contradicts_counted_operations() {
        let (mut one, _) = repetition();
        assert!(one.contradiction_of_histograms(|_| None).is_some());
        one.flowops[0].1.count = 0;
        assert_eq!(one.contradiction_of_histograms(|_| None), None, "nothing was measured");
        one.valid = false;
        one.flowops[0].1.count = 1000;
        assert_eq!(one.contradiction_of_histograms(|_| None), None, "not used");
    }

    #[test]
    fn each_altered_percentile_contradicts_the_histogram() {
        let (one, histogram) = repetition();
        let altered: [fn(&mut FlowopResult); 6] = [
            |flowop| flowop.min_us /= 10.0,
            |flowop| flowop.p50_us /= 10.0,
            |flowop| flowop.p90_us /= 10.0,
            |flowop| flowop.p999_us /= 10.0,
            |flowop| flowop.p9999_us /= 10.0,
            |flowop| flowop.max_us /= 10.0,
        ];
        for (index, alter) in altered.into_iter().enumerate() {
            let mut one = one.clone();
            alter(&mut one.flowops[0].1);
            assert!(one.contradiction_of_histograms(|_| Some(histogram.clone())).is_some(), "{index}");
        }
    }

    #[test]
    fn mean_bounds_the_percentiles_of_many_latencies() {
        let (one, _) = repetition();
        let mut flowop = one.flowops[0].1.clone();
        // All above the 90th percentile divided by ten: the mean of 29.8 us needs a tail of at least 198 us.
        (flowop.p99_us, flowop.p999_us, flowop.p9999_us, flowop.max_us) = (100.0, 100.0, 100.0, 100.0);
        assert!(flowop.percentiles().contradiction(flowop.count, flowop.mean_us).is_some());
    }
}
