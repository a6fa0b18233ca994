//! The single values of a `bench` record, for `compare` and `export`.

use crate::verbs::bench::{MeasuredColdRead, measured, workload_result};
use senesce_core::analysis::Better::{self, Higher, Lower};
use senesce_core::{Measurement, Record};
use senesce_workload::micro::{CallResult, FileOpsResult};

/// Every measured value; repetitions that do not count are left out.
pub fn of(record: &Record) -> Vec<Measurement> {
    match record.plan.settings.get("workload").map(String::as_str) {
        Some("file-ops") => file_ops(&measured(record)),
        Some("append" | "random-write") => calls(&measured(record)),
        Some("cold-read") => cold_reads(&measured(record)),
        _ => workload(record),
    }
}

/// Metric, unit, direction and value: the columns that are the same in every row of a kind.
type Values<const N: usize> = [(&'static str, &'static str, Better, f64); N];

fn rows<const N: usize>(values: Values<N>, repetition: usize) -> impl Iterator<Item = Measurement> {
    values.into_iter().map(move |(metric, unit, better, value)| Measurement {
        repetition: repetition as u32,
        ..Measurement::new(metric, unit, better, value)
    })
}

fn workload(record: &Record) -> Vec<Measurement> {
    let repetitions = workload_result(record).repetitions;
    let mut found = Vec::new();
    for (number, one) in repetitions.iter().enumerate().filter(|(_, one)| one.valid) {
        let whole = [
            ("throughput", "operations/s", Higher, one.ops_per_second),
            ("bandwidth", "bytes/s", Higher, bytes(one.mb_per_second)),
            ("mean latency", "us", Lower, one.mean_us),
            ("user CPU time", "s", Lower, one.user_cpu_seconds),
            ("system CPU time", "s", Lower, one.system_cpu_seconds),
        ];
        found.extend(rows(whole, number));
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
    for (number, operation) in each(results, |result| &result.operations) {
        let fsync = if operation.fsync { "yes" } else { "no" };
        let time = [("operation time", "us", Lower, operation.mean_us)];
        found.extend(rows(time, number).map(|value| value.under("operation", &operation.name).under("fsync", fsync)));
    }
    found
}

fn calls(results: &[CallResult]) -> Vec<Measurement> {
    let mut found = Vec::new();
    for (number, size) in each(results, |result| &result.sizes) {
        let values = [
            ("bandwidth", "bytes/s", Higher, bytes(size.mb_per_second)),
            ("mean latency", "us", Lower, size.mean_us),
            ("p50 latency", "us", Lower, size.p50_us),
            ("p99 latency", "us", Lower, size.p99_us),
            ("p99.99 latency", "us", Lower, size.p9999_us),
        ];
        found.extend(rows(values, number).map(|value| value.under("bytes per call", size.bytes.to_string())));
    }
    found
}

fn cold_reads(results: &[MeasuredColdRead]) -> Vec<Measurement> {
    let mut found = Vec::new();
    for (number, one) in results.iter().enumerate().filter(|(_, one)| !one.read.interrupted) {
        let times = [
            ("cold read time", "s", Lower, one.read.seconds),
            ("cold read time per GiB", "s/GiB", Lower, one.read.seconds_per_gib),
        ];
        found.extend(rows(times, number));
        let Some(trace) = &one.trace else { continue };
        let layout = &trace.measures.layout;
        let modelled = [
            ("discontinuities", "", Lower, layout.discontinuities as f64),
            ("modelled HDD time", "s", Lower, trace.hdd.seconds),
            ("modelled SSD time", "s", Lower, trace.ssd.seconds),
        ];
        found.extend(rows(modelled, number));
        found.extend(
            layout.score.into_iter().flat_map(|score| rows([("dynamic layout score", "", Higher, score)], number)),
        );
    }
    found
}

/// The parts of all results with the number of the repetition they are of.
fn each<'a, R, P: 'a>(results: &'a [R], parts: fn(&R) -> &Vec<P>) -> impl Iterator<Item = (usize, &'a P)> {
    results.iter().enumerate().flat_map(move |(number, result)| parts(result).iter().map(move |part| (number, part)))
}

fn bytes(mebibytes: f64) -> f64 {
    mebibytes * f64::from(1 << 20)
}
