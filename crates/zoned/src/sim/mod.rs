//! `sim:MODEL`: a drive in virtual time. A discrete-event simulation of command processor, buffer, dies, channels and
//! link, with the zone states and errors of [`ZoneTable`].
//!
//! ```text
//! host path -> controller -> transfer -> buffer -> completion        (write, append)
//!                                          `-> program units -> dies
//! host path -> die -> channel -> link -> completion                  (read)
//! ```
//!
//! Constant delays before the first queue are applied after the last one: that changes no waiting time and saves one
//! event per command.

mod appends;
mod buffer_space;
mod channel;
mod controller;
pub(crate) mod domain;
mod events;
mod flash;
mod interface;
mod manage;
mod merging;
pub mod model;
mod noise;
mod padding;
mod placement;
mod stream;
mod timing;
mod window;

use crate::command::{Command, Completion, Operation, ZoneFault};
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneState};
use crate::zone_table::ZoneTable;
use appends::Appends;
use buffer_space::BufferSpace;
use controller::Controller;
use events::{Event, EventKind, EventQueue};
use flash::{Flash, PageRead};
use manage::Manager;
use merging::WriteLock;
use model::Model;
use noise::Noise;
use placement::Placement;
use senesce_core::Seed;
use std::collections::VecDeque;
use stream::Stream;
pub use timing::HostPath;
use timing::Timing;
use window::Window;

