//! A summary of a trace in words, tables and figures.

use super::Summary;
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series, Table};
use senesce_core::{Rows, number_of};
use serde_json::json;

pub(super) fn text_of(summary: &Summary) -> String {
    if !summary.is_valid() {
        return format!(
            "The trace of {} is not valid ({}): {} recorded, and nothing is concluded from them.",
            summary.device,
            summary.reasons().join("; "),
            number_of(summary.measures.requests, "request")
        );
    }
    let layout = &summary.measures.layout;
    match layout.score {
        Some(score) => format!(
            "{} on {}; {:.1} MiB were read with {}: dynamic layout score {score:.4}.",
            number_of(summary.measures.requests, "request"),
            summary.device,
            layout.blocks_read * 4096.0 / (1 << 20) as f64,
            number_of(layout.discontinuities, "discontinuity")
        ),
        None => format!(
            "{} on {}; no reads, so it has no layout score.",
            number_of(summary.measures.requests, "request"),
            summary.device
        ),
    }
}

pub(super) fn totals(summary: &Summary) -> Table {
    let measures = &summary.measures;
    let mut table = Table::new("requests", "Requests", &["kind", "requests", "bytes"]);
    let bytes = measures.bytes;
    for (kind, requests, bytes) in [
        ("read", measures.reads, Some(bytes.read)),
        ("write", measures.writes, Some(bytes.write)),
        ("discard", measures.discards, Some(bytes.discard)),
        ("flush", measures.flushes, None),
        ("other", measures.others, None),
        ("zone commands", measures.zone_commands, None),
    ] {
        table.row((kind, requests, bytes));
    }
    table
}

pub(super) fn models(summary: &Summary) -> Table {
    Rows::of(&summary.models)
        .column("model", |(name, _)| name)
        .column("time (s)", |(_, one)| &one.seconds)
        .column("rate (MiB/s)", |(_, one)| one.mib_per_s)
        .column("write amplification", |(_, one)| one.write_amplification)
        .column("collision index", |(_, one)| one.collision_index)
        .table("models", "Modelled times; on each drive, the data that is read is in address order")
}

pub(super) fn latencies(summary: &Summary) -> Table {
    let columns = ["kind", "mean (us)", "median (us)", "90 % (us)", "99 % (us)", "max (us)"];
    let mut table = Table::new("latency", "Latency from issue to completion", &columns);
    for (kind, latency) in [("read", summary.measures.read_latency), ("write", summary.measures.write_latency)] {
        if latency.count == 0 {
            continue;
        }
        let us = |ns: u64| json!(ns as f64 / 1e3);
        let (p50, p90, p99) = (us(latency.p50_ns), us(latency.p90_ns), us(latency.p99_ns));
        table.row((kind, latency.mean_ns / 1e3, p50, p90, p99, us(latency.max_ns)));
    }
    table
}

pub(super) fn log2_figure(
    summary: &Summary,
    id: &str,
    title: &str,
    caption: &str,
    axis: &str,
    unit: f64,
    counts: &[u64],
) -> Figure {
    let mut points: Vec<(f64, f64)> =
        counts.iter().enumerate().map(|(index, count)| (unit * 2f64.powi(index as i32), *count as f64)).collect();
    points.push((unit * 2f64.powi(counts.len() as i32), 0.0));
    let series = vec![Series::new(summary.device.clone(), Mark::Measured, points)];
    let (x, y) = (Axis::linear(axis).log2().in_bytes(), Axis::linear("count").from_zero());
    Figure {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        device: summary.device.clone(),
        better: if id == "discontinuities" { Better::Lower } else { Better::Neither },
        kind: FigureKind::Steps { x, y, series },
    }
}

pub(super) fn discontinuity_figure(summary: &Summary) -> Figure {
    let counts = &summary.measures.layout.log2_blocks;
    let caption = "Reads that did not begin at the end of the previous read, by the distance of the jump.";
    log2_figure(summary, "discontinuities", "Discontinuities by length", caption, "distance (bytes)", 4096.0, counts)
}

pub(super) fn size_figure(summary: &Summary) -> Figure {
    let counts = &summary.measures.log2_request_sectors;
    let caption = "Reads and writes by the size of the request.";
    log2_figure(summary, "request-sizes", "Request sizes", caption, "size (bytes)", 512.0, counts)
}
