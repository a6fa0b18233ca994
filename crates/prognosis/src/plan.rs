//! The fewest files worth moving.
//!
//! Reading is a sum over files, and moving one changes little for the others, so the best plan takes the files in the order of
//! seconds gained per byte moved (the greedy order of the fractional knapsack).

use crate::reading::Cost;
use senesce_layout::FileRuns;
use serde::{Deserialize, Serialize};

/// Shares of the whole gain at which the plan is told.
pub const SHARES: [f64; 6] = [0.25, 0.5, 0.75, 0.9, 0.95, 1.0];

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

/// Files worth moving, best first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Indices of files.
    pub files: Vec<u32>,
    /// What the first so many bring.
    pub steps: Vec<Step>,
}

/// From what reading each file costs before and after it is moved. Files that gain nothing are left out.
pub fn plan(files: &FileRuns, before: &Cost, after: &Cost) -> Plan {
    let bytes = |file: u32| files.of(file as usize).iter().map(|run| run.length).sum::<u64>().max(1);
    let gain = |file: u32| before.file_ns[file as usize].saturating_sub(after.file_ns[file as usize]);
    let moved = |file: &u32| files.of(*file as usize).len() > 1 && gain(*file) > 0;
    let mut order: Vec<u32> = (0..files.len() as u32).filter(moved).collect();
    // Cross-multiplied, so that no rounding decides; equal ones stay in the order of reading.
    order.sort_by_key(|file| std::cmp::Reverse((u128::from(gain(*file)) << 64) / u128::from(bytes(*file))));
    let whole: u64 = order.iter().map(|file| gain(*file)).sum();
    let mut steps = Vec::new();
    let (mut sum, mut moved_bytes) = (0u64, 0u64);
    for (count, file) in order.iter().enumerate() {
        sum += gain(*file);
        moved_bytes += bytes(*file);
        while let Some(share) = SHARES.get(steps.len()).filter(|share| sum as f64 >= **share * whole as f64) {
            let (files, seconds) = (count as u64 + 1, sum as f64 * 1e-9);
            steps.push(Step { share_of_gain: *share, bytes: moved_bytes, files, seconds });
        }
    }
    Plan { files: order, steps }
}
