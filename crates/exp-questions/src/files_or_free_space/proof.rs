//! Checks that each state has the property that its name states. In each seed, the held factor is the same; over the seeds, the
//! moved factor differs.

use super::Aging;
use super::LayoutAge::{Aged, Young};
use super::contrast::{Block, Factor, MARGIN};
use super::work::{FreeSpaceSummary, MeasuredState};
use senesce_core::number_of;
use senesce_stats::{Verdict, mean};
use serde::Serialize;

/// An aging with the seeds whose states are proven.
pub(super) struct Proven<'a> {
    pub aging: Aging,
    pub blocks: Vec<Block<'a>>,
    pub proof: Proof,
}

/// The proof of an aging's states.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Proof {
    pub aging: String,
    pub seeds: usize,
    /// Seeds in which the four states have one base, and the same files and free bytes; the others are left out.
    pub proven: usize,
    /// Proven seeds in which the held files (below: the held free extents) have identical addresses.
    pub identical_files: usize,
    pub identical_free: usize,
    /// The largest ratio of the numbers of free extents where they are held.
    pub held_free_extents: Option<f64>,
    /// Verdicts on the moved factors: gaps between files, and free extents.
    pub files_moved: String,
    pub free_moved: String,
    pub gaps: Option<f64>,
    pub free_extents: Option<f64>,
    /// Means over the proven seeds.
    pub live_share: Option<f64>,
    pub aging_fullness: Option<f64>,
    pub free_share: Option<f64>,
    pub mean_free_extent: Option<f64>,
    /// Why seeds and factors are left out.
    pub reasons: Vec<String>,
}

impl Proof {
    pub(super) fn allows(&self, factor: Factor) -> bool {
        let (files, free) = (self.files_moved == MOVED, self.free_moved == MOVED);
        match factor {
            Factor::Files => files,
            Factor::FreeSpace => free,
            Factor::Interaction => files && free,
        }
    }
}

const MOVED: &str = "differs";

pub(super) fn prove<'a>((aging, blocks, missing): (Aging, Vec<Block<'a>>, usize)) -> Proven<'a> {
    let seeds = blocks.len() + missing;
    let mut reasons = Vec::new();
    if missing > 0 {
        reasons.push(format!("a state is missing for {}", number_of(missing, "seed")));
    }
    let failed: Vec<(u32, &str)> =
        blocks.iter().filter_map(|block| Some((block.seed, differs_where_held(block)?))).collect();
    reasons.extend(failed.iter().map(|(seed, why)| format!("seed {seed}: {why}")));
    let blocks: Vec<Block<'_>> =
        blocks.into_iter().filter(|block| failed.iter().all(|(seed, _)| *seed != block.seed)).collect();
    let (files_moved, gaps) = moved(Factor::Files, &blocks, &|one| one.tree.gaps as f64);
    let (free_moved, free_extents) = moved(Factor::FreeSpace, &blocks, &|one| one.free.extents as f64);
    for (name, verdict) in [("aged files", &files_moved), ("aged free space", &free_moved)] {
        if verdict != MOVED && !blocks.is_empty() {
            reasons.push(format!("effects of {name}, because more extents are not proven ({verdict})"));
        }
    }
    let average = |of: &dyn Fn(&MeasuredState) -> f64| {
        mean(&blocks.iter().map(|block| of(block.state(Aged, Aged))).collect::<Vec<_>>())
    };
    let share = |bytes: u64, one: &MeasuredState| bytes as f64 / one.usable as f64;
    let proof = Proof {
        aging: aging.to_string(),
        seeds,
        proven: blocks.len(),
        identical_files: blocks.iter().filter(|block| held_files(block, &|one, other| one.tree == other.tree)).count(),
        identical_free: blocks.iter().filter(|block| held_free(block, &|one, other| one == other)).count(),
        held_free_extents: blocks.iter().flat_map(ratios_of_held_extents).max_by(f64::total_cmp),
        files_moved,
        free_moved,
        gaps,
        free_extents,
        live_share: average(&|one| share(one.tree.bytes, one)),
        aging_fullness: average(&|one| share(one.tree.bytes, one) / aging.fullness),
        free_share: average(&|one| share(one.free.bytes, one)),
        mean_free_extent: average(&|one| one.free.mean_extent),
        reasons,
    };
    Proven { aging, blocks, proof }
}

/// Returns the aged over the young value of a moved factor, and whether it is larger beyond the spread of seeds.
fn moved(factor: Factor, blocks: &[Block<'_>], value: &dyn Fn(&MeasuredState) -> f64) -> (String, Option<f64>) {
    let (decision, _) = factor.decide(blocks, &|one| Some(value(one)));
    let word = if decision.verdict == Verdict::Worse { MOVED } else { decision.verdict.word() };
    (word.into(), decision.interval.map(|interval| interval.value))
}

fn is_near(one: f64, other: f64) -> bool {
    (one / other).ln().abs() <= MARGIN.ln_1p()
}

/// Returns whether files that are held are the same for both ages of the free space.
fn held_files(block: &Block<'_>, same: &dyn Fn(&MeasuredState, &MeasuredState) -> bool) -> bool {
    [Young, Aged].into_iter().all(|files| same(block.state(files, Young), block.state(files, Aged)))
}

fn held_free(block: &Block<'_>, same: &dyn Fn(&FreeSpaceSummary, &FreeSpaceSummary) -> bool) -> bool {
    [Young, Aged].into_iter().all(|free| same(&block.state(Young, free).free, &block.state(Aged, free).free))
}

fn ratios_of_held_extents(block: &Block<'_>) -> [f64; 2] {
    [Young, Aged].map(|free| {
        let [young, aged] = [Young, Aged].map(|files| block.state(files, free).free.extents as f64);
        young.max(aged) / young.min(aged)
    })
}

/// Returns the first proof that fails in a seed.
fn differs_where_held(block: &Block<'_>) -> Option<&'static str> {
    let [first, rest @ ..] = block.all();
    let near = |of: &dyn Fn(&MeasuredState) -> f64| rest.iter().all(|one| is_near(of(first), of(one)));
    let is_aged_alike = first.base.is_some() && rest.iter().all(|one| one.base == first.base);
    let has_same_files = rest.iter().all(|one| one.tree.files == first.tree.files);
    // By bytes: XFS cannot fill the last blocks of an allocation group, which are extents of one block here or there.
    let same_free = |one: &FreeSpaceSummary, other: &FreeSpaceSummary| is_near(one.mean_extent, other.mean_extent);
    let same_files = |one: &MeasuredState, other: &MeasuredState| {
        is_near(one.tree.gaps as f64, other.tree.gaps as f64) && is_near(one.cold_read.disk, other.cold_read.disk)
    };
    let proofs = [
        (is_aged_alike, "the agings have different layouts"),
        (has_same_files && near(&|one| one.tree.bytes as f64), "the states have different files"),
        (near(&|one| one.free.bytes as f64), "the states have different numbers of free bytes"),
        (held_files(block, &same_files), "the files differ with the age of the free space"),
        (held_free(block, &same_free), "the free space differs with the age of the files"),
    ];
    proofs.into_iter().find(|(holds, _)| !holds).map(|(_, why)| why)
}
