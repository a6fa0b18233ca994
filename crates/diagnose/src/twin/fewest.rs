//! Finds by trial the fewest files that bring most of the tool's gain.
//!
//! The gain of a file may differ if only some files are moved, because free space differs. So the expectation of the
//! chain of files ([`super::chain`]) only guides the search; measured results decide.

use super::ExecutedPlan;
use super::chain::{Chain, ChosenFiles};
use crate::error::PrognosisError;
use crate::estimate::CostedLayout;
use crate::plan::Step;
use senesce_devmodel::DeviceModel;

/// The required share of the tool's gain.
const ENOUGH: f64 = 0.87;
/// The tool's gain varies a little between runs, so more is taken if it is cheap: up to this share of the gain for at
/// most `CHEAP` of the bytes.
const AMPLE: f64 = 0.95;
const CHEAP: f64 = 0.5;
const HALVINGS: u32 = 5;
pub(super) const TRIALS: u32 = 6;
/// Bounds this close to each other, as a share of the bytes of the whole, are not halved further.
const NEAR: f64 = 0.01;

pub(super) struct WholeTrial {
    before_seconds: f64,
    after_seconds: f64,
    chain: Chain,
    all: ChosenFiles,
    enough: f64,
}

/// A set of files: their bytes, and their measured share of the gain.
#[derive(Clone, Copy)]
struct Bound {
    bytes: u64,
    share: f64,
}

impl WholeTrial {
    pub(super) fn of(model: &DeviceModel, before: &CostedLayout, after: &CostedLayout) -> Self {
        Self::new(before.costs[0].seconds, after.costs[0].seconds, Chain::of(model, before, after))
    }

    fn new(before_seconds: f64, after_seconds: f64, chain: Chain) -> Self {
        let all = chain.whole();
        let cheap = |share: f64| chain.reaching(share).bytes as f64 <= CHEAP * all.bytes as f64;
        let (mut enough, mut high) = (ENOUGH, AMPLE);
        for _ in 0..HALVINGS {
            let share = (enough + high) / 2.0;
            *(if cheap(share) { &mut enough } else { &mut high }) = share;
        }
        Self { before_seconds, after_seconds, chain, all, enough }
    }

    pub(super) fn gain(&self) -> f64 {
        self.before_seconds - self.after_seconds
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        self.chain.steps()
    }

    /// Tries more and fewer files. `execute` moves them, in this order, on a new trial and returns the seconds of a
    /// full read then and the bytes that were written.
    pub(super) fn fewest(
        &self,
        mut execute: impl FnMut(&[u32]) -> Result<(f64, u64), PrognosisError>,
    ) -> Result<(ExecutedPlan, Vec<u32>), PrognosisError> {
        let mut few = Bound { bytes: 0, share: 0.0 };
        let mut many = Bound { bytes: self.all.bytes, share: 1.0 };
        let mut best: Option<(ExecutedPlan, Vec<u32>)> = None;
        for _ in 0..TRIALS {
            let Some(chosen) = self.between(few, many) else { break };
            let found = self.executed(&chosen, execute(&chosen.files)?);
            let bound = Bound { bytes: chosen.bytes, share: found.share_of_gain };
            if found.share_of_gain >= self.enough && found.share_of_bytes <= 1.0 {
                many = bound;
                let fewer = best.as_ref().is_none_or(|(best, _)| found.bytes_written < best.bytes_written);
                best = if fewer { Some((found, chosen.files)) } else { best };
            } else {
                few = bound;
            }
        }
        match best {
            Some(best) => Ok(best),
            None => Ok((self.executed(&self.all, execute(&self.all.files)?), self.all.files.clone())),
        }
    }

    fn between(&self, few: Bound, many: Bound) -> Option<ChosenFiles> {
        let width = many.bytes.saturating_sub(few.bytes) as f64;
        if width <= NEAR * self.all.bytes as f64 {
            return None;
        }
        let is_new = |chosen: &ChosenFiles| few.bytes < chosen.bytes && chosen.bytes < many.bytes;
        if few.bytes == 0 && many.bytes == self.all.bytes {
            return Some(self.chain.reaching(self.enough)).filter(is_new);
        }
        let slope = ((self.enough - few.share) / (many.share - few.share).max(1e-9)).clamp(0.05, 0.95);
        // A large file may not fit into a small increment.
        let parts = [1.0, 2.0, 4.0, 8.0].map(|times| (slope * times).min(0.95));
        parts.into_iter().map(|part| self.chain.within(few.bytes + (part * width) as u64)).find(is_new)
    }

