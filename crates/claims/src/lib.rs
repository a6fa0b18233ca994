//! Decides claims of the literature from the measurements of a run.
//!
//! A claim in `data/published/EXPERIMENT.claims.toml` has a sentence, its source, the published values and a rule. [`decide()`]
//! applies each rule of a [`ClaimSet`] to the [`senesce_core::Measurement`]s of a run and returns one [`senesce_core::Finding`]
//! per claim: supported, not supported, undecided or not testable. For claims that a simulator was fitted to, it is: model
//! agrees or model differs.

mod claim;
mod contrast;
pub mod decide;
mod holds;
mod judge;
mod limits;
mod listing;
mod missing;
pub mod row;
mod rule;
mod sample;
mod selection;
mod text;
mod truth;

pub use claim::{Claim, ClaimSet, Control, Possible, Work};
pub use decide::{Facts, Judgement, decide, judge, unjudged, untested};
pub use holds::ConditionScope;
pub use limits::Limits;
pub use rule::{Rule, TrendShape};
pub use selection::{Condition, Pattern, Selection};
