//! Measures a device by reading: bandwidth by position, seek curve, natural transfer size. Never writes.
//!
//! The device is accessed through [`Probe`], so that the procedure can be tested on a model, whose parameters it must recover.

use crate::error::ModelError;
use crate::hdd::Hdd;
use crate::model::{DeviceModel, Parameters};
use crate::seek::SeekCurve;
use crate::ssd::Ssd;
use senesce_core::Seed;
use serde::{Deserialize, Serialize};
use std::io;

pub trait Probe {
    fn size(&self) -> u64;
    /// Reads `bytes` at `offset` without caches of the host; returns the duration in nanoseconds.
    fn read(&mut self, offset: u64, bytes: u64) -> io::Result<u64>;
    /// Reads `bytes` at every offset with `depth` concurrent reads; returns the total duration in nanoseconds.
    fn read_many(&mut self, offsets: &[u64], bytes: u64, depth: u32) -> io::Result<u64>;
}

/// Measured values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Median latency of a random 4 KiB read, microseconds.
    pub random_read_us: f64,
    /// Random 4 KiB reads per second with 32 at a time.
    pub random_read_iops_at_32: f64,
    /// Bytes per random read at which half of the sequential rate is reached (natural transfer size); none: not up to 64 MiB.
    pub natural_transfer_50_bytes: Option<u64>,
    /// The same for 90 %.
    pub natural_transfer_90_bytes: Option<u64>,
    /// Sequential rate by position: fraction of the capacity, decimal megabytes per second.
    pub bandwidth_mb_per_s: Vec<(f64, f64)>,
    /// Rate of random reads by size: bytes, decimal megabytes per second.
    pub random_mb_per_s: Vec<(u64, f64)>,
}

/// Minimum size of a measured device: the largest random reads need space.
pub(crate) const LEAST_BYTES: u64 = 64 << 20;
/// Latency of random reads above which a device is a disk drive. Solid-state drives stay below 0.3 ms, disk drives of 15,000 rpm
/// above 3 ms.
const ROTATING_US: f64 = 1000.0;
const BLOCK: u64 = 4096;
const SEQUENTIAL_STEP: u64 = 1 << 20;
const SEEK_FRACTIONS: [f64; 9] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 1.0 / 3.0, 0.6, 0.95];

struct Procedure<'a, P: Probe> {
    probe: &'a mut P,
    random: rand_pcg::Pcg64,
}

/// Measures a device and fits a model to it. `rotational`: the kernel's classification, if known. `seed` selects the positions.
pub fn measure(
    probe: &mut impl Probe,
    name: &str,
    rotational: Option<bool>,
    seed: Seed,
) -> Result<DeviceModel, ModelError> {
    let size = probe.size();
    if size < LEAST_BYTES {
        return Err(ModelError::TooSmall { bytes: size, least: LEAST_BYTES });
    }
    let mut procedure = Procedure { probe, random: seed.stream("devmodel/measure") };
    let bandwidth = procedure.bandwidth()?;
    let random_read_us = median(procedure.random_latencies(65)?) / 1e3;
    let iops = procedure.iops_at_32(if random_read_us > ROTATING_US { 128 } else { 2048 })?;
    let rotates = rotational.unwrap_or(true) && random_read_us > ROTATING_US;
    let random_rates = procedure.random_rates(rotates)?;
    let best = bandwidth.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let natural = |share: f64| random_rates.iter().find(|(_, rate)| *rate >= share * best).map(|(bytes, _)| *bytes);
    let measurement = Measurement {
        random_read_us,
        random_read_iops_at_32: iops,
        natural_transfer_50_bytes: natural(0.5),
        natural_transfer_90_bytes: natural(0.9),
        random_mb_per_s: random_rates.clone(),
        bandwidth_mb_per_s: bandwidth,
    };
    let parameters = match rotates {
        true => Parameters::Hdd(procedure.fit_hdd(size, &measurement)?),
        false => Parameters::Ssd(fit_ssd(size, &measurement)),
    };
    let sources = vec![
        "measured by `senesce device measure`, which only reads: bandwidth, seek curve, command times".into(),
        "assumed, not measured: all parameters of writes, read-ahead, interface rate, stripe".into(),
    ];
    Ok(DeviceModel { name: name.into(), sources, parameters, measurement: Some(measurement) })
}

