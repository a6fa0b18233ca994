//! One worker of an actor: decides the next command and takes completions. It neither touches a device nor waits, so
//! the same worker runs in virtual time and on a thread.

use super::check::CheckedActor;
use super::spec::Activity;
use super::tally::Tally;
use crate::command::{Command, Completion, Operation};
use crate::geometry::{Geometry, ZoneInfo};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use senesce_core::Seed;

mod counting;
mod lost_zones;
mod rounds;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerRequest {
    Submit(Command),
    /// Set the state of this zone; reply with [`Worker::preset_done`], or [`Worker::found`] if the zone is lost.
    Preset(u32, Option<u64>),
    /// Nothing before this time.
    WaitUntil(u64),
    /// Nothing before one of its commands completes.
    WaitForCompletion,
    Finished,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    operation: Operation,
    zone: u32,
    blocks: u32,
    intended_ns: u64,
    counted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Flow,
    /// Waits for commands in flight, then resets the zone that it will write again.
    Wrap,
    /// Requests a preset, or fills with commands if that is unsupported.
    Preset,
    FillOpen,
    /// Fills the zone; the number is the blocks written.
    Fill(u64),
    Round(u8),
    Ended,
}

#[derive(Debug, Clone, Copy)]
struct OwnZone {
    zone: u32,
    /// Blocks written, including those in flight.
    pointer: u64,
    /// Whether this worker filled it, so that it must be reset before it is written again.
    used: bool,
}

#[derive(Debug)]
pub(crate) struct Worker {
    actor: CheckedActor,
    queue: u16,
    first_tag: u32,
    block_bytes: u32,
    transfer_limit: u32,
    zone_blocks: u64,
    capacity: u64,
    zoned: bool,
    places: Vec<OwnZone>,
    /// Zones left after a refused command.
    left: Vec<OwnZone>,
    at: usize,
    read_offset: u64,
    phase: Phase,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<u32>,
    random: Pcg64,
    begin_ns: u64,
    count_from_ns: u64,
    end_ns: u64,
    ended_ns: u64,
    issued: u64,
    next_due_ns: u64,
    gap_ns: u64,
    refused_in_a_row: u32,
    /// Zone of the last refused zone command.
    doubtful: Option<u32>,
    preset_refused: bool,
    stop_on_lost_zone: bool,
    pub stopped: bool,
    last_counted_ns: u64,
    first_counted_ns: u64,
    pub tally: Tally,
}

impl Worker {
    /// Creates a worker; `zones` is the state of all zones of the drive, `first_tag` the first tag of this worker.
    pub(crate) fn new(
        actor: &CheckedActor,
        number: u32,
        queue: u16,
        first_tag: u32,
        geometry: &Geometry,
        zones: &[ZoneInfo],
        seed: Seed,
    ) -> Self {
        let written = |zone: u32| match zones.get(zone as usize) {
            Some(info) if geometry.zoned => info.written(),
            _ if actor.spec.op.reads() => geometry.capacity_blocks,
            _ => 0,
        };
        let lost = |zone: u32| zones.get(zone as usize).is_some_and(|info| lost_zones::fault_of(info.state).is_some());
        let places = actor.share(number).filter(|zone| !lost(*zone) || actor.spec.op.reads());
        let places = places.map(|zone| OwnZone { zone, pointer: written(zone), used: false }).collect();
        let depth = actor.spec.qd;
        let manages = actor.spec.op.manages();
        let bytes = actor.spec.command_bytes(geometry) as f64;
        let gap_ns = actor.spec.rate.map_or(0, |rate| (bytes * 1e9 / rate.0.0 as f64) as u64);
        Self {
            queue,
            first_tag,
            block_bytes: geometry.block_bytes,
            transfer_limit: geometry.transfer_limit,
            zone_blocks: geometry.zone_blocks,
            capacity: geometry.capacity_blocks,
            zoned: geometry.zoned,
            places,
            left: Vec::new(),
            at: 0,
            read_offset: 0,
            phase: if manages { Phase::Preset } else { Phase::Flow },
            in_flight: vec![None; depth as usize],
            free: (0..depth).rev().collect(),
            random: seed.stream(&format!("zoned/job/{}/{number}", actor.spec.name)),
            begin_ns: 0,
            count_from_ns: 0,
            end_ns: u64::MAX,
            ended_ns: u64::MAX,
            issued: 0,
            next_due_ns: 0,
            gap_ns,
            refused_in_a_row: 0,
            doubtful: None,
            preset_refused: false,
            stop_on_lost_zone: false,
            stopped: false,
            last_counted_ns: 0,
            first_counted_ns: u64::MAX,
            tally: Tally::default(),
            actor: actor.clone(),
        }
    }

