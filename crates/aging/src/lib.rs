//! Ages a file system to a profile: a distribution of files ([`Profile`]), the stream of creates and deletes that results in it
//! ([`AgingPlan`], [`Planner`]), and its execution on a mounted file system ([`execute()`]).
//!
//! The plan is pure: it depends only on profile, capacity, fullness, seed and options, never on the file system.

pub mod capture;
mod check;
mod chi_square;
mod error;
pub mod execute;
pub mod leftovers;
pub mod measure;
mod namespace;
pub mod overview;
pub mod parts;
pub mod plan;
pub mod planner;
pub mod profile;

pub use capture::{CaptureOptions, CapturedProfile, capture, capture_list, capture_since};
pub use check::{
    FileComparison, PartialReconciliation, Reconciliation, VerifyReport, clear, reconcile, verify, verify_top,
};
pub use error::AgingError;
pub use execute::{
    Data, DirectoryTarget, ExecuteOptions, ExecuteOutcome, NullTarget, Pace, Shard, Stop, WorkUnit, execute,
    execute_parts,
};
pub use leftovers::{Leftover, leftovers};
pub use measure::{Measures, Tally};
pub use parts::Interleaved;
pub use plan::{AgingPlan, ChangeCounts, Churn, Clock, CommitShare, Compression, Limit, PlanSpec, Summary, Truncate};
pub use planner::{Change, ChangeKind, File, Operation, OperationKind, Planner};
pub use profile::Profile;
