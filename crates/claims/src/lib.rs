//! Claims of the literature as data, and the engine that decides them on what a run measured.
//!
//! A claim stands in `data/published/EXPERIMENT.claims.toml`: a sentence, its source, what was published, and the rule that
//! decides it. [`decide()`] judges every claim of a [`ClaimSet`] on the [`senesce_core::Measurement`]s of a run and gives one
//! [`senesce_core::Finding`] each: seen, not seen, undecided, not testable here, and for what a simulator was fitted to or
//! told: model agrees, model differs.

pub mod claim;
pub mod contrast;
pub mod decide;
mod judge;
pub mod row;
pub mod rule;
pub mod sample;
pub mod selection;
pub mod text;
mod truth;

pub use claim::{Claim, ClaimSet, ClaimsError, Control, Published, Source, SourceKind, Work};
pub use decide::{Facts, Judgement, decide, judge, untested};
pub use rule::{Bounds, Holds, Rule, Shape};
pub use selection::{Condition, Pattern, Selection};