impl<P: Probe> Procedure<'_, P> {
    fn timed(&mut self, offset: u64, bytes: u64) -> Result<f64, ModelError> {
        let read = self.probe.read(offset, bytes);
        read.map(|ns| ns as f64).map_err(|source| ModelError::Read { offset, bytes, source })
    }

    fn place(&mut self, bytes: u64) -> u64 {
        let blocks = (self.probe.size() - bytes) / BLOCK + 1;
        (self.uniform() * blocks as f64) as u64 * BLOCK
    }

    /// Draws a number in 0..1.
    fn uniform(&mut self) -> f64 {
        use rand_pcg::rand_core::Rng;
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Measures the sequential rate at nine positions from the first to the last byte.
    fn bandwidth(&mut self) -> Result<Vec<(f64, f64)>, ModelError> {
        let size = self.probe.size();
        let span = (size / 16).min(32 << 20) / SEQUENTIAL_STEP * SEQUENTIAL_STEP;
        let mut points = Vec::new();
        for position in 0..=8u64 {
            let start = (size - span) / 8 * position / BLOCK * BLOCK;
            // The first read includes the seek and starts read-ahead.
            self.timed(start, SEQUENTIAL_STEP)?;
            let mut spent = 0.0;
            for offset in (start + SEQUENTIAL_STEP..start + span).step_by(SEQUENTIAL_STEP as usize) {
                spent += self.timed(offset, SEQUENTIAL_STEP)?;
            }
            let rate = (span - SEQUENTIAL_STEP) as f64 / spent * 1e3;
            points.push(((start + span / 2) as f64 / size as f64, rate));
        }
        Ok(points)
    }

    fn random_latencies(&mut self, count: usize) -> Result<Vec<f64>, ModelError> {
        (0..count).map(|_| self.place(BLOCK)).collect::<Vec<_>>().into_iter().map(|at| self.timed(at, BLOCK)).collect()
    }

    fn iops_at_32(&mut self, count: usize) -> Result<f64, ModelError> {
        let offsets: Vec<u64> = (0..count).map(|_| self.place(BLOCK)).collect();
        let spent = self.probe.read_many(&offsets, BLOCK, 32);
        let spent = spent.map_err(|source| ModelError::Read { offset: offsets[0], bytes: BLOCK, source })?;
        Ok(count as f64 / (spent as f64 * 1e-9))
    }

    /// Measures the rate of random reads of increasing size, until 90 % of the sequential rate or the maximum size is
    /// reached.
    fn random_rates(&mut self, rotates: bool) -> Result<Vec<(u64, f64)>, ModelError> {
        let mut rates = Vec::new();
        let mut bytes = BLOCK;
        while bytes <= (64 << 20) && bytes <= self.probe.size() / 4 {
            let least = if rotates { 12 } else { 16 };
            let count = ((32 << 20) / bytes).clamp(if bytes > 8 << 20 { 3 } else { 6 }, least);
            let mut spent = 0.0;
            for _ in 0..count {
                let at = self.place(bytes);
                spent += self.timed(at, bytes)?;
            }
            rates.push((bytes, (bytes * count) as f64 / spent * 1e3));
            bytes *= 2;
        }
        Ok(rates)
    }

    /// Fits seek times. The fastest of many seeks over the same distance reached its sector at once, so it has no rotational
    /// latency; the mean includes half a rotation.
    fn fit_hdd(&mut self, size: u64, seen: &Measurement) -> Result<Hdd, ModelError> {
        let rate_at = |end: usize| seen.bandwidth_mb_per_s.get(end).map_or(1.0, |point| point.1);
        let outer = rate_at(0).max(rate_at(8));
        let inner = rate_at(8).min(outer);
        let shape = Hdd {
            capacity_bytes: size,
            rpm: 7200.0,
            outer_mb_per_s: outer,
            inner_mb_per_s: inner,
            command_us: 0.0,
            write_settle_ms: 0.0,
            read_ahead_bytes: 1 << 20,
            interface_mb_per_s: 550.0_f64.max(outer),
            seek: SeekCurve::Points { points: vec![(0.0, 0.0), (1.0, 0.0)] },
        };
        let (mut points, mut half_rotations) = (Vec::new(), Vec::new());
        for fraction in SEEK_FRACTIONS {
            let times = self.seeks(&shape, fraction, 48)?;
            let fastest = times.iter().copied().fold(f64::INFINITY, f64::min);
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            // The expected minimum of n uniform waits is 1/(n+1) of a rotation, the mean 1/2.
            let rotation = (mean - fastest) / (0.5 - 1.0 / (times.len() + 1) as f64);
            half_rotations.push(rotation);
            points.push((fraction, fastest - rotation / (times.len() + 1) as f64));
        }
        let rotation = median(half_rotations);
        let mut least = 0.0f64;
        let points = points.into_iter().map(|(fraction, ns)| {
            least = least.max(ns / 1e6);
            (fraction, least)
        });
        Ok(Hdd { rpm: 60e9 / rotation, seek: SeekCurve::Points { points: points.collect() }, ..shape })
    }

    /// Measures the times of 4 KiB reads after a jump over `fraction` of the stroke, from random starting points.
    fn seeks(&mut self, shape: &Hdd, fraction: f64, count: usize) -> Result<Vec<f64>, ModelError> {
        let mut times = Vec::new();
        for _ in 0..count {
            let outer = self.uniform() * (1.0 - fraction);
            let ends = [outer, outer + fraction].map(|position| {
                (shape.address_at(position) / BLOCK * BLOCK).min((shape.capacity_bytes - BLOCK) / BLOCK * BLOCK)
            });
            let inwards = self.uniform() < 0.5;
            let [from, to] = if inwards { ends } else { [ends[1], ends[0]] };
            self.timed(from, BLOCK)?;
            times.push(self.timed(to, BLOCK)?);
        }
        Ok(times)
    }
}

fn fit_ssd(size: u64, seen: &Measurement) -> Ssd {
    let rate = seen.bandwidth_mb_per_s.iter().map(|point| point.1).fold(0.0, f64::max);
    let command_us = (1e6 / seen.random_read_iops_at_32).min(seen.random_read_us);
    let transfer_us = BLOCK as f64 / rate;
    let read_us = (seen.random_read_us - command_us - transfer_us).max(0.0);
    // 32 concurrent reads keep read time / command time units busy. With random positions some units have queues while others
    // idle, so several times this number is needed.
    let units = (read_us / command_us).ceil().clamp(1.0, 256.0) * 4.0;
    Ssd {
        capacity_bytes: size,
        read_command_us: command_us,
        write_command_us: command_us,
        read_us,
        write_us: 0.0,
        parallel_units: units as u32,
        stripe_bytes: 16 << 10,
        read_mb_per_s: rate,
        write_mb_per_s: rate,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
