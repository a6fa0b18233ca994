//! Other processes of a run.

use std::any::Any;

/// Processes that take part in the same run.
pub trait Peers: Any {
    /// Returns whether the run has ended for all of them. The record already contains the reason.
    fn have_ended(&self) -> bool;
}
