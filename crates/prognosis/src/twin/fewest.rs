//! How few files bring most of what the whole tool gains, found by trial.
//!
//! What one file gains when all are moved it does not always gain with some: free space differs, and so do its neighbours. So the
//! sums over files only say where to look; what counts is what came of moving them.

use super::Executed;
use super::cure::moved_bytes_of;
use crate::error::PrognosisError;
use crate::estimate::Seen;
use crate::plan::{self, Move};

/// The share of the tool's gain that is enough.
const ENOUGH: f64 = 0.88;
/// Trials at most, but for the last resort.
pub(super) const TRIALS: u32 = 5;
/// Bounds this near to one another, as a share of the bytes of the whole, are not halved further.
const NEAR: f64 = 0.02;

/// One pass of the tool over everything.
pub(super) struct Whole {
    before_seconds: f64,
    after_seconds: f64,
    bytes: u64,
    /// What it moved, best first.
    moves: Vec<Move>,
}

/// So many of the first moves, and the share of the gain that they bring.
#[derive(Clone, Copy)]
struct Bound {
    files: usize,
    sum_share: f64,
    share: f64,
}

impl Whole {
    pub(super) fn of(before: &Seen, after: &Seen) -> Self {
        let files = 0..before.files.len().min(after.files.len());
        let one = |file| Move {
            file: file as u32,
            bytes: moved_bytes_of(&before.files, &after.files, file),
            gain_ns: before.gain_ns(&after.costs[0], file),
        };
        let moves: Vec<Move> = files.map(one).filter(|one| one.bytes > 0).collect();
        Self {
            before_seconds: before.costs[0].seconds,
            after_seconds: after.costs[0].seconds,
            bytes: moves.iter().map(|one| one.bytes).sum(),
            moves: plan::best_first(moves),
        }
    }

    /// Seconds of a full read.
    pub(super) fn gain(&self) -> f64 {
        self.before_seconds - self.after_seconds
    }

    pub(super) fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Tries more and fewer of the moves. `execute` carries them out on a new trial and gives the seconds of a full read then and the
    /// bytes that were written.
    pub(super) fn fewest(
        &self,
        mut execute: impl FnMut(&[Move]) -> Result<(f64, u64), PrognosisError>,
    ) -> Result<Executed, PrognosisError> {
        let mut few = Bound { files: 0, sum_share: 0.0, share: 0.0 };
        let mut many = Bound { files: self.moves.len(), sum_share: 1.0, share: 1.0 };
        let mut best: Option<Executed> = None;
        for _ in 0..TRIALS {
            let Some((files, sum_share)) = self.between(few, many) else { break };
            let found = self.executed(files, sum_share, execute(&self.moves[..files])?);
            let bound = Bound { files, sum_share, share: found.share_of_gain };
            if is_enough(&found) {
                many = bound;
                best = Some(found).into_iter().chain(best).min_by_key(|one| one.bytes_written);
            } else {
                few = bound;
            }
        }
        match best {
            Some(best) => Ok(best),
            None => Ok(self.executed(self.moves.len(), 1.0, execute(&self.moves)?)),
        }
    }

    /// Where the share is expected on a line between the bounds.
    fn between(&self, few: Bound, many: Bound) -> Option<(usize, f64)> {
        let slope = (ENOUGH - few.share) / (many.share - few.share).max(1e-9);
        let share = few.sum_share + slope.clamp(0.05, 0.95) * (many.sum_share - few.sum_share);
        let files = plan::enough(&self.moves, share).clamp(few.files + 1, many.files.max(few.files + 2) - 1);
        let bytes: u64 = self.moves[few.files..many.files].iter().map(|one| one.bytes).sum();
        let worth = files < many.files && bytes as f64 > NEAR * self.bytes as f64;
        worth.then_some((files, share))
    }

    fn executed(&self, files: usize, aimed_share: f64, (seconds_after, bytes_written): (f64, u64)) -> Executed {
        Executed {
            aimed_share,
            files: files as u64,
            bytes_written,
            seconds_after,
            share_of_gain: (self.before_seconds - seconds_after) / self.gain(),
            share_of_bytes: bytes_written as f64 / self.bytes.max(1) as f64,
        }
    }
}

fn is_enough(found: &Executed) -> bool {
    found.share_of_gain >= ENOUGH && found.share_of_bytes <= 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hundred files of 1 MiB; the first gain most. All together gain 5.05 s of 10 s.
    fn whole() -> Whole {
        let moves =
            (0..100).map(|file| Move { file, bytes: 1 << 20, gain_ns: i64::from(100 - file) * 1_000_000 }).collect();
        Whole { before_seconds: 10.0, after_seconds: 10.0 - 5.05, bytes: 100 << 20, moves }
    }

    fn sums(moves: &[Move]) -> (f64, u64) {
        let gain = moves.iter().map(|one| one.gain_ns).sum::<i64>() as f64 * 1e-9;
        (gain, moves.iter().map(|one| one.bytes).sum())
    }

    #[test]
    fn it_moves_no_more_than_is_needed() {
        let mut trials = 0;
        let found = whole().fewest(|moves| {
            trials += 1;
            let (gain, bytes) = sums(moves);
            Ok((10.0 - gain, bytes))
        });
        let found = found.unwrap();
        // 66 files save 88 %.
        assert!((66..=68).contains(&found.files) && found.share_of_gain >= ENOUGH, "{found:?}");
        assert!(trials <= TRIALS, "{trials}");
    }

    #[test]
    fn it_moves_more_where_the_sum_promised_too_much() {
        let found = whole().fewest(|moves| {
            let (gain, bytes) = sums(moves);
            Ok((10.0 - gain * gain / 5.05, bytes))
        });
        let found = found.unwrap();
        // Their sum has to be 93.8 % for that: 76 files.
        assert!((76..=80).contains(&found.files) && found.share_of_gain >= ENOUGH, "{found:?}");
    }

    #[test]
    fn it_falls_back_to_all_that_the_tool_moved_and_never_writes_more_than_it() {
        let some_gain_nothing = |moves: &[Move]| {
            let (gain, bytes) = sums(moves);
            Ok((if moves.len() < 100 { 10.0 } else { 10.0 - gain }, bytes))
        };
        assert_eq!(whole().fewest(some_gain_nothing).unwrap().files, 100);
        let some_write_more = |moves: &[Move]| {
            let (gain, bytes) = sums(moves);
            Ok((10.0 - gain, if moves.len() < 100 { 101 << 20 } else { bytes }))
        };
        assert_eq!(whole().fewest(some_write_more).unwrap().files, 100);
    }
}
