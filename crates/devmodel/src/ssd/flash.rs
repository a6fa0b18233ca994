//! Timing of dies, channels and interface.

use super::bus::Bus;
use super::map::{MapGeometry, Work};
use super::parameters::{Flash, PAGE};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(crate) fn ns(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

#[derive(Debug, Clone)]
struct Reads {
    whole: Vec<u64>,
    small: Vec<u64>,
    slc: u64,
}

/// Times are ns.
#[derive(Debug, Clone)]
pub(crate) struct Units {
    pub dies: Vec<u64>,
    channels: Vec<Bus>,
    pub interface: Bus,
    reads: Reads,
    program: u64,
    program_slc: u64,
    erase: u64,
    transfer_bytes: u64,
    pages_per_read: u32,
    pub now: u64,
    /// When the pages moved last had been read.
    moved_ready: u64,
    /// When the last program ends.
    pub programmed: u64,
    /// Releases of the write buffer: time and bytes.
    buffered: BinaryHeap<Reverse<(u64, u64)>>,
    buffer_free: u64,
    buffer_bytes: u64,
}

impl Units {
    pub(crate) fn new(flash: &Flash) -> Self {
        let (geometry, timing) = (&flash.geometry, &flash.timing);
        let times = |us: &[f64]| us.iter().map(|us| ns(*us)).collect();
        let slc = flash.slc_cache.as_ref();
        Self {
            dies: vec![0; geometry.dies() as usize],
            channels: vec![Bus::new(timing.channel_mib_per_s); geometry.channels as usize],
            interface: Bus::new(timing.interface_mib_per_s),
            reads: Reads {
                whole: times(&timing.read_us),
                small: times(&timing.read_4k_us),
                slc: slc.map_or(0, |cache| ns(cache.read_us)),
            },
            program: ns(timing.program_us),
            program_slc: slc.map_or(0, |cache| ns(cache.program_us)),
            erase: ns(timing.erase_us),
            transfer_bytes: timing.channel_transfer_bytes,
            pages_per_read: geometry.pages_per_read(),
            now: 0,
            moved_ready: 0,
            programmed: 0,
            buffered: BinaryHeap::new(),
            buffer_free: flash.write_buffer_bytes,
            buffer_bytes: flash.write_buffer_bytes,
        }
    }

    pub(crate) fn advance(&mut self, now: u64) {
        self.channels.iter_mut().for_each(|bus| bus.forget_before(now));
        self.interface.forget_before(now);
        self.now = now;
    }

    /// Returns the index of the unit that reads a physical page together with others.
    pub(crate) fn read_unit(&self, physical: u32) -> u32 {
        physical / self.pages_per_read
    }

    /// Reads `pages` with one read of a die; returns when the host (`host`) or the controller has them.
    pub(crate) fn fetch(
        &mut self,
        shape: &MapGeometry,
        physical: u32,
        pages: u32,
        slc: bool,
        host: bool,
        at: u64,
    ) -> u64 {
        let bytes = u64::from(pages) * PAGE;
        let die = shape.die(physical) as usize;
        let channel = die % self.channels.len();
        let start = self.dies[die].max(at);
        let mut ready = start + self.read_time(shape, physical, pages, slc);
        let (mut left, mut done) = (bytes, ready);
        while left > 0 {
            let piece = left.min(self.transfer_bytes);
            ready = self.channels[channel].transfer(ready, piece);
            done = if host { self.interface.transfer(ready, piece) } else { ready };
            left -= piece;
        }
        self.dies[die] = ready;
        done
    }

    fn read_time(&self, shape: &MapGeometry, physical: u32, pages: u32, slc: bool) -> u64 {
        if slc {
            return self.reads.slc;
        }
        let times = if pages == 1 { &self.reads.small } else { &self.reads.whole };
        // Pages of a block are LSB, (CSB,) MSB in turn.
        let page =
            shape.row(physical) * (shape.slots / self.pages_per_read) + physical % shape.slots / self.pages_per_read;
        times[page as usize % times.len()]
    }

    /// Reads a page of map entries; they are spread over the dies by number.
    pub(crate) fn read_table(&mut self, page: u64, at: u64) -> u64 {
        let die = (page % self.dies.len() as u64) as usize;
        let read = self.dies[die].max(at) + self.reads.small[0];
        let channel = die % self.channels.len();
        self.dies[die] = self.channels[channel].transfer(read, PAGE);
        self.dies[die]
    }

    /// Writes a page of map entries; no command waits for it.
    pub(crate) fn write_table(&mut self, page: u64, at: u64) {
        let die = (page % self.dies.len() as u64) as usize;
        let channel = die % self.channels.len();
        self.dies[die] = self.channels[channel].transfer(self.dies[die].max(at), PAGE) + self.program;
    }

    /// Returns when the write buffer has space for `bytes`, not before `at`; reserves it.
    pub(crate) fn buffer(&mut self, bytes: u64, at: u64) -> u64 {
        let mut when = at;
        while let Some(Reverse((time, freed))) = self.buffered.peek().copied() {
            if time > when && self.buffer_free >= bytes {
                break;
            }
            when = when.max(time);
            // Pages written without taking time were never in the buffer.
            self.buffer_free = (self.buffer_free + freed).min(self.buffer_bytes);
            self.buffered.pop();
        }
        self.buffer_free = self.buffer_free.saturating_sub(bytes);
        when
    }

    fn start_program(&mut self, shape: &MapGeometry, physical: u32, slc: bool, from: u64) -> u64 {
        let die = shape.die(physical) as usize;
        let channel = die % self.channels.len();
        let start = self.dies[die].max(from);
        let carried = self.channels[channel].transfer(start, u64::from(shape.slots) * PAGE);
        let end = carried + if slc { self.program_slc } else { self.program };
        self.dies[die] = end;
        self.programmed = self.programmed.max(end);
        end
    }
}

impl Work for Units {
    fn program(&mut self, shape: &MapGeometry, physical: u32, slc: bool, host_pages: u32) {
        let from = if host_pages < shape.slots { self.now.max(self.moved_ready) } else { self.now };
        let end = self.start_program(shape, physical, slc, from);
        if host_pages > 0 {
            self.buffered.push(Reverse((end, u64::from(host_pages) * PAGE)));
        }
    }

    fn read(&mut self, shape: &MapGeometry, physical: u32, pages: u32, slc: bool) {
        // One program may take several reads.
        let (mut left, mut page) = (pages, physical);
        while left > 0 {
            let count = left.min(self.pages_per_read);
            let done = self.fetch(shape, page, count, slc, false, self.now);
            self.moved_ready = self.moved_ready.max(done);
            left -= count;
            page += self.pages_per_read;
        }
    }

    fn erase(&mut self, shape: &MapGeometry, block: u32) {
        let first = block / shape.blocks * shape.dies;
        for die in &mut self.dies[first as usize..(first + shape.dies) as usize] {
            *die = self.now.max(*die) + self.erase;
        }
    }
}
