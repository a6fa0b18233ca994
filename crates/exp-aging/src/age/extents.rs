//! The extents of the live files over the course of an aging, and when their number settles.

use super::events::ExtentSample;
use super::limits::Until;
use senesce_aging::Interleaved;
use senesce_core::Failure;
use senesce_layout::Layout;
use senesce_stats::steady::{STEADY_INTERVALS, is_steady};
use std::path::Path;
use std::time::Instant;

/// Overwrites between two counts. They follow from the plan, so that a seed always ends at the same operation.
const BETWEEN: f64 = 0.5;
/// If no limit needs counts, the next count waits this many times as long as the last one took.
const SHARE: u32 = 100;
/// Files with fewer extents beyond the first, in the mean, count as whole.
const WHOLE: f64 = 0.01;
/// Counts for which files must stay whole. Free space must fragment before files do, so a short aging proves nothing.
const WHOLE_COUNTS: usize = 20;

pub(super) struct ExtentSampler<'a> {
    root: &'a Path,
    until: Option<Until>,
    counted: u64,
    seen: Vec<ExtentSample>,
    not_before: Option<Instant>,
}

impl<'a> ExtentSampler<'a> {
    /// Continues after the counts of earlier parts of the run.
    pub(super) fn after(root: &'a Path, until: Option<Until>, seen: Vec<ExtentSample>) -> Self {
        let counted = seen.last().map_or(0, |seen| step(seen.overwrites));
        Self { root, until, counted, seen, not_before: None }
    }

    /// Returns a new count if the next one is due. Without a limit that needs counts, a file system that cannot report
    /// extents has none.
    pub(super) fn next_sample(
        &mut self,
        parts: &Interleaved<'_>,
        completed: u64,
    ) -> Result<Option<ExtentSample>, Failure> {
        let step = step(parts.overwrites());
        if step <= self.counted {
            return Ok(None);
        }
        let begun = Instant::now();
        if self.until.is_none() && self.not_before.is_some_and(|at| begun < at) {
            return Ok(None);
        }
        self.counted = step;
        let layout = match Layout::of(self.root) {
            Ok(layout) => layout,
            Err(_) if self.until.is_none() => {
                self.counted = u64::MAX;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        self.not_before = Instant::now().checked_add(begun.elapsed().saturating_mul(SHARE));
        let (files, extents) = (layout.files, layout.extents);
        let seen = ExtentSample { operations: completed, overwrites: parts.overwrites(), files, extents };
        self.seen.push(seen);
        Ok(Some(seen))
    }

    pub(super) fn has_settled(&self) -> bool {
        self.until == Some(Until::ExtentsSettle) && settled(&self.seen)
    }
}

fn step(overwrites: f64) -> u64 {
    (overwrites / BETWEEN) as u64
}

/// Returns whether the extents beyond the first of each file are steady over the last counts, or files have stayed
/// whole for long.
fn settled(seen: &[ExtentSample]) -> bool {
    let excess: Vec<f64> =
        seen.iter().map(|seen| seen.extents.saturating_sub(seen.files) as f64 / seen.files.max(1) as f64).collect();
    let last = |count: usize| excess.len().checked_sub(count).map(|start| &excess[start..]);
    let in_pieces = |last: &[f64]| last.iter().all(|excess| *excess >= WHOLE);
    last(STEADY_INTERVALS).is_some_and(|last| in_pieces(last) && is_steady(last))
        || last(WHOLE_COUNTS).is_some_and(|last| last.iter().all(|excess| *excess < WHOLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(extents: &[u64]) -> Vec<ExtentSample> {
        let of = |extents: &u64| ExtentSample { operations: 0, overwrites: 1.0, files: 1000, extents: *extents };
        extents.iter().map(of).collect()
    }

    #[test]
    fn extents_settle_if_counts_agree() {
        let (whole, plateau) = ([1003; 20], [&[1003; 19][..], &[1011, 1027, 1057]].concat());
        for (extents, expected) in [
            (&[1000, 1100, 1200, 1300, 1310, 1300, 1305, 1302][..], true),
            (&[1300, 1300, 1300, 1300], false),
            (&[1100, 1150, 1200, 1250, 1300], false),
            (&[1000, 1002, 1001, 1003, 1001], false),
            (&[1004; 5], false),
            (&whole, true),
            (&whole[1..], false),
            (&plateau, false),
            (&[1000, 1002, 1001, 1003, 1100], false),
        ] {
            assert_eq!(settled(&samples(extents)), expected, "{extents:?}");
        }
    }
}
