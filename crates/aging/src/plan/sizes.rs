//! From the size histogram and the volume to the number of files of each size.

use super::rounding::{apportion, fit};
use super::{PlanSpec, Truncate};
use crate::error::AgingError;
use crate::profile::SizeRow;
use senesce_core::Bytes;
use serde::{Deserialize, Serialize};

/// Fullness counts allocated blocks of this size.
pub const BLOCK: u64 = 4096;

/// A bin of the size histogram that fits the volume.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeBin {
    /// Row of the profile.
    pub row: usize,
    /// Sizes lie above this (equal to `high`: every file has exactly that size).
    pub low: u64,
    /// Largest size of the bin.
    pub high: u64,
    /// Mean size in whole blocks, in bytes.
    pub allocated: f64,
    /// Share of files; the shares of all bins sum to 1.
    pub share: f64,
}

/// A bin which `--truncate-sizes` removed, and what became of its files.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Truncated {
    /// Size of the bin.
    pub bytes: Bytes,
    /// Its share of files in the profile.
    pub share: f64,
    /// Whether its share went to the largest bin that fits (else to all others).
    pub clamped: bool,
}

/// The bins that fit a volume, what was cut away, and how many files of each there are.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    pub bins: Vec<SizeBin>,
    pub truncated: Vec<Truncated>,
    /// Files of each bin.
    pub files: Vec<u64>,
    /// Sum of `files`.
    pub total_files: u64,
    /// Allocated bytes of all files.
    pub bytes: f64,
}

impl Sizes {
    /// Applies `spec` to its profile. Refuses what cannot fit and a volume too small for the histograms.
    pub fn new(spec: &PlanSpec, fullness: f64) -> Result<Self, AgingError> {
        let room = fullness * spec.capacity.0 as f64;
        let (bins, truncated) = truncate(spec, room)?;
        let mean: f64 = bins.iter().map(|bin| bin.share * bin.allocated).sum();
        let total_files = (room / mean).floor();
        check_count(spec, fullness, mean, total_files)?;
        let files = choose_counts(&bins, total_files as u64, room, spec.capacity.0 as f64);
        let bytes = files.iter().zip(&bins).map(|(count, bin)| *count as f64 * bin.allocated).sum();
        Ok(Self { bins, truncated, files, total_files: total_files as u64, bytes })
    }

    /// The same bins with only `total` files, for a limit which ends before the volume is filled.
    pub fn shrunk_to(&self, total: u64) -> Self {
        let shares: Vec<f64> = self.bins.iter().map(|bin| bin.share).collect();
        let files = apportion(&shares, total);
        let bytes = files.iter().zip(&self.bins).map(|(count, bin)| *count as f64 * bin.allocated).sum();
        Self { files, total_files: total, bytes, ..self.clone() }
    }
}

fn check_count(spec: &PlanSpec, fullness: f64, mean: f64, count: f64) -> Result<(), AgingError> {
    let bins = |weights: &mut dyn Iterator<Item = f64>| weights.filter(|weight| *weight > 0.0).count();
    let profile = &spec.profile;
    let needed = [
        bins(&mut profile.sizes.iter().map(|row| row.weight)),
        bins(&mut profile.depths.iter().map(|row| row.weight)),
        bins(&mut profile.ages.iter().map(|row| row.weight)),
    ];
    let needed = needed.into_iter().max().unwrap_or(1).max(2) as f64;
    if !count.is_finite() {
        let problem = "every file of the profile is empty, so that no number of them fills a volume";
        return Err(AgingError::profile(&profile.name, problem));
    }
    if count >= f64::from(u32::MAX) {
        return Err(AgingError::Plan(format!("{count:.0} files are more than the planner can hold (4294967294)")));
    }
    if count < needed {
        let volume = Bytes(((needed + 1.0) * mean / fullness).ceil() as u64).round_up(BLOCK);
        return Err(AgingError::Plan(format!(
            "{} at fullness {fullness} holds {count} files of the profile {} (mean {} in whole blocks), fewer than the {needed} \
             bins of its histograms; the volume must have at least {} ({volume})",
            spec.capacity,
            profile.name,
            Bytes(mean as u64),
            volume.0
        )));
    }
    Ok(())
}

