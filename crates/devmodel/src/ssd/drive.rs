//! A drive with a flash translation layer: commands in, completion times out.

use super::collisions::Collisions;
use super::flash::{Units, ns};
use super::map::{Counters, Map};
use super::mapping_cache::MappingCache;
use super::parameters::{Flash, PAGE, Placement};
use crate::Device;
use crate::request::{Operation, Request, SECTOR};

/// The host's knowledge about a write beyond its address (die affinity; Jun et al., FAST '24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hint {
    #[default]
    None,
    /// Continues a file whose last page so far is this logical page.
    Behind(u64),
    Overwrite,
}

#[derive(Debug, Clone)]
pub struct Drive {
    flash: Flash,
    map: Map,
    units: Units,
    cache: Option<MappingCache>,
    /// Unit of the next page in round-robin placement.
    turn: u32,
    collisions: Collisions,
    last_done: u64,
}

impl Drive {
    /// Creates an empty drive; its parameters must have been checked.
    pub fn new(flash: &Flash) -> Self {
        let translations = flash.logical_pages().div_ceil(MappingCache::ENTRIES);
        Self {
            map: Map::new(flash),
            units: Units::new(flash),
            cache: flash.mapping_cache_bytes.map(|bytes| MappingCache::new(bytes, translations)),
            turn: 0,
            collisions: Collisions::new(flash.geometry.dies()),
            last_done: 0,
            flash: flash.clone(),
        }
    }

    pub fn map(&self) -> &Map {
        &self.map
    }

    pub fn counters(&self) -> Counters {
        self.map.counters()
    }

    /// Returns the die-collision index of the reads so far; `None` if the flash was not read.
    pub fn collision_index(&self) -> Option<f64> {
        self.collisions.index()
    }

    /// Writes pages without taking time, to prepare a drive for a measurement; ignores pages beyond its capacity. The hint is for
    /// the first page.
    pub fn prepare(&mut self, logical: impl IntoIterator<Item = u64>, hint: Hint) {
        let (mut hint, pages) = (hint, self.flash.logical_pages());
        for page in logical.into_iter().filter(|page| *page < pages) {
            let unit = self.unit(page, hint);
            let physical = self.map.write(page, unit, &mut ());
            self.written(physical);
            hint = Hint::None;
        }
    }

    /// Applies a write or discard without taking time; reads and flushes change nothing.
    pub fn prepare_request(&mut self, request: &Request) {
        match request.operation {
            Operation::Write => self.prepare(self.pages(request.offset(), request.end()), Hint::None),
            Operation::Discard => self.discard(request),
            Operation::Read | Operation::Flush => {}
        }
    }

    fn discard(&mut self, request: &Request) {
        let pages = request.offset().div_ceil(PAGE)..(request.end() / PAGE).min(self.flash.logical_pages());
        pages.for_each(|page| self.map.discard(page));
    }

    /// Completes all work and resets the clock to 0.
    pub fn rest(&mut self) {
        self.units = Units::new(&self.flash);
        self.last_done = 0;
    }

    /// Returns the die-collision index of sequential reads of these pages; `None` if the flash would not be read.
    pub fn collision_index_of(&self, runs: impl IntoIterator<Item = std::ops::Range<u64>>) -> Option<f64> {
        let mut collisions = Collisions::new(self.flash.geometry.dies());
        self.dies_of(runs).into_iter().for_each(|die| collisions.read(die));
        collisions.index()
    }

    /// Returns the die of each flash read when these pages are read in sequence.
    pub fn dies_of(&self, runs: impl IntoIterator<Item = std::ops::Range<u64>>) -> Vec<u32> {
        let mut dies = Vec::new();
        for pages in runs {
            let mut page = pages.start;
            while page < pages.end {
                let (physical, count) = self.run(page, pages.end);
                page += u64::from(count);
                dies.extend(physical.map(|physical| self.map.shape().die(physical)));
            }
        }
        dies
    }

    /// Serves a request with a hint that reaches the drive at `at_ns`, not before the last served one. Returns the completion
    /// time.
    pub fn serve_hinted(&mut self, request: &Request, hint: Hint, at_ns: u64) -> u64 {
        self.clean_while_idle(at_ns);
        self.units.advance(at_ns);
        let done = match request.operation {
            Operation::Read => self.read(request, at_ns),
            Operation::Write => self.write(request, hint, at_ns),
            Operation::Discard => {
                self.discard(request);
                at_ns + ns(self.flash.firmware.write_us)
            }
            Operation::Flush => self.units.programmed.max(at_ns) + ns(self.flash.firmware.write_us),
        };
        self.last_done = self.last_done.max(done);
        done
    }

    fn pages(&self, offset: u64, end: u64) -> std::ops::Range<u64> {
        let end = end.div_ceil(PAGE).min(self.flash.logical_pages());
        (offset / PAGE).min(end)..end
    }

    fn read(&mut self, request: &Request, at: u64) -> u64 {
        let mut done = at;
        let mut offset = request.offset();
        while offset < request.end() {
            let end = request.end().min(offset + self.flash.largest_command_bytes);
            done = done.max(self.read_command(self.pages(offset, end), at));
            offset = end;
        }
        done
    }

