//! The length of a plan: to the bound, or to a limit that is known in advance.

use super::Limit;
use super::build::{Draft, Segment};
use super::classes::Class;
use super::rounding::apportion;
use super::schedule::{self, Span};
use super::search::Search;
use crate::chi_square::ChiSquare;
use crate::error::AgingError;
use senesce_core::Bytes;

/// Returns candidate numbers of operations, of which the plan uses the one closest to its limit. It is a single one
/// unless no tried length creates exactly the requested bytes.
pub(super) fn operations(draft: &Draft<'_>) -> Result<Vec<u64>, AgingError> {
    let files = draft.sizes.total_files;
    match draft.spec.limit {
        Limit::Bound => Ok(vec![at_bound(draft)]),
        Limit::Operations(0) | Limit::AtMost { operations: 0, .. } => {
            Err(AgingError::Plan("the limit is 0 operations; it must be at least 1".into()))
        }
        Limit::Operations(most) if most <= files => Ok(vec![most]),
        Limit::Operations(most) => Ok(vec![most - (most - files) % 2]),
        Limit::Overwrites(times) => for_overwrites(draft, times, None),
        Limit::AtMost { overwrites, operations } => for_overwrites(draft, overwrites, Some(operations)),
        Limit::Confidence(p) => Ok(vec![for_confidence(draft, p)?]),
    }
}

fn at_bound(draft: &Draft<'_>) -> u64 {
    let shares: Vec<f64> = draft.ages.iter().map(|bin| bin.share).collect();
    let files = draft.sizes.total_files;
    schedule::operations_at_bound(&draft.ages, files, &apportion(&shares, files))
}

pub(super) const MOST_STEPS: u64 = 1 << 46;

/// Converts `times` the capacity to bytes. Refuses non-positive numbers, and values beyond any plan whose pairs create
/// `mean_pair` bytes.
pub(super) fn target_bytes(times: f64, capacity: Bytes, mean_pair: f64) -> Result<f64, AgingError> {
    let most = MOST_STEPS as f64 * mean_pair / capacity.0 as f64;
    if times > 0.0 && times < most {
        return Ok(times * capacity.0 as f64);
    }
    Err(AgingError::Plan(format!("{times} overwrites cannot be planned; give a number above 0 and below {most:.0}")))
}

/// Returns the lengths whose created bytes are closest to `times` the capacity; with the maximum `most` of operations,
/// the longest one with no more bytes.
fn for_overwrites(draft: &Draft<'_>, times: f64, most: Option<u64>) -> Result<Vec<u64>, AgingError> {
    let files = draft.sizes.total_files;
    let mean_pair: f64 = draft.classes.iter().map(|class| class.churn * class.allocated).sum();
    let target = target_bytes(times, draft.spec.capacity, mean_pair)?;
    let mean_file = draft.sizes.bytes / files as f64;
    let fills = target > draft.sizes.bytes;
    let first = match fills {
        true => files + ((target - draft.sizes.bytes) / mean_pair).round() as u64,
        false => (target / mean_file) as u64,
    };
    let longest = most.map_or(MOST_STEPS, |most| steps(most, files)).min(MOST_STEPS);
    // A plan that fills the volume creates more than it holds.
    let shortest = if fills && most.is_none() { files } else { 1 };
    let search = Search { target, at_most: most.is_some(), range: (shortest.min(longest), longest) };
    let mean = |steps: u64| if steps < files { mean_file } else { mean_pair };
    let bytes = |steps: u64| Ok(bytes_created(&draft.classes, &draft.segments(operations_of(steps, files))?.0));
    let found = search.lengths(first, mean, bytes)?;
    if found.is_empty() {
        return Err(AgingError::Plan(format!("{times} overwrites are less than one file; raise the limit")));
    }
    Ok(found.into_iter().map(|steps| operations_of(steps, files)).collect())
}

pub(super) fn steps(operations: u64, filled: u64) -> u64 {
    operations.min(filled) + operations.saturating_sub(filled) / 2
}

