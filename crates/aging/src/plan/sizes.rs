//! Number of files of each size, from the size histogram and the volume.

use super::counts::choose_counts;
use super::rounding::fit;
use super::{PlanSpec, Truncate};
use crate::error::AgingError;
use crate::profile::SizeRow;
use senesce_core::Bytes;
use serde::{Deserialize, Serialize};

/// Fullness counts allocated blocks of this size.
pub const BLOCK: u64 = 4096;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SizeBin {
    pub row: usize,
    /// Exclusive lower bound of sizes (equal to `high`: every file has exactly that size).
    pub low: u64,
    pub high: u64,
    /// Mean size in whole blocks, in bytes.
    pub allocated: f64,
    pub share: f64,
}

/// A bin removed by `--truncate-sizes`, and the destination of its files.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Truncated {
    /// Size of the bin.
    pub bytes: Bytes,
    /// Share of files in the profile.
    pub share: f64,
    /// Whether its share was added to the largest bin that fits, instead of to all others.
    pub clamped: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sizes {
    pub bins: Vec<SizeBin>,
    pub truncated: Vec<Truncated>,
    pub files: Vec<u64>,
    pub total_files: u64,
    pub bytes: f64,
}

impl Sizes {
    /// Applies `spec` to its profile. Refuses sizes that cannot fit and a volume too small for the histograms.
    pub(crate) fn new(spec: &PlanSpec, fullness: f64) -> Result<Self, AgingError> {
        let room = fullness * spec.capacity.0 as f64;
        let (bins, truncated) = truncate(spec, room)?;
        let mean: f64 = bins.iter().map(|bin| bin.share * bin.allocated).sum();
        let total_files = (room / mean).floor();
        check_count(spec, fullness, mean, total_files)?;
        let files = choose_counts(&bins, total_files as u64, room, spec.capacity.0 as f64);
        let bytes = files.iter().zip(&bins).map(|(count, bin)| *count as f64 * bin.allocated).sum();
        Ok(Self { bins, truncated, files, total_files: total_files as u64, bytes })
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
        let problem = "every file of the profile is empty, so no number of them fills a volume";
        return Err(AgingError::profile(&profile.name, problem));
    }
    if count >= f64::from(u32::MAX) {
        return Err(AgingError::Plan(format!(
            "{count:.0} files exceed the maximum of one planner (4294967294): divide the plan with --parts"
        )));
    }
    if count < needed {
        let problem = format!(
            "{} at fullness {fullness} holds {count} files of the profile {} (mean {} in whole blocks), fewer than the {needed} \
             bins of its histograms",
            spec.capacity,
            profile.name,
            Bytes(mean as u64)
        );
        let least = Bytes(((needed + 1.0) * mean / fullness).ceil() as u64).round_up(BLOCK);
        return Err(AgingError::TooSmall { problem, least });
    }
    Ok(())
}

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
         allows on {}; use a larger volume, or allow --truncate-sizes drop (leave them out) or clamp (make them as large as fits)",
        first.bytes,
        if cut.len() == 1 { "one size bin".to_string() } else { format!("{} size bins", cut.len()) },
        spec.profile.name,
        share * 100.0,
        cut[cut.len() - 1].bytes,
        Bytes(room as u64),
        spec.capacity,
    ))
}

/// Returns the mean size in whole blocks, for sizes spread log-uniformly over (`low`, `high`].
pub(crate) fn mean_allocated(low: u64, high: u64) -> f64 {
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

/// Slots beyond the K files, empty at every edge of an age bin. They keep operations possible when all other files must stay:
/// small files of the profile with about `budget` bytes, at most K / 20.
pub(crate) fn ghosts(allocated: &[f64], shares: &[f64], files: &[u64], budget: f64) -> Vec<u64> {
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