    pub(crate) fn stop_on_lost_zone(&mut self) {
        self.stop_on_lost_zone = true;
    }

    /// Starts the clock: start, ramp and end are relative to `now_ns`.
    pub(crate) fn begin(&mut self, now_ns: u64, ramp_ns: u64) {
        let spec = &self.actor.spec;
        self.begin_ns = now_ns + spec.start.ns();
        let counts = spec.time.is_none();
        self.count_from_ns = self.begin_ns + if counts { 0 } else { ramp_ns };
        self.end_ns = spec.time.map_or(u64::MAX, |time| self.count_from_ns.saturating_add(time.ns()));
        self.next_due_ns = self.begin_ns;
        if let (Some(time), false) = (spec.time, spec.op.manages()) {
            self.tally.per_second.reserve((time.0.as_secs() + 2).min(1 << 20) as usize);
        }
    }

    pub(crate) fn depth(&self) -> u32 {
        self.actor.spec.qd
    }

    pub(crate) fn busy(&self) -> bool {
        self.free.len() < self.in_flight.len()
    }

    pub(crate) fn end(&mut self) {
        self.phase = Phase::Ended;
    }

    /// Returns the next action at `now_ns`.
    #[inline]
    pub(crate) fn wish(&mut self, now_ns: u64) -> WorkerRequest {
        if self.phase == Phase::Ended || now_ns >= self.end_ns || self.places.is_empty() {
            return self.at_end(now_ns);
        }
        if now_ns < self.next_due_ns {
            return WorkerRequest::WaitUntil(self.next_due_ns.min(self.end_ns));
        }
        if self.free.is_empty() {
            return WorkerRequest::WaitForCompletion;
        }
        match self.phase {
            Phase::Flow | Phase::Preset if self.counted_enough() => self.at_count(now_ns),
            Phase::Flow => self.flow(),
            _ => self.manage(),
        }
    }

    /// Submits nothing more; ends when the last command has completed.
    fn at_end(&mut self, now_ns: u64) -> WorkerRequest {
        if self.busy() {
            return WorkerRequest::WaitForCompletion;
        }
        self.ended_ns = self.ended_ns.min(now_ns);
        WorkerRequest::Finished
    }

    fn flow(&mut self) -> WorkerRequest {
        match self.actor.spec.op {
            Activity::RandomRead => self.random_read(),
            Activity::SequentialRead => self.sequential_read(),
            _ => self.stream_write(),
        }
    }

    fn random_read(&mut self) -> WorkerRequest {
        let count = self.places.len() as u64;
        let index = if count == 1 { 0 } else { self.below(count) };
        let place = self.places[index as usize];
        let requests = (place.pointer / u64::from(self.actor.blocks)).max(1);
        let offset = self.below(requests) * u64::from(self.actor.blocks);
        self.submit(Operation::Read, place.zone, offset, self.actor.blocks, true)
    }

    fn sequential_read(&mut self) -> WorkerRequest {
        let blocks = u64::from(self.actor.blocks);
        if self.read_offset + blocks > self.places[self.at].pointer {
            self.at = (self.at + 1) % self.places.len();
            self.read_offset = 0;
        }
        let (zone, offset) = (self.places[self.at].zone, self.read_offset);
        self.read_offset += blocks;
        self.submit(Operation::Read, zone, offset, self.actor.blocks, true)
    }

    fn stream_write(&mut self) -> WorkerRequest {
        let place = self.places[self.at];
        if place.pointer >= self.capacity {
            self.at = (self.at + 1) % self.places.len();
            self.places[self.at].used |= self.places[self.at].pointer >= self.capacity;
            if self.places[self.at].used {
                if self.zoned {
                    self.phase = Phase::Wrap;
                    return self.manage();
                }
                self.places[self.at] = OwnZone { pointer: 0, used: false, ..self.places[self.at] };
            }
            return self.stream_write_here();
        }
        self.stream_write_here()
    }

