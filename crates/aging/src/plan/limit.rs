//! How long a plan is: to the bound, or to a limit that is known beforehand.

use super::Limit;
use super::build::{Draft, Segment};
use super::classes::Class;
use super::rounding::apportion;
use super::schedule::{self, Span};
use crate::error::AgingError;
use crate::measure::ChiSquare;

/// Number of operations of the plan.
pub(super) fn operations(draft: &Draft<'_>) -> Result<u64, AgingError> {
    let files = draft.sizes.total_files;
    match draft.spec.limit {
        Limit::Bound => Ok(at_bound(draft)),
        Limit::Operations(0) => Err(AgingError::Plan("a limit of 0 operations leaves nothing to do".into())),
        Limit::Operations(most) if most <= files => Ok(most),
        Limit::Operations(most) => Ok(most - (most - files) % 2),
        Limit::Overwrites(times) => for_overwrites(draft, times),
        Limit::Confidence(p) => for_confidence(draft, p),
    }
}

fn at_bound(draft: &Draft<'_>) -> u64 {
    let shares: Vec<f64> = draft.ages.iter().map(|bin| bin.share).collect();
    let files = draft.sizes.total_files;
    schedule::operations_at_bound(&draft.ages, files, &apportion(&shares, files))
}

/// The length at which the created bytes come nearest to `times` the capacity.
fn for_overwrites(draft: &Draft<'_>, times: f64) -> Result<u64, AgingError> {
    let files = draft.sizes.total_files;
    let target = times * draft.spec.capacity.0 as f64;
    let mean: f64 = draft.classes.iter().map(|class| class.churn * class.allocated).sum();
    if !(times > 0.0 && target / mean < (1u64 << 46) as f64) {
        return Err(AgingError::Plan(format!("{times} overwrites cannot be planned; give a number above 0")));
    }
    if target <= draft.sizes.bytes {
        return Ok(((target / draft.sizes.bytes * files as f64) as u64).clamp(1, files));
    }
    let mut pairs = ((target - draft.sizes.bytes) / mean).round().max(0.0);
    for _ in 0..16 {
        let created = bytes_created(&draft.classes, &draft.segments(files + 2 * pairs as u64)?.0);
        let step = ((target - created) / mean).round();
        if step == 0.0 {
            break;
        }
        pairs = (pairs + step).max(0.0);
    }
    Ok(files + 2 * pairs as u64)
}

/// Exchanges single pairs between classes (single creates, where the plan ends before the volume is filled) until the
/// created bytes are as near to `target` as whole files allow. `before` bytes were created before these segments.
pub(super) fn settle_bytes(classes: &[Class], target: f64, before: f64, segments: &mut [Segment]) {
    let mut excess = before + bytes_created(classes, segments) - target;
    let pairs = |segment: &Segment| segment.deletes == segment.creates;
    let filling = !segments.iter().any(pairs);
    let longest = segments.iter_mut().filter(|segment| filling || pairs(segment)).max_by_key(|segment| segment.len());
    let Some(segment) = longest else { return };
    for _ in 0..10_000 {
        let spare = |class: &usize| segment.creates[*class] > segment.stay[*class].max(1);
        let used = |class: &usize| {
            let creates = segment.creates[*class];
            creates > 0 && (!filling || creates < classes[*class].files)
        };
        let change = |more: usize, less: usize| classes[more].allocated - classes[less].allocated;
        let candidates = (0..classes.len()).filter(used);
        let exchanges = candidates.flat_map(|more| (0..classes.len()).filter(spare).map(move |less| (more, less)));
        let after = |pair: &(usize, usize)| (excess + change(pair.0, pair.1)).abs();
        let Some(best) = exchanges.min_by(|a, b| after(a).total_cmp(&after(b))) else { return };
        if after(&best) >= excess.abs() {
            return;
        }
        excess += change(best.0, best.1);
        segment.creates[best.0] += 1;
        segment.creates[best.1] -= 1;
        if !filling {
            segment.deletes.clone_from(&segment.creates);
        }
    }
}

/// Bytes in whole blocks that segments create.
pub(super) fn bytes_created(classes: &[Class], segments: &[Segment]) -> f64 {
    let of = |segment: &Segment| -> f64 {
        segment.creates.iter().zip(classes).map(|(count, class)| *count as f64 * class.allocated).sum()
    };
    segments.iter().map(of).sum()
}

/// The first multiple of K/10 operations at which the ages that can be reached pass the test; sizes and depths do at
/// any length.
fn for_confidence(draft: &Draft<'_>, p: f64) -> Result<u64, AgingError> {
    if !(p > 0.0 && p < 1.0) {
        return Err(AgingError::Plan(format!("confidence is {p}; it must lie between 0 and 1, both excluded")));
    }
    let files = draft.sizes.total_files;
    let step = (files / 10).next_multiple_of(2).max(2);
    let shares: Vec<f64> = draft.ages.iter().map(|bin| bin.share).collect();
    let passes = |steps: u64| {
        let spans = schedule::spans(&draft.ages, files + steps * step, files);
        let most: Vec<u64> = spans.iter().map(Span::capacity).collect();
        schedule::stayers(&draft.ages, &most, files).is_some_and(|stay| ChiSquare::new(&stay, &shares).p >= p)
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
