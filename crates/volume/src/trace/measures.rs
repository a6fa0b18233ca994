//! Measures of layout and load from a block trace.

use super::packed::BlockTrace;
use super::request::Operation;
use super::validity::ValidTrace;
use serde::{Deserialize, Serialize};

/// Sectors of 512 bytes in a block of 4 KiB.
const BLOCK_SECTORS: f64 = 8.0;

/// Contiguity of the device's reads (definition of the dynamic layout score: Conway et al., "File Systems Fated for
/// Senescence? Nonsense, Says Science!", FAST 2017, with the first request free).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DynamicLayout {
    /// 1 - discontinuities / 4 KiB blocks read, over the reads in issue order: at most 1, and below 0 only if many
    /// requests are smaller than a block. `None`: no reads.
    pub score: Option<f64>,
    /// Reads that do not begin at the end of the previous read.
    pub discontinuities: u64,
    /// Number of discontinuities by length: element k counts those of 2^k to 2^(k+1) - 1 blocks of 4 KiB (element 0
    /// also shorter ones).
    pub log2_blocks: Vec<u64>,
    /// Sum of their lengths in bytes.
    pub seek_distance_bytes: u64,
    /// 4 KiB blocks read, with fractions.
    pub blocks_read: f64,
}

/// Bytes moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedBytes {
    /// Read.
    pub read: u64,
    /// Written.
    pub write: u64,
    /// Discarded.
    pub discard: u64,
}

/// Latencies from issue to completion, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Requests with a recorded completion.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

/// Concurrent requests at the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueDepth {
    /// Mean over the time with at least one request.
    pub mean_while_busy: f64,
    /// Maximum.
    pub max: u64,
    /// Seconds with at least one request.
    pub busy_seconds: f64,
}

/// All measures of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Requests of all kinds.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Discards.
    pub discards: u64,
    /// Flushes.
    pub flushes: u64,
    /// Other requests: writing zeros, driver commands.
    pub others: u64,
    /// Actions on zones: resets, openings, closings, finishes.
    #[serde(default)]
    pub zone_commands: u64,
    /// Bytes moved.
    pub bytes: MovedBytes,
    /// Layout of the reads.
    pub layout: DynamicLayout,
    /// Read and write requests by size: element k counts those of 2^k to 2^(k+1) - 1 sectors of 512 bytes.
    pub log2_request_sectors: Vec<u64>,
    /// Latency of reads.
    pub read_latency: LatencySummary,
    /// Latency of writes.
    pub write_latency: LatencySummary,
    /// Queue depth.
    pub queue_depth: QueueDepth,
    /// Events that are known to be lost; above 0 the trace is not valid.
    pub lost_events: u64,
}

impl Measures {
    /// Computes all measures. An invalid trace has only counts, bytes and sizes of the recorded requests.
    pub fn of(trace: &BlockTrace) -> Self {
        let mut measures = Self { requests: trace.len() as u64, lost_events: trace.lost_events(), ..Self::default() };
        let (mut read_latencies, mut write_latencies) = (Vec::new(), Vec::new());
        for request in trace.iter() {
            let bytes = request.bytes();
            match request.operation {
                Operation::Read => {
                    measures.reads += 1;
                    measures.bytes.read += bytes;
                    read_latencies.extend(request.latency_ns);
                }
                Operation::Write => {
                    measures.writes += 1;
                    measures.bytes.write += bytes;
                    write_latencies.extend(request.latency_ns);
                }
                Operation::Discard => {
                    measures.discards += 1;
                    measures.bytes.discard += bytes;
                }
                Operation::Flush => measures.flushes += 1,
                Operation::Other => measures.others += 1,
                Operation::Zone(_) => measures.zone_commands += 1,
            }
            if matches!(request.operation, Operation::Read | Operation::Write) {
                count_log2(&mut measures.log2_request_sectors, u64::from(request.sectors));
            }
        }
        let Ok(trace) = trace.valid() else { return measures };
        measures.layout = DynamicLayout::of(trace);
        measures.read_latency = LatencySummary::of(read_latencies);
        measures.write_latency = LatencySummary::of(write_latencies);
        measures.queue_depth = QueueDepth::of(&trace);
        measures
    }
}

impl DynamicLayout {
    pub fn of(trace: ValidTrace<'_>) -> Self {
        let mut layout = Self::default();
        let (mut sectors, mut expected) = (0, None);
        for request in trace.iter().filter(|request| request.operation == Operation::Read && request.sectors > 0) {
            sectors += u64::from(request.sectors);
            if let Some(gap) = expected.map(|end: u64| end.abs_diff(request.sector)).filter(|gap| *gap > 0) {
                layout.discontinuities += 1;
                let bytes = gap.saturating_mul(512);
                layout.seek_distance_bytes = layout.seek_distance_bytes.saturating_add(bytes);
                count_log2(&mut layout.log2_blocks, gap / BLOCK_SECTORS as u64);
            }
            expected = Some(request.end_sector());
        }
        layout.blocks_read = sectors as f64 / BLOCK_SECTORS;
        layout.score = (sectors > 0).then(|| 1.0 - layout.discontinuities as f64 / layout.blocks_read);
        layout
    }
}

