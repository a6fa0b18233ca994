//! Tables and figures of a `bench` record.

use crate::verbs::bench::{MeasuredColdRead, measured, measured_value, workload_result};
use crate::verbs::bench_ranks::{self, RankRepetitions};
use senesce_core::{Analysis, Axis, Better, Failure, Figure, FigureKind, Mark, Record, Series, Table};
use senesce_workload::micro::{CallResult, FileOpsResult};
use senesce_workload::{BenchResult, Repetition};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Analyses a record of any subject.
pub fn analyse(record: &Record) -> Result<Analysis, Failure> {
    let subject = record.plan.settings.get("workload").cloned().unwrap_or_default();
    let target = record.plan.settings.get("target").cloned().unwrap_or_default();
    let mut analysis = Analysis { title: format!("{subject} on {target}"), ..Analysis::default() };
    match subject.as_str() {
        "file-ops" => file_ops(record, &mut analysis),
        "append" | "random-write" => calls(record, &target, &mut analysis),
        "cold-read" => cold_read(record, &mut analysis),
        _ => workload(record, &target, &mut analysis),
    }
    for event in record.events.iter().filter(|event| event.kind == "note") {
        let text = event.data["text"].as_str().unwrap_or_default().to_string();
        if !analysis.caveats.contains(&text) {
            analysis.caveats.push(text);
        }
    }
    for event in record.events.iter().filter(|event| event.kind == "failed") {
        analysis.caveats.push(format!("the run failed: {}", event.data["reason"].as_str().unwrap_or_default()));
    }
    Ok(analysis)
}

fn rounded(value: f64) -> Value {
    let digits = if value.abs() >= 1000.0 { 1.0 } else { 1000.0 };
    json!((value * digits).round() / digits)
}

fn workload(record: &Record, target: &str, analysis: &mut Analysis) {
    let result = workload_result(record);
    analysis.summary = summary(&result);
    analysis.tables.push(filesets_table(&result));
    if !result.repetitions.is_empty() {
        analysis.tables.push(repetitions_table(&result));
        analysis.tables.push(flowops_table(&result));
        analysis.figures.push(rate_figure(&result, target));
        analysis.figures.push(latency_figure(&result, target));
        analysis.figures.push(flowop_figure(&result, target));
    }
    analysis.result = json!(result);
    // Of a repetition that was interrupted and begun again, the last.
    let rows = record.events_of(bench_ranks::EVENT).map(|rows: RankRepetitions| (rows.repetition, rows));
    let ranks: Vec<RankRepetitions> = rows.collect::<BTreeMap<_, _>>().into_values().collect();
    if !ranks.is_empty() {
        analysis.tables.push(ranks_table(&ranks));
        analysis.result["ranks"] = json!(ranks);
        let stragglers: Vec<String> = ranks.iter().flat_map(RankRepetitions::stragglers).collect();
        analysis.result["stragglers"] = json!(stragglers);
        // The course over time is that of single ranks: percentiles of intervals cannot be added.
        analysis.figures.retain(|figure| !["rate", "latency"].contains(&figure.id.as_str()));
    }
}

fn ranks_table(repetitions: &[RankRepetitions]) -> Table {
    let columns =
        ["repetition", "rank", "host", "ops", "ops/s", "MB/s", "mean (us)", "began (ms)", "ended (s)", "clock (ms)"];
    let mut table = Table::new("ranks", "Ranks", &columns);
    for (repetition, row) in repetitions.iter().flat_map(|one| one.ranks.iter().map(move |row| (one.repetition, row))) {
        table.row(vec![
            json!(repetition),
            json!(row.rank),
            json!(row.host),
            json!(row.result.ops),
            rounded(row.result.ops_per_second),
            rounded(row.result.mb_per_second),
            rounded(row.result.mean_us),
            rounded(row.begin_seconds * 1e3),
            rounded(row.end_seconds),
            rounded(row.clock_offset_seconds * 1e3),
        ]);
    }
    table
}

fn summary(result: &BenchResult) -> String {
    let valid: Vec<&Repetition> = result.repetitions.iter().filter(|repetition| repetition.valid).collect();
    let mut text = match valid.as_slice() {
        [] if result.repetitions.is_empty() => "The file sets were written; nothing was run.".to_string(),
        [] => "No repetition counts.".to_string(),
        _ => {
            let mean = |of: fn(&Repetition) -> f64| valid.iter().map(|r| of(r)).sum::<f64>() / valid.len() as f64;
            format!(
                "{:.0} operations/s, {:.1} MB/s on average over {} repetition(s) of {:.1} s.",
                mean(|r| r.ops_per_second),
                mean(|r| r.mb_per_second),
                valid.len(),
                mean(|r| r.seconds)
            )
        }
    };
    for (number, repetition) in result.repetitions.iter().enumerate() {
        if let Some(reason) = &repetition.reason {
            let verdict = if repetition.valid { "ended early" } else { "INVALID" };
            text.push_str(&format!(" Repetition {} {verdict}: {reason}.", number + 1));
        }
    }
    text
}

