//! Dies, channels and the link: where reads wait for programs.
//!
//! A die senses a page, then holds it until its channel has carried it away. A program runs in segments that cannot be
//! interrupted; between two segments a die serves a few reads. A program that no read disturbs is one event.

use super::events::{EventQueue, Kind};
use super::model::{FlashModel, GarbageModel, ReadModel, at, ns};
use std::collections::VecDeque;

/// What a program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Data of the host; they leave the buffer when the program starts.
    Host,
    /// Parity or padding that needs no buffer.
    Extra,
    /// A copy of the garbage collector.
    Garbage,
}

/// One page to be read.
#[derive(Debug, Clone, Copy)]
pub struct PageRead {
    /// The command it belongs to.
    pub slot: u32,
    /// Channel and link time class: KiB to carry.
    pub kib: u32,
    /// Whether it is of the kind that takes longer to sense.
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
    /// The program it runs or is to run next.
    program: Option<Program>,
    segments_left: u32,
    segment_start: u64,
    stamp: u32,
    /// Reads came between two segments of its program.
    interrupted: bool,
    reads_since_segment: u32,
}

/// All dies with their channels and the link.
#[derive(Debug)]
pub struct Flash {
    dies: Vec<Die>,
    channel_free: Vec<u64>,
    link_free: u64,
    stopped_until: u64,
    /// Programs in their order; each waits for its die, and those behind it wait for it.
    queue: VecDeque<(u32, Program)>,
    /// Bytes that wait in the buffer for a program to start.
    pub buffered: u64,
    /// Copies of the garbage collector that were programmed since they were last counted.
    pub collected: u32,
    unit: u64,
    sense: [u64; 2],
    channel_by_kib: Vec<u64>,
    channel_ns_per_kib: f64,
    /// (per command, per KiB) of the drive's link and of the way to it; the slower one is felt.
    links: [(f64, f64); 2],
    segment: u64,
    segments: u32,
    garbage_segments: u32,
    resume: u64,
    reads_between: u32,
}

impl Flash {
    /// Idle dies. `way` is the (command, KiB) time in microseconds of the way to the drive.
    pub fn new(flash: &FlashModel, read: &ReadModel, garbage: Option<&GarbageModel>, way: (f64, f64)) -> Self {
        let die = || Die {
            busy: Busy::Idle,
            reading: PageRead { slot: 0, kib: 0, slow: false },
            reads: VecDeque::with_capacity(64),
            program: None,
            segments_left: 0,
            segment_start: 0,
            stamp: 0,
            interrupted: false,
            reads_since_segment: 0,
        };
        Self {
            dies: (0..flash.dies).map(|_| die()).collect(),
            channel_free: vec![0; flash.channels as usize],
            link_free: 0,
            stopped_until: 0,
            queue: VecDeque::with_capacity(256),
            buffered: 0,
            collected: 0,
            unit: u64::from(flash.unit_kib) << 10,
            sense: [ns(read.sense_fast_us), ns(read.sense_slow_us)],
            channel_by_kib: (0..=16).map(|kib| ns(at(&read.channel_us, f64::from(kib)))).collect(),
            channel_ns_per_kib: read.channel_us_per_kib * 1000.0,
            links: [(read.link_us * 1000.0, read.link_us_per_kib * 1000.0), (way.0 * 1000.0, way.1 * 1000.0)],
            segment: ns(flash.segment_us),
            segments: flash.segments,
            garbage_segments: garbage.map_or(0, |model| model.read_segments),
            resume: ns(flash.resume_us),
            reads_between: flash.reads_between_segments,
        }
    }

    /// Number of dies.
    pub fn dies(&self) -> u32 {
        self.dies.len() as u32
    }

    /// Bytes of one program.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Time of one undisturbed program.
    pub fn program_ns(&self) -> u64 {
        self.segment * u64::from(self.segments)
    }

    /// Share of dies that are programming or have a program waiting.
    pub fn programming_share(&self) -> f64 {
        let busy = self.dies.iter().filter(|die| die.program.is_some()).count();
        busy as f64 / self.dies.len() as f64
    }

    /// A page read arrives at a die.
    #[inline]
    pub fn read(&mut self, now: u64, die: u32, read: PageRead, events: &mut EventQueue) {
        let target = &mut self.dies[die as usize];
        target.reads.push_back(read);
        match target.busy {
            Busy::Idle => self.dispatch(now, die, events),
            Busy::Programming if target.reads.len() == 1 => self.interrupt(now, die, events),
            _ => {}
        }
    }

    /// A program joins the queue.
    pub fn program(&mut self, now: u64, die: u32, program: Program, events: &mut EventQueue) {
        self.queue.push_back((die, program));
        self.feed(now, events);
    }

    /// Hands programs to their dies in order, up to the first whose die is taken.
    fn feed(&mut self, now: u64, events: &mut EventQueue) {
        while let Some((die, program)) = self.queue.front().copied() {
            let target = &mut self.dies[die as usize];
            if target.program.is_some() {
                return;
            }
            self.queue.pop_front();
            target.program = Some(program);
            if program == Program::Host {
                self.buffered = self.buffered.saturating_sub(self.unit);
            }
            if self.dies[die as usize].busy == Busy::Idle {
                self.dispatch(now, die, events);
            }
        }
    }

