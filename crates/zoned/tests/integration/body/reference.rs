//! A second, naive zone state machine from the specification's table of transitions, with counts by a full scan. The
//! reference for all devices.

use senesce_zoned::{Command, Geometry, Operation, ZoneFault, ZoneState};

#[derive(Debug, Clone)]
pub struct Reference {
    pub states: Vec<ZoneState>,
    pub pointers: Vec<u64>,
    /// Order in which implicitly open zones were opened.
    pub opened_at: Vec<u64>,
    clock: u64,
    capacity: u64,
    zone_blocks: u64,
    max_open: usize,
    max_active: usize,
}

impl Reference {
    pub fn new(geometry: &Geometry) -> Self {
        let zones = geometry.zones as usize;
        let limit = |limit: u32| if limit == 0 { usize::MAX } else { limit as usize };
        Self {
            states: vec![ZoneState::Empty; zones],
            pointers: vec![0; zones],
            opened_at: vec![0; zones],
            clock: 0,
            capacity: geometry.capacity_blocks,
            zone_blocks: geometry.zone_blocks,
            max_open: limit(geometry.max_open),
            max_active: limit(geometry.max_active),
        }
    }

    pub fn open(&self) -> usize {
        self.states.iter().filter(|state| state.is_open()).count()
    }

    pub fn active(&self) -> usize {
        self.states.iter().filter(|state| state.is_active()).count()
    }

    pub fn apply(&mut self, command: &Command) -> Result<u64, ZoneFault> {
        let zone = command.zone as usize;
        let start = u64::from(command.zone) * self.zone_blocks;
        let state = self.states[zone];
        match command.operation {
            Operation::Read if state == ZoneState::Offline => Err(ZoneFault::Offline),
            Operation::Read => {
                let inside =
                    command.block >= start && command.block + u64::from(command.blocks) <= start + self.zone_blocks;
                if inside { Ok(command.block) } else { Err(ZoneFault::Boundary) }
            }
            Operation::Write | Operation::Append => {
                match state {
                    ZoneState::Full => return Err(ZoneFault::Full),
                    ZoneState::ReadOnly => return Err(ZoneFault::ReadOnly),
                    ZoneState::Offline => return Err(ZoneFault::Offline),
                    _ => {}
                }
                let append = command.operation == Operation::Append;
                if append && command.block != start {
                    return Err(ZoneFault::InvalidField);
                }
                if !append && command.block != start + self.pointers[zone] {
                    return Err(ZoneFault::NotAtPointer);
                }
                if self.pointers[zone] + u64::from(command.blocks) > self.capacity {
                    return Err(ZoneFault::Boundary);
                }
                if !state.is_open() {
                    self.make_room(state)?;
                    self.states[zone] = ZoneState::ImplicitlyOpen;
                    self.clock += 1;
                    self.opened_at[zone] = self.clock;
                }
                let block = start + self.pointers[zone];
                self.pointers[zone] += u64::from(command.blocks);
                if self.pointers[zone] == self.capacity {
                    self.states[zone] = ZoneState::Full;
                }
                Ok(block)
            }
            Operation::Open => match state {
                ZoneState::Empty | ZoneState::Closed => {
                    self.make_room(state)?;
                    self.states[zone] = ZoneState::ExplicitlyOpen;
                    Ok(command.block)
                }
                ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen => {
                    self.states[zone] = ZoneState::ExplicitlyOpen;
                    Ok(command.block)
                }
                _ => Err(ZoneFault::InvalidTransition),
            },
            Operation::Close if state.is_active() => {
                self.states[zone] = ZoneState::Closed;
                Ok(command.block)
            }
            Operation::Finish if state.is_active() || matches!(state, ZoneState::Empty | ZoneState::Full) => {
                self.states[zone] = ZoneState::Full;
                self.pointers[zone] = self.capacity;
                Ok(command.block)
            }
            Operation::Reset if state.is_active() || matches!(state, ZoneState::Empty | ZoneState::Full) => {
                self.states[zone] = ZoneState::Empty;
                self.pointers[zone] = 0;
                Ok(command.block)
            }
            _ => Err(ZoneFault::InvalidTransition),
        }
    }

    fn make_room(&mut self, state: ZoneState) -> Result<(), ZoneFault> {
        if !state.is_active() && self.active() >= self.max_active {
            return Err(ZoneFault::TooManyActive);
        }
        if self.open() >= self.max_open {
            let implicit = (0..self.states.len()).filter(|zone| self.states[*zone] == ZoneState::ImplicitlyOpen);
            let oldest = implicit.min_by_key(|zone| self.opened_at[*zone]).ok_or(ZoneFault::TooManyOpen)?;
            self.states[oldest] = ZoneState::Closed;
        }
        Ok(())
    }
}
