//! Makes a plan from a specification: all its numbers are decided before the first operation.

mod build;
mod changes;
mod classes;
mod clock;
mod compress;
mod counts;
pub(crate) mod directories;
mod limit;
mod locality;
mod replan;
mod rounding;
mod schedule;
mod search;
mod sizes;
mod summary;

pub use changes::ChangeCounts;
pub(crate) use changes::{OVERWRITTEN_BLOCKS, UNDER_WAY, blocks, blocks_of_one_file};
pub use clock::{Clock, CommitShare};
pub use compress::Compression;
pub(crate) use directories::DirectoryTree;
pub use directories::file_name;
pub(crate) use directories::{MOST_NAME_BYTES, NAME_BYTES, PADDING, RENAMED, padding};
pub use locality::Births;
pub use sizes::BLOCK;
pub(crate) use sizes::Truncated;
pub use summary::{PlannedLocality, Summary};

pub(crate) use build::Segment;
pub(crate) use classes::Class;
pub(crate) use clock::Ticks;
pub(crate) use compress::Timeline;
pub(crate) use locality::Bounds;
pub(crate) use replan::{State, Survivor, replan};
pub(crate) use rounding::apportion;
pub(crate) use schedule::AgeBin;

use crate::error::AgingError;
use crate::profile::Profile;
use changes::expected_changes;
use senesce_core::{Bytes, Seed};
use serde::{Deserialize, Serialize};

/// Used when neither the user nor the profile gives a fullness.
pub const DEFAULT_FULLNESS: f64 = 0.8;

#[derive(Debug, Clone, PartialEq)]
pub struct PlanSpec {
    pub profile: Profile,
    pub capacity: Bytes,
    /// Allocated bytes of files over `capacity`; `None`: the profile's own, else [`DEFAULT_FULLNESS`].
    pub fullness: Option<f64>,
    pub seed: Seed,
    pub churn: Churn,
    /// Temporal locality in [0, 1], at most what the directories allow; `None`: births do not depend on directories, and their
    /// locality is not measured.
    pub locality: Option<f64>,
    /// Whether sizes are drawn inside their bin, log-uniformly, instead of being the bin's own.
    pub spread_sizes: bool,
    pub truncate: Truncate,
    pub limit: Limit,
    pub clock: Clock,
    /// The executed share of each age class; `None`: everything. Only for [`Limit::Bound`].
    pub compression: Option<Compression>,
}

impl PlanSpec {
    pub fn new(profile: Profile, capacity: Bytes, seed: Seed) -> Self {
        Self {
            profile,
            capacity,
            fullness: None,
            seed,
            churn: Churn::Profile,
            locality: None,
            spread_sizes: false,
            truncate: Truncate::Refuse,
            limit: Limit::Bound,
            clock: Clock::default(),
            compression: None,
        }
    }
}

/// Sizes of the files that are deleted and created at constant fullness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Churn {
    /// Sizes with the frequencies of the profile.
    #[default]
    Profile,
    /// Every size bin equally often, the effective churn of Geriatrix.
    Bins,
}

/// How to handle size bins whose files do not fit the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Truncate {
    /// Refuse the plan.
    #[default]
    Refuse,
    /// Omit the files that do not fit.
    Drop,
    /// Add their share to the largest bin that fits.
    Clamp,
}

/// When a plan ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// At the minimum number of operations that reaches the age histogram exactly.
    #[default]
    Bound,
    /// When this many times the capacity has been created, as closely as whole files allow.
    Overwrites(f64),
    /// Before more than this many times the capacity is created, and after at most this number of operations.
    AtMost {
        /// Multiple of the capacity.
        overwrites: f64,
        operations: u64,
    },
    /// After this many operations (one fewer if the number of operations after the fill would be odd).
    Operations(u64),
    /// As soon as a chi-square test finds all three histograms with at least this p.
    Confidence(f64),
}

impl Limit {
    /// Returns the bytes that a volume of this capacity should have created in the end, and whether they are a maximum.
    /// Returns `None` without such a limit.
    pub(crate) fn bytes(self, capacity: Bytes) -> Option<(f64, bool)> {
        let (times, at_most) = match self {
            Self::Overwrites(times) => (times, false),
            Self::AtMost { overwrites, .. } => (overwrites, true),
            Self::Bound | Self::Operations(_) | Self::Confidence(_) => return None,
        };
        Some((times * capacity.0 as f64, at_most))
    }
}

/// A plan: pure data that always yields the same operations.
#[derive(Debug, Clone)]
pub struct AgingPlan {
    pub(crate) spec: PlanSpec,
    pub(crate) fullness: f64,
    pub(crate) classes: Vec<Class>,
    /// First class of files too large to be deleted from the filled volume within the band of fullness.
    pub(crate) large: usize,
    pub(crate) tree: DirectoryTree,
    pub(crate) size_rows: Vec<(usize, f64)>,
    pub(crate) depths: Vec<(u32, f64)>,
    pub(crate) ages: Vec<AgeBin>,
    pub(crate) timeline: Timeline,
    pub(crate) segments: Vec<Segment>,
    pub(crate) fill: u64,
    pub(crate) operations: u64,
    summary: Summary,
}

impl AgingPlan {
    /// Plans `spec` without I/O, at a cost independent of the number of files and operations.
    ///
    /// # Errors
    /// An inconsistent profile, a fullness outside (0, 1), sizes that cannot fit, a volume too small for the
    /// histograms, an impossible limit. Each error has the numbers and a remedy.
    pub fn new(spec: &PlanSpec) -> Result<Self, AgingError> {
        build::plan(spec)
    }

    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    pub fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    pub fn len(&self) -> u64 {
        self.operations
    }

    pub fn is_empty(&self) -> bool {
        self.operations == 0
    }

    pub fn directories(&self) -> &DirectoryTree {
        &self.tree
    }

    fn resummarise(&mut self, state: &State) {
        let (live, bytes_before) = (state.survivors.len() as u64, state.bytes_created);
        let count = |counts: &[u64]| counts.iter().sum::<u64>();
        let creates: u64 = self.segments.iter().map(|segment| count(&segment.creates)).sum();
        let deletes: u64 = self.segments.iter().map(|segment| count(&segment.deletes)).sum();
        let created = bytes_before + limit::bytes_created(&self.classes, &self.segments);
        let end = live + creates - deletes;
        self.summary.t_end = self.operations;
        self.summary.virtual_t = self.operations;
        self.summary.creates = (self.operations + end) / 2;
        self.summary.deletes = (self.operations - end) / 2;
        self.summary.bytes_created = Bytes(created as u64);
        self.summary.overwrites = created / self.spec.capacity.0 as f64;
        let created = build::creates(&self.segments, &state.created);
        self.summary.changes_expected = expected_changes(&self.spec, &self.classes, &created);
        self.summary.below_bound = (self.operations as f64) < self.summary.t_bound.floor();
    }

    /// Returns the rows of the profile's size histogram that fit the volume, with their target shares.
    pub(crate) fn size_rows(&self) -> &[(usize, f64)] {
        &self.size_rows
    }
}