fn filesets_table(result: &BenchResult) -> Table {
    let columns = ["file set", "files", "directories", "total (MB)", "existing files", "existing (MB)"];
    let mut table = Table::new("filesets", "File sets", &columns);
    let megabytes = |bytes: u64| rounded(bytes as f64 / 1_048_576.0);
    for set in &result.filesets {
        table.row(vec![
            json!(set.name),
            json!(set.files),
            json!(set.directories),
            megabytes(set.bytes),
            json!(set.existing_files),
            megabytes(set.existing_bytes),
        ]);
    }
    table
}

fn repetitions_table(result: &BenchResult) -> Table {
    let columns = [
        "repetition",
        "ops",
        "ops/s",
        "MB/s",
        "reads/s",
        "writes/s",
        "mean (us)",
        "user CPU (s)",
        "system CPU (s)",
        "valid",
    ];
    let mut table = Table::new("repetitions", "Repetitions", &columns);
    for (number, r) in result.repetitions.iter().enumerate() {
        table.row(vec![
            json!(number + 1),
            json!(r.ops),
            rounded(r.ops_per_second),
            rounded(r.mb_per_second),
            rounded(Repetition::rate(r.reads, r.seconds)),
            rounded(Repetition::rate(r.writes, r.seconds)),
            rounded(r.mean_us),
            rounded(r.user_cpu_seconds),
            rounded(r.system_cpu_seconds),
            json!(if r.valid { "yes" } else { "no" }),
        ]);
    }
    table
}

fn flowops_table(result: &BenchResult) -> Table {
    let columns = [
        "repetition",
        "flowop",
        "count",
        "ops/s",
        "MB/s",
        "mean (us)",
        "p50 (us)",
        "p99 (us)",
        "p99.9 (us)",
        "p99.99 (us)",
        "max (us)",
    ];
    let mut table = Table::new("flowops", "Flowops", &columns);
    for (number, repetition) in result.repetitions.iter().enumerate() {
        for (name, flowop) in &repetition.flowops {
            table.row(vec![
                json!(number + 1),
                json!(name),
                json!(flowop.count),
                rounded(flowop.ops_per_second),
                rounded(flowop.mb_per_second),
                rounded(flowop.mean_us),
                rounded(flowop.p50_us),
                rounded(flowop.p99_us),
                rounded(flowop.p999_us),
                rounded(flowop.p9999_us),
                rounded(flowop.max_us),
            ]);
        }
    }
    table
}

fn series(name: String, points: Vec<(f64, f64)>) -> Series {
    Series { name, mark: Mark::Measured, points, ..Series::default() }
}

fn figure(id: &str, title: &str, caption: &str, device: &str, better: Better, kind: FigureKind) -> Figure {
    Figure { id: id.into(), title: title.into(), caption: caption.into(), device: device.into(), better, kind }
}

fn rate_figure(result: &BenchResult, target: &str) -> Figure {
    let list = result.repetitions.iter().enumerate();
    let series = list
        .map(|(number, r)| {
            let points = r.over_time.iter().map(|interval| (interval.seconds, interval.ops_per_second)).collect();
            series(format!("repetition {}", number + 1), points)
        })
        .collect();
    let (x, y) = (Axis::linear("time (s)").from_zero(), Axis::linear("operations/s").from_zero());
    let caption = "Counted operations per second in each interval; one line per repetition.";
    figure(
        "rate",
        "Operations per second over time",
        caption,
        target,
        Better::Higher,
        FigureKind::Lines { x, y, series },
    )
}

fn latency_figure(result: &BenchResult, target: &str) -> Figure {
    let last = result.repetitions.last();
    let line = |name: &str, of: fn(&senesce_workload::Interval) -> f64| {
        let points =
            last.into_iter().flat_map(|r| &r.over_time).map(|interval| (interval.seconds, of(interval))).collect();
        series(name.into(), points)
    };
    let series = vec![
        line("p50", |i| i.p50_us),
        line("p99", |i| i.p99_us),
        line("p99.9", |i| i.p999_us),
        line("p99.99", |i| i.p9999_us),
    ];
    let (x, y) = (Axis::linear("time (s)").from_zero(), Axis::linear("latency (us)").log10());
    let caption = "Latency percentiles of all counted operations in each interval of the last repetition.";
    figure("latency", "Latency over time", caption, target, Better::Lower, FigureKind::Lines { x, y, series })
}

fn flowop_figure(result: &BenchResult, target: &str) -> Figure {
    let used: Vec<_> =
        result.repetitions.last().into_iter().flat_map(|r| &r.flowops).filter(|(_, flowop)| flowop.count > 0).collect();
    let names = used.iter().map(|(name, _)| name.clone()).collect();
    let bars = |name: &str, of: fn(&senesce_workload::FlowopResult) -> f64| {
        let points = used.iter().enumerate().map(|(index, (_, flowop))| (index as f64, of(flowop))).collect();
        series(name.into(), points)
    };
    let series = vec![bars("p50", |f| f.p50_us), bars("p99", |f| f.p99_us), bars("p99.99", |f| f.p9999_us)];
    let (x, y) = (Axis::categories("flowop", names), Axis::linear("latency (us)").log10());
    let caption = "Latency percentiles per flowop over the last repetition.";
    figure("flowops", "Latency per flowop", caption, target, Better::Lower, FigureKind::Bars { x, y, series })
}

