//! The simulated drive as a [`ZonedDevice`].

use super::events::EventKind;
use super::{QUEUES, SimDevice};
use crate::command::{Command, Completion, Operation, ZoneFault};
use crate::device::{Clock, ZonedDevice};
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo, ZoneState};
use crate::zone_table::Effect;

impl ZonedDevice for SimDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn clock(&self) -> Clock {
        Clock::Virtual
    }

    fn now_ns(&mut self) -> u64 {
        self.now
    }

    fn reserve(&mut self, commands: u32, _transfer_bytes: u32) -> Result<(), ZonedError> {
        self.slots.reserve(commands as usize);
        self.free.reserve(commands as usize);
        self.done.reserve(commands as usize);
        self.room.reserve(commands as usize);
        Ok(())
    }

    fn submit(&mut self, command: Command) -> Result<(), ZonedError> {
        let host = &mut self.host_free[usize::from(command.queue) % QUEUES];
        let start = self.now.max(*host);
        let submitted = start + self.timing.reap;
        *host = submitted + self.timing.submit;
        let (arrival, at_once) = (*host, start == self.now);
        let bytes = u64::from(command.blocks) * u64::from(self.geometry.block_bytes);
        let verdict = match self.limit_fault(&command, bytes) {
            Some(fault) => Err(fault),
            None => self.apply(&command),
        };
        let slot = self.take_slot(&command, bytes as u32, submitted);
        self.moving += u32::from(command.operation.moves_data());
        let delay = self.timing.delay.get(bytes as u32);
        let overhead = self.timing.reap + self.timing.submit + delay;
        let effect = match verdict {
            Ok(effect) => effect,
            Err(fault) => {
                self.slots[slot as usize].result = Err(fault);
                self.complete_at(start + overhead + self.timing.refusal, slot);
                return Ok(());
            }
        };
        self.slots[slot as usize].result = Ok(effect.block);
        if !command.operation.moves_data() {
            self.manage(&command, slot, effect, start + overhead);
            return Ok(());
        }
        self.disturb_finish();
        let reading = command.operation == Operation::Read;
        let extra = match (reading, effect.opened, effect.before) {
            (true, ..) => self.timing.read_fixed,
            (_, true, Some(ZoneState::Closed)) => self.timing.reopening,
            (_, true, _) if command.operation == Operation::Append => self.timing.append.opening,
            (_, true, _) => self.timing.write.opening,
            _ => 0,
        };
        if self.locks.is_empty() || reading {
            self.slots[slot as usize].behind = extra + overhead;
            if at_once {
                self.arrive(slot);
            } else {
                self.events.push(start, EventKind::Submit, slot, 0);
            }
        } else {
            // The lock merges writes by their arrival times, which include this delay.
            self.slots[slot as usize].behind = extra + delay;
            self.events.push(arrival, EventKind::Submit, slot, 0);
        }
        Ok(())
    }

    fn next(&mut self, until_ns: u64) -> Result<Option<Completion>, ZonedError> {
        loop {
            if let Some(completion) = self.done.pop_front() {
                return Ok(Some(completion));
            }
            let (event, departure) = (self.events.next_time(), self.controller.next_time());
            let release = if self.has_waiting_commands() { self.flash.next_release() } else { u64::MAX };
            let time = event.min(departure).min(release);
            if time > until_ns {
                self.now = self.now.max(until_ns);
                self.flash.release_before(self.now + 1);
                return Ok(None);
            }
            // At the same instant, departures come first and releases last.
            if event < departure && event <= release {
                if let Some(event) = self.events.pop() {
                    self.handle(event);
                }
            } else if departure <= release {
                if departure == u64::MAX {
                    return Err(ZonedError::Usage(
                        "nothing is in flight on the simulated drive and nothing is due".into(),
                    ));
                }
                self.depart();
            } else {
                self.release(release);
            }
        }
    }

    fn report(&mut self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZonedError> {
        let end = first.saturating_add(count).min(self.geometry.zones);
        Ok((first..end)
            .map(|zone| match &self.table {
                Some(table) => table.info(zone),
                None => None,
            })
            .enumerate()
            .map(|(index, info)| {
                info.unwrap_or(ZoneInfo {
                    zone: first + index as u32,
                    state: ZoneState::Conventional,
                    start: self.geometry.start(first + index as u32),
                    capacity: self.geometry.capacity_blocks,
                    pointer: 0,
                })
            })
            .collect())
    }

    fn presets(&self) -> bool {
        true
    }

    fn preset(&mut self, zone: u32, blocks: Option<u64>) -> Result<bool, ZonedError> {
        let Some(table) = &mut self.table else { return Ok(true) };
        let blocks_u32 = blocks.map(|blocks| blocks.min(u64::from(u32::MAX)) as u32);
        table.preset(zone, blocks_u32).map_err(|fault| ZonedError::Zone {
            operation: "preset",
            zone,
            fault,
            remedy: "choose another zone, or close or finish other zones first",
        })?;
        self.placement.forget(zone, &mut self.flash);
        Ok(true)
    }
}

impl SimDevice {
    /// Applies the zone state machine; a conventional drive only checks bounds.
    fn apply(&mut self, command: &Command) -> Result<Effect, ZoneFault> {
        if let Some(table) = &mut self.table {
            return table.apply(command);
        }
        match command.operation {
            Operation::Read | Operation::Write => {
                let end = command.block.checked_add(u64::from(command.blocks));
                let size = u64::from(self.geometry.zones) * self.geometry.zone_blocks;
                if end.is_none_or(|end| end > size) || command.block < self.geometry.start(command.zone) {
                    return Err(ZoneFault::OutOfRange);
                }
                Ok(Effect { block: command.block, ..Default::default() })
            }
            _ => Err(ZoneFault::Unsupported),
        }
    }

    fn limit_fault(&self, command: &Command, bytes: u64) -> Option<ZoneFault> {
        let limit = match command.operation {
            Operation::Append => self.geometry.append_limit,
            Operation::Read | Operation::Write => self.geometry.transfer_limit,
            _ => return None,
        };
        (command.blocks == 0 || bytes > u64::from(limit)).then_some(ZoneFault::InvalidField)
    }
}