const NO_SLOT: u32 = u32::MAX;
/// Maximum number of submitting threads that a model distinguishes.
const QUEUES: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct Slot {
    tag: u32,
    operation: Operation,
    zone: u32,
    bytes: u32,
    /// Size of the original writes, used by the engine for small blocks.
    part_bytes: u32,
    pages: u16,
    stamp: u16,
    streamed: bool,
    submitted_ns: u64,
    /// Delay between the last queue and the completion.
    behind: u64,
    /// Next command merged into this one, or waiting behind it for the zone's write lock.
    next: u32,
    result: Result<u64, ZoneFault>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SimOptions {
    /// Bytes per block; `None`: the model's default.
    pub block_bytes: Option<u32>,
    pub path: HostPath,
}

#[derive(Debug)]
pub struct SimDevice {
    geometry: Geometry,
    timing: Timing,
    table: Option<ZoneTable>,
    now: u64,
    events: EventQueue,
    controller: Controller,
    flash: Flash,
    placement: Placement,
    stream: Option<Stream>,
    manager: Option<Manager>,
    noise: Noise,
    slots: Vec<Slot>,
    free: Vec<u32>,
    host_free: Vec<u64>,
    transfer_free: u64,
    engine_free: u64,
    /// When the last group of small blocks closes.
    group_until: u64,
    room: BufferSpace,
    window: Window,
    appends: Vec<Appends>,
    appends_per_zone: u32,
    locks: Vec<WriteLock>,
    locked: u32,
    done: VecDeque<Completion>,
    completed: u64,
    moving: u32,
    /// Logarithm of the block size to base 2.
    block_shift: u32,
    /// Release buffer space at its time, even if no command waits for it.
    #[cfg(test)]
    eager: bool,
}

impl SimDevice {
    /// Creates a drive at time 0: all zones empty and never opened.
    pub fn new(model: &Model, options: SimOptions, seed: Seed) -> Result<Self, ZonedError> {
        let geometry = model.geometry(options.block_bytes)?;
        let way = options.path.model(model).ok_or_else(|| model.lacks(options.path))?;
        let merges = way.merges_writes && model.zones.is_some();
        let garbage = model.garbage.as_ref();
        Ok(Self {
            timing: Timing::new(model, geometry.block_bytes, way),
            table: model
                .zones
                .as_ref()
                .map(|_| ZoneTable::new(&geometry).with_conventional(model.geometry.conventional_zones)),
            now: 0,
            events: EventQueue::with_capacity(4096),
            controller: Controller::with_capacity(1024),
            flash: Flash::new(&model.flash, &model.read, garbage, (way.link_us, way.link_us_per_kib), seed),
            placement: Placement::new(model, &geometry, seed),
            stream: model
                .read
                .stream
                .as_ref()
                .filter(|_| !way.stream_us.is_empty())
                .map(|stream| Stream::new(stream, way)),
            manager: model.zones.as_ref().map(Manager::new),
            noise: Noise::new(seed, "zoned/sim/noise"),
            slots: Vec::new(),
            free: Vec::new(),
            host_free: vec![0; QUEUES],
            transfer_free: 0,
            engine_free: 0,
            group_until: 0,
            room: BufferSpace::new(model),
            window: Window::new(u64::from(model.flash.window_kib) << 10),
            appends: vec![Appends::NONE; if model.zones.is_some() { geometry.zones as usize } else { 0 }],
            appends_per_zone: model.write.appends_per_zone,
            locks: vec![WriteLock::FREE; if merges { geometry.zones as usize } else { 0 }],
            locked: 0,
            done: VecDeque::with_capacity(1024),
            completed: 0,
            moving: 0,
            block_shift: geometry.block_bytes.trailing_zeros(),
            #[cfg(test)]
            eager: false,
            geometry,
        })
    }

    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// Schedules a zone to become read-only or offline at `at_ns` (fault injection).
    pub fn fail_zone(&mut self, zone: u32, state: ZoneState, at_ns: u64) {
        let code = u32::from(state == ZoneState::Offline);
        self.events.push(at_ns.max(self.now), EventKind::Fail, zone, code);
    }

    /// Puts a conventional drive into a steady state: no erased space beyond the collector's reserve.
    pub(crate) fn wear(&mut self) {
        self.placement.wear();
    }

    fn take_slot(&mut self, command: &Command, bytes: u32, submitted_ns: u64) -> u32 {
        let slot = Slot {
            tag: command.tag,
            operation: command.operation,
            zone: command.zone,
            bytes,
            part_bytes: bytes,
            pages: 0,
            stamp: 0,
            streamed: false,
            submitted_ns,
            behind: 0,
            next: NO_SLOT,
            result: Ok(command.block),
        };
        match self.free.pop() {
            Some(index) => {
                let stamp = self.slots[index as usize].stamp;
                self.slots[index as usize] = Slot { stamp, ..slot };
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    #[inline]
    fn complete_at(&mut self, time: u64, slot: u32) {
        self.events.push(time, EventKind::Complete, slot, u32::from(self.slots[slot as usize].stamp));
    }

    fn arrive(&mut self, slot: u32) {
        let Slot { operation, zone, .. } = self.slots[slot as usize];
        if operation == Operation::Read {
            if !self.window.holds(slot) {
                self.send_read(slot);
            }
            return;
        }
        if operation == Operation::Append {
            return self.take_up_append(zone, slot);
        }
        match self.locks.is_empty() {
            true => self.send_write(slot),
            false => self.lock(zone, slot),
        }
    }

    #[inline]
    fn send_write(&mut self, slot: u32) {
        let Slot { operation, bytes, .. } = self.slots[slot as usize];
        let timing = if operation == Operation::Append { &self.timing.append } else { &self.timing.write };
        self.controller.arrive(self.now, slot, timing.controller.get(bytes));
    }

    fn send_read(&mut self, slot: u32) {
        let Slot { zone, bytes, result, .. } = self.slots[slot as usize];
        let block = result.unwrap_or(0);
        if let Some(stream) = &mut self.stream
            && stream.follows(zone, block, u64::from(bytes >> self.block_shift))
        {
            let time = stream.answer(self.now, bytes);
            let read = &mut self.slots[slot as usize];
            read.streamed = true;
            let behind = read.behind - self.timing.read_fixed;
            return self.complete_at(time + behind, slot);
        }
        let mut offset = (block - self.geometry.start(zone)) * u64::from(self.geometry.block_bytes);
        let mut left = u64::from(bytes);
        let unit = self.flash.unit();
        let mut pages = 0;
        while left > 0 {
            let index = offset / unit;
            let part = left.min((index + 1) * unit - offset);
            let (die, slow) = self.placement.page(zone, index, offset);
            let page = PageRead { slot, kib: part.div_ceil(1024) as u32, slow };
            self.flash.read(self.now, die, page, &mut self.events);
            pages += 1;
            offset += part;
            left -= part;
        }
        self.slots[slot as usize].pages = pages;
    }

    /// Handles a write that the command processor has finished: its data cross the link.
    #[inline]
    fn depart(&mut self) {
        self.now = self.controller.next_time();
        let Some(slot) = self.controller.depart() else { return };
        let time = u64::from(self.slots[slot as usize].bytes) * self.timing.transfer_ps_per_byte / 1000;
        self.transfer_free = self.now.max(self.transfer_free) + time;
        self.events.push(self.transfer_free, EventKind::Transferred, slot, 0);
    }

    /// Completes a write whose data are in the buffer; whole units go to their dies.
    #[inline]
    fn admit(&mut self, slot: u32) {
        let Slot { operation, zone, bytes, part_bytes, behind, .. } = self.slots[slot as usize];
        if operation == Operation::Append {
            self.end_append(zone);
        }
        let timing = if operation == Operation::Append { &self.timing.append } else { &self.timing.write };
        let mut ready = self.now;
        let engine = timing.engine.get(part_bytes);
        if engine > 0 {
            ready = ready.max(self.engine_free);
            self.engine_free = ready + self.timing.phases.engine(ready, engine);
        }
        let regroup = timing.regroup.get(part_bytes);
        if regroup > 0 {
            let open = self.now <= self.group_until;
            self.group_until = self.now + self.timing.group;
            ready += if open { 0 } else { regroup };
        }
        let time = ready + timing.fixed.get(bytes) + self.noise.exponential(self.timing.jitter) + behind;
        self.complete_at(time, slot);
        self.placement.write(self.now, zone, u64::from(bytes), &mut self.flash, &mut self.events);
    }

    fn handle(&mut self, event: Event) {
        let Event { time, kind, index, stamp } = event;
        self.now = time;
        match kind {
            EventKind::Submit => self.arrive(index),
            EventKind::Transferred => {
                let bytes = self.slots[index as usize].bytes;
                if !self.room.takes(self.flash.buffered, bytes) {
                    self.flash.release_before(time);
                }
                if self.room.takes(self.flash.buffered, bytes) {
                    self.admit(index);
                } else {
                    self.wait_for_space(index);
                }
            }
            EventKind::Complete => self.complete(index, stamp),
            EventKind::Sensed => self.flash.sensed(time, index, &mut self.events),
            EventKind::Sent => {
                let (slot, left) = self.flash.sent(time, index, &mut self.events);
                let read = &mut self.slots[slot as usize];
                read.pages -= 1;
                if read.pages == 0 {
                    let behind_write = match self.transfer_free.checked_sub(left) {
                        Some(transfers) => transfers % self.timing.transfer_piece,
                        None => 0,
                    };
                    let time = left + behind_write + read.behind;
                    self.complete_at(time, slot);
                }
            }
            EventKind::Programmed => {
                self.flash.programmed(time, index, stamp, &mut self.events);
                self.placement.collect(time, &mut self.flash, &mut self.events);
            }
            EventKind::Loaded => self.flash.loaded(time, index, &mut self.events),
            EventKind::Resume => self.flash.resume(time, &mut self.events),
            EventKind::Fail => {
                let state = if stamp == 1 { ZoneState::Offline } else { ZoneState::ReadOnly };
                if let Some(table) = &mut self.table {
                    table.fail(index, state);
                }
            }
        }
        if self.has_waiting_commands() {
            self.resume_waiting();
        }
    }

    /// Completes a command and all commands merged into it.
    fn complete(&mut self, slot: u32, stamp: u32) {
        let Slot { operation, zone, stamp: current, streamed, result, .. } = self.slots[slot as usize];
        if u32::from(current) != stamp {
            return;
        }
        if let (true, Some(stream)) = (streamed, &mut self.stream) {
            stream.flying -= 1;
        }
        let mut next = slot;
        while next != NO_SLOT {
            let done = &mut self.slots[next as usize];
            self.done.push_back(Completion {
                tag: done.tag,
                submitted_ns: done.submitted_ns,
                completed_ns: self.now,
                result: done.result,
            });
            done.stamp = done.stamp.wrapping_add(1);
            self.free.push(next);
            next = std::mem::replace(&mut done.next, NO_SLOT);
            self.completed += 1;
            self.moving -= u32::from(operation.moves_data());
        }
        if operation == Operation::Finish {
            self.end_finish(slot);
        }
        // A refused write never took the lock.
        if operation == Operation::Write && result.is_ok() && !self.locks.is_empty() {
            self.unlock(zone);
        }
    }
}

#[cfg(test)]
mod tests;
