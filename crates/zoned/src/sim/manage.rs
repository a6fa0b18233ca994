//! Zone commands of the simulated drive: the cost of open, close, finish and reset, and their effect on other commands.

use super::model::{ZoneModel, ns};
use super::{Operation, SimDevice};
use crate::command::Command;
use crate::geometry::ZoneState;
use crate::zone_table::Effect;

/// A finish without concurrent commands: one event instead of one per program.
#[derive(Debug, Clone, Copy)]
struct QuietFinish {
    slot: u32,
    started: u64,
    ends: u64,
    bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Manager {
    model: ZoneModel,
    reset_free: u64,
    quiet: Option<QuietFinish>,
    /// Slots of padding finishes.
    padding: Vec<u32>,
}

impl Manager {
    pub(crate) fn new(model: &ZoneModel) -> Self {
        Self { model: model.clone(), reset_free: 0, quiet: None, padding: Vec::new() }
    }
}

impl SimDevice {
    /// Starts a zone command that the state machine allowed. Its latency counts from `from`.
    pub(super) fn manage(&mut self, command: &Command, slot: u32, effect: Effect, from: u64) {
        let Some(manager) = &self.manager else { return };
        let spread = manager.model.spread;
        match command.operation {
            Operation::Open => {
                let time = self.noise.around(ns(manager.model.open_us), spread);
                self.complete_at(from + time, slot);
            }
            Operation::Close => {
                let time = self.noise.around(ns(manager.model.close_us), spread);
                self.complete_at(from + time, slot);
            }
            Operation::Reset => self.start_reset(command.zone, slot, effect, from),
            _ => self.start_finish(command.zone, slot, effect, from),
        }
    }

    fn written_4k(&self, effect: Effect) -> f64 {
        f64::from(effect.written_before) * f64::from(self.geometry.block_bytes) / 4096.0
    }

    fn start_reset(&mut self, zone: u32, slot: u32, effect: Effect, from: u64) {
        let written = self.written_4k(effect);
        let Some(manager) = &mut self.manager else { return };
        let crowding = self.flash.crowding(self.now, ns(manager.model.reset_settle_us));
        let model = &manager.model;
        if effect.before == Some(ZoneState::Empty) {
            let time = ns(model.reset_untouched_us);
            return self.complete_at(from + time, slot);
        }
        let partly = effect.before.is_some_and(ZoneState::is_active)
            && written * 4.0 >= f64::from(model.reset_open_from_kib).max(1.0);
        let mean = model.reset_us * 1000.0
            + written * model.reset_per_4k_ns
            + if partly { model.reset_open_us * 1000.0 } else { 0.0 };
        let stop = (written * model.reset_stops_programs_per_4k_ns) as u64;
        let slowed = mean * (1.0 + model.reset_slowdown_under_writes * crowding);
        let spread = model.spread;
        let start = from.max(manager.reset_free);
        let time = self.noise.around(slowed as u64, spread);
        manager.reset_free = start + time;
        self.placement.forget(zone, &mut self.flash);
        if written > 0.0 {
            self.flash.erase(start + time);
        }
        if stop > 0 {
            self.flash.stop_programs(self.now, stop, &mut self.events);
        }
        self.complete_at(start + time, slot);
    }

    fn start_finish(&mut self, zone: u32, slot: u32, effect: Effect, from: u64) {
        let capacity = self.geometry.capacity_bytes();
        let written = u64::from(effect.written_before) * u64::from(self.geometry.block_bytes);
        let rest = capacity - written.min(capacity);
        self.placement.forget(zone, &mut self.flash);
        let Some(manager) = &mut self.manager else { return };
        let model = &manager.model;
        if written == 0 || effect.before == Some(ZoneState::Full) {
            let time = self.noise.around(ns(model.finish_empty_us), model.spread);
            return self.complete_at(from + time, slot);
        }
        if rest <= u64::from(model.finish_tail_kib) << 10 {
            let slow = self.noise.chance(model.finish_tail_slow_share);
            let time = ns(if slow { model.finish_tail_slow_us } else { model.finish_tail_fast_us });
            let time = self.noise.around(time, model.spread / 10.0);
            return self.complete_at(from + time, slot);
        }
        manager.padding.push(slot);
        let idle = manager.padding.len() == 1 && self.flash.programming_share() == 0.0 && self.moving == 0;
        if !idle {
            self.disturb_finish();
            return self.flash.pad(self.now, slot, rest, &mut self.events);
        }
        let Some(manager) = &mut self.manager else { return };
        let padding = (rest as f64 / 4096.0 * manager.model.finish_per_4k_ns) as u64;
        let constant = self.noise.around(ns(manager.model.finish_us), manager.model.spread);
        let ends = from + constant + padding;
        manager.quiet = Some(QuietFinish { slot, started: from, ends, bytes: rest });
        self.complete_at(ends, slot);
    }

    /// Turns a quiet finish into padding when another command arrives: the padding competes with that command.
    #[inline]
    pub(super) fn disturb_finish(&mut self) {
        if self.manager.as_ref().is_some_and(|manager| manager.quiet.is_some()) {
            self.turn_into_padding();
        }
    }

    fn turn_into_padding(&mut self) {
        let Some(manager) = &mut self.manager else { return };
        let Some(quiet) = manager.quiet.take() else { return };
        if self.now >= quiet.ends {
            return;
        }
        let slot = &mut self.slots[quiet.slot as usize];
        slot.stamp = slot.stamp.wrapping_add(1);
        let passed = self.now.saturating_sub(quiet.started) as f64 / (quiet.ends - quiet.started).max(1) as f64;
        let left = ((1.0 - passed) * quiet.bytes as f64) as u64;
        self.flash.pad(self.now, quiet.slot, left, &mut self.events);
    }

    pub(super) fn end_padding(&mut self, slot: u32) {
        let Some(manager) = &self.manager else { return };
        let constant = ns(manager.model.finish_us);
        self.complete_at(self.now + constant, slot);
    }

    pub(super) fn end_finish(&mut self, slot: u32) {
        let Some(manager) = &mut self.manager else { return };
        manager.padding.retain(|owner| *owner != slot);
        if manager.quiet.is_some_and(|quiet| quiet.slot == slot) {
            manager.quiet = None;
        }
    }
}
