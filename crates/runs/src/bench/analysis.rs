//! Tables and figures of a `bench` record.

use super::ranks::RankRepetitions;
use super::{MeasuredColdRead, Results};
use senesce_core::heartbeat::LostTime;
use senesce_core::{Analysis, Axis, Better, Figure, FigureKind, Finite, Mark, Rows, Series, Table, number_of};
use senesce_workload::{BenchResult, Repetition};
use serde_json::{Value, json};

pub(crate) fn analyse(target: &str, results: &Results) -> Analysis {
    let mut analysis = Analysis { title: format!("{} on {target}", results.name), ..Analysis::default() };
    match (results.file_ops.is_empty(), results.calls.is_empty(), results.cold_reads.is_empty()) {
        (false, ..) => file_ops(results, &mut analysis),
        (_, false, _) => calls(results, target, &mut analysis),
        (_, _, false) => cold_read(results, &mut analysis),
        _ => workload(results, target, &mut analysis),
    }
    analysis
}

/// Rounds to whole numbers from 1000 on, to three decimals from 1 on, to four digits below.
fn rounded(value: f64) -> Value {
    let places =
        if value == 0.0 || value.abs() >= 1000.0 { 0 } else { 3 - (value.abs().log10().floor() as i32).min(0) };
    let digits = 10f64.powi(places);
    json!((value * digits).round() / digits)
}

fn workload(results: &Results, target: &str, analysis: &mut Analysis) {
    let result = results.workload();
    analysis.summary = summary(&result);
    analysis.tables.push(filesets_table(&result));
    if !result.repetitions.is_empty() {
        analysis.tables.push(repetitions_table(&result));
        analysis.tables.push(flowops_table(&result));
    }
    if counted(&result).next().is_some() {
        analysis.figures.push(rate_figure(&result, target));
        analysis.figures.push(latency_figure(&result, target));
        analysis.figures.push(flowop_figure(&result, target));
    }
    analysis.result = json!(result);
    without_refuted_rates(&result, &mut analysis.result);
    let ranks = &results.ranks;
    if !ranks.is_empty() {
        analysis.tables.push(ranks_table(ranks));
        analysis.result["ranks"] = json!(ranks);
        let stragglers: Vec<String> = ranks.iter().flat_map(RankRepetitions::stragglers).collect();
        analysis.result["stragglers"] = json!(stragglers);
        // The time series of single ranks: percentiles of intervals cannot be added.
        analysis.figures.retain(|figure| !["rate", "latency"].contains(&figure.id.as_str()));
    }
}

fn without_refuted_rates(result: &BenchResult, json: &mut Value) {
    for (number, _) in result.repetitions.iter().enumerate().filter(|(_, repetition)| !repetition.valid) {
        for name in ["ops_per_second", "mb_per_second", "mean_us", "p99_us"] {
            json["repetitions"][number][name] = Value::Null;
        }
    }
}

fn counted(result: &BenchResult) -> impl DoubleEndedIterator<Item = (usize, &Repetition)> {
    result.repetitions.iter().enumerate().map(|(index, one)| (index + 1, one)).filter(|(_, one)| one.valid)
}

fn ranks_table(repetitions: &[RankRepetitions]) -> Table {
    Rows::of(repetitions.iter().flat_map(|one| one.ranks.iter().map(move |row| (one.repetition, row))))
        .column("repetition", |(repetition, _)| repetition)
        .column("rank", |(_, row)| &row.rank)
        .column("host", |(_, row)| &row.host)
        .column("ops", |(_, row)| &row.result.ops)
        .column("ops/s", |(_, row)| rounded(row.result.ops_per_second))
        .column("MB/s", |(_, row)| rounded(row.result.mb_per_second))
        .column("mean (us)", |(_, row)| rounded(row.result.mean_us))
        .column("began (ms)", |(_, row)| rounded(row.begin_seconds * 1e3))
        .column("ended (s)", |(_, row)| rounded(row.end_seconds))
        .column("clock (ms)", |(_, row)| rounded(row.clock_offset_seconds * 1e3))
        .table("ranks", "Ranks")
}