/// Keeps the bins whose files can fit; refuses, drops or clamps the others.
fn truncate(spec: &PlanSpec, room: f64) -> Result<(Vec<SizeBin>, Vec<Truncated>), AgingError> {
    let rows = &spec.profile.sizes;
    let total: f64 = rows.iter().map(|row| row.weight).sum();
    let fits = |row: &SizeRow| row.bytes.round_up(BLOCK).0 as f64 <= room;
    let fitting = rows.iter().take_while(|row| fits(row)).count();
    let mut weights: Vec<f64> = rows[..fitting].iter().map(|row| row.weight).collect();
    let cut: Vec<&SizeRow> = rows[fitting..].iter().filter(|row| row.weight > 0.0).collect();
    if let (Some(first), Truncate::Refuse) = (cut.first(), spec.truncate) {
        return Err(too_large(spec, room, first, &cut));
    }
    if weights.iter().sum::<f64>() <= 0.0 && (fitting == 0 || spec.truncate != Truncate::Clamp) {
        return Err(AgingError::Plan(format!(
            "no file size of the profile {} fits into {}",
            spec.profile.name,
            Bytes(room as u64)
        )));
    }
    let clamped = spec.truncate == Truncate::Clamp;
    if clamped && !cut.is_empty() {
        weights[fitting - 1] += cut.iter().map(|row| row.weight).sum::<f64>();
    }
    let kept: f64 = weights.iter().sum();
    let bins = (0..fitting).map(|row| {
        let high = rows[row].bytes.0;
        let low = match (spec.spread_sizes, row) {
            (false, _) => high,
            (true, 0) => high.min(1),
            (true, _) => rows[row - 1].bytes.0.max(1).min(high),
        };
        SizeBin { row, low, high, allocated: mean_allocated(low, high), share: weights[row] / kept }
    });
    let truncated = cut.iter().map(|row| Truncated { bytes: row.bytes, share: row.weight / total, clamped });
    Ok((bins.collect(), truncated.collect()))
}

fn too_large(spec: &PlanSpec, room: f64, first: &SizeRow, cut: &[&SizeRow]) -> AgingError {
    let total: f64 = spec.profile.sizes.iter().map(|row| row.weight).sum();
    let share: f64 = cut.iter().map(|row| row.weight).sum::<f64>() / total;
    AgingError::Plan(format!(
        "files of {} and larger ({} of the profile {}, {:.4} % of its files, the largest {}) cannot fit into the {} that fullness \
         allows on {}; take a larger volume, or allow --truncate-sizes drop (leave them out) or clamp (make them as large as fits)",
        first.bytes,
        if cut.len() == 1 { "one size bin".to_string() } else { format!("{} size bins", cut.len()) },
        spec.profile.name,
        share * 100.0,
        cut[cut.len() - 1].bytes,
        Bytes(room as u64),
        spec.capacity,
    ))
}

/// Mean of the size in whole blocks, for sizes spread log-uniformly over (`low`, `high`].
pub fn mean_allocated(low: u64, high: u64) -> f64 {
    if low == high {
        return Bytes(high).round_up(BLOCK).0 as f64;
    }
    let (a, b) = (low as f64, high as f64);
    let width = libm::log(b / a);
    if low >= 1 << 24 {
        return (b - a) / width + BLOCK as f64 / 2.0;
    }
    let blocks = low / BLOCK..high.div_ceil(BLOCK);
    blocks
        .map(|index| {
            let from = ((index * BLOCK) as f64).max(a);
            let to = (((index + 1) * BLOCK) as f64).min(b);
            ((index + 1) * BLOCK) as f64 * libm::log(to / from) / width
        })
        .sum()
}

