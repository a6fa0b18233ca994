//! Time: the operations of a plan, the positions of its age bins, and how many files of each bin stay.
//!
//! Time is the operation count; operation `i` (from 0) of `T` has age `T - i`. An age bin with edges `a < b` holds the births
//! in `[(1 - b/e) T, (1 - a/e) T)`, where `e` is the last edge. Bins are kept oldest first, in the order of time.

use super::rounding::fit;
use crate::profile::Profile;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AgeBin {
    /// Start as a share of the run, 0 for the oldest.
    pub begin: f64,
    pub time: f64,
    pub share: f64,
}

pub(crate) fn age_bins(profile: &Profile) -> Vec<AgeBin> {
    let last = profile.ages[profile.ages.len() - 1].edge;
    let total: f64 = profile.ages.iter().map(|row| row.weight).sum();
    let left = |index: usize| if index == 0 { 0.0 } else { profile.ages[index - 1].edge };
    let bin = |index: usize| AgeBin {
        begin: (last - profile.ages[index].edge) / last,
        time: (profile.ages[index].edge - left(index)) / last,
        share: profile.ages[index].weight / total,
    };
    (0..profile.ages.len()).rev().map(bin).collect()
}

/// Returns the minimum number of operations in which `files` live files can reach the age histogram (Geriatrix,
/// CMU-PDL-16-105, Theorem A.1). Half of the operations after the fill are assumed to be creates.
pub(crate) fn bound(bins: &[AgeBin], files: u64) -> f64 {
    let files = files as f64;
    let young = bins.iter().skip(1).map(|bin| 2.0 * files * bin.share / bin.time);
    young.fold(files / bins[0].time, f64::max)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: u64,
    pub fill: u64,
    pub pairs: u64,
    /// Executed pairs: all, unless the plan is compressed.
    pub played: u64,
    /// Number of initial operations that should be deletes, so that no file is created on an edge that was moved by rounding.
    pub leading_deletes: u8,
}

impl Span {
    pub(crate) fn capacity(&self) -> u64 {
        self.fill + self.pairs
    }
}

/// Cuts a run of `operations`, of which the first `fill` are only creates, into age bins. Edges after the fill are moved down
/// to an even distance from its end, so that every bin has as many creates as deletes.
pub(crate) fn spans(bins: &[AgeBin], operations: u64, fill: u64) -> Vec<Span> {
    let edges: Vec<(u64, u8)> = bins.iter().map(|bin| edge(bin.begin * operations as f64, fill)).collect();
    let end = |index: usize| edges.get(index + 1).map_or(operations, |(start, _)| *start);
    (0..bins.len())
        .map(|index| {
            let (start, leading_deletes) = edges[index];
            let stop = end(index).max(start);
            let filled = stop.min(fill).saturating_sub(start);
            let pairs = (stop - start - filled) / 2;
            Span { start, fill: filled, pairs, played: pairs, leading_deletes }
        })
        .collect()
}

/// Returns the first operation of a bin with the exact start `exact`, and its leading deletes.
fn edge(exact: f64, fill: u64) -> (u64, u8) {
    let first = whole_up(exact);
    let Some(after) = first.checked_sub(fill) else { return (first, 0) };
    let on_edge = (exact - first as f64).abs() <= 1e-13 * exact;
    if after.is_multiple_of(2) { (first, 1) } else { (first - 1, if on_edge { 2 } else { 1 }) }
}

/// Rounds up to the next whole number, tolerating floating-point errors of products.
fn whole_up(exact: f64) -> u64 {
    (exact - 1e-13 * exact).ceil() as u64
}

/// Returns the first birth in the bin that starts at the share `begin` of a run of `operations`.
pub(crate) fn first_birth(begin: f64, operations: u64) -> u64 {
    whole_up(begin * operations as f64)
}

/// Operations of the plan that meets the age histogram at the bound: the fill and whole pairs, slightly more if rounding leaves
/// a bin one create short, at most 2 % above the bound.
pub(crate) fn operations_at_bound(bins: &[AgeBin], files: u64, quotas: &[u64]) -> u64 {
    let bound = bound(bins, files);
    let least = whole_pairs((bound - 1e-6).ceil() as u64, files);
    let most = (bound * 1.02) as u64;
    let step = ((bound * 1e-4) as u64).next_multiple_of(2).max(2);
    let enough = |operations: &u64| {
        spans(bins, *operations, files).iter().zip(quotas).all(|(span, quota)| span.capacity() >= *quota)
    };
    (least..=most.max(least)).step_by(step as usize).find(enough).unwrap_or(least)
}

/// Returns the smallest number of operations, at least `operations`, that is the fill and whole pairs.
pub(crate) fn whole_pairs(operations: u64, fill: u64) -> u64 {
    fill + operations.saturating_sub(fill).next_multiple_of(2)
}

/// Returns the number of files of each bin that stay: as close to their shares as the operations of the bins allow.
pub(crate) fn stayers(bins: &[AgeBin], most: &[u64], files: u64) -> Option<Vec<u64>> {
    let targets: Vec<f64> = bins.iter().map(|bin| bin.share * files as f64).collect();
    fit(&targets, &vec![0; bins.len()], most, files)
}
