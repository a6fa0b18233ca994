//! What is acted on. The only room that may write to devices; everything destructive starts with a claim made here.

pub mod claim;

pub use claim::{ClaimedDirectory, TargetError};