fn count_log2(buckets: &mut Vec<u64>, value: u64) {
    let bucket = value.max(1).ilog2() as usize;
    if buckets.len() <= bucket {
        buckets.resize(bucket + 1, 0);
    }
    buckets[bucket] += 1;
}

impl LatencySummary {
    fn of(mut latencies: Vec<u64>) -> Self {
        latencies.sort_unstable();
        let count = latencies.len();
        // Nearest rank: the minimum value that is not below the given share of all.
        let rank =
            |share: f64| latencies.get(((share * count as f64).ceil() as usize).max(1) - 1).copied().unwrap_or(0);
        Self {
            count: count as u64,
            mean_ns: latencies.iter().map(|latency| *latency as f64).sum::<f64>() / count.max(1) as f64,
            p50_ns: rank(0.5),
            p90_ns: rank(0.9),
            p99_ns: rank(0.99),
            max_ns: latencies.last().copied().unwrap_or(0),
        }
    }
}

impl QueueDepth {
    fn of(trace: &BlockTrace) -> Self {
        let mut ends = std::collections::BinaryHeap::new();
        let (mut area, mut busy_ns, mut max, mut now) = (0.0, 0u64, 0, 0u64);
        let mut advance = |ends: &mut std::collections::BinaryHeap<std::cmp::Reverse<u64>>, until: u64| {
            while let Some(std::cmp::Reverse(end)) = ends.peek().copied().filter(|end| end.0 <= until) {
                area += ends.len() as f64 * (end - now) as f64;
                busy_ns += end - now;
                now = end;
                ends.pop();
            }
            if !ends.is_empty() {
                area += ends.len() as f64 * (until - now) as f64;
                busy_ns += until - now;
            }
            now = now.max(until);
        };
        for request in trace.iter() {
            let Some(latency_ns) = request.latency_ns else { continue };
            advance(&mut ends, request.issue_ns);
            ends.push(std::cmp::Reverse(request.issue_ns.saturating_add(latency_ns)));
            max = max.max(ends.len() as u64);
        }
        let last = ends.iter().map(|end| end.0).max().unwrap_or(0);
        advance(&mut ends, last);
        Self { mean_while_busy: area / (busy_ns.max(1)) as f64, max, busy_seconds: busy_ns as f64 / 1e9 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Request;

    fn trace(list: &[(Operation, u64, u32)]) -> BlockTrace {
        BlockTrace::from_requests(
            "sdx",
            0,
            list.iter().map(|(kind, at, length)| Request::new(*kind, *at, *length)).collect(),
        )
    }

    #[test]
    fn score_counts_reads_except_the_first() {
        use Operation::{Read, Write};
        let trace = trace(&[(Read, 1000, 8), (Write, 5, 8), (Read, 1008, 16), (Read, 1024 + 64, 8), (Read, 0, 8)]);
        let layout = DynamicLayout::of(trace.valid().unwrap());
        assert_eq!(layout.discontinuities, 2);
        assert_eq!(layout.blocks_read, 5.0);
        assert_eq!(layout.score, Some(1.0 - 2.0 / 5.0));
        assert_eq!(layout.log2_blocks, [0, 0, 0, 1, 0, 0, 0, 1], "8 blocks and 137 blocks");
        assert_eq!(layout.seek_distance_bytes, (64 + 1096) * 512);
    }

    #[test]
    fn trace_without_reads_has_no_score() {
        let written = trace(&[(Operation::Write, 0, 8)]);
        assert_eq!(DynamicLayout::of(written.valid().unwrap()).score, None);
        assert_eq!(Measures::of(&trace(&[])).requests, 0);
    }

    #[test]
    fn an_invalid_trace_has_no_score_and_no_latency() {
        let list = vec![Request { latency_ns: Some(5), ..Request::new(Operation::Read, 0, 8) }];
        let mut trace = BlockTrace::from_requests("sdx", 0, list);
        trace.set_account(None, vec![crate::trace::Problem::Lost { events: 1 }]);
        let measures = Measures::of(&trace);
        assert_eq!((measures.reads, measures.bytes.read, measures.lost_events), (1, 4096, 1));
        assert_eq!((measures.layout.score, measures.read_latency.count), (None, 0));
    }

    #[test]
    fn queue_depth_is_weighted_by_time() {
        let at =
            |issue_ns, latency| Request { issue_ns, latency_ns: Some(latency), ..Request::new(Operation::Read, 0, 8) };
        let depth = QueueDepth::of(&BlockTrace::from_requests("sdx", 0, vec![at(0, 100), at(50, 50), at(1000, 100)]));
        assert_eq!((depth.max, depth.busy_seconds), (2, 200e-9));
        assert!((depth.mean_while_busy - 250.0 / 200.0).abs() < 1e-12);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let summary = LatencySummary::of((1..=100).rev().collect());
        assert_eq!((summary.p50_ns, summary.p90_ns, summary.p99_ns, summary.max_ns), (50, 90, 99, 100));
        assert_eq!(LatencySummary::of(vec![]), LatencySummary::default());
    }
}