pub(super) fn operations_of(steps: u64, filled: u64) -> u64 {
    steps.min(filled) + 2 * steps.saturating_sub(filled)
}

/// Exchanges single pairs between classes (single creates if the plan ends during the fill) until the created bytes are as
/// close to a limit of overwrites as whole files allow. A fill creates no more files of a class than it has `room` for.
/// `before` bytes precede these segments. Returns the remaining deviation in bytes.
pub(super) fn settle_bytes(
    classes: &[Class],
    room: &[u64],
    (target, at_most): (f64, bool),
    before: f64,
    segments: &mut [Segment],
) -> f64 {
    let mut excess = before + bytes_created(classes, segments) - target;
    let pairs = |segment: &Segment| segment.deletes == segment.creates;
    let filling = !segments.iter().any(pairs);
    let creates: u64 = segments.iter().flat_map(|segment| &segment.creates).sum();
    if filling && creates >= room.iter().sum::<u64>() {
        return excess.abs();
    }
    let longest = segments.iter_mut().filter(|segment| filling || pairs(segment)).max_by_key(|segment| segment.len());
    let Some(segment) = longest else { return excess.abs() };
    for _ in 0..10_000 {
        let spare = |class: &usize| segment.creates[*class] > segment.stay[*class].max(1);
        let used = |class: &usize| {
            let creates = segment.creates[*class];
            creates > 0 && (!filling || creates < room[*class])
        };
        let change = |more: usize, less: usize| classes[more].allocated - classes[less].allocated;
        let candidates = (0..classes.len()).filter(used);
        let exchanges = candidates.flat_map(|more| (0..classes.len()).filter(spare).map(move |less| (more, less)));
        let after = |pair: &(usize, usize)| excess + change(pair.0, pair.1);
        let allowed = exchanges.filter(|pair| !at_most || after(pair) <= 0.0);
        let Some(best) = allowed.min_by(|a, b| after(a).abs().total_cmp(&after(b).abs())) else { break };
        if after(&best).abs() >= excess.abs() {
            break;
        }
        excess += change(best.0, best.1);
        segment.creates[best.0] += 1;
        segment.creates[best.1] -= 1;
        if !filling {
            segment.deletes.clone_from(&segment.creates);
        }
    }
    excess.abs()
}

pub(super) fn bytes_created(classes: &[Class], segments: &[Segment]) -> f64 {
    let of = |segment: &Segment| -> f64 {
        segment.creates.iter().zip(classes).map(|(count, class)| *count as f64 * class.allocated).sum()
    };
    segments.iter().map(of).sum()
}

/// Returns whether files of each age bin, oldest first, pass the test of live files. It starts at the youngest bin,
/// because the pooling of bins depends on the start.
pub(super) fn ages_pass(files: &[u64], shares: &[f64], p: f64) -> bool {
    let files: Vec<u64> = files.iter().rev().copied().collect();
    let shares: Vec<f64> = shares.iter().rev().copied().collect();
    ChiSquare::new(&files, &shares).p >= p
}

/// Returns the first multiple of K/10 operations at which the reachable ages pass the test; sizes and depths do at any
/// length.
fn for_confidence(draft: &Draft<'_>, p: f64) -> Result<u64, AgingError> {
    if !(p > 0.0 && p < 1.0) {
        return Err(AgingError::Plan(format!("confidence is {p}; it must be above 0 and below 1")));
    }
    let files = draft.sizes.total_files;
    let step = (files / 10).next_multiple_of(2).max(2);
    let shares: Vec<f64> = draft.ages.iter().map(|bin| bin.share).collect();
    let passes = |steps: u64| {
        let spans = schedule::spans(&draft.ages, files + steps * step, files);
        let most: Vec<u64> = spans.iter().map(Span::capacity).collect();
        schedule::stayers(&draft.ages, &most, files).is_some_and(|stay| ages_pass(&stay, &shares, p))
    };
    let (mut low, mut high) = (0, at_bound(draft).saturating_sub(files).div_ceil(step));
    while low < high {
        let middle = low + (high - low) / 2;
        if passes(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(files + low * step)
}
