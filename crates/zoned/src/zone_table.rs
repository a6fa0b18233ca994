//! The zone state machine of the NVMe Zoned Namespace Command Set 1.1 (section 2.1.1.2 and figure 6), for the simulated
//! and the null drive.

use crate::command::{Command, Operation, ZoneFault};
use crate::geometry::{Geometry, ZoneInfo, ZoneState};

/// Block counts are relative to the zone's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Zone {
    pub state: ZoneState,
    /// Blocks up to the write pointer.
    pub pointer: u32,
    /// Blocks the host wrote; stays below the pointer when the zone was finished.
    pub written: u32,
}

const EMPTY: Zone = Zone { state: ZoneState::Empty, pointer: 0, written: 0 };

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Effect {
    pub block: u64,
    pub before: Option<ZoneState>,
    /// Blocks the host had written to it before.
    pub written_before: u32,
    pub opened: bool,
    pub closed_for_room: Option<u32>,
}

/// All zones of a drive, with open and active resources.
#[derive(Debug, Clone)]
pub(crate) struct ZoneTable {
    zones: Vec<Zone>,
    zone_blocks: u64,
    capacity: u32,
    max_open: u32,
    max_active: u32,
    open: u32,
    active: u32,
    /// Implicitly opened zones, oldest first.
    implicit: Vec<u32>,
}