fn summary(result: &BenchResult) -> String {
    let valid: Vec<&Repetition> = result.repetitions.iter().filter(|repetition| repetition.valid).collect();
    let mut text = match valid.as_slice() {
        [] if result.repetitions.is_empty() => "The file sets were written; nothing was run.".to_string(),
        [] => "All repetitions are invalid.".to_string(),
        _ => {
            let mean = |of: fn(&Repetition) -> f64| valid.iter().map(|r| of(r)).sum::<f64>() / valid.len() as f64;
            format!(
                "{:.0} operations/s, {:.1} MB/s on average over {} of {:.1} s.",
                mean(|r| r.ops_per_second),
                mean(|r| r.mb_per_second),
                number_of(valid.len(), "repetition"),
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
        table.row((
            &set.name,
            &set.files,
            &set.directories,
            megabytes(set.bytes),
            set.existing_files,
            megabytes(set.existing_bytes),
        ));
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
        "p99 (us)",
        "user CPU (s)",
        "system CPU (s)",
        "valid",
    ];
    let mut table = Table::new("repetitions", "Repetitions", &columns);
    for (number, r) in result.repetitions.iter().enumerate() {
        let counted = |value: f64| if r.valid { rounded(value) } else { Value::Null };
        table.row((
            number + 1,
            &r.ops,
            counted(r.ops_per_second),
            counted(r.mb_per_second),
            counted(Repetition::rate(r.reads, r.seconds)),
            counted(Repetition::rate(r.writes, r.seconds)),
            counted(r.mean_us),
            r.p99_us.map_or(Value::Null, counted),
            rounded(r.user_cpu_seconds),
            rounded(r.system_cpu_seconds),
            if r.valid { "yes" } else { "no" },
        ));
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
    for (number, repetition) in counted(result) {
        for (name, flowop) in &repetition.flowops {
            table.row((
                number,
                name,
                &flowop.count,
                rounded(flowop.ops_per_second),
                rounded(flowop.mb_per_second),
                rounded(flowop.mean_us),
                rounded(flowop.p50_us),
                rounded(flowop.p99_us),
                rounded(flowop.p999_us),
                rounded(flowop.p9999_us),
                rounded(flowop.max_us),
            ));
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
    let series = counted(result)
        .map(|(number, r)| {
            let points = r.over_time.iter().map(|interval| (interval.seconds, interval.ops_per_second)).collect();
            series(format!("repetition {number}"), points)
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
    let last = counted(result).last().map(|(_, repetition)| repetition);
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
    let caption = "Latency percentiles of all counted operations in each interval of the last valid repetition.";
    figure("latency", "Latency over time", caption, target, Better::Lower, FigureKind::Lines { x, y, series })
}

fn flowop_figure(result: &BenchResult, target: &str) -> Figure {
    let used: Vec<_> = counted(result)
        .last()
        .into_iter()
        .flat_map(|(_, r)| &r.flowops)
        .filter(|(_, flowop)| flowop.count > 0)
        .collect();
    let names = used.iter().map(|(name, _)| name.clone()).collect();
    let bars = |name: &str, of: fn(&senesce_workload::FlowopResult) -> f64| {
        let points = used.iter().enumerate().map(|(index, (_, flowop))| (index as f64, of(flowop))).collect();
        series(name.into(), points)
    };
    let series = vec![bars("p50", |f| f.p50_us), bars("p99", |f| f.p99_us), bars("p99.99", |f| f.p9999_us)];
    let (x, y) = (Axis::categories("flowop", names), Axis::linear("latency (us)").log10());
    let caption = "Latency percentiles per flowop over the last valid repetition.";
    figure("flowops", "Latency per flowop", caption, target, Better::Lower, FigureKind::Bars { x, y, series })
}

fn file_ops(all: &Results, analysis: &mut Analysis) {
    let results = &all.file_ops;
    let columns =
        ["repetition", "operation", "fsync", "iterations", "time (us)", "minimum (us)", "maximum (us)", "overhead (%)"];
    let mut table = Table::new("operations", "File operations", &columns);
    for (number, result) in results.iter().enumerate() {
        if is_lost(analysis, number, result.lost) {
            continue;
        }
        for operation in &result.operations {
            table.row((
                number + 1,
                &operation.name,
                if operation.fsync { "yes" } else { "no" },
                &operation.iterations,
                rounded(operation.mean_us),
                rounded(operation.min_us),
                rounded(operation.max_us),
                rounded(operation.overhead_percent),
            ));
        }
    }
    analysis.summary =
        "Time of single file operations: prepared untimed, timed in batches, overhead subtracted.".into();
    analysis.tables.push(table);
    analysis.result = all.benchmark();
}

fn is_lost(analysis: &mut Analysis, number: usize, lost: Option<LostTime>) -> bool {
    analysis.caveats.extend(lost.map(|lost| format!("repetition {} does not count: {lost}", number + 1)));
    lost.is_some()
}

fn calls(all: &Results, target: &str, analysis: &mut Analysis) {
    let results = &all.calls;
    let columns =
        ["repetition", "bytes", "calls", "MB/s", "mean (us)", "p50 (us)", "p99 (us)", "p99.9 (us)", "p99.99 (us)"];
    let mut table = Table::new("sizes", "Latency by size", &columns);
    let mut lines = Vec::new();
    for (number, result) in results.iter().enumerate() {
        if is_lost(analysis, number, result.lost) {
            continue;
        }
        for size in &result.sizes {
            table.row((
                number + 1,
                &size.bytes,
                &size.calls,
                rounded(size.mb_per_second),
                rounded(size.mean_us),
                rounded(size.p50_us),
                rounded(size.p99_us),
                rounded(size.p999_us),
                rounded(size.p9999_us),
            ));
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
    analysis.result = all.benchmark();
}

fn cold_read(all: &Results, analysis: &mut Analysis) {
    let results = &all.cold_reads;
    let columns = [
        "repetition",
        "files",
        "read (MiB)",
        "allocated (MiB)",
        "in extents (MiB)",
        "from the device (MiB)",
        "seconds",
        "seconds per GiB",
    ];
    let mut table = Table::new("cold-read", "Cold read", &columns);
    let mebibytes = |bytes: Option<u64>| bytes.map_or(Value::Null, |bytes| rounded(bytes as f64 / 1_048_576.0));
    for (number, one) in results.iter().enumerate() {
        let MeasuredColdRead { read, account, invalid, .. } = one;
        if let Some(reason) = invalid {
            analysis.caveats.push(format!("repetition {} does not count: {reason}", number + 1));
        }
        let time = |seconds: Option<f64>| seconds.filter(|_| invalid.is_none()).map_or(Value::Null, rounded);
        table.row((
            number + 1,
            &read.files,
            rounded(read.bytes_read as f64 / 1_048_576.0),
            rounded(read.allocated_bytes as f64 / 1_048_576.0),
            mebibytes(account.and_then(|account| account.extent_bytes)),
            mebibytes(account.and_then(|account| account.device_bytes)),
            time(Some(read.seconds)),
            time(read.seconds_per_gib.map(Finite::get)),
        ));
    }
    analysis.summary =
        "Every file read once in directory order by one thread with a 32 KiB buffer, caches cold.".into();
    analysis.tables.push(table);
    if results.iter().any(|result| result.trace.is_some()) {
        requests(results, analysis);
    }
    analysis.result = all.benchmark();
}

fn requests(results: &[MeasuredColdRead], analysis: &mut Analysis) {
    let columns =
        ["repetition", "requests", "read (MiB)", "discontinuities", "dynamic layout score", "HDD (s)", "SSD (s)"];
    let mut table = Table::new("requests", "Requests of the device", &columns);
    for (number, trace) in results.iter().enumerate().filter_map(|(number, result)| {
        let counts = result.invalid.is_none();
        Some((number, result.trace.as_ref().filter(|_| counts)?))
    }) {
        if !trace.is_valid() {
            let reasons = trace.reasons().join("; ");
            analysis.caveats.push(format!("repetition {}: its block trace is not valid: {reasons}", number + 1));
            continue;
        }
        let measures = &trace.measures;
        let seconds = |modelled: &Option<senesce_devmodel::Modelled>| {
            modelled.as_ref().map_or(Value::Null, |modelled| rounded(modelled.seconds))
        };
        table.row((
            number + 1,
            &measures.requests,
            rounded(measures.bytes.read as f64 / 1_048_576.0),
            &measures.layout.discontinuities,
            measures.layout.score,
            seconds(&trace.hdd),
            seconds(&trace.ssd),
        ));
    }
    analysis.tables.push(table);
    analysis.caveats.push("modelled: seconds on the reference drives; no flash translation layer".into());
}
