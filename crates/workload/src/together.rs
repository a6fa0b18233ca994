//! Merges the results of concurrent processes.

use crate::bench::FinishedBench;
use crate::result::{FlowopResult, Repetition};
use hdrhistogram::Histogram;

/// Adds counters and merges histograms. Rates are sums over the longest measured time; percentiles are those of the merged
/// histograms, never averages of percentiles. Intervals stay with the individual processes.
pub fn merge(parts: Vec<FinishedBench>) -> FinishedBench {
    let repetitions: Vec<&Repetition> = parts.iter().map(|part| &part.repetition).collect();
    let seconds = repetitions.iter().map(|part| part.seconds).fold(0.0, f64::max);
    let sum = |of: fn(&Repetition) -> u64| repetitions.iter().map(|part| of(part)).sum::<u64>();
    let total = |of: fn(&Repetition) -> f64| repetitions.iter().map(|part| of(part)).sum::<f64>();
    let ops = sum(|part| part.ops);
    let bytes = total(|part| part.mb_per_second * part.seconds);
    let mut repetition = Repetition {
        ops,
        ops_per_second: Repetition::rate(ops, seconds),
        mb_per_second: if seconds > 0.0 { bytes / seconds } else { 0.0 },
        reads: sum(|part| part.reads),
        writes: sum(|part| part.writes),
        user_cpu_seconds: total(|part| part.user_cpu_seconds),
        system_cpu_seconds: total(|part| part.system_cpu_seconds),
        seconds,
        mean_us: total(|part| part.mean_us * part.ops as f64) / (ops.max(1)) as f64,
        valid: repetitions.iter().all(|part| part.valid),
        interrupted: repetitions.iter().any(|part| part.interrupted),
        io_failed: repetitions.iter().any(|part| part.io_failed),
        reason: reason(&repetitions),
        messages: messages(&repetitions),
        ..Repetition::default()
    };
    let histograms = merge_histograms(&parts);
    let names = parts.first().map_or(&[][..], |part| &part.repetition.flowops[..]);
    repetition.p99_us = counted_p99_us(names, &histograms);
    repetition.flowops = names
        .iter()
        .map(|(name, first)| {
            let found: Vec<&FlowopResult> = parts.iter().filter_map(|part| flowop(&part.repetition, name)).collect();
            let histogram = histograms.iter().find(|(known, _)| known == name).map(|(_, histogram)| histogram);
            (name.clone(), merge_flowops(first, &found, histogram, seconds))
        })
        .collect();
    if !repetition.valid && !repetition.interrupted {
        (repetition.ops_per_second, repetition.mb_per_second) = (0.0, 0.0);
    }
    FinishedBench { repetition, histograms }
}

fn reason(repetitions: &[&Repetition]) -> Option<String> {
    let stated =
        repetitions.iter().enumerate().filter_map(|(rank, part)| Some((rank, part.valid, part.reason.as_ref()?)));
    // The reason of an invalid part is more informative than that of an early end.
    let (rank, _, message) = stated.min_by_key(|(_, valid, _)| *valid)?;
    Some(format!("rank {rank}: {message}"))
}

fn messages(repetitions: &[&Repetition]) -> Vec<String> {
    let all = repetitions.iter().enumerate();
    all.flat_map(|(rank, part)| part.messages.iter().map(move |text| format!("rank {rank}: {text}"))).collect()
}

fn flowop<'a>(repetition: &'a Repetition, name: &str) -> Option<&'a FlowopResult> {
    repetition.flowops.iter().find(|(known, _)| known == name).map(|(_, flowop)| flowop)
}

fn merge_histograms(parts: &[FinishedBench]) -> Vec<(String, Histogram<u64>)> {
    let mut merged: Vec<(String, Histogram<u64>)> = Vec::new();
    for (name, histogram) in parts.iter().flat_map(|part| &part.histograms) {
        match merged.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => add(sum, histogram),
            None => {
                let mut sum = Histogram::new(3).unwrap_or_else(|_| unreachable!("3 significant digits are allowed"));
                add(&mut sum, histogram);
                merged.push((name.clone(), sum));
            }
        }
    }
    merged
}

