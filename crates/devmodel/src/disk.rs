//! A disk drive: zones, seek, head switch, rotation, cache segments, write cache, reordering.
//!
//! Not modelled: reading a track from its middle, remapped sectors, adaptive segment sizes of real drives.

mod cache;
mod choice;
mod layout;
pub(crate) mod parameters;
#[cfg(test)]
mod plain;
mod queue;
mod write;

pub use parameters::Disk;

use crate::Device;
use crate::hdd::per_byte;
use crate::request::{Operation, Request, SECTOR};
use cache::Segments;
use choice::{StepEstimates, Window};
use layout::{Layout, SectorPosition};
use std::collections::VecDeque;
use std::ops::Range;

#[derive(Debug, Clone, Copy)]
struct Reading {
    segment: usize,
    limit: u64,
}

#[derive(Debug, Clone, Copy)]
struct HeadPosition {
    begin: f64,
    /// When the arm starts to move.
    commanded: f64,
    cylinder: u64,
    head: u32,
    /// Whether the next position of the stream can be served without a pause.
    goes_on: bool,
}

/// Times are ns.
#[derive(Debug, Clone)]
pub struct DiskState {
    disk: Disk,
    layout: Layout,
    rough: StepEstimates,
    segments: Segments,
    reading: Option<Reading>,
    /// When the mechanics finished the last request.
    free_ns: f64,
    /// When the head was at `head_ns` of the stream.
    head_at_ns: f64,
    head_ns: f64,
    /// Last sector that the mechanics served.
    last: SectorPosition,
    interface_free_ns: f64,
    pending: VecDeque<write::Pending>,
    pending_window: Window,
    pending_bytes: u64,
    waiting: queue::Waiting,
    #[cfg(test)]
    is_plain: bool,
}

impl Disk {
    /// Returns a drive at rest above address 0; its parameters must have been checked.
    pub fn start(&self) -> DiskState {
        let layout = Layout::of(self);
        DiskState {
            rough: StepEstimates::of(&layout, self.write_settle_ms * 1e6),
            last: layout.place(0),
            layout,
            segments: Segments::new(self.cache),
            reading: None,
            free_ns: 0.0,
            head_at_ns: 0.0,
            head_ns: 0.0,
            interface_free_ns: 0.0,
            pending: VecDeque::new(),
            pending_window: Window::of(self.queue_depth),
            pending_bytes: 0,
            waiting: queue::Waiting::of(self.queue_depth),
            #[cfg(test)]
            is_plain: false,
            disk: self.clone(),
        }
    }
}

impl DiskState {
    /// Serves a request that reached the drive at `at`; returns the completion time. `place`: its first sector; `arrives`: when
    /// the head is there if the drive starts it now, if known.
    fn serve_at(&mut self, request: &Request, place: &SectorPosition, arrives: Option<f64>, at: f64) -> f64 {
        let arrives = if self.write_while_idle(at) { None } else { arrives };
        let (start, end) = (request.offset(), request.end());
        match request.operation {
            Operation::Read => self.read(start, end, place, arrives, at),
            Operation::Write if self.disk.write_cache_bytes > 0 => self.write_to_cache(start, end, place, at),
            Operation::Write => self.write_through(start, end, place, arrives, at),
            Operation::Flush => {
                self.write_all();
                self.free_ns.max(at) + self.disk.command_us * 1e3
            }
            Operation::Discard => at + self.disk.command_us * 1e3,
        }
    }

    fn reached(&self, at: f64) -> u64 {
        let (address, ..) = self.layout.reached(self.streamed_ns(at), &self.last);
        self.reading.map_or(address, |reading| address.min(reading.limit))
    }

    /// Returns the stream coordinate that the head has reached if nothing stops the read-ahead.
    fn streamed_ns(&self, at: f64) -> f64 {
        match self.reading {
            Some(_) => self.head_ns + (at - self.head_at_ns).max(0.0),
            None => self.head_ns,
        }
    }

    fn read(&mut self, start: u64, end: u64, place: &SectorPosition, arrives: Option<f64>, at: f64) -> f64 {
        if let Some(reading) = self.reading {
            let reached = self.reached(at);
            self.segments.extend(reading.segment, reached);
        }
        let from_cache = self.through_cache(self.disk.hit_us, end - start, at);
        if self.pending.iter().any(|write| write.start <= start && end <= write.end) {
            self.interface_free_ns = from_cache;
            return from_cache;
        }
        // A request that needs the arm is not in a segment.
        let held = if arrives.is_none() { self.segments.holding(start, end) } else { None };
        if let Some(segment) = held {
            self.segments.touch(segment);
            self.read_on(segment, end, at);
            self.interface_free_ns = from_cache;
            return from_cache;
        }
        let (last, end_ns) = self.layout.end_from(place, start, end);
        let positioned = arrives.unwrap_or_else(|| self.arrives(&self.here(at), place, false));
        let seeking = positioned + (end_ns - place.stream_ns);
        match self.streaming(start, end_ns, at) {
            Some((segment, passed)) if passed <= seeking => {
                self.segments.extend(segment, end);
                self.segments.touch(segment);
                self.moved(last, end_ns, passed);
                self.reading = Some(Reading { segment, limit: self.limit(end) });
                passed.max(from_cache)
            }
            _ => {
                let segment = self.segments.open(start, end);
                self.moved(last, end_ns, seeking);
                self.reading = Some(Reading { segment, limit: self.limit(end) });
                self.over_interface(positioned, seeking, end - start)
            }
        }
    }

