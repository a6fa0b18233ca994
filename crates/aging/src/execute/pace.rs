//! Keeps shards of the same plan in step, on this machine or others.

use super::Stop;

/// Decides when a round may start. Positions are operations of the plan from its start; all shards have the same rounds.
pub trait Pace: Sync {
    /// Waits until the operations below `end` may be executed; returns a stop if they should not.
    fn begin(&self, end: u64) -> Option<Stop>;

    /// Reports that every operation of this shard below `position` is done.
    fn reached(&self, position: u64);

    /// Returns whether the other shards have done everything below `position`; asked after this shard has.
    fn earlier_done(&self, position: u64) -> bool;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SingleRankPace;

impl Pace for SingleRankPace {
    fn begin(&self, _end: u64) -> Option<Stop> {
        None
    }

    fn reached(&self, _position: u64) {}

    fn earlier_done(&self, _position: u64) -> bool {
        true
    }
}
