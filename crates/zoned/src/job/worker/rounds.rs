//! Rounds of zone commands: preparation of a zone, measurement, cleanup.

use super::super::spec::Activity;
use super::{InFlight, OwnZone, Phase, Worker, WorkerRequest};
use crate::command::{Completion, Operation};

/// Request size while a zone is filled before a reset or finish.
const FILL_BYTES: u32 = 128 << 10;

impl Worker {
    pub(super) fn manage(&mut self) -> WorkerRequest {
        if self.busy() {
            return WorkerRequest::WaitForCompletion;
        }
        let place = self.places[self.at];
        match self.phase {
            Phase::Wrap => self.submit(Operation::Reset, place.zone, 0, 0, false),
            Phase::Preset => self.begin_round(place),
            Phase::FillOpen => self.submit(Operation::Open, place.zone, 0, 0, false),
            Phase::Fill(done) => self.fill(place, done),
            Phase::Round(step) => self.round(place, step),
            Phase::Flow | Phase::Ended => WorkerRequest::Finished,
        }
    }

    fn begin_round(&mut self, place: OwnZone) -> WorkerRequest {
        match self.actor.occupancy_blocks {
            None => {
                self.phase = Phase::Round(0);
                self.round(place, 0)
            }
            Some(blocks) if !self.preset_refused => WorkerRequest::Preset(place.zone, Some(blocks)),
            Some(_) => {
                self.phase = Phase::FillOpen;
                self.submit(Operation::Open, place.zone, 0, 0, false)
            }
        }
    }

    /// Processes the result of [`WorkerRequest::Preset`].
    pub(crate) fn preset_done(&mut self, done: bool) {
        if done {
            self.phase = Phase::Round(0);
            if let Some(place) = self.places.get_mut(self.at) {
                place.pointer = self.actor.occupancy_blocks.unwrap_or(0).min(self.capacity);
            }
        } else {
            self.preset_refused = true;
        }
    }

    fn fill(&mut self, place: OwnZone, done: u64) -> WorkerRequest {
        let left = self.actor.occupancy_blocks.unwrap_or(0).saturating_sub(done);
        if left == 0 {
            self.phase = Phase::Round(0);
            return self.round(place, 0);
        }
        let blocks = left.min(u64::from((FILL_BYTES.min(self.transfer_limit) / self.block_bytes).max(1)));
        self.submit(Operation::Write, place.zone, done, blocks as u32, false)
    }

    /// Commands of one round: the measured ones, then those that prepare the next round.
    fn round(&mut self, place: OwnZone, step: u8) -> WorkerRequest {
        let zone = place.zone;
        let blocks = self.actor.blocks;
        match (self.actor.spec.op, step) {
            (Activity::Reset, 0) => self.submit(Operation::Reset, zone, 0, 0, true),
            (Activity::Finish, 0) => self.submit(Operation::Finish, zone, 0, 0, true),
            (Activity::Finish, 1) => self.submit(Operation::Reset, zone, 0, 0, false),
            (Activity::OpenClose, 0) => self.submit(Operation::Open, zone, 0, 0, true),
            (Activity::OpenClose, 1) => self.submit(Operation::Write, zone, 0, blocks, false),
            (Activity::OpenClose, 2) => self.submit(Operation::Close, zone, 0, 0, false),
            (Activity::OpenClose, 3) => self.submit(Operation::Write, zone, u64::from(blocks), blocks, false),
            (Activity::OpenClose, 4) => self.submit(Operation::Reset, zone, 0, 0, false),
            _ => WorkerRequest::Finished,
        }
    }

    /// Updates the write pointer after a command of a round. Streams do so on submission.
    pub(super) fn keep_pointer(&mut self, done: &InFlight) {
        let (manages, capacity) = (self.actor.spec.op.manages(), self.capacity);
        let Some(place) = self.places.get_mut(self.at).filter(|place| place.zone == done.zone) else { return };
        match done.operation {
            Operation::Reset => place.pointer = 0,
            Operation::Finish => place.pointer = capacity,
            Operation::Write if manages => place.pointer += u64::from(done.blocks),
            _ => {}
        }
    }

    pub(super) fn advance(&mut self, done: &InFlight, completion: &Completion) {
        if self.phase == Phase::Ended || self.places.is_empty() {
            return;
        }
        if let Err(fault) = completion.result {
            if !fault.loses_zone() {
                self.next_round(completion.completed_ns);
            }
            return;
        }
        self.phase = match self.phase {
            Phase::Wrap if done.operation == Operation::Reset => {
                self.places[self.at] = OwnZone { pointer: 0, used: false, ..self.places[self.at] };
                Phase::Flow
            }
            Phase::FillOpen => Phase::Fill(0),
            Phase::Fill(written) => Phase::Fill(written + u64::from(done.blocks)),
            Phase::Round(step) => {
                let last = match self.actor.spec.op {
                    Activity::Reset => 0,
                    Activity::Finish => 1,
                    _ => 4,
                };
                if step >= last {
                    return self.next_round(completion.completed_ns);
                }
                Phase::Round(step + 1)
            }
            other => other,
        };
    }

    pub(super) fn next_round(&mut self, now_ns: u64) {
        if !self.actor.spec.op.manages() {
            self.phase = Phase::Flow;
            return;
        }
        self.phase = Phase::Preset;
        let rested = now_ns + self.actor.spec.pause.ns();
        self.next_due_ns = if self.gap_ns > 0 { self.next_due_ns.max(rested) } else { rested };
        self.at += 1;
        if self.at >= self.places.len() {
            self.at = 0;
            if self.actor.spec.ends_after_one_pass() {
                self.phase = Phase::Ended;
            }
        }
    }
}