    fn executed(&self, chosen: &ChosenFiles, (seconds_after, bytes_written): (f64, u64)) -> ExecutedPlan {
        ExecutedPlan {
            aimed_share: chosen.gain_ns as f64 / (self.all.gain_ns as f64).max(1.0),
            files: chosen.files.len() as u64,
            bytes_written,
            seconds_after,
            share_of_gain: (self.before_seconds - seconds_after) / self.gain(),
            share_of_bytes: bytes_written as f64 / self.all.bytes.max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::Link;
    use super::*;

    /// Returns a hundred files of 1 MiB; the first gain most. All together gain 5.05 s of 10 s.
    fn whole() -> WholeTrial {
        let link = |file: u32| {
            let moved = 100_000_000 - gain_ns(file);
            Link { file, bytes: 1 << 20, ns: [[100_000_000, moved]; 2] }
        };
        WholeTrial::new(10.0, 10.0 - 5.05, Chain::new((0..100).map(link).collect()))
    }

    fn gain_ns(file: u32) -> u64 {
        u64::from(100 - file) * 1_000_000
    }

    fn sums(files: &[u32]) -> (f64, u64) {
        let gain = files.iter().map(|file| gain_ns(*file)).sum::<u64>() as f64 * 1e-9;
        (gain, (files.len() as u64) << 20)
    }

    #[test]
    fn search_moves_no_more_than_needed() {
        let mut trials = 0;
        let found = whole().fewest(|files| {
            trials += 1;
            let (gain, bytes) = sums(files);
            Ok((10.0 - gain, bytes))
        });
        let (found, files) = found.unwrap();
        // 65 files save 87 %.
        assert!((65..=66).contains(&found.files) && found.share_of_gain >= ENOUGH, "{found:?}");
        assert!(trials <= TRIALS, "{trials}");
        assert_eq!(files, (0..found.files as u32).collect::<Vec<_>>());
    }

    #[test]
    fn cheap_additional_gain_is_taken() {
        let gain = |file: u32| if file < 10 { 9_000_000 } else { 111_111 };
        let link = |file: u32| Link { file, bytes: 1 << 20, ns: [[100_000_000, 100_000_000 - gain(file)]; 2] };
        let cheap = WholeTrial::new(10.0, 9.9, Chain::new((0..100).map(link).collect()));
        let found = cheap.fewest(|files| {
            let gained = files.iter().map(|file| gain(*file)).sum::<u64>() as f64 * 1e-9;
            Ok((10.0 - gained, (files.len() as u64) << 20))
        });
        let (found, _) = found.unwrap();
        assert!(found.share_of_gain > 0.94 && found.share_of_bytes <= CHEAP, "{found:?}");
        assert_eq!(whole().enough, ENOUGH);
    }

    #[test]
    fn search_moves_more_after_a_low_result() {
        let found = whole().fewest(|files| {
            let (gain, bytes) = sums(files);
            Ok((10.0 - gain * gain / 5.05, bytes))
        });
        let (found, _) = found.unwrap();
        // Their sum must be 93.3 % for that: 75 files.
        assert!((75..=76).contains(&found.files) && found.share_of_gain >= ENOUGH, "{found:?}");
    }

    /// Checks that files without an expected gain are moved before the last resort of moving everything.
    #[test]
    fn search_moves_files_without_expected_gain() {
        let gain = |file: u32| if file < 50 { 10_000_000 } else { 0 };
        let link = |file: u32| Link { file, bytes: 1 << 20, ns: [[100_000_000, 100_000_000 - gain(file)]; 2] };
        let whole = WholeTrial::new(10.0, 9.5, Chain::new((0..100).map(link).collect()));
        let found =
            whole.fewest(|files| Ok((10.0 - 0.5 * (files.len() as f64 / 80.0).min(1.0), (files.len() as u64) << 20)));
        let (found, _) = found.unwrap();
        assert!((70..=76).contains(&found.files), "{found:?}");
    }

    #[test]
    fn search_falls_back_to_the_whole_move() {
        let some_gain_nothing = |files: &[u32]| {
            let (gain, bytes) = sums(files);
            Ok((if files.len() < 100 { 10.0 } else { 10.0 - gain }, bytes))
        };
        assert_eq!(whole().fewest(some_gain_nothing).unwrap().0.files, 100);
        let some_write_more = |files: &[u32]| {
            let (gain, bytes) = sums(files);
            Ok((10.0 - gain, if files.len() < 100 { 101 << 20 } else { bytes }))
        };
        assert_eq!(whole().fewest(some_write_more).unwrap().0.files, 100);
    }
}
