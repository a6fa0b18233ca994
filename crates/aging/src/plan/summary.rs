//! Totals of a plan.

use super::{ChangeCounts, Clock, Truncated};
use senesce_core::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Totals of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the profile.
    pub profile: String,
    /// Declared size of the volume.
    pub capacity: Bytes,
    /// Target fullness.
    pub fullness: f64,
    /// Files in the filled volume (K).
    pub files: u64,
    /// Minimum number of operations that reaches the age histogram.
    pub t_bound: f64,
    /// Operations of this plan.
    pub t_end: u64,
    /// Operations that the plan represents: `t_end`, unless it is compressed. Ages are relative to these.
    #[serde(default)]
    pub virtual_t: u64,
    /// Creates of this plan.
    pub creates: u64,
    /// Deletes of this plan.
    pub deletes: u64,
    /// Bytes that the plan creates, in whole blocks.
    pub bytes_created: Bytes,
    /// `bytes_created` over `capacity`.
    pub overwrites: f64,
    /// Allocated bytes of the live files at the end.
    pub bytes_live: Bytes,
    /// Maximum number of files alive at once.
    pub files_at_most: u64,
    /// Directories, including the top.
    pub directories: u32,
    /// Size bins that cannot fit, dropped or clamped.
    pub truncated: Vec<Truncated>,
    /// Size bins of the profile that round to zero files on this volume.
    pub empty_sizes: Vec<Bytes>,
    /// Depths of the profile that round to zero files on this volume.
    pub empty_depths: Vec<u32>,
    /// Age bins (right edges) of the profile that round to zero files on this volume.
    pub empty_ages: Vec<f64>,
    /// Whether the plan is too short to reach the age histogram exactly.
    pub below_bound: bool,
    /// When the file system must commit.
    pub clock: Clock,
    /// Temporal locality, if the plan has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locality: Option<PlannedLocality>,
    /// Whether files are changed between create and delete.
    #[serde(default)]
    pub changes: bool,
    /// Whether some of the changes overwrite files in place.
    #[serde(default)]
    pub rewrites: bool,
    /// Expected changes by the rates, with the maximum bytes that they can append, truncate and overwrite.
    #[serde(default)]
    pub changes_expected: ChangeCounts,
    /// Largest file, in whole blocks.
    #[serde(default)]
    pub largest_file: Bytes,
    /// Parts of the plan; all values are totals over the parts.
    #[serde(default = "one")]
    pub parts: u32,
}

/// A requested temporal locality and the maximum that the directories allow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlannedLocality {
    /// As the profile or the user requests.
    pub asked: f64,
    /// Maximum with files spread evenly over the directories of each depth.
    pub most: f64,
}

impl PlannedLocality {
    fn is_limited(self) -> bool {
        self.asked > self.most + Self::ROUNDING
    }

    /// Difference that the text does not show.
    const ROUNDING: f64 = 0.005;

    /// Returns a warning if the directories allow less than requested.
    pub fn limited(self) -> Option<String> {
        self.is_limited().then(|| {
            format!(
                "temporal locality {} was requested; each directory of this plan has too few files for more than {:.2}",
                self.asked, self.most
            )
        })
    }
}

impl fmt::Display for PlannedLocality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "requested: {}", self.asked)?;
        if self.is_limited() { write!(f, "; the directories allow {:.2}", self.most) } else { Ok(()) }
    }
}

/// Memory of a planner per directory with temporal locality.
const NEIGHBOUR_BYTES: u64 = 24;

/// Memory of a planner per live file: a record of 12 bytes, half a byte for sorting files piece by piece, rounding of
/// allocations, and a directory with many files.
const PLANNER_BYTES_PER_FILE: u64 = 14;

fn one() -> u32 {
    1
}

impl Summary {
    pub fn of_parts(parts: &[Self]) -> Option<Self> {
        let sum = |pick: fn(&Self) -> u64| parts.iter().map(pick).sum::<u64>();
        let first = parts.first()?;
        if parts.len() == 1 {
            return Some(first.clone());
        }
        let mut changes_expected = ChangeCounts::default();
        parts.iter().for_each(|part| changes_expected.add(&part.changes_expected));
        let (capacity, created) = (sum(|part| part.capacity.0), sum(|part| part.bytes_created.0));
        Some(Self {
            capacity: Bytes(capacity),
            files: sum(|part| part.files),
            t_bound: parts.iter().map(|part| part.t_bound).sum(),
            t_end: sum(|part| part.t_end),
            virtual_t: sum(|part| part.virtual_t),
            creates: sum(|part| part.creates),
            deletes: sum(|part| part.deletes),
            bytes_created: Bytes(created),
            overwrites: created as f64 / capacity as f64,
            bytes_live: Bytes(sum(|part| part.bytes_live.0)),
            files_at_most: sum(|part| part.files_at_most),
            // The directory that holds the parts belongs to none of them.
            directories: parts.iter().map(|part| part.directories).sum::<u32>() + 1,
            below_bound: parts.iter().any(|part| part.below_bound),
            changes_expected,
            parts: parts.len() as u32,
            ..first.clone()
        })
    }

    /// Returns the ratio of represented to executed operations.
    pub fn saved_factor(&self) -> f64 {
        self.virtual_t as f64 / self.t_end.max(1) as f64
    }

    /// Returns the maximum RMSE caused by rounding to whole files: 0.5 / K with the K files of a part.
    pub fn rounding_bound(&self) -> f64 {
        0.5 * f64::from(self.parts) / self.files.max(1) as f64
    }

    /// Returns an upper bound of the memory of the planners of this plan, or of `parts` of its parts.
    pub fn planner_bytes(&self, parts: u32) -> Bytes {
        let files = self.files_at_most.div_ceil(u64::from(self.parts.max(1))) * u64::from(parts);
        let neighbours = self.locality.map_or(0, |_| NEIGHBOUR_BYTES * u64::from(self.directories));
        Bytes(files * PLANNER_BYTES_PER_FILE + neighbours)
    }
}
