//! Refused commands, and zones that a worker leaves.

use super::{InFlight, Phase, Worker};
use crate::command::{Operation, ZoneFault};
use crate::geometry::{ZoneInfo, ZoneState};

/// A worker gives up after this number of refused commands in a row.
const PATIENCE: u32 = 100;

/// Returns the fault of data commands in this state, if the zone is unusable for the rest of a run.
pub(super) fn fault_of(state: ZoneState) -> Option<ZoneFault> {
    match state {
        ZoneState::ReadOnly => Some(ZoneFault::ReadOnly),
        ZoneState::Offline => Some(ZoneFault::Offline),
        _ => None,
    }
}

impl Worker {
    /// Drops a lost zone. A writer also leaves a zone whose pointer is no longer known.
    #[cold]
    pub(super) fn refused(&mut self, done: &InFlight, completed_ns: u64, fault: ZoneFault) {
        self.give_back(done.counted, completed_ns);
        self.tally.refuse(fault);
        self.refused_in_a_row += 1;
        self.take_back(done);
        let reads_on = done.operation == Operation::Read && fault != ZoneFault::Offline;
        if fault.loses_zone() || !reads_on && done.operation.moves_data() {
            self.drop_zone(done.zone, fault);
        } else if !done.operation.moves_data() {
            self.doubtful = Some(done.zone);
        }
        if self.refused_in_a_row >= PATIENCE {
            self.phase = Phase::Ended;
        }
    }

    /// Undoes the pointer update of a refused command. Streams count blocks on submission; others in flight to that
    /// zone are completed or refused too.
    fn take_back(&mut self, done: &InFlight) {
        if self.actor.spec.op.manages() || !matches!(done.operation, Operation::Write | Operation::Append) {
            return;
        }
        let mut places = self.places.iter_mut().chain(&mut self.left);
        if let Some(place) = places.find(|place| place.zone == done.zone) {
            place.pointer = place.pointer.saturating_sub(done.blocks.into());
        }
    }

    /// Takes the zone whose state should be read: drives refuse zone commands in lost zones with the same fault as an
    /// invalid transition.
    pub(crate) fn doubtful_zone(&mut self) -> Option<u32> {
        self.doubtful.take()
    }

    /// Takes the drive's report of a zone with a refused command. Returns whether the zone is lost and was dropped.
    pub(crate) fn found(&mut self, info: &ZoneInfo) -> bool {
        let fault = fault_of(info.state);
        if let Some(fault) = fault {
            self.drop_zone(info.zone, fault);
        }
        fault.is_some()
    }

    fn drop_zone(&mut self, zone: u32, fault: ZoneFault) {
        let Some(index) = self.places.iter().position(|place| place.zone == zone) else { return };
        self.left.push(self.places.remove(index));
        self.tally.lost.push((zone, fault));
        if index < self.at {
            self.at -= 1;
        }
        let passed_last = self.at >= self.places.len();
        if passed_last {
            self.at = 0;
        }
        if self.actor.spec.op.manages() {
            self.next_after_loss(passed_last);
        } else if self.phase == Phase::Wrap {
            self.phase = Phase::Flow;
        }
        if self.stop_on_lost_zone && fault.loses_zone() {
            self.stopped = true;
            self.phase = Phase::Ended;
        }
    }

    fn next_after_loss(&mut self, passed_last: bool) {
        if passed_last && self.actor.spec.ends_after_one_pass() {
            self.phase = Phase::Ended;
        } else if self.phase != Phase::Ended {
            self.phase = Phase::Preset;
        }
    }
}
