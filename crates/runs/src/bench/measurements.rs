//! The single values of a `bench` record, for `compare` and `export`.

use super::{MeasuredColdRead, Results, Spec};
use senesce_core::analysis::Better::{self, Higher, Lower};
use senesce_core::{Finite, Measurement};
use senesce_workload::Repetition;
use senesce_workload::micro::{CallResult, FileOpsResult};

pub(crate) fn of(spec: &Spec, results: &Results) -> Vec<Measurement> {
    let mut found = workload(&results.repetitions);
    found.extend(file_ops(&results.file_ops));
    found.extend(calls(&results.calls));
    // With --keep-caches it is not a cold read.
    if !spec.how.keep_caches {
        found.extend(cold_reads(&results.cold_reads));
    }
    found
}

type Values<const N: usize> = [(&'static str, &'static str, Better, f64); N];

fn rows<const N: usize>(values: Values<N>, repetition: usize) -> impl Iterator<Item = Measurement> {
    let made =
        values.into_iter().flat_map(|(metric, unit, better, value)| Measurement::new(metric, unit, better, value));
    made.map(move |one| Measurement { repetition: repetition as u32, ..one })
}

fn mark_primary(one: Measurement, primary: &[&str]) -> Measurement {
    if primary.contains(&one.metric.as_str()) { one.primary() } else { one }
}

fn workload(repetitions: &[Repetition]) -> Vec<Measurement> {
    let mut found = Vec::new();
    for (number, one) in repetitions.iter().enumerate().filter(|(_, one)| one.valid) {
        let whole = [
            ("throughput", "operations/s", Higher, one.ops_per_second),
            ("bandwidth", "bytes/s", Higher, bytes(one.mb_per_second)),
            ("mean latency", "us", Lower, one.mean_us),
            ("user CPU time", "s", Lower, one.user_cpu_seconds),
            ("system CPU time", "s", Lower, one.system_cpu_seconds),
        ];
        let p99 = one.p99_us.map(|p99_us| [("p99 latency", "us", Lower, p99_us)]);
        let whole = rows(whole, number).chain(p99.into_iter().flat_map(|p99| rows(p99, number)));
        found.extend(whole.map(|one| mark_primary(one, &["throughput", "mean latency", "p99 latency"])));
        for (name, flowop) in one.flowops.iter().filter(|(_, flowop)| flowop.count > 0) {
            let values = [
                ("flowop throughput", "operations/s", Higher, flowop.ops_per_second),
                ("flowop mean latency", "us", Lower, flowop.mean_us),
                ("flowop p50 latency", "us", Lower, flowop.p50_us),
                ("flowop p99 latency", "us", Lower, flowop.p99_us),
                ("flowop p99.99 latency", "us", Lower, flowop.p9999_us),
            ];
            found.extend(rows(values, number).map(|value| value.under("flowop", name)));
        }
    }
    found
}

fn file_ops(results: &[FileOpsResult]) -> Vec<Measurement> {
    let mut found = Vec::new();
    for (number, operation) in each(results, |result| &result.operations, |result| result.lost.is_none()) {
        let fsync = if operation.fsync { "yes" } else { "no" };
        let time = [("operation time", "us", Lower, operation.mean_us)];
        found.extend(
            rows(time, number).map(|value| value.under("operation", &operation.name).under("fsync", fsync).primary()),
        );
    }
    found
}

fn calls(results: &[CallResult]) -> Vec<Measurement> {
    let mut found = Vec::new();
    for (number, size) in each(results, |result| &result.sizes, |result| result.lost.is_none()) {
        let values = [
            ("bandwidth", "bytes/s", Higher, bytes(size.mb_per_second)),
            ("mean latency", "us", Lower, size.mean_us),
            ("p50 latency", "us", Lower, size.p50_us),
            ("p99 latency", "us", Lower, size.p99_us),
            ("p99.99 latency", "us", Lower, size.p9999_us),
        ];
        let primary = ["mean latency", "p99 latency"];
        let under = |one: Measurement| mark_primary(one, &primary).under("bytes per call", size.bytes.to_string());
        found.extend(rows(values, number).map(under));
    }
    found
}

fn cold_reads(results: &[MeasuredColdRead]) -> Vec<Measurement> {
    let mut found = Vec::new();
    for (number, one) in results.iter().enumerate().filter(|(_, one)| one.counts()) {
        found.extend(rows([("cold read time", "s", Lower, one.read.seconds)], number).map(Measurement::primary));
        let cost = one.read.seconds_per_gib.map(Finite::get);
        found
            .extend(cost.into_iter().flat_map(|cost| rows([("cold read time per GiB", "s/GiB", Lower, cost)], number)));
        // An invalid trace has no modelled times, and none of it is a measurement.
        let Some(trace) = one.trace.as_ref().filter(|trace| trace.is_valid()) else { continue };
        let (Some(hdd), Some(ssd)) = (&trace.hdd, &trace.ssd) else { continue };
        let layout = &trace.measures.layout;
        let modelled = [
            ("discontinuities", "", Lower, layout.discontinuities as f64),
            ("modelled HDD time", "s", Lower, hdd.seconds),
            ("modelled SSD time", "s", Lower, ssd.seconds),
        ];
        found.extend(rows(modelled, number));
        found.extend(
            layout.score.into_iter().flat_map(|score| rows([("dynamic layout score", "", Higher, score)], number)),
        );
    }
    found
}

fn each<'a, R, P: 'a>(
    results: &'a [R],
    parts: fn(&R) -> &Vec<P>,
    counts: fn(&R) -> bool,
) -> impl Iterator<Item = (usize, &'a P)> {
    results
        .iter()
        .enumerate()
        .filter(move |(_, result)| counts(result))
        .flat_map(move |(number, result)| parts(result).iter().map(move |part| (number, part)))
}

fn bytes(mebibytes: f64) -> f64 {
    mebibytes * f64::from(1 << 20)
}
