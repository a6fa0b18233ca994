//! Counts of changes between create and delete, and how many are expected from a plan.

use super::{BLOCK, Class, PlanSpec};
use crate::profile::{ChangeRow, ROUNDING};
use serde::{Deserialize, Serialize};

/// Changes by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCounts {
    /// Times a file grew.
    pub appends: u64,
    /// Times a file was truncated.
    pub truncations: u64,
    /// Times a part of a file was overwritten.
    pub overwrites: u64,
    /// Times a file was renamed.
    pub renames: u64,
    /// Times a part of a file was freed and written again.
    #[serde(default)]
    pub punches: u64,
    /// Bytes by which files grew.
    pub bytes_appended: u64,
    /// Bytes that were truncated.
    pub bytes_truncated: u64,
    /// Bytes that were overwritten.
    pub bytes_overwritten: u64,
    /// Bytes that were freed and written again.
    #[serde(default)]
    pub bytes_punched: u64,
}

impl ChangeCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.appends += other.appends;
        self.truncations += other.truncations;
        self.overwrites += other.overwrites;
        self.renames += other.renames;
        self.bytes_appended += other.bytes_appended;
        self.bytes_truncated += other.bytes_truncated;
        self.bytes_overwritten += other.bytes_overwritten;
        self.punches += other.punches;
        self.bytes_punched += other.bytes_punched;
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        self.appends -= other.appends;
        self.truncations -= other.truncations;
        self.overwrites -= other.overwrites;
        self.renames -= other.renames;
        self.bytes_appended -= other.bytes_appended;
        self.bytes_truncated -= other.bytes_truncated;
        self.bytes_overwritten -= other.bytes_overwritten;
        self.punches -= other.punches;
        self.bytes_punched -= other.bytes_punched;
    }

    pub fn all(&self) -> u64 {
        self.appends + self.truncations + self.overwrites + self.renames + self.punches
    }
}

/// Maximum share of the volume by which all files with pending changes may be smaller, or larger, than planned.
pub(crate) const UNDER_WAY: f64 = 0.01;
const PART_OF_ONE_FILE: u64 = 4;
pub(crate) const OVERWRITTEN_BLOCKS: u64 = 256;

/// Returns the maximum number of blocks by which one pending file may differ from its planned size.
pub(crate) fn blocks_of_one_file(budget: u64) -> u64 {
    budget / PART_OF_ONE_FILE / BLOCK
}

/// Computes the expected changes of `created` files of each class, with the maximum bytes that they can take.
pub(crate) fn expected_changes(spec: &PlanSpec, classes: &[Class], created: &[u64]) -> ChangeCounts {
    let most = blocks_of_one_file((UNDER_WAY * spec.capacity.0 as f64) as u64);
    let mut all = ChangeCounts::default();
    for (class, created) in classes.iter().zip(created) {
        let size = class.high as u64;
        let Some(row) = ChangeRow::of(&spec.profile.changes, size) else { continue };
        let [appends, truncations, overwrites, renames, punches] =
            row.rates().map(|rate| (rate * *created as f64).ceil());
        // A file that is changed several times may grow, or be cut, from one extreme to the other.
        let several = row.rates().iter().sum::<f64>() > 1.0 + ROUNDING;
        let moved = |blocks: u64| if several { (blocks + most).min(2 * most) } else { blocks.min(most) };
        let largest = if several { blocks(size) + most } else { blocks(size) };
        // In floating point, because the products of impossible plans may overflow.
        let bytes = |count: f64, blocks: u64| (count * (blocks * BLOCK) as f64) as u64;
        all.add(&ChangeCounts {
            appends: appends as u64,
            truncations: truncations as u64,
            overwrites: overwrites as u64,
            renames: renames as u64,
            bytes_appended: bytes(appends, moved(blocks(size))),
            bytes_truncated: bytes(truncations, moved(blocks(size).max(1))),
            bytes_overwritten: bytes(overwrites, largest.min(OVERWRITTEN_BLOCKS)),
            punches: punches as u64,
            bytes_punched: bytes(punches, largest.min(OVERWRITTEN_BLOCKS)),
        });
    }
    all
}

pub(crate) fn blocks(size: u64) -> u64 {
    size.div_ceil(BLOCK)
}
