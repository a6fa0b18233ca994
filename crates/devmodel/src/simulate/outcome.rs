//! Results of a simulation.

use super::CompletedRequest;
use crate::model::DeviceModel;
use crate::request::Operation;
use crate::ssd::Drive;
use crate::ssd::map::Counters;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

const MIB: f64 = 1_048_576.0;
const WINDOWS: usize = 4096;
const LONGEST_NS: u64 = 10_800_000_000_000;
const LEAST_WINDOW_NS: u64 = 1_000_000;

/// Results of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The device.
    pub device: String,
    /// Requests of the trace.
    pub requests: u64,
    /// From the first issue to the last completion.
    pub seconds: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read and written over the time; none for a trace that moves nothing.
    pub mib_per_s: Option<f64>,
    /// Latencies of reads, writes, and discards and flushes; none without such requests.
    pub read: Option<Latency>,
    /// See `read`.
    pub write: Option<Latency>,
    /// See `read`.
    pub other: Option<Latency>,
    /// Bandwidth over time.
    pub bandwidth: Vec<Window>,
    /// Pages written to the flash over pages written by the host; none without a flash translation layer or without writes.
    pub write_amplification: Option<f64>,
    /// Erases, each of a block over all planes of all dies that are erased with it; none without a flash translation layer.
    pub erases: Option<u64>,
    /// Die-collision index of the reads: 1 if they are spread over all dies, the number of dies if one die has them all; none if
    /// no flash was read.
    pub collision_index: Option<f64>,
    /// Erases of each block during the trace; none without a flash translation layer.
    pub wear: Option<Wear>,
}

/// A distribution of latencies, ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Requests.
    pub count: u64,
    /// Minimum.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Median; this and the following within 0.1 %.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

/// An interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Its start, seconds from the first issue.
    pub start_seconds: f64,
    /// Rate of the requests completed in it, MiB/s.
    pub mib_per_s: f64,
}

/// Number of erases per block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// Blocks.
    pub blocks: u64,
    /// Minimum.
    pub min: u32,
    /// Mean.
    pub mean: f64,
    /// Maximum.
    pub max: u32,
}

pub(super) struct Account {
    requests: u64,
    read_bytes: u64,
    written_bytes: u64,
    end_ns: u64,
    latencies: [Histogram<u64>; 3],
    sums_ns: [f64; 3],
    window_ns: u64,
    windows: Vec<u64>,
}

impl Account {
    pub(crate) fn new(window_ns: u64) -> Self {
        // The bounds are valid, so creation cannot fail; longer latencies count as the bound.
        let histogram =
            || Histogram::new_with_bounds(1, LONGEST_NS, 3).unwrap_or_else(|_| unreachable!("sound bounds"));
        Self {
            requests: 0,
            read_bytes: 0,
            written_bytes: 0,
            end_ns: 0,
            latencies: [histogram(), histogram(), histogram()],
            sums_ns: [0.0; 3],
            window_ns: if window_ns == 0 { LEAST_WINDOW_NS } else { window_ns },
            windows: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, finished: &CompletedRequest) {
        let kind = match finished.operation {
            Operation::Read => 0,
            Operation::Write => 1,
            Operation::Discard | Operation::Flush => 2,
        };
        self.requests += 1;
        self.read_bytes += if kind == 0 { finished.bytes } else { 0 };
        self.written_bytes += if kind == 1 { finished.bytes } else { 0 };
        self.end_ns = self.end_ns.max(finished.done_ns);
        self.latencies[kind].saturating_record(finished.latency_ns());
        self.sums_ns[kind] += finished.latency_ns() as f64;
        self.add_to_window(finished);
    }

    fn add_to_window(&mut self, finished: &CompletedRequest) {
        let mut window = (finished.done_ns / self.window_ns) as usize;
        while window >= WINDOWS {
            self.windows = self.windows.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.window_ns = self.window_ns.saturating_mul(2);
            window = (finished.done_ns / self.window_ns) as usize;
        }
        if window >= self.windows.len() {
            self.windows.resize(window + 1, 0);
        }
        self.windows[window] += finished.bytes;
    }

    pub(crate) fn finish(self, model: &DeviceModel, drive: Option<(&Drive, (Counters, Vec<u32>))>) -> Outcome {
        let seconds = self.end_ns as f64 * 1e-9;
        let bytes = self.read_bytes + self.written_bytes;
        let window_seconds = self.window_ns as f64 * 1e-9;
        let bandwidth = self.windows.iter().enumerate().map(|(number, bytes)| {
            let start_seconds = number as f64 * window_seconds;
            let length = window_seconds.min(seconds - start_seconds).max(1e-9);
            Window { start_seconds, mib_per_s: *bytes as f64 / MIB / length }
        });
        let inside = drive.map(|(drive, (before, erases))| {
            let now = drive.counters();
            let host = now.host_pages - before.host_pages;
            let amplification = (host > 0).then(|| 1.0 + (now.moved_pages - before.moved_pages) as f64 / host as f64);
            let wear: Vec<u32> = drive.map().erases().zip(erases).map(|(now, before)| now - before).collect();
            (amplification, now.erases - before.erases, drive.collision_index(), Wear::of(&wear))
        });
        let latency = |kind: usize| Latency::of(&self.latencies[kind], self.sums_ns[kind]);
        Outcome {
            device: model.name.clone(),
            requests: self.requests,
            seconds,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            mib_per_s: (bytes > 0 && seconds > 0.0).then(|| bytes as f64 / MIB / seconds),
            read: latency(0),
            write: latency(1),
            other: latency(2),
            bandwidth: bandwidth.collect(),
            write_amplification: inside.and_then(|inside| inside.0),
            erases: inside.map(|inside| inside.1),
            collision_index: inside.and_then(|inside| inside.2),
            wear: inside.map(|inside| inside.3),
        }
    }
}

impl Latency {
    fn of(histogram: &Histogram<u64>, sum_ns: f64) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            min_ns: histogram.min(),
            mean_ns: sum_ns / histogram.len() as f64,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: histogram.max(),
        })
    }
}

impl Wear {
    fn of(erases: &[u32]) -> Self {
        let sum: u64 = erases.iter().map(|count| u64::from(*count)).sum();
        Self {
            blocks: erases.len() as u64,
            min: erases.iter().copied().min().unwrap_or(0),
            mean: sum as f64 / erases.len().max(1) as f64,
            max: erases.iter().copied().max().unwrap_or(0),
        }
    }
}
