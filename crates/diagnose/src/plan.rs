//! Finds the fewest files worth moving.
//!
//! The cost of reading is a sum over files, and moving one changes little for the others. So files are sorted by
//! seconds gained per byte moved (the greedy order of the fractional knapsack). A twin decides the length of that list
//! ([`crate::twin`]).

use serde::{Deserialize, Serialize};

pub(crate) const SHARES: [f64; 6] = [0.25, 0.5, 0.75, 0.9, 0.95, 1.0];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Move {
    pub file: u32,
    pub bytes: u64,
    /// Nanoseconds of one full read that it saves; negative if it costs some.
    pub gain_ns: i64,
}

/// A step of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Share of the gain of moving all of them.
    pub share_of_gain: f64,
    /// Bytes that are moved for it.
    pub bytes: u64,
    /// Files that are moved for it.
    pub files: u64,
    /// Seconds of one full read that it saves.
    pub seconds: f64,
}

/// Sorts moves by gain per byte, best first; stable.
pub(crate) fn best_first(mut moves: Vec<Move>) -> Vec<Move> {
    // In whole numbers, so that no rounding decides.
    let density = |one: &Move| (i128::from(one.gain_ns) << 63) / i128::from(one.bytes.max(1));
    moves.sort_by_key(|one| std::cmp::Reverse(density(one)));
    moves
}

/// Returns the number of first moves that reach this share of the total gain.
pub(crate) fn enough(moves: &[Move], share: f64) -> usize {
    let whole: i64 = moves.iter().map(|one| one.gain_ns.max(0)).sum();
    let mut sum = 0;
    let reached = |one: &Move| {
        sum += one.gain_ns.max(0);
        sum as f64 >= share * whole as f64
    };
    moves.iter().position(reached).map_or(moves.len(), |last| last + 1)
}

/// Splits the moves into steps. `moves` must be sorted best first.
pub(crate) fn steps(moves: &[Move]) -> Vec<Step> {
    if moves.first().is_none_or(|best| best.gain_ns <= 0) {
        return Vec::new();
    }
    let step = |share: f64| {
        let moved = &moves[..enough(moves, share)];
        Step {
            share_of_gain: share,
            bytes: moved.iter().map(|one| one.bytes).sum(),
            files: moved.len() as u64,
            seconds: moved.iter().map(|one| one.gain_ns).sum::<i64>() as f64 * 1e-9,
        }
    };
    SHARES.map(step).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(file: u32, bytes: u64, gain_ns: i64) -> Move {
        Move { file, bytes, gain_ns }
    }

    #[test]
    fn moves_are_sorted_by_gain_per_byte() {
        let moves = best_first(vec![one(0, 100, 100), one(1, 10, -5), one(2, 10, 50), one(3, 10, 50)]);
        assert_eq!(moves.iter().map(|one| one.file).collect::<Vec<_>>(), [2, 3, 0, 1]);
        assert_eq!([0.2, 0.25, 0.5, 0.51, 1.0].map(|share| enough(&moves, share)), [1, 1, 2, 3, 3]);
        let stated = steps(&moves);
        assert_eq!((stated[1].files, stated[1].bytes, stated[5].bytes), (2, 20, 120));
        assert!(steps(&best_first(vec![one(0, 10, 0), one(1, 10, -1)])).is_empty());
    }
}