fn file_ops(record: &Record, analysis: &mut Analysis) {
    let results: Vec<FileOpsResult> = measured(record);
    let columns =
        ["repetition", "operation", "fsync", "iterations", "time (us)", "least (us)", "greatest (us)", "overhead (%)"];
    let mut table = Table::new("operations", "File operations", &columns);
    for (number, result) in results.iter().enumerate() {
        for operation in &result.operations {
            table.row(vec![
                json!(number + 1),
                json!(operation.name),
                json!(if operation.fsync { "yes" } else { "no" }),
                json!(operation.iterations),
                rounded(operation.mean_us),
                rounded(operation.min_us),
                rounded(operation.max_us),
                rounded(operation.overhead_percent),
            ]);
        }
    }
    analysis.summary =
        "Time of single file operations: prepared untimed, timed in batches, overhead subtracted.".into();
    analysis.tables.push(table);
    analysis.result = measured_value(record);
}

fn calls(record: &Record, target: &str, analysis: &mut Analysis) {
    let results: Vec<CallResult> = measured(record);
    let columns =
        ["repetition", "bytes", "calls", "MB/s", "mean (us)", "p50 (us)", "p99 (us)", "p99.9 (us)", "p99.99 (us)"];
    let mut table = Table::new("sizes", "Latency by size", &columns);
    let mut lines = Vec::new();
    for (number, result) in results.iter().enumerate() {
        for size in &result.sizes {
            table.row(vec![
                json!(number + 1),
                json!(size.bytes),
                json!(size.calls),
                rounded(size.mb_per_second),
                rounded(size.mean_us),
                rounded(size.p50_us),
                rounded(size.p99_us),
                rounded(size.p999_us),
                rounded(size.p9999_us),
            ]);
        }
        let points = result.sizes.iter().map(|size| (size.bytes as f64, size.p50_us)).collect();
        lines.push(series(format!("repetition {}", number + 1), points));
    }
    let (x, y) = (Axis::linear("bytes per call").log2().in_bytes(), Axis::linear("median latency (us)").log10());
    let kind = FigureKind::Lines { x, y, series: lines };
    let caption = "Median latency of one call with its sync, by size.";
    analysis.figures.push(figure("sizes", "Latency by size", caption, target, Better::Lower, kind));
    analysis.summary = "Latency of one call with its sync, by size.".into();
    analysis.tables.push(table);
    analysis.result = measured_value(record);
}

fn cold_read(record: &Record, analysis: &mut Analysis) {
    let results: Vec<MeasuredColdRead> = measured(record);
    let columns = ["repetition", "files", "read (MiB)", "allocated (MiB)", "seconds", "seconds per GiB"];
    let mut table = Table::new("cold-read", "Cold read", &columns);
    for (number, MeasuredColdRead { read, .. }) in results.iter().enumerate() {
        table.row(vec![
            json!(number + 1),
            json!(read.files),
            rounded(read.bytes_read as f64 / 1_048_576.0),
            rounded(read.allocated_bytes as f64 / 1_048_576.0),
            rounded(read.seconds),
            rounded(read.seconds_per_gib),
        ]);
    }
    analysis.summary =
        "Every file read once in directory order by one thread with a 32 KiB buffer, caches cold.".into();
    analysis.tables.push(table);
    if results.iter().any(|result| result.trace.is_some()) {
        requests(&results, analysis);
    }
    analysis.result = measured_value(record);
}

fn requests(results: &[MeasuredColdRead], analysis: &mut Analysis) {
    let columns =
        ["repetition", "requests", "read (MiB)", "discontinuities", "dynamic layout score", "HDD (s)", "SSD (s)"];
    let mut table = Table::new("requests", "Requests of the device", &columns);
    for (number, trace) in
        results.iter().enumerate().filter_map(|(number, result)| Some((number, result.trace.as_ref()?)))
    {
        let measures = &trace.measures;
        table.row(vec![
            json!(number + 1),
            json!(measures.requests),
            rounded(measures.bytes.read as f64 / 1_048_576.0),
            json!(measures.layout.discontinuities),
            json!(measures.layout.score),
            rounded(trace.hdd.seconds),
            rounded(trace.ssd.seconds),
        ]);
        if measures.lost_events > 0 {
            analysis.caveats.push(format!("repetition {}: {} events were lost", number + 1, measures.lost_events));
        }
    }
    analysis.tables.push(table);
    analysis.caveats.push("modelled: seconds on the reference drives; no flash translation layer".into());
}
