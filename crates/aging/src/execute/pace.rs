//! Staying in step with those that play other shards of the same plan, on this machine or another.

use super::Stop;

/// Decides when a round may begin. Positions are operations of the plan, counted from its beginning; all shards have the
/// same rounds.
pub trait Pace: Sync {
    /// Waits until the operations below `end` may be done, or says why they should not be begun.
    fn begin(&self, end: u64) -> Option<Stop>;

    /// Every operation of this shard below `position` is done.
    fn reached(&self, position: u64);

    /// Whether the other shards have done everything below `position`; to be asked when this one has.
    fn earlier_done(&self, position: u64) -> bool;
}

/// Nobody else plays.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Pace for Alone {
    fn begin(&self, _end: u64) -> Option<Stop> {
        None
    }

    fn reached(&self, _position: u64) {}

    fn earlier_done(&self, _position: u64) -> bool {
        true
    }
}