    /// Returns when the data have crossed the interface from or to the cache.
    fn through_cache(&self, command_us: f64, bytes: u64, at: f64) -> f64 {
        self.interface_free_ns.max(at) + command_us * 1e3 + per_byte(bytes, self.disk.interface_mb_per_s)
    }

    /// Returns when the data read from the platter between two times have crossed the interface. Each sector crosses
    /// once it is available.
    fn over_interface(&mut self, from: f64, until: f64, bytes: u64) -> f64 {
        let rate = self.disk.interface_mb_per_s;
        let whole = self.interface_free_ns.max(from) + per_byte(bytes, rate);
        self.interface_free_ns = whole.max(until + per_byte(SECTOR.min(bytes), rate));
        self.interface_free_ns
    }

    fn limit(&self, end: u64) -> u64 {
        end.saturating_add(self.disk.cache.read_ahead_bytes).min(self.disk.capacity_bytes)
    }

    /// Starts read-ahead after `end`. Stopped read-ahead resumes once half of it has been used.
    fn read_on(&mut self, segment: usize, end: u64, at: f64) {
        let Some(reading) = self.reading.filter(|reading| reading.segment == segment) else { return };
        let limit = self.limit(end).max(reading.limit);
        if self.reached(at) < reading.limit {
            self.reading = Some(Reading { segment, limit });
        } else if limit - reading.limit >= self.disk.cache.read_ahead_bytes / 2 && limit > reading.limit {
            let (_, stopped) = self.layout.end(reading.limit);
            self.head_ns = stopped;
            self.head_at_ns = at + self.wait(stopped, at);
            self.reading = Some(Reading { segment, limit });
        }
    }

    fn near(&self) -> Range<u64> {
        self.reading.map_or(0..0, |reading| self.segments.start(reading.segment)..reading.limit + 1)
    }

    /// Returns the segment being read, and when the head has passed `end` if the stream continues. `end_ns` is its
    /// stream coordinate.
    fn streaming(&self, start: u64, end_ns: f64, at: f64) -> Option<(usize, f64)> {
        let reading = self.reading?;
        if !self.near().contains(&start) || self.reached(at) >= reading.limit {
            return None;
        }
        let passed = self.head_at_ns + (end_ns - self.head_ns).max(0.0);
        Some((reading.segment, passed.max(at)))
    }

    /// Returns the state of the head when a command that reached the drive at `at` starts.
    fn here(&self, at: f64) -> HeadPosition {
        let begin = at.max(self.free_ns);
        let commanded = begin + self.disk.command_us * 1e3;
        let (cylinder, head) = self.above(commanded);
        // A command that arrived before the head had finished continues without a pause.
        let goes_on = self.reading.is_none() && at <= self.free_ns;
        HeadPosition { begin, commanded, cylinder, head, goes_on }
    }

    /// Returns the current cylinder and head: at the end of the read-ahead once it is reached.
    fn above(&self, at: f64) -> (u64, u32) {
        let (address, cylinder, head) = self.layout.reached(self.streamed_ns(at), &self.last);
        let limit = self.reading.map_or(u64::MAX, |reading| reading.limit).min(self.disk.capacity_bytes - SECTOR);
        if address <= limit {
            return (cylinder, head);
        }
        let place = self.layout.place(limit);
        (place.cylinder, place.head)
    }

    fn arrives(&self, here: &HeadPosition, target: &SectorPosition, writes: bool) -> f64 {
        if here.goes_on && target.stream_ns == self.head_ns {
            return here.begin;
        }
        let settle = if writes { self.disk.write_settle_ms * 1e6 } else { 0.0 };
        let moved = if here.cylinder != target.cylinder {
            self.layout.seek_ns(here.cylinder, target.cylinder) + settle
        } else if here.head != target.head {
            self.disk.head_switch_ms * 1e6 + settle
        } else {
            0.0
        };
        let there = here.commanded + moved;
        there + self.wait(target.stream_ns, there)
    }

    fn wait(&self, stream_ns: f64, at: f64) -> f64 {
        let rotation = self.layout.rotation_ns;
        let ahead = stream_ns - at;
        // Rounds towards zero, then down: the processor has an instruction only for the former.
        let turns = (ahead / rotation) as i64 as f64;
        let wait = ahead - turns * rotation;
        let wait = if wait < 0.0 { wait + rotation } else { wait };
        // A wait less than two nanoseconds short of a rotation is a rounding error.
        if rotation - wait < 2.0 { 0.0 } else { wait }
    }

    /// Records that the head has finished an access. `last` is its last sector, and it ends at `end_ns` of the stream.
    fn moved(&mut self, last: SectorPosition, end_ns: f64, done: f64) {
        self.free_ns = self.free_ns.max(done);
        self.head_at_ns = done;
        self.head_ns = end_ns;
        self.last = last;
    }
}

impl Device for DiskState {
    /// Serves requests in order; a trace of a larger device wraps around.
    fn serve(&mut self, request: &Request, at_ns: u64) -> u64 {
        let sectors = (self.disk.capacity_bytes / SECTOR).max(1);
        let start_sector = request.start_sector % sectors;
        let left = u32::try_from(sectors - start_sector).unwrap_or(u32::MAX);
        let request = Request { start_sector, sectors: request.sectors.min(left), ..*request };
        if request.moves_data() && request.sectors == 0 {
            return at_ns;
        }
        let place = self.layout.place(request.offset().min(self.disk.capacity_bytes - 1));
        self.serve_at(&request, &place, None, at_ns as f64).ceil().max(at_ns as f64) as u64
    }
}