    /// No program starts or goes on for `duration` ns from now on; those before it add up.
    pub fn stop_programs(&mut self, now: u64, duration: u64, events: &mut EventQueue) {
        self.stopped_until = self.stopped_until.max(now) + duration;
        events.push(self.stopped_until, Kind::Resume, 0, 0);
        for die in 0..self.dies() {
            if self.dies[die as usize].busy == Busy::Programming {
                self.interrupt(now, die, events);
            }
        }
    }

    /// Programs may go on, unless another reset stopped them again.
    pub fn resume(&mut self, now: u64, events: &mut EventQueue) {
        if now < self.stopped_until {
            return;
        }
        for die in 0..self.dies() {
            if self.dies[die as usize].busy == Busy::Idle {
                self.dispatch(now, die, events);
            }
        }
    }

    /// The die has sensed its page: the page waits for the channel, the die with it.
    #[inline]
    pub fn sensed(&mut self, now: u64, die: u32, events: &mut EventQueue) {
        let kib = self.dies[die as usize].reading.kib;
        let time = match self.channel_by_kib.get(kib as usize) {
            Some(time) => *time,
            None => self.channel_by_kib[16] + (f64::from(kib - 16) * self.channel_ns_per_kib) as u64,
        };
        let channel = die as usize % self.channel_free.len();
        let sent = now.max(self.channel_free[channel]) + time;
        self.channel_free[channel] = sent;
        events.push(sent, Kind::Sent, die, 0);
    }

    /// The channel has carried the page: it crosses the link, the die is free. Returns the page's command and when the
    /// page has left the link.
    #[inline]
    pub fn sent(&mut self, now: u64, die: u32, events: &mut EventQueue) -> (u32, u64) {
        let target = &mut self.dies[die as usize];
        target.busy = Busy::Idle;
        let PageRead { slot, kib, .. } = target.reading;
        let [drive, way] = self.links.map(|(command, per_kib)| command + per_kib * f64::from(kib));
        let link = drive.max(way) as u64;
        self.link_free = now.max(self.link_free) + link;
        self.dispatch(now, die, events);
        (slot, self.link_free)
    }

    /// The die reaches the end of a segment or of its program.
    pub fn programmed(&mut self, now: u64, die: u32, stamp: u32, events: &mut EventQueue) {
        let segment = self.segment;
        let target = &mut self.dies[die as usize];
        if target.busy != Busy::Programming || target.stamp != stamp {
            return;
        }
        let done = ((now - target.segment_start) / segment) as u32;
        target.segments_left = target.segments_left.saturating_sub(done);
        target.busy = Busy::Idle;
        target.reads_since_segment = 0;
        if target.segments_left == 0 {
            if target.program.take() == Some(Program::Garbage) {
                self.collected += 1;
            }
            self.feed(now, events);
            if self.dies[die as usize].busy != Busy::Idle {
                return;
            }
        }
        self.dispatch(now, die, events);
    }

    /// Lets the running program stop at the end of its present segment.
    fn interrupt(&mut self, now: u64, die: u32, events: &mut EventQueue) {
        let target = &mut self.dies[die as usize];
        let passed = now.saturating_sub(target.segment_start).div_ceil(self.segment).max(1);
        if passed >= u64::from(target.segments_left) {
            return;
        }
        target.stamp = (target.stamp + 1) & 0xff_ffff;
        events.push(target.segment_start + passed * self.segment, Kind::Programmed, die, target.stamp);
    }

    /// Gives an idle die its next work.
    fn dispatch(&mut self, now: u64, die: u32, events: &mut EventQueue) {
        let may_program = now >= self.stopped_until;
        let target = &mut self.dies[die as usize];
        let program_waits = may_program && target.program.is_some();
        let read_next = !target.reads.is_empty() && (!program_waits || target.reads_since_segment < self.reads_between);
        if read_next {
            let Some(read) = target.reads.pop_front() else { return };
            target.busy = Busy::Reading;
            target.reading = read;
            target.reads_since_segment += 1;
            target.interrupted = target.segments_left > 0;
            events.push(now + self.sense[usize::from(read.slow)], Kind::Sensed, die, 0);
        } else if program_waits {
            self.start_program(now, die, events);
        }
    }

    fn start_program(&mut self, now: u64, die: u32, events: &mut EventQueue) {
        let target = &mut self.dies[die as usize];
        if target.segments_left == 0 {
            let garbage = target.program == Some(Program::Garbage);
            target.segments_left = self.segments + if garbage { self.garbage_segments } else { 0 };
        }
        target.busy = Busy::Programming;
        target.segment_start = now + if target.interrupted { self.resume } else { 0 };
        target.interrupted = false;
        target.stamp = (target.stamp + 1) & 0xff_ffff;
        let run = if target.reads.is_empty() { target.segments_left } else { 1 };
        events.push(target.segment_start + u64::from(run) * self.segment, Kind::Programmed, die, target.stamp);
    }
}