/// Files of each bin: the floor or ceiling of its share, chosen by largest remainder and then exchanged in pairs until
/// the bytes come near the target, as long as the RMSE of the shares stays at or below 0.5 / K.
fn choose_counts(bins: &[SizeBin], total: u64, target: f64, capacity: f64) -> Vec<u64> {
    let shares: Vec<f64> = bins.iter().map(|bin| bin.share).collect();
    let mut files = apportion(&shares, total);
    let exact: Vec<f64> = shares.iter().map(|share| share * total as f64).collect();
    let mut square: f64 = files.iter().zip(&exact).map(|(count, exact)| (*count as f64 - exact).powi(2)).sum();
    let mut excess = files.iter().zip(bins).map(|(count, bin)| *count as f64 * bin.allocated).sum::<f64>() - target;
    let most_square = 0.2499 * bins.len() as f64;
    // Too little is worse than too much: a deletion of the largest file starts from here.
    let distance = |excess: f64| if excess >= 0.0 { excess } else { -4.0 * excess };
    while distance(excess) > 2e-4 * capacity {
        let step = |count: u64, exact: f64, up: bool| {
            let next = if up { count as f64 + 1.0 } else { count as f64 - 1.0 };
            (next - exact).abs().lt(&1.0).then(|| (next - exact).powi(2) - (count as f64 - exact).powi(2))
        };
        let mut best: Option<(f64, usize, usize, f64)> = None;
        for (up, bin) in bins.iter().enumerate() {
            let Some(gain) = step(files[up], exact[up], true) else { continue };
            for (down, other) in bins.iter().enumerate() {
                if up == down || files[down] == 0 {
                    continue;
                }
                let Some(loss) = step(files[down], exact[down], false) else { continue };
                let after = distance(excess + bin.allocated - other.allocated);
                let better = best.is_none_or(|(known, ..)| after < known);
                if square + gain + loss <= most_square && after < distance(excess) && better {
                    best = Some((after, up, down, gain + loss));
                }
            }
        }
        let Some((_, up, down, change)) = best else { break };
        files[up] += 1;
        files[down] -= 1;
        square += change;
        excess += bins[up].allocated - bins[down].allocated;
    }
    files
}

/// Slots beyond the K files, empty at every edge of an age bin, which keep operations possible when every file is
/// already one that stays: small files of the profile with about half a percent of the volume, at most K / 20.
pub fn ghosts(allocated: &[f64], shares: &[f64], files: &[u64], capacity: f64) -> Vec<u64> {
    let budget = 0.005 * capacity;
    let total: u64 = files.iter().sum();
    let small = |index: usize| files[index] > 0 && allocated[index] <= budget / 8.0;
    let weights: Vec<f64> = (0..files.len()).map(|index| if small(index) { shares[index] } else { 0.0 }).collect();
    let sum: f64 = weights.iter().sum();
    let least = |index: &usize| (allocated[*index], *index);
    let smallest = (0..files.len())
        .filter(|index| files[*index] > 0)
        .min_by(|a, b| least(a).partial_cmp(&least(b)).unwrap_or(std::cmp::Ordering::Equal));
    let mut one = vec![0; files.len()];
    if let Some(index) = smallest {
        one[index] = 1;
    }
    if sum <= 0.0 {
        return one;
    }
    let mean = weights.iter().zip(allocated).map(|(weight, bytes)| weight * bytes).sum::<f64>() / sum;
    let count = (total as f64 / 20.0).min(budget / mean.max(1.0)).floor() as u64;
    if count == 0 {
        return one;
    }
    let targets: Vec<f64> = weights.iter().map(|weight| weight / sum * count as f64).collect();
    let high: Vec<u64> = weights.iter().map(|weight| if *weight > 0.0 { count } else { 0 }).collect();
    let mut slots = fit(&targets, &vec![0; files.len()], &high, count).unwrap_or(one);
    let bytes = |slots: &[u64]| slots.iter().zip(allocated).map(|(count, size)| *count as f64 * size).sum::<f64>();
    while bytes(&slots) > budget && slots.iter().sum::<u64>() > 1 {
        let Some(largest) = (0..slots.len()).rev().find(|index| slots[*index] > 0) else { break };
        slots[largest] -= 1;
    }
    slots
}