impl ZoneTable {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let limit = |limit| if limit == 0 { u32::MAX } else { limit };
        Self {
            zones: vec![EMPTY; geometry.zones as usize],
            zone_blocks: geometry.zone_blocks,
            capacity: geometry.capacity_blocks as u32,
            max_open: limit(geometry.max_open),
            max_active: limit(geometry.max_active),
            open: 0,
            active: 0,
            implicit: Vec::with_capacity(geometry.writable_at_once() as usize),
        }
    }

    /// Makes the first `count` zones conventional.
    pub(crate) fn with_conventional(mut self, count: u32) -> Self {
        self.zones.iter_mut().take(count as usize).for_each(|zone| zone.state = ZoneState::Conventional);
        self
    }

    /// Sets zones to the state that a drive reports.
    pub(crate) fn with_zones(mut self, zones: &[ZoneInfo]) -> Self {
        for info in zones {
            let Some(zone) = self.zones.get_mut(info.zone as usize) else { continue };
            let written = info.written() as u32;
            *zone = Zone { state: info.state, pointer: written, written };
            self.open += u32::from(info.state.is_open());
            self.active += u32::from(info.state.is_active());
            if info.state == ZoneState::ImplicitlyOpen {
                self.implicit.push(info.zone);
            }
        }
        self
    }

    pub(crate) fn zone(&self, zone: u32) -> Option<&Zone> {
        self.zones.get(zone as usize)
    }

    pub(crate) fn info(&self, zone: u32) -> Option<ZoneInfo> {
        let found = self.zone(zone)?;
        let start = u64::from(zone) * self.zone_blocks;
        let conventional = found.state == ZoneState::Conventional;
        Some(ZoneInfo {
            zone,
            state: found.state,
            start,
            capacity: if conventional { self.zone_blocks } else { u64::from(self.capacity) },
            pointer: start + u64::from(found.pointer),
        })
    }

    /// Applies one command. On an error nothing changes.
    pub(crate) fn apply(&mut self, command: &Command) -> Result<Effect, ZoneFault> {
        let index = command.zone as usize;
        let Some(zone) = self.zones.get(index).copied() else { return Err(ZoneFault::OutOfRange) };
        let effect = Effect {
            block: command.block,
            before: Some(zone.state),
            written_before: zone.written,
            ..Effect::default()
        };
        match command.operation {
            Operation::Read => self.read(command, zone, effect),
            Operation::Write | Operation::Append => self.write(command, zone, effect),
            Operation::Open => self.explicit_open(command.zone, zone, effect),
            Operation::Close => self.close(command.zone, zone, effect),
            Operation::Finish => self.finish(command.zone, zone, effect),
            Operation::Reset => self.reset(command.zone, zone, effect),
        }
    }

    /// Sets the state of a zone as if by earlier commands: empty, or opened and written up to `blocks`.
    pub(crate) fn preset(&mut self, zone: u32, blocks: Option<u32>) -> Result<(), ZoneFault> {
        let Some(found) = self.zones.get(zone as usize).copied() else { return Err(ZoneFault::OutOfRange) };
        self.reset(zone, found, Effect::default())?;
        match blocks {
            None => {}
            Some(blocks) if blocks >= self.capacity => {
                self.zones[zone as usize] =
                    Zone { state: ZoneState::Full, pointer: self.capacity, written: self.capacity };
            }
            Some(blocks) => {
                self.explicit_open(zone, EMPTY, Effect::default())?;
                let opened = &mut self.zones[zone as usize];
                (opened.pointer, opened.written) = (blocks, blocks);
            }
        }
        Ok(())
    }

    /// Makes a zone read-only or offline, as a worn drive does (fault injection).
    pub(crate) fn fail(&mut self, zone: u32, state: ZoneState) {
        if let Some(found) = self.zones.get(zone as usize).copied() {
            self.release(zone, found.state);
            self.zones[zone as usize].state = state;
        }
    }

    fn read(&self, command: &Command, zone: Zone, effect: Effect) -> Result<Effect, ZoneFault> {
        if zone.state == ZoneState::Offline {
            return Err(ZoneFault::Offline);
        }
        let start = u64::from(command.zone) * self.zone_blocks;
        let end = command.block.checked_add(u64::from(command.blocks)).ok_or(ZoneFault::OutOfRange)?;
        if command.block < start || end > start + self.zone_blocks {
            return Err(ZoneFault::Boundary);
        }
        Ok(effect)
    }

    fn write(&mut self, command: &Command, zone: Zone, mut effect: Effect) -> Result<Effect, ZoneFault> {
        match zone.state {
            ZoneState::Full => return Err(ZoneFault::Full),
            ZoneState::ReadOnly => return Err(ZoneFault::ReadOnly),
            ZoneState::Offline => return Err(ZoneFault::Offline),
            // Anywhere in the zone; an append needs a write pointer (ZBC-2, section 4.3.3).
            ZoneState::Conventional if command.operation == Operation::Append => return Err(ZoneFault::Unsupported),
            ZoneState::Conventional => return self.read(command, zone, effect),
            _ => {}
        }
        let start = u64::from(command.zone) * self.zone_blocks;
        if command.operation == Operation::Append {
            if command.block != start {
                return Err(ZoneFault::InvalidField);
            }
            effect.block = start + u64::from(zone.pointer);
        } else if command.block != start + u64::from(zone.pointer) {
            return Err(ZoneFault::NotAtPointer);
        }
        let pointer = zone.pointer.checked_add(command.blocks).ok_or(ZoneFault::Boundary)?;
        if pointer > self.capacity {
            return Err(ZoneFault::Boundary);
        }
        if !zone.state.is_open() {
            effect.closed_for_room = self.take_resources(zone.state)?;
            effect.opened = true;
            self.implicit.push(command.zone);
            self.zones[command.zone as usize].state = ZoneState::ImplicitlyOpen;
        }
        let written = &mut self.zones[command.zone as usize];
        written.pointer = pointer;
        written.written = pointer;
        if pointer == self.capacity {
            let state = written.state;
            written.state = ZoneState::Full;
            self.release(command.zone, state);
        }
        Ok(effect)
    }

    fn explicit_open(&mut self, zone: u32, found: Zone, mut effect: Effect) -> Result<Effect, ZoneFault> {
        match found.state {
            ZoneState::ExplicitlyOpen => return Ok(effect),
            ZoneState::ImplicitlyOpen => self.implicit.retain(|other| *other != zone),
            ZoneState::Empty | ZoneState::Closed => effect.closed_for_room = self.take_resources(found.state)?,
            _ => return Err(ZoneFault::InvalidTransition),
        }
        self.zones[zone as usize].state = ZoneState::ExplicitlyOpen;
        Ok(effect)
    }

    fn close(&mut self, zone: u32, found: Zone, effect: Effect) -> Result<Effect, ZoneFault> {
        match found.state {
            ZoneState::Closed => return Ok(effect),
            ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen => self.close_open_zone(zone),
            _ => return Err(ZoneFault::InvalidTransition),
        }
        Ok(effect)
    }

    fn finish(&mut self, zone: u32, found: Zone, effect: Effect) -> Result<Effect, ZoneFault> {
        match found.state {
            ZoneState::Full => return Ok(effect),
            ZoneState::ReadOnly | ZoneState::Offline | ZoneState::Conventional => {
                return Err(ZoneFault::InvalidTransition);
            }
            _ => self.release(zone, found.state),
        }
        let finished = &mut self.zones[zone as usize];
        finished.state = ZoneState::Full;
        finished.pointer = self.capacity;
        Ok(effect)
    }

    fn reset(&mut self, zone: u32, found: Zone, effect: Effect) -> Result<Effect, ZoneFault> {
        match found.state {
            ZoneState::ReadOnly | ZoneState::Offline | ZoneState::Conventional => {
                return Err(ZoneFault::InvalidTransition);
            }
            _ => self.release(zone, found.state),
        }
        self.zones[zone as usize] = EMPTY;
        Ok(effect)
    }

    /// Acquires the resources for a transition from `state` to an open one. If no open resource is left, closes the
    /// zone that was implicitly opened longest ago (section 2.1.1.4.1: the controller may do so).
    fn take_resources(&mut self, state: ZoneState) -> Result<Option<u32>, ZoneFault> {
        let activates = !state.is_active();
        if activates && self.active >= self.max_active {
            return Err(ZoneFault::TooManyActive);
        }
        let mut closed = None;
        if self.open >= self.max_open {
            let oldest = *self.implicit.first().ok_or(ZoneFault::TooManyOpen)?;
            self.close_open_zone(oldest);
            closed = Some(oldest);
        }
        self.open += 1;
        self.active += u32::from(activates);
        Ok(closed)
    }

    fn close_open_zone(&mut self, zone: u32) {
        self.implicit.retain(|other| *other != zone);
        self.open -= 1;
        self.zones[zone as usize].state = ZoneState::Closed;
    }

    fn release(&mut self, zone: u32, state: ZoneState) {
        if state == ZoneState::ImplicitlyOpen {
            self.implicit.retain(|other| *other != zone);
        }
        self.open -= u32::from(state.is_open());
        self.active -= u32::from(state.is_active());
    }
}
