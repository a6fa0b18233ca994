//! The other processes that take part in a run.

use std::any::Any;

/// Other processes that take part in the same run.
pub trait Peers: Any {
    /// Whether the run has ended for all of them. Its reason is in the record already.
    fn have_ended(&self) -> bool;
}
