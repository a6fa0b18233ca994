//! Dies, channels and the link: where reads wait for programs.
//!
//! A die senses a page, then holds it until its channel has transferred it. A program's data cross the channel first;
//! then it runs in segments that cannot be interrupted. Between two segments a die serves reads for a limited time,
//! after which the program has to repeat some work. A program without reads is a single event.

mod dispatch;
mod releases;
mod stops;

use super::channel::{Channel, Load};
use super::events::{EventKind, EventQueue};
use super::model::{FlashModel, GarbageModel, ReadModel, at, ns};
use super::noise::Noise;
use super::padding::Padding;
use super::placement::PAGE_SHIFT;
use releases::Releases;
use senesce_core::Seed;
use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// Data of the host; they leave the buffer when the program starts.
    Host,
    /// Parity or padding that needs no buffer.
    Extra,
    Garbage,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PageRead {
    pub slot: u32,
    /// Size class of channel and link times: KiB.
    pub kib: u32,
    pub slow: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Busy {
    Idle,
    Reading,
    Programming,
}

#[derive(Debug)]
struct Die {
    busy: Busy,
    reading: PageRead,
    reads: VecDeque<PageRead>,
    program: Option<Program>,
    load: Option<Load>,
    /// Remaining work of the program; 0: not started.
    work_left: u64,
    segment: u64,
    /// Length of the first segment; later ones have length `segment`.
    first: u64,
    segment_start: u64,
    stamp: u32,
    /// Reads came since the last segment of the program.
    interrupted: bool,
    /// When the last segment ended.
    gap_start: u64,
    /// Begin and end of the last read.
    read: (u64, u64),
}

#[derive(Debug)]
pub(crate) struct Flash {
    dies: Vec<Die>,
    channels: Vec<Channel>,
    link_free: u64,
    stopped_until: u64,
    erasing_until: u64,
    pulse_period: u64,
    pulse_length: u64,
    /// Programs in order, with their zones; the first goes to the next free die in turn.
    queue: VecDeque<(Program, u32)>,
    padding: Padding,
    next_die: u32,
    free_dies: u32,
    /// Bytes in the buffer whose programs have not started.
    pub buffered: u64,
    /// Garbage-collection programs since the last count.
    pub collected: u32,
    unit: u64,
    /// Bytes released from the buffer at a time.
    release: u64,
    releases: Releases,
    sense: [u64; 2],
    channel_by_kib: Vec<u64>,
    channel_ns_per_kib: f64,
    /// (per command, per KiB) of the drive's link and of the path; the slower one applies.
    links: [(f64, f64); 2],
    link_by_kib: Vec<u64>,
    load: u64,
    program: u64,
    program_spread: f64,
    first_segment: u64,
    segment: u64,
    segment_spread: f64,
    garbage_reads: u64,
    suspend: u64,
    gap: u64,
    redo: u64,
    noise: Noise,
}

fn link(links: &[(f64, f64); 2], kib: u32) -> u64 {
    let [drive, way] = links.map(|(command, per_kib)| command + per_kib * f64::from(kib));
    drive.max(way) as u64
}

impl Flash {
    /// Creates the flash; `way` is the (command, KiB) time in microseconds of the path to the drive.
    pub(crate) fn new(
        flash: &FlashModel,
        read: &ReadModel,
        garbage: Option<&GarbageModel>,
        way: (f64, f64),
        seed: Seed,
    ) -> Self {
        let die = || Die {
            busy: Busy::Idle,
            reading: PageRead { slot: 0, kib: 0, slow: false },
            reads: VecDeque::with_capacity(64),
            program: None,
            load: None,
            work_left: 0,
            segment: 1,
            first: 1,
            segment_start: 0,
            stamp: 0,
            interrupted: false,
            gap_start: 0,
            read: (0, 0),
        };
        let links = [(read.link_us * 1000.0, read.link_us_per_kib * 1000.0), (way.0 * 1000.0, way.1 * 1000.0)];
        let load = ns(flash.load_us_per_kib * f64::from(flash.unit_kib));
        let page = ns(flash.load_us_per_kib * f64::from(1 << (PAGE_SHIFT - 10)));
        Self {
            dies: (0..flash.dies).map(|_| die()).collect(),
            channels: vec![Channel::new(page); flash.channels as usize],
            link_free: 0,
            stopped_until: 0,
            erasing_until: 0,
            pulse_period: ns(flash.erase_pulse_period_us),
            pulse_length: ns(flash.erase_pulse_us),
            queue: VecDeque::with_capacity(256),
            next_die: 0,
            free_dies: flash.dies,
            padding: Padding::default(),
            buffered: 0,
            collected: 0,
            unit: u64::from(flash.unit_kib) << 10,
            release: u64::from(flash.release_kib) << 10,
            releases: Releases::new(flash),
            sense: [ns(read.sense_fast_us), ns(read.sense_slow_us)],
            channel_by_kib: (0..=16).map(|kib| ns(at(&read.channel_us, f64::from(kib)))).collect(),
            channel_ns_per_kib: read.channel_us_per_kib * 1000.0,
            links,
            link_by_kib: (0..=16).map(|kib| link(&links, kib)).collect(),
            load,
            program: ns(flash.program_us),
            program_spread: flash.program_spread,
            first_segment: ns(flash.first_segment_us),
            segment: ns(flash.segment_us),
            segment_spread: flash.segment_spread,
            garbage_reads: garbage.map_or(0, |model| ns(model.read_us)),
            suspend: ns(flash.suspend_us),
            gap: ns(flash.gap_us),
            redo: ns(flash.redo_us),
            noise: Noise::new(seed, "zoned/sim/programs"),
        }
    }

    pub(crate) fn dies(&self) -> u32 {
        self.dies.len() as u32
    }

    /// Returns the bytes of one program.
    pub(crate) fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns the share of dies that are programming or have a program waiting.
    pub(crate) fn programming_share(&self) -> f64 {
        f64::from(self.dies() - self.free_dies) / f64::from(self.dies())
    }

    /// Erases for a reset until the given time, in pulses that block reads.
    pub(crate) fn erase(&mut self, until: u64) {
        self.erasing_until = self.erasing_until.max(until);
    }

    /// Returns the waiting time of a read for the erase pulse of its die; dies take turns. A pulse that came due during
    /// a read begins now.
    #[inline]
    fn pulse(&self, now: u64, die: u32) -> u64 {
        if now >= self.erasing_until || self.pulse_period == 0 {
            return 0;
        }
        let phase = (now + u64::from(die) * self.pulse_period / self.dies.len() as u64) % self.pulse_period;
        let (from, until) = self.dies[die as usize].read;
        let due = now - phase.min(now);
        let postponed = (from..until).contains(&due);
        if postponed { self.pulse_length } else { self.pulse_length.saturating_sub(phase) }
    }

    #[inline]
    pub(crate) fn read(&mut self, now: u64, die: u32, read: PageRead, events: &mut EventQueue) {
        let target = &mut self.dies[die as usize];
        target.reads.push_back(read);
        match target.busy {
            Busy::Idle => self.dispatch(now, die, events),
            Busy::Programming if target.reads.len() == 1 => self.interrupt(now, die, events),
            _ => {}
        }
    }

    pub(crate) fn program(&mut self, now: u64, zone: u32, program: Program, events: &mut EventQueue) {
        self.queue.push_back((program, zone));
        self.feed(now, events);
    }

    pub(crate) fn pad(&mut self, now: u64, slot: u32, bytes: u64, events: &mut EventQueue) {
        self.padding.begin(slot, bytes.div_ceil(self.unit));
        self.release_before(now);
        self.feed(now, events);
    }

    /// Takes a finish whose last padding was assigned to a die.
    #[inline]
    pub(crate) fn padded(&mut self) -> Option<u32> {
        self.padding.done.pop()
    }

    fn next_program(&mut self) -> Option<Program> {
        if self.padding.waits(&self.queue) {
            return Some(Program::Extra);
        }
        self.queue.pop_front().map(|(program, _)| program)
    }

    /// Returns all dies; empty if none has a program.
    fn with_programs(&self) -> std::ops::Range<u32> {
        0..if self.free_dies < self.dies() { self.dies() } else { 0 }
    }

    /// Returns the next die in turn without a program.
    fn free_die(&self) -> Option<u32> {
        if self.free_dies == 0 {
            return None;
        }
        let next = self.next_die as usize;
        let free = |die: &Die| die.program.is_none();
        let after = self.dies[next..].iter().position(free).map(|step| next + step);
        after.or_else(|| self.dies[..next].iter().position(free)).map(|die| die as u32)
    }

    #[inline]
    pub(crate) fn has_padded(&self) -> bool {
        !self.padding.done.is_empty()
    }

    fn feed(&mut self, now: u64, events: &mut EventQueue) {
        if now < self.stopped_until {
            return;
        }
        while !self.queue.is_empty() || self.padding.is_active() {
            let Some(die) = self.free_die() else { return };
            let Some(program) = self.next_program() else { return };
            self.next_die = (die + 1) % self.dies();
            self.free_dies -= 1;
            self.dies[die as usize].program = Some(program);
            if program == Program::Host {
                self.buffered = self.buffered.saturating_sub(self.release);
                self.releases.begin(now);
            }
            if self.load > 0 {
                self.load(now, die, events);
            } else if self.dies[die as usize].busy == Busy::Idle {
                self.dispatch(now, die, events);
            }
        }
    }

    #[inline]
    fn channel(&mut self, die: u32) -> &mut Channel {
        let index = die as usize % self.channels.len();
        &mut self.channels[index]
    }

    fn load(&mut self, now: u64, die: u32, events: &mut EventQueue) {
        let time = self.load;
        let load = self.channel(die).load(now, time);
        let end = self.channel(die).end_of(&load);
        self.dies[die as usize].load = Some(load);
        events.push(end, EventKind::Loaded, die, 0);
    }

    /// Handles the end of a transfer: the data of a die's program have crossed, unless reads delayed them.
    pub(crate) fn loaded(&mut self, now: u64, die: u32, events: &mut EventQueue) {
        let Some(load) = self.dies[die as usize].load else { return };
        let end = self.channel(die).end_of(&load);
        if end > now {
            return events.push(end, EventKind::Loaded, die, 0);
        }
        self.dies[die as usize].load = None;
        if self.dies[die as usize].busy == Busy::Idle {
            self.dispatch(now, die, events);
        }
    }

    /// Handles the end of sensing: the die has sensed its page, and both wait for the channel.
    #[inline]
    pub(crate) fn sensed(&mut self, now: u64, die: u32, events: &mut EventQueue) {
        let kib = self.dies[die as usize].reading.kib;
        let time = match self.channel_by_kib.get(kib as usize) {
            Some(time) => *time,
            None => self.channel_by_kib[16] + (f64::from(kib - 16) * self.channel_ns_per_kib) as u64,
        };
        let sent = self.channel(die).read(now, time);
        events.push(sent, EventKind::Sent, die, 0);
    }

    /// Handles a page that has crossed the channel: it crosses the link, and the die is free. Returns the command and
    /// when its page has left the link.
    #[inline]
    pub(crate) fn sent(&mut self, now: u64, die: u32, events: &mut EventQueue) -> (u32, u64) {
        let target = &mut self.dies[die as usize];
        target.busy = Busy::Idle;
        target.read.1 = now;
        let PageRead { slot, kib, .. } = target.reading;
        let link = self.link_by_kib.get(kib as usize).copied().unwrap_or_else(|| link(&self.links, kib));
        self.link_free = now.max(self.link_free) + link;
        self.dispatch(now, die, events);
        (slot, self.link_free)
    }

    pub(crate) fn programmed(&mut self, now: u64, die: u32, stamp: u32, events: &mut EventQueue) {
        let target = &mut self.dies[die as usize];
        if target.busy != Busy::Programming || target.stamp != stamp {
            return;
        }
        target.work_left = target.work_left.saturating_sub(now - target.segment_start);
        target.busy = Busy::Idle;
        target.gap_start = now;
        if target.work_left == 0 {
            if target.program.take() == Some(Program::Garbage) {
                self.collected += 1;
            }
            self.free_dies += 1;
            self.feed(now, events);
            if self.dies[die as usize].busy != Busy::Idle {
                return;
            }
        }
        self.dispatch(now, die, events);
    }
}

#[cfg(test)]
mod tests;