    fn read_command(&mut self, pages: std::ops::Range<u64>, at: u64) -> u64 {
        let small = pages.end - pages.start <= 1;
        let firmware = &self.flash.firmware;
        let start = at + ns(if small { firmware.read_4k_us } else { firmware.read_us });
        let start = self.translate(pages.clone(), false, start);
        let mut done = start;
        let mut page = pages.start;
        while page < pages.end {
            let (physical, count) = self.run(page, pages.end);
            page += u64::from(count);
            let Some(physical) = physical else {
                // Unwritten, or still in the buffer: only the interface is used.
                done = done.max(self.units.interface.transfer(start, u64::from(count) * PAGE));
                continue;
            };
            let slc = self.map.is_slc(physical);
            self.collisions.read(self.map.shape().die(physical));
            done = done.max(self.units.fetch(self.map.shape(), physical, count, slc, true, start));
        }
        done
    }

    /// Pages from `page` on that one flash read fetches, or that need none: physical page of the first one, and count.
    fn run(&self, page: u64, end: u64) -> (Option<u32>, u32) {
        let place = |page: u64| self.map.physical(page).filter(|physical| !self.map.is_buffered(*physical));
        let first = place(page);
        let same = |other: Option<u32>| match (first, other) {
            (Some(a), Some(b)) => self.units.read_unit(a) == self.units.read_unit(b),
            (None, None) => true,
            _ => false,
        };
        let count = (page + 1..end).take_while(|next| same(place(*next))).count() as u32 + 1;
        (first, count)
    }

    fn write(&mut self, request: &Request, hint: Hint, at: u64) -> u64 {
        let (mut done, mut hint) = (at, hint);
        let mut offset = request.offset();
        while offset < request.end() {
            let end = request.end().min(offset + self.flash.largest_command_bytes);
            done = self.write_command(self.pages(offset, end), hint, at).max(done);
            // Following pages continue where this one ended.
            hint = if hint == Hint::Overwrite { hint } else { Hint::None };
            offset = end;
        }
        done
    }

    fn write_command(&mut self, pages: std::ops::Range<u64>, hint: Hint, at: u64) -> u64 {
        let (count, firmware) = (pages.end - pages.start, &self.flash.firmware);
        let start = at + ns(firmware.write_us + firmware.write_page_us * count as f64);
        let start = self.translate(pages.clone(), true, start);
        let carried = self.units.interface.transfer(start, count * PAGE);
        let accepted = self.units.buffer(count * PAGE, carried);
        self.units.now = accepted;
        let mut hint = hint;
        for page in pages {
            let unit = self.unit(page, hint);
            let physical = self.map.write(page, unit, &mut self.units);
            self.written(physical);
            hint = Hint::None;
        }
        accepted
    }

    fn unit(&mut self, page: u64, hint: Hint) -> u32 {
        let shape = self.map.shape();
        match (self.flash.placement, hint) {
            (Placement::RoundRobin, _) => return 0,
            (Placement::ByAddress, _) => return ((page / u64::from(shape.slots)) % u64::from(shape.units)) as u32,
            (Placement::DieAffinity, Hint::None) => {}
            (Placement::DieAffinity, Hint::Behind(last)) => {
                if let Some(physical) = self.map.physical(last) {
                    self.turn = (shape.die(physical) + 1) % shape.units;
                }
            }
            (Placement::DieAffinity, Hint::Overwrite) => {
                if let Some(physical) = self.map.physical(page) {
                    self.turn = shape.die(physical);
                }
            }
        }
        self.turn
    }

    fn written(&mut self, physical: u32) {
        let shape = self.map.shape();
        if physical % shape.slots == shape.slots - 1 {
            self.turn = (self.turn + 1) % shape.units;
        }
    }

    fn translate(&mut self, pages: std::ops::Range<u64>, dirties: bool, at: u64) -> u64 {
        let Some(cache) = &mut self.cache else { return at };
        let mut ready = at;
        for translation in pages.start / MappingCache::ENTRIES..pages.end.div_ceil(MappingCache::ENTRIES) {
            let missed = cache.touch(translation, dirties);
            if let Some(evicted) = missed.dirty {
                self.units.write_table(evicted, at);
            }
            if missed.missed {
                ready = ready.max(self.units.read_table(translation, at));
            }
        }
        ready
    }

    /// Collects garbage between commands, as far as it fits into the gap before `until`.
    fn clean_while_idle(&mut self, until: u64) {
        let wanted = self.flash.collection.idle_ready_blocks as usize;
        let from = self.last_done.max(self.units.programmed) + ns(self.flash.collection.idle_after_ms * 1e3);
        if wanted == 0 || from >= until {
            return;
        }
        self.units.advance(from);
        for unit in 0..self.map.shape().units {
            while self.map.wants_cleaning(unit, wanted) {
                self.units.now = self.units.dies.iter().copied().max().unwrap_or(from).max(from);
                if self.units.now >= until || !self.map.clean(unit, &mut self.units) {
                    break;
                }
            }
        }
    }
}

impl Device for Drive {
    /// Serves a request; a trace of a larger device wraps around.
    fn serve(&mut self, request: &Request, at_ns: u64) -> u64 {
        let sectors = (self.flash.capacity_bytes / SECTOR).max(1);
        let start_sector = request.start_sector % sectors;
        let left = u32::try_from(sectors - start_sector).unwrap_or(u32::MAX);
        self.serve_hinted(&Request { start_sector, sectors: request.sectors.min(left), ..*request }, Hint::None, at_ns)
    }
}