fn counted_p99_us(flowops: &[(String, FlowopResult)], histograms: &[(String, Histogram<u64>)]) -> Option<f64> {
    let mut all: Option<Histogram<u64>> = None;
    for (name, _) in flowops.iter().filter(|(_, flowop)| flowop.kind.entry().counted) {
        let Some((_, histogram)) = histograms.iter().find(|(known, _)| known == name) else { continue };
        match &mut all {
            Some(sum) => add(sum, histogram),
            None => all = Some(histogram.clone()),
        }
    }
    all.filter(|all| !all.is_empty()).map(|all| all.value_at_quantile(0.99) as f64 / 1000.0)
}

fn add(sum: &mut Histogram<u64>, histogram: &Histogram<u64>) {
    // The sum resizes automatically.
    sum.add(histogram).unwrap_or_else(|_| unreachable!("the histogram grows by itself"));
}

fn merge_flowops(
    first: &FlowopResult,
    parts: &[&FlowopResult],
    histogram: Option<&Histogram<u64>>,
    seconds: f64,
) -> FlowopResult {
    let count = parts.iter().map(|part| part.count).sum();
    let bytes = parts.iter().map(|part| part.bytes).sum();
    let time: f64 = parts.iter().map(|part| part.mean_us * part.count as f64).sum();
    let quantile = |share| histogram.map_or(0.0, |histogram| histogram.value_at_quantile(share) as f64 / 1000.0);
    let used = || parts.iter().filter(|part| part.count > 0);
    FlowopResult {
        kind: first.kind,
        count,
        bytes,
        ops_per_second: Repetition::rate(count, seconds),
        mb_per_second: Repetition::megabytes(bytes, seconds),
        mean_us: if count == 0 { 0.0 } else { time / count as f64 },
        min_us: if count == 0 { 0.0 } else { used().map(|part| part.min_us).fold(f64::INFINITY, f64::min) },
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p99_us: quantile(0.99),
        p999_us: quantile(0.999),
        p9999_us: quantile(0.9999),
        max_us: used().map(|part| part.max_us).fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(latencies_us: &[u64], seconds: f64) -> FinishedBench {
        // As decoded from a message: of a fixed size.
        let mut histogram = Histogram::new_with_max(2 * 1000 * latencies_us.iter().max().unwrap(), 3).unwrap();
        for latency in latencies_us {
            histogram.record(latency * 1000).unwrap();
        }
        let count = latencies_us.len() as u64;
        let mean_us = latencies_us.iter().sum::<u64>() as f64 / count as f64;
        let (min_us, max_us) = (*latencies_us.iter().min().unwrap() as f64, *latencies_us.iter().max().unwrap() as f64);
        let flowop = FlowopResult::of_reads(count, mean_us, [min_us, 0.0, 0.0, 0.0, 0.0, 0.0, max_us]);
        let repetition = Repetition {
            ops: count,
            reads: count,
            mb_per_second: count as f64 / seconds,
            seconds,
            mean_us,
            valid: true,
            flowops: vec![("read".into(), flowop)],
            ..Repetition::default()
        };
        FinishedBench { repetition, histograms: vec![("read".into(), histogram)] }
    }

    #[test]
    fn percentiles_come_from_merged_histograms() {
        // The average of the medians (10 and 1000) would be 505.
        let merged = merge(vec![part(&[10; 90], 2.0), part(&[1000; 10], 1.0)]);
        let repetition = merged.repetition;
        assert_eq!((repetition.ops, repetition.reads, repetition.seconds), (100, 100, 2.0));
        assert_eq!((repetition.ops_per_second, repetition.mb_per_second), (50.0, 50.0));
        let (_, flowop) = &repetition.flowops[0];
        assert!((flowop.p50_us - 10.0).abs() < 0.1, "{flowop:?}");
        assert!((flowop.p99_us - 1000.0).abs() < 1.0, "{flowop:?}");
        assert_eq!(repetition.p99_us, Some(flowop.p99_us), "all that counts is this flowop");
        assert!((repetition.mean_us - 109.0).abs() < 1e-9 && (flowop.mean_us - 109.0).abs() < 1e-9);
        assert_eq!((flowop.min_us, flowop.max_us, merged.histograms[0].1.len()), (10.0, 1000.0, 100));
    }

    #[test]
    fn invalid_part_is_named() {
        let mut bad = part(&[5], 1.0);
        bad.repetition.valid = false;
        bad.repetition.reason = Some("read x: Input/output error (EIO)".into());
        let merged = merge(vec![part(&[10], 1.0), bad]).repetition;
        assert!(!merged.valid && merged.ops_per_second == 0.0);
        assert_eq!(merged.reason.as_deref(), Some("rank 1: read x: Input/output error (EIO)"));
    }
}