    fn stream_write_here(&mut self) -> WorkerRequest {
        let place = &mut self.places[self.at];
        let blocks = u64::from(self.actor.blocks).min(self.capacity - place.pointer);
        let (zone, offset) = (place.zone, place.pointer);
        place.pointer += blocks;
        if self.actor.spec.op == Activity::Append {
            self.submit(Operation::Append, zone, 0, blocks as u32, true)
        } else {
            self.submit(Operation::Write, zone, offset, blocks as u32, true)
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    #[inline]
    fn submit(&mut self, operation: Operation, zone: u32, offset: u64, blocks: u32, counted: bool) -> WorkerRequest {
        let Some(index) = self.free.pop() else { return WorkerRequest::WaitForCompletion };
        let intended_ns = self.next_due_ns;
        if counted {
            self.issued += 1;
            if self.gap_ns > 0 {
                self.next_due_ns += self.gap_ns;
            }
        }
        self.in_flight[index as usize] = Some(InFlight { operation, zone, blocks, intended_ns, counted });
        WorkerRequest::Submit(Command {
            tag: self.first_tag + index,
            queue: self.queue,
            operation,
            zone,
            block: u64::from(zone) * self.zone_blocks + offset,
            blocks,
        })
    }

    #[inline]
    pub(crate) fn complete(&mut self, completion: &Completion) {
        let index = completion.tag - self.first_tag;
        let Some(done) = self.in_flight[index as usize].take() else { return };
        self.free.push(index);
        match completion.result {
            Ok(_) => {
                self.refused_in_a_row = 0;
                self.count(&done, completion);
            }
            Err(fault) => self.refused(&done, completion.completed_ns, fault),
        }
        if self.phase != Phase::Flow {
            if completion.result.is_ok() {
                self.keep_pointer(&done);
            }
            self.advance(&done, completion);
        }
    }

    /// Returns how far the worker's own commands wrote its zones, if it writes; `None` for lost zones.
    pub(crate) fn written(&self) -> Vec<(u32, Option<u64>)> {
        let lost = self.tally.lost.iter().filter(|(_, fault)| fault.loses_zone()).map(|(zone, _)| (*zone, None));
        let left = self.left.iter().map(|place| (place.zone, Some(place.pointer)));
        let own = self.places.iter().map(|place| (place.zone, Some(place.pointer)));
        if self.actor.spec.op.reads() { lost.collect() } else { own.chain(left).chain(lost).collect() }
    }

    #[inline]
    fn count(&mut self, done: &InFlight, completion: &Completion) {
        let by_time = self.end_ns != u64::MAX;
        if done.counted && done.blocks == 0 {
            self.tally.shares += self.share_within(completion);
        }
        if by_time && (completion.completed_ns < self.count_from_ns || completion.completed_ns >= self.end_ns) {
            self.tally.late += u64::from(done.counted && completion.completed_ns >= self.end_ns);
            return self.give_back(done.counted, completion.completed_ns);
        }
        self.tally.record(done.operation, completion.completed_ns - completion.submitted_ns);
        if !done.counted {
            return;
        }
        let bytes = u64::from(done.blocks) * u64::from(self.block_bytes);
        self.tally.commands += 1;
        self.tally.bytes += bytes;
        self.first_counted_ns = self.first_counted_ns.min(completion.submitted_ns);
        self.last_counted_ns = completion.completed_ns;
        if self.gap_ns > 0 {
            let latency = completion.completed_ns.saturating_sub(done.intended_ns);
            self.tally.from_intended.get_or_insert_default().record(latency);
        }
        if bytes > 0 {
            let second = (completion.completed_ns.saturating_sub(self.count_from_ns) / 1_000_000_000) as usize;
            if second >= self.tally.per_second.len() {
                self.tally.per_second.resize(second + 1, 0);
            }
            self.tally.per_second[second] += bytes;
        }
    }

    /// Returns the share of a command within the measured time, 0 to 1.
    fn share_within(&self, completion: &Completion) -> f64 {
        let (begin, end) = (completion.submitted_ns, completion.completed_ns.max(completion.submitted_ns + 1));
        let within = end.min(self.end_ns).saturating_sub(begin.max(self.count_from_ns));
        within as f64 / (end - begin) as f64
    }

    /// Returns the counters; an early end of all workers, or of this one, shortens the measured time.
    pub(crate) fn finish(mut self, now_ns: u64) -> (usize, Tally) {
        let by_time = self.end_ns != u64::MAX;
        self.tally.counted_ns = if by_time {
            self.end_ns.min(self.ended_ns).min(now_ns).saturating_sub(self.count_from_ns)
        } else {
            self.last_counted_ns.saturating_sub(self.first_counted_ns)
        };
        (usize::from(self.queue), self.tally)
    }
}
